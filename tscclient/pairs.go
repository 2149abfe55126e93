package tscclient

import (
	"cmp"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// pairs is what is known with each peer. Not safe for concurrent use.
type pairs struct {
	max         int
	assumptions tscratio.Assumptions
	known       map[pairKey]*known
	added       uint64 // trains, ever
	forgotten   uint64
}

// pairKey: a reading of another epoch has nothing to do with those of this one.
type pairKey struct{ epoch, peer, peerEpoch string }

// known is one pair, and the newest part of it apart, by which its bound is judged.
type known struct {
	pair   *tscratio.Pair
	added  uint64 // when the newest train came, in trains of all pairs
	fresh  int    // trains since the last pruning
	recent *tscratio.Pair
	turns  int // trains since the width was worked out

	halfWidth time.Duration
	judged    bool
}

const (
	// pruneEvery is how many trains come between two prunings: each looks at all trains of the pair.
	pruneEvery = 256

	// recentTrains is how many trains a bound is judged by at least, and half of how many at most.
	recentTrains = 24

	// judgeEvery is how many trains come between two judgements, which cost as much as some trains. The first few are all judged.
	judgeEvery = 16
)

func newPairs(most int, assumptions tscratio.Assumptions) pairs {
	return pairs{max: most, assumptions: assumptions, known: map[pairKey]*known{}}
}

// add keeps a train that own ran with peer, and returns what the pair now has against its assumptions. An error wraps
// tscratio.ErrImpossible.
func (p *pairs) add(own, peer tscratio.Node, t minrtt.Train) (*tscratio.Contradiction, error) {
	key := pairKey{own.Epoch, peer.Name, peer.Epoch}
	k := p.known[key]
	if k != nil { // a node that was started again has measured itself anew
		for _, n := range []tscratio.Node{own, peer} {
			k.pair.Describe(n)
			k.recent.Describe(n)
		}
	} else {
		pair, err := tscratio.NewPair(own, peer, p.assumptions)
		if err != nil {
			return nil, err
		}
		recent, _ := tscratio.NewPair(own, peer, p.assumptions)
		k = &known{pair: pair, recent: recent}
	}
	train := constraints(t)
	if len(train.Exchanges)+len(train.OneWay) == 0 {
		return nil, nil
	}
	if err := k.pair.Add(train); err != nil {
		return nil, err
	}
	_ = k.recent.Add(train) // as the other
	p.known[key] = k
	p.added++
	k.added = p.added
	k.turns++
	if k.fresh++; k.fresh >= pruneEvery {
		k.pair.Prune()
		k.fresh = 0
	}
	k.forgetRecent()
	p.makeRoom()
	return k.pair.Check(), nil
}

// constraints is what a train proved.
func constraints(t minrtt.Train) tscratio.Train {
	kernel, user := kernelStamps(t)
	train := tscratio.Train{
		By: tscratio.StartedByA, Exchanges: t.Best(),
		Stamps: tscratio.Stamps{Kernel: uint32(kernel), User: uint32(user)},
	}
	for _, a := range t.Arrivals {
		train.OneWay = append(train.OneWay, a.Constraint(tscratio.StartedByA))
	}
	return train
}

// forgetRecent halves the recent part once it is twice as long as is looked at.
func (k *known) forgetRecent() {
	if k.recent.Trains() < 2*recentTrains {
		return
	}
	_, k.recent = k.recent.Split(trainStart(k.recent, recentTrains))
}

// trainStart returns the first reading of B in the train of that number, less one.
func trainStart(pair *tscratio.Pair, number int) uint64 {
	n := 0
	for t := range pair.Kept() {
		if n == number {
			return t.B.Lo - min(t.B.Lo, 1)
		}
		n++
	}
	return 0
}

// halfWidth is the median bound of a pair over its newest trains, and whether there is one.
func (p *pairs) halfWidth(epoch string, peer tscratio.Node) (time.Duration, bool) {
	k := p.known[pairKey{epoch, peer.Name, peer.Epoch}]
	if k == nil {
		return 0, false
	}
	if k.turns < judgeEvery && k.recent.Trains() > judgeEvery {
		return k.halfWidth, k.judged
	}
	k.turns = 0
	k.halfWidth, k.judged = medianBound(k.recent)
	return k.halfWidth, k.judged
}

// medianBound is the median half-width of a pair's relation, in nanoseconds by the nominal rate.
func medianBound(pair *tscratio.Pair) (time.Duration, bool) {
	r, err := pair.Relate(tscratio.SideA, pair.Declared.Wander)
	if err != nil {
		return 0, false
	}
	var widths []uint64
	for _, knot := range r.Knots() {
		widths = append(widths, knot.Count.Width())
	}
	slices.Sort(widths)
	half_cycles := float64(widths[len(widths)/2]) / 2
	return time.Duration(half_cycles / float64(r.Into.NominalHz) * 1e9), true
}

func (p *pairs) trains() (n int) {
	for _, k := range p.known {
		n += k.pair.Trains()
	}
	return n
}

// makeRoom forgets the oldest trains of the largest pair, and pairs of which nothing came for longest, until no more is kept than
// may be.
func (p *pairs) makeRoom() {
	for n := p.trains(); n > p.max; n = p.trains() {
		var largest, stalest *known
		var stale pairKey
		for key, k := range p.known {
			if largest == nil || k.pair.Trains() > largest.pair.Trains() {
				largest = k
			}
			if stalest == nil || k.added < stalest.added {
				stalest, stale = k, key
			}
		}
		// Pairs of ended epochs, and of peers that left, go first.
		if p.added-stalest.added > uint64(p.max)/2 {
			p.forgotten += uint64(stalest.pair.Trains())
			delete(p.known, stale)
			continue
		}
		before := largest.pair.Trains()
		_, rest := largest.pair.Split(trainStart(largest.pair, max(1, before/4)))
		if rest.Trains() == before { // its counters ran backwards: nothing of it is of use
			rest, _ = tscratio.NewPair(rest.A, rest.B, rest.Declared)
		}
		largest.pair = rest
		p.forgotten += uint64(before - rest.Trains())
	}
}

func (p *pairs) count() (pairs, trains int, forgotten uint64) {
	return len(p.known), p.trains(), p.forgotten
}

// copies returns the pairs, which change no more.
func (p *pairs) copies() []*tscratio.Pair {
	all := make([]*known, 0, len(p.known))
	for _, k := range p.known {
		all = append(all, k)
	}
	slices.SortFunc(all, func(x, y *known) int {
		return cmp.Or(cmp.Compare(x.pair.B.Name, y.pair.B.Name), cmp.Compare(x.added, y.added))
	})
	copies := make([]*tscratio.Pair, len(all))
	for i, k := range all {
		copies[i], _ = tscratio.NewPair(k.pair.A, k.pair.B, k.pair.Declared) // as that was
		_ = copies[i].Merge(k.pair)
	}
	return copies
}
