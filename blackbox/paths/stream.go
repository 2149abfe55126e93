package paths

import (
	"sort"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
)

// A long run is linked by a stream, which keeps only a few windows of calls. A call is in memory
// until the stream has forgotten both this call and all others of its tree. Then no later call can
// join the tree, and the tree is measured.

// mostAtOnce is the number of calls that are linked all at once if nobody chooses another.
const mostAtOnce = 24_000

// streams reports whether a stream links the calls of a run.
func (o *Options) streams(k *known) bool {
	most := mostAtOnce
	if o.window > 0 {
		most = o.window
	}
	return k.calls.number > most && o.Method.Name() == link.Methods[0].Name()
}

// A linkedCall is a call that is in memory. Causes are numbers of calls, as in link.Streamed.
type linkedCall struct {
	id      int64
	call    calls.Call
	moments moments
	link    link.Streamed
}

// unfinished has the calls of trees that may still grow.
type unfinished struct {
	*known
	into *collector
	all  []linkedCall // sorted by id
}

func (o *Options) stream(k *known, into *collector) error {
	u := &unfinished{known: k, into: into}
	s := link.NewStream(k.seen.Quantum_ns, o.window, func(l link.Streamed) {
		if p, is := k.pins[int32(l.Call)]; is {
			l.Cause, l.Probability = int64(p.cause), p.probability
			l.RunnerUp, l.RunnerUpProbability = calls.NoCause, 0
		}
		u.all[u.index(l.Call)].link = l
	})
	s.Passed = u.pass
	for _, p := range k.seen.Places {
		s.Place(p)
	}
	next := int64(0)
	err := k.each(func(c calls.Call, m *moments) error {
		u.all = append(u.all, linkedCall{next, c, *m, link.Streamed{Call: next,
			Cause: calls.NoCause, RunnerUp: calls.NoCause}})
		if p, is := k.pins[int32(next)]; is {
			s.PushKnown(c, int64(p.cause))
		} else {
			s.Push(c)
		}
		next++
		return nil
	})
	if err != nil {
		return err
	}
	s.Flush()
	into.finish()
	return nil
}

// index returns the index of a call, or the index at which it would be.
func (u *unfinished) index(id int64) int {
	return sort.Search(len(u.all), func(i int) bool { return u.all[i].id >= id })
}

// cause returns the index of the call that caused a call, or -1.
func (u *unfinished) cause(i int) int {
	l := &u.all[i]
	if l.call.Caller < 0 || l.link.Cause < 0 {
		return -1
	}
	if c := u.index(l.link.Cause); c < len(u.all) && u.all[c].id == l.link.Cause {
		return c
	}
	return -1
}

// pass gives the collector the trees of which the stream keeps no call any more.
func (u *unfinished) pass(kept []int64) {
	tree := make([]int, len(u.all)) // each call points to another one of its tree, or to itself
	for i := range tree {
		tree[i] = i
	}
	top := func(i int) int {
		for tree[i] != i {
			tree[i] = tree[tree[i]]
			i = tree[i]
		}
		return i
	}
	for i := range u.all {
		if c := u.cause(i); c >= 0 {
			tree[top(i)] = top(c)
		}
	}
	grows := make([]bool, len(u.all))
	for _, id := range kept {
		grows[top(u.index(id))] = true
	}
	seen := &Seen{Seen: calls.Seen{Places: u.seen.Places, Quantum_ns: u.seen.Quantum_ns,
		Known: map[int32]int32{}}, tuples: map[int32]uint64{}}
	number := make([]int32, len(u.all)) // in seen
	for i := range u.all {
		if number[i] = -1; grows[top(i)] {
			continue
		}
		n := int32(len(seen.Calls))
		number[i] = n
		l := &u.all[i]
		seen.Calls, seen.moments = append(seen.Calls, l.call), append(seen.moments, l.moments)
		if id, is := u.seen.tuples[int32(l.id)]; is {
			seen.tuples[n] = id
		}
	}
	links := make([]link.Link, 0, len(seen.Calls))
	var rest []linkedCall
	for i := range u.all {
		l := &u.all[i]
		if number[i] < 0 {
			rest = append(rest, *l)
			continue
		}
		one := link.Link{Cause: calls.NoCause, Probability: l.link.Probability,
			RunnerUp: calls.NoCause, RunnerUpProbability: l.link.RunnerUpProbability}
		if c := u.cause(i); c >= 0 {
			one.Cause = number[c]
		}
		if l.link.RunnerUp >= 0 {
			one.RunnerUp = number[i] // the tree of the real one may be elsewhere
		}
		if p, is := u.pins[int32(l.id)]; is {
			seen.Known[number[i]] = p.cause
		}
		links = append(links, one)
	}
	u.all = rest
	u.into.add(seen, links)
}
