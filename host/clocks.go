package host

import "fmt"

// Clocks are the counter and the clocks of a node. Code that uses them never sleeps, and takes the
// time from nowhere else. The zero value is not usable. SystemClocks returns the machine's own.
type Clocks struct {
	EdgeOpen     func() uint64
	EdgeClose    func() uint64
	Raw_ns       func() (int64, error) // CLOCK_MONOTONIC_RAW
	Monotonic_ns func() (int64, error) // CLOCK_MONOTONIC
	Boottime_ns  func() (int64, error) // CLOCK_BOOTTIME
}

// One try may be interrupted, but hardly each of several.
const bracketTries = 16

// Bracket reads CLOCK_MONOTONIC_RAW between two readings of the counter and returns the narrowest
// of several tries. Readings on two cores may disagree by the core slack. If the thread is not
// pinned, the two readings of the narrowest try rarely come from two cores.
func (c Clocks) Bracket() (Bracket, error) {
	var narrowest Bracket
	for try := range bracketTries {
		open := c.EdgeOpen()
		raw_ns, err := c.Raw_ns()
		if err != nil {
			return Bracket{}, fmt.Errorf("read CLOCK_MONOTONIC_RAW: %w", err)
		}
		b := Bracket{open, raw_ns, c.EdgeClose()}
		if try == 0 || b.Width_cycles() < narrowest.Width_cycles() {
			narrowest = b
		}
	}
	return narrowest, nil
}

// Slept_ns returns how long the machine has slept since it was booted. The error is at most the
// time that the call takes: some hundred nanoseconds, and more if the thread is interrupted. It is
// for programs that must check often. A Watch checks more.
func (c Clocks) Slept_ns() (int64, error) {
	awake_ns, err := c.Monotonic_ns()
	if err != nil {
		return 0, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
	}
	boot_ns, err := c.Boottime_ns()
	if err != nil {
		return 0, fmt.Errorf("read CLOCK_BOOTTIME: %w", err)
	}
	return boot_ns - awake_ns, nil
}

// suspended returns the narrowest interval that contains CLOCK_BOOTTIME minus CLOCK_MONOTONIC. This
// is the time that the machine has slept.
func (c Clocks) suspended() (lo_ns, hi_ns int64, err error) {
	for try := range bracketTries {
		before, err := c.Monotonic_ns()
		if err != nil {
			return 0, 0, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
		}
		boot, err := c.Boottime_ns()
		if err != nil {
			return 0, 0, fmt.Errorf("read CLOCK_BOOTTIME: %w", err)
		}
		after, err := c.Monotonic_ns()
		if err != nil {
			return 0, 0, fmt.Errorf("read CLOCK_MONOTONIC: %w", err)
		}
		if try == 0 || after-before < hi_ns-lo_ns {
			// Each reading is rounded down to a nanosecond.
			lo_ns, hi_ns = boot-after-1, boot-before+1
		}
	}
	return lo_ns, hi_ns, nil
}
