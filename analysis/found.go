package analysis

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// gatherResult is what a gatherer found. The results of several gatherers are merged.
type gatherResult struct {
	tuples          uint64
	spans           map[spanKey]*span
	points          []pointFound             // by rank
	masks           map[uint64]uint64        // how many tuples passed each set of ranks
	slowest         [maxPoints]slowestTuples // by the rank where tuples begin
	blindTuples     uint64                   // tuples that pass two points whose order is not known
	unorderedPoints uint64                   // two such points, as in plan
	backs           []backwardsPair

	// A child is an id that was made of other ids, as a link says. childless counts the children
	// without an event in any log, and bornIDs counts the other children.
	childless, bornIDs uint64

	overused uint64 // ids that occur too often to identify a tuple
}

type pointFound struct {
	tuples, duplicates, appeared, lost uint64
	// by node: the last reading of a tuple that reached a later point
	newest []uint64
	ended  [][]uint64 // by node: readings at which tuples ended; settle removes those before newest
	// by bin of the time axis: tuples that ended here, and those of them that are in flight
	endedBins, flyingBins []uint64

	madeOfOthers uint64 // tuples that passed the point and were made of others
	unfinished   uint64 // tuples counted in made that ended inside an actor

	// guessedEnds counts tuples that may have ended here. Whether they did is not known, because
	// other tuples have the same ids. Some of these tuples are counted as ended in the fields
	// above. perhapsEnds counts the others.
	guessedEnds, perhapsEnds uint64
	// spilled sums up the end-to-end times of tuples that begin here and whose events are in doubt.
	spilled criticalSums

	beginAgain uint64    // ids that begin here more than once, each in one log
	shared     sharedIDs // ids that begin here on several nodes
	mixed      sharedIDs // ids that begin here in several logs of one node
}

// sharedIDs counts ids that begin in two logs. It names one pair of such logs: the one with the
// smallest numbers, so that the pair does not depend on the order of work.
type sharedIDs struct {
	n    uint64
	logs [2]int32
}

func (s *sharedIDs) add(n uint64, logs [2]int32) {
	if n > 0 && (s.n == 0 || slices.Compare(logs[:], s.logs[:]) < 0) {
		s.logs = logs
	}
	s.n += n
}

// beginLogs has some of the logs in which tuples with one id begin. The field onNodes has one log
// on each of up to two nodes. The field onNode has up to two logs of one node.
type beginLogs struct {
	onNodes, onNode []int32
	room            [4]int32
}

// add adds the log in which a tuple begins. If a channel was opened again after its log had ended,
// its two logs count as one.
func (b *beginLogs) add(in *input, log int32) {
	if b.onNodes == nil {
		b.onNodes, b.onNode = append(b.room[:0:2], log), append(b.room[2:2], log)
		return
	}
	first, s := &in.sources[b.onNodes[0]], &in.sources[log]
	switch {
	case len(b.onNodes) == 1 && s.node != first.node:
		b.onNodes = append(b.onNodes, log)
	case len(b.onNode) == 1 && s.node == first.node && log != b.onNode[0] &&
		(s.name != first.name || s.lo <= first.hi && first.lo <= s.hi):
		b.onNode = append(b.onNode, log)
	}
}

// beginsAgain counts an id that begins several times here.
func (f *pointFound) beginsAgain(b *beginLogs, n int) {
	for _, logs := range [][]int32{b.onNodes, b.onNode} {
		slices.Sort(logs)
	}
	switch {
	case len(b.onNodes) > 1:
		f.shared.add(1, [2]int32(b.onNodes))
	case len(b.onNode) > 1:
		f.mixed.add(1, [2]int32(b.onNode))
	case n > 1:
		f.beginAgain++
	}
}

// endedIn counts tuples that ended in a bin.
func (f *pointFound) endedIn(bin int, n uint64) { addTo(&f.endedBins, bin, n) }

func addTo(bins *[]uint64, bin int, n uint64) {
	for len(*bins) <= bin {
		*bins = append(*bins, 0)
	}
	(*bins)[bin] += n
}

// slowestTuples contains the slowest of the tuples that were measured, the slowest one first.
type slowestTuples struct {
	kept  []slowTuple
	least int64 // a shorter tuple is not among them
}

// slowTuple is a tuple that took long.
type slowTuple struct {
	total tscratio.Elapsed
	id    uint64
	path  []passage
}

// backwardsPair is two events of a tuple that was received before it was sent.
type backwardsPair struct {
	id      uint64
	span    spanKey
	a, b    int // indices of the nodes
	elapsed tscratio.Elapsed
}

const maxBackwards = 5

// noteBackwards notes a pair of events if its id is among the lowest so far. So the answer
// names the same pairs, whichever worker found them first.
func (f *gatherResult) noteBackwards(b backwardsPair) {
	if len(f.backs) == maxBackwards && b.id > f.backs[maxBackwards-1].id {
		return
	}
	f.backs = append(f.backs, b)
	slices.SortFunc(f.backs, func(a, b backwardsPair) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.span.from, b.span.from),
			cmp.Compare(a.span.to, b.span.to), cmp.Compare(a.span.kind, b.span.kind),
			cmp.Compare(a.elapsed.Lo, b.elapsed.Lo))
	})
	f.backs = f.backs[:min(len(f.backs), maxBackwards)]
}

// amongSlowest reports whether a tuple with the given low end of its duration is among the slowest.
func (f *slowestTuples) amongSlowest(lo int64, most int) bool {
	return len(f.kept) < most || lo >= f.least
}

// keepSlow keeps a tuple if it is among the slowest.
func (f *slowestTuples) keepSlow(total tscratio.Elapsed, id uint64, path []passage, most int) {
	if f.amongSlowest(total.Lo, most) {
		f.keepTuple(slowTuple{total, id, slices.Clone(path)}, most)
	}
}

// The method settle counts an ended tuple as lost if a later tuple of the same node reached a later
// point.
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

// noteInFlight notes the bins of tuples that are in flight. settle must have been called for each
// node.
func (f *pointFound) noteInFlight(axes []axis) {
	for node, readings := range f.ended {
		for _, reading := range readings {
			if bin, on := axes[node].bin(reading); on {
				addTo(&f.flyingBins, bin, 1)
			}
		}
	}
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

// keepTuple puts a tuple among the slowest.
func (f *slowestTuples) keepTuple(s slowTuple, most int) {
	f.kept = append(f.kept, s)
	slices.SortFunc(f.kept, func(a, b slowTuple) int {
		return cmp.Or(-cmp.Compare(a.total.Lo, b.total.Lo), cmp.Compare(a.id, b.id),
			cmp.Compare(a.path[0].reading, b.path[0].reading))
	})
	f.kept = f.kept[:min(len(f.kept), most)]
	f.least = f.kept[len(f.kept)-1].total.Lo
}

// merge adds what another gatherer found. settle must have been called for both.
func (f *gatherResult) merge(o *gatherResult, slowest int) {
	f.tuples += o.tuples
	f.blindTuples += o.blindTuples
	for mask, n := range o.masks {
		f.masks[mask] += n
	}
	f.unorderedPoints = max(f.unorderedPoints, o.unorderedPoints)
	f.overused += o.overused
	f.childless += o.childless
	f.bornIDs += o.bornIDs
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
		a.beginAgain += b.beginAgain
		a.guessedEnds += b.guessedEnds
		a.perhapsEnds += b.perhapsEnds
		a.spilled.merge(&b.spilled)
		a.madeOfOthers += b.madeOfOthers
		a.unfinished += b.unfinished
		a.shared.add(b.shared.n, b.shared.logs)
		a.mixed.add(b.mixed.n, b.mixed.logs)
		for bin, n := range b.endedBins {
			a.endedIn(bin, n)
		}
		for n := range a.newest {
			a.newest[n] = max(a.newest[n], b.newest[n])
			a.ended[n] = append(a.ended[n], b.ended[n]...)
		}
	}
	for r := range o.slowest {
		for _, s := range o.slowest[r].kept {
			f.slowest[r].keepTuple(s, slowest)
		}
	}
	for _, b := range o.backs {
		f.noteBackwards(b)
	}
}
