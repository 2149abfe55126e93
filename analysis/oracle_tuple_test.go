package analysis

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// In this file, the oracle cuts the events of an id into tuples, and measures one tuple.

// oracleTuple has the event of one tuple at each point.
type oracleTuple struct {
	way map[string]oracleEvent
	n   map[string]int // by point: the number of the tuple's events
	// The event at these points may belong to an earlier tuple with the same id.
	late map[string]bool
	// Several events at these points may be the one that counts.
	unsure map[string]bool
}

// inDoubt reports whether the events at two points may belong to two tuples.
func (u *oracleTuple) inDoubt(p, q string) bool {
	return u.unsure[p] || u.unsure[q] || u.late[p] || u.late[q]
}

// direct returns the points of a tuple that directly precede the point q.
func (o *oracle) direct(passed []string, q string) (all []string) {
	for _, p := range passed {
		if o.precedes(p, q) && !slices.ContainsFunc(passed, func(r string) bool {
			return o.precedes(p, r) && o.precedes(r, q)
		}) {
			all = append(all, p)
		}
	}
	return all
}

// latest reports for each event whether it may be the latest of all. one is true if exactly one
// event may be.
func (o *oracle) latest(all []oracleEvent) (may []bool, one bool) {
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

// tuple measures one tuple. If whole is true, the tuple has a critical path.
func (o *oracle) tuple(a *oracleAnswer, u *oracleTuple, passed []string, whole bool) {
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
	may, one := o.latest(lastEvents)
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
		if i == slowest {
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
	for _, q := range slices.Backward(passed) {
		came := o.direct(passed, q)
		var events []oracleEvent
		for _, p := range came {
			events = append(events, u.way[p])
		}
		may, one := o.latest(events)
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

// mayLack reports whether the logs may lack another branch to q, besides the one from p.
func (o *oracle) mayLack(passed []string, p, q string) bool {
	return slices.ContainsFunc(o.before[q], func(r string) bool {
		return o.lacks(r) && r != p && !slices.Contains(passed, r) && !o.precedes(r, p) &&
			!o.precedes(p, r)
	})
}

// merges returns the points where branches arrive one by one: at least half of the ids with
// branches have several events there.
func (o *oracle) merges(byID map[uint64][]oracleEvent) map[string]bool {
	passed, several := map[string]int{}, map[string]int{}
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
			return cmp.Compare(o.place(a).Mid(), o.place(b).Mid())
		})
		if n[first.point] > 1 {
			continue // this id begins again
		}
		branched := false
		for _, p := range points {
			if branched = branched || len(o.direct(points, p)) > 1; branched {
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
	return found
}

// tuples splits the events of an id into tuples.
func (o *oracle) tuples(events []oracleEvent, merges map[string]bool,
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
		x, y := o.place(events[i]).Mid(), o.place(events[j]).Mid()
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
			if o.place(b).Lo <= o.place(e).Hi {
				of = i
			}
		}
		at[of][e.point] = append(at[of][e.point], e)
	}
	var all []oracleTuple
	var lacks []map[string]bool
	for _, points := range at {
		u := oracleTuple{map[string]oracleEvent{}, map[string]int{}, map[string]bool{},
			map[string]bool{}}
		for _, earlier := range lacks[max(len(lacks)-longestLate, 0):] {
			maps.Copy(u.late, earlier)
		}
		var passed []string
		for _, p := range o.points {
			if len(points[p]) > 0 {
				passed = append(passed, p)
			}
		}
		arrive := map[string]int{}
		joins := slices.ContainsFunc(passed, func(p string) bool {
			return len(o.direct(passed, p)) > 1
		})
		for _, p := range passed {
			arrive[p] = 1
			if n := 0; joins && merges[p] {
				for _, q := range o.direct(passed, p) {
					n += arrive[q]
				}
				arrive[p] = max(n, 1)
			}
			n := len(points[p])
			a.duplicates[p] += max(n-arrive[p], 0)
			u.way[p], u.n[p] = points[p][0], n
			if arrive[p] > 1 {
				u.way[p] = points[p][n-1]
			}
			on := !o.follows(p) || slices.ContainsFunc(passed, func(q string) bool {
				return o.precedes(p, q)
			})
			lacking := merges[p] && slices.ContainsFunc(o.direct(passed, p),
				func(q string) bool { return o.mayLack(passed, q, p) })
			if arrive[p] > 1 && (n != arrive[p] || !on) || lacking {
				u.unsure[p] = true
			}
		}
		begun, again := true, len(begins) > 1
		for _, p := range passed {
			begun = begun && (len(o.direct(passed, p)) > 0 || len(o.before[p]) == 0)
			again = again || arrive[p] == 1 && len(points[p]) > 1
		}
		for _, p := range passed {
			if again && !begun {
				u.unsure[p] = true
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
		lacks = append(lacks, lack)
		all = append(all, u)
	}
	return all
}
