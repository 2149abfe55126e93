package drain

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// Sampled is what passed the drainer since the previous call of Sample.
type Sampled struct {
	Channels []SampledChannel // one for each ring
	Lost     uint64           // sampled events that had no room

	// Behind says how late the drainer is. Every record that a program logged longer than Behind
	// ago is in this Sampled or in an earlier one.
	Behind time.Duration
}

// SampledChannel is what passed through one ring, as a part of a Sampled.
type SampledChannel struct {
	Channel  channel.Name
	Settings channel.Settings
	Policy   channel.Policy
	Stamp    channel.Stamp
	Counted  uint64 // events that were logged, sampled or not
	Dropped  uint64 // events that the program dropped
	Epoch    string // the epoch in which Events were logged
	Events   []logstore.Event
}

const (
	// sampleRoom is the number of events that may wait for Sample.
	sampleRoom = 1 << 15

	// sampleGone is the largest number of removed rings for which the drainer keeps a sample until
	// the next call of Sample.
	sampleGone = 256
)

// sampleState is the state of the drainer's sampling. While sampling is off, its only cost is one
// atomic load for each block of records.
type sampleState struct {
	from atomic.Int64 // 1 + the least depth of a sampled id (see SampleFrom); 0: off
	room atomic.Int64
	lost atomic.Uint64

	mu   sync.Mutex // guards gone
	gone []SampledChannel
}

func (p *sampleState) on() bool { return p.from.Load() > 0 }

// SampleFrom makes the drainer sample events for Sample. An event is sampled if its id has at least
// this depth (channel.SampleDepth). A negative depth ends the sampling. While the drainer samples,
// no event of any handler waits longer in its ring than an event of the handler id. So the blocks
// of logs are shorter.
func (d *Drainer) SampleFrom(depth int) { d.sample.from.Store(int64(max(depth, -1) + 1)) }

// Sample returns what passed the drainer since the previous call. The counts of the first call
// after SampleFrom also include events from before SampleFrom.
func (d *Drainer) Sample() (now Sampled) {
	p := &d.sample
	p.room.Store(sampleRoom)
	p.mu.Lock()
	now.Channels, p.gone = p.gone, nil
	p.mu.Unlock()
	at := d.now()
	clear := at
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sources {
		now.Channels = append(now.Channels, s.sampleNow())
		if s.header.Policy != channel.Overwrite {
			clear = min(clear, time.Duration(s.clearAt.Load()))
		}
	}
	now.Lost = p.lost.Swap(0)
	now.Behind = at - clear
	return now
}

// keepSample stores the sample of a ring that the drainer is about to remove, for the next call of
// Sample.
func (p *sampleState) keepSample(s *source) {
	if !p.on() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one := s.sampleNow()
	if len(p.gone) >= sampleGone {
		p.lost.Add(max(1, uint64(len(one.Events))))
		return
	}
	p.gone = append(p.gone, one)
}

// returnedCounts is about one ring. It contains the counts that Sample has already returned, and
// the sampled events that Sample has not returned yet.
type returnedCounts struct {
	counted, dropped uint64
	epoch            string
	events           []logstore.Event
}

// sampleNow returns what passed through the ring since the previous call.
func (s *source) sampleNow() SampledChannel {
	c := s.ringStats()
	counted := addCapped(c.Events, c.Counted)
	s.mu.Lock()
	defer s.mu.Unlock()
	one := SampledChannel{
		Channel: c.Channel, Settings: c.Settings, Policy: c.Policy, Stamp: s.header.Stamp,
		Counted: counted - min(counted, s.told.counted),
		Dropped: c.Dropped - min(c.Dropped, s.told.dropped),
		Epoch:   s.told.epoch, Events: s.told.events,
	}
	s.told = returnedCounts{counted: counted, dropped: c.Dropped, epoch: s.told.epoch}
	return one
}

// takeSample looks at the first rows in the worker's buffer, and adds those with deep enough ids to
// the ring's sample. If the epoch of the rows is uncertain, it adds none.
func (s *source) takeSample(w *worker, rows int) {
	p := &s.d.sample
	from := int(p.from.Load()) - 1
	if from < 0 || s.kind != logstore.Events || s.breaks != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told.epoch != s.epoch {
		s.told.epoch, s.told.events = s.epoch, nil
	}
	for _, e := range w.events[:rows] {
		if channel.SampleDepth(e.ID) < from || e.ID == channel.Poison {
			continue
		}
		if p.room.Add(-1) < 0 {
			p.lost.Add(1)
			continue
		}
		s.told.events = append(s.told.events, e)
	}
}

// noteClear notes in clearAt the latest moment for which this is certain: the drainer has taken all
// records that were logged before it.
func (s *source) noteClear() {
	clear := s.places[0].clear
	for i := range s.places {
		clear = min(clear, s.places[i].clear)
	}
	s.clearAt.Store(int64(clear))
}
