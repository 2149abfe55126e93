package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// watchedFleet starts a fleet. All nodes except the last can send Samples.
func watchedFleet(t *testing.T) *fleet {
	f := newFleet(t, testConfig(), names(4)...)
	for name, c := range f.clients {
		if name != "n03" {
			c.register.Capabilities = append(c.register.Capabilities, control.CanWatch)
		}
		c.connect()
	}
	f.wantSweep(time.Minute)
	return f
}

func (f *fleet) watch(r WatchRequest) *WatchAnswer {
	f.t.Helper()
	return answered[*WatchAnswer](f.t, f.ask(AskWatch, r))
}

// tellSample sends the server a Sample from this client's node.
func (c *fakeClient) tellSample(number uint64, events int) {
	m := &control.Sample{
		Stream: "s", Number: number, Epoch: c.register.Epoch,
		Channels: []control.SampledChannel{{
			Name: "a/x", Keeps: control.KeepsAll, Sampled: make([]control.SampledEvent, events),
		}},
	}
	for i := range m.Channels[0].Sampled {
		m.Channels[0].Sampled[i] = control.SampledEvent{ID: number, Reading: uint64(i)}
	}
	c.send(0, m)
	c.f.run(time.Millisecond, nil)
}

// While nobody watches, the server sends no orders, and keeps no Samples.
func TestNobodyWatches(t *testing.T) {
	f := watchedFleet(t)
	c := f.clients["n00"]
	c.tellSample(1, 10)
	f.run(time.Minute, nil)
	if len(c.watches) > 0 || len(f.core.nodes["n00"].newestSamples) > 0 {
		t.Errorf("ordered %+v, kept %d", c.watches, len(f.core.nodes["n00"].newestSamples))
	}
}

// The server orders nodes to send Samples only while a client asks, and then orders all nodes that
// can send them. The order that an answer names is one that the server sent after the question had
// arrived.
func TestNodesAreOrderedWhileSomebodyWatches(t *testing.T) {
	f := watchedFleet(t)
	begun := f.time
	for f.time-begun < 10*time.Second {
		before := len(f.clients["n00"].watches)
		a := f.watch(WatchRequest{})
		f.run(100*time.Millisecond, nil)
		for _, w := range f.clients["n00"].watches[:before] {
			if w.Order >= a.Order {
				t.Fatalf("order %d was sent before the question whose answer says %d", w.Order,
					a.Order)
			}
		}
	}
	f.run(time.Minute, nil)
	for name, c := range f.clients {
		least, most := 19, 26
		if name == "n03" {
			least, most = 0, 0
		}
		if n := len(c.watches); n < least || n > most {
			t.Errorf("%s got %d orders in 10 s, want %d to %d", name, n, least, most)
		}
		for _, w := range c.watches {
			if w.Events*3 > watchEvents || time.Duration(w.For_ns) != watchLasts {
				t.Errorf("order %+v", w)
			}
		}
	}
}

// A client that watches gets each Sample of a present epoch once, with all its events.
func TestSamplesAreForwarded(t *testing.T) {
	f := watchedFleet(t)
	a := f.watch(WatchRequest{})
	if len(a.Samples) > 0 || len(a.Nodes) != 4 || a.Nodes[3].CanWatch || !a.Nodes[0].CanWatch {
		t.Errorf("the first answer is %+v", a)
	}
	f.clients["n00"].tellSample(1, 3)
	f.clients["n01"].tellSample(1, 4)
	old := f.clients["n02"].register.Epoch
	f.clients["n02"].register.Epoch = "another"
	f.clients["n02"].tellSample(1, 5)
	f.clients["n02"].register.Epoch = old
	a = f.watch(WatchRequest{After: a.Seq})
	if len(a.Samples) != 2 {
		t.Fatalf("samples %+v", a.Samples)
	}
	for i, want := range []int{3, 4} {
		s := a.Samples[i]
		if err := control.DecodeSampled(s.Events, s.Channels); err != nil ||
			len(s.Channels[0].Sampled) != want || s.Number != 1 {
			t.Errorf("sample %+v, %v", s, err)
		}
	}
	f.clients["n00"].tellSample(2, 1)
	a = f.watch(WatchRequest{After: a.Seq})
	if len(a.Samples) != 1 || a.Samples[0].Node != "n00" || a.Samples[0].Number != 2 {
		t.Errorf("then the samples are %+v", a.Samples)
	}
	f.run(watchLasts+time.Second, nil)
	if a = f.watch(WatchRequest{}); len(a.Samples) > 0 {
		t.Errorf("samples of an earlier watch: %+v", a.Samples)
	}
}

// If a node floods the server with Samples, the server's memory stays limited, and the Samples of
// other nodes still come through.
func TestFloodOfSamples(t *testing.T) {
	f := watchedFleet(t)
	a := f.watch(WatchRequest{})
	f.clients["n01"].tellSample(1, 4)
	for i := range uint64(500) {
		f.clients["n00"].tellSample(i+1, control.MaxSampled)
	}
	a = f.watch(WatchRequest{After: a.Seq})
	by, events := map[string]int{}, 0
	for _, s := range a.Samples {
		if by[s.Node]++; s.Node == "n00" {
			events += control.MaxSampled
		}
	}
	if by["n01"] != 1 || by["n00"] == 0 || by["n00"] > maxWatched || events > maxWatchedEvents {
		t.Errorf("samples %v with %d events", by, events)
	}
}

// The measurements in an answer give the same relations as the measurements of the whole fleet.
func TestPairsOfWhoWatches(t *testing.T) {
	f := watchedFleet(t)
	f.openRun("r")
	f.run(40*time.Second, nil)
	a := f.watch(WatchRequest{Pairs: [][2]string{{"n01", "n00"}, {"n00", "nobody"}}})
	if len(a.Pairs) != 1 || a.Run != "r" || a.Phase != PhaseOpen {
		t.Fatalf("%d pairs, run %q %q", len(a.Pairs), a.Run, a.Phase)
	}
	p, err := tscratio.DecodePair(a.Pairs[0])
	if err != nil {
		t.Fatal(err)
	}
	whole := f.core.pairs[f.core.current[[2]string{"n00", "n01"}]]
	if p.Trains() < leastTrains {
		t.Errorf("%d trains of %d", p.Trains(), whole.liveTrains.Trains())
	}
	for k := range p.Kept() {
		if age := whole.readB - k.B.Lo; k.B.Lo < whole.readB && age > 20*p.B.Nominal_hz {
			t.Errorf("a train of %d cycles ago", age)
		}
	}
	r, err := p.Relate(tscratio.SideA, p.Declared.Wander)
	if err != nil {
		t.Fatal(err)
	}
	at, err := r.Translate(whole.readB)
	if err != nil {
		t.Fatal(err)
	}
	status := PairStatus{From: "n01", Into: "n00", Reading_cycles: whole.readB, Lo_cycles: at.Lo,
		Hi_cycles: at.Hi}
	if truth, ok := f.holdsTruth(status); !ok {
		t.Errorf("%d is in %v, and %d in truth", whole.readB, at, truth)
	}
	why := f.refusalText(AskWatch, WatchRequest{Pairs: make([][2]string, MaxWatchedPairs+1)})
	if !strings.Contains(why, "513 pairs") {
		t.Errorf("refused: %s", why)
	}
}
