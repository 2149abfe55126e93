package tscratio

import (
	"fmt"
	"math"
)

// Between returns the duration from an event at reading x of Into's counter to one at reading y of
// From's, in cycles of Into. Quantum and core slack of both nodes are included.
func (r *Relation) Between(x, y uint64) (Span, error) {
	at, err := r.Translate(y)
	if err != nil {
		return Span{}, err
	}
	return at.Minus(At(x))
}

// SameNode returns the duration between two events, both at readings of From's counter, in cycles
// of Into.
//
// The rate gives the best bound for short durations, and the two translated ends for long ones. The
// result is the intersection of both.
func (r *Relation) SameNode(first, second uint64) (Span, error) {
	for _, y := range []uint64{first, second} {
		if !r.limits.Contains(y) {
			return Span{}, r.beyond(y)
		}
	}
	d, err := r.From.lasted(first, second)
	if err != nil {
		return Span{}, err
	}
	byRate, errRate := r.scale(first, d)
	from, errFrom := r.count(r.From.counts(At(first)))
	to, errTo := r.count(r.From.counts(At(second)))
	if errFrom != nil || errTo != nil {
		return byRate, errRate // a step of the counter would cross the limits
	}
	byEnds, err := to.Minus(from)
	if err != nil || errRate != nil {
		return byEnds, err // the rate may be known around either end, but not between
	}
	both := byRate.Intersect(byEnds)
	if !both.Valid() {
		return Span{}, fmt.Errorf("duration on %q from %d to %d is %v by rate and %v by its "+
			"ends: %w", r.From.Name, first, second, byRate, byEnds, ErrAssumption)
	}
	return both, nil
}

// errorCycles is how far a duration between two readings of the node may be off: they may come from
// two cores and from anywhere within their steps.
func (n Node) errorCycles() int64 { return int64(n.QuantumCycles + n.CoreSlackCycles) }

// lasted returns the time between events at two readings of the node, in the node's own cycles.
func (n Node) lasted(first, second uint64) (Span, error) {
	d, ok := difference(second, first)
	e := n.errorCycles()
	if most := math.MaxInt64 - e; !ok || d > most || d < -most {
		return Span{}, fmt.Errorf("measure the time from %d to %d of %q: %w",
			first, second, n.Name, ErrOutOfRange)
	}
	return Span{d - e, d + e}, nil
}

// scale returns in cycles of Into a duration of d cycles of From's count. It begins at y, give or
// take quantum and core slack.
func (r *Relation) scale(y uint64, d Span) (Span, error) {
	ends := func(d int64) (lo, hi int64, err error) {
		length := uint64(d)
		if d < 0 {
			length = uint64(-d)
		}
		l, h, err := r.passed(y, length, d >= 0)
		if err != nil {
			return 0, 0, err
		}
		if h > math.MaxInt64 {
			return 0, 0, fmt.Errorf("duration of %d cycles from %d of %q: %w",
				d, y, r.From.Name, ErrOutOfRange)
		}
		if d < 0 {
			return -int64(h), -int64(l), nil
		}
		return int64(l), int64(h), nil
	}
	lo, _, err := ends(d.Lo)
	if err != nil {
		return Span{}, err
	}
	_, hi, err := ends(d.Hi)
	if err != nil {
		return Span{}, err
	}
	return Span{lo, hi}, nil
}

// maxSteps is the largest number of steps that a duration is cut into. A window takes some seconds,
// so only durations of half a day or more are cut more coarsely than into windows. A program that
// logs a counter of its own making may give a duration of centuries.
const maxSteps = 4096

// passed returns the least and the most cycles of Into that pass while From counts length cycles,
// forwards or backwards from y. It goes window by window, each by the rate of the knot in its
// middle.
func (r *Relation) passed(y, length uint64, forward bool) (lo, hi uint64, err error) {
	limit := down(r.limits.Hi, y)
	if !forward {
		limit = down(y, r.limits.Lo)
	}
	if length > up(limit, uint64(r.From.errorCycles())) {
		if forward {
			return 0, 0, r.beyond(up(y, length))
		}
		return 0, 0, r.beyond(down(y, length))
	}
	longest := max(r.windowCycles, length/maxSteps+1)
	for length > 0 {
		step := min(length, longest)
		from, to := y, up(y, step)
		if !forward {
			from, to = down(y, step), y
		}
		rate, err := r.rateOver(from, to)
		if err != nil {
			return 0, 0, err
		}
		l, _ := rate.Lo.times(step)
		_, h := rate.Hi.times(step)
		lo, hi, length = up(lo, l), up(hi, h), length-step
		y = to
		if !forward {
			y = from
		}
	}
	return lo, hi, nil
}
