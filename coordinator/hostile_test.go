package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// openRun starts a run and waits until it is open.
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

// A node claims again and again that its counter was interrupted. The run loses only trains with
// this node.
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
		c.send(0, &control.Trains{
			Report: c.report, Peer: "n00", PeerEpoch: "e1", Epoch: c.register.Epoch,
			Trains: []control.Train{train},
		})
		f.run(time.Second, nil)
	}
	if err := f.core.save(); err != nil {
		t.Errorf("the measurements are not on disk: %v", err)
	}
	f.ask(AskStopRun, nil)
	f.waitComplete()
	dir := f.readRun()
	n, _ := dir.Run.Node("n02")
	missing := fmt.Sprint(dir.Run.Missing)
	if len(n.Earlier) > maxEpochs || !strings.Contains(missing, "interrupted more than 64 times") {
		t.Errorf("the node has %d epochs, missing is %.300v", len(n.Earlier), dir.Run.Missing)
	}
	pairs, _ := dir.Relations()
	honest := false
	for _, p := range pairs {
		honest = honest || p.A.Name == "n00" && p.B.Name == "n01" && p.Trains() > 100
	}
	if !honest {
		t.Error("the others' measurements are missing")
	}
}

// A node that reports an endless list of missing things does not damage the run.
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
	f.waitComplete()
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

// A node that sends an endless file byte by byte does not delay a run for ever.
func TestAFileWithoutEndDoesNotHoldUpTheRun(t *testing.T) {
	f, of, _ := openedFleet(t)
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
	of.slowAnswer = 3 * time.Second
	f.ask(AskStopRun, nil)
	if !f.run(10*time.Minute, func() bool { return f.core.run == nil }) {
		t.Fatalf("after ten minutes the run is %s", f.phase())
	}
	missing := fmt.Sprint(f.readRun().Run.Missing)
	if !strings.Contains(missing, "bytes of \"logs/x.cplog\" in 1m") || trickle < 10 {
		t.Errorf("%d chunks, missing %s", trickle, missing)
	}
}

// A run can be aborted in each of its phases. Then the next run can begin.
func TestARunIsAborted(t *testing.T) {
	got := newFleet(t, testConfig(), names(2)...).refusalText(AskAbortRun, nil)
	if !strings.Contains(got, "no run is under way") {
		t.Errorf("without a run: %q", got)
	}
	for _, phase := range []Phase{
		PhaseBefore, PhaseOpening, PhaseOpen, PhaseClosing, PhaseAfter, PhaseCollecting,
	} {
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
				t.Fatalf("the run does not reach %q, it is %s", phase, f.phase())
			}
			if restarted {
				f.restart()
			}
			status := answered[RunStatus](t, f.ask(AskAbortRun, nil))
			if status.Phase != PhaseComplete || f.core.run != nil {
				t.Fatalf("%s: %+v", phase, status)
			}
			dir := f.readRun()
			missing := fmt.Sprint(dir.Run.Missing)
			if !strings.Contains(missing, "the run was aborted") || dir.Run.Ended.IsZero() {
				t.Errorf("%s: ended %v, missing %s", phase, dir.Run.Ended, missing)
			}
			f.run(20*time.Second, nil) // work that was under way for the run has no effect
			for _, c := range f.clients {
				if c.probing != nil || !restarted && c.register.OpenRun != "" {
					t.Errorf("%s: %s still probes, or has run %q open",
						phase, c.register.Name, c.register.OpenRun)
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

// If files are being moved into a run at the moment when the run is aborted, these files still
// arrive whole. No other files are moved into the run.
func TestARunIsAbortedWhileFilesAreKept(t *testing.T) {
	f, _, _ := openedFleet(t)
	var then []func()
	f.core.background = func(work func() error, done func(error)) {
		then = append(then, func() { done(work()) })
	}
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return len(then) > 0 }) {
		t.Fatal(f.phase())
	}
	f.ask(AskAbortRun, nil)
	if f.core.run == nil {
		t.Fatal("the run is complete while a file is being put into it")
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

// The server knows at most maxNodes nodes, and refuses registrations under further names. Thousands
// of nodes without a train do not make the matrix slow.
func TestNodesWithoutEnd(t *testing.T) {
	seed.NotUnderRace(t, "one goroutine does all")
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
	m := f.core.fleetCopy().evaluate()
	if len(m.Pairs) > 0 || len(m.Unhealthy) > 1 {
		t.Errorf("%d pairs are listed, unhealthy %.200q", len(m.Pairs), m.Unhealthy)
	}
	f.core.config.AllPairs = maxNodes // more than a configuration can say
	m = f.core.fleetCopy().evaluate()
	if len(m.Pairs) != 2*maxNeverMeasured ||
		!strings.HasPrefix(m.Unhealthy[0],
			"199990000 pairs were never measured: n0000 with n0001, ") ||
		!strings.Contains(m.Faults[0], "199989000 more pairs were never measured") {
		t.Errorf("%d pairs are listed, unhealthy %.200q", len(m.Pairs), m.Unhealthy)
	}
	got := f.refusalText(AskForgetNode, NodeRequest{"n0000"})
	if !strings.Contains(got, "stop its client") {
		t.Error(got)
	}
}

// If the server's clock is set back during a run, the run's end is still not before its beginning.
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
