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

// A node whose counter breaks off without end, and that says so, costs the run what is measured
// with it and nothing else.
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

// A node that has no end of a file, byte by byte, does not hold a run up for ever.
func TestAFileWithoutEndDoesNotHoldUpTheRun(t *testing.T) {
	f, of, _ := opened(t)
	trickle := 0
	of.files["logs/x.cplog"] = make([]byte, 1<<16)
	of.instead = func(answer control.Message) control.Message {
		switch m := answer.(type) {
		case *control.Files:
			m.Files = []control.File{{Path: "logs/x.cplog", Bytes: 1 << 60}}
		case *control.Chunk:
			trickle++
			m.Data = m.Data[:1]
		}
		return answer
	}
	of.slow = 3 * time.Second
	f.ask(AskStopRun, nil)
	if !f.run(10*time.Minute, func() bool { return f.core.run == nil }) {
		t.Fatalf("after ten minutes the run is %s", f.phase())
	}
	if missing := fmt.Sprint(f.readRun().Run.Missing); !strings.Contains(missing, "bytes of \"logs/x.cplog\" in 1m") || trickle < 10 {
		t.Errorf("%d chunks, missing %s", trickle, missing)
	}
}

// A run can be ended in each of its phases, and the next one begun.
func TestARunIsAborted(t *testing.T) {
	if got := newFleet(t, testConfig(), names(2)...).refused(AskAbortRun, nil); !strings.Contains(got, "no run is under way") {
		t.Errorf("without a run: %q", got)
	}
	for _, phase := range []Phase{PhaseBefore, PhaseOpening, PhaseOpen, PhaseClosing, PhaseAfter, PhaseCollecting} {
		for _, restarted := range []bool{false, true} {
			config := testConfig()
			config.Budget = 100
			f := newFleet(t, config, names(3)...)
			f.wantSweep(time.Minute)
			f.ask(AskStartRun, RunRequest{Name: "r"})
			reaches := func() bool {
				if f.phase() == PhaseOpen && phase != PhaseOpen {
					f.ask(AskStopRun, nil)
				}
				return f.phase() == phase
			}
			if !f.run(time.Minute, reaches) {
				t.Fatalf("%s is not reached, but %s", phase, f.phase())
			}
			if restarted {
				f.restart()
			}
			status := answered[RunStatus](t, f.ask(AskAbortRun, nil))
			if status.Phase != PhaseComplete || f.core.run != nil {
				t.Fatalf("%s: %+v", phase, status)
			}
			dir := f.readRun()
			if missing := fmt.Sprint(dir.Run.Missing); !strings.Contains(missing, "the run was aborted") || dir.Run.Ended.IsZero() {
				t.Errorf("%s: ended %v, missing %s", phase, dir.Run.Ended, missing)
			}
			f.run(20*time.Second, nil) // whatever was under way for it comes to nothing
			for _, c := range f.clients {
				if c.probing != nil || !restarted && c.register.OpenRun != "" {
					t.Errorf("%s: %s probes on, or has run %q open", phase, c.register.Name, c.register.OpenRun)
				}
			}
			f.openRun("next")
			f.ask(AskStopRun, nil)
			if !f.run(time.Minute, func() bool { return f.core.run == nil }) {
				t.Errorf("%s: the next run is %s", phase, f.phase())
			}
			f.readRun()
		}
	}
}

// Files that are being put into a run when it is aborted are put into it first, and none after
// them.
func TestARunIsAbortedWhileFilesAreKept(t *testing.T) {
	f, _, _ := opened(t)
	var then []func()
	f.core.background = func(work func() error, done func(error)) { then = append(then, func() { done(work()) }) }
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return len(then) > 0 }) {
		t.Fatal(f.phase())
	}
	f.ask(AskAbortRun, nil)
	if f.core.run == nil {
		t.Fatal("the run is complete while a file is put into it")
	}
	for len(then) > 0 {
		do := then[0]
		then = then[1:]
		do()
	}
	f.run(time.Second, nil)
	if f.core.run != nil || len(then) > 0 {
		t.Errorf("the run is %s, %d files follow", f.phase(), len(then))
	}
	f.core.background = func(work func() error, done func(error)) { done(work()) }
	f.readRun()
}

// Names without end are refused, and thousands of nodes that nobody has measured yet are told of in
// no time.
func TestNodesWithoutEnd(t *testing.T) {
	f := newFleet(t, testConfig())
	f.core.config.Settle = time.Hour
	for i := range maxNodes + 10 {
		c := f.join(fmt.Sprintf("n%04d", i))
		f.events = nil
		f.core.handle(control.Incoming{Peer: c.peer, Message: &c.register})
	}
	if n := len(f.core.nodes); n != maxNodes {
		t.Errorf("%d nodes are known", n)
	}
	m := f.core.copyFleet()()
	if len(m.Pairs) != 2*maxNeverMeasured || !strings.Contains(m.Unhealthy[0], "12501500 more pairs were never measured") {
		t.Errorf("%d pairs are told of, unhealthy %.200q", len(m.Pairs), m.Unhealthy)
	}
	if got := f.refused(AskForgetNode, NodeRequest{"n0000"}); !strings.Contains(got, "stop its client") {
		t.Error(got)
	}
}

// A server's clock that is set back while a run is open leaves the run an end.
func TestAClockThatIsSetBackLeavesTheRunAnEnd(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	f.openRun("r")
	f.core.now = func() time.Time { return f.now().Add(-time.Hour) }
	f.core.endRun()
	f.core.now = f.now
	begun, ended := f.core.run.draft.Run().Begun, f.core.run.draft.Run().Ended
	if ended.IsZero() || ended.Lo_ns > ended.Hi_ns || ended.Hi_ns < begun.Lo_ns {
		t.Errorf("begun %v, ended %v", begun, ended)
	}
}
