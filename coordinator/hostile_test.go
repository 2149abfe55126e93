package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// openRun begins a run and waits until it is open.
func (f *fleet) openRun(name string) {
	f.t.Helper()
	answered[RunStatus](f.t, f.ask(AskStartRun, RunRequest{Name: name}))
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		f.t.Fatalf("run is %s", f.phase())
	}
}

// readRun opens the run that was completed last.
func (f *fleet) readRun() *runs.Directory {
	f.t.Helper()
	status := answered[RunStatus](f.t, f.ask(AskRun, nil))
	if status.Problem != "" {
		f.t.Fatalf("run is not whole: %s", status.Problem)
	}
	dir, err := runs.Open(status.Path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { dir.Close() })
	return dir
}

// A node whose counter breaks off without end, and that says so, costs the run what is measured with it and nothing else.
func TestANodeOfManyEpochsLeavesTheRunWhole(t *testing.T) {
	config := testConfig()
	config.Budget = 30
	f := newFleet(t, config, names(3)...)
	f.wantSweep(time.Minute)
	f.openRun("r")
	c := f.clients["n02"]
	for i := range maxEpochs + 10 {
		c.register.Epoch = fmt.Sprintf("%0200d", i)
		c.register.Facts = []byte(`{"x":"` + strings.Repeat(`\u0001`, 10_000) + `"}`)
		c.connect()
		f.run(time.Second, nil)
		c.report++
		train, _ := c.train(f.clients["n00"], 5)
		c.send(0, &control.Trains{Report: c.report, Peer: "n00", PeerEpoch: "e1", Epoch: c.register.Epoch, Trains: []control.Train{train}})
		f.run(time.Second, nil)
	}
	if err := f.core.save(); err != nil {
		t.Errorf("what is measured is not written down: %v", err)
	}
	f.ask(AskStopRun, nil)
	f.complete()
	dir := f.readRun()
	n, _ := dir.Run.Node("n02")
	if len(n.Earlier) > maxEpochs || !strings.Contains(fmt.Sprint(dir.Run.Missing), "interrupted more than 64 times") {
		t.Errorf("the node has %d epochs, missing is %.300v", len(n.Earlier), dir.Run.Missing)
	}
	pairs, _ := dir.Relations()
	honest := false
	for _, p := range pairs {
		honest = honest || p.A.Name == "n00" && p.B.Name == "n01" && p.Trains() > 100
	}
	if !honest {
		t.Error("what the others measured is not there")
	}
}

// Nor does one that has no end of what is missing.
func TestANodeThatMissesEverythingLeavesTheRunReadable(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	missing := make([]string, 10_000)
	for i := range missing {
		missing[i] = fmt.Sprint(i, strings.Repeat("x", 300))
	}
	c := f.clients["n01"]
	c.missing = missing
	f.openRun("r")
	f.ask(AskStopRun, nil)
	f.complete()
	of := 0
	for _, m := range f.readRun().Run.Missing {
		if m.Part == "node n01" {
			of++
		}
	}
	if of != maxMissingPart {
		t.Errorf("%d things are missing of the node, want %d", of, maxMissingPart)
	}
}
