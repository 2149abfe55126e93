package handlers

import (
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// A view has everything that a reader finds in a ring. The writers must have used at most one
// shard.
type view struct {
	shard      int // the shard that the writers used; 0 if they used none
	first      uint64
	records    []ring.Record // the finished records, from sequence number first on
	tail       uint64
	unfinished bool // the record after the finished ones is reserved but not written
	dropped    uint64
	ranges     []ring.DropRange      // the ranges of dropped events in that shard
	journals   [][]ring.JournalEntry // the journal of every shard
	counted    uint64
	firstLast  ring.FirstAndLast
	flags      uint64
}

// endSequence returns the sequence number after the last finished record.
func (v *view) endSequence() uint64 { return v.first + uint64(len(v.records)) }

// viewRing reads a ring in the same way as a drainer that has just started.
func viewRing(path string) (*view, error) {
	r, err := ring.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var v view
	for i := range r.Header().Shards {
		s, err := r.State(i)
		if err != nil {
			return nil, err
		}
		v.flags |= s.Flags
		v.dropped += s.Dropped
		journal, _, err := r.Journal(i)
		if err != nil {
			return nil, err
		}
		v.journals = append(v.journals, journal)
		if s.Tail == 0 {
			continue
		}
		if v.tail > 0 {
			return nil, fmt.Errorf("shards %d and %d were written to", v.shard, i)
		}
		v.shard, v.tail = i, s.Tail
		v.records = make([]ring.Record, r.Header().Records)
		n := 0
		if v.first, n, v.unfinished, err = r.Copy(i, s.Head, v.records); err != nil {
			return nil, err
		}
		v.records = v.records[:n]
	}
	ranges, before, err := r.Drops(v.shard)
	if err != nil {
		return nil, err
	}
	sum := uint64(0)
	for _, d := range ranges {
		sum += d.Count
	}
	if v.ranges = ranges; before == 0 && sum != v.dropped {
		return nil, fmt.Errorf("%d dropped, and their ranges have %d", v.dropped, sum)
	}
	if v.counted, err = r.Counted(); err != nil {
		return nil, err
	}
	v.firstLast, err = r.FirstAndLast()
	return &v, err
}
