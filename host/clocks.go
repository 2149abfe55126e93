package host

import "fmt"

// Clocks are the counter and the clocks of a node. Nothing here sleeps or looks elsewhere for the
// time. The zero value is not usable; SystemClocks gives the machine's own.
type Clocks struct {
	EdgeOpen     func() uint64
	EdgeClose    func() uint64
	Raw_ns       func() (int64, error) // CLOCK_MONOTONIC_RAW
	Monotonic_ns func() (int64, error) // CLOCK_MONOTONIC
	Boottime_ns  func() (int64, error) // CLOCK_BOOTTIME
}

// One reading may be interrupted; the narrowest of several is not.
const bracketTries = 16

// Bracket reads CLOCK_MONOTONIC_RAW between two readings of the counter and returns the narrowest
// of several tries. Readings on two cores may disagree by the core slack; the narrowest try of an
// unpinned thread rarely has two.
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

// Slept_ns is how long the machine has slept since it was booted, to within what this takes: some
// hundred nanoseconds, and longer where the thread is interrupted. It is for who must look often; a
// Watch looks at more.
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

// suspended returns the narrowest span that CLOCK_BOOTTIME less CLOCK_MONOTONIC lies in: the time
// that the machine has slept.
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
			lo_ns, hi_ns = boot-after-1, boot-before+1 // each reading is rounded down to a nanosecond
		}
	}
	return lo_ns, hi_ns, nil
}
