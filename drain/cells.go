package drain

import (
	"slices"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// logCells writes the results of the handlers counter and first-last to the log: samples that are
// due, or the present values in the ring's cells.
func (s *source) logCells(w *worker, now phase) error {
	final := now != programLives
	counting := s.settings.Kind == channel.Counter && now != programGone
	if counting {
		if err := s.d.sampler.startSampling(s, w.now); err != nil {
			return err
		}
	}
	left := !counting && s.sampling != nil // the sampling of the ring ends now
	if s.sampling != nil {
		if err := s.takeSamples(w, final || left); err != nil {
			return err
		}
	}
	if left {
		s.d.sampler.stopSampling(s)
	}
	if final || left {
		if err := s.lastSample(w); err != nil {
			return err
		}
	}
	if final || s.settings.Kind == channel.FirstLast && w.now >= s.nextCells {
		if err := s.takeFirstLast(w); err != nil {
			return err
		}
		s.nextCells = w.now + s.holdTime()
	}
	return nil
}

// takeSamples writes the waiting samples of a ring to the log if they are old enough, if there are
// enough of them for a block, or if the argument all is true.
func (s *source) takeSamples(w *worker, all bool) error {
	rows, since := s.d.sampler.waitingSamples(s)
	if len(rows) == 0 || !all && w.now-since < s.holdTime() && len(rows) < samplesKept/2 {
		return nil
	}
	if err := s.appendBlock(&w.block,
		logstore.Block{First: s.log.Next(logstore.Samples, 0), Samples: rows}); err != nil {
		return err
	}
	s.counted = rows[len(rows)-1].Count
	s.count(func(c *RingStats) { c.Counted = s.counted })
	s.d.sampler.dropSamples(s, len(rows))
	return nil
}

// lastSample writes one more sample if the count has changed since the last sample.
func (s *source) lastSample(w *worker) error {
	var count [1]uint64
	var failed [1]error
	before, _ := ring.Sweep([]*ring.Reader{&s.ring.Reader}, count[:], failed[:])
	if failed[0] != nil {
		return failed[0]
	}
	if count[0] == s.counted {
		return nil
	}
	row := []logstore.Sample{{Counter: before, Count: count[0]}}
	if err := s.appendBlock(&w.block,
		logstore.Block{First: s.log.Next(logstore.Samples, 0), Samples: row}); err != nil {
		return err
	}
	s.counted = count[0]
	s.count(func(c *RingStats) { c.Counted = s.counted })
	return nil
}

func (s *source) takeFirstLast(w *worker) error {
	now, err := s.ring.FirstAndLast()
	if err != nil || now == s.firstLast {
		return err
	}
	row := []logstore.FirstLast{{
		Count: now.Count, FirstCounter: now.First.Counter, FirstID: now.First.ID,
		LastCounter: now.Last.Counter, LastID: now.Last.ID, Poison: now.PoisonCounter,
	}}
	if err := s.appendBlock(&w.block,
		logstore.Block{First: s.log.Next(logstore.FirstLasts, 0), FirstLasts: row}); err != nil {
		return err
	}
	s.firstLast = now
	s.count(func(c *RingStats) { c.Counted = now.Count })
	return nil
}

// fromRow is the inverse of what takeFirstLast does: it makes a cell's content from a row.
func fromRow(r logstore.FirstLast) ring.FirstAndLast {
	return ring.FirstAndLast{
		Count: r.Count, First: ring.Record{Counter: r.FirstCounter, ID: r.FirstID},
		Last: ring.Record{Counter: r.LastCounter, ID: r.LastID}, PoisonCounter: r.Poison,
	}
}

// sampler takes the samples of all counting channels. If the periods of several channels end at the
// same instant, it reads these channels together. The sampler continues even while a worker waits
// for a slow disk.
type sampler struct {
	changed chan struct{} // tells the sampler that there is another ring

	mu    sync.Mutex // protects the fields below it
	all   []*ringSampling
	rings []*ring.Reader // the rings of the present call of takeDueSamples
	due   []*ringSampling
	count []uint64
	fault []error
}

// ringSampling has what the sampler knows about one ring.
type ringSampling struct {
	reader *ring.Reader
	period time.Duration
	due    time.Duration

	rows  []logstore.Sample // samples that are not yet in the log
	since time.Duration     // when the sampler took the first of these rows
	err   error
}

// samplesKept is the number of samples of a ring that may wait while the log cannot be written.
// Beyond this number, later samples are left out. No count is lost: only the step to the next
// sample in the log is larger.
const samplesKept = 4096

// startSampling begins to sample a ring with the period in its present settings.
func (p *sampler) startSampling(s *source, now time.Duration) error {
	period := time.Duration(s.settings.A)
	if s.sampling == nil {
		s.sampling = &ringSampling{reader: &s.ring.Reader, period: period,
			due: nextDue(now, period)}
		p.mu.Lock()
		p.all = append(p.all, s.sampling)
		p.mu.Unlock()
		p.wake()
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.sampling.period != period {
		s.sampling.period, s.sampling.due = period, nextDue(now, period)
		p.wake()
	}
	return s.sampling.err
}

// nextDue returns the next multiple of the period. So the sampler reads all channels with the same
// period at the same instants, whenever their programs opened them.
func nextDue(now, period time.Duration) time.Duration { return now - now%period + period }

func (p *sampler) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// waitingSamples returns the waiting samples of a ring, and the time when the first of them was
// taken. The caller may read the samples until it calls dropSamples.
func (p *sampler) waitingSamples(s *source) ([]logstore.Sample, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.sampling.rows[:len(s.sampling.rows):len(s.sampling.rows)], s.sampling.since
}

// dropSamples removes the first n waiting samples.
func (p *sampler) dropSamples(s *source, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.sampling.rows = append(make([]logstore.Sample, 0, 16), s.sampling.rows[n:]...)
}

// stopSampling ends the sampling of a ring.
func (p *sampler) stopSampling(s *source) {
	if s.sampling == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(one *ringSampling) bool { return one == s.sampling })
	s.sampling = nil
}

// sweepTries is how many times takeDueSamples reads the counts. takeDueSamples uses the quickest
// attempt. If the thread loses its core during an attempt, the attempt takes long, and nobody knows
// at which moment the counts were true.
const sweepTries = 3

// takeDueSamples takes the samples that are due, and returns the time when the next samples are
// due.
func (p *sampler) takeDueSamples(now time.Duration) (next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rings, p.due = p.rings[:0], p.due[:0]
	next = now + time.Hour
	for _, one := range p.all {
		if one.err != nil {
			continue // the ring failed, and its worker has not seen the error yet
		}
		if one.due <= now {
			p.rings, p.due = append(p.rings, one.reader), append(p.due, one)
			one.due = nextDue(now, one.period)
		}
		next = min(next, one.due)
	}
	if len(p.due) == 0 {
		return next
	}
	n := len(p.due)
	p.count, p.fault = slices.Grow(p.count[:0], 2*n)[:2*n], slices.Grow(p.fault[:0], n)[:n]
	var at, width uint64
	for try := range sweepTries {
		before, after := ring.Sweep(p.rings, p.count[n:], p.fault)
		if try == 0 || after-before < width {
			at, width = before, after-before
			copy(p.count[:n], p.count[n:])
		}
	}
	for i, one := range p.due {
		if one.err = p.fault[i]; one.err != nil {
			continue
		}
		row := logstore.Sample{Counter: at, Count: p.count[i]}
		if len(one.rows) == 0 {
			one.since = now
		}
		if len(one.rows) < samplesKept {
			one.rows = append(one.rows, row)
		}
	}
	return next
}
