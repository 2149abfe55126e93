package agent

import (
	"errors"
	"fmt"
	"io"

	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// logContent is the content of a log.
type logContent struct {
	events uint64
	ids    map[int][]uint64 // by shard, in the order of the log
	drops  map[logstore.Reason]uint64
	// at counts the events that were dropped directly before each row of shard 0 because the ring
	// was full.
	at map[uint64]uint64
}

// read reads a log, which must be undamaged and sealed.
func read(segments []logstore.Segment) (logContent, error) {
	k := logContent{
		ids: map[int][]uint64{}, drops: map[logstore.Reason]uint64{}, at: map[uint64]uint64{},
	}
	if len(segments) == 0 {
		return k, errors.New("there is none")
	}
	r := logstore.ReadLog(segments)
	defer r.Close()
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return k, err
		}
		for _, e := range b.Events {
			k.ids[b.Shard] = append(k.ids[b.Shard], e.ID)
			k.events++
		}
		for _, d := range b.Drops {
			k.drops[logstore.Reason(d.Reason)] += d.Count
			if b.Shard == 0 && logstore.Reason(d.Reason) == logstore.RingFull {
				k.at[d.At] += d.Count
			}
		}
	}
	if report := r.Report(); !report.Whole() || !report.Sealed ||
		report.Duplicates+report.Overlaps+report.Foreign > 0 {
		return k, fmt.Errorf("it is not whole: %+v", report)
	}
	return k, nil
}

// checkOne compares the log of a channel with what its only writer did. The ids count up from 0.
// Ids may be missing only before a row at which the log reports drops, and the number of missing
// ids must equal the number of these drops. If the program was killed during a call, that call may
// have left one more event or drop.
func checkOne(said *testimony.Testimony, k logContent) error {
	for reason, n := range k.drops {
		if reason != logstore.RingFull {
			return fmt.Errorf("%d rows are missing: %s", n, reason)
		}
	}
	next := uint64(0)
	for row, id := range k.ids[0] {
		if next += k.at[uint64(row)]; id != next {
			return fmt.Errorf("row %d has id %d, want %d", row, id, next)
		}
		next++
	}
	if next += k.at[uint64(len(k.ids[0]))]; next != said.Returned[0] && next != said.Returned[0]+1 {
		return fmt.Errorf("%d calls are in the log or dropped, %d have returned", next,
			said.Returned[0])
	}
	return nil
}

// checkShared takes the log of a channel that has many writers, and checks it against what they
// did. Each id must be there once, and the ids of one writer must increase in each shard.
func checkShared(said *testimony.Testimony, k logContent) error {
	seen := map[uint64]bool{}
	for shard, ids := range k.ids {
		var next [sharedWriters]uint64
		for _, id := range ids {
			writer, n := id>>48, id&(1<<48-1)
			if writer >= sharedWriters || n > said.Returned[1+writer] || n < next[writer] ||
				seen[id] {
				return fmt.Errorf("shard %d: id %#x", shard, id)
			}
			next[writer] = n + 1
			seen[id] = true
		}
	}
	var returned uint64
	for _, n := range said.Returned[1 : 1+sharedWriters] {
		returned += n
	}
	kept := uint64(len(seen)) + k.drops[logstore.RingFull]
	if kept < returned || kept > returned+sharedWriters ||
		k.drops[logstore.NeverWritten] > sharedWriters {
		return fmt.Errorf(
			"%d calls are in the log or dropped, %d have returned, %d were never written", kept,
			returned, k.drops[logstore.NeverWritten])
	}
	return nil
}
