package link

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// learnt is the product's own method. For each program it learns a model of scripts from the data,
// and draws many ways to share out the program's calls among its requests, each as often as the
// model finds it probable. The probability of a link is the share of draws that have it.
type learnt struct{}

func (learnt) Name() string { return "learnt" }

const (
	rounds     = 30  // of learning
	learnDraws = 6   // in each round of learning
	draws      = 120 // from which probabilities are taken
	mostOpen   = 96  // candidates of a call
)

func (learnt) Link(seen *calls.Seen) []Link {
	all := none(seen)
	program := programs(seen)
	groups := map[int32][]place{}
	var order []int32
	for _, p := range placesOf(seen) {
		g := program[p.number]
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], p)
	}
	for _, g := range order {
		newProgram(groups[g], program, seen.Quantum_ns).link(all)
	}
	return all
}

// A program is the places with one program, and what was learnt of it.
type program struct {
	m       *model
	sharers []*sharing
}

// A sharing shares out the calls of one place among its requests.
type sharing struct {
	m          *model
	requests   []request
	sends      []send
	calls      []call
	candidates [][]int32
	owner      []int32 // of each call: the request, or -1
	scripts    [][]int32
	scores     []float64
	random     *rand.Rand
	// These are scripts and parts of them that are being tried.
	a, b, mine, theirs []int32
}

func newProgram(places []place, of []int32, quantum int64) *program {
	kinds := map[int32]int32{}
	for _, p := range places {
		for _, s := range p.sends {
			if _, ok := kinds[of[s.callee]]; !ok {
				kinds[of[s.callee]] = int32(len(kinds))
			}
		}
	}
	p := &program{m: newModel(len(kinds), max(quantum, leastUnit))}
	numbers, idleCalls, idle := make([]float64, len(kinds)), make([]float64, len(kinds)), 0.0
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, at := range places {
		s := &sharing{m: p.m, requests: at.requests, sends: at.sends,
			random: rand.New(rand.NewPCG(1, uint64(at.number)))}
		for _, c := range at.sends {
			k := kinds[of[c.callee]]
			s.calls = append(s.calls, call{c.from, c.to, k})
			numbers[k]++
			first, last = min(first, c.from), max(last, c.from)
		}
		s.owner = make([]int32, len(s.calls))
		for i := range s.owner {
			s.owner[i] = -1
		}
		s.scripts = make([][]int32, len(s.requests))
		s.scores = make([]float64, len(s.requests))
		s.candidates = make([][]int32, len(s.calls))
		n := 0
		at.candidates(0, func(_ send, open []int32) {
			s.candidates[n] = slices.Clone(open[max(0, len(open)-mostOpen):])
			if len(open) == 0 {
				idleCalls[s.calls[n].kind]++
			}
			n++
		})
		idle += at.idle(first, last) / float64(p.m.unit)
		p.sharers = append(p.sharers, s)
	}
	all := float64(last-first)/float64(p.m.unit) + 1
	for k := range numbers {
		p.m.spontaneous[k] = math.Log((idleCalls[k] + 0.002*numbers[k] + 0.02) / (idle + 0.2*all))
	}
	p.m.learn(p.m.newExperience())
	return p
}

func (p *program) link(all []Link) {
	p.begin()
	for range rounds {
		x := p.m.newExperience()
		for _, s := range p.sharers {
			s.rescore()
			for range learnDraws {
				s.draw()
				for r := range s.requests {
					x.add(&s.requests[r], s.scripts[r], s.calls, 1.0/learnDraws)
				}
			}
		}
		p.m.learn(x)
	}
	for _, s := range p.sharers {
		s.rescore()
		s.answer(all)
	}
}

func (s *sharing) rescore() {
	for r := range s.requests {
		s.scores[r] = s.m.score(&s.requests[r], s.scripts[r], s.calls)
	}
}

// draw tries to change the owner of each call.
func (s *sharing) draw() {
	for c := range s.calls {
		open := s.candidates[c]
		if len(open) == 0 {
			continue
		}
		// One try for each candidate, and one for no cause.
		for range len(open) + 1 {
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
	}
}

// move tries to give a call to another request.
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
		s.owner[c] = to
	}
}

// accept takes s.a and s.b as the scripts of two requests, as often as they are more probable.
func (s *sharing) accept(from, to int32, bonus float64) bool {
	var before, after, x, y float64
	after = bonus
	if from >= 0 {
		before += s.scores[from]
		x = s.m.score(&s.requests[from], s.a, s.calls)
		after += x
	}
	if to >= 0 {
		before += s.scores[to]
		y = s.m.score(&s.requests[to], s.b, s.calls)
		after += y
	}
	if d := after - before; d < 0 && (d < -30 || s.random.Float64() >= math.Exp(d)) {
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

// insert puts a call into its place in a script. Calls are numbered in the order in which they were
// sent.
func (s *sharing) insert(script []int32, c int32) []int32 {
	at, _ := slices.BinarySearch(script, c)
	return slices.Insert(script, at, c)
}

// swap tries to exchange a piece of the script of a call's owner, from that call on, for a piece of
// another's: from a call of the same kind on, or all that was sent from that moment on.
func (s *sharing) swap(c, to int32) {
	from := s.owner[c]
	if from < 0 {
		s.replace(c, to)
		return
	}
	mine := s.after(from, c)
	theirs := s.after(to, c)
	if length := s.random.IntN(5); length > 0 { // of 0, all are exchanged
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
			s.owner[m] = to
		}
		for _, m := range s.theirs {
			s.owner[m] = from
		}
	}
}

// after is the part of a script that was sent with c or later.
func (s *sharing) after(r, c int32) []int32 {
	i, _ := slices.BinarySearch(s.scripts[r], c)
	return s.scripts[r][i:]
}

// alike is one of a request's calls that is of the same kind as c, or -1.
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

// open reports whether a request may have all these calls.
func (s *sharing) open(all []int32, r int32) bool {
	for _, c := range all {
		if !slices.Contains(s.candidates[c], r) {
			return false
		}
	}
	return true
}

// exchanged appends a script without some of its calls, and with others.
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

// replace tries to give a call without a cause the place of another.
func (s *sharing) replace(c, to int32) {
	other := s.alike(c, to)
	if other < 0 {
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
		s.owner[c], s.owner[other] = to, -1
	}
}

// answer draws, and says how often each call had which owner.
func (s *sharing) answer(all []Link) {
	counts := make([]map[int32]int, len(s.calls))
	for range 10 {
		s.draw()
	}
	for range draws {
		s.draw()
		for c, r := range s.owner {
			if counts[c] == nil {
				counts[c] = map[int32]int{}
			}
			counts[c][r]++
		}
	}
	for c, of := range counts {
		b := newBest()
		for _, r := range append(slices.Clone(s.candidates[c]), -1) {
			if n := of[r]; n > 0 && r >= 0 {
				b.add(s.requests[r].call, float64(n))
			} else if n > 0 {
				b.add(calls.NoCause, float64(n))
			}
		}
		b.sum += 0.5
		all[s.sends[c].call] = b.link()
	}
}
