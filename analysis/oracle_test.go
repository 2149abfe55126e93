package analysis

import (
	"cmp"
	"io"
	"maps"
	"math/big"
	"slices"
	"sort"
	"strings"
	"testing"

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

// oraclePath is a tuple's path from its first event to its last.
type oraclePath struct {
	tscratio.Elapsed
	passed []oracleEvent
}

type oracleSpan struct{ from, to, origin string }

type oracleAnswer struct {
	tuples                                     int
	pass, duplicates, lost, inFlight, appeared map[string]int
	spans                                      map[oracleSpan]map[[2]string][]tscratio.Duration
	wholes, withheld                           map[oracleSpan]int
	orphans                                    int
	slowest                                    []oraclePath
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
			Lo: e.reading - n.Quantum_cycles - n.CoreSlack_cycles,
			Hi: e.reading + n.Quantum_cycles + n.CoreSlack_cycles,
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
		spans: map[oracleSpan]map[[2]string][]tscratio.Duration{}, wholes: map[oracleSpan]int{},
		withheld: map[oracleSpan]int{},
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
						o.span(a, oracleSpan{p, q, ""}, way[p], way[q])
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
			slow := func(s tscratio.Elapsed) {
				w := oraclePath{Elapsed: s}
				for _, p := range passed {
					w.passed = append(w.passed, way[p])
				}
				a.slowest = append(a.slowest, w)
			}
			switch whole := len(o.before[first]) == 0 && !o.follows(last) &&
				o.precedes(first, last); {
			case whole && !slices.ContainsFunc(o.points, func(r string) bool {
				return o.precedes(first, r) && o.precedes(r, last)
			}):
				a.wholes[oracleSpan{first, last, ""}]++ // the span is the whole path
				slow(o.duration(way[first], way[last]).Elapsed)
			case whole:
				slow(o.span(a, oracleSpan{first, last, "whole"}, way[first], way[last]).Elapsed)
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
		lacking := false // the logs do not tell where each of them began
		seen := map[uint64]bool{}
		var up func(uint64)
		up = func(id uint64) {
			for _, p := range parents[id] {
				if !seen[p] {
					seen[p] = true
					origins = append(origins, begins[p]...)
					lacking = lacking || !children[p] && (len(begins[p]) != 1 ||
						slices.ContainsFunc(begins[p], func(e oracleEvent) bool {
							return len(o.before[e.point]) > 0
						}))
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
			earliest := oracleSpan{first.point, e.point, "earliest"}
			latest := oracleSpan{last.point, e.point, "latest"}
			if lacking || o.duration(last, e).Hi < 0 {
				a.withheld[earliest]++
				a.withheld[latest]++
				continue
			}
			o.span(a, earliest, first, e)
			o.span(a, latest, last, e)
		}
	}
	slices.SortFunc(a.slowest, func(x, y oraclePath) int { return cmp.Compare(y.Lo, x.Lo) })
	return a
}

func (o *oracle) span(a *oracleAnswer, l oracleSpan, x, y oracleEvent) tscratio.Duration {
	d := o.duration(x, y)
	if a.spans[l] == nil {
		a.spans[l] = map[[2]string][]tscratio.Duration{}
	}
	k := [2]string{x.node, y.node}
	a.spans[l][k] = append(a.spans[l][k], d)
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
