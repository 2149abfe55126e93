package placement

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"
)

// annealing improves a placement by many small changes (simulated annealing). The same arguments
// give the same result, unless time runs out. Operators are numbered by their place in the
// problem's order. Nodes are numbered by their place in a list of those nodes that the search uses.
type annealing struct {
	p      *Problem
	random *rand.Rand

	before, after [][]int
	ends          []int   // the sinks
	goal          float64 // a latency that no placement beats

	nodes []int     // the nodes that the search uses, as the problem numbers them
	near  [][]int   // by operator: the nodes with the smallest limits
	may   []bool    // by operator and node: whether the operator may run there
	work  []float64 // by operator and node: as in Problem
	load  []float64
	far   []float64 // by node and node: as in Problem

	at   []int
	free []float64 // by node: its free cores
	on   [][]int   // by node: its operators
	done []float64 // by operator: the latency up to it
	left []float64 // by operator: the latency after it, for the last accepted placement
	over float64   // see weigh

	// The changes since the last accepted placement:
	moves   []moved
	changed []doneBefore
	last    int      // the last operator that was moved
	dirty   []uint64 // a bit for each operator: whether its element of done may be wrong
}

type moved struct{ v, from int }

type doneBefore struct {
	v    int
	done float64
}

const (
	maxNear = 48 // the largest number of nodes that near has for an operator

	// Now and then, the search accepts a change for the worse, which makes the latency longer by
	// about heat times the latency. At first the heat is startHeat. It falls to 0.
	startHeat = 0.016

	maxEjects = 8 // how often a change tries to move an operator off a node that is too full
)

func newSearch(p *Problem, l *lowerLimits, at Placement, seed uint64) *annealing {
	ops := len(at)
	s := &annealing{
		p: p, random: rand.New(rand.NewPCG(seed, 1)), before: make([][]int, ops),
		after: make([][]int, ops), near: make([][]int, ops), goal: l.leastLatency(),
		at: make([]int, ops), done: make([]float64, ops), left: make([]float64, ops),
		last: -1, dirty: make([]uint64, (ops+63)/64),
	}
	place := make([]int, ops)
	for k, v := range p.order {
		place[v] = k
	}
	index := slices.Repeat([]int{-1}, p.n)
	use := func(i int) int {
		if index[i] < 0 {
			index[i] = len(s.nodes)
			s.nodes = append(s.nodes, i)
		}
		return index[i]
	}
	for k, v := range p.order {
		s.at[k] = use(at[v])
		for _, u := range p.before[v] {
			s.before[k] = append(s.before[k], place[u])
		}
		for _, w := range p.after[v] {
			s.after[k] = append(s.after[k], place[w])
		}
		if len(p.after[v]) == 0 {
			s.ends = append(s.ends, k)
		}
		near := slices.Clone(l.nodes[v])
		slices.SortFunc(near, func(i, k int) int {
			return cmp.Or(cmp.Compare(l.limitThrough(v, i), l.limitThrough(v, k)), i-k)
		})
		for _, i := range near[:min(len(near), maxNear)] {
			s.near[k] = append(s.near[k], use(i))
		}
	}
	s.copyProblem()
	for k, i := range s.at {
		s.free[i] -= s.load[k*len(s.nodes)+i]
		s.on[i] = append(s.on[i], k)
		s.touch(k)
	}
	s.last = ops - 1
	s.measure(math.Inf(1))
	return s
}

// copyProblem copies what the problem says of the nodes that the search uses.
func (s *annealing) copyProblem() {
	p, n := s.p, len(s.nodes)
	s.free, s.on = make([]float64, n), make([][]int, n)
	s.far = make([]float64, n*n)
	for a, i := range s.nodes {
		s.free[a] = largestLoad(p.job.Nodes[i].Cores)
		for b, k := range s.nodes {
			s.far[a*n+b] = p.far[i*p.n+k]
		}
	}
	s.may = make([]bool, len(s.at)*n)
	s.work, s.load = make([]float64, len(s.at)*n), make([]float64, len(s.at)*n)
	for k, v := range p.order {
		for a, i := range s.nodes {
			_, s.may[k*n+a] = slices.BinarySearch(p.allows[v], i)
			s.work[k*n+a], s.load[k*n+a] = p.work[v*p.n+i], p.load[v*p.n+i]
		}
	}
}

// weigh returns a number that grows if the latency up to a sink grows, most for the slowest paths.
func (s *annealing) weigh(done float64) float64 {
	over := max(done-s.goal, 0)
	return over * over * over * over
}

// touch notes that an operator's element of s.done may be wrong.
func (s *annealing) touch(k int) { s.dirty[k/64] |= 1 << (k % 64) }

// measure computes those elements of s.done that the changes affect. It returns a number that falls
// when the latency falls, or when other slow paths get shorter. It stops early if this number will
// be above most.
func (s *annealing) measure(most float64) float64 {
	n, over := len(s.nodes), s.over
	for word := range s.dirty {
		for s.dirty[word] != 0 {
			k := word*64 + bits.TrailingZeros64(s.dirty[word])
			s.dirty[word] &= s.dirty[word] - 1
			done, at := 0.0, s.at[k]
			for _, u := range s.before[k] {
				done = max(done, s.done[u]+s.far[s.at[u]*n+at])
			}
			done += s.work[k*n+at]
			was := s.done[k]
			if done == was {
				continue
			}
			if k > s.last && done+s.left[k]-s.goal > most {
				clear(s.dirty[word:])
				return math.Inf(1)
			}
			s.changed = append(s.changed, doneBefore{k, was})
			s.done[k] = done
			for _, w := range s.after[k] {
				s.touch(w)
			}
			if len(s.after[k]) == 0 {
				over += s.weigh(done) - s.weigh(was)
			}
		}
	}
	return math.Sqrt(math.Sqrt(max(over, 0)))
}

// moveOperator puts an operator on another node, even if that node has too few cores.
func (s *annealing) moveOperator(k, into int) {
	s.moves = append(s.moves, moved{k, s.at[k]})
	s.last = max(s.last, k)
	s.touch(k)
	for _, w := range s.after[k] {
		s.touch(w)
	}
	s.put(k, into)
}

func (s *annealing) put(k, into int) {
	from, load := s.at[k], s.load[k*len(s.nodes):]
	s.free[from] += load[from]
	s.free[into] -= load[into]
	i, end := slices.Index(s.on[from], k), len(s.on[from])-1
	s.on[from][i] = s.on[from][end]
	s.on[from] = s.on[from][:end]
	s.on[into] = append(s.on[into], k)
	s.at[k] = into
}

// acceptMoves keeps the changes. It returns the end-to-end latency.
func (s *annealing) acceptMoves() (longest float64) {
	n := len(s.nodes)
	for k := s.last; k >= 0; k-- {
		s.left[k] = 0
		for _, w := range s.after[k] {
			s.left[k] = max(s.left[k], s.far[s.at[k]*n+s.at[w]]+s.work[w*n+s.at[w]]+s.left[w])
		}
	}
	s.over = 0
	for _, k := range s.ends {
		longest = max(longest, s.done[k])
		s.over += s.weigh(s.done[k])
	}
	s.moves, s.changed, s.last = s.moves[:0], s.changed[:0], -1
	return longest
}

// rejectMoves takes the changes back.
func (s *annealing) rejectMoves() {
	for _, m := range slices.Backward(s.moves) {
		s.put(m.v, m.from)
	}
	for _, c := range slices.Backward(s.changed) {
		s.done[c.v] = c.done
	}
	s.moves, s.changed, s.last = s.moves[:0], s.changed[:0], -1
}

// run makes changes, at most the given number. It stops earlier if the latency is down to the given
// goal, or if the time is over. It returns the best placement and its latency.
func (s *annealing) run(changes int, enough float64, until time.Time) (Placement, float64) {
	least := s.acceptMoves()
	now := math.Sqrt(math.Sqrt(s.over))
	best, path := slices.Clone(s.at), s.criticalPath()
	began, heat := time.Now(), 0.0
	for k := 0; k < changes && least > enough; k++ {
		if k%1024 == 0 {
			left := time.Until(until)
			if left <= 0 {
				break
			}
			heat = startHeat * least * min(1-float64(k)/float64(changes),
				float64(left)/float64(until.Sub(began)))
		}
		if !s.changeOnce(path) {
			clear(s.dirty)
			s.rejectMoves()
			continue
		}
		most := now - heat*math.Log(1-s.random.Float64())
		next := s.measure(most)
		if next > most {
			s.rejectMoves()
			continue
		}
		now = next
		longest := s.acceptMoves()
		path = s.criticalPath()
		if longest < least {
			least = longest
			copy(best, s.at)
		}
	}
	at := make(Placement, len(best))
	for k, v := range s.p.order {
		at[v] = s.nodes[best[k]]
	}
	return at, least
}

// criticalPath returns the operators of the slowest path.
func (s *annealing) criticalPath() (path []int) {
	last := s.ends[0]
	for _, v := range s.ends {
		if s.done[v] > s.done[last] {
			last = v
		}
	}
	for v := last; v >= 0; v = last {
		path = append(path, v)
		last = -1
		latest := 0.0
		for _, u := range s.before[v] {
			t := s.done[u] + s.far[s.at[u]*len(s.nodes)+s.at[v]]
			if last < 0 || t > latest {
				last, latest = u, t
			}
		}
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
	group := append(make([]int, 0, 8), v)
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
		if !s.mayRun(w, into) {
			return false
		}
	}
	for _, w := range group {
		s.moveOperator(w, into)
	}
	return s.makeRoom(into, group)
}

// makeRoom moves random operators away from a node until the others fit. It tries this a few times,
// and moves no operator of the group.
func (s *annealing) makeRoom(i int, group []int) bool {
	n := len(s.nodes)
	for range maxEjects {
		if s.free[i] >= 0 {
			return true
		}
		w := s.on[i][s.random.IntN(len(s.on[i]))]
		if slices.Contains(group, w) {
			continue
		}
		if to := s.randomTarget(w); to != i && s.free[to] >= s.load[w*n+to] && s.mayRun(w, to) {
			s.moveOperator(w, to)
		}
	}
	return s.free[i] >= 0
}

func (s *annealing) mayRun(v, i int) bool { return s.may[v*len(s.nodes)+i] }

// swapOperator exchanges an operator with a random operator of another node.
func (s *annealing) swapOperator(v, with int) bool {
	from := s.at[v]
	if from == with || len(s.on[with]) == 0 {
		return false
	}
	w := s.on[with][s.random.IntN(len(s.on[with]))]
	if !s.mayRun(v, with) || !s.mayRun(w, from) {
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
		if s.mayRun(v, k) {
			s.moveOperator(v, k)
		}
	}
	for _, v := range second {
		if s.mayRun(v, i) {
			s.moveOperator(v, i)
		}
	}
	return s.free[i] >= 0 && s.free[k] >= 0
}
