package tscratio

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"
)

// This file simulates two nodes and the network between them. The simulation knows the exact truth.

// The simulation counts time in ticks of 2⁻³² s. No simulated node sees this time.
const (
	second      = 1 << 32
	microsecond = second / 1e6
	segment     = second / 64 // a clock's rate is constant within a segment
	clockBits   = 32          // clocks are exact to 2⁻³² cycles
)

// clock is a counter: a function of time that is linear on every segment, in exact integers.
type clock struct {
	node  Node
	rates []uint64 // in cycles per tick, in units of 2⁻⁶⁴, one per segment
	whole []uint64 // count at the beginning of each segment
	part  []uint64 // the fraction of that count, in units of 2⁻³²
	cores []uint64 // cycles by which each core is ahead; at most the core slack
	steps []step
}

type step struct {
	at     uint64
	cycles int64
}

func newClock(node Node, start uint64, hz float64, deviation []float64) *clock {
	c := &clock{node: node, cores: []uint64{0, node.CoreSlack_cycles}}
	whole, part := start, uint64(0)
	for _, d := range deviation {
		c.whole, c.part = append(c.whole, whole), append(c.part, part)
		// the rate in cycles per second, in units of 2⁻³²
		rate := uint64(math.Round(hz * (1 + d) * (1 << clockBits)))
		c.rates = append(c.rates, rate)
		whole, part = c.forward(whole, part, rate, segment)
	}
	return c
}

func (c *clock) forward(whole, part, rate, ticks uint64) (uint64, uint64) {
	// A tick is 2⁻³² s, so rate·ticks/2³² is in units of 2⁻³² cycles. The division drops a
	// remainder. This is no error, because this code defines the truth of the clock.
	hi, lo := bits.Mul64(rate, ticks)
	v := hi<<32 | lo>>32
	part += v & (1<<clockBits - 1)
	return whole + v>>clockBits + part>>clockBits, part & (1<<clockBits - 1)
}

// count returns the exact count at t, rounded down.
func (c *clock) count(t uint64) uint64 {
	i := t / segment
	whole, _ := c.forward(c.whole[i], c.part[i], c.rates[i], t%segment)
	for _, s := range c.steps {
		if t >= s.at {
			whole += uint64(s.cycles)
		}
	}
	return whole
}

// read returns what a program on the given core reads at t.
func (c *clock) read(t uint64, core int) uint64 {
	n := c.count(t) + c.cores[core%len(c.cores)]
	return n - n%max(1, c.node.Quantum_cycles)
}

// world is two clocks and a network between them.
type world struct {
	a, b    *clock
	rng     *rand.Rand
	net     network
	seconds int
	lie     func(e *Exchange, by Starter) // changes what one node reports; nil if no node lies
}

// network says how long packets take and how often they are lost.
type network struct {
	base, asymmetry float64 // in µs
	jitter          float64 // in µs, the mean of an exponential distribution
	bursts          float64 // share of the time in which jitter is 20 times as large
	loss            float64
	stamp           float64 // µs by which a stamp is uncertain
}

func (n network) delay(rng *rand.Rand, forth bool, t uint64) (uint64, bool) {
	j := n.jitter
	if n.bursts > 0 && math.Sin(float64(t/second)*1.7) > 1-2*n.bursts {
		j *= 20
	}
	d := n.base + j*rng.ExpFloat64()
	if forth {
		d += n.asymmetry
	}
	return uint64(d * microsecond), rng.Float64() >= n.loss
}

// shape says how a rate moves: its relative deviation from the nominal rate, for each segment.
type shape func(rng *rand.Rand, segments int) []float64

func sine(rng *rand.Rand, n int) []float64 {
	d := make([]float64, n)
	period, phase := 4+rng.Float64()*90, rng.Float64()*7
	for i := range d {
		d[i] = math.Sin(2*math.Pi*float64(i)*segment/second/period + phase)
	}
	return d
}

func randomWalk(rng *rand.Rand, n int) []float64 {
	d := make([]float64, n)
	v := 0.0
	for i := range d {
		d[i] = v
		v += rng.NormFloat64()
	}
	return d
}

func temperatureStep(rng *rand.Rand, n int) []float64 {
	d := make([]float64, n)
	at, tau := rng.IntN(n), 32+rng.Float64()*640
	for i := at; i < n; i++ {
		d[i] = 1 - math.Exp(-float64(i-at)/tau)
	}
	return d
}

// switchRates switches between the two extremes at random moments. For a given wander, no rate can
// move more.
func switchRates(rng *rand.Rand, n int) []float64 {
	d := make([]float64, n)
	v, left := 1.0, 0
	for i := range d {
		if left--; left < 0 {
			v, left = -v, 8+rng.IntN(120)
		}
		d[i] = v
	}
	return d
}

// driftSteadily moves the rate of one of two clocks steadily, and keeps the other constant.
func driftSteadily() shape {
	calls := 0
	return func(_ *rand.Rand, n int) []float64 {
		d := make([]float64, n)
		if calls++; calls == 1 {
			for i := range d {
				d[i] = float64(i) / float64(n)
			}
		}
		return d
	}
}

// instantNetwork is a network without delay. Over it, constraints are as sharp as quantum and core
// slack allow.
var instantNetwork = network{}

func still(_ *rand.Rand, n int) []float64 { return make([]float64, n) }

var shapes = map[string]shape{"sine": sine, "random walk": randomWalk,
	"temperature step": temperatureStep}

// newWorld makes two nodes. Their relative rate wanders by at most w in any window of ±window, and
// by nearly w in at least one window.
func newWorld(
	rng *rand.Rand, seconds int, s shape, w Wander, window time.Duration, quantum, slack uint64,
) *world {
	hzA, hzB := 2e9+rng.Float64()*1.5e9, 2e9+rng.Float64()*1.5e9
	nodeA := Node{Name: "a", Epoch: "a1", Nominal_hz: uint64(hzA), Quantum_cycles: max(1, quantum),
		CoreSlack_cycles: slack}
	nodeB := Node{Name: "b", Epoch: "b1", Nominal_hz: uint64(hzB),
		Quantum_cycles: max(1, quantum/2), CoreSlack_cycles: slack / 2}
	hzA *= 1 + (rng.Float64()-0.5)*1e-4
	hzB *= 1 + (rng.Float64()-0.5)*1e-4
	n := (seconds + 2) * second / segment
	startA, startB := rng.Uint64N(1<<62), rng.Uint64N(1<<62)
	dA, dB := s(rng, n), s(rng, n)
	scale := float64(w) * 1e-12 / 2
	build := func(scale float64) *world {
		mA, mB := make([]float64, n), make([]float64, n)
		for i := range dA {
			mA[i], mB[i] = dA[i]*scale, dB[i]*scale
		}
		return &world{a: newClock(nodeA, startA, hzA, mA), b: newClock(nodeB, startB, hzB, mB),
			rng: rng, seconds: seconds}
	}
	// The wander is nearly proportional to the scale. So after two rounds the wander is near w, and
	// a last step brings it below w.
	for range 3 {
		if got := build(scale).wander(window); got > 0 {
			scale *= float64(w) * 1e-12 / got
		}
	}
	x := build(scale)
	for w > 0 && x.wander(window) > float64(w)*1e-12 {
		scale *= 1 - 1e-4
		x = build(scale)
	}
	return x
}

// wander returns the largest deviation of the relative rate from the middle of its range, over all
// windows of ±window of B's count. It makes windows one segment longer, so that it never returns
// too little.
func (x *world) wander(window time.Duration) float64 {
	n := len(x.a.rates)
	rel := make([]float64, n)
	for i := range rel {
		// A float64 is exact to parts in 10¹⁵, far below any wander here.
		rel[i] = float64(x.a.rates[i]) / float64(x.b.rates[i])
	}
	half := int(float64(window)/1e9*second/segment*1.001) + 2
	worst := 0.0
	// hi and lo are monotonic queues, for the maximum and the minimum of a sliding window.
	var hi, lo []int
	for i := range n {
		for len(hi) > 0 && rel[hi[len(hi)-1]] <= rel[i] {
			hi = hi[:len(hi)-1]
		}
		for len(lo) > 0 && rel[lo[len(lo)-1]] >= rel[i] {
			lo = lo[:len(lo)-1]
		}
		hi, lo = append(hi, i), append(lo, i)
		if hi[0] < i-2*half {
			hi = hi[1:]
		}
		if lo[0] < i-2*half {
			lo = lo[1:]
		}
		worst = max(worst, (rel[hi[0]]-rel[lo[0]])/(rel[hi[0]]+rel[lo[0]]))
	}
	return worst
}

// stamp returns an interval that contains what c showed at t.
func (x *world) stamp(c *clock, t uint64) Interval {
	r := c.read(t, x.rng.IntN(2))
	u := x.net.stamp * 1e-6 * float64(c.node.Nominal_hz)
	return Interval{r - uint64(x.rng.Float64()*u), r + uint64(x.rng.Float64()*u)}
}

// train simulates a train of exchanges, and adds it to the pair. The parameter at is the time at
// which the train begins.
func (x *world) train(t testing.TB, p *Pair, at uint64, exchanges int, by Starter) {
	t.Helper()
	starter, answerer := x.a, x.b
	if by == StartedByB {
		starter, answerer = x.b, x.a
	}
	tr := Train{By: by}
	for range exchanges {
		var e Exchange
		e.Sent = x.stamp(starter, at)
		d, ok := x.net.delay(x.rng, by == StartedByA, at)
		if !ok {
			at += second / 1000
			continue
		}
		at += d
		e.Received = x.stamp(answerer, at)
		at += uint64((1 + x.rng.Float64()*3) * microsecond)
		e.Answered = x.stamp(answerer, at)
		d, ok = x.net.delay(x.rng, by != StartedByA, at)
		if !ok {
			at += second / 1000
			continue
		}
		at += d
		e.Returned = x.stamp(starter, at)
		if x.lie != nil {
			x.lie(&e, by)
		}
		at += uint64((1 + x.rng.Float64()*5) * microsecond)
		tr.Exchanges = append(tr.Exchanges, e)
	}
	if len(tr.Exchanges) == 0 {
		return
	}
	if err := p.Add(tr); err != nil {
		t.Fatal(err)
	}
}

// pair runs trains and returns the resulting pair. One train follows another at regular intervals,
// but there are no trains in the given gaps.
func (x *world) pair(
	t testing.TB, declared Assumptions, exchanges int, every float64, gaps ...[2]float64,
) *Pair {
	t.Helper()
	p, err := NewPair(x.a.node, x.b.node, declared)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
next:
	for s := 0.5; s < float64(x.seconds)-0.5; s += every {
		for _, g := range gaps {
			if s >= g[0] && s < g[1] {
				continue next
			}
		}
		by := StartedByA
		if n%3 == 2 {
			by = StartedByB
		}
		n++
		x.train(t, p, uint64((s+x.rng.Float64()*every/4)*second), exchanges, by)
	}
	return p
}

// countOutside returns the number of queries for which the relation's interval does not contain the
// truth. The queries are for random moments between the two given times, in seconds.
func (x *world) countOutside(t *testing.T, r *Relation, queries int, from, to float64) int {
	t.Helper()
	fromClock, intoClock := x.b, x.a
	if r.From.Name == "a" {
		fromClock, intoClock = x.a, x.b
	}
	bad := 0
	for range queries {
		at := uint64((from + x.rng.Float64()*(to-from)) * second)
		y, truth := fromClock.read(at, x.rng.IntN(2)), intoClock.read(at, x.rng.IntN(2))
		got, err := r.Translate(y)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Contains(truth) {
			if bad == 0 && testing.Verbose() {
				t.Logf("at %.3f s: %d is %v, truth %d: %d cycles low, %d high",
					float64(at)/second, y, got, truth, int64(got.Lo-truth), int64(truth-got.Hi))
			}
			bad++
		}
	}
	return bad
}

var networks = map[string]network{
	"kernel stamps":    {base: 0.4, jitter: 0.1, stamp: 0.1},
	"asymmetric":       {base: 5, asymmetry: 80, jitter: 3},
	"bursty":           {base: 10, jitter: 10, bursts: 0.3},
	"lossy":            {base: 5, jitter: 5, loss: 0.4},
	"bad in every way": {base: 8, asymmetry: 30, jitter: 10, bursts: 0.2, loss: 0.3, stamp: 1},
	"near and steady":  {base: 2, jitter: 0.05},
	"distant":          {base: 2000, jitter: 20},
}
