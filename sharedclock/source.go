package sharedclock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// ErrSource is returned for a source that this machine does not have, or that cannot be used.
var ErrSource = errors.New("clock cannot be used")

// A Source is an open clock. Any goroutine may read it.
type Source struct {
	name string

	// step_ns limits reading.step_ns: a reading with a larger step is not used.
	step_ns uint32

	read  func(clock *minrtt.Clock) (reading, bool)
	close func() error
}

// reading says that the clock's exact value was in [at, at + step] while the counter was in
// [before, after].
type reading struct {
	before_cycles uint64
	at_ns         int64
	step_ns       uint32
	after_cycles  uint64
}

// Settings are what an operator states about a source. Nothing on this machine can prove these
// statements.
type Settings struct {
	// Name names the clock. Nodes that give the same name read one clock, or clocks that differ by
	// at most Error.
	Name string

	// Error is the largest difference between the exact values of the clocks that nodes read under
	// this name. Error is 0 if all these nodes read one clock.
	Error time.Duration

	// Wander_ppm is how much, at any moment of a train, the clock's rate may differ from the mean
	// rate during the train.
	Wander_ppm float64
}

// DefaultWander_ppm is twice the rate at which the kernel's own discipline can slew a clock.
const DefaultWander_ppm = 1000

// The limits of Settings.
const (
	maxError      = time.Millisecond / 4
	maxWander_ppm = 100_000
)

// Validate returns an error that names the first invalid field.
func (s Settings) Validate() error {
	switch {
	case s.Name == "":
		return errors.New("name: it is empty: name the clock, as all nodes that read it do")
	case s.Error < 0 || s.Error > maxError:
		return fmt.Errorf("error: %v is not between 0 and %v", s.Error, maxError)
	case !(s.Wander_ppm >= 0 && s.Wander_ppm <= maxWander_ppm):
		return fmt.Errorf("wander: %v ppm is not between 0 and %d ppm", s.Wander_ppm, maxWander_ppm)
	}
	return nil
}

// Open opens a source: a path such as /dev/ptp0 or /dev/vmclock0, or the name of a clock page.
func Open(name string) (*Source, error) {
	s := &Source{name: name, close: func() error { return nil }}
	var err error
	switch {
	case name == KVM || name == HyperV:
		var page vmPage
		if page, err = openPage(name); err == nil {
			s.read = readInside(func() (int64, uint32, bool) { return page.readPage(asm.Counter) })
		}
	case strings.HasPrefix(name, "/dev/vmclock"):
		var page *vmClock
		if page, err = openVMClock(name); err == nil {
			s.read = readInside(func() (int64, uint32,
				bool) {
				return page.readEarliest(asm.Counter)
			})
			s.close = page.file.Close
		}
	case strings.HasPrefix(name, "/dev/"):
		var d *ptpDevice
		if d, err = openPTP(name); err == nil {
			s.read, s.close = newPHC(d).read, d.Close
		}
	default:
		err = fmt.Errorf("use a path such as /dev/ptp0 or /dev/vmclock0, %q or %q: %w",
			KVM, HyperV, ErrSource)
	}
	if err == nil {
		// Read the clock once, so that a clock that cannot be read is refused at once.
		counter := minrtt.Clock{Counter: asm.Counter}
		r, ok := s.read(&counter)
		if !ok {
			err = errors.Join(fmt.Errorf("it shows no time: %w", ErrSource), s.close())
		}
		s.step_ns = 2 * r.step_ns // what a page states about its error grows with time
	}
	if err != nil {
		return nil, fmt.Errorf("open shared clock %q: %w", name, err)
	}
	return s, nil
}

// readInside reads a clock between two readings of the node's counter.
func readInside(
	read func() (at_ns int64, step_ns uint32, ok bool),
) func(*minrtt.Clock) (reading, bool) {
	return func(clock *minrtt.Clock) (r reading, ok bool) {
		r.before_cycles = clock.Counter()
		r.at_ns, r.step_ns, ok = read()
		r.after_cycles = clock.Counter()
		return r, ok
	}
}

// Share returns the source in the form that package minrtt uses. The parameter clock has the node's
// counter.
func (s *Source) Share(clock minrtt.Clock, settings Settings) *minrtt.SharedClock {
	error_ns := settings.Error.Nanoseconds()
	return &minrtt.SharedClock{
		Name: settings.Name, Step_ns: s.step_ns + uint32(2*error_ns),
		Wander_ppb: uint32(settings.Wander_ppm * 1000),
		Read: func() (uint64, int64, uint64, bool) {
			r, ok := s.read(&clock)
			return r.before_cycles, r.at_ns - error_ns, r.after_cycles, ok && r.step_ns <= s.step_ns
		},
	}
}

// String returns the source's name.
func (s *Source) String() string { return s.name }

// Close closes the source.
func (s *Source) Close() error { return s.close() }
