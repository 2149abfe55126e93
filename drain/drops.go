package drain

import (
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// takeDrops writes the ranges of dropped events that can no longer grow. The caller must read state
// before the call.
func (s *source) takeDrops(w *worker, i int, state ring.State, now phase) error {
	p := &s.places[i]
	ranges, _, err := s.ring.Drops(i)
	if err != nil {
		return err
	}
	n := len(ranges)
	leftAt := uint64(noPlace)
	if n > 0 && now != dead {
		// A range grows as long as it is the newest and its place is the tail. With one writer, a
		// range is complete once the tail has moved on. With many writers, one that loaded the old
		// tail may still extend the range, so a range is complete only when there is a newer one. A
		// range that may have been the newest when the table was full grows whatever the tail is,
		// so it too is complete only when there is a newer range.
		newest := ranges[n-1].At
		passes := !s.header.ManyWriters && !p.mayHaveBeenFull(p.drops+uint64(n))
		if !passes || state.Tail <= newest {
			n--
			if passes {
				leftAt = newest
			}
		}
	}
	rows, count := w.drops[:0], uint64(0)
	for _, r := range ranges[:n] {
		if r.Count > 0 { // a range without events: the program died while it wrote the range
			count += r.Count
			rows = append(rows, logstore.Drop{
				Of: uint64(s.kind), Reason: uint64(logstore.RingFull), At: r.At / s.per,
				Count:        r.Count,
				FirstCounter: r.FirstCounter, LastCounter: r.LastCounter,
			})
		}
	}
	if len(rows) > 0 {
		block := logstore.Block{Shard: i, First: s.log.Next(logstore.Drops, i), Drops: rows}
		if err := s.append(&w.block, block); err != nil {
			return err
		}
	}
	p.dropped, p.leftAt = state.Dropped, leftAt
	p.accounted += count
	if n == 0 {
		return nil
	}
	p.drops += uint64(n)
	p.told = p.told<<n | 1
	return s.release(i)
}

// mayHaveBeenFull reports whether the program may have found the table full since it began its
// newest range. begun is the number of ranges that the program has begun in all. When it began the
// newest one, the drainer had released at least begun − DropsSize ranges. So the table can have
// been full later only if the drainer had released exactly that number at some time. The number
// released now proves nothing: a drop that is in progress may have read an earlier number.
func (p *place) mayHaveBeenFull(begun uint64) bool {
	return begun >= ring.DropsSize && p.told>>(p.drops+ring.DropsSize-begun)&1 == 1
}
