package report

import (
	"errors"
	"io/fs"
	"math"
	"math/big"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// comparisonSamples is at how many moments of the run a pair's bound is computed, and then held until the next.
const comparisonSamples = 90

// compare puts our bound of each pair over the run's time beside the paper's, from the stored pairs. It evaluates these again: an answer
// says how wide bounds are, and not when.
func (f *from) compare(run *runs.Directory) {
	pairs, _ := run.Relations()
	if len(pairs) == 0 || f.Timeline.Buckets == 0 {
		f.absent(PartBounds, "no two nodes were related, so no duration crosses")
		return
	}
	if n := len(pairs); n > maxComparisons {
		// Those of the reference carry most of the answer.
		slices.SortStableFunc(pairs, func(p, q *tscratio.Pair) int { return f.withReference(q) - f.withReference(p) })
		pairs = pairs[:maxComparisons]
		f.absent(PartBounds, "%d more pairs of nodes are not compared", n-maxComparisons)
	}
	var relations []*tscratio.Relation
	related := map[*tscratio.Pair]bool{}
	for _, p := range pairs {
		wander := p.Declared.Wander
		for _, known := range f.a.Pairs {
			if known.A == p.A.Name && known.B == p.B.Name {
				wander = tscratio.Wander(math.Round(known.Declared_ppm * float64(tscratio.PPM)))
			}
		}
		a, err := p.Relate(tscratio.SideA, wander)
		b, err2 := p.Relate(tscratio.SideB, wander)
		if errors.Join(err, err2) == nil {
			relations = append(relations, a, b)
			related[p] = true
		}
	}
	legs := 2
	if len(f.a.Nodes) > 32 { // as the analysis does
		legs = 1
	}
	closure, err := tscratio.NewClosure(relations, legs)
	if err != nil {
		f.absent(PartBounds, "%v", err)
		return
	}
	for _, p := range pairs {
		if !related[p] {
			continue
		}
		ours, v := f.ours(closure, p)
		f.Comparisons = append(f.Comparisons, Comparison{A: p.A.Name, B: p.B.Name, Verdict: v, Methods: []Method{
			{Name: Ours, Proven: v == Consistent, Bound: ours, Absent: "the run's time lies too far from the exchanges of the two nodes"},
			f.plain(p),
			{Name: ReT, Absent: "return trips are not read"},
			f.ntp(run, closure, p),
		}})
	}
	if len(f.Comparisons) == 0 {
		f.absent(PartBounds, "no relation of the run could be evaluated")
	}
}

func (f *from) withReference(p *tscratio.Pair) int {
	if p.A.Name == f.Reference.Node || p.B.Name == f.Reference.Node {
		return 1
	}
	return 0
}

// ours is half of how wide B's readings are in A's cycles, at moments of the run. It holds from one moment to the next.
func (f *from) ours(closure *tscratio.Closure, p *tscratio.Pair) (Column, Verdict) {
	column, v := none(f.Timeline.Buckets), Consistent
	toA, err := closure.View(p.B.Name, p.A.Name)
	if err != nil {
		return nil, Suspect
	}
	var toB *tscratio.View
	if f.Reference.Node != p.B.Name {
		if toB, err = closure.View(f.Reference.Node, p.B.Name); err != nil {
			return nil, Suspect
		}
	}
	step := max(1, f.Timeline.Buckets/comparisonSamples)
	for i := 0; i < f.Timeline.Buckets; i += step {
		reading := f.Timeline.Start + uint64(f.Timeline.Bucket_cycles)*uint64(2*i+step)/2
		if toB != nil {
			at, _, err := toB.Translate(reading)
			if err != nil {
				continue
			}
			reading = at.Mid()
		}
		at, verdict, err := toA.Translate(reading)
		if err != nil {
			continue
		}
		if verdict != tscratio.Consistent {
			v = Suspect
		}
		for j := i; j < min(i+step, len(column)); j++ {
			column[j] = f.inReference(p.A.Name, at.HalfWidth())
		}
	}
	return column, v
}

// plain is the paper's bound: half of the larger of the smallest round trips before and after. It is one figure for the whole run.
func (f *from) plain(p *tscratio.Pair) Method {
	m := Method{Name: MinRTT, Absent: "neither node started exchanges in two trains"}
	var best *big.Rat
	var node string
	for by, starter := range map[tscratio.Starter]string{tscratio.StartedByA: p.A.Name, tscratio.StartedByB: p.B.Name} {
		exchanges := p.Best(by)
		half := len(exchanges) / 2
		if half == 0 {
			continue
		}
		relation, err := tscratio.PaperRelate(exchanges[:half], exchanges[half:])
		if err != nil {
			continue
		}
		// Either direction may be taken; in the reference's cycles the smaller wins.
		if e := relation.E(); best == nil || e.Cmp(best) < 0 || e.Cmp(best) == 0 && starter < node {
			best, node = e, starter
		}
	}
	if best == nil {
		return m
	}
	e, _ := best.Float64()
	bound := f.inReference(node, uint64(math.Ceil(e)))
	m.Absent, m.Bound = "", make(Column, f.Timeline.Buckets)
	for i := range m.Bound {
		m.Bound[i] = bound
	}
	return m
}

// claimHolds_s is for how long after a daemon's claim nothing else is said of it: it is asked every second during a run.
const claimHolds_s = 10

// ntp is what both nodes' daemons claimed, added up: the error of a duration from one clock to the other. A claim holds until the next.
func (f *from) ntp(run *runs.Directory, closure *tscratio.Closure, p *tscratio.Pair) Method {
	m := Method{Name: NTP}
	if !(f.Reference.Hi_hz > 0) {
		m.Absent = "it is in ns, and the frequency of the reference is not known"
		return m
	}
	column := none(f.Timeline.Buckets)
	for i, node := range []string{p.A.Name, p.B.Name} {
		claims, reason := f.claims(run, closure, node)
		if reason != "" {
			m.Absent = reason
			return m
		}
		for b, bound := range claims {
			switch {
			case bound == None || i == 1 && column[b] == None:
				column[b] = None
			case i == 0:
				column[b] = bound
			default:
				column[b] += bound
			}
		}
	}
	if !slices.ContainsFunc(column, func(v int64) bool { return v != None }) {
		m.Absent = "the daemons of the two nodes claimed nothing at the same time"
		return m
	}
	m.Bound = column
	return m
}

// claims are one node's, over the timeline, in reference cycles; or the reason why there are none.
func (f *from) claims(run *runs.Directory, closure *tscratio.Closure, node string) (Column, string) {
	claims, err := analysis.Claims(run, node)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "what the NTP daemon of node " + node + " claimed was not kept"
	}
	if err != nil && len(claims) == 0 {
		return nil, err.Error()
	}
	var view *tscratio.View
	if node != f.Reference.Node {
		if view, err = closure.View(node, f.Reference.Node); err != nil {
			return nil, err.Error()
		}
	}
	column := none(f.Timeline.Buckets)
	hold := 1 + int(claimHolds_s*f.Reference.Hi_hz/float64(f.Timeline.Bucket_cycles))
	for _, c := range claims {
		at := c.CounterLo + (c.CounterHi-c.CounterLo)/2
		if view != nil {
			i, _, err := view.Translate(at)
			if err != nil {
				continue
			}
			at = i.Mid()
		}
		bound := int64(None)
		if c.Synchronised {
			bound = int64(min(math.Ceil(float64(c.Bound_ns)*f.Reference.Hi_hz/1e9), exact/2))
		}
		first := int64(at-f.Timeline.Start) / f.Timeline.Bucket_cycles
		for b := max(first, 0); b < min(first+int64(hold), int64(len(column))); b++ {
			column[b] = bound
		}
	}
	return column, ""
}
