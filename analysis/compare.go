package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/big"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Comparison shows, over the time axis, how precisely each method determines a duration from one
// node to another.
type Comparison struct {
	A       string   `json:"a"`
	B       string   `json:"b"`
	Verdict string   `json:"verdict"` // the verdict on our own bound: consistent or suspect
	Methods []Method `json:"methods"` // one for each name below, in the order of the names
}

// The names of methods.
const (
	Ours = "cloudprofiler"
	// MinRTT is the paper's method. It fits a line through two exchanges, the anchors. Its bound is
	// the sum of two terms: half of the larger of the two round trips, and how far the rates may
	// have wandered since the nearer anchor.
	MinRTT = "minrtt"
	// ReT is the method of return trips. Its bound for a tuple is half of the round trip of the
	// tuple's acknowledgement. In each bin, its bound is the median over the tuples.
	ReT = "ret"
	// NTP is |offset| + dispersion + delay/2, added up for both nodes.
	NTP = "ntp"
)

// Method is one method and its bound. The bound is how far the method may be off in either
// direction.
type Method struct {
	Name string `json:"name"`
	// true: proven, under the assumptions that the answer names; false: only claimed
	Proven bool   `json:"proven"`
	Absent string `json:"absent,omitempty"` // why there are no values
	// what the method measures, if it is not what the other methods measure
	About string `json:"about,omitempty"`

	// Held says how the method's values compare with the truth. It is absent where the truth is not
	// known. For ours and minrtt, a value is the reading of one counter at the moment when the
	// other counter shows a given reading. For ret, a value is a tuple's duration. For ntp, a value
	// is the difference of the two clocks, computed from what both daemons claim at one time.
	Held *Held `json:"held,omitempty"`

	Bounds_cycles Column `json:"bounds_cycles"` // the bound in each bin

	// Times is the method's median bound divided by our median bound. Both medians are over the
	// bins in which both methods have a bound. Gaps counts the bins in which only our method has a
	// bound. Times and Gaps are 0 for ours.
	Times float64 `json:"times,omitempty"`
	Gaps  int     `json:"gaps,omitempty"`

	// The smallest, the median and the largest bound of the bins that have one.
	Least_cycles  int64 `json:"least_cycles"`
	Median_cycles int64 `json:"median_cycles"`
	Worst_cycles  int64 `json:"worst_cycles"`
}

// comparisonSamples is the number of moments at which a bound is computed. Each value is used until
// the next moment.
const comparisonSamples = 90

// comparer puts our bound of each pair beside the bounds of other methods.
type comparer struct {
	in     *input
	bins   Bins
	hz     float64 // upper end of the reference's frequency; 0: not known
	views  map[[2]string]*tscratio.View
	claims map[string]daemonClaims
}

// daemonClaims is what a node's daemon claimed over time, or the reason why that is not known.
type daemonClaims struct {
	bounds Column
	claims []*Claim // the claim that applies in each bin; nil: none
	absent string
}

func (in *input) compare(bins Bins, trips *returnJoiner) []Comparison {
	if bins.Count == 0 {
		return nil
	}
	c := &comparer{
		in: in, bins: bins, hz: in.nodes[in.clocks.reference].FrequencyHi_hz,
		views: map[[2]string]*tscratio.View{}, claims: map[string]daemonClaims{},
	}
	var all []Comparison
	for _, p := range in.clocks.pairs {
		ours, verdict := c.ourMethod(&p)
		comparison := Comparison{
			A: p.a, B: p.b, Verdict: verdict.String(),
			Methods: []Method{
				ours, c.minRTT(&p),
				{
					Name: ReT, Bounds_cycles: trips.medianBounds(in, p.a, p.b, bins.Count),
					Held:   trips.sumHeld(in, p.a, p.b),
					Absent: "no return trips were logged between the two nodes",
				},
				c.ntpMethod(p.a, p.b),
			},
		}
		for i := range comparison.Methods {
			comparison.Methods[i].sum()
		}
		for i := range comparison.Methods[1:] {
			comparison.Methods[i+1].setBeside(comparison.Methods[0].Bounds_cycles)
		}
		all = append(all, comparison)
	}
	return all
}

// sum computes the smallest, the median and the largest bound of all bins.
func (m *Method) sum() {
	values := m.Bounds_cycles.presentValues()
	if len(values) == 0 {
		m.Bounds_cycles = Column{}
		return
	}
	m.Absent = ""
	m.Least_cycles, m.Median_cycles, m.Worst_cycles = values[0], values[(len(values)-1)/2],
		values[len(values)-1]
}

// setBeside compares the bounds with ours, only in bins in which both methods have one. If all bins
// counted, a method that has values only when measuring is easy would look better than it is.
func (m *Method) setBeside(ours Column) {
	if len(m.Bounds_cycles) == 0 {
		return
	}
	var theirs, same Column
	for i, v := range m.Bounds_cycles {
		switch {
		case i >= len(ours) || ours[i] == None:
		case v == None:
			m.Gaps++
		default:
			theirs, same = append(theirs, v), append(same, ours[i])
		}
	}
	if theirs, same = theirs.presentValues(), same.presentValues(); len(same) > 0 {
		m.Times = float64(theirs[(len(theirs)-1)/2]) / float64(max(same[(len(same)-1)/2], 1))
	}
}

// translateAt translates a reading of the reference into another node's cycles.
func (c *comparer) translateAt(node string, reading uint64) (uint64, bool) {
	reference := c.in.nodes[c.in.clocks.reference].Name
	if node == reference {
		return reading, true
	}
	i, ok := c.translate(reference, node, reading)
	return i.Mid(), ok
}

func (c *comparer) translate(from, into string, reading uint64) (tscratio.Interval, bool) {
	v, known := c.views[[2]string{from, into}]
	if !known {
		v, _ = c.in.clocks.closure.View(from, into) // nil: not related
		c.views[[2]string{from, into}] = v
	}
	if v == nil {
		return tscratio.Interval{}, false
	}
	i, _, err := v.Translate(reading)
	return i, err == nil
}

// sampleBound computes a bound at moments of the run, with a function that gets each moment as a
// reading of a node. Each value is used until the next moment.
func (c *comparer) sampleBound(node string, bound func(reading uint64) (int64, bool)) Column {
	column := emptyColumn(c.bins.Count)
	step := max(1, c.bins.Count/comparisonSamples)
	for i := 0; i < len(column); i += step {
		reading, ok := c.translateAt(node,
			uint64(c.bins.From_cycles)+c.bins.Width_cycles*uint64(2*i+step)/2)
		if !ok {
			continue
		}
		b, ok := bound(reading)
		for j := i; ok && j < min(i+step, len(column)); j++ {
			column[j] = b
		}
	}
	return column
}

// ourMethod computes the bound of our own method: half the width of the interval that a reading of
// B becomes when it is translated into A's cycles.
func (c *comparer) ourMethod(p *pairClock) (Method, tscratio.Verdict) {
	verdict := max(p.intoA.Verdict, p.intoB.Verdict)
	scale := c.in.rateOf(p.a)
	m := Method{
		Name: Ours, Proven: verdict == tscratio.Consistent,
		Absent: "the run's time lies too far from the exchanges of the two nodes",
	}
	m.Bounds_cycles = c.sampleBound(p.b, func(reading uint64) (int64, bool) {
		at, ok := c.translate(p.b, p.a, reading)
		if ok {
			m.Held = c.checkTruth(m.Held, p.b, reading, p.a, at)
		}
		return scaleUp(float64(at.HalfWidth()), scale), ok
	})
	return m, verdict
}

// minRTT is the paper's bound, with anchors before and after the run. Either node may have started
// the exchanges. If both did, the smaller bound is used.
func (c *comparer) minRTT(p *pairClock) Method {
	m := Method{Name: MinRTT, Absent: "neither node started exchanges before and after the run"}
	var best *big.Rat
	for _, side := range []struct {
		by                tscratio.Starter
		starter, answerer string
	}{{tscratio.StartedByA, p.a, p.b}, {tscratio.StartedByB, p.b, p.a}} {
		relation, err := c.anchoredMethod(p.pair.Best(side.by), side.answerer)
		if err != nil || best != nil && relation.E().Cmp(best) >= 0 {
			continue
		}
		best = relation.E()
		scale := c.in.rateOf(side.starter)
		m.Held = nil
		m.Bounds_cycles = c.sampleBound(side.answerer, func(reading uint64) (int64, bool) {
			b, err := relation.WanderedBound(reading, p.intoA.Wander)
			if err != nil {
				return 0, false
			}
			if c.in.options.Truth != nil {
				m.Held = c.holdPaper(m.Held, relation, b, side.answerer, reading, side.starter)
			}
			cycles, _ := b.Float64()
			return scaleUp(cycles, scale), true
		})
	}
	return m
}

// holdPaper checks the paper's interval against the truth. The interval extends by the bound to
// either side.
func (c *comparer) holdPaper(h *Held, r tscratio.PaperRelation, bound *big.Rat, node string,
	reading uint64, into string) *Held {
	v, err := r.Value(reading)
	if err != nil {
		return h
	}
	v.Paper = bound
	at, err := v.Interval()
	if err != nil {
		return h
	}
	return c.checkTruth(h, node, reading, into, at)
}

// checkTruth compares a method's interval with the truth, if the truth is known. The method claims
// that the counter of one node (into) was in the interval when the counter of another node showed a
// given reading.
func (c *comparer) checkTruth(h *Held, node string, reading uint64, into string,
	at tscratio.Interval) *Held {
	if c.in.options.Truth == nil {
		return h
	}
	truth, ok := c.in.options.Truth(node, reading, into)
	if !ok {
		return h
	}
	if h == nil {
		h = new(Held)
	}
	from := at.Lo // from is subtracted, so that both ends fit into 64 signed bits
	h.checkTruth(tscratio.Elapsed{Hi: int64(at.Hi - from)}, tscratio.Elapsed{
		Lo: int64(truth.Lo - from), Hi: int64(truth.Hi - from),
	})
	return h
}

// anchoredMethod uses the best exchanges before and after the time axis of the answer as the
// paper's anchors. If there are none before, it uses the first exchange of all. If there are none
// after, it uses the last.
func (c *comparer) anchoredMethod(exchanges []tscratio.Exchange,
	answerer string) (tscratio.PaperRelation, error) {
	begin, ok := c.translateAt(answerer, uint64(c.bins.From_cycles))
	end, ok2 := c.translateAt(answerer,
		uint64(c.bins.From_cycles)+c.bins.Width_cycles*uint64(c.bins.Count))
	if !ok || !ok2 || len(exchanges) < 2 {
		return tscratio.PaperRelation{}, errUnrelated
	}
	slices.SortFunc(exchanges, func(x, y tscratio.Exchange) int {
		return cmp.Compare(x.Answered.Lo, y.Answered.Lo)
	})
	from := func(reading uint64) int {
		i, _ := slices.BinarySearchFunc(exchanges, reading,
			func(e tscratio.Exchange, r uint64) int { return cmp.Compare(e.Answered.Lo, r) })
		return i
	}
	return tscratio.PaperRelate(exchanges[:max(from(begin), 1)],
		exchanges[min(from(end), len(exchanges)-1):])
}

// claimHolds_s is how long a daemon's claim is used if no other claim follows. During a run the
// daemon is asked every second.
const claimHolds_s = 10

// ntpMethod adds up what both nodes' daemons claimed. The sum bounds the error of a duration from
// one clock to the other.
func (c *comparer) ntpMethod(a, b string) Method {
	m := Method{Name: NTP}
	x, y := c.claimsOf(a), c.claimsOf(b)
	if m.Absent = cmp.Or(x.absent, y.absent); m.Absent != "" {
		return m
	}
	m.Absent = "the daemons of the two nodes claimed nothing at the same time"
	m.Bounds_cycles = emptyColumn(c.bins.Count)
	for i := range m.Bounds_cycles {
		if x.bounds[i] != None && y.bounds[i] != None {
			m.Bounds_cycles[i] = x.bounds[i] + y.bounds[i]
		}
	}
	c.holdClaims(&m, a, b, x.claims, y.claims)
	return m
}

// sharedClock says which clock chrony's claims are about on virtual nodes.
const sharedClock = "REALTIME of the one machine that the virtual nodes are on. In truth " +
	"it is the same for both; chrony does not see their own clocks"

// holdClaims checks the claims of two virtual nodes' daemons against the truth. Both daemons
// describe one clock, the clock of their machine, so any difference of their offsets is an error.
func (c *comparer) holdClaims(m *Method, a, b string, x, y []*Claim) {
	if c.in.options.Truth == nil {
		return
	}
	var before [2]*Claim
	for i := range x {
		now := [2]*Claim{x[i], y[i]}
		if now[0] == nil || now[1] == nil || now == before ||
			max(now[0].Bound_ns, now[1].Bound_ns) > mostBound_cycles {
			continue
		}
		before = now
		if _, ok := c.in.options.Truth(a, now[0].CounterLo, b); !ok {
			continue // the two nodes are not on one machine
		}
		m.About = sharedClock
		if m.Held == nil {
			m.Held = new(Held)
		}
		off, rest := int64(0), int64(0)
		for k, claim := range now {
			off += claim.Offset_ns * int64(1-2*k)
			rest += int64(claim.Bound_ns) - abs(claim.Offset_ns)
		}
		m.Held.checkTruth(tscratio.Elapsed{Lo: off - rest, Hi: off + rest}, tscratio.Elapsed{})
	}
}

func abs(v int64) int64 { return max(v, -v) }

// claimsOf returns a node's claims over time. Each claim holds until the next one.
func (c *comparer) claimsOf(node string) daemonClaims {
	if known, ok := c.claims[node]; ok {
		return known
	}
	known, err := c.readClaims(node)
	if err != nil {
		known.absent = err.Error()
	}
	c.claims[node] = known
	return known
}

func (c *comparer) readClaims(node string) (daemonClaims, error) {
	if !(c.hz > 0) {
		return daemonClaims{},
			errors.New("claims are in ns, and the frequency of the reference is not known")
	}
	of := c.in.nodes[slices.IndexFunc(c.in.nodes, func(n nodeInput) bool { return n.Name == node })]
	claims, err := Claims(c.in.run, of.node, of.Epoch)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return daemonClaims{}, fmt.Errorf("what the NTP daemon of node %s claimed was not kept",
			node)
	case err != nil:
		c.in.noteMissing(runs.Missing{Part: runs.BaselinePath(of.node), Reason: err.Error()})
		if len(claims) == 0 {
			return daemonClaims{}, err
		}
	}
	reference := c.in.nodes[c.in.clocks.reference].Name
	known := daemonClaims{bounds: emptyColumn(c.bins.Count), claims: make([]*Claim, c.bins.Count)}
	hold := 1 + int64(claimHolds_s*c.hz/float64(c.bins.Width_cycles))
	for i := range claims {
		claim := &claims[i]
		at := claim.CounterLo + (claim.CounterHi-claim.CounterLo)/2
		if node != reference {
			i, ok := c.translate(node, reference, at)
			if !ok {
				continue
			}
			at = i.Mid()
		}
		bound, holds := int64(None), (*Claim)(nil)
		if claim.Synchronised {
			holds = claim
			bound = scaleUp(float64(claim.Bound_ns), c.hz/1e9)
		}
		first := int64(at-uint64(c.bins.From_cycles)) / int64(c.bins.Width_cycles)
		for b := max(first, 0); b < min(first+hold, int64(c.bins.Count)); b++ {
			known.bounds[b], known.claims[b] = bound, holds
		}
	}
	return known, nil
}

// rateOf is how many cycles of the reference pass in one cycle of a node. It uses the rate of the
// two nodes' relation. Without a relation it uses the stated frequencies.
func (in *input) rateOf(node string) float64 {
	reference := in.nodes[in.clocks.reference]
	if node == reference.Name {
		return 1
	}
	for _, p := range in.clocks.pairs {
		for _, r := range []*tscratio.Relation{p.intoA, p.intoB} {
			if r.From.Name == node && r.Into.Name == reference.Name {
				if rate, err := r.Rate(r.Limits().Mid()); err == nil {
					return rate.Hi.Float()
				}
			}
		}
	}
	for _, n := range in.nodes {
		if n.Name == node && n.FrequencyLo_hz > 0 && reference.FrequencyHi_hz > 0 {
			return reference.FrequencyHi_hz / n.FrequencyLo_hz
		}
	}
	return 1
}

// mostBound_cycles is the largest bound that is reported. Every reader of JSON represents exactly
// this number and the sum of two such numbers.
const mostBound_cycles = 1 << 52

// scaleUp converts a number of cycles by a scale and rounds up. The factor 1+1e-12 covers the error
// of float64.
func scaleUp(cycles, scale float64) int64 {
	if scale == 1 { // they are the same cycles
		return int64(min(math.Ceil(cycles), mostBound_cycles))
	}
	return int64(min(math.Ceil(cycles*scale*(1+1e-12)), mostBound_cycles))
}
