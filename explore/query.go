package explore

import (
	"cmp"
	"slices"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// Limits of one answer.
const (
	maxBuckets   = 512
	maxSingles   = 1500 // rows that one answer shows one by one, in all its lanes together
	rawBlocks    = 128  // an answer about more blocks than this reads counts of nodes instead
	farBlocks    = 4096 // how many blocks before a range are checked for items that reach into it
	earlyBlocks  = 16   // how many of these blocks are read at most
	countedNodes = 1024 // the most nodes whose counts one series reads
	maxListed    = 50
	maxSearched  = 4096 // the most blocks that one search for tuples reads
)

// Range is a part of the run's time, in cycles of the reference node's counter, ends included.
type Range struct{ From, To uint64 }

// nodesIn returns the nodes of a level that may contain items of a range. An item belongs to a
// range if the middle of its moment lies in the range.
func nodesIn(nodes []node, r Range) []node {
	from := sort.Search(len(nodes), func(i int) bool { return nodes[i].last >= r.From })
	to := sort.Search(len(nodes), func(i int) bool { return nodes[i].first > r.To })
	if from >= to {
		return nil
	}
	return nodes[from:to]
}

// reachingBlocks returns the blocks that may contain items that reach into a range. An item in a
// block before the range may end in the range. An item in a block after the range may have begun in
// the range, because the moment of its beginning is known only as an interval. Of the blocks before
// the range, at most earlyBlocks are returned: the nearest ones.
func reachingBlocks(blocks []node, r Range) []node {
	from := sort.Search(len(blocks), func(i int) bool { return blocks[i].last >= r.From })
	var all []node
	for i := from - 1; i >= max(0, from-farBlocks) && len(all) < earlyBlocks; i-- {
		if blocks[i].maxEnd >= r.From || moveReading(blocks[i].last,
			int64(half(blocks[i].width))) >=
			r.From {
			all = append(all, blocks[i])
		}
	}
	slices.Reverse(all)
	for i := from; i < len(blocks) && moveReading(blocks[i].first,
		-int64(min(half(blocks[i].width), farthestReading))) <= r.To; i++ {
		all = append(all, blocks[i])
	}
	return all
}

// Bucket sums up the rows of a part of the time. It counts the rows whose moments have their
// middles in that part. The true moment of a row may be up to Unsure_cycles earlier or later.
type Bucket struct {
	From_cycles   uint64 // middle of the first row
	To_cycles     uint64 // middle of the last row
	Unsure_cycles uint64
	Count         uint64
	Ended         uint64
	Suspect       uint64
	Longest       int64 // the largest high end of a duration
	counts        *histogram
}

// series contains the rows of a track in a range: as buckets, and if they are few, also as single
// items.
type series struct {
	singles []item
	buckets []Bucket
}

// series reads the rows of a track in a range. There are two limits. If the range has more blocks
// than the limit raw, series sums up nodes. Otherwise it reads the items themselves. If there are
// at most as many items as the limit singles, it also returns them one by one. The function each,
// unless it is nil, is called for every bucket. The bucket's histogram is valid only during this
// call.
func (x *Index) series(t *track, r Range, buckets, singles, raw int, each func(*Bucket)) (series,
	error) {
	var s series
	if len(t.levels) == 0 {
		return s, nil
	}
	blocks := nodesIn(t.levels[0], r)
	if len(blocks) <= raw {
		return x.rawSeries(reachingBlocks(t.levels[0], r), r, buckets, singles, each)
	}
	// Use the finest level with few enough nodes in the range.
	nodes := blocks
	for l := 1; l < len(t.levels) && len(nodes) > max(countedNodes, buckets); l++ {
		nodes = nodesIn(t.levels[l], r)
	}
	h := new(histogram)
	width := (r.To-r.From)/uint64(buckets) + 1
	for i := 0; i < len(nodes); {
		slot := (max(nodes[i].first, r.From) - r.From) / width
		var sum node
		j := i
		for ; j < len(nodes) && (max(nodes[j].first, r.From)-r.From)/width == slot; j++ {
			sum.merge(&nodes[j])
			if each == nil {
				continue
			}
			data, err := x.readSealed(nodes[j].counts, nodes[j].countsSize, maxCounts)
			if err != nil {
				return s, err
			}
			if !readCounts(data, func(_ uint32, high bool, bucket int, n uint64) {
				h.count(high, bucket, n)
			}) {
				return s, errDamaged
			}
		}
		b := Bucket{From_cycles: sum.first, To_cycles: sum.last, Unsure_cycles: half(sum.width),
			Count: sum.items, Ended: uint64(sum.ended), Suspect: uint64(sum.suspect),
			Longest: sum.longest, counts: h}
		if each != nil {
			each(&b)
			h.clear()
		}
		b.counts = nil
		s.buckets = append(s.buckets, b)
		i = j
	}
	return s, nil
}

func half(width uint64) uint64 { return width/2 + width%2 }

// rawSeries makes a series from the items themselves.
func (x *Index) rawSeries(blocks []node, r Range, buckets, singles int,
	each func(*Bucket)) (series, error) {
	var s series
	width := (r.To-r.From)/uint64(buckets) + 1
	h := new(histogram)
	var b Bucket
	end := func() {
		if b.Count == 0 {
			return
		}
		b.counts = h
		if each != nil {
			each(&b)
		}
		h.clear()
		b.counts = nil
		s.buckets = append(s.buckets, b)
	}
	slot := ^uint64(0)
	for k := range blocks {
		// The page also draws an item that began before the range and reaches into it.
		err := x.eachItem(&blocks[k], func(i *item) {
			at := i.begin()
			if max(at.Hi, i.end().Hi) < r.From || at.Lo > r.To {
				return
			}
			if len(s.singles) <= singles {
				s.singles = append(s.singles, *i)
			}
			if i.mid < r.From || i.mid > r.To {
				return
			}
			if now := (i.mid - r.From) / width; now != slot {
				end()
				slot, b = now, Bucket{From_cycles: i.mid, Longest: i.hi}
			}
			b.To_cycles = i.mid
			b.Count++
			b.Unsure_cycles = max(b.Unsure_cycles, half(i.width))
			b.Longest = max(b.Longest, i.hi)
			if i.suspect {
				b.Suspect++
			}
			if i.ended > 0 {
				b.Ended++
			}
			if each != nil && !i.instant {
				h.add(i)
			}
		})
		if err != nil {
			return s, err
		}
	}
	end()
	if len(s.singles) > singles {
		s.singles = nil
	}
	return s, nil
}

// longestItems returns the items with the longest durations in a range. It considers only durations
// that may lie between two limits. If the search stopped before its end, whole is false.
func (x *Index) longestItems(t *track, r Range, lo, hi int64) (all []item, whole bool, err error) {
	if len(t.levels) == 0 {
		return nil, true, nil
	}
	blocks := slices.Clone(nodesIn(t.levels[0], r))
	slices.SortStableFunc(blocks, func(a, b node) int { return -cmp.Compare(a.longest, b.longest) })
	order := func(a, b item) int {
		return cmp.Or(-cmp.Compare(a.hi, b.hi), cmp.Compare(a.id, b.id))
	}
	for k := range blocks {
		if full := len(all) == maxListed; blocks[k].longest < lo ||
			full && blocks[k].longest < all[maxListed-1].hi {
			break
		}
		if k == maxSearched {
			return all, false, nil
		}
		err := x.eachItem(&blocks[k], func(i *item) {
			if i.mid < r.From || i.mid > r.To || i.hi < lo || i.lo > hi || i.instant {
				return
			}
			if len(all) == maxListed && order(*i, all[maxListed-1]) >= 0 {
				return
			}
			at, _ := slices.BinarySearchFunc(all, *i, order)
			all = slices.Insert(all, at, *i)
			all = all[:min(len(all), maxListed)]
		})
		if err != nil {
			return nil, false, err
		}
	}
	return all, true, nil
}

// endedTuples returns the first tuples of a range that ended in a lane although they could have
// gone on. If there may be more, whole is false.
func (x *Index) endedTuples(t *track, r Range) (all []item, whole bool, err error) {
	if len(t.levels) == 0 {
		return nil, true, nil
	}
	for i, n := range nodesIn(t.levels[0], r) {
		if n.ended == 0 {
			continue
		}
		if i >= maxSearched || len(all) > maxListed {
			break
		}
		if err := x.eachItem(&n, func(i *item) {
			if i.mid >= r.From && i.mid <= r.To && i.ended > 0 {
				all = append(all, *i)
			}
		}); err != nil {
			return nil, false, err
		}
	}
	return all[:min(len(all), maxListed)], len(all) <= maxListed, nil
}

// byInstance returns a histogram of the durations in a range for each lane in which durations end.
// If the range has more than rawBlocks blocks, the counts of whole nodes are used. The range that
// was really counted (grown) may then be wider than the given one.
func (x *Index) byInstance(t *track, r Range) (by counts, grown Range, err error) {
	by, grown = counts{}, r
	if len(t.levels) == 0 {
		return by, r, nil
	}
	blocks := nodesIn(t.levels[0], r)
	if len(blocks) <= rawBlocks {
		for k := range blocks {
			if err := x.eachItem(&blocks[k], func(i *item) {
				if i.mid >= r.From && i.mid <= r.To && !i.instant {
					by.add(i)
				}
			}); err != nil {
				return nil, r, err
			}
		}
		return by, r, nil
	}
	nodes := blocks
	for l := 1; l < len(t.levels) && len(nodes) > rawBlocks; l++ {
		nodes = nodesIn(t.levels[l], r)
	}
	for k := range nodes {
		data, err := x.readSealed(nodes[k].counts, nodes[k].countsSize, maxCounts)
		if err != nil {
			return nil, r, err
		}
		if !readCounts(data, func(instance uint32, high bool, bucket int, n uint64) {
			by.of(instance).count(high, bucket, n)
		}) {
			return nil, r, errDamaged
		}
	}
	return by, Range{nodes[0].first, nodes[len(nodes)-1].last}, nil
}

// countSuspects returns how many items in the blocks of a range are estimates. The first and the
// last block may lie partly outside the range.
func (x *Index) countSuspects(t *track, r Range) (n uint64) {
	if len(t.levels) == 0 {
		return 0
	}
	for _, block := range nodesIn(t.levels[0], r) {
		n += uint64(block.suspect)
	}
	return n
}

// percentilesOf returns percentiles of a histogram, rounded outward.
func percentilesOf(h *histogram, percents ...float64) analysis.Percentiles {
	var all analysis.Percentiles
	for _, p := range percents {
		lo, hi := h.percentile(p)
		all = append(all, analysis.Percentile{Percent: p,
			Interval: analysis.Interval{Lo_cycles: lo, Hi_cycles: hi}})
	}
	return all
}
