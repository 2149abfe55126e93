package analysis

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// found is what a gatherer found. The results of several gatherers are merged.
type found struct {
	tuples  uint64
	spans   map[spanKey]*span
	points  []pointFound      // by rank
	masks   map[uint64]uint64 // how many tuples passed each set of ranks
	slowest []slow
	least   int64  // a shorter tuple is not among the slowest
	blind   uint64 // tuples that pass points whose order is not known
	apart   uint64 // a pair of such points, as in plan
	backs   []backwards

	overused uint64 // ids that occur too often to identify tuples
}

type pointFound struct {
	tuples, duplicates, appeared, lost uint64
	// by node: the last reading of a tuple that reached a later point
	newest []uint64
	ended  [][]uint64 // by node: readings of tuples that ended after it
	// by bin of the time axis: tuples that nothing followed
	endedBins []uint64

	again  uint64   // ids that begin here more than once, on one node
	shared uint64   // ids that begin here on more than one node
	nodes  [2]int32 // of the shared ids, the first two nodes of one
}

// beginsAgain counts an id that begins n tuples here, on the given nodes.
func (f *pointFound) beginsAgain(nodes []int32, n int) {
	switch {
	case len(nodes) > 1:
		slices.Sort(nodes)
		f.share(1, [2]int32(nodes))
	case n > 1:
		f.again++
	}
}

// share counts ids that begin on several nodes. The least pair is kept, whoever found it.
func (f *pointFound) share(n uint64, nodes [2]int32) {
	if n > 0 && (f.shared == 0 || slices.Compare(nodes[:], f.nodes[:]) < 0) {
		f.nodes = nodes
	}
	f.shared += n
}

// endedIn counts tuples that ended in a bin.
func (f *pointFound) endedIn(bin int, n uint64) {
	for len(f.endedBins) <= bin {
		f.endedBins = append(f.endedBins, 0)
	}
	f.endedBins[bin] += n
}

// filters reports whether a point seems to drop tuples on purpose. The data cannot prove it: at
// least one in twenty ends there, and at every time about the same share. Losses come and go, and
// are seldom that many. passed are the point's tuples by bin.
func (f *pointFound) filters(passed []uint64) bool {
	const leastShare, fewest, leastBins = 0.05, 100, 3
	var all, ended uint64
	for bin, n := range passed {
		all += n
		if bin < len(f.endedBins) {
			ended += f.endedBins[bin]
		}
	}
	share, judged := float64(ended)/float64(max(all, 1)), 0
	if share < leastShare {
		return false
	}
	for bin, n := range passed {
		if n < fewest {
			continue
		}
		judged++
		var here float64
		if bin < len(f.endedBins) {
			here = float64(f.endedBins[bin]) / float64(n)
		}
		if here < share/2 || here > 2*share {
			return false
		}
	}
	return judged >= leastBins
}

// slow is a tuple that took long.
type slow struct {
	total tscratio.Elapsed
	id    uint64
	path  []passage
}

// backwards is a pair of events that was received before it was sent.
type backwards struct {
	id      uint64
	span    spanKey
	a, b    int // nodes
	elapsed tscratio.Elapsed
}

const maxBackwards = 5

// backwards keeps the pairs with the lowest ids. So the pairs that are named do not depend on which
// worker found them first.
func (f *found) backwards(b backwards) {
	if len(f.backs) == maxBackwards && b.id > f.backs[maxBackwards-1].id {
		return
	}
	f.backs = append(f.backs, b)
	slices.SortFunc(f.backs, func(a, b backwards) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.span.from, b.span.from),
			cmp.Compare(a.span.to, b.span.to), cmp.Compare(a.span.kind, b.span.kind),
			cmp.Compare(a.elapsed.Lo, b.elapsed.Lo))
	})
	f.backs = f.backs[:min(len(f.backs), maxBackwards)]
}

// slow keeps a tuple if it is among the slowest.
func (f *found) slow(total tscratio.Elapsed, id uint64, path []passage, most int) {
	if len(f.slowest) < most || total.Lo >= f.least {
		f.keep(slow{total, id, slices.Clone(path)}, most)
	}
}

// settle counts an ended tuple as lost if a later tuple of the same node reached a later point.
func (f *pointFound) settle(node int) {
	kept := f.ended[node][:0]
	for _, reading := range f.ended[node] {
		if reading < f.newest[node] {
			f.lost++
		} else {
			kept = append(kept, reading)
		}
	}
	f.ended[node] = kept
}

// inFlight is the number of ended tuples that are not lost. settle must have been called for each
// node.
func (f *pointFound) inFlight() uint64 {
	var n uint64
	for _, readings := range f.ended {
		n += uint64(len(readings))
	}
	return n
}

// keep puts a tuple among the slowest.
func (f *found) keep(s slow, most int) {
	f.slowest = append(f.slowest, s)
	slices.SortFunc(f.slowest, func(a, b slow) int {
		return cmp.Or(-cmp.Compare(a.total.Lo, b.total.Lo), cmp.Compare(a.id, b.id),
			cmp.Compare(a.path[0].reading, b.path[0].reading))
	})
	f.slowest = f.slowest[:min(len(f.slowest), most)]
	f.least = f.slowest[len(f.slowest)-1].total.Lo
}

// merge adds what another gatherer found. Both must be settled.
func (f *found) merge(o *found, slowest int) {
	f.tuples += o.tuples
	f.blind += o.blind
	for mask, n := range o.masks {
		f.masks[mask] += n
	}
	f.apart = max(f.apart, o.apart)
	f.overused += o.overused
	for k, l := range o.spans {
		if mine := f.spans[k]; mine != nil {
			mine.merge(l)
		} else {
			f.spans[k] = l
		}
	}
	for i := range f.points {
		a, b := &f.points[i], &o.points[i]
		a.tuples += b.tuples
		a.duplicates += b.duplicates
		a.appeared += b.appeared
		a.lost += b.lost
		a.again += b.again
		a.share(b.shared, b.nodes)
		for bin, n := range b.endedBins {
			a.endedIn(bin, n)
		}
		for n := range a.newest {
			a.newest[n] = max(a.newest[n], b.newest[n])
			a.ended[n] = append(a.ended[n], b.ended[n]...)
		}
	}
	for _, s := range o.slowest {
		f.keep(s, slowest)
	}
	for _, b := range o.backs {
		f.backwards(b)
	}
}
