package placement

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// Answer is what Solve found.
type Answer struct {
	At  Placement
	End End

	// No placement has an end-to-end latency below Limit_ns, if everything takes as long as it can.
	Limit_ns float64

	// If Exact is true, no placement is better, and Limit_ns is the upper end of End.Latency.
	Exact bool

	// If Stopped is true, the time was over before Solve had tried everything.
	Stopped bool
}

// Gap returns how far the latency that was found is above the limit, divided by the limit.
func (a Answer) Gap() float64 {
	if a.Exact {
		return 0
	}
	return a.End.Latency.Hi_ns/a.Limit_ns - 1
}

// Effort limits the work of Solve. A greater effort takes longer, and may find a better placement
// or prove more.
type Effort struct {
	Changes int     // how many changes each search tries
	Rounds  int     // how often two searches run beside each other
	Gap     float64 // no further round follows if Answer.Gap is at most this
	Raises  int     // how often Solve tries to raise the limit
	Choices int     // how many choices of a node the proof looks at

	// Time is about how long Solve may take. Then it returns what it knows. If Solve ends earlier,
	// the same job has the same answer each time.
	Time time.Duration
}

// DefaultEffort returns an effort with which Solve takes less than 10 seconds for 200 operators on
// 1,000 nodes, and much less for small jobs.
func DefaultEffort() Effort {
	return Effort{Changes: 2_500_000, Rounds: 4, Gap: 0.02, Raises: 6, Choices: 40_000_000,
		Time: 9 * time.Second}
}

// Solve finds a placement whose end-to-end latency is as small as possible, if everything takes as
// long as it can. If the nodes have too few cores for the placements that Solve tries first, the
// error wraps ErrJob.
func (p *Problem) Solve(effort Effort) (Answer, error) {
	began := time.Now()
	until := began.Add(effort.Time)
	s := solution{p: p, l: newLimits(p, p.allows), latency: math.Inf(1)}
	for i, cores := range s.l.cores {
		if cores < 0 {
			return Answer{}, fmt.Errorf("the operators that may run only on node %q need %.3g "+
				"cores more than it has: %w", p.job.Nodes[i].Name, -cores, ErrJob)
		}
	}
	if err := s.begin(); err != nil {
		return Answer{}, err
	}
	s.search(0, effort.Changes/20, until)
	s.prove(effort.Choices/10, until)
	for k := range effort.Rounds {
		if s.latency <= s.limit*(1+effort.Gap) {
			break
		}
		left := time.Until(began.Add(effort.Time*2/3)) / time.Duration(effort.Rounds-k)
		s.search(1+uint64(k), effort.Changes, time.Now().Add(left))
	}
	s.prove(effort.Choices, until)
	s.raiseLimit(effort.Raises, until)
	a := Answer{At: s.at, End: p.End(s.at), Limit_ns: s.limit, Exact: s.exact}
	if a.Exact {
		a.Limit_ns = a.End.Latency.Hi_ns
	}
	a.Stopped = !a.Exact && time.Now().After(until)
	return a, nil
}

// solution is what Solve knows so far.
type solution struct {
	p       *Problem
	l       *lowerLimits // for the nodes with which a better placement is possible
	limit   float64      // no placement has a smaller latency
	starts  []Placement  // where searches begin
	at      Placement    // the best placement so far
	latency float64      // its latency
	exact   bool         // no placement is better
}

// begin finds first placements: one from the sources on, and one from the sinks on.
func (s *solution) begin() error {
	s.limit = s.l.leastLatency()
	first, err := s.p.placeGreedily(s.l, &s.l.before, &s.l.after)
	second, err2 := s.p.placeGreedily(s.l, &s.l.after, &s.l.before)
	if err != nil && err2 != nil {
		return err
	}
	for _, at := range []Placement{first, second} {
		if at != nil {
			s.starts = append(s.starts, at)
			s.keep(at, s.p.End(at).Latency.Hi_ns)
		}
	}
	return nil
}

// keep remembers a placement if it is the best so far.
func (s *solution) keep(at Placement, latency float64) {
	if latency < s.latency {
		s.at, s.latency = at, latency
	}
	s.exact = s.exact || s.latency <= roundedLimit(s.limit)
}

// search runs two searches beside each other.
func (s *solution) search(seed uint64, changes int, until time.Time) {
	if s.exact {
		return
	}
	var found [2]Placement
	var latency [2]float64
	var both sync.WaitGroup
	for k := range found {
		both.Go(func() {
			a := newSearch(s.p, s.l, s.starts[k%len(s.starts)], 2*seed+uint64(k))
			found[k], latency[k] = a.run(changes, roundedLimit(s.limit), until)
		})
	}
	both.Wait()
	for k, at := range found {
		s.keep(at, latency[k])
	}
}

// prove excludes nodes with which no better placement is possible, raises the limit, and tries to
// prove which placement is the best.
func (s *solution) prove(choices int, until time.Time) {
	if s.exact {
		return
	}
	nodes, ok := s.l.nodesBelow(s.latency)
	if !ok {
		s.exact = true
		return
	}
	s.l = newLimits(s.p, nodes)
	s.limit = max(s.limit, min(s.l.leastLatency(), s.latency))
	if s.limit == s.latency || s.l.isOverfull() {
		s.exact = true
		return
	}
	s.at, s.latency, s.exact = s.p.prove(s.l, s.at, s.latency, choices, until)
}

// raiseLimit finds a higher limit, if it can show that no placement has a latency below that limit.
// It tries this the given number of times, each time with the middle between the limit and a
// latency that is not known to be impossible.
func (s *solution) raiseLimit(times int, until time.Time) {
	possible := s.latency
	for range times {
		if s.exact || time.Now().After(until) {
			return
		}
		if goal := (s.limit + possible) / 2; s.p.isImpossible(s.l, goal, until) {
			s.limit = goal
		} else {
			possible = goal
		}
	}
}

// roundedLimit returns the largest latency that counts as equal to the limit. Sums are rounded, so
// the result is a little larger than the limit.
func roundedLimit(limit float64) float64 { return limit * (1 + 1e-9) }

// isImpossible reports whether the limits show that no placement is faster than goal. A node that
// is excluded for one operator often excludes nodes for other operators, so the limits are computed
// again as long as this excludes many.
func (p *Problem) isImpossible(l *lowerLimits, goal float64, until time.Time) bool {
	before := count(l.nodes)
	for time.Now().Before(until) {
		nodes, ok := l.nodesBelow(goal)
		if !ok {
			return true
		}
		left := count(nodes)
		if left*100 > before*98 {
			return false
		}
		before = left
		if l = newLimits(p, nodes); l.isOverfull() {
			return true
		}
	}
	return false
}

func count(nodes [][]int) (n int) {
	for _, on := range nodes {
		n += len(on)
	}
	return n
}
