package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// PairRequest is the argument of AskPair.
type PairRequest struct {
	From string `json:"from"`
	Into string `json:"into"`
}

// PairAnswer contains the bound with which readings of one node can be translated into cycles of
// another, even if the two nodes were never measured with each other.
type PairAnswer struct {
	At   time.Time  `json:"at"` // when the answer's relations were copied from the server's data
	Pair PairStatus `json:"pair"`
	// Ago_ns is the approximate age of Pair.Reading_cycles at the time of the question: the counter
	// of the node From showed this reading Ago_ns earlier. It is 0 if the relations can translate
	// readings from the moment of the question.
	Ago_ns int64 `json:"ago_ns"`
	// NewestBound_ns is the bound (half of the interval's width) at the time of the newest train of
	// the node From. This train was reported NewestAge_ns before the question. Since then, the
	// bound has grown.
	NewestBound_ns float64 `json:"newest_bound_ns"`
	NewestAge_ns   int64   `json:"newest_age_ns"`
	Hops           []Hop   `json:"hops"` // the measured relations of the paths of Pair
	// Why is the reason why the two nodes of a large fleet are measured with each other. It is ""
	// if they are not.
	Why string `json:"why,omitempty"`
}

// Hop is one relation of a path.
type Hop struct {
	From     string  `json:"from"`
	Into     string  `json:"into"`
	Bound_ns float64 `json:"bound_ns"` // half-width at the newest train, without other nodes
	Age_ns   int64   `json:"age_ns"`   // time from the newest train to the question
	Verdict  string  `json:"verdict"`
	GivenUp  bool    `json:"given_up,omitempty"` // as in PairStatus
	Why      string  `json:"why,omitempty"`      // as in PairAnswer
}

// An answer about one pair rests on the last evaluation of the fleet. An evaluation is used for
// evaluateAfter times as long as it took. The next question after that makes the server evaluate
// the fleet again. So questions about pairs take at most a fixed part of the time of one core. An
// asker waits only for an evaluation that is overdue.
const (
	evaluateAfter = 20
	youngEnough   = time.Second
)

// pair answers AskPair.
func (q question) pair(r PairRequest) {
	c, m := q.c, q.c.evaluated.Load()
	if m == nil {
		c.matrix(func(m *Matrix) { q.pairOf(m, r) })
		return
	}
	after := m.renewAge()
	switch age := c.now().Sub(m.At); {
	case age > 2*after, age > youngEnough && m.lacksNode(r):
		c.matrix(func(m *Matrix) { q.pairOf(m, r) })
		return
	case age > after && !c.evaluating:
		c.matrix(func(*Matrix) {})
	}
	q.pairOf(m, r)
}

// renewAge returns the age that the matrix may reach. If the matrix is older, a question makes the
// server evaluate the fleet again.
func (m *Matrix) renewAge() time.Duration {
	return max(youngEnough, evaluateAfter*m.evaluationTime)
}

// lacksNode reports whether a matrix does not know one of the two nodes of a request, perhaps
// because the node joined later.
func (m *Matrix) lacksNode(r PairRequest) bool {
	for _, name := range []string{r.From, r.Into} {
		if _, ok := m.readings[name]; !ok {
			return true
		}
	}
	return false
}

// pairOf finds the answer on another goroutine, because the search for paths over third nodes takes
// time.
func (q question) pairOf(m *Matrix, r PairRequest) {
	var a PairAnswer
	q.c.background(func() (err error) {
		a, err = m.pair(r, q.c.now())
		return err
	}, func(err error) {
		if err != nil {
			q.refuse(control.NotFound, err)
			return
		}
		q.reply(a)
	})
}

// answerBeside answers a question about a pair without the core, because the core may be busy. This
// is possible only if the last evaluation of the fleet is young enough. Otherwise answerBeside
// returns false and does not answer. Any goroutine may call it.
func (s *Server) answerBeside(in control.Incoming) bool {
	ask, ok := in.Message.(*control.Ask)
	m := s.core.evaluated.Load()
	if !ok || ask.What != AskPair || m == nil {
		return false
	}
	var r PairRequest
	after, age := m.renewAge(), time.Since(m.At)
	if json.Unmarshal(ask.Argument, &r) != nil || age > 2*after || m.lacksNode(r) {
		return false
	}
	select {
	case s.answering <- struct{}{}:
	default:
		return false // too many at once: the question must wait in the core's queue
	}
	now := time.Now()
	s.answers.Go(func() {
		defer func() { <-s.answering }()
		q := question{s.core, in, ask} // this uses only what never changes in the core
		if a, err := m.pair(r, now); err != nil {
			q.refuse(control.NotFound, err)
		} else {
			q.reply(a)
		}
		if age > after && s.isRenewing.CompareAndSwap(false, true) {
			select {
			case s.queuedCalls <- func() {
				s.core.matrix(func(*Matrix) {
					s.isRenewing.Store(
						false)
				})
			}:
			case <-s.endedRun:
			}
		}
	})
	return true
}

// pair answers a question about two nodes. The parameter now is the time of the question. If it is
// zero, pair answers for the middle of the newest train of the node From.
func (m *Matrix) pair(r PairRequest, now time.Time) (a PairAnswer, err error) {
	for _, name := range []string{r.From, r.Into} {
		if m.node(name) == nil {
			return a, fmt.Errorf("node %q is not known: \"cprof nodes\" shows the nodes", name)
		}
	}
	if r.From == r.Into {
		return a, fmt.Errorf("pair %q with itself: name two nodes", r.From)
	}
	a.At, a.Why = m.At, m.why(r.From, r.Into)
	later := max(0, int64(now.Sub(m.At)))
	p := m.measuredPair(r.From, r.Into)
	if p != nil && !p.Old {
		a.Pair = *p
	}
	switch err := m.relate(&a, r, now); {
	case err != nil && p == nil:
		return a, fmt.Errorf("pair %q with %q: %w", r.From, r.Into, err)
	case err != nil: // it was true once
		a.Pair, a.Ago_ns = *p, p.Age_ns+later
		a.NewestBound_ns, a.NewestAge_ns = p.Bound_ns, a.Ago_ns
	}
	for _, path := range []tscratio.Path{a.Pair.LoPath, a.Pair.HiPath} {
		for i := 1; i < len(path); i++ {
			h := Hop{From: path[i-1], Into: path[i]}
			h.Why = m.why(h.From, h.Into)
			if p := m.measuredPair(h.From, h.Into); p != nil {
				h.Bound_ns, h.Verdict, h.GivenUp = p.Direct_ns, p.Verdict, p.GivenUp
				h.Age_ns = p.Age_ns + later
			}
			if !slices.Contains(a.Hops, h) {
				a.Hops = append(a.Hops, h)
			}
		}
	}
	return a, nil
}

// node returns a node, or nil if no node has that name.
func (m *Matrix) node(name string) *NodeStatus {
	i, ok := slices.BinarySearchFunc(m.Nodes, name,
		func(n NodeStatus, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		return nil
	}
	return &m.Nodes[i]
}

func (m *Matrix) why(a, b string) string { return m.reasons[[2]string{min(a, b), max(a, b)}] }

// measuredPair returns what is known of two nodes that were measured with each other, or nil.
func (m *Matrix) measuredPair(from, into string) *PairStatus {
	i, ok := slices.BinarySearchFunc(m.Pairs, PairStatus{From: from, Into: into}, comparePairs)
	if !ok {
		return nil
	}
	return &m.Pairs[i]
}

// relate relates two nodes at the time of the question, by all paths between them. If the relations
// do not cover that time, it relates the nodes at the newest train of the node From.
func (m *Matrix) relate(a *PairAnswer, r PairRequest, now time.Time) error {
	if m.closure == nil {
		return tscratio.ErrNoPath
	}
	hz := func(name string) float64 { return float64(m.node(name).Nominal_hz) }
	last := m.readings[r.From]
	age := max(0, now.Sub(last.at))
	newest, err := m.closure.Translate(r.From, r.Into, last.reading)
	if err == nil {
		a.NewestBound_ns = float64(newest.HalfWidth()) / hz(r.Into) * 1e9
		a.NewestAge_ns = int64(age)
	}
	reading := last.reading + uint64(age.Seconds()*hz(r.From))
	closed, errNow := m.closure.Translate(r.From, r.Into, reading)
	if errors.Is(errNow, tscratio.ErrBeyondLimit) && err == nil {
		reading, closed, errNow = last.reading, newest, nil
		a.Ago_ns = int64(age)
	}
	if errNow != nil {
		return errNow
	}
	p := &a.Pair
	if p.Verdict == "" || p.GivenUp {
		p.Verdict = closed.Verdict.String()
	}
	p.From, p.Into, p.Reading_cycles = r.From, r.Into, reading
	p.Lo_cycles, p.Hi_cycles = closed.Lo, closed.Hi
	p.LoPath, p.HiPath = closed.LoPath, closed.HiPath
	p.Bound_ns = float64(closed.HalfWidth()) / hz(r.Into) * 1e9
	return nil
}

// sampledPairs is the number of random pairs of a large fleet whose bounds a matrix lists.
const sampledPairs = 200

func (m *Matrix) sample() {
	var names []string
	for _, n := range m.Nodes {
		if _, ok := m.readings[n.Name]; ok && n.Alive {
			names = append(names, n.Name)
		}
	}
	if len(names) < 2 {
		return
	}
	for range sampledPairs {
		a, b := names[rand.IntN(len(names))], names[rand.IntN(len(names))]
		if p, err := m.pair(PairRequest{a, b}, time.Time{}); err == nil && p.Pair.Hi_cycles != 0 {
			m.SampledBounds_ns = append(m.SampledBounds_ns, p.Pair.Bound_ns)
		}
	}
	slices.Sort(m.SampledBounds_ns)
}

// RoundTrip says how long packets of a pair are on the network, in both directions together. The
// round trip of a train is that of its fastest exchange, without the time that the other node took
// to answer. Both values are upper limits. They are in nanoseconds, computed with the nominal rates
// of the counters.
type RoundTrip struct {
	Least_ns float64 `json:"least_ns"` // round trip of the fastest train
	Most_ns  float64 `json:"most_ns"`  // nine of ten trains have a smaller round trip
	Trains   int     `json:"trains"`   // number of trains that were counted: the newest ones
}

// roundTripOf returns the round trip of a pair, or nil if no exchange was complete.
func roundTripOf(p *tscratio.Pair) *RoundTrip {
	var all []float64
	for _, by := range []tscratio.Starter{tscratio.StartedByA, tscratio.StartedByB} {
		own, other := p.A, p.B
		if by == tscratio.StartedByB {
			own, other = other, own
		}
		for _, e := range p.Best(by) {
			waited := float64(e.RoundTrip_cycles()) / float64(own.Nominal_hz)
			answered := 0.0
			if e.Answered.Lo > e.Received.Hi {
				answered = float64(e.Answered.Lo-e.Received.Hi) / float64(other.Nominal_hz)
			}
			all = append(all, max(0, waited-answered)*1e9)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.Sort(all)
	return &RoundTrip{Least_ns: all[0], Most_ns: all[(len(all)-1)*9/10], Trains: len(all)}
}
