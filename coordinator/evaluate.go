package coordinator

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// largeTrains is how many of a pair's newest trains are evaluated in a large fleet. More would cost
// much, and hardly narrow the bound in the middle of the newest train.
const largeTrains = 8

// largeExact is how many of a pair's newest trains have exact relations. For readings from the time
// of these trains, the relations of a large fleet are computed exactly. Nobody asks a server about
// earlier readings.
const largeExact = 2

// evaluation is what the server has computed for a pair: its relation and its bound.
type evaluation struct {
	version    uint64             // of the pair
	bToA, aToB *tscratio.Relation // readings of B to cycles of A; readings of A to cycles of B
	err        error
	roundTrip  *RoundTrip

	at           time.Time // when the trains were copied
	readA, readB uint64    // as in pair, at that time
	reportedAt   time.Time // the same
}

// maxEvaluators is the largest number of goroutines that evaluate pairs. More would leave too
// little of the machine to others.
const maxEvaluators = 4

// evaluatePairs evaluates pairs in the given number of goroutines. A loaded machine gives several
// threads more processor time than one thread.
func (s *fleetCopy) evaluatePairs(evaluators int) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range evaluators {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(s.pairs)); i = next.Add(1) - 1 {
				runtime.Gosched() // so that questions wait for the evaluation of one pair at most
				s.evaluatePair(&s.pairs[i])
				s.done.Add(1)
			}
		})
	}
	all.Wait()
}

func (s *fleetCopy) evaluatePair(k *pairCopy) {
	switch {
	case k.neverMeasured:
		k.lastEvaluation = &evaluation{}
	case k.liveCopy != nil:
		exact := k.liveCopy.Trains()
		if s.large {
			k.liveCopy.KeepNewest(largeTrains, maxLiveBytes)
			exact = largeExact
		}
		k.liveCopy.Prune() // a pruned pair gives the same answers much faster
		k.lastEvaluation = &evaluation{version: k.version, roundTrip: roundTripOf(k.liveCopy),
			at: s.matrix.At, readA: k.readA, readB: k.readB, reportedAt: k.reportedAt}
		both, err := relations(k.liveCopy, exact)
		if err == nil {
			k.lastEvaluation.bToA, k.lastEvaluation.aToB = both[0], both[1]
		}
		k.lastEvaluation.err, k.liveCopy = err, nil
	}
}

// In a large fleet, nearly every pair has a new train every few seconds. If each question about all
// nodes evaluated each of these pairs, the answer would take seconds on a busy machine. So the
// server evaluates pairs in turns, before anybody asks. A question uses the last evaluation of a
// pair again, unless it is too old. Such a bound is true, and is shown with the age of its train.
const (
	reusedFor = 30 * time.Second // how old an evaluation may be

	// There is a turn in each heartbeat. A round of all pairs takes turnsInRound turns, or more if
	// a turn would then evaluate more than pairsInTurn pairs.
	turnsInRound = 20
	pairsInTurn  = 500

	// In a fleet of more pairs, there are no turns: most evaluations would be too old by the end of
	// their round.
	maxInTurns = pairsInTurn * int(reusedFor/time.Second)
)

// mayReuse reports whether an answer may use the last evaluation of a pair.
func (c *core) mayReuse(p *pair, large bool) bool {
	e := p.lastEvaluation
	switch {
	case e == nil || e.version < p.validSince:
		return false
	case e.version == p.version:
		return true
	}
	return large && c.inTurns && e.err == nil && c.now().Sub(e.at) < reusedFor
}

// voidEvaluations is called if earlier evaluations of a pair may be false, because constraints were
// false, or because a counter is described as coarser than before.
func (c *core) voidEvaluations(p *pair) {
	p.version++
	p.validSince = p.version
	c.voided++
	c.evaluated.Store(nil)
}

// keepEvaluations keeps the evaluations of pairs for later answers.
func (c *core) keepEvaluations(s *fleetCopy) {
	for i := range s.pairs {
		e, p := s.pairs[i].lastEvaluation, c.pairs[s.pairs[i].key]
		if p != nil && (p.lastEvaluation == nil || !e.at.Before(p.lastEvaluation.at)) {
			p.lastEvaluation = e
		}
	}
}

// stepTurn evaluates the pairs whose turn it is.
func (c *core) stepTurn() {
	now := c.now()
	if !c.inTurns || now.Sub(c.turnAt) < c.config.Heartbeat || !c.isLarge() {
		return
	}
	c.turnAt = now
	if c.turnRuns || c.evaluating || len(c.current) > maxInTurns {
		return
	}
	if len(c.turns) == 0 {
		for _, names := range sortedPairs(c.current) {
			c.turns = append(c.turns, c.current[names])
		}
	}
	s := &fleetCopy{large: true, done: new(atomic.Int64)}
	s.matrix.At = now
	n := min(len(c.current)/turnsInRound+1, pairsInTurn)
	for ; len(c.turns) > 0 && len(s.pairs) < n; c.turns = c.turns[1:] {
		p := c.pairs[c.turns[0]]
		if p != nil && (p.lastEvaluation == nil || p.lastEvaluation.version != p.version) {
			k := pairCopy{pair: *p, liveCopy: p.liveTrains.Since(0)}
			k.liveTrains, k.unsavedTrains = nil, nil
			s.pairs = append(s.pairs, k)
		}
	}
	if len(s.pairs) == 0 {
		return
	}
	c.turnRuns = true
	c.background(func() error { s.evaluatePairs(1); return nil }, func(error) {
		c.keepEvaluations(s)
		c.turnRuns = false
	})
}

// relations computes the relations of a pair in both directions, for readings since the beginning
// of its newest trains. The parameter newest is the number of these trains.
func relations(p *tscratio.Pair, newest int) (both []*tscratio.Relation, err error) {
	for _, side := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
		r, err := p.RelateNewest(side, p.Declared.Wander, newest)
		if err != nil {
			return nil, err
		}
		both = append(both, r)
	}
	return both, nil
}

// whyNot describes, in a few words for a table, why a pair could not be evaluated.
func whyNot(err error) string {
	switch {
	case errors.Is(err, tscratio.ErrTooFew):
		return "too few trains"
	case errors.Is(err, tscratio.ErrWanderAboveMax):
		return fmt.Sprintf("refuted: %v", err)
	}
	return err.Error()
}
