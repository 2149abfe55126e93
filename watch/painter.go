package watch

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// Picture returns what the View knows at a moment.
func (v *View) Picture(now time.Time) *Picture {
	p := &painter{v: v, now: now, Picture: &Picture{
		Run: v.last.Run, Phase: v.last.Phase, Window_ns: int64(v.window), Age_ns: -1,
		Spans: []Span{}, Points: []Point{}, Nodes: []Node{}, Notes: []string{},
	}}
	p.senders = v.senders(now)
	p.reference = v.clocks.choose(p.senders, v.last.Reference)
	p.findDepths()
	p.addCounts()
	if p.reference != nil {
		p.describeReference()
		if p.findFrontier() {
			p.computeLatencies()
		}
	}
	p.describeNodes()
	p.makeNotes()
	return p.Picture
}

// painter makes one Picture.
type painter struct {
	*Picture
	v         *View
	now       time.Time
	senders   []*node
	reference *node
	depths    []depthAt // bits is the greatest depth that was used from the moment on
	unrelated []string  // nodes with an unknown relation to the reference
	begun     uint64    // reading of the reference when all streams had begun
	end       uint64    // reading of the reference at the frontier

	whyUnseen   map[int]string // by point: why tuples may pass the point unseen
	rates       map[int]Rate   // by point: the rate of its events
	rank        map[int]int    // by point: the point's bit in a mask
	ranks       []point
	lossyMask   uint64 // mask of the points that tuples may pass unseen
	repeatedIDs int    // number of ids that came more than once at a point
}

func (p *painter) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// findDepths fills p.depths. An entry has a moment and a depth: since that moment, all nodes have
// sampled every id of at least this depth. Deeper ids are rarer (see channel.SampleDepth).
func (p *painter) findDepths() {
	for _, n := range p.senders {
		n.thins = n.thinsOut()
	}
	p.depths = slices.Clone(p.v.depths)
	for i := len(p.depths) - 2; i >= 0; i-- {
		p.depths[i].bits = max(p.depths[i].bits, p.depths[i+1].bits)
	}
	p.OneIn = 1 << p.depthSince(p.now.Add(-p.v.window))
}

// depthSince returns the least depth (channel.SampleDepth) for which this is true: since a moment,
// all nodes have sampled every tuple of at least this depth. Such a tuple lacks no event if its
// first event came at that moment. Other nodes' events of the same time may have come earlier, so
// depthSince begins a little before the moment.
func (p *painter) depthSince(at time.Time) int {
	i, _ := slices.BinarySearchFunc(p.depths, at.Add(-silent), func(d depthAt, at time.Time) int {
		return d.at.Compare(at)
	})
	if i == len(p.depths) {
		return 0
	}
	return p.depths[i].bits
}

func (n *node) bits() (deepest int) {
	for _, s := range n.samples {
		deepest = max(deepest, s.bits)
	}
	return deepest
}

// thinsOut reports whether a node samples only ids of great depth although it has few events. An
// agent never does that. Such a node is ignored, because one false node must not empty the sample
// of the others.
func (n *node) thinsOut() bool {
	const patience, few = 15, 2 // number of Samples; number of events in a Sample
	if len(n.samples) < patience {
		return false
	}
	events := 0
	for _, s := range n.samples[len(n.samples)-patience:] {
		if s.bits == 0 {
			return false
		}
		events += s.events
	}
	return events < few*patience
}

// addCounts adds up the counts of all channels by point.
func (p *painter) addCounts() {
	p.whyUnseen, p.rates = map[int]string{}, map[int]Rate{}
	type sums struct {
		Point
		unbounded bool
	}
	points := map[int]*sums{}
	for _, n := range p.v.nodes {
		if len(n.samples) == 0 {
			continue
		}
		first, last := p.samplesOf(n)
		for i, s := range n.samples {
			for _, c := range s.channels {
				p.noteMissing(n, c)
				if i < min(first, last) {
					continue
				}
				sum := points[c.point]
				if sum == nil {
					sum = &sums{Point: Point{Name: p.v.points[c.point].String()}}
					points[c.point] = sum
				}
				if i >= first {
					sum.Events += c.events
					sum.Dropped += c.dropped
				}
				sum.unbounded = sum.unbounded || c.keeps == control.KeepsNone
				if !slices.Contains(sum.Handlers, c.handler) {
					sum.Handlers = append(sum.Handlers, c.handler)
				}
				sum.Rate = sum.Rate.plus(n.rateOf(first, last, c.events))
			}
		}
	}
	for i, sum := range points {
		slices.Sort(sum.Handlers)
		if sum.unbounded && sum.Rate.Hi < math.MaxFloat64 {
			// Some handler only counts, and reports its count late. So the rate has no bounds: show
			// the middle.
			middle := (sum.Rate.Lo + sum.Rate.Hi) / 2
			sum.Rate = Rate{middle, middle}
		}
		sum.Some = p.whyUnseen[i]
		p.rates[i] = sum.Rate
		p.Points = append(p.Points, sum.Point)
	}
	slices.SortFunc(p.Points, func(x, y Point) int { return strings.Compare(x.Name, y.Name) })
}

// noteMissing checks whether tuples may pass a channel's point unseen. If so, and if p.whyUnseen
// has no reason yet, noteMissing records the reason there.
func (p *painter) noteMissing(n *node, c countedEvents) {
	why := ""
	switch {
	case c.keeps == control.KeepsSome:
		why = c.handler
	case c.dropped > 0:
		why = "drops"
	case n.lacksEvents(p.now, p.v.window):
		why = "lost messages of " + n.Name
	case p.now.Sub(n.lastHeard) > silent:
		why = n.Name + " is silent"
	case n.thins:
		why = n.Name + " thins out"
	}
	if why != "" && p.whyUnseen[c.point] == "" {
		p.whyUnseen[c.point] = why
	}
}

// lacksEvents reports whether some of a node's sampled events in the window are missing.
func (n *node) lacksEvents(now time.Time, window time.Duration) bool {
	recent := func(t time.Time) bool { return now.Sub(t) < window+Kept }
	return recent(n.missedSample) || recent(n.refusedEvents) ||
		slices.ContainsFunc(n.samples, func(s receivedCounts) bool { return s.lost })
}

// samplesOf returns the first and the last of the Samples from which a node's rate in the window is
// computed: the newest Samples, as many as are needed to cover the window. If the counts of a
// Sample begin at an unknown moment (receivedCounts.begins), neither this Sample nor an older one
// is used. If no Sample is left, first is last+1.
func (p *painter) samplesOf(n *node) (first, last int) {
	last = len(n.samples) - 1
	newest, window := n.samples[last].until, cycles(p.v.window, n.Nominal_hz)
	for first = last + 1; first > 0 && !n.samples[first-1].begins; first-- {
		if first <= last && newest-n.samples[first].since >= window {
			break
		}
	}
	return first, last
}

// unknownRate is the rate if nothing is known of it: any number of events per second.
var unknownRate = Rate{Hi: math.MaxFloat64}

// rateOf returns the rate of the events that some Samples of a node counted. The counts of a Sample
// end at a moment that is not known exactly: it lies between the Sample's fields until and made.
func (n *node) rateOf(first, last int, events uint64) Rate {
	if first > last {
		return unknownRate
	}
	if events == 0 {
		return Rate{}
	}
	a, b := n.samples[first], n.samples[last]
	longest := float64(b.made - min(a.since, b.made))
	least := float64(b.until - min(a.sinceMade, b.until))
	lo, hi := n.frequency()
	r := unknownRate
	if longest > 0 {
		r.Lo = float64(events) * lo / longest
	}
	if least > 0 {
		r.Hi = float64(events) * hi / least
	}
	return r
}

func (r Rate) plus(s Rate) Rate { return Rate{r.Lo + s.Lo, min(r.Hi+s.Hi, math.MaxFloat64)} }

func (n *node) frequency() (lo, hi float64) {
	if f := n.Frequency; f != nil && f.Lo_millihz > 0 {
		return float64(f.Lo_millihz) / 1e3, float64(f.Hi_millihz) / 1e3
	}
	return float64(n.Nominal_hz), float64(n.Nominal_hz)
}

func (p *painter) describeReference() {
	n := p.reference
	p.Reference = Reference{Node: n.Name, Clock: "nominal"}
	p.Reference.Lo_hz, p.Reference.Hi_hz = n.frequency()
	if n.Frequency != nil {
		p.Reference.Clock = n.Frequency.Clock
	}
}

// interval returns a duration in cycles and in ns, rounded outward.
func (r *Reference) interval(lo_cycles, hi_cycles int64) Interval {
	ns := func(cycles int64, hz, other_hz float64) float64 {
		if cycles < 0 {
			hz = other_hz
		}
		return float64(cycles) / hz * 1e9
	}
	const rounding = 1e-15 // more than the error of these two operations
	lo, hi := ns(lo_cycles, r.Hi_hz, r.Lo_hz), ns(hi_cycles, r.Lo_hz, r.Hi_hz)
	return Interval{lo_cycles, hi_cycles, lo - math.Abs(lo)*rounding, hi + math.Abs(hi)*rounding}
}

func cycles(d time.Duration, hz uint64) uint64 { return uint64(d.Seconds() * float64(hz)) }

// findFrontier finds the newest moment up to which all nodes have sent everything that they logged.
// If there is no such moment, it returns false.
func (p *painter) findFrontier() bool {
	p.end = math.MaxUint64
	for _, n := range p.senders {
		p.v.clocks.wantRelation(n.Name, p.reference.Name)
		if n.Virtual {
			continue
		}
		age, known := p.longestAge(n)
		if !known {
			continue
		}
		until, ok := p.v.clocks.placeReading(n, n.until)
		began, ok2 := p.v.clocks.placeReading(n, n.began)
		if !ok || !ok2 && !p.isOld(n) {
			p.unrelated = append(p.unrelated, n.Name)
			continue
		}
		p.end = min(p.end, until.Lo)
		if ok2 {
			p.begun = max(p.begun, began.Hi)
		}
		p.Age_ns = max(p.Age_ns, int64(age))
	}
	return p.end != math.MaxUint64
}

// isOld reports whether a node's stream began earlier than all events that the picture can use.
func (p *painter) isOld(n *node) bool {
	return n.until > n.began+cycles(p.v.window+Kept, n.Nominal_hz)
}

// longestAge returns the longest time that can have passed since the end of a node's data. It is
// unknown until the node has named an order that the server sent after this View's first request.
// While another client watches, the first Samples name earlier orders.
func (p *painter) longestAge(n *node) (longest time.Duration, known bool) {
	sent := time.Time{}
	for order, at := range p.v.orders {
		if order <= n.order && (!known || at.After(sent)) {
			sent, known = at, true
		}
	}
	// The node's clock may be faster or slower than this one, by a thousandth at most.
	return p.now.Sub(sent) - n.since + (n.since.Abs() / 1000), known
}

// describeNodes describes the nodes.
func (p *painter) describeNodes() {
	for _, n := range p.v.nodes {
		one := Node{Name: n.Name, Age_ns: -1, Bits: n.bits()}
		if len(n.samples) > 0 {
			first, last := p.samplesOf(n)
			events := uint64(0)
			for _, s := range n.samples[first:] {
				for _, c := range s.channels {
					events += c.events
				}
			}
			one.Rate = n.rateOf(first, last, events)
			if age, known := p.longestAge(n); known {
				one.Age_ns = int64(age)
			}
		}
		one.State = p.describeState(n)
		p.Nodes = append(p.Nodes, one)
	}
	slices.SortFunc(p.Nodes, func(x, y Node) int { return strings.Compare(x.Name, y.Name) })
}

// unseenRemark is the end of a remark about a node whose events are missing from the spans.
const unseenRemark = ": paths may pass it unseen"

// describeState says what is wrong with a node. If nothing is wrong, it returns an empty text.
func (p *painter) describeState(n *node) string {
	_, aged := p.longestAge(n)
	switch {
	case !n.Agent:
		return "tsc-client: keeps no events"
	case !n.CanWatch:
		return fmt.Sprintf("its agent is too old to be watched (%s)%s", n.Software, unseenRemark)
	case n.stream == "" && p.now.Sub(n.lastHeard) > silent:
		return "sends nothing" + unseenRemark
	case n.stream == "":
		return "has not sent anything yet" + unseenRemark
	case p.now.Sub(n.lastHeard) > silent:
		return fmt.Sprintf("silent for %v%s", p.now.Sub(n.lastHeard).Round(100*time.Millisecond),
			unseenRemark)
	case n.Virtual:
		return "virtual: its logs are translated only after the run" + unseenRemark
	case !aged:
		return "the age of its data is not known yet" + unseenRemark
	case slices.Contains(p.unrelated, n.Name):
		return fmt.Sprintf("no relation with %s yet%s", p.reference.Name, unseenRemark)
	case n.thins:
		return "takes fewer tuples than it has to: its events are not used" + unseenRemark
	case n.fullChannels > 0:
		return fmt.Sprintf("%d more channels have no room%s", n.fullChannels, unseenRemark)
	case p.now.Sub(n.refusedEvents) < p.v.window+Kept:
		return "sends more than it may: some of it is not used"
	case n.lacksEvents(p.now, p.v.window):
		return "some of its messages were lost"
	}
	return ""
}

// makeNotes makes the notes about the whole picture.
func (p *painter) makeNotes() {
	can := slices.ContainsFunc(p.Nodes, func(n Node) bool { return p.v.nodes[n.Name].CanWatch })
	switch {
	case len(p.Nodes) == 0:
		p.note("no node is registered: start cp-agent on each")
	case !can:
		p.note("no node has an agent that can be watched: start cp-agent, of this release")
	}
	if p.Run == "" && len(p.Nodes) > 0 {
		p.note("no run is open (cprof run start NAME): the nodes are measured only now and then, " +
			"so bounds are wide")
	}
	for _, n := range p.Nodes {
		if n.State != "" {
			p.note("%s: %s", n.Name, n.State)
		}
	}
	for _, problem := range slices.Sorted(maps.Keys(p.v.clocks.problems)) {
		p.note("%s", problem)
	}
	if len(p.v.points) >= maxNames {
		p.note("there are more than %d points: others are not shown", maxNames)
	}
	if p.repeatedIDs > 0 {
		p.note("ids that came more than once at a point, and are left out: %d", p.repeatedIDs)
	}
	estimate := slices.ContainsFunc(p.Spans, func(l Span) bool { return l.Estimate })
	if estimate {
		p.note("! an estimate: the data contradict the declared wander, or come close to it")
	}
}

// sortSpans sorts the spans by the 99th percentile, the slowest first. Spans from a tuple's first
// point to its last come before all others.
func (p *painter) sortSpans() {
	slices.SortFunc(p.Spans, func(x, y Span) int {
		whole := func(l Span) int {
			if l.Whole {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(whole(x), whole(y)),
			cmp.Compare(y.P99.Hi_cycles, x.P99.Hi_cycles), strings.Compare(x.From, y.From),
			strings.Compare(x.To, y.To))
	})
}

// chooseRanks gives each point with sampled events a rank: a bit in masks. If there are more than
// maxPoints such points, each node gets an equal share of the ranks.
func (p *painter) chooseRanks() {
	p.rank = map[int]int{}
	byNode := make([][]int, len(p.senders))
	for i, n := range p.senders {
		seen := map[int]bool{}
		for _, s := range n.samples {
			for _, c := range s.channels {
				if !seen[c.point] && c.keeps != control.KeepsNone {
					seen[c.point] = true
					byNode[i] = append(byNode[i], c.point)
				}
			}
		}
	}
	for turn, more := 0, true; more; turn++ {
		more = false
		for _, points := range byNode {
			if turn >= len(points) {
				continue
			}
			more = true
			if _, ok := p.rank[points[turn]]; !ok && len(p.ranks) < maxPoints {
				p.rank[points[turn]] = len(p.ranks)
				p.ranks = append(p.ranks, p.v.points[points[turn]])
				if p.whyUnseen[points[turn]] != "" {
					p.lossyMask |= 1 << (len(p.ranks) - 1)
				}
			}
		}
	}
	if len(p.ranks) == maxPoints {
		p.note("there are %d points or more: latencies are of the first %[1]d", maxPoints)
	}
}

// bitsOf iterates over the ranks in a mask.
func bitsOf(mask uint64) func(func(int) bool) {
	return func(yield func(int) bool) {
		for ; mask != 0; mask &= mask - 1 {
			if !yield(bits.TrailingZeros64(mask)) {
				return
			}
		}
	}
}
