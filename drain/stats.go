package drain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// RingStats describes a ring. Unless stated otherwise, a count covers the time since this drainer
// found the ring.
type RingStats struct {
	Path         string
	Channel      channel.Name
	Incarnation  logstore.Incarnation
	ProcessID    int    // the program's process id, according to the ring
	PIDNamespace uint64 // the namespace in which ProcessID is valid; 0: unknown
	Place        string // where the process runs, as Options.Place says it
	RingBytes    int64  // bytes of shared memory in the ring
	Policy       channel.Policy
	Settings     channel.Settings // the ring's present settings
	Alive        bool             // true if the program has the ring open
	SetAside     error            // why the drainer has set the ring aside; nil: it has not

	Events   uint64 // events that the program logged since the first look
	Counted  uint64 // events of the handlers counter and first-last that are in the log
	Waiting  uint64 // records that are in the ring
	Dropped  uint64 // events that the program dropped since it opened the channel
	Misused  bool   // the program makes calls that the channel cannot take: see ring.FlagMisuse
	Rejected bool   // the program got settings that it could not adopt

	Rows      uint64 // rows of all kinds that the drainer has written
	Blocks    uint64
	LogBytes  uint64
	Holes     uint64 // rows that the program reserved but never wrote
	Missing   uint64 // rows that were taken from the ring, but are in no log of this drainer
	Unread    uint64 // rows that were in the ring when it was set aside
	NotStored uint64 // rows that were taken from the ring while a limit was reached
	OverRate  uint64 // rows that were taken from the ring above the handler table's rate
	Removed   int    // log files that were removed while they were written

	Failures uint64 // failures to write the log
	Failure  error  // the last failure; nil after a success
	Limit    error  // why the drainer last did not store rows
	Refused  error  // why the drainer could not apply the handler table's settings

	shards []shownStats
}

// shownStats has the part of a ring's stats that is about one shard.
type shownStats struct{ waiting, dropped, flags uint64 }

// Stats describes the state of a drainer.
type Stats struct {
	Rings     []RingStats    // the present rings and those that were set aside, sorted by path
	Finished  uint64         // number of rings that the drainer has drained completely and removed
	Processes []ProcessStats // the processes that have rings here, sorted by process id
	Limit     error          // why the drainer does not store records now
	Total     Totals         // sums over all rings, including the finished ones
	Table     error          // why the drainer does not use the handler table's file
	SetAside  int            // rings that were set aside; Rings has the first thousand
	Left      int            // number of rings that are not drained yet because there are too many
	LeftWhy   error          // why the first of these rings is not drained
	Lost      error          // why this drainer has lost the directory; then it drains nothing
}

// Totals are sums over rings.
type Totals struct {
	Events, Dropped, Rows, Blocks, LogBytes, Holes, Missing, Unread, NotStored, OverRate,
	Failures uint64
	Removed int
}

func (t *Totals) add(c *RingStats) {
	t.Events = addCapped(t.Events, c.Events)
	t.Dropped = addCapped(t.Dropped, c.Dropped)
	t.Rows = addCapped(t.Rows, c.Rows)
	t.Blocks = addCapped(t.Blocks, c.Blocks)
	t.LogBytes = addCapped(t.LogBytes, c.LogBytes)
	t.Holes = addCapped(t.Holes, c.Holes)
	t.Missing = addCapped(t.Missing, c.Missing)
	t.Unread = addCapped(t.Unread, c.Unread)
	t.NotStored = addCapped(t.NotStored, c.NotStored)
	t.OverRate = addCapped(t.OverRate, c.OverRate)
	t.Failures = addCapped(t.Failures, c.Failures)
	t.Removed += c.Removed
}

// addCapped returns the sum of two numbers, or the largest uint64 if the sum overflows. The numbers
// in rings can be anything.
func addCapped(a, b uint64) uint64 {
	if a+b < a {
		return 1<<64 - 1
	}
	return a + b
}

// ringStats returns the ring's present stats.
func (s *source) ringStats() RingStats {
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

// Stats returns the present stats.
func (d *Drainer) Stats() Stats {
	limit := d.Limit()
	d.mu.Lock()
	defer d.mu.Unlock()
	stats := Stats{Limit: limit, Finished: d.finished, Total: d.ended, Table: d.tableError,
		Lost:     d.lostLock,
		SetAside: len(d.aside), Left: d.leftAlone, LeftWhy: d.leftWhy}
	for _, s := range d.sources {
		c := s.ringStats()
		stats.Total.add(&c)
		stats.Rings = append(stats.Rings, c)
	}
	for _, c := range d.aside {
		if c != nil { // nil if d.ended already includes the ring
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
