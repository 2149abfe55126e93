package drain

import (
	"time"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// A rowRate limits the rows of a log to the rate in the handler table. A rate is a token bucket
// with room for the rows of two seconds, and is full at the beginning. The bucket is refilled only
// once per second. So a channel above its rate has one gap each second, and not one each time it is
// drained.
type rowRate struct {
	perSecond uint64 // 0: no limit
	left      uint64
	filled    time.Duration
}

const rateFill = time.Second

// setRate sets the rate. If the rate changes, the bucket is full again.
func (r *rowRate) setRate(perSecond uint64) {
	if r.perSecond != perSecond {
		*r = rowRate{perSecond: perSecond, left: 2 * perSecond}
	}
}

// allowRows returns how many of the rows the drainer may store.
func (r *rowRate) allowRows(now time.Duration, rows uint64) uint64 {
	if r.perSecond == 0 {
		return rows
	}
	switch since := now - r.filled; {
	case since >= 2*rateFill:
		r.left, r.filled = 2*r.perSecond, now
	case since >= rateFill:
		r.left, r.filled = min(r.left+uint64(float64(r.perSecond)*since.Seconds()), 2*r.perSecond),
			now
	}
	kept := min(rows, r.left)
	r.left -= kept
	return kept
}

// takeOverRate notes in the log that a range of rows in the worker's buffer is not stored. The
// shard's head must be at the first of these rows. The log is written before the ring's head moves,
// as for stored rows. So the number of missing rows is right even if the drainer dies in between.
func (s *source) takeOverRate(w *worker, i int, from, to uint64) error {
	if err := s.takeSkipped(w, i); err != nil {
		return err
	}
	p := &s.places[i]
	drop := logstore.Drop{Reason: uint64(logstore.OverRate), At: p.head / s.per, Count: to - from}
	if s.kind == logstore.Events {
		drop.FirstCounter, drop.LastCounter = w.records[from].Counter, w.records[to-1].Counter
	}
	if err := s.appendDrop(w, i, drop); err != nil {
		return err
	}
	s.count(func(c *RingStats) { c.OverRate += to - from })
	p.head += (to - from) * s.per
	return s.release(i)
}
