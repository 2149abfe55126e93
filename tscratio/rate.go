package tscratio

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Rate is a relative rate: cycles of one counter per cycle of another, in units of 2⁻⁴⁸.
type Rate uint64

const rateBits = 48

// Float returns the rate for display. No bound is computed from it.
func (r Rate) Float() float64 { return math.Ldexp(float64(r), -rateBits) }

// scaleCycles returns r·d in cycles, rounded down and rounded up. If the product does not fit 64
// bits, both results are the largest 64-bit number. That is a valid lower limit; as an upper limit
// it means "unknown".
func (r Rate) scaleCycles(d uint64) (down, up uint64) {
	if hi, _ := bits.Mul64(d, uint64(r)); hi>>rateBits != 0 {
		return math.MaxUint64, math.MaxUint64
	}
	return scaleDown(d, uint64(r), rateBits), scaleUp(d, uint64(r), rateBits)
}

// RateInterval is the interval in which a rate is proven to lie.
type RateInterval struct {
	Lo, Hi Rate
}

// Contains reports whether r lies in the interval.
func (i RateInterval) Contains(r Rate) bool { return i.Lo <= r && r <= i.Hi }

// PPB returns, for display, how far each end of the interval is from the reference rate, in parts
// per 10⁹.
func (i RateInterval) PPB(reference float64) (lo_ppb, hi_ppb float64) {
	return (i.Lo.Float()/reference - 1) * 1e9, (i.Hi.Float()/reference - 1) * 1e9
}

func (i RateInterval) String() string {
	return fmt.Sprintf("[%.12f, %.12f]", i.Lo.Float(), i.Hi.Float())
}

// wander returns the rates that are possible if the rate moves by the fraction f from a mean in the
// interval: [lo·(1−f), hi·(1+f)].
func (i RateInterval) wander(f fraction) RateInterval {
	return RateInterval{
		Lo: i.Lo - Rate(f.ofCycles(uint64(i.Lo))),
		Hi: i.Hi + Rate(f.ofCycles(uint64(i.Hi))),
	}
}

// rates are the rates at which a node's counter runs relative to another's. They come from the
// direct relation, or else from paths over third nodes.
type rates struct {
	from          Node
	verdict       Verdict
	limits        Interval // the readings of the node from at which a rate may be known
	window_cycles uint64

	// over returns the rates that are possible between two readings, like Relation.rateOver.
	over   func(from, to uint64) (RateInterval, error)
	beyond func(y uint64) error // says why the rate at a reading outside of limits is not known
}

func (r *Relation) rates() *rates {
	return &rates{r.From, r.Verdict, r.limits, r.window_cycles, r.rateOver, r.beyond}
}

// rates returns the rates of one node relative to another.
func (c *Closure) rates(from, into string) (*rates, error) {
	direct, err := c.direct(from, into)
	if err == nil {
		return direct.rates(), nil
	}
	all, err := c.paths(c.index(from), c.index(into))
	if err != nil {
		return nil, fmt.Errorf("rate of %q in %q: %w", from, into, err)
	}
	needed := c.third.neededNodes()
	for _, verdict := range []Verdict{Consistent, Suspect} {
		var ps []path
		for _, p := range all {
			if p.verdict() == verdict {
				ps = append(ps, p)
			}
		}
		if len(ps) < needed {
			continue
		}
		r := &rates{from: c.nodes[c.index(from)], verdict: verdict,
			limits: Interval{Lo: math.MaxUint64}, window_cycles: math.MaxUint64}
		for _, p := range ps {
			r.limits.Lo = min(r.limits.Lo, p[0].limits.Lo)
			r.limits.Hi = max(r.limits.Hi, p[0].limits.Hi)
			r.window_cycles = min(r.window_cycles, p[0].window_cycles)
		}
		r.over = func(lo, hi uint64) (RateInterval, error) {
			return agreedRate(ps, c.agreeingAlone, Interval{lo, hi})
		}
		r.beyond = ps[0][0].beyond
		return r, nil
	}
	return nil, fmt.Errorf("rate of %q in %q: with third nodes %v, too few relations are "+
		"consistent: %w", from, into, c.third, ErrNoPath)
}

// agreeingAlone does what agreeingPaths does if there is no direct relation.
func (c *Closure) agreeingAlone(thirds []Interval) int { return c.agreeingPaths(nil, thirds) }

// agreedRate returns the rates that are possible between two readings. Each end rests on as many
// paths as must agree, as the ends of translations do (Closure.settleCount).
func agreedRate(ps []path, agreeing func([]Interval) int, at Interval) (RateInterval, error) {
	var los, his []Rate
	var both []Interval
	var failed error
	for _, p := range ps {
		rate, err := p.rateOver(at)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		los, his = append(los, rate.Lo), append(his, rate.Hi)
		both = append(both, Interval{uint64(rate.Lo), uint64(rate.Hi)})
	}
	needed := agreeing(both)
	if len(los) < needed {
		return RateInterval{}, cmp.Or(failed, fmt.Errorf("%d paths tell the rate of %q in %q, and "+
			"%d must agree: %w", len(los), ps[0][0].From.Name, ps[0][len(ps[0])-1].Into.Name,
			needed, ErrNoPath))
	}
	slices.Sort(los)
	slices.Sort(his)
	rate := RateInterval{los[len(los)-needed], his[needed-1]}
	if rate.Lo > rate.Hi {
		return RateInterval{}, fmt.Errorf("paths from %q to %q disagree about the rate: %w",
			ps[0].nodes()[0], ps[0][len(ps[0])-1].Into.Name, ErrAssumption)
	}
	return rate, nil
}

// rateOver multiplies the rates of a path's relations. The parameter at is the interval of the
// first node's readings for which the caller wants the rates. Each relation translates the interval
// for the next one.
func (p path) rateOver(at Interval) (RateInterval, error) {
	all := RateInterval{1 << rateBits, 1 << rateBits}
	for i, r := range p {
		rate, err := r.rateOver(at.Lo, at.Hi)
		if err != nil {
			return RateInterval{}, err
		}
		lo, _ := all.Lo.scaleCycles(uint64(rate.Lo))
		_, hi := all.Hi.scaleCycles(uint64(rate.Hi))
		all = RateInterval{Rate(lo), Rate(hi)}
		if i < len(p)-1 {
			if at, err = r.count(at); err != nil {
				return RateInterval{}, err
			}
		}
	}
	return all, nil
}

// scale converts a duration in cycles of the first node into cycles of the second node. The
// duration begins when the counter of the first node shows y.
func (r *rates) scale(y uint64, d Elapsed) (Elapsed, error) {
	ends := func(d int64) (lo, hi int64, err error) {
		length := uint64(d)
		if d < 0 {
			length = uint64(-d)
		}
		l, h, err := r.cyclesPassed(y, length, d >= 0)
		if err != nil {
			return 0, 0, err
		}
		if h > math.MaxInt64 {
			return 0, 0, fmt.Errorf("duration of %d cycles from %d of %q: %w",
				d, y, r.from.Name, ErrOutOfRange)
		}
		if d < 0 {
			return -int64(h), -int64(l), nil
		}
		return int64(l), int64(h), nil
	}
	lo, _, err := ends(d.Lo)
	if err != nil {
		return Elapsed{}, err
	}
	_, hi, err := ends(d.Hi)
	if err != nil {
		return Elapsed{}, err
	}
	return Elapsed{lo, hi}, nil
}

// maxSteps is the largest number of steps into which a duration is cut. A duration of up to
// maxSteps·W, which is half a day if W is 10 s, is cut into steps that are W long (half of a stated
// window). A longer duration is cut into longer steps, so that even a duration of decades is
// computed quickly. Such a duration occurs if a program logs made-up counter readings.
const maxSteps = 4096

// cyclesPassed returns the smallest and the largest number of cycles that the second node counts
// while the first node counts the given number of cycles (length), forwards or backwards from its
// reading y. It adds up steps. For each step it uses the rate of the knot nearest to the step's
// middle.
func (r *rates) cyclesPassed(y, length uint64, forward bool) (lo, hi uint64, err error) {
	limit := down(r.limits.Hi, y)
	if !forward {
		limit = down(y, r.limits.Lo)
	}
	if length > up(limit, uint64(r.from.error_cycles())) {
		if forward {
			return 0, 0, r.beyond(up(y, length))
		}
		return 0, 0, r.beyond(down(y, length))
	}
	longest := max(r.window_cycles, length/maxSteps+1)
	for length > 0 {
		step := min(length, longest)
		from, to := y, up(y, step)
		if !forward {
			from, to = down(y, step), y
		}
		rate, err := r.over(from, to)
		if err != nil {
			return 0, 0, err
		}
		l, _ := rate.Lo.scaleCycles(step)
		_, h := rate.Hi.scaleCycles(step)
		lo, hi, length = up(lo, l), up(hi, h), length-step
		y = to
		if !forward {
			y = from
		}
	}
	return lo, hi, nil
}
