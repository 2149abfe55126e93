package analysis

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// compare compares an answer with the oracle's. If exact is true, percentiles must be equal.
// Otherwise they may be rounded outward.
func compare(t *testing.T, o *oracle, want *oracleAnswer, got *Answer, exact bool) {
	t.Helper()
	if got.Work.Tuples != uint64(want.tuples) {
		t.Errorf("%d tuples, the oracle has %d", got.Work.Tuples, want.tuples)
	}
	for _, p := range got.Points {
		for what, pair := range map[string][2]int{
			"tuples":     {int(p.Tuples), want.pass[p.Name]},
			"duplicates": {int(p.Duplicates), want.duplicates[p.Name]},
			"lost":       {int(p.Lost + p.Filtered), want.lost[p.Name]},
			"in flight":  {int(p.InFlight), want.inFlight[p.Name]},
			"perhaps":    {int(p.Perhaps), want.perhaps[p.Name]},
			"appeared":   {int(p.Appeared), want.appeared[p.Name]},
			"late":       {int(p.Disordered), want.disordered[p.Name]},
		} {
			if pair[0] != pair[1] {
				t.Errorf("%s at %s: %d, the oracle has %d", what, p.Name, pair[0], pair[1])
			}
		}
	}
	if text := fmt.Sprintf(
		"%d tuples that were made of others came to the end, but where those others began "+
			"is not known",
		want.orphans); mentions(got, text) != (want.orphans > 0) {
		t.Errorf("findings %v: the oracle has %d whose origin is not known", got.Findings,
			want.orphans)
	}
	spans := map[oracleSpan]*Span{}
	for i := range got.Spans {
		k := oracleSpan{got.Spans[i].From, got.Spans[i].To, ""}
		if got.Spans[i].Kind == "waiting" {
			k.origin = "waiting"
		}
		spans[k] = &got.Spans[i]
	}
	for i := range got.EndToEnd {
		l := &got.EndToEnd[i]
		spans[oracleSpan{l.From, l.To, cmp.Or(l.Origin, "whole")}] = l
	}
	all := maps.Clone(want.spans)
	for k := range want.withheld {
		if all[k] == nil {
			all[k] = nil
		}
	}
	if len(spans) != len(all) {
		t.Errorf("%d spans, the oracle has %d", len(spans), len(all))
	}
	for k := range all {
		if l := spans[k]; l != nil && l.All.Withheld != uint64(want.withheld[k]) {
			t.Errorf("%d durations withheld of span %v, the oracle has %d", l.All.Withheld, k,
				want.withheld[k])
		}
	}
	for k, byNodes := range want.spans {
		l := spans[k]
		if l == nil {
			t.Errorf("span %v is missing", k)
			continue
		}
		if l.Whole != uint64(want.wholes[k]) {
			t.Errorf("%d went their whole path on span %v, the oracle has %d", l.Whole, k,
				want.wholes[k])
		}
		measured := 0
		for _, p := range l.Pairs {
			if p.Count > 0 {
				measured++
			}
		}
		if measured != len(byNodes) {
			t.Errorf("span %v has %d pairs of nodes, the oracle has %d", k, len(l.Pairs),
				len(byNodes))
		}
		var all []tscratio.Duration
		for _, p := range l.Pairs {
			if p.Count == 0 {
				continue
			}
			ds := byNodes[[2]string{p.From, p.To}]
			all = append(all, ds...)
			compareDurations(t, fmt.Sprint(k, p.From, p.To), ds, &p.Durations, exact)
		}
		compareDurations(t, fmt.Sprint(k), all, &l.All, exact)
	}
	comparePaths(t, o, want, got)
	ordinary := len(want.slowest)
	if i := slices.IndexFunc(want.slowest, func(w oraclePath) bool { return w.made }); i >= 0 {
		ordinary = i
	}
	slowest := slices.Concat(want.slowest[:min(10, ordinary)],
		want.slowest[ordinary:min(ordinary+10, len(want.slowest))])
	for i, s := range got.Slowest[:min(len(slowest), len(got.Slowest))] {
		if s.Total.Lo_cycles != slowest[i].Lo || s.Made != slowest[i].made {
			t.Errorf("slowest %d took %v, the oracle has %v", i, s.Total, slowest[i].Elapsed)
		}
		if !slices.ContainsFunc(want.slowest, func(w oraclePath) bool { return o.isPath(w, s) }) {
			t.Errorf("slowest %d went %+v: no tuple of the oracle did", i, s)
		}
	}
	if len(got.Slowest) != len(slowest) {
		t.Errorf("%d slowest, want %d", len(got.Slowest), len(slowest))
	}
}

// comparePaths compares paths with the tuples of the oracle. Two points are on one path if tuples
// connect them, possibly through other points. In the list of a path's spans, a span must come
// before all spans with a smaller median.
func comparePaths(t *testing.T, o *oracle, want *oracleAnswer, got *Answer) {
	t.Helper()
	group := map[string]string{} // by point: some point of its path
	find := func(p string) string {
		for group[p] != p {
			p = group[p]
		}
		return p
	}
	for _, path := range want.points {
		for _, p := range path {
			if group[p] == "" {
				group[p] = p
			}
			group[find(p)] = find(path[0])
		}
	}
	tuples := map[string]uint64{}
	for _, path := range want.points {
		tuples[find(path[0])]++
	}
	if len(got.Paths) != len(tuples) {
		t.Errorf("%d paths, the oracle has %d", len(got.Paths), len(tuples))
	}
	for _, r := range got.Paths {
		on := find(r.From[0])
		if r.Tuples != tuples[on] {
			t.Errorf("%d tuples on the path from %v, the oracle has %d", r.Tuples, r.From,
				tuples[on])
		}
		spans, gaps := 0, []*Span{}
		for i := range got.Spans {
			l := &got.Spans[i]
			if find(l.From) != on || l.Kind == "waiting" {
				continue
			}
			if gap := o.mayHaveGap(l.From, l.To); gap != (l.Kind == "gap") {
				t.Errorf("span %s, %s is a %s, gap: %v", l.From, l.To, l.Kind, gap)
			} else if gap {
				gaps = append(gaps, l)
				continue
			}
			if l.All.Count > 0 {
				spans++
			}
			if (l.All.Count > 0) != slices.ContainsFunc(r.Spans, func(k RankedSpan) bool {
				return k.Span == i
			}) {
				t.Errorf("span %s, %s is not on the path from %v", l.From, l.To, r.From)
			}
			ends := func(points []string, of string) bool { return slices.Contains(points, of) }
			for j := range got.Spans {
				if other := &got.Spans[j]; other.To == l.From && ends(r.From, l.From) ||
					other.From == l.To && ends(r.To, l.To) {
					t.Errorf("the path from %v to %v goes on at span %s, %s", r.From, r.To,
						other.From, other.To)
				}
			}
		}
		for k := range want.spans {
			made := k.origin != "" && k.origin != "whole" && find(k.to) == on && find(k.from) != on
			if said := slices.ContainsFunc(r.MadeOf, func(i int) bool {
				return find(got.Paths[i].From[0]) == find(k.from)
			}); made && !said {
				t.Errorf("the path from %v was made of %v, and some came from %s", r.From,
					r.MadeOf, k.from)
			}
		}
		for _, of := range r.MadeOf {
			begin := find(got.Paths[of].From[0])
			measured := slices.ContainsFunc(slices.Collect(maps.Keys(want.spans)),
				func(k oracleSpan) bool {
					return k.origin == "earliest" && find(k.to) == on && find(k.from) == begin
				})
			withheld := slices.ContainsFunc(got.EndToEnd, func(l Span) bool {
				return l.Origin == "earliest" && l.All.Withheld > 0 && find(l.To) == on &&
					find(l.From) == begin
			})
			if !measured && !withheld {
				t.Errorf("the path from %v was not made of that from %v", r.From,
					got.Paths[of].From)
			}
		}
		if spans != len(r.Spans) {
			t.Errorf("%d spans on the path from %v, and %d lead on it", len(r.Spans), r.From, spans)
		}
		total := new(oracleSum)
		for k, c := range want.critical {
			if k[1] == "" && find(k[0]) == on {
				total.merge(c)
			}
		}
		if r.Whole != total.n {
			t.Errorf("%d whole tuples on the path from %v, the oracle has %d", r.Whole, r.From,
				total.n)
		}
		backwards := uint64(0)
		for k, byNodes := range want.spans {
			for _, ds := range byNodes {
				for _, d := range ds {
					of := k.origin != "earliest" && k.origin != "latest" && find(k.from) == on
					backwards += uint64(number(of && d.Hi < 0))
				}
			}
		}
		if r.Backwards != backwards {
			t.Errorf("%d durations on the path from %v end before they begin, the oracle has %d",
				r.Backwards, r.From, backwards)
		}
		compareShares(t, want, total, got.Spans, r, gaps,
			len(o.lacking)+len(want.withheld)+len(want.guesses) > 0)
	}
}

func (s *oracleSum) merge(o *oracleSum) {
	s.n += o.n
	s.lo.Add(&s.lo, &o.lo)
	s.hi.Add(&s.hi, &o.hi)
}

// compareShares checks the order of a path's spans, and the share of each in the end-to-end time. A
// gap is a part of the end-to-end time, but has no share. If lacking is true, some log is
// unreadable. Then the answer may withhold a share, or give a wider interval for it than the events
// in the other logs allow. It need not call any span surely slower.
func compareShares(t *testing.T, want *oracleAnswer, total *oracleSum, spans []Span,
	path Path, gaps []*Span, lacking bool) {
	t.Helper()
	ranked := path.Spans
	ofSpan := func(l *Span) *oracleSum {
		return cmp.Or(want.critical[[2]string{l.From, l.To}], new(oracleSum))
	}
	shared := !want.silent && total.lo.Sign() > 0
	for _, k := range ranked {
		shared = shared && ofSpan(&spans[k.Span]).hi.Sign() >= 0
	}
	size := func(k RankedSpan) (lo, hi float64) {
		l := &spans[k.Span]
		if (k.Share != nil) != shared && !(k.Share == nil && lacking) {
			t.Errorf("span %s, %s: share %v, shares are known: %v", l.From, l.To, k.Share, shared)
		}
		if k.Share == nil {
			p50, _ := l.All.Percentiles.At(50)
			return float64(p50.Lo_cycles), float64(p50.Hi_cycles)
		}
		c := ofSpan(l)
		others := new(oracleSum)
		for _, gap := range gaps {
			others.merge(ofSpan(gap))
		}
		for _, other := range ranked {
			if other.Span != k.Span {
				others.merge(ofSpan(&spans[other.Span]))
			}
		}
		float := func(n *big.Int) float64 { f, _ := n.Float64(); return f }
		cLo, cHi := max(float(&c.lo), 0), float(&c.hi)
		least := max(float(&total.lo)-cHi, float(&others.lo), 0)
		most := max(min(float(&total.hi)-cLo, float(&others.hi)), least)
		wantLo, wantHi := cLo/max(cLo+most, 1)*1e6, cHi/max(cHi+least, 1)*1e6
		if lo, hi := k.Share.Lo*1e6, k.Share.Hi*1e6; lo > wantLo+1e-6 || hi < wantHi-1e-6 ||
			!lacking && (lo < wantLo-1.01 || hi > wantHi+1.01) {
			t.Errorf("span %s, %s: share %v, the oracle has %g to %g millionths", l.From, l.To,
				*k.Share, wantLo, wantHi)
		}
		return k.Share.Lo, k.Share.Hi
	}
	for i, k := range ranked {
		sure := !want.silent && path.Backwards == 0
		for _, after := range ranked[i:] {
			sure = sure && spans[after.Span].All.Suspect == 0
		}
		for _, other := range ranked {
			sure = sure && (shared || spans[other.Span].All.Withheld == 0)
		}
		lo, _ := size(k)
		for _, after := range ranked[i+1:] {
			lower, upper := size(after)
			if lower > lo {
				t.Errorf("share %v stands before %v", lo, lower)
			}
			sure = sure && lo > upper
		}
		if k.Surely != sure && !(sure && lacking) {
			t.Errorf("span %d is surely slower than the next: %v", i, k.Surely)
		}
	}
}

// isPath reports whether a path in an answer is the oracle's path w. The two must agree on every
// event, on its time since the first event, and on its time since the previous event.
func (o *oracle) isPath(w oraclePath, got TuplePath) bool {
	if uint64(got.ID) != w.passed[0].id || got.Total != intervalOf(w.Elapsed) ||
		len(got.Passed) != len(w.passed) {
		return false
	}
	var points []string
	for _, e := range w.passed {
		points = append(points, e.point)
	}
	for i, e := range w.passed {
		p := got.Passed[i]
		if p.Point != e.point || p.Node != e.node || uint64(p.Reading) != e.reading ||
			p.At != intervalOf(o.duration(w.passed[0], e).Elapsed) {
			return false
		}
		came := o.directPoints(points, e.point)
		if len(p.After) != len(came) || i > 0 && len(came) == 0 {
			return len(came) == 0 && p.Since == nil
		}
		var before []oracleEvent
		for k, q := range came {
			before = append(before, w.passed[slices.Index(points, q)])
			if got.Passed[p.After[k].From].Point != q {
				return false
			}
		}
		if may, one := o.mayBeLatest(before); one && *p.Since !=
			intervalOf(o.duration(before[slices.Index(may, true)], e).Elapsed) {
			return false
		}
	}
	return true
}

func compareDurations(t *testing.T, what string, want []tscratio.Duration, got *Durations,
	exact bool) {
	t.Helper()
	if got.Count != uint64(len(want)) || len(want) == 0 {
		t.Errorf("%s: %d durations, the oracle has %d", what, got.Count, len(want))
		return
	}
	var los, his []int64
	var bounds []uint64
	orders := map[tscratio.Order]uint64{}
	scenarios := map[string]uint64{}
	sumLo, sumHi := new(big.Int), new(big.Int)
	for _, d := range want {
		los, his, bounds = append(los, d.Lo), append(his, d.Hi), append(bounds, (d.Width()+1)/2)
		orders[d.Order()]++
		scenarios[d.Scenario.String()]++
		sumLo.Add(sumLo, big.NewInt(d.Lo))
		sumHi.Add(sumHi, big.NewInt(d.Hi))
	}
	slices.Sort(los)
	slices.Sort(his)
	slices.Sort(bounds)
	n := big.NewInt(int64(len(want)))
	floor := new(big.Int).Div(sumLo, n)
	ceil := new(big.Int).Neg(new(big.Int).Div(new(big.Int).Neg(sumHi), n))
	if got.Mean.Lo_cycles != floor.Int64() || got.Mean.Hi_cycles != ceil.Int64() {
		t.Errorf("%s: mean %v, the oracle has %v to %v", what, got.Mean, floor, ceil)
	}
	if got.Before != orders[tscratio.Before] || got.After != orders[tscratio.After] ||
		got.Undecided != orders[tscratio.Undecided] {
		t.Errorf("%s: %d before, %d undecided, %d after, the oracle has %v", what, got.Before,
			got.Undecided, got.After, orders)
	}
	if diff := gocmp.Diff(scenarios, got.Scenarios); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
	last := len(los) - 1
	if got.Min != (Interval{los[0], his[0]}) || got.Max != (Interval{los[last], his[last]}) {
		t.Errorf("%s: from %v to %v, the oracle has %d, %d to %d, %d", what, got.Min, got.Max,
			los[0], his[0], los[last], his[last])
	}
	for i, p := range got.Percentiles {
		r := rankBig(percents_milli[i], len(want))
		lo, hi := los[r], his[r]
		slackLo, slackHi := int64(0), int64(0)
		if !exact {
			slackLo, slackHi = max(lo, -lo)/2048+1, max(hi, -hi)/2048+1
		}
		if p.Lo_cycles > lo || p.Lo_cycles < lo-slackLo || p.Hi_cycles < hi ||
			p.Hi_cycles > hi+slackHi {
			t.Errorf("%s: p%v is %v, the oracle has %d to %d", what, p.Percent, p.Interval, lo, hi)
		}
		b := bounds[r]
		if g := got.Bounds[i].Bound_cycles; g < b || exact && g != b || g > b+b/2048+1 {
			t.Errorf("%s: bound p%v is %d, the oracle has %d", what, p.Percent, g, b)
		}
	}
	widths := make([]int64, len(bounds))
	for i, b := range bounds {
		widths[i] = int64(b)
	}
	for _, plot := range []struct {
		name   string
		bins   []Bin
		values []int64
	}{{"lows", got.Lows, los}, {"highs", got.Highs, his}, {"widths", got.Widths, widths}} {
		var n uint64
		for _, b := range plot.bins {
			n += b.Count
			from, _ := slices.BinarySearch(plot.values, b.Lo_cycles)
			to, _ := slices.BinarySearch(plot.values, b.Hi_cycles+1)
			if b.Count != uint64(to-from) {
				t.Errorf("%s: %d of %s are from %d to %d, the oracle has %d", what, b.Count,
					plot.name, b.Lo_cycles, b.Hi_cycles, to-from)
			}
		}
		if n != got.Count {
			t.Errorf("%s: %s count %d of %d", what, plot.name, n, got.Count)
		}
	}
}

func TestAnswersEqualOracle(t *testing.T) {
	for i := range max(2, 16/seed.Share()) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { answersEqualOracle(t, seed.Random(t), false) })
	}
}

// If no row of some channel can be read, the answer equals the oracle's answer from the other rows.
func TestAnswersWithoutALogEqualOracle(t *testing.T) {
	for i := range max(2, 8/seed.Share()) {
		t.Run(fmt.Sprint(i), func(t *testing.T) { answersEqualOracle(t, seed.Random(t), true) })
	}
}

func answersEqualOracle(t *testing.T, rng *rand.Rand, damage bool) {
	j := randomJob(rng)
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "job", j.nodes, j.channels); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "job")
	damaged := ""
	if damage {
		damaged = damageSomeLog(t, rng, dir)
	}
	var want *oracleAnswer
	var o *oracle
	for name, options := range map[string]Options{
		"in memory": {}, "one worker": {Workers: 1},
		"from scratch": {Memory_bytes: 1 << 20, Workers: 3}, "one partition": {partitions: 1},
		"folded": {exactValues: 3},
	} {
		options.Edges, options.OnlyEdges = j.edges, true
		options.Reference = j.nodes[0].Name
		got, err := Run(context.Background(), dir, options)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			o = oracleOf(t, dir, got.Reference.Node, j.edges)
			if damage {
				o.lacking[damaged] = true
			}
			want = o.answer()
		}
		t.Run(name, func(t *testing.T) { compare(t, o, want, got, options.exactValues == 0) })
	}
	if !j.findable || damage {
		return
	}
	// The order is in the data: without declared edges, the same spans are found.
	got, err := Run(context.Background(), dir, Options{Reference: j.nodes[0].Name})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("found", func(t *testing.T) { compare(t, o, want, got, true) })
}
