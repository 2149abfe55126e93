package analysis

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// truth is what truly happened in a job, to be compared with an answer about its logs.
type truth struct {
	t      *testing.T
	job    *simrun.Job
	edges  [][2]string // edges between all points, also between those without a log
	logged map[string]bool
	tuples map[uint64][]*simrun.Tuple
	pairs  map[pairKey][]pair
	after  map[*simrun.Event]bool // events that something followed
	paths  map[*simrun.Tuple][]*simrun.Event
	oracle *oracle
	asides map[string]bool // points that no path leads over
}

// pair has two events of a tuple. The first of them led to the second. direct is true if no other
// event lies between the two.
type pair struct {
	from, to *simrun.Event
	isDirect bool
}

type pairKey struct {
	id       uint64
	from, to string
}

func truthOf(t *testing.T, j *simrun.Job) *truth {
	w := &truth{t: t, job: j, logged: map[string]bool{},
		tuples: map[uint64][]*simrun.Tuple{}, pairs: map[pairKey][]pair{},
		after: map[*simrun.Event]bool{}, paths: map[*simrun.Tuple][]*simrun.Event{}}
	for _, u := range j.Tuples {
		w.tuples[u.ID] = append(w.tuples[u.ID], u)
		for _, e := range u.Events {
			for from := range ancestorsOf(e, map[*simrun.Event]bool{}) {
				k := pairKey{u.ID, from.Point, e.Point}
				w.pairs[k] = append(w.pairs[k], pair{from, e, slices.Contains(e.Causes, from)})
			}
			w.logged[e.Point] = w.logged[e.Point] || e.Logged
			for _, from := range e.Causes {
				w.after[from] = true
			}
		}
	}
	w.orderAll()
	for _, u := range j.Tuples {
		w.paths[u] = w.criticalPath(u)
	}
	return w
}

// ancestorsOf are the events that led to an event.
func ancestorsOf(e *simrun.Event, into map[*simrun.Event]bool) map[*simrun.Event]bool {
	for _, c := range e.Causes {
		if !into[c] {
			into[c] = true
			ancestorsOf(c, into)
		}
	}
	return into
}

// orderAll makes an oracle that knows every event, its true time and its tuple.
func (w *truth) orderAll() {
	o := &oracle{t: w.t, reference: w.job.Nodes[0].Name, before: map[string][]string{},
		lacking: map[string]bool{}}
	times := map[oracleEvent]*simrun.Event{{}: {}}
	points := map[string]bool{}
	number := map[*simrun.Tuple]uint64{}
	for i, u := range w.job.Tuples {
		number[u] = uint64(i)
		for _, p := range u.Parents {
			o.links = append(o.links, [2]uint64{number[p], number[u]})
		}
		for _, e := range u.Events {
			n := &w.job.Nodes[e.Node]
			at := oracleEvent{n.Name, e.Point, n.Reading(e.Time), number[u]}
			points[e.Point], times[at] = true, e
			o.events = append(o.events, at)
		}
	}
	o.elapsed = func(a, b oracleEvent) int64 { return w.job.Elapsed(times[a], times[b]) }
	o.orderBy(w.job.Edges, points)
	for p, before := range o.before {
		for _, q := range before {
			w.edges = append(w.edges, [2]string{q, p})
		}
	}
	w.oracle = o
}

// criticalPath returns the events from where a tuple ended back to where it began. From each event
// it goes to the latest of the events directly before. The path is nil if no branch of the tuple
// ended at a last point, which is a point that no other point follows.
func (w *truth) criticalPath(u *simrun.Tuple) (path []*simrun.Event) {
	var last *simrun.Event
	for _, e := range u.Events {
		if w.asides[e.Point] || w.goesOn(e) {
			continue
		}
		if w.oracle.follows(e.Point) {
			return nil
		}
		if last == nil || e.Time > last.Time && e.Point != last.Point {
			last = e // if the event was repeated, the first copy is used
		}
	}
	for e := last; ; {
		path = append(path, e)
		if len(e.Causes) == 0 {
			return path
		}
		e = slices.MaxFunc(e.Causes, func(a, b *simrun.Event) int {
			return cmp.Compare(a.Time, b.Time)
		})
	}
}

// goesOn reports whether the tuple went on from this event, or from another of its events at the
// same point.
func (w *truth) goesOn(e *simrun.Event) bool {
	return slices.ContainsFunc(e.Tuple.Events, func(o *simrun.Event) bool {
		return o.Point == e.Point && w.after[o]
	})
}

// addOrigins adds the first event of each of a tuple's oldest ancestors. These are ancestors that
// were made of no other tuples.
func addOrigins(u *simrun.Tuple, into map[*simrun.Event]bool) map[*simrun.Event]bool {
	for _, p := range u.Parents {
		if len(p.Parents) == 0 {
			into[p.Events[0]] = true
		}
		addOrigins(p, into)
	}
	return into
}

// matchingPairs returns the pairs of events that a row may describe.
func (w *truth) matchingPairs(r *DurationRow) (found []pair) {
	matches := func(p pair) {
		d := w.job.Elapsed(p.from, p.to)
		if r.Lo <= d+1 && d-1 <= r.Hi && w.job.Nodes[p.from.Node].Name == r.FromNode &&
			w.job.Nodes[p.to.Node].Name == r.ToNode {
			found = append(found, p)
		}
	}
	if r.Tuple > 0 {
		for _, p := range w.pairs[pairKey{r.ID, r.From, r.To}] {
			matches(p)
		}
		return found
	}
	for _, u := range w.tuples[r.ID] {
		all := slices.SortedFunc(maps.Keys(addOrigins(u, map[*simrun.Event]bool{})),
			func(a, b *simrun.Event) int { return cmp.Compare(a.Time, b.Time) })
		from := all[0]
		if strings.HasSuffix(r.Kind, ", latest") {
			from = all[len(all)-1]
		}
		for _, to := range u.Events {
			if from.Point == r.From && to.Point == r.To {
				matches(pair{from: from, to: to})
			}
		}
	}
	return found
}

// checkPaths compares critical paths with the true critical paths, for the tuples whose whole path
// is known.
func (w *truth) checkPaths(a *wholeAnswer) {
	known := map[uint64]bool{}
	for i := range a.rows {
		r := &a.rows[i]
		known[r.Tuple] = known[r.Tuple] || r.Whole && r.Critical == SurelyCritical
	}
	for i := range a.rows {
		r := &a.rows[i]
		if !known[r.Tuple] || a.guessed[i] || r.Critical != NotCritical || r.Kind == "waiting" ||
			r.Kind == "end-to-end" || w.repeatsAtPoint(r) || w.job.Lossy && w.idReused(r) {
			continue
		}
		for _, p := range w.matchingPairs(r) {
			if path := w.paths[p.to.Tuple]; p.isDirect && slices.Contains(path, p.from) &&
				slices.Contains(path, p.to) && len(w.tuples[r.ID]) == 1 {
				w.t.Errorf("id %d: %s to %s is part of its critical path", r.ID, r.From, r.To)
			}
		}
	}
}

// repeatsAtPoint reports whether a row's id belongs to a tuple with several events at one point.
// The analysis assumes two things: an event is repeated only before its id begins again, and the
// logs have the first copy of the event. If a job breaks this assumption, such a row may be false.
func (w *truth) repeatsAtPoint(r *DurationRow) bool {
	several := func(u *simrun.Tuple) bool {
		points := map[string]bool{}
		return slices.ContainsFunc(u.Events, func(e *simrun.Event) bool {
			again := points[e.Point]
			points[e.Point] = true
			return again
		})
	}
	return (w.idReused(r) || w.job.Lossy) && slices.ContainsFunc(w.tuples[r.ID], several)
}

// idReused reports whether a row describes a tuple whose id other tuples have, too, or a tuple that
// was made of such tuples.
func (w *truth) idReused(r *DurationRow) bool {
	if r.Tuple > 0 {
		return len(w.tuples[r.ID]) > 1
	}
	for e := range addOrigins(w.tuples[r.ID][0], map[*simrun.Event]bool{}) {
		if len(w.tuples[e.Tuple.ID]) > 1 {
			return true
		}
	}
	return false
}

// wholeAnswer is an answer with all that it rests on.
type wholeAnswer struct {
	*Answer
	rows []DurationRow
	// truths has the true duration of each row
	truths []int64
	// guessed has the rows that may be false: the answer says that their events are guessed
	guessed map[int]bool
}

// checkRows compares each duration with the truth.
func (w *truth) checkRows(a *wholeAnswer) {
	open := map[[2]string]bool{}
	a.guessed = map[int]bool{}
	guess := slices.ContainsFunc(a.Findings, func(f Finding) bool {
		return f.Kind == FindUndecided && strings.Contains(f.Text, "guessed")
	})
	for i := range a.Spans {
		open[[2]string{a.Spans[i].From, a.Spans[i].To}] = a.Spans[i].Open
	}
	for i := range a.rows {
		r := &a.rows[i]
		found := w.matchingPairs(r)
		guessed := (guess || w.job.Missing) && w.job.Lossy && w.idReused(r) || w.repeatsAtPoint(r)
		if len(found) == 0 && guessed {
			a.guessed[i], a.truths = true, append(a.truths, r.Lo)
			continue
		}
		if len(found) == 0 {
			w.t.Errorf("%s of id %d from %s on %s to %s on %s is %d to %d: it is not true", r.Kind,
				r.ID, r.From, r.FromNode, r.To, r.ToNode, r.Lo, r.Hi)
			a.truths = append(a.truths, r.Lo)
			continue
		}
		a.truths = append(a.truths, w.job.Elapsed(found[0].from, found[0].to))
		if named := r.Kind == "transfer" || r.Kind == "computation" || r.Kind == "inside"; named &&
			!open[[2]string{r.From, r.To}] && !w.job.Missing &&
			!slices.ContainsFunc(found, func(p pair) bool { return p.isDirect }) {
			w.t.Errorf("id %d passed other points between %s and %s: no %s", r.ID, r.From, r.To,
				r.Kind)
		}
		onPath := func(p pair) bool {
			path := w.paths[p.to.Tuple]
			return slices.Contains(path, p.from) && slices.Contains(path, p.to)
		}
		if guessed {
			continue
		}
		if on := slices.ContainsFunc(found, onPath); r.Critical == SurelyCritical && !on {
			w.t.Errorf("id %d: %s to %s (%s) is no part of its critical path", r.ID, r.From, r.To,
				r.Kind)
		} else if r.Kind == "waiting" && on && len(found) == 1 {
			w.t.Errorf("id %d: %s to %s waited for nothing", r.ID, r.From, r.To)
		}
	}
}
