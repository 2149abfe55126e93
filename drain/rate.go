package drain

import (
	"time"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// rate limits the rows of a log to the handler table's rule. It is a bucket that holds two seconds'
// worth and begins full. It is filled once a second, so that a channel above its rate has one gap a
// second and not one a look.
type rate struct {
	perSecond uint64 // 0: no limit
	left      uint64
	filled    time.Duration
}

const rateFill = time.Second

// set changes the rate. If the rate is another one, its bucket begins full.
func (r *rate) set(perSecond uint64) {
	if r.perSecond != perSecond {
		*r = rate{perSecond: perSecond, left: 2 * perSecond}
	}
}

// take returns how many of the rows may be kept.
func (r *rate) take(now time.Duration, rows uint64) uint64 {
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

// takeOverRate accounts for the rows from..to of the worker's buffer. The shard's head is at the
// first of them. The log is told before the ring, as for stored rows. So a death in between makes
// neither more nor less rows missing.
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
