package placement

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// annealing improves a placement by many small changes (simulated annealing). The same arguments
// give the same result. Operators are numbered by their place in the problem's order.
type annealing struct {
	p      *Problem
	random *rand.Rand

	before, after [][]int
	near          [][]int // by operator: the nodes with the smallest limits
	ends          []int   // the sinks
	goal          float64 // a latency that no placement beats

	at   []int
	free []float64 // by node: its free cores
	on   [][]int   // by node: its operators
	done []float64 // by operator: the latency up to it
	by   []int     // by operator: the sender whose tuples come last; -1: it has no sender

	undo     []moved // the changes since the last accepted placement
	first    int     // the first operator that was moved since then
	lastDone []float64
	lastBy   []int
}

type moved struct{ v, from int }

const (
	maxNear = 48 // the largest number of nodes that near has for an operator

	// Now and then, the search accepts a change for the worse, which makes the latency longer by
	// about heat times the latency. At first the heat is startHeat. It falls to 0.
	startHeat = 0.016
)

func newSearch(p *Problem, l *lowerLimits, at Placement, seed uint64) *annealing {
	ops := len(at)
	s := &annealing{
		p: p, random: rand.New(rand.NewPCG(seed, 1)), before: make([][]int, ops),
		after: make([][]int, ops), near: make([][]int, ops), goal: l.leastLatency(),
		at: make([]int, ops), free: make([]float64, p.n), on: make([][]int, p.n),
		done: make([]float64, ops), by: make([]int, ops),
		lastDone: make([]float64, ops), lastBy: make([]int, ops),
	}
	for i, node := range p.job.Nodes {
		s.free[i] = largestLoad(node.Cores)
	}
	place := make([]int, ops)
	for k, v := range p.order {
		place[v] = k
	}
	limit := make([]float64, p.n)
	for k, v := range p.order {
		i := at[v]
		s.at[k] = i
		s.free[i] -= p.load[v*p.n+i]
		s.on[i] = append(s.on[i], k)
		for _, u := range p.before[v] {
			s.before[k] = append(s.before[k], place[u])
		}
		for _, w := range p.after[v] {
			s.after[k] = append(s.after[k], place[w])
		}
		if len(p.after[v]) == 0 {
			s.ends = append(s.ends, k)
		}
		for _, i := range p.allows[v] {
			limit[i] = l.limitThrough(v, i)
		}
		near := slices.Clone(p.allows[v])
		slices.SortFunc(near, func(i, k int) int {
			return cmp.Or(cmp.Compare(limit[i], limit[k]), i-k)
		})
		s.near[k] = slices.Clone(near[:min(len(near), maxNear)])
	}
	return s
}

// measure returns the end-to-end latency, and a number that falls when the latency falls, or when
// other slow paths get shorter.
func (s *annealing) measure() (longest, weighed float64) {
	p := s.p
	for k := s.first; k < len(s.at); k++ {
		ready, by, at := 0.0, -1, s.at[k]
		for _, u := range s.before[k] {
			if t := s.done[u] + p.far[s.at[u]*p.n+at]; t > ready || by < 0 {
				ready, by = t, u
			}
		}
		s.done[k], s.by[k] = ready+p.work[p.order[k]*p.n+at], by
	}
	for _, k := range s.ends {
		longest = max(longest, s.done[k])
		if over := s.done[k] - s.goal; over > 0 {
			weighed += over * over * over * over
		}
	}
	return longest, math.Sqrt(math.Sqrt(weighed))
}

// moveOperator puts an operator on another node, even if that node has too few cores.
func (s *annealing) moveOperator(k, into int) {
	s.undo = append(s.undo, moved{k, s.at[k]})
	s.first = min(s.first, k)
	s.put(k, into)
}

func (s *annealing) put(k, into int) {
	from, load := s.at[k], s.p.load[s.p.order[k]*s.p.n:]
	s.free[from] += load[from]
	s.free[into] -= load[into]
	i := slices.Index(s.on[from], k)
	s.on[from] = slices.Delete(s.on[from], i, i+1)
	s.on[into] = append(s.on[into], k)
	s.at[k] = into
}

// acceptMoves keeps the changes.
func (s *annealing) acceptMoves() {
	copy(s.lastDone[s.first:], s.done[s.first:])
	copy(s.lastBy[s.first:], s.by[s.first:])
	s.undo, s.first = s.undo[:0], len(s.at)
}

// rejectMoves takes the changes back.
func (s *annealing) rejectMoves() {
	for _, m := range slices.Backward(s.undo) {
		s.put(m.v, m.from)
	}
	copy(s.done[s.first:], s.lastDone[s.first:])
	copy(s.by[s.first:], s.lastBy[s.first:])
	s.undo, s.first = s.undo[:0], len(s.at)
}

// run makes changes, at most the given number. It stops earlier if the latency is down to the given
// goal. It returns the best placement and its latency.
func (s *annealing) run(changes int, enough float64) (Placement, float64) {
	longest, now := s.measure()
	s.acceptMoves()
	best, least := slices.Clone(s.at), longest
	path := s.criticalPath()
	for k := range changes {
		if least <= enough {
			break
		}
		if !s.changeOnce(path) {
			s.rejectMoves()
			continue
		}
		longest, next := s.measure()
		heat := startHeat * least * (1 - float64(k)/float64(changes))
		if next > now && s.random.Float64() >= math.Exp((now-next)/heat) {
			s.rejectMoves()
			continue
		}
		now = next
		s.acceptMoves()
		path = s.criticalPath()
		if longest < least {
			least = longest
			copy(best, s.at)
		}
	}
	at := make(Placement, len(best))
	for k, v := range s.p.order {
		at[v] = best[k]
	}
	return at, least
}

// criticalPath returns the operators of the slowest path.
func (s *annealing) criticalPath() (path []int) {
	last, most := 0, 0.0
	for _, v := range s.ends {
		if s.done[v] > most {
			last, most = v, s.done[v]
		}
	}
	for v := last; v >= 0; v = s.by[v] {
		path = append(path, v)
	}
	return path
}

// changeOnce makes one random change near the slowest path. It reports whether all operators fit.
func (s *annealing) changeOnce(path []int) bool {
	v := path[s.random.IntN(len(path))]
	switch s.random.IntN(8) {
	case 0, 1, 2:
		return s.shiftGroup(v, s.randomTarget(v), 1)
	case 3, 4:
		return s.shiftGroup(v, s.randomTarget(v), 2+s.random.IntN(6))
	case 5, 6:
		return s.swapOperator(v, s.randomTarget(v))
	default: // the node of v and another one exchange operators
		return s.exchangeNodes(s.at[v], s.randomTarget(v))
	}
}

// randomTarget returns a random node for operator v: the node of an operator that sends to v or
// gets from v, or a node with a small lower limit.
func (s *annealing) randomTarget(v int) int {
	around := [2][]int{s.before[v], s.after[v]}[s.random.IntN(2)]
	if len(around) > 0 && s.random.IntN(2) == 0 {
		return s.at[around[s.random.IntN(len(around))]]
	}
	near := s.near[v]
	return near[min(s.random.IntN(len(near)), s.random.IntN(len(near)))]
}

// shiftGroup moves an operator to another node, together with operators of its node that are
// connected with it. The last parameter limits how many operators it moves.
func (s *annealing) shiftGroup(v, into, most int) bool {
	from := s.at[v]
	if from == into {
		return false
	}
	group := []int{v}
	for k := 0; k < len(group) && len(group) < most; k++ {
		for _, next := range [2][]int{s.before[group[k]], s.after[group[k]]} {
			for _, w := range next {
				if s.at[w] == from && len(group) < most && !slices.Contains(group, w) {
					group = append(group, w)
				}
			}
		}
	}
	for _, w := range group {
		if !s.may(w, into) {
			return false
		}
	}
	for _, w := range group {
		s.moveOperator(w, into)
	}
	return s.free[into] >= 0
}

func (s *annealing) may(v, i int) bool {
	_, ok := slices.BinarySearch(s.p.allows[s.p.order[v]], i)
	return ok
}

// swapOperator exchanges an operator with a random operator of another node.
func (s *annealing) swapOperator(v, with int) bool {
	from := s.at[v]
	if from == with || len(s.on[with]) == 0 {
		return false
	}
	w := s.on[with][s.random.IntN(len(s.on[with]))]
	if !s.may(v, with) || !s.may(w, from) {
		return false
	}
	s.moveOperator(v, with)
	s.moveOperator(w, from)
	return s.free[from] >= 0 && s.free[with] >= 0
}

// exchangeNodes exchanges the operators of two nodes. An operator that may not run on the other
// node stays.
func (s *annealing) exchangeNodes(i, k int) bool {
	if i == k {
		return false
	}
	first, second := slices.Clone(s.on[i]), slices.Clone(s.on[k])
	for _, v := range first {
		if s.may(v, k) {
			s.moveOperator(v, k)
		}
	}
	for _, v := range second {
		if s.may(v, i) {
			s.moveOperator(v, i)
		}
	}
	return s.free[i] >= 0 && s.free[k] >= 0
}
