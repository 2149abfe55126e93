package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// reportShared makes n01 report a train with n00. During the train, both nodes saw a shared clock.
// What n01 says about the clock is wrong by the given number of cycles (lie).
func (f *fleet) reportShared(lie uint64, what string) {
	c, to := f.clients["n01"], f.clients["n00"]
	c.report++
	m := &control.Trains{Report: c.report, Peer: "n00", PeerEpoch: "e1", Epoch: "e1"}
	for range 2 { // the second train met, so a meeting of the first one would be a mistake
		train, took := c.train(to, 5)
		m.Trains = append(m.Trains, train)
		f.time += took
	}
	at := f.time
	own, peer := c.counter(at)+lie, to.counter(at)
	m.Meetings = []control.Meeting{{Train: 1, OwnLo: own, OwnHi: own + 1,
		PeerLo: peer, PeerHi: peer + 1}}
	if m.SharedClock = what; what != "" {
		m.Meetings = nil
	}
	c.send(0, m)
	f.run(time.Millisecond, nil)
}

func (f *fleet) pairOf01() *pair {
	for key, p := range f.core.pairs {
		if key.a == "n00" && key.b == "n01" {
			return p
		}
	}
	f.t.Fatal("no pair")
	return nil
}

// When both nodes see the shared clock, the bound of the pair becomes narrower, whichever of the
// two nodes reports what they saw. Each train says how many moments both nodes saw on the clock.
func TestMeetingsNarrow(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	width := func() uint64 {
		t.Helper()
		p := f.pairOf01()
		r, err := p.liveTrains.Relate(tscratio.SideB, p.liveTrains.Declared.Wander)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Translate(f.clients["n00"].counter(f.time))
		if err != nil {
			t.Fatal(err)
		}
		if truth := f.clients["n01"].counter(f.time); !got.Contains(truth) {
			t.Errorf("%v does not contain the truth %d", got, truth)
		}
		return got.Width()
	}
	wide := width()
	f.reportShared(0, "")
	if narrow := width(); narrow > wide/2 {
		t.Errorf("%d cycles wide with a meeting, %d without it", narrow, wide)
	}
	var last tscratio.Kept
	shared := uint32(0)
	for last = range f.pairOf01().liveTrains.Kept() {
		shared += last.Stamps.Shared
	}
	if shared != 1 || last.Stamps.Shared != 1 {
		t.Errorf("%d moments, %d of them in the last train; want 1", shared, last.Stamps.Shared)
	}
	if p := f.pairOf01(); p.complaint != "" {
		t.Error(p.complaint)
	}
}

// If a node says that a shared clock contradicts packets, the server drops everything that may rest
// on the clock. The matrix names the clock. A run says that it has no trustworthy relation of the
// two nodes.
func TestServerDropsWhatRestsOnALyingClock(t *testing.T) {
	f, _, _ := openedFleet(t)
	f.reportShared(100, "")
	const lie = `shared clock "host 17" contradicts their packets`
	f.reportShared(0, lie)
	p := f.pairOf01()
	for k := range p.liveTrains.Kept() {
		if k.Stamps.Shared > 0 {
			t.Error("a train that rests on the clock is left")
		}
	}
	if p.complaint != lie {
		t.Errorf("complaint %q", p.complaint)
	}
	if n := p.liveTrains.Trains(); n != 2 {
		t.Errorf("%d trains are left, want the 2 of the report that named the clock", n)
	}
	f.ask(AskStopRun, nil)
	missing, _ := f.waitComplete()
	for _, m := range missing {
		if m.Part == runs.RelationPath("n00", "n01") && strings.Contains(m.Reason, lie) {
			return
		}
	}
	t.Errorf("the run lacks %v, and does not name the clock", missing)
}
