package link

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A sharing shares out the calls of one place among its requests.
type sharing struct {
	m          *model
	foreign    bool
	order      *order
	requests   []request
	sends      []send
	calls      []call
	candidates [][]int32
	owner      []int32 // request of each call, or -1
	scripts    [][]int32
	scores     []float64
	random     *rand.Rand

	pinned []bool // the only candidate of the call is its cause

	// quiet counts for each call how many times in a row no change had a chance. A call that has
	// been quiet for long is tried rarely.
	quiet []uint8
	turn  int
	best  float64 // the best change that was tried for a call

	// had says, for each call, how many draws long each owner had it. It is nil while nobody
	// counts.
	had   [][]tenure
	since []int32

	// These are scripts, and parts of scripts, that are being tried.
	a, b, mine, theirs []int32
}

type tenure struct{ owner, draws int32 }

const (
	hopeless  = -15 // logarithm of a chance that is as good as none
	quietFrom = 4   // quiet visits for each candidate until a call is tried rarely
	quietStep = 16  // a quiet call is tried in one of this many draws
	mostTries = 64  // tries for a call in one draw
)

func (s *sharing) rescore() {
	for r := range s.requests {
		s.scores[r] = s.m.score(&s.requests[r], s.scripts[r], s.calls, s.order)
	}
}

// draw tries to change the owner of each call.
func (s *sharing) draw() {
	s.turn++
	for c := range s.calls {
		open := s.candidates[c]
		if len(open) == 0 || s.pinned[c] {
			continue
		}
		enough := uint8(min(quietFrom*len(open), 255))
		if s.quiet[c] >= enough && (s.turn+c)%quietStep != 0 {
			continue
		}
		s.best = math.Inf(-1)
		// There is one try for each candidate, and one for no cause.
		for range min(len(open)+1, mostTries) {
			k := s.random.IntN(len(open) + 1)
			to := int32(-1)
			if k < len(open) {
				to = open[k]
			}
			if to == s.owner[c] {
				continue
			}
			if to < 0 || s.random.IntN(4) == 0 {
				s.move(int32(c), to)
			} else {
				s.swap(int32(c), to)
			}
		}
		if s.best > hopeless {
			s.quiet[c] = 0
		} else if s.quiet[c] < enough {
			s.quiet[c]++
		}
	}
}

// give sets the owner of a call.
func (s *sharing) give(c, to int32) {
	if s.had != nil {
		s.count(c)
	}
	s.owner[c] = to
	s.quiet[c] = 0
}

// count notes for how many draws a call had its owner.
func (s *sharing) count(c int32) {
	draws := int32(s.turn) - s.since[c]
	s.since[c] = int32(s.turn)
	if draws == 0 {
		return
	}
	for i := range s.had[c] {
		if s.had[c][i].owner == s.owner[c] {
			s.had[c][i].draws += draws
			return
		}
	}
	s.had[c] = append(s.had[c], tenure{s.owner[c], draws})
}

// move tries to give a call to another request, or to none.
func (s *sharing) move(c, to int32) {
	from := s.owner[c]
	s.a = s.a[:0]
	if from >= 0 {
		for _, k := range s.scripts[from] {
			if k != c {
				s.a = append(s.a, k)
			}
		}
	}
	s.b = s.b[:0]
	if to >= 0 {
		s.b = s.insert(append(s.b, s.scripts[to]...), c)
	}
	bonus := 0.0
	if from < 0 {
		bonus -= s.m.spontaneous[s.calls[c].kind]
	}
	if to < 0 {
		bonus += s.m.spontaneous[s.calls[c].kind]
	}
	if s.accept(from, to, bonus) {
		s.give(c, to)
	}
}

// accept tries to make s.a and s.b the scripts of two requests. It always accepts a more probable
// sharing, and a less probable one at random.
func (s *sharing) accept(from, to int32, bonus float64) bool {
	var before, after, x, y float64
	after = bonus
	if from >= 0 {
		before += s.scores[from]
		x = s.m.score(&s.requests[from], s.a, s.calls, s.order)
		after += x
	}
	if to >= 0 {
		before += s.scores[to]
		y = s.m.score(&s.requests[to], s.b, s.calls, s.order)
		after += y
	}
	d := (after - before) * s.m.temper
	s.best = max(s.best, d)
	if d < 0 && (d < -30 || s.random.Float64() >= math.Exp(d)) {
		return false
	}
	if from >= 0 {
		s.scripts[from] = append(s.scripts[from][:0], s.a...)
		s.scores[from] = x
	}
	if to >= 0 {
		s.scripts[to] = append(s.scripts[to][:0], s.b...)
		s.scores[to] = y
	}
	return true
}

// insert puts a call where it belongs in a script. Calls are numbered in the order in which they
// were sent.
func (s *sharing) insert(script []int32, c int32) []int32 {
	at, _ := slices.BinarySearch(script, c)
	return slices.Insert(script, at, c)
}

// swap tries to exchange parts of the scripts of two requests. Either each part has a few calls,
// and begins at the given call or at a call of the same kind. Or it has all calls of its script
// from the given call on, in the order of sending.
func (s *sharing) swap(c, to int32) {
	from := s.owner[c]
	if from < 0 {
		s.replace(c, to)
		return
	}
	mine := s.after(from, c)
	theirs := s.after(to, c)
	if length := s.random.IntN(5); length > 0 { // 0: exchange all later calls
		other := s.alike(c, to)
		if other < 0 {
			s.move(c, to)
			return
		}
		length = max(1, length-2)
		theirs = s.after(to, other)
		mine, theirs = mine[:min(length, len(mine))], theirs[:min(length, len(theirs))]
	}
	if !s.open(mine, to) || !s.open(theirs, from) {
		return
	}
	s.a = s.exchanged(s.a[:0], s.scripts[from], mine, theirs)
	s.b = s.exchanged(s.b[:0], s.scripts[to], theirs, mine)
	s.mine, s.theirs = append(s.mine[:0], mine...), append(s.theirs[:0], theirs...)
	if s.accept(from, to, 0) {
		for _, m := range s.mine {
			s.give(m, to)
		}
		for _, m := range s.theirs {
			s.give(m, from)
		}
	}
}

// pin leaves a call only the candidate that is known to be its cause.
func (s *sharing) pin(c, cause int32) {
	for _, r := range s.candidates[c] {
		if s.requests[r].call == cause {
			s.candidates[c], s.pinned[c] = []int32{r}, true
			return
		}
	}
}

// after returns the part of a request's script from the given call on, in the order of sending.
func (s *sharing) after(r, c int32) []int32 {
	i, _ := slices.BinarySearch(s.scripts[r], c)
	return s.scripts[r][i:]
}

// alike returns a random call of a request. The call has the same kind as the given one. If there
// is none, the result is -1.
func (s *sharing) alike(c, r int32) int32 {
	found, n := int32(-1), 0
	for _, k := range s.scripts[r] {
		if s.calls[k].kind == s.calls[c].kind {
			if n++; s.random.IntN(n) == 0 {
				found = k
			}
		}
	}
	return found
}

// open reports whether a request is a candidate for each of the given calls.
func (s *sharing) open(all []int32, r int32) bool {
	for _, c := range all {
		if !slices.Contains(s.candidates[c], r) {
			return false
		}
	}
	return true
}

// exchanged copies a script to the end of a list. It leaves out some calls, and adds others where
// they belong.
func (s *sharing) exchanged(to, script, without, with []int32) []int32 {
	for _, c := range script {
		if len(without) > 0 && c == without[0] {
			without = without[1:]
			continue
		}
		for len(with) > 0 && with[0] < c {
			to = append(to, with[0])
			with = with[1:]
		}
		to = append(to, c)
	}
	return append(to, with...)
}

// replace tries to put a call without a cause in the place of a call of the same kind, which then
// has no cause.
func (s *sharing) replace(c, to int32) {
	other := s.alike(c, to)
	if other < 0 || s.pinned[other] {
		s.move(c, to)
		return
	}
	s.a, s.b = s.a[:0], s.b[:0]
	for _, k := range s.scripts[to] {
		if k != other {
			s.b = append(s.b, k)
		}
	}
	s.b = s.insert(s.b, c)
	if s.accept(-1, to, 0) {
		s.give(c, to)
		s.give(other, -1)
	}
}

// answer draws many sharings. The share of draws in which a request owns a call is the probability
// of that link.
func (s *sharing) answer(w window, all []Link) {
	for range 10 {
		s.draw()
	}
	s.had, s.since = make([][]tenure, len(s.calls)), make([]int32, len(s.calls))
	for c := range s.since {
		s.since[c] = int32(s.turn)
	}
	for range draws {
		s.draw()
	}
	for c := range s.calls {
		if t := s.calls[c].from; t < w.begin || t >= w.end {
			continue
		}
		s.count(int32(c))
		b := newBest()
		for _, had := range s.had[c] {
			cause := int32(calls.NoCause)
			if had.owner >= 0 {
				cause = s.requests[had.owner].call
			}
			b.add(cause, float64(had.draws))
		}
		b.sum += 0.5
		all[s.sends[c].call] = b.link()
	}
	s.had = nil
}
