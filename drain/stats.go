package drain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// RingStats describes a ring. Unless stated otherwise, a count is from this drainer only, and
// begins when it found the ring.
type RingStats struct {
	Path         string
	Channel      channel.Name
	Incarnation  logstore.Incarnation
	ProcessID    int    // of the program, as the ring says
	PIDNamespace uint64 // in which ProcessID is valid; 0: unknown
	RingBytes    int64  // of shared memory
	Policy       channel.Policy
	Settings     channel.Settings // the ring's present settings
	Alive        bool             // the program has it open
	SetAside     error            // not nil: the ring cannot be trusted and is no longer drained

	Events   uint64 // that were logged since the first look
	Waiting  uint64 // records in the ring
	Dropped  uint64 // by the program since it opened the channel
	Misused  bool   // the program logs events on a link channel, or links on another
	Rejected bool   // the program was given settings that it could not take

	Rows      uint64 // rows of all kinds that were written
	Blocks    uint64
	LogBytes  uint64
	Holes     uint64 // rows that were reserved but never written
	Missing   uint64 // rows that were taken from the ring but are in no log here
	Unread    uint64 // rows that were in the ring when it was set aside
	NotStored uint64 // rows that were taken from the ring while a limit was reached
	OverRate  uint64 // rows that were taken from the ring above the handler table's rate
	Removed   int    // log files that were removed while they were written

	Failures uint64 // of writing the log
	Failure  error  // the last failure; nil after a success
	Limit    error  // why rows were last not stored
	Refused  error  // why the handler table's settings were not set

	shards []shown
}

// shown is the part of the stats about a shard.
type shown struct{ waiting, dropped, flags uint64 }

// Stats describes the state of a drainer.
type Stats struct {
	Rings     []RingStats    // present rings, including those set aside, sorted by path
	Finished  uint64         // rings that were drained completely and removed
	Processes []ProcessStats // that have rings here, by process id
	Limit     error          // why records are not stored now
	Total     Totals         // of all rings, including the finished ones
	Table     error          // why the handler table's file is not in use
	SetAside  int            // rings that are no longer drained; Rings has the first thousand
	Left      int            // rings that are not drained yet because there are too many
	LeftWhy   error          // why the first of these rings is not drained
	Lost      error          // why this drainer has lost the directory; then nothing is drained
}

// Totals are sums over rings.
type Totals struct {
	Events, Dropped, Rows, Blocks, LogBytes, Holes, Missing, Unread, NotStored, OverRate,
	Failures uint64
	Removed int
}

func (t *Totals) add(c *RingStats) {
	t.Events = sum(t.Events, c.Events)
	t.Dropped = sum(t.Dropped, c.Dropped)
	t.Rows = sum(t.Rows, c.Rows)
	t.Blocks = sum(t.Blocks, c.Blocks)
	t.LogBytes = sum(t.LogBytes, c.LogBytes)
	t.Holes = sum(t.Holes, c.Holes)
	t.Missing = sum(t.Missing, c.Missing)
	t.Unread = sum(t.Unread, c.Unread)
	t.NotStored = sum(t.NotStored, c.NotStored)
	t.OverRate = sum(t.OverRate, c.OverRate)
	t.Failures = sum(t.Failures, c.Failures)
	t.Removed += c.Removed
}

// sum returns a + b, or the largest uint64 on overflow, because the numbers in rings can be
// anything.
func sum(a, b uint64) uint64 {
	if a+b < a {
		return 1<<64 - 1
	}
	return a + b
}

// snapshot returns the ring's present figures.
func (s *source) snapshot() RingStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.stats
	for _, shard := range c.shards {
		c.Waiting += shard.waiting
		c.Dropped += shard.dropped
		c.Misused = c.Misused || shard.flags&ring.FlagMisuse != 0
		c.Rejected = c.Rejected || shard.flags&ring.FlagBadSettings != 0
	}
	c.shards = nil
	return c
}

// Stats returns the present figures.
func (d *Drainer) Stats() Stats {
	limit := d.Limit()
	d.mu.Lock()
	defer d.mu.Unlock()
	stats := Stats{Limit: limit, Finished: d.finished, Total: d.ended, Table: d.tableError,
		Lost:     d.lostLock,
		SetAside: len(d.aside), Left: d.leftAlone, LeftWhy: d.leftWhy}
	for _, s := range d.sources {
		c := s.snapshot()
		stats.Total.add(&c)
		stats.Rings = append(stats.Rings, c)
	}
	for _, c := range d.aside {
		if c != nil { // nil: the ring is already in d.ended
			stats.Total.add(c)
			stats.Rings = append(stats.Rings, *c)
		}
	}
	for _, p := range d.processes {
		stats.Processes = append(stats.Processes, p)
	}
	slices.SortFunc(stats.Processes, func(a, b ProcessStats) int {
		return cmp.Or(cmp.Compare(a.PIDNamespace, b.PIDNamespace),
			cmp.Compare(a.ProcessID, b.ProcessID))
	})
	slices.SortFunc(stats.Rings, func(a, b RingStats) int {
		return strings.Compare(a.Path, b.Path)
	})
	return stats
}
