package drain

import (
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// takeDrops writes the ranges of dropped events that can no longer grow. The caller must have read
// state before the call.
func (s *source) takeDrops(w *worker, i int, state ring.State, now phase) error {
	p := &s.places[i]
	ranges, _, err := s.ring.Drops(i)
	if err != nil {
		return err
	}
	n := len(ranges)
	leftAt := uint64(noPlace)
	if n > 0 && now != dead {
		// The newest range can grow while its place is the tail. With one writer, the range is
		// complete once the tail has moved. With many writers, a writer that loaded the old tail
		// may still extend the range. So the range is complete only when there is a newer range. If
		// the ring's table of ranges may have been full while a range was the newest, that range
		// may grow at any tail. So it, too, is complete only when there is a newer range.
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

// mayHaveBeenFull reports whether the program may have found the ring's table of ranges full since
// it began its newest range. begun is the number of ranges that the program has begun in total.
//
// The program needed room in the table for its newest range, so at least begun − DropsSize ranges
// were released by then. Since then, the table was full only while exactly that many were released.
// Earlier numbers of released ranges count too, because a drop that is still in progress may have
// read one of them.
func (p *place) mayHaveBeenFull(begun uint64) bool {
	return begun >= ring.DropsSize && p.told>>(p.drops+ring.DropsSize-begun)&1 == 1
}
