package generator

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// favourThread gives the calling thread the core and the priority that the options ask for.
func (o *SenderOptions) favourThread(number int) error {
	if len(o.Cores) > 0 {
		var set unix.CPUSet
		core := o.Cores[number%len(o.Cores)]
		set.Set(core)
		if err := unix.SchedSetaffinity(0, &set); err != nil || !set.IsSet(core) {
			return fmt.Errorf("keep to core %d: %w: give one that this process may use",
				core, errors.Join(err, ErrOptions))
		}
	}
	if o.Realtime {
		if err := runFirst(true); err != nil {
			return fmt.Errorf("run before others: %w: it needs root, or CAP_SYS_NICE", err)
		}
	}
	return nil
}

// runFirst gives the calling thread priority over all other threads that want its core, or takes
// that priority away.
func runFirst(first bool) error {
	attr := unix.SchedAttr{Policy: unix.SCHED_NORMAL, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if first {
		// The lowest real-time priority beats everything but the kernel's own watchdogs.
		attr.Policy, attr.Priority = unix.SCHED_FIFO, 1
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return unix.SchedSetAttr(0, &attr, 0)
}

// The kernel lets real-time threads have 950 ms of each second, and stops them for the other 50 ms,
// even if nothing else waits for their core (sched_rt_runtime_us). So if a thread sleeps less than
// a tenth of the time, it gives up its priority for 5 ms after each 45 ms. Then the kernel never
// stops it for 50 ms at once. On a core of its own, the thread runs on even without priority.
const (
	firstFor_s = 45e-3
	amongFor_s = 5e-3
)

// priorityTurns decides when its thread has priority over others. Only that thread uses it.
type priorityTurns struct {
	wanted       bool
	hz           float64
	among        bool
	begun, until uint64 // counter at the turn's begin and at its end; 0: there was no turn yet
	ran_ns       int64  // processor time of the thread when the turn began
}

// beginTurn begins the next turn once the current one is over.
func (t *priorityTurns) beginTurn(now uint64) {
	if !t.wanted || now < t.until {
		return
	}
	const maxShare = firstFor_s / (firstFor_s + amongFor_s)
	ran_ns, length_s := processorTime_ns(), firstFor_s
	switch {
	case t.until == 0: // favour has just given the thread its priority
	case t.among:
		t.among = false
		_ = runFirst(true) // this worked before; if it fails now, late tuples are counted
	case float64(ran_ns-t.ran_ns)/1e9 > maxShare*float64(now-t.begun)/t.hz:
		t.among, length_s = true, amongFor_s // the thread slept less than a tenth of its turn
		_ = runFirst(false)
	}
	t.begun, t.until, t.ran_ns = now, now+uint64(length_s*t.hz), ran_ns
}

// processorTime_ns returns the processor time of the calling thread.
func processorTime_ns() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// checkFavour checks before a run whether favourThread will work. It tries favourThread on a thread
// that ends with the check.
func (o *SenderOptions) checkFavour() error {
	if len(o.Cores) == 0 && !o.Realtime {
		return nil
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		var errs []error
		for i := range max(1, len(o.Cores)) {
			errs = append(errs, o.favourThread(i))
		}
		result <- errors.Join(errs...)
	}()
	return <-result
}
