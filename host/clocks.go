package host

import "fmt"

// Clocks contains functions that read the counter and the clocks of a node. Code that gets Clocks
// as an argument must not sleep, and must read no other clock. The zero value is not usable.
// SystemClocks returns this machine's clocks.
type Clocks struct {
	EdgeOpen     func() uint64
	EdgeClose    func() uint64
	Raw_ns       func() (int64, error) // CLOCK_MONOTONIC_RAW
	Monotonic_ns func() (int64, error) // CLOCK_MONOTONIC
	Boottime_ns  func() (int64, error) // CLOCK_BOOTTIME
}

// bracketTries is the number of tries of Bracket. It is so large that interrupts hardly ever
// disturb all of them.
const bracketTries = 16

// Bracket reads CLOCK_MONOTONIC_RAW between two readings of the counter. It returns the narrowest
// of several tries. If the thread is not pinned to a core, the two readings of the counter may come
// from different cores, whose counters may disagree by the core slack. But the narrowest try is
// seldom one in which the thread moved to another core.
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

// Slept_ns returns how long the machine has slept since it was booted. The result is wrong by at
// most the time that the call takes: some hundred nanoseconds, or more if the thread is
// interrupted. Slept_ns is for programs that must check often, and that do not need all that a
// Watch finds out.
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

// suspendedTime returns the narrowest interval that contains CLOCK_BOOTTIME minus CLOCK_MONOTONIC.
// This difference is the time that the machine has slept.
func (c Clocks) suspendedTime() (lo_ns, hi_ns int64, err error) {
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
			// The kernel rounds each reading down to a nanosecond.
			lo_ns, hi_ns = boot-after-1, boot-before+1
		}
	}
	return lo_ns, hi_ns, nil
}
