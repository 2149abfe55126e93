package explore

import (
	"slices"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Limits of one answer about a queue.
const (
	maxQueues   = 240 // number of moments
	queueNodes  = 24  // for each moment: the most nodes that are replaced by the nodes below them
	queueBlocks = 3   // for each moment: the most blocks that are read
)

// queue is how many tuples were between two points at a moment: at least lo, at most hi.
type queue struct {
	at     uint64
	lo, hi uint64
}

// queueAt counts the tuples of a span that had begun and had not ended, at moments of a
// range. Each node of the index gives an interval for its part of this count. Nodes with wide
// intervals are replaced by the nodes below them, until the limits are reached.
func (x *Index) queueAt(t *track, r Range) ([]queue, error) {
	q := queueReader{index: x, track: t, cache: map[[2]int]*durations{},
		nodes: queueNodes, blocks: queueBlocks}
	var all []queue
	for i := range maxQueues {
		at := r.From + uint64(float64(r.To-r.From)*(float64(i)+0.5)/maxQueues)
		lo, hi, err := q.countAt(at)
		if err != nil {
			return nil, err
		}
		all = append(all, queue{at, lo, hi})
	}
	return all, nil
}

type queueReader struct {
	index         *Index
	track         *track
	cache         map[[2]int]*durations // by level of the node and its number there
	counts        histogram             // a buffer for durations
	blocksRead    map[int][]lastingItem // by number of the block
	nodes, blocks int                   // limits for each moment
}

// durations has the durations of a node of the index, by buckets.
type durations struct {
	los, his           []int64  // for each bucket: its lowest value, its highest value
	countLos, countHis []uint64 // how many low ends, and high ends, are in it and all lower ones
}

// share says how many tuples one node of the index adds to a queue: at least lo, at most hi. The
// field k is the node's place on its level.
type share struct {
	level, k int
	lo, hi   uint64
}

// countAt counts the tuples that were between the span's two points at one moment.
func (q *queueReader) countAt(at uint64) (lo, hi uint64, err error) {
	var open []share // nodes whose share could be narrower, the largest last
	take := func(level, k int) {
		s, exact := q.shareOfItems(at, level, k)
		if exact {
			lo, hi = lo+s.lo, hi+s.hi
			return
		}
		i := sort.Search(len(open), func(i int) bool { return open[i].hi >= s.hi })
		open = slices.Insert(open, i, s)
	}
	top := len(q.track.levels) - 1
	if top < 0 {
		return 0, 0, nil
	}
	for k := range q.track.levels[top] {
		take(top, k)
	}
	nodes, blocks := q.nodes, q.blocks
	for len(open) > 0 {
		s := open[len(open)-1]
		open = open[:len(open)-1]
		switch {
		case s.level > 0 && nodes > 0:
			nodes--
			last := min((s.k+1)*fanOut, len(q.track.levels[s.level-1]))
			for child := s.k * fanOut; child < last; child++ {
				take(s.level-1, child)
			}
			continue
		case s.level == 0 && blocks > 0:
			blocks--
			s.lo, s.hi, err = q.countBlock(at, s.k)
		default:
			s, err = q.shareOfCounts(at, s.level, s.k)
		}
		if err != nil {
			return 0, 0, err
		}
		lo, hi = lo+s.lo, hi+s.hi
	}
	return lo, hi, nil
}

// lastingItem contains the moments at which an item began and ended.
type lastingItem struct{ begin, end tscratio.Interval }

// cachedBlocks is the number of blocks that are kept in memory. The next moment often needs the
// same blocks.
const cachedBlocks = 4

// countBlock counts the items of a block one by one.
func (q *queueReader) countBlock(at uint64, k int) (lo, hi uint64, err error) {
	items, known := q.blocksRead[k]
	if !known {
		n := &q.track.levels[0][k]
		items = make([]lastingItem, 0, min(n.items, blockItems))
		if err := q.index.eachItem(n, func(i *item) {
			items = append(items, lastingItem{i.begin(), i.end()})
		}); err != nil {
			return 0, 0, err
		}
		if len(q.blocksRead) >= cachedBlocks || q.blocksRead == nil {
			q.blocksRead = map[int][]lastingItem{}
		}
		q.blocksRead[k] = items
	}
	for _, i := range items {
		if i.begin.Lo <= at && at <= i.end.Hi {
			hi++
			if i.begin.Hi <= at && at < i.end.Lo {
				lo++
			}
		}
	}
	return lo, hi, nil
}

// shareOfItems computes a node's share from the moments of its items alone, without reading its
// counts. exact says whether the share is as narrow as the items allow.
func (q *queueReader) shareOfItems(at uint64, level, k int) (s share, exact bool) {
	n := &q.track.levels[level][k]
	s = share{level: level, k: k}
	unsure := int64(min(half(n.width), farthestReading))
	if moveReading(n.first, -unsure) > at || n.maxEnd < at {
		return s, true
	}
	s.hi = n.items
	if moveReading(n.last, unsure) <= at && n.minEnd > at {
		s.lo = n.items
		return s, true
	}
	return s, false
}

// shareOfCounts computes a node's share from the counts of its durations.
func (q *queueReader) shareOfCounts(at uint64, level, k int) (s share, err error) {
	n := &q.track.levels[level][k]
	s = share{level: level, k: k, hi: n.items}
	unsure := int64(min(half(n.width), farthestReading))
	firstBegin, lastBegin := moveReading(n.first, -unsure), moveReading(n.last, unsure)
	d, err := q.durations(level, k)
	if err != nil {
		return s, err
	}
	// The node knows the earliest and the latest beginning of all its items, and the durations. An
	// item has surely ended if the latest beginning, plus the high end of the item's duration, is
	// before the moment. An item is surely in the queue if all items have begun, and the earliest
	// beginning, plus the low end of the item's duration, is after the moment.
	if lastBegin < at {
		s.hi = n.items - countBelow(d.his, d.countHis, limitedDifference(at, lastBegin))
	}
	if lastBegin <= at {
		s.lo = min(n.items-countBelow(d.los, d.countLos,
			limitedSum(limitedDifference(at, firstBegin), 1)), s.hi)
	}
	return s, nil
}

// countBelow returns how many ends of durations are below a limit. cumulative[i] says how many ends
// are at most values[i].
func countBelow(values []int64, cumulative []uint64, limit int64) uint64 {
	i := sort.Search(len(values), func(i int) bool { return values[i] >= limit })
	if i == 0 {
		return 0
	}
	return cumulative[i-1]
}

// durations reads the counts of a node. It rounds low ends down to the lowest value of their
// bucket, and high ends up to the highest. So queues are rounded outward.
func (q *queueReader) durations(level, k int) (*durations, error) {
	key := [2]int{level, k}
	if d := q.cache[key]; d != nil {
		return d, nil
	}
	n := &q.track.levels[level][k]
	data, err := q.index.readSealed(n.counts, n.countsSize, maxCounts)
	if err != nil {
		return nil, err
	}
	h, d := &q.counts, new(durations)
	h.clear()
	if !readCounts(data, func(_ uint32, high bool, bucket int, n uint64) {
		h.count(high, bucket, n)
	}) {
		return nil, errDamaged
	}
	slices.Sort(h.used)
	var los, his uint64
	for _, b := range h.used {
		lo, hi := bucketEdges(int(b))
		los, his = los+h.lo[b], his+h.hi[b]
		d.los, d.countLos = append(d.los, lo), append(d.countLos, los)
		d.his, d.countHis = append(d.his, hi), append(d.countHis, his)
	}
	if len(q.cache) >= 1<<12 {
		clear(q.cache)
	}
	q.cache[key] = d
	return d, nil
}
