package coordinator

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// A node that is away when its run ends closes the run when it returns. The server can then fetch
// its logs, even after a restart of the server.
func TestCollectOnceMore(t *testing.T) {
	for _, restart := range []bool{false, true} {
		f, c := fleetWithoutNode(t)
		relations := relationsOf(t, f)
		c.comeBack()
		last := c.opened[len(c.opened)-1]
		if last.Name != "r" || !last.Close || c.register.OpenRun != "" {
			t.Fatalf("it was told %+v", c.opened)
		}
		if _, ok := f.ask(AskCollectRun, RunRequest{Name: "r"}).(*control.Answer); !ok {
			t.Fatal("no answer")
		}
		if restart {
			if !f.run(time.Minute, func() bool { return c.sent > 5000 }) || f.core.run == nil {
				t.Fatalf("%d bytes came", c.sent)
			}
			f.restart()
		}
		sweeps := f.core.last
		missing, whole := f.waitComplete()
		if whole != 6 || len(missing) > 0 {
			t.Errorf("restart %v: %d of 6 files are whole, missing: %v", restart, whole, missing)
		}
		if f.core.last != sweeps || !maps.Equal(relations, relationsOf(t, f)) {
			t.Errorf("restart %v: the measurements changed", restart)
		}
	}
}

func TestCollectOnceMoreFromNobody(t *testing.T) {
	f, _ := fleetWithoutNode(t)
	before := f.core.lastRun.Missing
	f.ask(AskCollectRun, RunRequest{Name: "r"})
	missing, whole := f.waitComplete()
	about := func(all []runs.Missing, text string) int {
		n := 0
		for _, m := range all {
			if strings.Contains(m.Reason, text) {
				n++
			}
		}
		return n
	}
	const noLog = "no log of this node"
	if whole != 4 || about(missing, notFetched) != 1 ||
		about(missing, noLog) != about(before, noLog) {
		t.Errorf("%d files are whole, missing before: %v, missing: %v", whole, before, missing)
	}
	for name, want := range map[string]string{
		"nobody": "no complete run", "": "is empty", "../r": "name",
	} {
		m, ok := f.ask(AskCollectRun, RunRequest{Name: name}).(*control.Refusal)
		if !ok || !strings.Contains(m.Text, want) {
			t.Errorf("run %q: %+v", name, m)
		}
	}
	f.ask(AskStartRun, RunRequest{Name: "next"})
	m, ok := f.ask(AskCollectRun, RunRequest{Name: "r"}).(*control.Refusal)
	if !ok || m.Code != control.NotNow {
		t.Errorf("while another run is under way: %+v", m)
	}
}

// After a run is stopped, the server measures anchors. A node that returns before this measurement
// is told at once to close the run.
func TestANodeThatIsBackInTimeClosesTheRun(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
	c := f.clients["n00"]
	c.state = clientKilled
	c.life++
	f.run(10*time.Second, nil)
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseAfter }) {
		t.Fatal(f.phase())
	}
	c.comeBack()
	if last := c.opened[len(c.opened)-1]; !last.Close {
		t.Errorf("it was told %+v", c.opened)
	}
}

// A node that returns while a run is being collected once more is also told to close the run. Then
// it gives its files.
func TestANodeThatIsBackWhileTheRunIsCollected(t *testing.T) {
	f, c := fleetWithoutNode(t)
	d := f.clients["n01"]
	relations := relationsOf(t, f)
	// Without these logs in the run, the server must fetch them again, which takes a while.
	if err := os.RemoveAll(filepath.Join(f.store.runs, "r", "logs", "n01")); err != nil {
		t.Fatal(err)
	}
	f.ask(AskCollectRun, RunRequest{Name: "r"})
	f.run(time.Millisecond, nil)
	d.isCut = true // the run waits for this node
	f.run(10*time.Second, nil)
	if f.phase() != PhaseCollecting {
		t.Fatal(f.phase())
	}
	c.comeBack()
	if last := c.opened[len(c.opened)-1]; !last.Close {
		t.Errorf("it was told %+v", c.opened)
	}
	// Trains and tables that arrive now do not belong to the run.
	train, _ := c.train(f.clients["n02"], 3)
	c.send(0, &control.Trains{
		Report: c.report + 1, Peer: "n02", PeerEpoch: "e1", Epoch: "e1",
		Trains: []control.Train{train},
	})
	f.ask(AskSetTable, TableRequest{Text: "version: 1\nrules: []\n"})
	f.run(time.Second, nil)
	d.isCut = false
	d.register.Instance += "'"
	d.connect()
	if _, whole := f.waitComplete(); whole != 4 { // n00 was given up before
		t.Errorf("%d of 4 files are whole", whole)
	}
	if !maps.Equal(relations, relationsOf(t, f)) {
		t.Error("the measurements changed")
	}
	dir, err := runs.Open(filepath.Join(f.store.runs, "r"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if changes, err := dir.Table(); err != nil || len(changes) > 0 {
		t.Errorf("handler tables of the run: %v, %v", changes, err)
	}
}

// A node loses its connection just when the server tells all nodes that the run ends. When the
// server later collects the run once more, it tells this node to close the run.
func TestANodeThatMissedTheEnd(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
	c := f.clients["n00"]
	c.isCut = true
	f.ask(AskStopRun, nil)
	f.run(2*time.Second, nil)
	c.isCut = false
	unclosed := func(m runs.Missing) bool { return strings.HasPrefix(m.Reason, closingRun) }
	missing, _ := f.waitComplete()
	if c.register.OpenRun != "r" || !slices.ContainsFunc(missing, unclosed) {
		t.Fatalf("open: %q; missing: %v", c.register.OpenRun, missing)
	}
	f.ask(AskCollectRun, RunRequest{Name: "r"})
	missing, _ = f.waitComplete()
	if c.register.OpenRun != "" || slices.ContainsFunc(missing, unclosed) {
		t.Errorf("open: %q; missing: %v", c.register.OpenRun, missing)
	}
}

// If a node has opened a run that this server does not have, the server does not tell it to close
// that run.
func TestRunsOfOthersStayOpen(t *testing.T) {
	f, c := fleetWithoutNode(t)
	for _, run := range []string{"local", "another"} {
		c.register.OpenRun = run
		told := len(c.opened)
		c.comeBack()
		if len(c.opened) != told {
			t.Errorf("it was told %+v", c.opened[told:])
		}
		c.state = clientKilled
		c.life++
		f.run(10*time.Second, nil)
	}
}

// A status that runStatus has returned does not change: a matrix may still use it while the core
// works on.
func TestStatusOfARunDoesNotChange(t *testing.T) {
	f, _, _ := openedFleet(t)
	r := f.core.run
	r.lacks("a", "will be mended")
	r.lacks("b", "will not")
	told := f.core.runStatus().Missing
	isA := func(m runs.Missing) bool { return m.Part == "a" }
	r.missing = slices.DeleteFunc(r.missing, isA)
	if len(told) != 2 || told[0].Part != "a" || told[1].Part != "b" {
		t.Errorf("the list of what is missing became %v", told)
	}
}

// A file that was damaged during the transfer or on its node is fetched again once the node has an
// intact copy.
func TestADamagedLogIsFetchedOnceItIsWhole(t *testing.T) {
	f, c := fleetWithoutNode(t)
	c.comeBack()
	var of []byte
	for name, b := range c.files {
		if strings.Contains(name, "a~x") {
			of = b
		}
	}
	of[len(of)/2] ^= 1
	for i := range 3 {
		f.ask(AskCollectRun, RunRequest{Name: "r"})
		missing, whole := f.waitComplete()
		damaged := i < 2
		if whole != 6 || len(missing) != map[bool]int{true: 1}[damaged] ||
			damaged && !strings.HasPrefix(missing[0].Reason, notWhole) {
			t.Errorf("%d: %d of 6 files are as on the nodes, missing: %v", i, whole, missing)
		}
		if i == 1 {
			of[len(of)/2] ^= 1
		}
	}
}

// A file that was fetched while its node was still writing it is fetched again when it is complete.
func TestAFileThatGrew(t *testing.T) {
	f, c, _ := openedFleet(t)
	const name = "truth.json"
	c.files[name] = []byte("{")
	f.ask(AskStopRun, nil)
	if missing, whole := f.waitComplete(); whole != 7 || len(missing) > 0 {
		t.Errorf("%d of 7 files are whole, missing: %v", whole, missing)
	}
	c.files[name] = []byte("{}")
	c.sent = 0
	f.ask(AskCollectRun, RunRequest{Name: "r"})
	if missing, whole := f.waitComplete(); whole != 7 || len(missing) > 0 || c.sent != 2 {
		t.Errorf("%d of 7 files are whole after %d bytes, missing: %v", whole, c.sent, missing)
	}
}

// The server asks for no files from a node that keeps none, or from a node that joined after the
// run was over.
func TestFilesOfNodesWithout(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	c := f.clients["n00"]
	c.register.Capabilities = slices.DeleteFunc(c.register.Capabilities,
		func(s string) bool { return s == control.CanFiles })
	c.connect()
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseAfter }) {
		t.Fatal(f.phase())
	}
	late := f.join("late")
	for _, c := range []*fakeClient{c, late} {
		c.instead = func(m control.Message) control.Message {
			t.Errorf("%s was asked for %s", c.register.Name, m.Kind())
			return m
		}
	}
	f.waitComplete()
}
