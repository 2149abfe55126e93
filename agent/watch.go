package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/drain"
)

const (
	// samplePeriod is the time between two Samples.
	samplePeriod = 200 * time.Millisecond

	// firstDepth is the least depth (channel.SampleDepth) of the ids that the first Sample
	// contains. Later the agent adjusts the depth.
	firstDepth = 6

	// sampleNames is the most bytes that the names and handlers of all channels in a Sample may
	// take.
	sampleNames = 40 << 10
)

// watch sends Samples (control.Sample) to the server while somebody watches. While nobody watches,
// it has no goroutine. Any goroutine may call its methods.
type watch struct {
	mu      sync.Mutex // guards all fields below
	order   uint64     // number of the newest control.Watch
	arrived time.Time  // when the newest control.Watch arrived
	until   time.Time  // when the sending ends, unless another order arrives
	events  int        // the most events that the agent sends in a second
	sending bool
}

// Watch obeys an order to send Samples.
func (a *Agent) Watch(m *control.Watch) {
	w := &a.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order, w.arrived, w.events = m.Order, time.Now(), m.Events
	w.until = w.arrived.Add(time.Duration(m.For_ns))
	if m.For_ns > 0 && !w.sending && a.ctx.Err() == nil {
		w.sending = true
		a.running.Go(a.sendSamples)
	}
}

// now returns the latest order, the time at which it arrived, and the largest number of events in a
// Sample. Only the sending goroutine calls this method. If more is false, the sending has ended,
// and this goroutine must return.
func (w *watch) now(a *Agent) (order uint64, arrived time.Time, limit int, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.ctx.Err() != nil || !time.Now().Before(w.until) {
		w.sending = false
		// End the sampling under the lock: after the lock is released, the next order may begin
		// sampling again.
		a.drainer.SampleFrom(-1)
	}
	limit = int(time.Duration(w.events) * samplePeriod / time.Second)
	return w.order, w.arrived, min(max(limit, 1), control.MaxSampled), w.sending
}

// sendSamples sends a Sample every period until nobody watches any more.
func (a *Agent) sendSamples() {
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	s := sampleMaker{depth: firstDepth}
	for {
		order, arrived, limit, more := a.watch.now(a)
		if !more {
			return
		}
		epoch := a.epochs.epoch()
		if epoch != s.stream.Epoch {
			s.begin(a, epoch)
		} else if m := s.next(a, order, arrived, limit); a.epochs.epoch() == epoch {
			a.tellSample(m)
		}
		select {
		case <-ticker.C:
		case <-a.ctx.Done():
		}
	}
}

// tellSample sends a Sample. If the Sample does not arrive, the server sees a gap in the numbers of
// the Samples.
func (a *Agent) tellSample(m *control.Sample) {
	link := a.link.Load()
	if link == nil { // the first order came while the agent was connecting
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, tellLimit)
	defer cancel()
	_ = link.Tell(ctx, m)
}

// sampleMaker makes Samples of the events that pass the drainer. Only one goroutine may use it.
type sampleMaker struct {
	stream control.Sample // the fields that all Samples of the stream share
	depth  int            // the least depth of the sampled ids
}

// begin begins a stream of Samples. The agent calls it after the first order, and after the node's
// counter was interrupted.
func (s *sampleMaker) begin(a *Agent, epoch string) {
	a.drainer.SampleFrom(s.depth)
	now := a.c.Client.Counter()
	s.stream = control.Sample{
		Stream: rand.Text(), Epoch: epoch, Began_cycles: now, Until_cycles: now,
	}
	a.drainer.Sample() // drop the events that passed before
}

// next returns the next Sample. limit is the largest number of events that it may contain.
func (s *sampleMaker) next(a *Agent, order uint64, arrived time.Time, limit int) *control.Sample {
	now, counter := time.Now(), a.c.Client.Counter()
	of := a.drainer.Sample()
	s.stream.Number++
	m := s.stream
	m.Order, m.Since_ns = order, int64(now.Sub(arrived)-of.Behind)
	m.Made_cycles = counter
	behind := cyclesOf(of.Behind, a.c.Client.Node().Nominal_hz)
	m.Until_cycles = max(s.stream.Until_cycles, counter-min(counter, behind))
	s.stream.Until_cycles = m.Until_cycles // rounding must not make Until_cycles smaller
	m.Bits, m.Lost = s.depth, of.Lost
	m.Channels = channelsOf(of.Channels, m.Epoch)
	events, names := 0, 0
	for i, c := range m.Channels {
		names += len(c.Name) + len(c.Handler)
		if i == control.MaxSampledChannels || names > sampleNames {
			m.Left = len(m.Channels) - i
			m.Channels = m.Channels[:i]
			break
		}
		events += len(c.Sampled)
	}
	s.adjust(a, &m, events, limit)
	return &m
}

// cyclesOf returns the number of cycles that the counter counts in a given time, or slightly more.
func cyclesOf(d time.Duration, hz uint64) uint64 {
	return uint64(d.Seconds() * float64(hz) * 1.001)
}

// channelsOf combines rings that have the same channel, settings, policy and stamp. It sorts the
// channels by name. It leaves out the sampled events of other epochs.
func channelsOf(rings []drain.SampledChannel, epoch string) []control.SampledChannel {
	type key struct {
		name     channel.Name
		settings channel.Settings
		policy   channel.Policy
		stamp    channel.Stamp
	}
	at := map[key]int{}
	channels := []control.SampledChannel{}
	for _, r := range rings {
		if r.Channel.String() == blackbox.Channel {
			continue // its events are messages and no tuples
		}
		k := key{r.Channel, r.Settings, r.Policy, r.Stamp}
		i, ok := at[k]
		if !ok {
			i = len(channels)
			at[k] = i
			channels = append(channels, control.SampledChannel{
				Name: r.Channel.String(), Handler: r.Settings.String(),
				Keeps:        keepsWhich(r.Settings.Kind, r.Policy),
				Slack_cycles: r.Stamp.OrderingSlack_cycles(),
			})
		}
		c := &channels[i]
		c.Events += r.Counted
		c.Dropped += r.Dropped
		if r.Epoch != epoch {
			continue
		}
		for _, e := range r.Events {
			c.Sampled = append(c.Sampled, control.SampledEvent{ID: e.ID, Reading: e.Counter})
		}
	}
	slices.SortFunc(channels, func(x, y control.SampledChannel) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Handler, y.Handler))
	})
	return channels
}

// keepsWhich says how many events of a channel with this handler and policy get into logs: all,
// some or none.
func keepsWhich(kind channel.Kind, policy channel.Policy) string {
	switch {
	case policy == channel.Overwrite: // its events stay in the ring
		return control.KeepsNone
	case kind.KeepsAll():
		return control.KeepsAll
	case kind.KeepsSome():
		return control.KeepsSome
	}
	return control.KeepsNone
}

// adjust limits the events of a Sample. If there are too many, adjust raises the least depth, and
// removes the events whose ids are less deep. If there are few, adjust lowers the least depth of
// the next Sample by one.
func (s *sampleMaker) adjust(a *Agent, m *control.Sample, events, limit int) {
	before := s.depth
	if events < limit/3 && s.depth > 0 {
		s.depth--
	}
	var at [control.MaxSampleBits + 1]int // events by depth
	for _, c := range m.Channels {
		for _, e := range c.Sampled {
			at[min(channel.SampleDepth(e.ID), control.MaxSampleBits)]++
		}
	}
	for left := events; left > limit && s.depth < control.MaxSampleBits; s.depth++ {
		left -= at[s.depth]
	}
	if s.depth != before {
		a.drainer.SampleFrom(s.depth)
	}
	if s.depth <= before {
		return
	}
	m.Bits = s.depth
	for i := range m.Channels {
		c := &m.Channels[i]
		kept := c.Sampled[:0]
		for _, e := range c.Sampled {
			if channel.SampleDepth(e.ID) < s.depth {
				continue
			}
			if limit--; limit < 0 { // an id may occur many times
				m.Lost++
				continue
			}
			kept = append(kept, e)
		}
		c.Sampled = kept
	}
}
