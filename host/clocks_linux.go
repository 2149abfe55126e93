package host

import (
	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// SystemClocks returns the counter and the clocks of this machine. Any goroutine may use them.
func SystemClocks() Clocks {
	read := func(clock int32) func() (int64, error) {
		return func() (int64, error) {
			var t unix.Timespec
			err := unix.ClockGettime(clock, &t)
			return t.Nano(), err
		}
	}
	return Clocks{
		EdgeOpen: asm.EdgeOpen, EdgeClose: asm.EdgeClose,
		Raw_ns: read(unix.CLOCK_MONOTONIC_RAW), Monotonic_ns: read(unix.CLOCK_MONOTONIC),
		Boottime_ns: read(unix.CLOCK_BOOTTIME),
	}
}
