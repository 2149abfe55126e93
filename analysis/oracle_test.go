package analysis

import (
	"cmp"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// The oracle answers the same questions as the analysis, with everything in memory and in the
// simplest way: each id separately, each percentile from a sorted list. Oracle and analysis share
// only tscratio.

type oracleEvent struct {
	node, point string
	reading     uint64
	id          uint64
}

// oracleRing has the ids of one log, in the order in which they were logged.
type oracleRing struct {
	point string
	ids   []uint64
}

// oraclePath is a tuple's path from its first event to its last.
type oraclePath struct {
	tscratio.Elapsed
	passed []oracleEvent
	made   bool // whether the path's tuple was made of others: it begins where they did
}

// oracleSpan names a span. origin is empty for a span between two points. Otherwise it is waiting,
// whole (a whole path), or the origin earliest or latest.
type oracleSpan struct{ from, to, origin string }

// oracleSum sums up the low and the high ends of durations.
type oracleSum struct {
	n      uint64
	lo, hi big.Int
}

func (s *oracleSum) add(lo, hi int64) {
	s.n++
	s.lo.Add(&s.lo, big.NewInt(lo))
	s.hi.Add(&s.hi, big.NewInt(hi))
}

type oracleAnswer struct {
	tuples                                     int
	pass, duplicates, lost, inFlight, appeared map[string]int
	guesses                                    map[string]int // tuples that may have ended there
	perhaps                                    map[string]int // guesses not counted as ended
	spans                                      map[oracleSpan]map[[2]string][]tscratio.Duration
	// critical[{from, to}] is the sum of the durations from one point to the next that are on
	// critical paths. critical[{last, ""}] is the sum of the whole paths that end at the point
	// last.
	critical         map[[2]string]*oracleSum
	wholes, withheld map[oracleSpan]int
	orphans          int
	slowest          []oraclePath // those made of others come last
	disordered       map[string]int
	// the points that each tuple passed
	points [][]string
	silent bool // some node has no log: then nothing is known about shares
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
	silent    bool            // some node has no log
	lacking   map[string]bool // points of which not all rows can be read
	crowded   map[string]bool // points to which an unknown number of branches leads
	// elapsed is the true time between two events, in cycles of the reference. nil: it is not
	// known, and durations are intervals.
	elapsed func(a, b oracleEvent) int64
}

// placeEvent returns the interval on the reference's counter that contains an event.
func (o *oracle) placeEvent(e oracleEvent) tscratio.Interval {
	if o.elapsed != nil {
		return tscratio.At(uint64(o.elapsed(oracleEvent{}, e)))
	}
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
	if o.elapsed != nil {
		d := o.elapsed(a, b)
		return tscratio.Duration{Elapsed: tscratio.Elapsed{Lo: d, Hi: d}}
	}
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

// mayHaveGap reports whether a tuple may have passed a point between p and q without an event in
// the logs.
func (o *oracle) mayHaveGap(p, q string) bool {
	return slices.ContainsFunc(o.points, func(r string) bool {
		return o.lacking[r] && o.precedes(p, r) && o.precedes(r, q)
	})
}

// mayLackEvent reports whether the logs may lack a tuple's event at a point.
func (o *oracle) mayLackEvent(p string) bool { return o.silent || o.lacking[p] }

func (o *oracle) follows(p string) bool {
	return slices.ContainsFunc(o.points, func(q string) bool { return o.precedes(p, q) })
}

func (o *oracle) answer() *oracleAnswer {
	a := &oracleAnswer{
		pass: map[string]int{}, guesses: map[string]int{}, perhaps: map[string]int{},
		duplicates: map[string]int{},
		lost:       map[string]int{},
		inFlight:   map[string]int{}, appeared: map[string]int{}, disordered: map[string]int{},
		spans: map[oracleSpan]map[[2]string][]tscratio.Duration{}, wholes: map[oracleSpan]int{},
		withheld: map[oracleSpan]int{}, critical: map[[2]string]*oracleSum{}, silent: o.silent,
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
	// parents has the parents of each child; children has the ids that are children
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
	wentOn := map[[2]string]uint64{} // by point and node: the last reading of a tuple that went on
	type end struct {
		point string
		oracleEvent
	}
	var ends []end
	guesses, made := a.guesses, map[string]int{}
	merges := o.mergingPoints(byID)
	doubtful := map[oracleEvent]bool{} // by last event of a tuple that was made of others
	begins, finals := map[uint64][]oracleEvent{}, map[uint64][]oracleEvent{}
	for id, events := range byID {
		for _, u := range o.splitTuples(events, merges, a) {
			way := u.way
			a.tuples++
			var passed []string
			for _, p := range o.points {
				if _, ok := way[p]; ok {
					passed = append(passed, p)
					a.pass[p]++
					made[p] += number(children[id])
				}
			}
			a.points = append(a.points, passed)
			first, last := passed[0], passed[len(passed)-1]
			whole, beginnings := true, 0
			for _, q := range passed {
				came := o.directPoints(passed, q)
				for _, p := range came {
					k := [2]string{p, way[p].node}
					wentOn[k] = max(wentOn[k], way[p].reading)
				}
				if len(came) == 0 {
					beginnings++
				}
				if len(came) == 0 && len(o.before[q]) > 0 && !children[id] {
					a.appeared[q]++
				}
				on := slices.ContainsFunc(passed, func(r string) bool { return o.precedes(q, r) })
				whole = whole && (on || !o.follows(q))
				if !on && o.follows(q) && !isParent[id] {
					ends = append(ends, end{q, way[q]})
				}
			}
			for _, q := range o.points {
				_, has := way[q]
				on := slices.ContainsFunc(passed, func(r string) bool { return o.precedes(q, r) })
				if (u.isMessy() && (has || u.taken[q]) || u.shared && isParent[id] && has && !on) &&
					o.follows(q) {
					guesses[q]++
					if !slices.ContainsFunc(ends, func(e end) bool {
						return e.oracleEvent == way[q]
					}) {
						a.perhaps[q]++
					}
				}
			}
			whole = whole && !o.silent && !u.isMessy() && beginnings == 1
			whole = whole && !slices.ContainsFunc(passed, func(p string) bool {
				return u.late[p] || u.unsure[p]
			})
			whole = whole && !slices.ContainsFunc(o.points, func(q string) bool {
				return o.mayLackEvent(q) && !slices.Contains(passed, q) && o.precedes(first, q) &&
					!slices.ContainsFunc(passed, func(p string) bool { return o.precedes(q, p) })
			})
			o.measureTuple(a, &u, passed, whole)
			if isParent[id] && !children[id] {
				begins[id] = append(begins[id], way[first])
			}
			if children[id] && !o.follows(last) {
				finals[id] = append(finals[id], way[last])
				doubtful[way[last]] = u.late[last] || u.unsure[last]
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
		lacking := o.silent // the logs do not tell where each parent began
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
			return cmp.Compare(o.placeEvent(x).Mid(), o.placeEvent(y).Mid())
		})
		for _, e := range events {
			first, last := origins[0], origins[len(origins)-1]
			earliest := oracleSpan{first.point, e.point, "earliest"}
			latest := oracleSpan{last.point, e.point, "latest"}
			if lacking || doubtful[e] || o.duration(last, e).Hi < 0 {
				a.withheld[earliest]++
				a.withheld[latest]++
				continue
			}
			o.span(a, earliest, first, e)
			o.span(a, latest, last, e)
		}
	}
	for i := range a.slowest {
		p := a.slowest[i].passed[0].point
		a.slowest[i].made = made[p] > 0 && made[p] == a.pass[p]
	}
	slices.SortFunc(a.slowest, func(x, y oraclePath) int {
		return cmp.Or(cmp.Compare(number(x.made), number(y.made)), cmp.Compare(y.Lo, x.Lo))
	})
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
		nodes: map[string]tscratio.Node{}, lacking: map[string]bool{},
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
	o.silent = len(logs) < len(dir.Run.Nodes)
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
				if err != nil { // what follows the damage can still be read
					continue
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
	o.orderBy(edges, points)
	return o
}

// orderBy orders points by edges.
func (o *oracle) orderBy(edges [][2]string, points map[string]bool) {
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
}
