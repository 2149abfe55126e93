package generator

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// favour puts the calling thread where the options want it.
func (o *SenderOptions) favour(number int) error {
	if len(o.Cores) > 0 {
		var set unix.CPUSet
		core := o.Cores[number%len(o.Cores)]
		set.Set(core)
		if err := unix.SchedSetaffinity(0, &set); err != nil || !set.IsSet(core) {
			return fmt.Errorf("keep to core %d: %w: give one that this process may use", core, errors.Join(err, ErrOptions))
		}
	}
	if o.Realtime {
		if err := runFirst(true); err != nil {
			return fmt.Errorf("run before others: %w: it needs root, or CAP_SYS_NICE", err)
		}
	}
	return nil
}

// runFirst has the calling thread run before all others that want its core, or again as one of them.
func runFirst(first bool) error {
	attr := unix.SchedAttr{Policy: unix.SCHED_NORMAL, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	if first {
		attr.Policy, attr.Priority = unix.SCHED_FIFO, 1 // the lowest: it comes before everything else but the kernel's own watchdogs
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return unix.SchedSetAttr(0, &attr, 0)
}

// The kernel lets real-time threads have 950 ms of each second, and then stops them for the other 50, whether somebody waits for their core
// or not (sched_rt_runtime_us). So a thread that does not sleep a tenth of the time by itself is one among others in between: for less at a
// time, and on a core of its own nobody takes that.
const (
	firstFor_s = 45e-3
	amongFor_s = 5e-3
)

// turns are when a thread runs before others. It belongs to the thread.
type turns struct {
	wanted       bool
	hz           float64
	among        bool
	begun, until uint64 // counter, of the turn; 0: there was none
	ran_ns       int64  // processor time of the thread when the turn began
}

// look takes the next turn if it is time.
func (t *turns) look(now uint64) {
	if !t.wanted || now < t.until {
		return
	}
	ran_ns, length_s := processorTime_ns(), firstFor_s
	switch {
	case t.until == 0: // the thread has been favoured just now
	case t.among:
		t.among = false
		_ = runFirst(true) // it could be done once; if not again, the sender is late and says so
	case float64(ran_ns-t.ran_ns)/1e9 > firstFor_s/(firstFor_s+amongFor_s)*float64(now-t.begun)/t.hz:
		t.among, length_s = true, amongFor_s
		_ = runFirst(false)
	}
	t.begun, t.until, t.ran_ns = now, now+uint64(length_s*t.hz), ran_ns
}

// processorTime_ns is that of the calling thread.
func processorTime_ns() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// favourable tells before a run whether favour will work, on a thread that ends with it.
func (o *SenderOptions) favourable() error {
	if len(o.Cores) == 0 && !o.Realtime {
		return nil
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		var errs []error
		for i := range max(1, len(o.Cores)) {
			errs = append(errs, o.favour(i))
		}
		result <- errors.Join(errs...)
	}()
	return <-result
}
