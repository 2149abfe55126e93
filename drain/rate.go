package drain

import (
	"time"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// rate is how many rows a log may take by the handler table's rule: a bucket that holds two seconds' worth and begins full. It is filled up once in
// a second, so that a channel that is over its rate has one gap a second and not one a look.
type rate struct {
	perSecond uint64 // 0: no bound
	left      uint64
	filled    time.Duration
}

const rateFill = time.Second

// set changes the rate. A bucket of another rate begins full.
func (r *rate) set(perSecond uint64) {
	if r.perSecond != perSecond {
		*r = rate{perSecond: perSecond, left: 2 * perSecond}
	}
}

// take returns how many of some rows may be kept.
func (r *rate) take(now time.Duration, rows uint64) uint64 {
	if r.perSecond == 0 {
		return rows
	}
	switch since := now - r.filled; {
	case since >= 2*rateFill:
		r.left, r.filled = 2*r.perSecond, now
	case since >= rateFill:
		r.left, r.filled = min(r.left+uint64(float64(r.perSecond)*since.Seconds()), 2*r.perSecond), now
	}
	kept := min(rows, r.left)
	r.left -= kept
	return kept
}

// takeOverRate accounts for rows from..to of the worker's buffer, the first of which the shard's head has come to. The log is told before the ring, as of rows that
// are stored: who dies in between leaves neither more nor less missing.
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
