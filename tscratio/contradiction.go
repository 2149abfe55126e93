package tscratio

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault names the way in which the counters broke an assumption.
type Fault uint8

const (
	// RateMoved: the rate moved further than the wander allows.
	RateMoved Fault = iota + 1

	// Stepped: one counter jumped relative to the other between two trains. The constraints before
	// the jump are consistent with each other, and so are those after it. The cause is a reset or a
	// migration during an epoch, or false stamps.
	Stepped

	// RanBackwards: according to the constraints, a counter's later reading is smaller than its
	// earlier one. Two counters that run forwards never produce such constraints. The cause is a
	// reset, or a step back that is longer than the time between trains.
	RanBackwards
)

func (f Fault) String() string {
	switch f {
	case RateMoved:
		return "rate moved"
	case Stepped:
		return "step"
	case RanBackwards:
		return "ran backwards"
	}
	return fmt.Sprintf("fault %d", uint8(f))
}

// Contradiction is a place where the constraints refute the requested wander.
type Contradiction struct {
	Fault Fault
	From  string // the node of the readings in At
	Into  string // the other node
	// At is the interval in which the constraints refute the wander most clearly, in cycles of
	// From.
	At    Interval
	Asked Wander // the requested wander
	Least Wander // the smallest wander that the constraints at this place allow

	// Jump_cycles is how far Into's counter jumped. It is set for Stepped only.
	Jump_cycles Elapsed
}

func (c Contradiction) String() string {
	s := fmt.Sprintf("%v between %q and %q, from %d to %d of %q: constraints need a wander of "+
		"%v, %v was asked for",
		c.Fault, c.From, c.Into, c.At.Lo, c.At.Hi, c.From, c.Least, c.Asked)
	if c.Fault == Stepped {
		s += fmt.Sprintf("; %q jumped by %v cycles", c.Into, c.Jump_cycles)
	}
	return s
}

// RefutedError is returned if the smallest wander that the constraints allow is more than half of
// MaxWander. A relation would have to use twice this wander. But the pair may have dropped
// constraints that matter only for a wander above MaxWander, so there is no such relation.
type RefutedError struct {
	Least, Max     Wander
	Contradictions []Contradiction
}

func (e *RefutedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "constraints refute a wander below %v; twice that is above w_max %v",
		e.Least, e.Max)
	for _, c := range e.Contradictions {
		b.WriteString("; ")
		b.WriteString(c.String())
	}
	return b.String()
}

// Unwrap returns ErrWanderAboveMax.
func (e *RefutedError) Unwrap() error { return ErrWanderAboveMax }

// contradictions returns, in order, the places where the constraints refute w. If several places
// are at most W apart, it returns only the one with the strongest evidence.
func (e *evidence) contradictions(places []uint64, w Wander) []Contradiction {
	var cs []Contradiction
	e.eachWindow(places, func(within Interval, k int64) {
		chords, ok := e.chordsWithin(&e.points, within)
		if !ok || chords.leastWander()/Wander(k) <= w {
			return
		}
		c := e.contradiction(chords, within, k, w)
		// Windows overlap, so most contradictions show in several windows, wholly or in part.
		for i := range cs {
			if c.At.Lo <= up(cs[i].At.Hi, e.window_cycles) &&
				cs[i].At.Lo <= up(c.At.Hi, e.window_cycles) {
				if cs[i].Least < c.Least {
					cs[i] = c
				}
				return
			}
		}
		cs = append(cs, c)
	})
	slices.SortFunc(cs, func(x, y Contradiction) int { return cmp.Compare(x.At.Lo, y.At.Lo) })
	return cs
}

// contradiction finds out what is wrong in a window of k times the stated length whose chords
// refute w.
func (e *evidence) contradiction(cs chords, within Interval, k int64, w Wander) Contradiction {
	at := cs.shorterChord()
	c := Contradiction{
		Fault: RateMoved, From: e.from.Name, Into: e.into.Name,
		At: Interval{at.from, at.to}, Asked: w, Least: cs.leastWander() / Wander(k),
	}
	if at, ok := e.backwardsReadings(within); ok {
		c.Fault, c.At = RanBackwards, at
		return c
	}
	if needed, _ := e.windowFactor(within.Mid()); k > max(needed, 1) {
		return c // the window is so long that a moving rate may look like a step
	}
	// Call the contradiction a step only if neither the constraints before the shorter chord nor
	// those after it refute the wander, and both sides allow the same rate.
	total := w.multiplyBy(k)
	left, right := Interval{within.Lo, at.from}, Interval{at.to, within.Hi}
	for _, t := range e.trains {
		if t.Contains(at.from) {
			left.Hi = max(left.Hi, t.Hi)
		}
		if t.Contains(at.to) {
			right.Lo = min(right.Lo, t.Lo)
		}
	}
	if left.Hi >= right.Lo {
		return c
	}
	before, okBefore := e.chordsWithin(&e.points, left)
	after, okAfter := e.chordsWithin(&e.points, right)
	switch {
	case okBefore && before.leastWander() > total, okAfter && after.leastWander() > total:
		return c
	case okBefore && okAfter && before.merge(after).leastWander() > total:
		return c
	}
	if lengthened, ok := w.wanderOver(k); ok {
		if jump, ok := e.jumpBetween(left, right, lengthened); ok {
			c.Fault, c.Jump_cycles = Stepped, jump
		}
	}
	return c
}

// jumpBetween computes how far Into's counter jumped in the gap between two intervals. It compares
// two counts of Into in the middle of the gap: the count that the constraints after the gap prove,
// and the count that those before it prove. It returns the first minus the second.
func (e *evidence) jumpBetween(left, right Interval, w Wander) (Elapsed, bool) {
	var before, after centredPolygon
	y := left.Hi + (right.Lo-left.Hi)/2
	if !e.findHulls(&before, y, left, w) || !before.solve() ||
		!e.findHulls(&after, y, right, w) || !after.solve() {
		return Elapsed{}, false
	}
	lo, hi := before.min, before.max
	if lo.isBelow(after.min.num, after.min.den) {
		lo = after.min
	}
	if hi.isAbove(after.max.num, after.max.den) {
		hi = after.max
	}
	if lo.isAbove(hi.num, hi.den) {
		return Elapsed{}, false
	}
	before.limitRates(lo, hi)
	after.limitRates(lo, hi)
	b, a := before.interval(before.minAt(0), before.maxAt(0)),
		after.interval(after.minAt(0), after.maxAt(0))
	jump, err := a.Minus(b)
	return jump, err == nil
}

// backwardsReadings returns two readings in a window. Between them, no increasing function
// satisfies the constraints: φ(b) ≥ a and φ(b') ≤ a' with b ≤ b' and a > a'.
func (e *evidence) backwardsReadings(within Interval) (Interval, bool) {
	i := firstFrom(e.lower, within.Lo)
	var highest fact
	for _, u := range e.upper[firstFrom(e.upper, within.Lo):] {
		if u.b > within.Hi {
			break
		}
		for ; i < len(e.lower) && e.lower[i].b <= u.b; i++ {
			if e.lower[i].a > highest.a {
				highest = e.lower[i]
			}
		}
		if u.a < highest.a {
			return Interval{highest.b, u.b}, true
		}
	}
	return Interval{}, false
}

// limitRates narrows the polygon to rates from lo to hi. lo and hi must lie within the polygon's
// rates.
func (g *polygon) limitRates(lo, hi slope) {
	for _, s := range []struct{ own, to *slope }{{&g.min, &lo}, {&g.max, &hi}} {
		*s.own = slope{
			s.to.num, s.to.den,
			g.lower[restLower(g.lower, 0, +1, s.to.num, s.to.den)],
			g.upper[restUpper(g.upper, 0, +1, s.to.num, s.to.den)],
		}
	}
}

// Check looks for a contradiction that the last train, or the train before it, caused. A step
// larger than the bound shows within two trains. The cost does not depend on how many trains the
// pair has.
func (p *Pair) Check() *Contradiction { return p.CheckLast(1) }

// CheckLast looks for a contradiction that the given number of last trains, or the train before
// them, caused. It costs about as much as one Check. It looks only at trains that lie within
// 2·Window before the end of the last train.
func (p *Pair) CheckLast(trains int) *Contradiction {
	n := len(p.trains)
	if n < 2 {
		return nil
	}
	first := max(0, n-1-max(1, trains)) // the train before the trains to check
	begin, end := p.trains[first].b.Lo, p.trains[first].b.Hi
	for i := first + 1; i < n; i++ {
		newest, previous := &p.trains[i], &p.trains[i-1]
		// If a counter went back between two trains, the two counters disagree about which train
		// came first.
		if newest.b.Lo > previous.b.Hi && newest.a.Hi < previous.a.Lo ||
			newest.a.Lo > previous.a.Hi && newest.b.Hi < previous.b.Lo {
			return &Contradiction{
				Fault: RanBackwards, From: p.B.Name, Into: p.A.Name, Asked: p.Declared.Wander,
				Least: maxWander,
				At:    Interval{min(newest.b.Hi, previous.b.Hi), max(newest.b.Lo, previous.b.Lo)},
			}
		}
		begin, end = min(begin, newest.b.Lo), max(end, newest.b.Hi)
	}
	// Any window of the stated length can show a contradiction. The window here ends with the last
	// train.
	within := Interval{down(end, 2*p.B.cycles(p.Declared.Window)), up(end, maxError_cycles*2)}
	oldest := n
	for oldest > 0 && p.trains[oldest-1].b.Hi >= within.Lo {
		oldest--
	}
	e := p.evidence(p.trains[oldest:], SideA)
	defer evidences.Put(e)
	cs, ok := e.chordsWithin(&e.points, within)
	if !ok || cs.leastWander() <= p.Declared.Wander {
		return nil
	}
	c := e.contradiction(cs, within, 1, p.Declared.Wander)
	if c.At.Hi < down(begin, p.B.CoreSlack_cycles) {
		return nil // an earlier train caused the contradiction
	}
	return &c
}
