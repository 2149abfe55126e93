package drain

import (
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// takeDrops writes the ranges of dropped events that can no longer grow. A range counts the events
// that were dropped at one place, and its place is the ring's tail at that time. The caller must
// have read the ring's state before the call.
func (s *source) takeDrops(w *worker, i int, state ring.State, now phase) error {
	p := &s.places[i]
	ranges, _, err := s.ring.Drops(i)
	if err != nil {
		return err
	}
	n := len(ranges)
	leftAt := uint64(noPlace)
	if n > 0 && now != programGone {
		// All ranges but the newest are complete. The newest range grows while its place is the
		// tail. Usually it is complete when the tail has moved. In two cases, it is complete only
		// when there is a newer range. First, if there are many writers, a writer that loaded the
		// old tail may still extend the range. Second, if the ring's table of ranges was full, the
		// program could not begin a new range, so it extended the newest one even after the tail
		// had moved.
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
		if r.Count > 0 { // 0: the program died before it counted the event
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
		if err := s.appendBlock(&w.block, block); err != nil {
			return err
		}
	}
	p.dropped, p.leftAt = state.Dropped, leftAt
	p.accounted += count
	if n == 0 {
		return nil
	}
	p.drops += uint64(n)
	p.releasedBits = p.releasedBits<<n | 1
	return s.release(i)
}

// mayHaveBeenFull reports whether the program may have found the ring's table of ranges full since
// it began its newest range. begun is the number of ranges that the program has begun in total.
//
// The table has room for DropsSize ranges. So when the program began its newest range, the drainer
// had released at least begun − DropsSize ranges. Since then, the table was full only while the
// drainer had released exactly this number of ranges. The ring shows the number of released ranges.
// A drop that is still in progress may have read an earlier number than the present one. So
// mayHaveBeenFull checks all numbers that the ring has shown.
func (p *shardPlace) mayHaveBeenFull(begun uint64) bool {
	return begun >= ring.DropsSize && p.releasedBits>>(p.drops+ring.DropsSize-begun)&1 == 1
}
