package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func ringOf(t *testing.T, name, handler string, policy channel.Policy, epoch string,
	ids ...uint64) drain.SampledChannel {
	t.Helper()
	n, err := channel.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	params := channel.Params{}
	if handler == "xoy" {
		params = channel.Params{"x": 1, "y": 2}
	}
	settings, err := channel.NewSettings(handler, params)
	if err != nil {
		t.Fatal(err)
	}
	r := drain.SampledChannel{
		Channel: n, Settings: settings, Policy: policy, Counted: 10, Dropped: 1, Epoch: epoch,
	}
	for _, id := range ids {
		r.Events = append(r.Events, logstore.Event{ID: id, Counter: id + 100})
	}
	return r
}

// If several rings are of one channel, channelsOf adds them up. It counts events of an earlier
// epoch, but leaves them out of the sampled events.
func TestChannelsOfASample(t *testing.T) {
	got := channelsOf([]drain.SampledChannel{
		ringOf(t, "b/x", "id", channel.Block, "e", 1),
		ringOf(t, "a/x", "buffered", channel.Drop, "e", 2),
		ringOf(t, "b/x", "id", channel.Block, "e", 3),
		ringOf(t, "b/x", "id", channel.Block, "old", 4),
		ringOf(t, "c/x", "xoy", channel.Block, "e", 5),
		ringOf(t, "d/x", "counter", channel.Block, ""),
		ringOf(t, "e/x", "id", channel.Overwrite, ""),
	}, "e")
	want := []struct {
		name, keeps     string
		events, dropped uint64
		ids             []uint64
	}{
		{"a/x", control.KeepsAll, 10, 1, []uint64{2}},
		{"b/x", control.KeepsAll, 30, 3, []uint64{1, 3}},
		{"c/x", control.KeepsSome, 10, 1, []uint64{5}},
		{"d/x", control.KeepsNone, 10, 1, nil},
		{"e/x", control.KeepsNone, 10, 1, nil},
	}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, w := range want {
		c := got[i]
		var ids []uint64
		for _, e := range c.Sampled {
			if ids = append(ids, e.ID); e.Reading != e.ID+100 {
				t.Errorf("%s: event %+v", c.Name, e)
			}
		}
		if c.Name != w.name || c.Keeps != w.keeps || c.Events != w.events ||
			c.Dropped != w.dropped || !slices.Equal(ids, w.ids) {
			t.Errorf("%+v, want %+v", c, w)
		}
	}
}

// No matter how many events programs log, a Sample has no more than its limit. It has the events of
// all ids whose depth (channel.SampleDepth) is Bits or more. When programs log less, Bits falls
// again.
func TestSampleKeepsItsLimit(t *testing.T) {
	a := startTest(t, Config{})
	const limit = 100
	s := sampleMaker{depth: 3}
	fill := func(events int) *control.Sample {
		m := &control.Sample{Bits: s.depth, Channels: make([]control.SampledChannel, 2)}
		n := 0
		for id := uint64(1); n < events; id++ {
			if channel.SampleDepth(id) >= s.depth {
				c := &m.Channels[n%2]
				c.Sampled = append(c.Sampled, control.SampledEvent{ID: id})
				n++
			}
		}
		s.adjust(a, m, n, limit)
		return m
	}
	for _, events := range []int{101, 250, 5000} {
		before := s.depth
		m := fill(events)
		left := 0
		for _, c := range m.Channels {
			for _, e := range c.Sampled {
				left++
				if depth := channel.SampleDepth(e.ID); depth < m.Bits {
					t.Errorf("id of depth %d in a sample from %d", depth, m.Bits)
				}
			}
		}
		if left+int(m.Lost) > limit*5/4 || left > limit || m.Bits != s.depth || m.Bits <= before {
			t.Errorf("%d events become %d from depth %d, and %d are lost", events, left, m.Bits,
				m.Lost)
		}
	}
	deep := s.depth
	for range deep {
		if m := fill(10); len(m.Channels[0].Sampled) != 5 || m.Bits != s.depth+1 {
			t.Errorf("with few events: %d, depth %d and then %d", len(m.Channels[0].Sampled),
				m.Bits, s.depth)
		}
	}
	if s.depth != 0 {
		t.Errorf("the depth is %d", s.depth)
	}
	m := &control.Sample{Channels: make([]control.SampledChannel, 1)}
	for range 1000 { // all with id 0, which has the greatest depth
		m.Channels[0].Sampled = append(m.Channels[0].Sampled, control.SampledEvent{})
	}
	if s.adjust(a, m, 1000, limit); len(m.Channels[0].Sampled) != limit || m.Lost != 900 {
		t.Errorf("%d events of one id, %d lost", len(m.Channels[0].Sampled), m.Lost)
	}
}

// An agent sends Samples only for the time that the newest order gives. It can also be closed while
// it sends.
func TestWatchEnds(t *testing.T) {
	c := testConfig(t)
	config := tscclient.DefaultConfig()
	config.Node = tscratio.Node{Name: c.Node, Epoch: "e", Nominal_hz: 1e9, Quantum_cycles: 1}
	config.Clock = minrtt.Clock{Counter: asm.Counter}
	config.Secret = minrtt.NewSecret()
	client, err := tscclient.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	c.Client = client
	a := startTest(t, c)
	sends := func() bool {
		a.watch.mu.Lock()
		defer a.watch.mu.Unlock()
		return a.watch.sending
	}
	a.Watch(&control.Watch{Order: 1, For_ns: 1, Events: 10})
	for end := time.Now().Add(3 * time.Minute); sends(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it goes on")
		}
	}
	a.Watch(&control.Watch{Order: 2, For_ns: int64(time.Hour), Events: 10})
	if !sends() {
		t.Error("it does not begin again")
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
