package tscclient

import (
	"cmp"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// peerPairs contains what trains proved: a tscratio.Pair for each peer and each epoch. Only one
// goroutine may use it at a time.
type peerPairs struct {
	max         int
	assumptions tscratio.Assumptions
	known       map[pairKey]*knownPair
	added       uint64 // number of all trains ever added
	forgotten   uint64
}

// pairKey includes the epochs because readings of different epochs cannot be compared.
type pairKey struct{ epoch, peer, peerEpoch string }

// knownPair is one pair. The field pair has all kept trains, and recent has only the newest ones.
// The bound that the scheduler uses is computed from recent.
type knownPair struct {
	pair   *tscratio.Pair
	added  uint64 // what pairs.added was after this pair's newest train
	fresh  int    // number of trains since pair was last pruned
	recent *tscratio.Pair
	shared sharedClock
	turns  int // number of trains since the bound was last computed

	halfWidth time.Duration
	judged    bool
}

const (
	// pruneEvery is the number of new trains after which a pair is pruned again. A smaller number
	// would cost more time, because each pruning examines all trains of the pair.
	pruneEvery = 256

	// recentTrains is the least number of trains in knownPair.recent, if the pair has that many.
	// The field recent always has fewer than 2*recentTrains trains.
	recentTrains = 24

	// judgeEvery is the number of trains between two computations of the bound, because a
	// computation takes as much processor time as several trains. A new pair's bound is computed
	// after each of its first judgeEvery trains.
	judgeEvery = 16
)

func newPairs(most int, assumptions tscratio.Assumptions) peerPairs {
	return peerPairs{max: most, assumptions: assumptions, known: map[pairKey]*knownPair{}}
}

// addTrain adds a train that this node (own) ran with a peer. If the pair, with this train,
// contradicts its assumptions, addTrain returns how. If not, it returns nil. If two counters that
// only run forward cannot show the train's stamps, the error wraps tscratio.ErrImpossible.
func (p *peerPairs) addTrain(own, peer tscratio.Node, t minrtt.Train) (*tscratio.Contradiction,
	error) {
	c, _, err := p.addShared(own, peer, &t)
	return c, err
}

// addShared adds a train like addTrain, and returns one more result: lie. A meeting is a moment
// that both nodes saw on a shared clock. If the train's meetings contradict the packets, the result
// lie says how, and addShared forgets the pair's older trains. addShared removes unused meetings
// from the train.
func (p *peerPairs) addShared(own, peer tscratio.Node, t *minrtt.Train) (
	c *tscratio.Contradiction, lie string, err error,
) {
	key := pairKey{own.Epoch, peer.Name, peer.Epoch}
	k := p.known[key]
	if k != nil { // either node may have restarted, and measured its counter again
		for _, n := range []tscratio.Node{own, peer} {
			k.pair.Describe(n)
			k.recent.Describe(n)
			if k.shared.packets != nil {
				k.shared.packets.Describe(n)
			}
		}
	} else {
		pair, err := tscratio.NewPair(own, peer, p.assumptions)
		if err != nil {
			return nil, "", err
		}
		recent, _ := tscratio.NewPair(own, peer, p.assumptions)
		k = &knownPair{pair: pair, recent: recent}
	}
	train := packetConstraints(*t)
	if len(train.Exchanges)+len(train.OneWay) == 0 {
		return nil, "", nil
	}
	if t.Meetings, lie = k.checkMeetings(*t, train); lie != "" {
		k = k.withoutSharedClock()
	}
	train = provenConstraints(*t)
	if err := k.pair.Add(train); err != nil {
		return nil, lie, err
	}
	_ = k.recent.Add(train) // adding to k.pair succeeded, so this succeeds
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
	return k.pair.Check(), lie, nil
}

// provenConstraints returns the constraints that a train proved, those of meetings included.
func provenConstraints(t minrtt.Train) tscratio.Train {
	train := packetConstraints(t)
	train.OneWay = append(train.OneWay, meetingConstraints(t.Meetings)...)
	train.Stamps.Shared = uint32(len(t.Meetings))
	return train
}

// packetConstraints returns the constraints that the packets of a train proved.
func packetConstraints(t minrtt.Train) tscratio.Train {
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

// forgetRecent drops the older half of recent once it has 2*recentTrains trains.
func (k *knownPair) forgetRecent() { k.recent = newestTrains(k.recent) }

// newestTrains returns a pair with the newer half of the trains. If a pair has fewer than
// 2*recentTrains trains, newestTrains returns the pair itself.
func newestTrains(p *tscratio.Pair) *tscratio.Pair {
	if p.Trains() < 2*recentTrains {
		return p
	}
	_, newest := p.Split(trainStart(p, recentTrains))
	return newest
}

// trainStart returns a reading of the counter of node B just before the train with the given
// number. The first train of the pair has the number 0.
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

// halfWidth returns the median bound of a pair over its newest trains. The second result says
// whether the pair has a bound.
func (p *peerPairs) halfWidth(epoch string, peer tscratio.Node) (time.Duration, bool) {
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

// medianBound returns the median bound of a pair's relation, converted to time at the nominal rate.
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
	return time.Duration(half_cycles / float64(r.Into.Nominal_hz) * 1e9), true
}

func (p *peerPairs) trains() (n int) {
	for _, k := range p.known {
		n += k.pair.Trains()
	}
	return n
}

// makeRoom drops trains until at most max are kept. It first drops whole pairs that got no train
// for long, and then the oldest trains of the pair with the most trains.
func (p *peerPairs) makeRoom() {
	for n := p.trains(); n > p.max; n = p.trains() {
		var largest, stalest *knownPair
		var stale pairKey
		for key, k := range p.known {
			if largest == nil || k.pair.Trains() > largest.pair.Trains() {
				largest = k
			}
			if stalest == nil || k.added < stalest.added {
				stalest, stale = k, key
			}
		}
		// If none of the last max/2 trains belongs to the pair, then its epoch ended or its peer
		// left.
		if p.added-stalest.added > uint64(p.max)/2 {
			p.forgotten += uint64(stalest.pair.Trains())
			delete(p.known, stale)
			continue
		}
		before := largest.pair.Trains()
		_, rest := largest.pair.Split(trainStart(largest.pair, max(1, before/4)))
		if rest.Trains() == before { // no part is earlier: the pair's counters ran backwards
			rest, _ = tscratio.NewPair(rest.A, rest.B, rest.Declared)
		}
		largest.pair = rest
		p.forgotten += uint64(before - rest.Trains())
	}
}

func (p *peerPairs) count() (pairs, trains int, forgotten uint64) {
	return len(p.known), p.trains(), p.forgotten
}

// copyPairs returns copies of the pairs. Trains that are added later do not change the copies.
func (p *peerPairs) copyPairs() []*tscratio.Pair {
	all := make([]*knownPair, 0, len(p.known))
	for _, k := range p.known {
		all = append(all, k)
	}
	slices.SortFunc(all, func(x, y *knownPair) int {
		return cmp.Or(cmp.Compare(x.pair.B.Name, y.pair.B.Name),
			cmp.Compare(x.added, y.added))
	})
	copies := make([]*tscratio.Pair, len(all))
	for i, k := range all {
		copies[i] = copyOfPair(k.pair)
	}
	return copies
}
