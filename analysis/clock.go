package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func cmpStrings(a, b string) int { return strings.Compare(a, b) }

// clocks are the counters of a run and the relations between them.
type clocks struct {
	closure   *tscratio.Closure
	pairs     []pairClock
	reference int // index of the reference node
}

type pairClock struct {
	pair         *tscratio.Pair
	a, b         string
	intoA, intoB *tscratio.Relation
}

func (p *pairClock) suspect() bool {
	return p.intoA.Verdict == tscratio.Suspect || p.intoB.Verdict == tscratio.Suspect
}

// boundSamples is the number of readings at which a pair's bound is computed.
const boundSamples = 101

// boundTo translates readings of one node into another node's cycles, and returns the median
// half-width of the intervals that result. ok is false if the nodes are not related.
func (c *clocks) boundTo(from, into string) (uint64, bool) {
	widths := c.boundsTo(from, into)
	if len(widths) == 0 {
		return 0, false
	}
	slices.Sort(widths)
	return widths[len(widths)/2], true
}

// boundsTo translates readings of one node into another node's cycles, and returns the half-widths
// of the intervals that result. The readings are evenly spaced over the time in which the two nodes
// were measured.
func (c *clocks) boundsTo(from, into string) []uint64 {
	v, err := c.closure.View(from, into)
	if err != nil {
		return nil
	}
	of := c.viewRange(v, from, into) // the measured time: beyond it, every bound grows
	lo, hi := of.Lo, of.Hi
	var widths []uint64
	for i := range uint64(boundSamples) {
		at, _, err := v.Translate(lo + (hi-lo)/(boundSamples+1)*(i+1))
		if err == nil {
			widths = append(widths, at.HalfWidth())
		}
	}
	return widths
}

// measuredRange is the range of one node's readings over which the node was measured against
// another. ok is false if the two are not related.
func (c *clocks) measuredRange(from, into string) (tscratio.Interval, bool) {
	v, err := c.closure.View(from, into)
	if err != nil {
		return tscratio.Interval{}, false
	}
	of := c.viewRange(v, from, into)
	return of, of.Valid()
}

// viewRange returns the range of a view's readings from the first measurement of the two
// nodes to the last. If the two were never measured with each other, but only with other nodes, it
// is the whole range of the view.
func (c *clocks) viewRange(v *tscratio.View, from, into string) (of tscratio.Interval) {
	of.Lo, of.Hi = v.Limits()
	for _, p := range c.pairs {
		for _, r := range []*tscratio.Relation{p.intoA, p.intoB} {
			if r.From.Name != from || r.Into.Name != into {
				continue
			}
			if knots := r.Knots(); len(knots) > 1 {
				of = tscratio.Interval{Lo: knots[0].Reading, Hi: knots[len(knots)-1].Reading}
			}
		}
	}
	return of
}

// chooseReference chooses the node that the options name, or else the node that the run names. If
// neither names one, it takes the node that is related to the most other nodes. If there are
// several such nodes, it takes the one with the smallest median bound to the other nodes. In a
// fleet of more than maxClosed nodes, two nodes count as related only if they were measured with
// each other.
func (in *input) chooseReference() error {
	wanted := cmp.Or(in.options.Reference, in.run.Run.Reference)
	// A node with several epochs is a candidate once for each epoch. If only the node is named, the
	// best of its epochs is chosen.
	candidate := func(n nodeInput) bool {
		return wanted == "" || n.Name == wanted || n.node == wanted
	}
	if !slices.ContainsFunc(in.nodes, candidate) {
		var names []string
		for _, n := range in.nodes {
			names = append(names, n.Name)
		}
		return fmt.Errorf("reference node %q is not one of the run's: use one of %s", wanted,
			strings.Join(names, ", "))
	}
	best := uint64(math.MaxUint64)
	related := -1
	in.clocks.reference = -1
	measured := map[[2]string]bool{}
	for _, p := range in.clocks.pairs {
		measured[[2]string{p.a, p.b}], measured[[2]string{p.b, p.a}] = true, true
	}
	for i, n := range in.nodes {
		if !candidate(n) {
			continue
		}
		var bounds []uint64
		for _, other := range in.nodes {
			if other.Name == n.Name ||
				len(in.nodes) > maxClosed && !measured[[2]string{other.Name, n.Name}] {
				continue
			}
			if b, ok := in.clocks.boundTo(other.Name, n.Name); ok {
				bounds = append(bounds, b)
			}
		}
		// First of all, the number of related nodes decides, and then the bounds: a node with small
		// bounds to only a few others would be a bad reference.
		slices.Sort(bounds)
		median := uint64(math.MaxUint64)
		if len(bounds) > 0 {
			median = bounds[len(bounds)/2]
		}
		if len(bounds) > related || len(bounds) == related && median < best {
			in.clocks.reference, related, best = i, len(bounds), median
		}
	}
	// If no two nodes are related, only what happened on one node can be answered. So the reference
	// is a node that has logs.
	if related == 0 && wanted == "" {
		for _, s := range in.sources {
			in.clocks.reference = s.node
			break
		}
	}
	return nil
}

// timer computes durations between events of two logs. It also finds the intervals of events on the
// reference's counter. Only one goroutine may use it.
type timer struct {
	in     *input
	ways   []*tscratio.Ways // by first·nodes + second; nil: not needed yet
	views  []*tscratio.View // by node: into the reference
	none   []error          // by first·nodes + second: why there is no Ways
	known  []*knownRanges   // by first·nodes + second, where there is a Ways
	nodeOf []int32          // by source
	slack  []int64          // by source: how far a stamp may be off, in reference cycles
}

func newTimer(in *input) *timer {
	n := len(in.nodes)
	t := &timer{
		in: in, ways: make([]*tscratio.Ways, n*n), views: make([]*tscratio.View, n),
		none: make([]error, n*n), known: make([]*knownRanges, n*n),
		slack: make([]int64, len(in.sources)),
	}
	for i := range in.sources {
		t.nodeOf = append(t.nodeOf, int32(in.sources[i].node))
		if cycles := in.sources[i].header.Stamp.OrderingSlack_cycles(); cycles > 0 {
			t.slack[i] = in.inReference(in.sources[i].node, int64(cycles))
		}
	}
	return t
}

// inReference converts cycles of a node to cycles of the reference. It rounds up generously: the
// result need not be exact, only large enough.
func (in *input) inReference(node int, cycles int64) int64 {
	if c := math.Ceil(
		float64(cycles) * in.rateOf(in.nodes[node].Name) * 1.01); c < mostSlack_cycles {
		return int64(c) + 1
	}
	return mostSlack_cycles // it is larger, or the rate is NaN
}

// mostSlack_cycles is larger than the error of any stamp.
const mostSlack_cycles = 1 << 40

var errUnrelated = errors.New("the nodes are not related")

// durationBetween is the duration from an event of one log to an event of another.
func (t *timer) durationBetween(first, second int, x, y uint64) (tscratio.Duration, error) {
	a, b := int(t.nodeOf[first]), int(t.nodeOf[second])
	k := a*len(t.in.nodes) + b
	w := t.ways[k]
	slack := t.slack[first] + t.slack[second]
	if w == nil {
		if w = t.way(k, a, b); w == nil {
			return t.oneNodeDuration(k, a, b, x, y, slack)
		}
	}
	if t.known[k].outOfReach(x, y) {
		return tscratio.Duration{}, errUnrelated
	}
	d, err := w.Duration(x, y)
	d.Lo, d.Hi = d.Lo-slack, d.Hi+slack
	if err == nil && !isDuration(d.Elapsed) {
		return tscratio.Duration{}, tscratio.ErrOutOfRange
	}
	return d, err
}

// most_cycles is the longest duration that is reported: decades. Adding a slack to it, or
// subtracting two durations, does not overflow.
const most_cycles = 1 << 60

// isDuration reports whether an interval is a possible duration, so that nothing overflowed.
func isDuration(s tscratio.Elapsed) bool {
	return -most_cycles <= s.Lo && s.Lo <= s.Hi && s.Hi <= most_cycles
}

// computeMany computes durations between events of two nodes, as tscratio.Ways.Durations does.
// It begins with the first pair of readings, and returns how many durations it computed. The other
// results are about these durations only.
func (t *timer) computeMany(a, b int, xs, ys []uint64,
	elapsed []tscratio.Elapsed) (int, tscratio.Duration, error) {
	k := a*len(t.in.nodes) + b
	w := t.ways[k]
	if w == nil {
		if w = t.way(k, a, b); w == nil {
			if a != b {
				return len(xs), tscratio.Duration{}, t.none[k]
			}
			d, err := t.oneNodeDuration(k, a, b, xs[0], ys[0], 0)
			elapsed[0] = d.Elapsed
			return 1, d, err
		}
	}
	n := 0
	for known := t.known[k]; n < len(xs) && known.outOfReach(xs[n], ys[n]); n++ {
	}
	if n > 0 {
		return n, tscratio.Duration{}, errUnrelated
	}
	n, d, err := w.Durations(xs, ys, elapsed)
	if err != nil {
		return n, d, err
	}
	for i, s := range elapsed[:n] {
		switch {
		case isDuration(s):
		case i == 0:
			return 1, tscratio.Duration{}, tscratio.ErrOutOfRange
		default:
			return i, d, nil
		}
	}
	return n, d, nil
}

// oneNodeDuration computes a duration if no relation gives one. It can do so only if both events
// are on one node (a = b). slack is added to the bound. If the node is not the reference, its
// cycles are converted by the frequencies of the two nodes. Such a duration is an estimate, because
// the two frequencies were measured against two different clocks.
func (t *timer) oneNodeDuration(k, a, b int, x, y uint64, slack int64) (tscratio.Duration, error) {
	if a != b {
		return tscratio.Duration{}, t.none[k]
	}
	n := t.in.nodes[a].described
	d, err := trivialDuration(x, y, int64(n.Quantum_cycles+n.CoreSlack_cycles))
	if err != nil {
		return d, err
	}
	if a != t.in.clocks.reference {
		least, most, known := t.in.ratesOf(a)
		if !known {
			return tscratio.Duration{}, t.none[k]
		}
		d.Lo, d.Hi, d.Verdict = scaleByRate(d.Lo, least, most), -scaleByRate(-d.Hi, least, most),
			tscratio.Suspect
	}
	d.Lo, d.Hi = d.Lo-slack, d.Hi+slack
	if !isDuration(d.Elapsed) {
		return tscratio.Duration{}, tscratio.ErrOutOfRange
	}
	return d, nil
}

// ratesOf returns the smallest and the largest number of cycles of the reference that pass in one
// cycle of a node. They follow from the frequencies of both nodes. If a frequency is not known,
// known is false.
func (in *input) ratesOf(node int) (least, most float64, known bool) {
	n, r := &in.nodes[node], &in.nodes[in.clocks.reference]
	least, most = r.FrequencyLo_hz/n.FrequencyHi_hz, r.FrequencyHi_hz/n.FrequencyLo_hz
	return least, most, n.FrequencyLo_hz > 0 && r.FrequencyLo_hz > 0 && most < 1<<20
}

// scaleByRate multiplies a number of cycles by a rate that lies between least and most. It returns
// the low end of the product, rounded down. The rounding of float64 changes the product by less
// than one part in 10^15.
func scaleByRate(cycles int64, least, most float64) int64 {
	const rounding = 1e-15
	low := min(float64(cycles)*least, float64(cycles)*most)
	return int64(max(math.Floor(low-math.Abs(low)*4*rounding), -1<<62))
}

// trivialDuration computes a duration from two readings of one node. This needs no relation. e is
// the bound.
func trivialDuration(x, y uint64, e int64) (tscratio.Duration, error) {
	d := int64(y - x)
	elapsed := tscratio.Elapsed{Lo: d - e, Hi: d + e}
	if (y >= x) != (d >= 0) || !isDuration(elapsed) {
		return tscratio.Duration{}, tscratio.ErrOutOfRange
	}
	return tscratio.Duration{Elapsed: elapsed, Scenario: tscratio.Trivial}, nil
}

// findUnrelated says which nodes with logs are not related to the reference, and what that means
// for durations within them.
func (in *input) findUnrelated() {
	var names []string
	reference := in.nodes[in.clocks.reference].Name
	for i := range in.nodes {
		_, _, known := in.ratesOf(i)
		if i != in.clocks.reference && known &&
			in.clocks.closure.Related(in.nodes[i].Name, reference) != nil &&
			slices.ContainsFunc(in.sources, func(s source) bool { return s.node == i }) {
			names = append(names, in.nodes[i].Name)
		}
	}
	if len(names) > 0 {
		in.addFinding(FindSuspect,
			"%s and %s are not related: durations within the former are turned "+
				"into cycles of %s by measured frequencies, and are estimates",
			strings.Join(names, ", "), reference, reference)
	}
}

func (t *timer) way(k, a, b int) *tscratio.Ways {
	if t.none[k] != nil {
		return nil
	}
	w, err := t.in.clocks.closure.Ways(t.in.nodes[t.in.clocks.reference].Name, t.in.nodes[a].Name,
		t.in.nodes[b].Name)
	if err != nil {
		t.none[k] = fmt.Errorf("%w: %w", errUnrelated, err)
		return nil
	}
	t.ways[k] = w
	t.known[k] = t.knownOf(a, b)
	return w
}

// knownRanges has ranges of readings for each of two nodes: the readings that can be placed on the
// counter of the other node, and those that can be placed on the counter of the reference. For any
// other reading, the closure returns an error. Making an error takes a thousand times longer than
// computing a result, and a program that invents its readings logs millions of them. So readings
// are looked up here before the closure is asked.
type knownRanges struct {
	onOther, onReference [2]tscratio.Interval
}

func (t *timer) knownOf(a, b int) *knownRanges {
	var k knownRanges
	for i, from := range [2]int{a, b} {
		k.onOther[i] = tscratio.Interval{Lo: math.MaxUint64}
		if a != b {
			k.onOther[i] = t.limits(from, a+b-from)
		}
		k.onReference[i] = t.limits(from, t.in.clocks.reference)
	}
	return &k
}

// limits returns the range of one node's readings that can be placed on another node's counter.
func (t *timer) limits(from, into int) (of tscratio.Interval) {
	if from == into {
		return tscratio.Interval{Hi: math.MaxUint64}
	}
	v, err := t.in.clocks.closure.View(t.in.nodes[from].Name, t.in.nodes[into].Name)
	if err != nil {
		return tscratio.Interval{Lo: math.MaxUint64}
	}
	of.Lo, of.Hi = v.Limits()
	return of
}

// outOfReach reports that no duration between two readings can be computed: neither reading can be
// placed on the counter of the other reading's node, and at most one of them can be placed on the
// reference's counter.
func (k *knownRanges) outOfReach(x, y uint64) bool {
	return !k.onOther[0].Contains(x) && !k.onOther[1].Contains(y) &&
		!(k.onReference[0].Contains(x) && k.onReference[1].Contains(y))
}

// placeEvent returns the interval on the reference's counter that contains an event. It gets the
// event's log (source) and reading.
func (t *timer) placeEvent(source int, reading uint64) (tscratio.Interval, tscratio.Verdict,
	error) {
	node := t.in.sources[source].node
	slack := uint64(t.slack[source])
	if node == t.in.clocks.reference {
		// The interval contains what any other core of the node would have read at that moment.
		n := t.in.nodes[node].described
		e := n.CoreSlack_cycles + n.Quantum_cycles + slack
		return tscratio.Interval{Lo: reading - min(reading, e), Hi: reading +
			min(^uint64(0)-reading, e)}, tscratio.Consistent, nil
	}
	v := t.views[node]
	if v == nil {
		var err error
		if v, err = t.in.clocks.closure.View(t.in.nodes[node].Name,
			t.in.nodes[t.in.clocks.reference].Name); err != nil {
			return tscratio.Interval{}, 0, fmt.Errorf("%w: %w", errUnrelated, err)
		}
		t.views[node] = v
	}
	if lo, hi := v.Limits(); reading < lo || reading > hi {
		return tscratio.Interval{}, 0, errUnrelated
	}
	at, verdict, err := v.Translate(reading)
	if slack > 0 && err == nil {
		at = tscratio.Interval{
			Lo: at.Lo - min(at.Lo, slack), Hi: at.Hi + min(^uint64(0)-at.Hi, slack),
		}
	}
	return at, verdict, err
}

// isEarlier orders any two events by the middles of their intervals. An event that cannot
// be placed comes last.
func (t *timer) isEarlier(a, b passage) bool {
	x, _, errA := t.placeEvent(int(a.source), a.reading)
	y, _, errB := t.placeEvent(int(b.source), b.reading)
	if errA != nil || errB != nil {
		return errA == nil && errB != nil
	}
	if x.Mid() != y.Mid() {
		return x.Mid() < y.Mid()
	}
	return a.source < b.source || a.source == b.source && a.reading < b.reading
}
