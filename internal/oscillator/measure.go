package oscillator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A Kind says how a clock depends on the oscillator that drives the counter.
type Kind int

const (
	// Same: the clock is made from the counter, and so moves with it.
	Same Kind = iota

	// Steered: the clock is made from the counter, or from the oscillator that drives the counter,
	// and follows another clock. A comparison also shows this steering.
	Steered

	// Independent: the clock has an oscillator of its own.
	Independent
)

func (k Kind) String() string {
	return [...]string{"same oscillator", "steered", "independent"}[k]
}

// A Clock is something with which the counter is compared. The goroutine that calls Measure calls
// Read.
type Clock struct {
	Name    string
	Kind    Kind
	Why     string                // reason why the clock is of this Kind
	Read    func() (int64, error) // returns ns; a reading may be late by up to Step_ns
	Step_ns uint64                // at least 1
	Close   func() error          // nil if there is nothing to close
}

// Options say how to measure. All fields are required.
type Options struct {
	// Open and Close read the counter. Open reads it before any later instruction starts. Close
	// reads it after all earlier instructions are done.
	Open, Close func() uint64
	Wait        func(time.Duration) // waits between two looks; a look reads each clock
	Hz          uint64              // nominal rate of the counter
	Quantum     uint64              // step in which the counter moves, in cycles
	// Slack is the number of cycles by which the counters of two cores may differ. It is 0 if all
	// readings are taken on one core.
	Slack  uint64
	Window time.Duration // half-length of a window
	Span   time.Duration // length of the measurement: at least 2·Window
	Every  time.Duration // time from one look to the next: at most Window/10
}

// A Result is what the comparison with one clock shows.
type Result struct {
	Clock Clock

	// Refuted is the wander that the clock refutes. If the clock is what its Kind says, counter and
	// clock together wander by at least this.
	Refuted tscratio.Wander

	// Unseen is, roughly, the largest wander that the comparison would not notice.
	Unseen tscratio.Wander

	Looks      int
	Bracket_ns float64 // median time between the two readings of the counter in a look
	Err        error   // reason why there is no result
}

// readingTries is how often each look reads the clock. Something may interrupt a reading, so the
// look keeps the reading that took the least time.
const readingTries = 12

// Measure compares the counter with the clocks, for as long as o.Span says. If looked is not nil,
// Measure calls it after each look.
func Measure(ctx context.Context, o Options, clocks []Clock, looked func(done, of int)) ([]Result,
	error) {
	if o.Span < 2*o.Window || o.Every <= 0 || o.Every > o.Window/10 {
		return nil, fmt.Errorf("measure wander: a span of %v with looks every %v for windows of "+
			"±%v: want two windows at least, and ten looks in each", o.Span, o.Every, o.Window)
	}
	pairs := make([]*tscratio.Pair, len(clocks))
	results := make([]Result, len(clocks))
	widths := make([][]uint64, len(clocks))
	for i, c := range clocks {
		results[i].Clock = c
		counter := tscratio.Node{Name: "counter", Nominal_hz: o.Hz, Quantum_cycles: o.Quantum,
			CoreSlack_cycles: o.Slack}
		clock := tscratio.Node{Name: c.Name, Nominal_hz: 1e9, Quantum_cycles: max(1, c.Step_ns)}
		var err error
		if pairs[i], err = tscratio.NewPair(counter, clock, noAssumptions(o.Window)); err != nil {
			return nil, fmt.Errorf("measure wander against %q: %w", c.Name, err)
		}
	}
	looks := int(o.Span/o.Every) + 1
	for n := range looks {
		if n > 0 {
			o.Wait(o.Every)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for i, c := range clocks {
			if results[i].Err != nil {
				continue
			}
			width, err := look(o, c, pairs[i])
			if err != nil {
				results[i].Err = err
				continue
			}
			widths[i] = append(widths[i], width)
		}
		if looked != nil {
			looked(n+1, looks)
		}
	}
	for i := range results {
		results[i].conclude(o, pairs[i], widths[i])
	}
	return results, nil
}

// noAssumptions returns assumptions for a pair that computes no bounds. The pair only shows which
// wander its constraints refute.
func noAssumptions(window time.Duration) tscratio.Assumptions {
	return tscratio.Assumptions{Wander: 0, Window: window, ExtrapolationLimit: window,
		MaxWander: 1000 * tscratio.PPM}
}

// look reads the clock several times, each time between two readings of the counter. It adds to the
// pair only the reading that took the least time.
func look(o Options, c Clock, pair *tscratio.Pair) (width_cycles uint64, err error) {
	var open, closed uint64
	var at int64
	for try := range readingTries {
		first := o.Open()
		ns, err := c.Read()
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", c.Name, err)
		}
		last := o.Close()
		if try == 0 || last-first < closed-open {
			open, at, closed = first, ns, last
		}
	}
	if at < 0 || closed < open {
		return 0, fmt.Errorf("%s shows %d, between %d and %d of the counter",
			c.Name, at, open, closed)
	}
	err = pair.Add(tscratio.Train{OneWay: []tscratio.Constraint{
		{Kind: tscratio.Lower, B: uint64(at), A: open},
		{Kind: tscratio.Upper, B: uint64(at), A: closed},
	}})
	return closed - open, err
}

func (r *Result) conclude(o Options, pair *tscratio.Pair, widths []uint64) {
	r.Looks = len(widths)
	if r.Err != nil {
		return
	}
	slices.Sort(widths)
	half := widths[len(widths)/2]
	r.Bracket_ns = float64(half) / float64(o.Hz) * 1e9
	// If the rate changes by d in the middle of a window, the readings depart from a straight line
	// by d·W/2, where W is Options.Window. The comparison notices this departure if it exceeds the
	// width of a look.
	open_ns := r.Bracket_ns + float64(r.Clock.Step_ns) +
		float64(o.Quantum+o.Slack)/float64(o.Hz)*1e9
	r.Unseen = tscratio.Wander(2 * open_ns / float64(o.Window.Nanoseconds()) * 1e12)
	relation, err := pair.Relate(tscratio.SideA, 0)
	var refuted *tscratio.RefutedError
	switch {
	case err == nil:
		r.Refuted = relation.Least
	case errors.As(err, &refuted):
		r.Refuted = refuted.Least
	default:
		r.Err = err
	}
}

// Advice returns the wander to assume for a pair of machines like this one, and whether any clock
// justifies it. A relation is consistent if the assumed wander is at least twice the wander that
// independent clocks refute. Advice doubles this value again, because temperature may change more
// on other days. It returns at least twice the largest wander that the clocks could not notice, and
// at least 100 ppb. Without an independent clock it returns the default wander. The result is for a
// pair: half of it is the share of one machine.
func Advice(results []Result) (w tscratio.Wander, justified bool) {
	for _, r := range results {
		if r.Err != nil || r.Clock.Kind != Independent {
			continue
		}
		justified = true
		w = max(w, 4*r.Refuted, 2*r.Unseen)
	}
	if !justified {
		return tscratio.DefaultAssumptions().Wander, false
	}
	return roundUp(max(w, 100*tscratio.PPB)), true
}

// roundUp rounds w up to a value that is 1, 2 or 5 times a power of ten.
func roundUp(w tscratio.Wander) tscratio.Wander {
	for power := tscratio.Wander(1); ; power *= 10 {
		for _, factor := range []tscratio.Wander{1, 2, 5} {
			if factor*power >= w {
				return factor * power
			}
		}
	}
}
