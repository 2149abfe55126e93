package drain

import (
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// takeDrops writes the ranges of dropped events that can no longer grow. The caller has read state
// before.
func (s *source) takeDrops(w *worker, i int, state ring.State, now phase) error {
	p := &s.places[i]
	ranges, _, err := s.ring.Drops(i)
	if err != nil {
		return err
	}
	n := len(ranges)
	leftAt := uint64(noPlace)
	if n > 0 && now != dead {
		// A range grows as long as it is the newest and its place is the tail. A single writer that
		// has moved on has left it for good. One of many writers that saw the old tail may still
		// use it, so a range of theirs is over when there is another. The same holds for a range
		// that may have been the newest when the table was full: it grows at any place.
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
		if r.Count > 0 { // otherwise the program died over it
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

// mayHaveBeenFull tells whether the program may have found the table full since it began the newest
// of its ranges, of which it has begun that many in all. It began that range with room, when the
// drainer had said that at least begun − DropsSize ranges were safe. It found the table full later
// only if the drainer had said exactly that number. What the drainer says now proves nothing: an
// event that is being counted may have looked before.
func (p *place) mayHaveBeenFull(begun uint64) bool {
	return begun >= ring.DropsSize && p.told>>(p.drops+ring.DropsSize-begun)&1 == 1
}
