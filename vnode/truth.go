package vnode

import (
	"math"
	"math/big"
	"math/bits"
)

// Span contains all whole numbers from First to Last.
type Span struct {
	First, Last uint64
}

// Contains reports whether v is in the span.
func (s Span) Contains(v uint64) bool { return s.First <= v && v <= s.Last }

// Truth is the second implementation of a virtual counter: the formula of the package's
// documentation in big integers, and its inverse. A call takes about a microsecond. A Truth is
// immutable, and any number of goroutines may use it.
type Truth struct {
	config   CounterConfig
	wander   []int64    // at the knots, in units of 2^-40
	integral []*big.Int // from the origin to each knot, in units of 2^-41 cycles
}

// NewTruth returns the truth about a counter. The error wraps ErrConfig.
func NewTruth(c CounterConfig) (*Truth, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	rates, err := knotRates(c)
	if err != nil {
		return nil, err
	}
	t := &Truth{config: c, wander: make([]int64, len(rates)),
		integral: make([]*big.Int, len(rates))}
	sum := new(big.Int)
	for i, rate := range rates {
		t.wander[i] = int64(rate) - rateOne - c.Rate_2e40
		if i > 0 {
			trapezoid := big.NewInt(t.wander[i-1] + t.wander[i])
			sum = new(big.Int).Add(sum, trapezoid.Lsh(trapezoid, uint(c.Wander.SegmentLog2)))
		}
		t.integral[i] = sum
	}
	return t, nil
}

// Exact returns the counter at a physical reading: not rounded, not reduced modulo 2^64, and
// without the quantum.
func (t *Truth) Exact(physical uint64) *big.Rat {
	unit := new(big.Int).Lsh(big.NewInt(1), t.unitBits())
	return new(big.Rat).SetFrac(t.exact(physical), unit)
}

// unitBits returns the exponent of the unit 2^-(41 + SegmentLog2). All terms are whole numbers of
// this unit. The wander's integral within a segment needs the most bits.
func (t *Truth) unitBits() uint { return uint(rateBits + 1 + t.config.Wander.SegmentLog2) }

func (t *Truth) exact(physical uint64) *big.Int {
	k := uint(t.config.Wander.SegmentLog2)
	n := new(big.Int).SetUint64(physical)
	n.Sub(n, new(big.Int).SetUint64(t.config.Origin))

	v := new(big.Int).SetUint64(t.config.Start)
	v.Add(v, n)
	for _, s := range t.config.Steps {
		if s.At <= physical {
			v.Add(v, big.NewInt(s.By_cycles))
		}
	}
	v.Lsh(v, t.unitBits())

	rate := new(big.Int).Mul(big.NewInt(t.config.Rate_2e40), n)
	v.Add(v, rate.Lsh(rate, k+1))

	last := len(t.wander) - 1
	end := new(big.Int).Lsh(big.NewInt(int64(last)), k)
	area := new(big.Int)
	switch {
	case n.Sign() < 0:
		area.Mul(big.NewInt(t.wander[0]), n)
		area.Lsh(area, k+1)
	case n.Cmp(end) >= 0:
		area.Sub(n, end)
		area.Mul(area, big.NewInt(t.wander[last]))
		area.Lsh(area, 1)
		area.Add(area, t.integral[last])
		area.Lsh(area, k)
	default:
		i := new(big.Int).Rsh(n, k).Int64()
		u := new(big.Int).Sub(n, new(big.Int).Lsh(big.NewInt(i), k))
		// This is 2·2^k·d·u + (d' - d)·u², in units of 2^-(41+k). Here d and d' are the wander at
		// the segment's two knots.
		area.Mul(big.NewInt(t.wander[i]), u)
		area.Lsh(area, k+1)
		curve := new(big.Int).Mul(u, u)
		area.Add(area, curve.Mul(curve, big.NewInt(t.wander[i+1]-t.wander[i])))
		area.Add(area, new(big.Int).Lsh(t.integral[i], k))
	}
	return v.Add(v, area)
}

// wholeCounter returns the counter rounded down, not reduced modulo 2^64.
func (t *Truth) wholeCounter(physical uint64) *big.Int {
	v := t.exact(physical)
	return v.Rsh(v, t.unitBits()) // rounds down, also below zero
}

var twoTo64 = new(big.Int).Lsh(big.NewInt(1), 64)

// Reading returns the virtual counter's reading at a physical reading.
func (t *Truth) Reading(physical uint64) uint64 {
	v := t.wholeCounter(physical)
	v.Mod(v, twoTo64)
	q := new(big.Int).SetUint64(t.config.Quantum_cycles)
	return v.Sub(v, new(big.Int).Mod(v, q)).Uint64()
}

// Instants returns all physical readings at which the virtual counter shows the given reading, as
// the longest possible spans, in ascending order. Usually there is one span. There is none if a
// forward step skips the reading, or if the reading lies between two quanta. There are several if
// the counter was reset or wrapped around.
func (t *Truth) Instants(reading uint64) []Span {
	q := t.config.Quantum_cycles
	if reading%q != 0 {
		return nil
	}
	top := reading + (q - 1)
	if top < reading {
		top = math.MaxUint64
	}
	var spans []Span
	from := uint64(0)
	for i := 0; ; i++ {
		until := uint64(math.MaxUint64)
		if i < len(t.config.Steps) {
			if t.config.Steps[i].At == 0 {
				continue
			}
			until = t.config.Steps[i].At - 1
		}
		if from <= until {
			spans = t.appendInstants(spans, from, until, reading, top)
		}
		if i == len(t.config.Steps) {
			return spans
		}
		from = t.config.Steps[i].At
	}
}

// appendInstants appends the spans in [from, until] in which the counter, modulo 2^64, is from
// bottom to top. The counter must not step within [from, until], so it never goes back there.
func (t *Truth) appendInstants(spans []Span, from, until, bottom, top uint64) []Span {
	low, high := t.wholeCounter(from), t.wholeCounter(until)
	turn := new(big.Int).Rsh(low, 64)
	for {
		base := new(big.Int).Lsh(turn, 64)
		first := new(big.Int).Add(base, new(big.Int).SetUint64(bottom))
		last := new(big.Int).Add(base, new(big.Int).SetUint64(top))
		if first.Cmp(high) > 0 {
			return spans
		}
		if last.Cmp(low) >= 0 {
			a, reached := t.firstAtLeast(from, until, first)
			b, passed := t.firstAtLeast(from, until, last.Add(last, big.NewInt(1)))
			if reached && (!passed || a < b) {
				span := Span{a, until}
				if passed {
					span.Last = b - 1
				}
				if n := len(spans); n > 0 && spans[n-1].Last+1 == a {
					spans[n-1].Last = span.Last // the step between them stayed within one quantum
				} else {
					spans = append(spans, span)
				}
			}
		}
		turn.Add(turn, big.NewInt(1))
	}
}

// firstAtLeast returns the first physical reading in [from, until] at which the counter, rounded
// down, is at least want. It first approximates this reading by the mean rate, and then bisects.
func (t *Truth) firstAtLeast(from, until uint64, want *big.Int) (uint64, bool) {
	at := func(p uint64) bool { return t.wholeCounter(p).Cmp(want) >= 0 }
	if at(from) {
		return from, true
	}
	if !at(until) {
		return 0, false
	}
	rate := big.NewInt(rateOne + t.config.Rate_2e40)
	guess := from
	for range 6 {
		d := new(big.Int).Sub(want, t.wholeCounter(guess))
		d.Lsh(d, rateBits).Quo(d, rate)
		d.Add(d, new(big.Int).SetUint64(guess))
		next := until
		switch {
		case d.Cmp(new(big.Int).SetUint64(from)) <= 0:
			next = from
		case d.Cmp(new(big.Int).SetUint64(until)) < 0:
			next = d.Uint64()
		}
		if next == guess {
			break
		}
		guess = next
	}
	low, high := from, until // at(low) is false, and at(high) is true
	for reach := uint64(1); ; reach *= 2 {
		if at(guess) {
			high = guess
			if guess-from <= reach {
				break
			}
			guess -= reach
		} else {
			low = guess
			break
		}
	}
	for reach := uint64(1); high-low > reach; reach *= 2 {
		if at(low + reach) {
			high = low + reach
			break
		}
		low += reach
	}
	for high-low > 1 {
		if middle := low + (high-low)/2; at(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true
}

// Translate returns the readings that the other counter shows while this counter shows the given
// reading. If the other counter steps in this time, Translate splits the time there. For each part
// of the time, the result contains all readings from the first to the last.
func (t *Truth) Translate(reading uint64, other *Truth) []Span {
	var spans []Span
	for _, s := range t.Instants(reading) {
		from := s.First
		// At a step, the other counter skips or repeats readings.
		for _, step := range other.config.Steps {
			if step.At > from && step.At <= s.Last {
				spans = append(spans, Span{other.Reading(from), other.Reading(step.At - 1)})
				from = step.At
			}
		}
		spans = append(spans, Span{other.Reading(from), other.Reading(s.Last)})
	}
	return spans
}

// Wander_2e40 returns the counter's true wander, as the package's documentation defines it, for
// windows of the given length. It rounds the length up to whole segments, and the wander up to
// 2^-40.
func (t *Truth) Wander_2e40(window_cycles uint64) uint64 {
	w := t.config.Wander
	w.Window_cycles = window_cycles
	rates := make([]uint64, len(t.wander))
	for i, d := range t.wander {
		rates[i] = uint64(rateOne + t.config.Rate_2e40 + d)
	}
	return wanderOf(rates, windowSegments(w))
}

// rateAround returns the rate at a physical reading, once rounded down and once rounded up to
// 2^-40.
func (t *Truth) rateAround(physical uint64) (lo, hi uint64) {
	base := uint64(rateOne + t.config.Rate_2e40)
	k := uint(t.config.Wander.SegmentLog2)
	last := len(t.wander) - 1
	if physical <= t.config.Origin {
		return base + uint64(t.wander[0]), base + uint64(t.wander[0])
	}
	n := physical - t.config.Origin
	i := n >> k
	if i >= uint64(last) {
		return base + uint64(t.wander[last]), base + uint64(t.wander[last])
	}
	// The difference between two knots is at most 2^33, and u < 2^30, so the product fits 64 bits.
	u := int64(n & (1<<k - 1))
	part := (t.wander[i+1] - t.wander[i]) * u
	lo = base + uint64(t.wander[i]+part>>k)
	hi = lo
	if part&(1<<k-1) != 0 {
		hi++
	}
	return lo, hi
}

// PairWander_2e40 returns the wander of the relative rate of two counters in windows of the given
// number of physical cycles, rounded up. The result is never less than the truth. Windows extend
// from knot to knot. So the result exceeds the truth by at most the change of the rates in one
// segment. A relation's window is in cycles of b. To convert the window to physical cycles, divide
// it by b's rate.
func PairWander_2e40(a, b *Truth, window_cycles uint64) uint64 {
	at := mergeKnots(a, b)
	type ratio struct{ lo, hi uint64 } // in units of 2^-61
	ratios := make([]ratio, len(at))
	for i, p := range at {
		aLo, aHi := a.rateAround(p)
		bLo, bHi := b.rateAround(p)
		ratios[i] = ratio{divide61(aLo, bHi), divide61(aHi, bLo) + 1}
	}
	// Between neighboring knots both rates are straight lines, and the quotient of two straight
	// lines is monotone. So the extremes are at knots.
	most, from := uint64(0), 0
	var highs, lows []int
	for i := range at {
		for len(highs) > 0 && ratios[highs[len(highs)-1]].hi <= ratios[i].hi {
			highs = highs[:len(highs)-1]
		}
		for len(lows) > 0 && ratios[lows[len(lows)-1]].lo >= ratios[i].lo {
			lows = lows[:len(lows)-1]
		}
		highs, lows = append(highs, i), append(lows, i)
		// If a window begins just after the knot with index from and ends just before knot i, it
		// includes the rates at both knots.
		for i > 0 && from+1 < len(at) && at[i-1]-at[from+1] >= window_cycles &&
			at[i-1] >= at[from+1] {
			from++
		}
		for highs[0] < from {
			highs = highs[1:]
		}
		for lows[0] < from {
			lows = lows[1:]
		}
		high, low := ratios[highs[0]].hi, ratios[lows[0]].lo
		if high <= low {
			continue
		}
		hi, lo := bits.Mul64(high-low, rateOne)
		q, rest := bits.Div64(hi, lo, high/2+low/2)
		if rest > 0 {
			q++
		}
		// The ratio is (max - min)/(max + min). The halving may have rounded down, which the + 1
		// makes up for.
		most = max(most, (q+1)/2+1)
	}
	return most
}

// divide61 returns a/b in units of 2^-61, rounded down. a and b must be between a half and two in
// units of 2^-40, so that the result fits.
func divide61(a, b uint64) uint64 {
	q, _ := bits.Div64(a>>3, a<<61, b)
	return q
}

func mergeKnots(a, b *Truth) []uint64 {
	var at []uint64
	i, j := 0, 0
	knot := func(t *Truth, i int) uint64 {
		return t.config.Origin + uint64(i)<<t.config.Wander.SegmentLog2
	}
	for i < len(a.wander) || j < len(b.wander) {
		var p uint64
		if j == len(b.wander) || i < len(a.wander) && knot(a, i) <= knot(b, j) {
			p = knot(a, i)
			i++
		} else {
			p = knot(b, j)
			j++
		}
		if len(at) == 0 || at[len(at)-1] != p {
			at = append(at, p)
		}
	}
	return at
}
