package bench

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// pinToCore keeps this goroutine on one core until the returned function is called.
func pinToCore(core int) (unpin func(), err error) {
	runtime.LockOSThread()
	var before, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("pin to core %d: %w", core, err)
	}
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("pin to core %d: %w", core, err)
	}
	return func() {
		// If the affinity cannot be restored, the thread ends with its goroutine.
		if unix.SchedSetaffinity(0, &before) == nil {
			runtime.UnlockOSThread()
		}
	}, nil
}
