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
		// The lowest of its priorities: it comes before everything else but the kernel's own watchdogs.
		attr := unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
		attr.Size = uint32(unsafe.Sizeof(attr))
		if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
			return fmt.Errorf("run before others: %w: it needs root, or CAP_SYS_NICE", err)
		}
	}
	return nil
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
