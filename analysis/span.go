package analysis

import (
	"math"
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// spanKind says what a span measures.
type spanKind uint8

const (
	directSpan   spanKind = iota // from one point to the next
	waitingSpan                  // as directSpan, but with a wait for another branch at the end
	wholePath                    // a tuple from its first point to its last
	fromEarliest                 // a tuple made of others, from where the earliest of those began
	fromLatest                   // a tuple made of others, from where the latest of those began
)

type spanKey struct {
	from, to int // ranks
	kind     spanKind
}

// span has the durations that were measured from one point to another.
type span struct {
	key   spanKey
	parts []*spanPart        // by first node·nodes + second node
	bins  []*binnedDurations // the durations over time
	// critical sums up the durations on critical paths. In a span of whole paths, it sums up the
	// whole paths that are critical from end to end.
	critical criticalSums

	// countedBefore is true for a whole path if no point can lie between its two ends. The span
	// between the same points then already has the durations of the whole path. They are computed
	// again only to count the tuples and to find the slowest.
	countedBefore bool
	// mayBeIndirect is true if it is not known whether tuples go directly from one end to the
	// other.
	mayBeIndirect bool
	// missed counts durations that are withheld because their last event was mistaken for another
	// tuple's event.
	missed uint64
	paused pausedSpan // nil: no JVM logged pauses
}

func (l *span) from(in *input, g *graph) string { return in.points[g.order[l.key.from]].String() }
func (l *span) to(in *input, g *graph) string   { return in.points[g.order[l.key.to]].String() }

// kindAndOrigin returns the span's kind, and its origin if it has one.
func (l *span) kindAndOrigin(in *input, g *graph) string {
	switch kind := l.kindWords(in, g); l.key.kind {
	case fromEarliest:
		return kind + ", earliest"
	case fromLatest:
		return kind + ", latest"
	default:
		return kind
	}
}

// kindWords is the span's kind in words.
func (l *span) kindWords(in *input, g *graph) string {
	k, p, q := l.key, in.points[g.order[l.key.from]], in.points[g.order[l.key.to]]
	switch {
	case k.kind == waitingSpan:
		return "waiting"
	case k.kind != directSpan:
		return "end-to-end"
	case g.gaps[k.from]>>k.to&1 != 0:
		return "gap"
	case p.actor != q.actor:
		return "transfer"
	case p.name == "start" && q.name == "end", p.name == "recv" && q.name == "send":
		return "computation"
	}
	return "inside"
}

// spanPart is the part of a span between two nodes. It collects pairs of readings and computes many
// together, because that takes less time for each.
type spanPart struct {
	distribution
	a, b         int              // indices of the nodes
	pendingPairs [2]*readingPairs // pairs off the critical path, and pairs on it
	held         *heldPart        // nil: the truth is not known
	unplaced     uint64
	withheld     [withheldReasons]uint64
	suspect      uint64
	orders       [3]uint64 // numbers of durations: events in order, perhaps, in the wrong order
	scenarios    [6]uint64
}

// readingPairs has pairs of readings whose durations are still to be computed.
type readingPairs struct {
	n           int
	xs, ys, ids [freshPairs]uint64
	// The path of pair i is paths[from[i]:from[i+1]]. It is needed if the tuple is among the
	// slowest.
	from  []int32
	paths []passage
}

// freshPairs is the largest number of pairs that are collected before their durations are computed.
const freshPairs = 512

func (f *readingPairs) clear() { f.n, f.from, f.paths = 0, f.from[:0], f.paths[:0] }

// add adds durations that began at the given readings. The fields Scenario and Verdict are the same
// for all of them, and are taken from one duration (d). It returns the smallest and the largest
// ends among them.
func (l *span) add(p *spanPart, elapsed []tscratio.Elapsed, d *tscratio.Duration, xs []uint64,
	axis *axis) (least, largest tscratio.Elapsed) {
	n := uint64(len(elapsed))
	p.scenarios[d.Scenario] += n
	p.suspect += uint64(d.Verdict) * n
	least, largest, uncounted := p.noteDurations(elapsed)
	if least.Lo > 0 {
		p.orders[2] += n
	} else {
		var after, before uint64
		for _, s := range elapsed {
			after += uint64(s.Hi) >> 63
			before += uint64(-s.Lo) >> 63
		}
		p.orders[0] += after
		p.orders[1] += n - after - before
		p.orders[2] += before
	}
	xs = xs[:len(elapsed)]
	for i := 0; i < len(elapsed); {
		x := xs[i]
		bin, on := axis.bin(x)
		if !on {
			if uncounted {
				p.lo.add(elapsed[i].Lo)
				p.hi.add(elapsed[i].Hi)
			}
			i++
			continue
		}
		from, length := axis.binRange(bin, x)
		end := i + 1
		for end < len(xs) && xs[end]-from < length {
			end++
		}
		b := l.histogramOf(bin)
		if uncounted {
			b.countBoth(elapsed[i:end], &p.distribution)
		} else {
			b.count(elapsed[i:end])
		}
		i = end
	}
	return least, largest
}

func newSpanPart(most int) *spanPart {
	return &spanPart{distribution: distribution{most: most}}
}

func (p *spanPart) merge(q *spanPart) {
	p.distribution.merge(&q.distribution)
	if q.held != nil {
		if p.held == nil {
			p.held = &heldPart{truths: distribution{most: p.most}}
		}
		p.held.merge(q.held)
	}
	p.unplaced += q.unplaced
	for i, n := range q.withheld {
		p.withheld[i] += n
	}
	p.suspect += q.suspect
	for i := range p.orders {
		p.orders[i] += q.orders[i]
	}
	for i := range p.scenarios {
		p.scenarios[i] += q.scenarios[i]
	}
}

func (l *span) merge(m *span) {
	l.critical.merge(&m.critical)
	l.mayBeIndirect = l.mayBeIndirect || m.mayBeIndirect
	l.missed += m.missed
	l.mergePaused(m)
	for i, p := range m.parts {
		switch {
		case p == nil:
		case l.parts[i] == nil:
			l.parts[i] = p
		default:
			l.parts[i].merge(p)
		}
	}
	for i, b := range m.bins {
		if b == nil {
			continue
		}
		for len(l.bins) <= i {
			l.bins = append(l.bins, nil)
		}
		if l.bins[i] == nil {
			l.bins[i] = b
		} else {
			l.bins[i].merge(b)
		}
	}
}

// binnedDurations is a coarse histogram of the durations in one bin of time. A negative high end is
// counted as 0, and so rounded outward.
type binnedDurations struct {
	n      uint64
	lo, hi [coarseBuckets]uint32
	// negative low ends v, each counted as -v-1; nil: there are none
	negativeEnds *[coarseBuckets]uint32
}

const (
	coarseBits    = 4 // 16 buckets for each power of two
	coarseBuckets = (64-coarseBits)<<coarseBits + 1<<coarseBits
)

// coarseBucket is bucketOf with fewer buckets.
func coarseBucket(v int64) int {
	u := uint64(max(v, 0))
	n := bits.Len64(u)
	if n <= coarseBits+1 {
		return int(u)
	}
	shift := n - coarseBits - 1
	return shift<<coarseBits + int(u>>shift)
}

// coarseOf is the coarse bucket that contains the values of one of bucketOf's buckets.
func coarseOf(bucket int) int {
	if bucket < 2<<subBits {
		return coarseBucket(int64(bucket))
	}
	const finer = subBits - coarseBits
	return finer<<coarseBits + bucket>>finer
}

// coarseEdges are the smallest and the largest value of a coarse bucket.
func coarseEdges(bucket int) (lo, hi int64) {
	if bucket < 2<<coarseBits {
		return int64(bucket), int64(bucket)
	}
	shift := bucket>>coarseBits - 1
	l := uint64(bucket-shift<<coarseBits) << shift
	return int64(l), int64(min(l+1<<shift-1, math.MaxInt64))
}

// histogramOf returns the histogram of a bin of time.
func (l *span) histogramOf(bin int) *binnedDurations {
	if bin >= len(l.bins) {
		l.bins = append(l.bins, make([]*binnedDurations, bin+1-len(l.bins))...)
	}
	b := l.bins[bin]
	if b == nil {
		b = new(binnedDurations)
		l.bins[bin] = b
	}
	return b
}

// The method count counts durations.
func (b *binnedDurations) count(elapsed []tscratio.Elapsed) {
	b.n += uint64(len(elapsed))
	for _, s := range elapsed {
		b.countLo(s.Lo)
		b.hi[coarseBucket(s.Hi)]++
	}
}

func (b *binnedDurations) countLo(v int64) {
	if v >= 0 {
		b.lo[coarseBucket(v)]++
		return
	}
	if b.negativeEnds == nil {
		b.negativeEnds = new([coarseBuckets]uint32)
	}
	b.negativeEnds[coarseBucket(^v)]++
}

// countBoth counts durations in two places: in this histogram, and in the buckets of a
// distribution. The distribution's method noteDurations must have been called with the same
// durations. Counting in both places at once takes little longer than counting in one.
func (b *binnedDurations) countBoth(elapsed []tscratio.Elapsed, d *distribution) {
	b.n += uint64(len(elapsed))
	los, his := &d.lo.positive, &d.hi.positive
	for _, s := range elapsed {
		if s.Lo >= 0 && s.Hi >= 0 {
			lo, hi := bucketOf(uint64(s.Lo)), bucketOf(uint64(s.Hi))
			if inLo, inHi := los[lo>>pageShift], his[hi>>pageShift]; inLo != nil && inHi != nil {
				inLo[lo&(bucketPage-1)]++
				inHi[hi&(bucketPage-1)]++
				b.lo[coarseOf(lo)]++
				b.hi[coarseOf(hi)]++
				continue
			}
		}
		d.lo.add(s.Lo)
		d.hi.add(s.Hi)
		b.countLo(s.Lo)
		b.hi[coarseBucket(s.Hi)]++
	}
}

func (b *binnedDurations) merge(c *binnedDurations) {
	b.n += c.n
	for i := range b.lo {
		b.lo[i] += c.lo[i]
		b.hi[i] += c.hi[i]
	}
	if c.negativeEnds == nil {
		return
	}
	if b.negativeEnds == nil {
		b.negativeEnds = new([coarseBuckets]uint32)
	}
	for i, n := range c.negativeEnds {
		b.negativeEnds[i] += n
	}
}

// percentile is a percentile of the durations, rounded outward by at most 1/16.
func (b *binnedDurations) percentile(percent_milli uint64) tscratio.Elapsed {
	rank := rankOf(percent_milli, b.n)
	var below uint64
	s := tscratio.Elapsed{Lo: math.MinInt64, Hi: math.MaxInt64}
	if b.negativeEnds != nil {
		for i := coarseBuckets - 1; i >= 0 && rank >= below; i-- {
			if below += uint64(b.negativeEnds[i]); rank < below {
				_, hi := coarseEdges(i)
				s.Lo = ^hi
			}
		}
	}
	if rank >= below {
		s.Lo, _ = edgesAt(&b.lo, rank-below)
	}
	_, s.Hi = edgesAt(&b.hi, rank)
	return s
}

// edgesAt returns the edges of the bucket that contains the value with the given rank.
func edgesAt(counts *[coarseBuckets]uint32, rank uint64) (lo, hi int64) {
	var below uint64
	for i, n := range counts {
		if below += uint64(n); rank < below {
			return coarseEdges(i)
		}
	}
	return 0, math.MaxInt64
}
