// Package sharedclock reads clocks that several nodes can read. If two nodes read the same clock,
// their readings are a further constraint on the relation of their counters (minrtt.SharedClock).
//
//	Open        opens a source by its name
//	OpenStamps  opens the clock by which a network interface stamps packets. This is a PTP clock,
//	            too, but it need not be shared (minrtt.HardwareClock)
//
// These are the sources, and what each assumes. No source is used unless an operator names it: the
// package can read a clock, but it cannot prove that another machine reads the same one.
//
//	/dev/ptpN      A PTP clock of the kernel. ptp_kvm and the PTP clocks of Hyper-V and VMware
//	               show the host's clock, which all guests of the host share. Any other PTP clock
//	               belongs to a network interface, and the interface's virtual functions share
//	               it. The clocks of two interfaces count as one clock only if something
//	               disciplines both, within an error that the operator must state.
//	               PTP_SYS_OFFSET_PRECISE and PTP_SYS_OFFSET_EXTENDED narrow the moment of a
//	               reading. They assume that the kernel pairs the clock correctly with
//	               CLOCK_REALTIME. If the time of CLOCK_REALTIME in a pair lies outside of the
//	               call, the pair is not used.
//	/dev/vmclockN  The page of a hypervisor that states UTC as a function of the counter. It
//	               assumes that the hypervisor keeps the page true, within the largest error that
//	               the page states or that the operator states.
//	kvm-clock      The page that KVM gives each virtual machine. For each machine it counts from
//	               a zero of its own, which only the host knows. So it says nothing about two
//	               machines, and no effort inside of them can change that. Only nodes of one
//	               virtual machine share it.
//	hyperv         The page that Hyper-V gives each virtual machine, with the same limit.
//
// All sources also assume what minrtt.SharedClock assumes: nobody sets the clock during a train,
// and its rate hardly moves during a train. Package tscclient compares what a shared clock says
// with what packets prove, and refuses a clock that contradicts them.
//
// The package does not decide which nodes share a clock, sets no clock, and disciplines none.
package sharedclock
