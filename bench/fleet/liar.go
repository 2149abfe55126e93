package fleet

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// lieManner is the way in which a liar's stamps are false. Every liar also shortens the time that
// packets were on their way. So relations with the liar seem narrow, and paths through it seem
// good.
type lieManner uint8

const (
	toEach       lieManner = iota // each peer hears of another false counter
	twoFaces                      // half of the peers hear of one counter, the others of another
	driftingLies                  // each peer hears of a counter that is too fast or too slow
	erraticLies                   // each stamp is wrong by another amount
	equalLies                     // all peers hear of one false counter: only the liar is harmed
	manners
)

// nodeLies describes the lies of a node. The sizes of lies differ by several powers of ten: large
// lies contradict what other nodes report, and small lies harm nobody, so lies of every size must
// be tried.
type nodeLies struct {
	manner  lieManner
	off     float64       // how far the counter is moved, in cycles
	shorter time.Duration // how much faster a packet seems than it was
	seed    uint64
}

// newLiar returns random lies. They shorten the time of a packet by less than leastDelay, because
// packets must not seem to arrive before they were sent: if they did, the liar's relations would be
// refused. The largest offset is a millisecond: larger ones are noticed in the same way.
func newLiar(r *rand.Rand) *nodeLies {
	const smallest, decades = 0.5e-6 * physical_hz, 3.3
	return &nodeLies{manner: lieManner(r.IntN(int(manners))),
		off:     smallest * math.Pow(10, decades*r.Float64()),
		shorter: time.Duration(r.Int64N(int64(leastDelay))), seed: r.Uint64()}
}

// falsify returns a stamp as the liar reports it to a peer. If the argument named leaves is true,
// the liar sends the packet. Otherwise the liar receives it. The argument named since is the time
// since the measurements began.
func (l *nodeLies) falsify(stamp uint64, peer int, leaves bool, since time.Duration,
	random *rand.Rand) uint64 {
	r := rand.New(rand.NewPCG(l.seed, uint64(peer)))
	off := l.off
	switch l.manner {
	case toEach:
		off *= 2*r.Float64() - 1
	case twoFaces:
		off *= float64(2*r.IntN(2) - 1)
	case driftingLies: // at most 20 ppm, so that each peer hears something plausible
		off = (2*r.Float64() - 1) * 20e-6 * physical_hz * since.Seconds()
	case erraticLies:
		off *= 2*random.Float64() - 1
	}
	shorter := int64(l.shorter.Seconds() * physical_hz)
	if !leaves {
		shorter = -shorter
	}
	return stamp + uint64(int64(off)+shorter)
}

// The method report returns the stamp that a node reports for a packet that it exchanges with a
// peer.
func (n *node) report(at time.Duration, peer *node, leaves bool) tscratio.Interval {
	v := n.counter.Virtual(physical(at))
	if n.lies != nil {
		v = n.lies.falsify(v, peer.index, leaves, at-n.w.from, n.w.r)
	}
	return tscratio.At(v)
}
