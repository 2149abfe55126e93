package link

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A Stream links calls while they come, by the product's own method. It keeps what it learnt about
// programs, and as many calls as its window needs. So its memory does not grow with the number of
// calls. One goroutine at a time may use it.
type Stream struct {
	method learntMethod
	seen   calls.Seen // the calls that are kept, sorted whenever links are made
	id     []int64    // number of each kept call
	linked []bool     // kept calls of which the link was passed on already
	size   int        // of the window, in calls
	next   int64      // number of the next call
	emit   func(Streamed)
	known  map[int64]int64 // causes of kept calls that are known from other sources

	// Passed is called whenever links were passed on, with the numbers of the calls that are still
	// kept, in no particular order. Only these calls can be causes of later links. It may be nil.
	Passed func(kept []int64)
}

// A Streamed is the link of a call. Calls are numbered from 0, in the order in which they were
// pushed. Cause and RunnerUp are such numbers, or calls.NoCause.
type Streamed struct {
	Call, Cause, RunnerUp            int64
	Probability, RunnerUpProbability float64
}

// NewStream returns a stream. Moments are multiples of quantum_ns. When a call is linked, the
// stream knows at least a window of calls before it and a window after it, except at the ends. The
// window 0 means 6000 calls. The stream passes the link of each call to the function emit.
func NewStream(quantum_ns int64, window int, emit func(Streamed)) *Stream {
	size := cmp.Or(window, defaultWindow)
	return &Stream{method: learntMethod{window: size, memory: map[string]*program{}}, size: size,
		seen: calls.Seen{Quantum_ns: max(quantum_ns, 1)}, emit: emit, known: map[int64]int64{}}
}

// Place adds a place, and returns its number for Call.Caller and Call.Callee.
func (s *Stream) Place(p calls.Place) int32 {
	s.seen.Places = append(s.seen.Places, p)
	return int32(len(s.seen.Places) - 1)
}

// Push adds a call that has ended, and returns its number. Calls should come about in the order in
// which they began. If a call comes more than a window late, some calls around it are already
// forgotten, and its link is found without them.
func (s *Stream) Push(c calls.Call) int64 {
	s.seen.Calls = append(s.seen.Calls, c)
	s.id, s.linked = append(s.id, s.next), append(s.linked, false)
	s.next++
	if len(s.seen.Calls) >= 4*s.size {
		s.passLinks(len(s.seen.Calls) - s.size)
	}
	return s.next - 1
}

// PushKnown does what Push does, for a call whose cause is known from other sources.
func (s *Stream) PushKnown(c calls.Call, cause int64) int64 {
	s.known[s.next] = cause
	return s.Push(c)
}

// Flush links the remaining calls. Afterwards, nothing is kept but what was learnt.
func (s *Stream) Flush() {
	s.passLinks(len(s.seen.Calls))
	s.seen.Calls, s.id, s.linked = nil, nil, nil
	clear(s.known)
	if s.Passed != nil {
		s.Passed(nil)
	}
}

// Kept is the number of calls in memory.
func (s *Stream) Kept() int { return len(s.seen.Calls) }

// passLinks passes on the links of the first n calls, and forgets calls that no later one needs.
func (s *Stream) passLinks(n int) {
	s.sortKept()
	if n == 0 {
		return
	}
	s.seen.Known = s.keptCauses()
	s.method.wanted = make([]bool, len(s.linked))
	for i := range n {
		s.method.wanted[i] = !s.linked[i]
	}
	links := s.method.Link(&s.seen)
	number := func(i int32) int64 {
		if i < 0 {
			return int64(i)
		}
		return s.id[i]
	}
	for i := range links[:n] {
		if l := &links[i]; !s.linked[i] && s.seen.Calls[i].Caller >= 0 {
			s.emit(Streamed{s.id[i], number(l.Cause), number(l.RunnerUp), l.Probability,
				l.RunnerUpProbability})
		}
		s.linked[i] = true
	}
	s.forgetLinked(n)
	if s.Passed != nil && n < len(links) {
		s.Passed(s.id)
	}
}

// keptCauses returns the known causes of kept calls, as calls.Seen has them. A cause that is not
// kept is left out.
func (s *Stream) keptCauses() map[int32]int32 {
	if len(s.known) == 0 {
		return nil
	}
	at := map[int64]int32{}
	for i, id := range s.id {
		at[id] = int32(i)
	}
	all := map[int32]int32{}
	for id, cause := range s.known {
		if c, kept := at[cause]; kept {
			all[at[id]] = c
		}
	}
	return all
}

// sortKept sorts the kept calls by when they began.
func (s *Stream) sortKept() {
	order := make([]int, len(s.seen.Calls))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(s.seen.Calls[a].Began_ns(), s.seen.Calls[b].Began_ns())
	})
	all := make([]calls.Call, len(order))
	id, linked := make([]int64, len(order)), make([]bool, len(order))
	for i, from := range order {
		all[i], id[i], linked[i] = s.seen.Calls[from], s.id[from], s.linked[from]
	}
	s.seen.Calls, s.id, s.linked = all, id, linked
}

// forgetLinked drops the linked calls that began more than a window before call n, except calls
// that were still open when call n began. Of such open calls, it keeps at most as many as a window
// has.
func (s *Stream) forgetLinked(n int) {
	if n == len(s.seen.Calls) {
		return
	}
	until, recent := s.seen.Calls[n].Began_ns(), max(0, n-s.size)
	open, kept := 0, 0
	for i := recent - 1; i >= 0; i-- {
		c := &s.seen.Calls[i]
		if max(c.Replied_ns, c.Got_ns) >= until && open < s.size {
			open++
		} else {
			delete(s.known, s.id[i])
			s.id[i] = -1
		}
	}
	for i, id := range s.id {
		if id >= 0 {
			s.seen.Calls[kept], s.id[kept], s.linked[kept] = s.seen.Calls[i], id, s.linked[i]
			kept++
		}
	}
	s.seen.Calls, s.id, s.linked = s.seen.Calls[:kept], s.id[:kept], s.linked[:kept]
}
