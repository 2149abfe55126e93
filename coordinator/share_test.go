package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// The server ends the registration of a node that gives it endless work, and still measures the
// other nodes. If that node comes back, its reports are not lost.
func TestANodeHasItsShareOfTheServer(t *testing.T) {
	f := newFleet(t, testConfig(), names(4)...)
	f.wantSweep(time.Minute)
	c := f.clients["n00"]
	takes := 100 * time.Millisecond // the server's time for one report
	f.core.timeSince = func(time.Time) time.Duration { return takes }
	flood := func() (reports int) {
		for f.core.nodes["n00"].isAlive() && reports < 10_000 {
			c.report++
			reports++
			train, _ := c.train(f.clients["n01"], 5)
			m := &control.Trains{
				Report: c.report, Peer: "n01", PeerEpoch: "e1", Epoch: "e1",
				Trains: []control.Train{train},
			}
			c.unacked = append(c.unacked, m)
			c.send(0, m)
			f.run(time.Millisecond, nil)
		}
		return reports
	}
	if n := flood(); n < 200 || n > 210 {
		t.Errorf("it is sent away after %d reports of %v", n, takes)
	}
	left := f.core.nodes["n00"].goneReason
	if !strings.Contains(left, "more of the server's time than its share") {
		t.Errorf("it is gone: %q", left)
	}
	takes = time.Millisecond
	c.refused = nil
	c.connect()
	f.run(100*time.Millisecond, nil)
	if len(c.refused) == 0 || c.refused[0].Code != control.NotNow ||
		!strings.Contains(c.refused[0].Text, "come back in 1m") {
		t.Errorf("it comes back at once: %+v", c.refused)
	}
	for name, n := range f.core.nodes {
		if n.isAlive() != (name != "n00") {
			t.Errorf("%s is there: %v", name, n.isAlive())
		}
	}
	for range 30 {
		c.connect()
		f.run(5*time.Second, nil)
	}
	f.run(5*time.Second, nil)
	if len(c.unacked) > 0 {
		t.Errorf("%d reports are lost", len(c.unacked))
	}
	f.wantTrue()
}

// The server also limits how often a node may register again, because each registration makes work
// for all nodes.
func TestANodeRegistersSeldom(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.run(time.Second, nil)
	c := f.clients["n00"]
	for range 1000 {
		c.connect()
		f.run(10*time.Millisecond, nil)
	}
	if n := f.core.nodes["n00"]; n.isAlive() || len(c.refused) < 800 {
		t.Errorf("it is there: %v, %d registrations are refused", n.isAlive(), len(c.refused))
	}
	if !f.core.nodes["n01"].isAlive() {
		t.Error("the other is gone")
	}
}

// If a node's counter makes a step, the server names the node, whether the step is within a report
// of many trains or between two reports.
func TestAStepWithinAReportIsNamed(t *testing.T) {
	for _, trains := range []int{1, 2, 10, 50, 150} {
		f := newFleet(t, testConfig(), names(2)...)
		f.wantSweep(time.Minute)
		c := f.clients["n00"]
		m := &control.Trains{Report: 1, Peer: "n01", PeerEpoch: "e1", Epoch: "e1"}
		for i := range trains {
			if i == trains/2 {
				c.offset += 1e6
			}
			train, _ := c.train(f.clients["n01"], 5)
			m.Trains = append(m.Trains, train)
			f.time += 20 * time.Millisecond
		}
		c.send(0, m)
		f.run(time.Millisecond, nil)
		for key, p := range f.core.pairs {
			if !strings.Contains(p.complaint, "n00") {
				t.Errorf("%d trains: %v has the complaint %q", trains, key, p.complaint)
			}
		}
	}
}

// The server refuses a train that is longer than any train that it ordered, because the cost of a
// train grows with the square of the length.
func TestATrainThatNobodyOrderedIsRefused(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	c := f.clients["n00"]
	complaint := func(exchanges int) string {
		c.report++
		train, _ := c.train(f.clients["n01"], exchanges)
		c.send(0, &control.Trains{
			Report: c.report, Peer: "n01", PeerEpoch: "e1", Epoch: "e1",
			Trains: []control.Train{train},
		})
		f.run(time.Millisecond, nil)
		for _, p := range f.core.pairs {
			return p.complaint
		}
		return "no pair"
	}
	if got := complaint(f.core.config.Sweep.Exchanges); got != "" {
		t.Error(got)
	}
	long := f.core.longestTrain() + 1
	if got := complaint(long); !strings.Contains(got, "no order asked for more than") {
		t.Errorf("a train of %d exchanges: %q", long, got)
	}
	trains := func() (n uint64) {
		for _, p := range f.core.pairs {
			n = p.trains
		}
		return n
	}
	before := trains()
	answered[SweepStatus](t, f.ask(AskSweep, SweepRequest{Exchanges: long, NoQuiet: true}))
	f.run(time.Minute, nil)
	if after := trains(); after <= before {
		t.Error("the same train is refused when it is asked for")
	}
}
