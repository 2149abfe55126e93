package drain

import (
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// sampledCounts adds up one channel's counts and events over several samples.
type sampledCounts struct {
	counted, dropped uint64
	ids              map[uint64]int
}

func (t *sampledCounts) add(s Sampled, name string) {
	for _, c := range s.Channels {
		if c.Channel.String() != name {
			continue
		}
		t.counted += c.Counted
		t.dropped += c.Dropped
		for _, e := range c.Events {
			t.ids[e.ID]++
		}
	}
}

// Each event is counted once, and Sample returns each sampled event once. This also holds for a
// ring that is removed before Sample is called.
func TestSample(t *testing.T) {
	const depth = 1 // at most the depth of channel.Poison, so it is sampled
	r := newRig(t, Options{})
	c := r.open("a/x", handlers.Options{Handler: "buffered"})
	c.Log(1 << 40) // logged before SampleFrom
	r.runFor(time.Second)
	r.d.SampleFrom(depth)
	r.d.Sample()
	got := sampledCounts{ids: map[uint64]int{}}
	id := uint64(1)
	for range 20 {
		for range 100 {
			c.Log(id)
			id++
		}
		r.runFor(2 * DefaultPoll)
		got.add(r.d.Sample(), "a/x")
	}
	for range 100 {
		c.Log(id)
		id++
	}
	c.Log(channel.Poison)
	c.Close()
	r.runFor(time.Second)
	if n := len(r.d.Stats().Rings); n > 0 {
		t.Fatalf("%d rings are there", n)
	}
	got.add(r.d.Sample(), "a/x")
	if got.counted != id { // one of the events has the id channel.Poison
		t.Errorf("%d events are counted, %d were logged", got.counted, id)
	}
	for i := range id {
		want := 0
		if i > 0 && channel.SampleDepth(i) >= depth {
			want = 1
		}
		if got.ids[i] != want {
			t.Errorf("id %d of depth %d came %d times", i, channel.SampleDepth(i), got.ids[i])
		}
		delete(got.ids, i)
	}
	if len(got.ids) > 0 {
		t.Errorf("ids that were not sampled: %v", got.ids)
	}
	r.d.SampleFrom(-1)
	d := r.open("b/x", handlers.Options{Handler: "buffered"})
	for id := range uint64(100) {
		d.Log(id)
	}
	r.runFor(2 * time.Second)
	got = sampledCounts{ids: map[uint64]int{}}
	if got.add(r.d.Sample(), "b/x"); len(got.ids) > 0 {
		t.Errorf("%d ids are sampled after the end", len(got.ids))
	}
}

// Every event that was logged longer than Behind ago is in the samples, even if its handler makes
// events wait in the ring.
func TestSampleSaysHowFarBehindItIs(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/x", handlers.Options{Handler: "buffered"})
	r.runFor(time.Second)
	r.d.SampleFrom(0)
	r.d.Sample()
	var logged []time.Duration // moment of each event, by id
	seen := map[uint64]bool{}
	worst := time.Duration(0)
	for range 300 {
		logged = append(logged, r.clock)
		c.Log(uint64(len(logged) - 1))
		r.advanceClock(7 * time.Millisecond)
		s := r.d.Sample()
		for _, one := range s.Channels {
			for _, e := range one.Events {
				seen[e.ID] = true
			}
		}
		for id, at := range logged {
			if at < r.clock-s.Behind && !seen[uint64(id)] {
				t.Fatalf("at %v the drainer is behind by %v, and lacks the event of %v",
					r.clock, s.Behind, at)
			}
		}
		worst = max(worst, s.Behind)
	}
	if worst > identityHold+2*DefaultPoll {
		t.Errorf("the drainer is %v behind", worst)
	}
}

// If a sample has no room for events, they are counted as lost. The next call of Sample makes room
// again.
func TestSampleWithoutRoom(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/x", handlers.Options{Handler: "id", Buffer: "2MiB"})
	r.d.SampleFrom(0)
	r.d.Sample()
	for id := range uint64(sampleRoom + 10) {
		c.Log(id)
	}
	r.runFor(time.Second)
	s := r.d.Sample()
	if s.Lost != 10 || len(s.Channels[0].Events) != sampleRoom {
		t.Errorf("%d lost of %d", s.Lost, len(s.Channels[0].Events))
	}
	c.Log(1)
	r.runFor(time.Second)
	if s := r.d.Sample(); s.Lost != 0 || len(s.Channels[0].Events) != 1 {
		t.Errorf("afterwards %d lost of %d", s.Lost, len(s.Channels[0].Events))
	}
}

// The sample of a flight recorder has only counts, because the records stay in the ring. So such a
// ring never increases Behind.
func TestSampleOfFlightRecorder(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/x", handlers.Options{Handler: "id", Policy: "overwrite"})
	r.d.SampleFrom(0)
	r.d.Sample()
	for id := range uint64(100) {
		c.Log(id)
	}
	r.runFor(10 * time.Second)
	if s := r.d.Sample(); s.Channels[0].Counted != 100 || len(s.Channels[0].Events) != 0 ||
		s.Behind > time.Second {
		t.Errorf("%+v", s)
	}
}

// Sample also counts the events of channels whose handlers keep no events.
func TestSampleCounts(t *testing.T) {
	r := newRig(t, Options{})
	counter := r.open("a/counter", handlers.Options{
		Handler: "counter", Params: channel.Params{"period": "20ms"},
	})
	ends := r.open("a/ends", handlers.Options{Handler: "first-last"})
	r.runFor(time.Second)
	r.d.SampleFrom(0)
	r.d.Sample()
	for id := range uint64(100) {
		counter.Log(id)
		ends.Log(id)
	}
	r.runFor(300 * time.Millisecond)
	for _, c := range r.d.Sample().Channels {
		if c.Counted != 100 {
			t.Errorf("%s: %d events", c.Channel, c.Counted)
		}
	}
}
