package analysis

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// The oracle answers the same questions with everything in memory and in the simplest way: each id
// separately, each percentile from a sorted list. It shares only tscratio with the analysis.

type oracleEvent struct {
	node, point string
	reading     uint64
	id          uint64
}

// oracleRing are the ids of one log, in their order.
type oracleRing struct {
	point string
	ids   []uint64
}

// oracleWay is a tuple's path from its first event to its last.
type oracleWay struct {
	tscratio.Span
	passed []oracleEvent
}

type oracleLeg struct{ from, to, origin string }

type oracleAnswer struct {
	tuples                                     int
	pass, duplicates, lost, inFlight, appeared map[string]int
	legs                                       map[oracleLeg]map[[2]string][]tscratio.Duration
	wholes                                     map[oracleLeg]int
	orphans                                    int
	slowest                                    []oracleWay
	disordered                                 map[string]int
	// of each tuple, the points that it passed
	points [][]string
}

type oracle struct {
	t         *testing.T
	reference string
	closure   *tscratio.Closure
	ways      map[[2]string]*tscratio.Ways
	views     map[string]*tscratio.View
	before    map[string][]string // by point: all points that precede it
	points    []string            // in an order in which tuples pass them
	events    []oracleEvent
	rings     []oracleRing
	links     [][2]uint64
	nodes     map[string]tscratio.Node
}

// place is an event's interval on the reference.
func (o *oracle) place(e oracleEvent) tscratio.Interval {
	if e.node == o.reference {
		n := o.nodes[e.node]
		return tscratio.Interval{
			Lo: e.reading - n.QuantumCycles - n.CoreSlackCycles,
			Hi: e.reading + n.QuantumCycles + n.CoreSlackCycles,
		}
	}
	v := o.views[e.node]
	if v == nil {
		var err error
		if v, err = o.closure.View(e.node, o.reference); err != nil {
			o.t.Fatal(err)
		}
		o.views[e.node] = v
	}
	at, _, err := v.Translate(e.reading)
	if err != nil {
		o.t.Fatal(err)
	}
	return at
}

func (o *oracle) duration(a, b oracleEvent) tscratio.Duration {
	k := [2]string{a.node, b.node}
	if o.ways[k] == nil {
		w, err := o.closure.Ways(o.reference, a.node, b.node)
		if err != nil {
			o.t.Fatal(err)
		}
		o.ways[k] = w
	}
	d, err := o.ways[k].Duration(a.reading, b.reading)
	if err != nil {
		o.t.Fatal(err)
	}
	return d
}

func (o *oracle) precedes(p, q string) bool { return slices.Contains(o.before[q], p) }

func (o *oracle) follows(p string) bool {
	return slices.ContainsFunc(o.points, func(q string) bool { return o.precedes(p, q) })
}

func (o *oracle) answer() *oracleAnswer {
	a := &oracleAnswer{
		pass: map[string]int{}, duplicates: map[string]int{}, lost: map[string]int{},
		inFlight: map[string]int{}, appeared: map[string]int{}, disordered: map[string]int{},
		legs: map[oracleLeg]map[[2]string][]tscratio.Duration{}, wholes: map[oracleLeg]int{},
	}
	for _, r := range o.rings {
		for i, id := range r.ids {
			if slices.ContainsFunc(r.ids[:i], func(before uint64) bool {
				return before>>originShift == id>>originShift && before > id
			}) {
				a.disordered[r.point]++
			}
		}
	}
	byID := map[uint64][]oracleEvent{}
	for _, e := range o.events {
		byID[e.id] = append(byID[e.id], e)
	}
	// by child; the ids that are children
	parents, children := map[uint64][]uint64{}, map[uint64]bool{}
	isParent := map[uint64]bool{}
	for _, l := range o.links {
		if l[0] == l[1] { // such a link says nothing
			continue
		}
		parents[l[1]] = append(parents[l[1]], l[0])
		children[l[1]] = true
		isParent[l[0]] = true
	}
	wentOn := map[[2]string]uint64{} // point and node: the last reading of a tuple that went on
	type end struct {
		point string
		oracleEvent
	}
	var ends []end
	begins, finals := map[uint64][]oracleEvent{}, map[uint64][]oracleEvent{}
	for id, events := range byID {
		for _, way := range o.tuples(events, a) {
			a.tuples++
			var passed []string
			for _, p := range o.points {
				if _, ok := way[p]; ok {
					passed = append(passed, p)
					a.pass[p]++
				}
			}
			a.points = append(a.points, passed)
			first, last := passed[0], passed[len(passed)-1]
			for _, q := range passed {
				came := false
				for _, p := range passed {
					if !o.precedes(p, q) {
						continue
					}
					between := slices.ContainsFunc(passed, func(r string) bool {
						return o.precedes(p, r) && o.precedes(r, q)
					})
					if !between {
						came = true
						o.leg(a, oracleLeg{p, q, ""}, way[p], way[q])
						k := [2]string{p, way[p].node}
						wentOn[k] = max(wentOn[k], way[p].reading)
					}
				}
				if !came && len(o.before[q]) > 0 && !children[id] {
					a.appeared[q]++
				}
				on := slices.ContainsFunc(passed, func(r string) bool { return o.precedes(q, r) })
				if !on && o.follows(q) && !isParent[id] {
					ends = append(ends, end{q, way[q]})
				}
			}
			slow := func(s tscratio.Span) {
				w := oracleWay{Span: s}
				for _, p := range passed {
					w.passed = append(w.passed, way[p])
				}
				a.slowest = append(a.slowest, w)
			}
			switch whole := len(o.before[first]) == 0 && !o.follows(last) &&
				o.precedes(first, last) && !children[id]; {
			case whole && isParent[id]: // others were made of it: only its own path counts
				slow(o.duration(way[first], way[last]).Span)
			case whole && !slices.ContainsFunc(o.points, func(r string) bool {
				return o.precedes(first, r) && o.precedes(r, last)
			}):
				a.wholes[oracleLeg{first, last, ""}]++ // the span is the whole path
				slow(o.duration(way[first], way[last]).Span)
			case whole:
				slow(o.leg(a, oracleLeg{first, last, "whole"}, way[first], way[last]).Span)
			}
			if isParent[id] && !children[id] {
				begins[id] = append(begins[id], way[first])
			}
			if children[id] && !o.follows(last) {
				finals[id] = append(finals[id], way[last])
			}
		}
	}
	for _, e := range ends {
		if e.reading < wentOn[[2]string{e.point, e.node}] {
			a.lost[e.point]++
		} else {
			a.inFlight[e.point]++
		}
	}
	for id, events := range finals {
		var origins []oracleEvent
		seen := map[uint64]bool{}
		var up func(uint64)
		up = func(id uint64) {
			for _, p := range parents[id] {
				if !seen[p] {
					seen[p] = true
					origins = append(origins, begins[p]...)
					up(p)
				}
			}
		}
		up(id)
		if len(origins) == 0 {
			a.orphans += len(events)
			continue
		}
		slices.SortFunc(origins, func(x, y oracleEvent) int {
			return cmp.Compare(o.place(x).Mid(), o.place(y).Mid())
		})
		for _, e := range events {
			first, last := origins[0], origins[len(origins)-1]
			o.leg(a, oracleLeg{first.point, e.point, "earliest"}, first, e)
			o.leg(a, oracleLeg{last.point, e.point, "latest"}, last, e)
		}
	}
	slices.SortFunc(a.slowest, func(x, y oracleWay) int { return cmp.Compare(y.Lo, x.Lo) })
	return a
}

func (o *oracle) leg(a *oracleAnswer, l oracleLeg, x, y oracleEvent) tscratio.Duration {
	d := o.duration(x, y)
	if a.legs[l] == nil {
		a.legs[l] = map[[2]string][]tscratio.Duration{}
	}
	k := [2]string{x.node, y.node}
	a.legs[l][k] = append(a.legs[l][k], d)
	return d
}

// tuples splits the events of an id into tuples.
func (o *oracle) tuples(events []oracleEvent, a *oracleAnswer) []map[string]oracleEvent {
	rank := func(p string) int { return slices.Index(o.points, p) }
	first := events[0].point
	for _, e := range events {
		if rank(e.point) < rank(first) {
			first = e.point
		}
	}
	events = slices.Clone(events)
	sort.SliceStable(events, func(i, j int) bool {
		x, y := o.place(events[i]).Mid(), o.place(events[j]).Mid()
		return x < y || x == y && rank(events[i].point) < rank(events[j].point)
	})
	var begins []oracleEvent
	for _, e := range events {
		if e.point == first {
			begins = append(begins, e)
		}
	}
	var ways []map[string]oracleEvent
	for _, b := range begins {
		ways = append(ways, map[string]oracleEvent{first: b})
	}
	for _, e := range events {
		if e.point == first {
			continue
		}
		of := ways[0]
		for i, b := range begins {
			if o.place(b).Lo <= o.place(e).Hi {
				of = ways[i]
			}
		}
		if _, ok := of[e.point]; ok {
			a.duplicates[e.point]++
			continue
		}
		of[e.point] = e
	}
	return ways
}

// rankBig is the rank of a percentile, computed in exact fractions.
func rankBig(percent_milli uint64, n int) int {
	r := new(big.Rat).SetFrac64(int64(percent_milli)*int64(n), 100_000)
	q := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return int(min(max(q.Quo(q, r.Denom()).Int64(), 1), int64(n))) - 1
}

func pointName(channel string) string {
	left, point, _ := strings.Cut(channel, "/")
	actor, _, _ := strings.Cut(left, "#")
	return actor + "/" + point
}

// oracleOf reads a run in the simplest way.
func oracleOf(t *testing.T, dir *runs.Directory, reference string, edges [][2]string) *oracle {
	o := &oracle{
		t: t, reference: reference, ways: map[[2]string]*tscratio.Ways{},
		views: map[string]*tscratio.View{}, before: map[string][]string{},
		nodes: map[string]tscratio.Node{},
	}
	pairs, missing := dir.Relations()
	if len(missing) > 0 {
		t.Fatal(missing)
	}
	var relations []*tscratio.Relation
	for _, p := range pairs {
		for _, side := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
			r, err := p.Relate(side, p.Declared.Wander)
			if err != nil {
				t.Fatal(err)
			}
			relations = append(relations, r)
		}
		o.nodes[p.A.Name], o.nodes[p.B.Name] = p.A, p.B
	}
	var err error
	if o.closure, err = tscratio.NewClosure(relations, tscratio.ThirdAgreed); err != nil {
		t.Fatal(err)
	}
	logs, _ := dir.Logs()
	points := map[string]bool{}
	for _, l := range logs {
		for _, s := range l.Segments {
			points[s.Channel.Actor+"/"+s.Channel.Point] = true
			r := logstore.ReadLog([]logstore.Segment{s})
			ring := oracleRing{point: s.Channel.Actor + "/" + s.Channel.Point}
			for {
				b, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range b.Events {
					ring.ids = append(ring.ids, e.ID)
					o.events = append(o.events, oracleEvent{
						l.Node, s.Channel.Actor + "/" + s.Channel.Point, e.Counter, e.ID,
					})
				}
				for _, k := range b.Links {
					o.links = append(o.links, [2]uint64{k.Parent, k.Child})
				}
			}
			r.Close()
			o.rings = append(o.rings, ring)
		}
	}
	var up func(p string, seen map[string]bool)
	up = func(p string, seen map[string]bool) {
		for _, e := range edges {
			if e[1] == p && !seen[e[0]] {
				seen[e[0]] = true
				up(e[0], seen)
			}
		}
	}
	for p := range points {
		seen := map[string]bool{}
		up(p, seen)
		o.before[p] = slices.Sorted(maps.Keys(seen))
	}
	for len(o.points) < len(points) {
		var ready []string
		for p := range points {
			if !slices.Contains(o.points, p) &&
				!slices.ContainsFunc(o.before[p], func(q string) bool {
					return !slices.Contains(o.points, q)
				}) {
				ready = append(ready, p)
			}
		}
		order := map[string]string{"recv": "1", "start": "2", "end": "3", "send": "4"}
		key := func(p string) string {
			for i := range p {
				if p[i] == '/' {
					return p[:i] + "\x00" + order[p[i+1:]] + p[i:]
				}
			}
			return p
		}
		slices.SortFunc(ready, func(a, b string) int { return cmp.Compare(key(a), key(b)) })
		o.points = append(o.points, ready[0])
	}
	return o
}

// compare compares an answer with the oracle's.
func compare(t *testing.T, o *oracle, want *oracleAnswer, got *Answer, exact bool) {
	t.Helper()
	if got.Work.Tuples != uint64(want.tuples) {
		t.Errorf("%d tuples, the oracle has %d", got.Work.Tuples, want.tuples)
	}
	for _, p := range got.Points {
		for what, pair := range map[string][2]int{
			"tuples":     {int(p.Tuples), want.pass[p.Name]},
			"duplicates": {int(p.Duplicates), want.duplicates[p.Name]},
			"lost":       {int(p.Lost), want.lost[p.Name]},
			"in flight":  {int(p.InFlight), want.inFlight[p.Name]},
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
	legs := map[oracleLeg]*Leg{}
	for i := range got.Legs {
		legs[oracleLeg{got.Legs[i].From, got.Legs[i].To, ""}] = &got.Legs[i]
	}
	for i := range got.EndToEnd {
		l := &got.EndToEnd[i]
		legs[oracleLeg{l.From, l.To, cmp.Or(l.Origin, "whole")}] = l
	}
	if len(legs) != len(want.legs) {
		t.Errorf("%d legs, the oracle has %d", len(legs), len(want.legs))
	}
	for k, byNodes := range want.legs {
		l := legs[k]
		if l == nil {
			t.Errorf("leg %v is missing", k)
			continue
		}
		if l.Whole != uint64(want.wholes[k]) {
			t.Errorf("%d went their whole way on leg %v, the oracle has %d", l.Whole, k,
				want.wholes[k])
		}
		if len(l.Pairs) != len(byNodes) {
			t.Errorf("leg %v has %d pairs of nodes, the oracle has %d", k, len(l.Pairs),
				len(byNodes))
		}
		var all []tscratio.Duration
		for _, p := range l.Pairs {
			ds := byNodes[[2]string{p.From, p.To}]
			all = append(all, ds...)
			compareDurations(t, fmt.Sprint(k, p.From, p.To), ds, &p.Durations, exact)
		}
		compareDurations(t, fmt.Sprint(k), all, &l.All, exact)
	}
	compareRoutes(t, want, got)
	for i, s := range got.Slowest {
		if s.Total.Lo_cycles != want.slowest[i].Lo {
			t.Errorf("slowest %d took %v, the oracle has %v", i, s.Total, want.slowest[i].Span)
		}
		if !slices.ContainsFunc(want.slowest, func(w oracleWay) bool { return o.isWay(w, s) }) {
			t.Errorf("slowest %d went %+v: no tuple of the oracle did", i, s)
		}
	}
	if want := min(10, len(want.slowest)); len(got.Slowest) != want {
		t.Errorf("%d slowest, want %d", len(got.Slowest), want)
	}
}

// compareRoutes compares paths with the tuples of the oracle. Two points are on one path if tuples
// connect them, possibly through other points. Each span comes before those with a smaller median.
func compareRoutes(t *testing.T, want *oracleAnswer, got *Answer) {
	t.Helper()
	group := map[string]string{} // by point: some point of its path
	find := func(p string) string {
		for group[p] != p {
			p = group[p]
		}
		return p
	}
	for _, way := range want.points {
		for _, p := range way {
			if group[p] == "" {
				group[p] = p
			}
			group[find(p)] = find(way[0])
		}
	}
	tuples := map[string]uint64{}
	for _, way := range want.points {
		tuples[find(way[0])]++
	}
	if len(got.Routes) != len(tuples) {
		t.Errorf("%d routes, the oracle has %d", len(got.Routes), len(tuples))
	}
	for _, r := range got.Routes {
		on := find(r.From[0])
		if r.Tuples != tuples[on] {
			t.Errorf("%d tuples on the route from %v, the oracle has %d", r.Tuples, r.From,
				tuples[on])
		}
		legs := 0
		for i := range got.Legs {
			l := &got.Legs[i]
			if find(l.From) != on {
				continue
			}
			legs++
			if !slices.ContainsFunc(r.Legs, func(k RankedLeg) bool { return k.Leg == i }) {
				t.Errorf("leg %s, %s is not on the route from %v", l.From, l.To, r.From)
			}
			ends := func(points []string, of string) bool { return slices.Contains(points, of) }
			for j := range got.Legs {
				if other := &got.Legs[j]; other.To == l.From && ends(r.From, l.From) ||
					other.From == l.To && ends(r.To, l.To) {
					t.Errorf("the route from %v to %v goes on at leg %s, %s", r.From, r.To,
						other.From, other.To)
				}
			}
		}
		for k := range want.legs {
			made := k.origin != "" && k.origin != "whole" && find(k.to) == on && find(k.from) != on
			if said := slices.ContainsFunc(r.MadeOf, func(i int) bool {
				return find(got.Routes[i].From[0]) == find(k.from)
			}); made && !said {
				t.Errorf("the route from %v was made of %v, and some came from %s", r.From,
					r.MadeOf, k.from)
			}
		}
		for _, of := range r.MadeOf {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(want.legs)), func(k oracleLeg) bool {
				return k.origin == "earliest" && find(k.to) == on &&
					find(k.from) == find(got.Routes[of].From[0])
			}) {
				t.Errorf("the route from %v was not made of that from %v", r.From,
					got.Routes[of].From)
			}
		}
		if legs != len(r.Legs) {
			t.Errorf("%d legs on the route from %v, and %d lead on it", len(r.Legs), r.From, legs)
		}
		for i, k := range r.Legs {
			p50, _ := got.Legs[k.Leg].All.Percentiles.At(50)
			sure := true
			for _, after := range r.Legs[i:] {
				sure = sure && got.Legs[after.Leg].All.Suspect == 0
			}
			for _, after := range r.Legs[i+1:] {
				q50, _ := got.Legs[after.Leg].All.Percentiles.At(50)
				if q50.Lo_cycles > p50.Lo_cycles {
					t.Errorf("median %v stands before %v", p50, q50)
				}
				sure = sure && p50.Lo_cycles > q50.Hi_cycles
			}
			if k.Surely != sure {
				t.Errorf("leg %d of the route from %v is surely slower than the next: %v", i,
					r.From, k.Surely)
			}
		}
	}
}

// isWay reports whether an answer's path is that of a tuple, event for event, each with the time
// since the first event and since the one before.
func (o *oracle) isWay(w oracleWay, got Way) bool {
	if uint64(got.ID) != w.passed[0].id || got.Total != intervalOf(w.Span) ||
		len(got.Passed) != len(w.passed) {
		return false
	}
	for i, e := range w.passed {
		p := got.Passed[i]
		if p.Point != e.point || p.Node != e.node || uint64(p.Reading) != e.reading ||
			p.At != intervalOf(o.duration(w.passed[0], e).Span) || (p.Since == nil) != (i == 0) {
			return false
		}
		if i > 0 && *p.Since != intervalOf(o.duration(w.passed[i-1], e).Span) {
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
		t.Run(fmt.Sprint(i), func(t *testing.T) { answersEqualOracle(t, seed.Random(t)) })
	}
}

func answersEqualOracle(t *testing.T, rng *rand.Rand) {
	j := randomJob(rng)
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "job", j.nodes, j.channels); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "job")
	var want *oracleAnswer
	var o *oracle
	for name, options := range map[string]Options{
		"in memory": {}, "one worker": {Workers: 1},
		"from scratch": {Memory_bytes: 1 << 20, Workers: 3}, "one partition": {partitions: 1},
		"folded": {exactValues: 3},
	} {
		options.Edges = j.edges
		options.Reference = j.nodes[0].Name
		got, err := Run(context.Background(), dir, options)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			o = oracleOf(t, dir, got.Reference.Node, j.edges)
			want = o.answer()
		}
		t.Run(name, func(t *testing.T) { compare(t, o, want, got, options.exactValues == 0) })
	}
	if !j.findable {
		return
	}
	// The order is in the data: without declared edges, the same spans are found.
	got, err := Run(context.Background(), dir, Options{Reference: j.nodes[0].Name})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("found", func(t *testing.T) { compare(t, o, want, got, true) })
}
