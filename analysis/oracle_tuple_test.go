package analysis

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// The oracle is a second, simple implementation of the analysis, with which tests compare the
// results. This file divides the events of an id into tuples, and measures one tuple.

// oracleTuple has the event of one tuple at each point.
type oracleTuple struct {
	way map[string]oracleEvent
	n   map[string]int // by point: the number of the tuple's events
	// At these points, the event may belong to an earlier tuple with the same id.
	late map[string]bool
	// At these points, the tuple has several events, and it is not known which is the right one.
	unsure map[string]bool
	// At these points, an event of this tuple may have been mistaken for an event of a later tuple
	// with the same id.
	taken  map[string]bool
	shared bool // its id began several tuples
	mixed  bool // it may be several tuples, because the logs may lack where the others began
}

// isMessy reports whether events of this tuple may belong to another tuple, or events of another
// tuple may belong to this one.
func (u *oracleTuple) isMessy() bool { return len(u.taken)+len(u.late) > 0 || u.mixed }

// inDoubt reports whether the events at two points may belong to two tuples.
func (u *oracleTuple) inDoubt(p, q string) bool {
	return u.unsure[p] || u.unsure[q] || u.late[p] || u.late[q]
}

// directPoints returns the points of a tuple that directly precede the point q.
func (o *oracle) directPoints(passed []string, q string) (all []string) {
	for _, p := range passed {
		if o.precedes(p, q) && !slices.ContainsFunc(passed, func(r string) bool {
			return o.precedes(p, r) && o.precedes(r, q)
		}) {
			all = append(all, p)
		}
	}
	return all
}

// mayBeLatest reports for each event whether it may be the latest of all. The second result is true
// if exactly one event may be the latest.
func (o *oracle) mayBeLatest(all []oracleEvent) (may []bool, one bool) {
	n := 0
	for _, a := range all {
		late := !slices.ContainsFunc(all, func(b oracleEvent) bool {
			return o.duration(a, b).Lo > 0
		})
		may = append(may, late)
		if late {
			n++
		}
	}
	return may, n == 1
}

// measureTuple measures one tuple. If whole is true, the tuple has a critical path.
func (o *oracle) measureTuple(a *oracleAnswer, u *oracleTuple, passed []string, whole bool) {
	var lasts []string
	var lastEvents []oracleEvent
	first := passed[0]
	for _, q := range passed {
		if len(o.before[first]) == 0 && o.precedes(first, q) && !o.follows(q) {
			lasts, lastEvents = append(lasts, q), append(lastEvents, u.way[q])
		}
	}
	add := func(k [2]string, lo, hi int64) {
		if a.critical[k] == nil {
			a.critical[k] = new(oracleSum)
		}
		a.critical[k].add(lo, hi)
	}
	on := map[string]Critical{}
	may, one := o.mayBeLatest(lastEvents)
	slowest := -1
	for i, q := range lasts {
		if whole && may[i] {
			on[q] = PerhapsCritical
			if one {
				on[q] = SurelyCritical
			}
		}
		if may[i] && (slowest < 0 || o.duration(lastEvents[slowest], lastEvents[i]).Lo/2+
			o.duration(lastEvents[slowest], lastEvents[i]).Hi/2 >= 0) {
			slowest = i
		}
	}
	if whole && !one && len(lasts) > 0 {
		var los, his []int64
		for i := range lasts {
			d := o.duration(u.way[first], lastEvents[i])
			los, his = append(los, d.Lo), append(his, d.Hi)
		}
		add([2]string{lasts[0]}, slices.Max(los), slices.Max(his))
	}
	for i, q := range lasts {
		between := slices.ContainsFunc(o.points, func(r string) bool {
			return o.precedes(first, r) && o.precedes(r, q)
		})
		k := oracleSpan{first, q, "whole"}
		if u.inDoubt(first, q) {
			if between {
				a.withheld[k]++
			}
			continue
		}
		d := o.duration(u.way[first], u.way[q])
		if !between {
			a.wholes[oracleSpan{first, q, ""}]++ // the span is the whole path
		} else {
			o.span(a, k, u.way[first], u.way[q])
		}
		doubtful := slices.ContainsFunc(passed, func(p string) bool { return u.inDoubt(p, p) })
		if i == slowest && !doubtful && !u.isMessy() {
			w := oraclePath{Elapsed: d.Elapsed}
			for _, p := range passed {
				w.passed = append(w.passed, u.way[p])
			}
			a.slowest = append(a.slowest, w)
			if whole && one {
				add([2]string{q}, d.Lo, d.Hi)
			}
		}
	}
	full := o.inOrder(func(p string) bool { return slices.Contains(passed, p) || u.taken[p] })
	for q := range u.taken {
		for _, p := range o.directPoints(full, q) {
			a.withheld[oracleSpan{p, q, ""}]++
		}
		if len(o.before[full[0]]) == 0 && !o.follows(q) && slices.ContainsFunc(o.points,
			func(r string) bool { return o.precedes(full[0], r) && o.precedes(r, q) }) {
			a.withheld[oracleSpan{full[0], q, "whole"}]++
		}
	}
	for _, q := range slices.Backward(passed) {
		came := o.directPoints(passed, q)
		var events []oracleEvent
		for _, p := range came {
			events = append(events, u.way[p])
		}
		may, one := o.mayBeLatest(events)
		for i := range may { // an event on a node without logs may be the latest
			may[i] = may[i] || o.silent
		}
		for i, p := range came {
			k := oracleSpan{p, q, ""}
			if !may[i] {
				k.origin = "waiting"
			}
			if u.inDoubt(p, q) {
				a.withheld[k]++
				continue
			}
			d := o.span(a, k, u.way[p], u.way[q])
			c := on[q]
			if !one || slices.ContainsFunc(came, func(p string) bool {
				return o.mayLack(passed, p, q)
			}) {
				c = min(c, PerhapsCritical)
			}
			if !may[i] {
				continue
			}
			on[p] = max(on[p], c)
			switch c {
			case SurelyCritical:
				add([2]string{p, q}, d.Lo, d.Hi)
			case PerhapsCritical:
				add([2]string{p, q}, min(d.Lo, 0), max(d.Hi, 0))
			}
		}
	}
}

// inOrder returns the chosen points in an order in which tuples pass them.
func (o *oracle) inOrder(chosen func(p string) bool) (all []string) {
	for _, p := range o.points {
		if chosen(p) {
			all = append(all, p)
		}
	}
	return all
}

// mayLack reports whether the logs may lack another branch to q, besides the one from p.
func (o *oracle) mayLack(passed []string, p, q string) bool {
	return slices.ContainsFunc(o.before[q], func(r string) bool {
		return o.mayLackEvent(r) && r != p && !slices.Contains(passed, r) && !o.precedes(r, p) &&
			!o.precedes(p, r)
	})
}

// mergingPoints looks at the ids whose tuples branch before or at a point. It returns the points at
// which at least half of these ids have several events. It also sets the field o.crowded.
func (o *oracle) mergingPoints(byID map[uint64][]oracleEvent) map[string]bool {
	passed, several := map[string]int{}, map[string]int{}
	all, more, again := map[string]int{}, map[string]int{}, 0
	both := map[[2]string]bool{}
	for _, events := range byID {
		n := map[string]int{}
		for _, e := range events {
			n[e.point]++
		}
		var points []string
		for _, p := range o.points {
			if n[p] > 0 {
				points = append(points, p)
			}
		}
		first := slices.MinFunc(events, func(a, b oracleEvent) int {
			return cmp.Compare(o.placeEvent(a).Mid(), o.placeEvent(b).Mid())
		})
		for _, p := range points {
			for _, q := range points {
				both[[2]string{p, q}] = true
			}
		}
		if n[first.point] > 1 {
			again++
			continue // this id begins again
		}
		for _, p := range points {
			all[p]++
			more[p] += number(n[p] > 1)
		}
		branched := false
		for _, p := range points {
			if branched = branched || len(o.directPoints(points, p)) > 1; branched {
				passed[p]++
				if n[p] > 1 {
					several[p]++
				}
			}
		}
	}
	found := map[string]bool{}
	for p, n := range passed {
		found[p] = 2*several[p] >= n
	}
	o.crowded = map[string]bool{}
	for _, p := range o.points {
		came, joins := o.directPoints(append(slices.Clone(o.before[p]), p), p), false
		for i, q := range came {
			for _, r := range came[i+1:] {
				joins = joins || both[[2]string{q, r}]
			}
		}
		o.crowded[p] = o.silent && more[p]*20 > all[p] ||
			joins && (again > passed[p] || o.mayLackEvent(p) && several[p] > 0)
	}
	return found
}

// strayingEvents returns, by point, events of later tuples of an id that may belong to the first
// tuple. At such a point, the first tuple has no event. A later tuple has one, which may have
// happened before all events of the first tuple at the points that follow.
func (o *oracle) strayingEvents(at []map[string][]oracleEvent,
	merges map[string]bool) map[string]oracleEvent {
	found := map[string]oracleEvent{}
	for _, p := range o.points {
		if len(at[0][p]) > 0 || !slices.ContainsFunc(o.before[p], func(q string) bool {
			return len(at[0][q]) > 0
		}) {
			continue
		}
		var next []oracleEvent
		for q, events := range at[0] {
			if !o.precedes(p, q) {
				continue
			}
			if merges[q] || o.crowded[q] { // the last copy that arrived
				events = []oracleEvent{slices.MaxFunc(events, func(a, b oracleEvent) int {
					return cmp.Compare(o.placeEvent(a).Hi, o.placeEvent(b).Hi)
				})}
			}
			next = append(next, events...)
		}
		for _, later := range slices.Backward(at[1:min(len(at), 1+longestLate)]) {
			if len(next) > 0 && slices.ContainsFunc(later[p], func(e oracleEvent) bool {
				return !slices.ContainsFunc(next, func(n oracleEvent) bool {
					return o.placeEvent(n).Hi < o.placeEvent(e).Lo
				})
			}) {
				found[p] = later[p][0]
			}
		}
	}
	return found
}

// splitTuples splits the events of an id into tuples.
func (o *oracle) splitTuples(events []oracleEvent, merges map[string]bool,
	a *oracleAnswer) []oracleTuple {
	rank := func(p string) int { return slices.Index(o.points, p) }
	first := events[0].point
	for _, e := range events {
		if rank(e.point) < rank(first) {
			first = e.point
		}
	}
	events = slices.Clone(events)
	sort.SliceStable(events, func(i, j int) bool {
		x, y := o.placeEvent(events[i]).Mid(), o.placeEvent(events[j]).Mid()
		return x < y || x == y && rank(events[i].point) < rank(events[j].point)
	})
	var begins []oracleEvent
	for _, e := range events {
		if e.point == first {
			begins = append(begins, e)
		}
	}
	at := make([]map[string][]oracleEvent, len(begins))
	for i, b := range begins {
		at[i] = map[string][]oracleEvent{first: {b}}
	}
	for _, e := range events {
		if e.point == first {
			continue
		}
		of := 0
		for i, b := range begins {
			if o.placeEvent(b).Lo <= o.placeEvent(e).Hi {
				of = i
			}
		}
		at[of][e.point] = append(at[of][e.point], e)
	}
	var all []oracleTuple
	var lacks []map[string]bool
	for i, points := range at {
		u := oracleTuple{map[string]oracleEvent{}, map[string]int{}, map[string]bool{},
			map[string]bool{}, map[string]bool{}, len(begins) > 1, false}
		for _, earlier := range lacks[max(len(lacks)-longestLate, 0):] {
			maps.Copy(u.late, earlier)
		}
		strayed := o.strayingEvents(at[i:], merges)
		passed := o.inOrder(func(p string) bool {
			_, has := strayed[p]
			return has || len(points[p]) > 0
		})
		arrive := map[string]int{}
		joins := slices.ContainsFunc(passed, func(p string) bool {
			return len(o.directPoints(passed, p)) > 1
		})
		for _, p := range passed {
			arrive[p] = 1
			if n := 0; joins && merges[p] {
				for _, q := range o.directPoints(passed, p) {
					n += arrive[q]
				}
				arrive[p] = max(n, 1)
			}
			n := len(points[p])
			if n == 0 {
				u.way[p] = strayed[p]
				continue
			}
			a.duplicates[p] += max(n-arrive[p], 0)
			u.way[p], u.n[p] = points[p][0], n
			if arrive[p] > 1 {
				u.way[p] = points[p][n-1]
			}
			on := !o.follows(p) || slices.ContainsFunc(passed, func(q string) bool {
				return o.precedes(p, q)
			})
			lacking := merges[p] && slices.ContainsFunc(o.directPoints(passed, p),
				func(q string) bool { return o.mayLack(passed, q, p) })
			if arrive[p] > 1 && (n != arrive[p] || !on) || lacking || o.crowded[p] {
				u.unsure[p] = true
			}
		}
		begun, again := true, len(begins) > 1
		for _, p := range passed {
			begun = begun && (len(o.directPoints(passed, p)) > 0 || len(o.before[p]) == 0) &&
				!o.mayLackEvent(passed[0])
			if arrive[p] == 1 && len(points[p]) > 1 {
				again = true
				if i > 0 {
					u.late[p] = true
				}
			}
		}
		for _, p := range passed {
			if again && !begun {
				u.unsure[p], u.mixed = true, true
			}
		}
		lack, whole := map[string]bool{}, true
		for _, p := range passed {
			whole = whole && (!o.follows(p) || slices.ContainsFunc(passed, func(q string) bool {
				return o.precedes(p, q)
			}))
			for _, q := range o.points {
				if o.precedes(p, q) && len(points[q]) == 0 {
					lack[q] = true
				}
			}
		}
		for _, q := range passed {
			if !whole && merges[q] && slices.ContainsFunc(passed, func(p string) bool {
				return o.precedes(p, q)
			}) {
				lack[q] = true
			}
		}
		maps.DeleteFunc(u.late, func(p string, _ bool) bool { return u.n[p] == 0 })
		for p := range strayed {
			u.late[p] = true
		}
		lacks = append(lacks, lack)
		all = append(all, u)
	}
	for i := range all {
		for _, later := range all[i+1 : min(len(all), i+1+longestLate)] {
			for p := range later.n {
				if lacks[i][p] && !slices.ContainsFunc(o.points, func(q string) bool {
					return all[i].n[q] > 0 && o.precedes(p, q) && !merges[q] && !o.crowded[q]
				}) {
					all[i].taken[p] = true
				}
			}
		}
	}
	return all
}
