package coordinator

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

func (f *fleet) phase() Phase {
	if f.core.run == nil {
		return PhaseComplete
	}
	return f.core.run.phase
}

func TestRunHasAnchorsBeforeDuringAndAfter(t *testing.T) {
	f := newFleet(t, testConfig(), names(4)...)
	f.wantSweep(time.Minute)
	request := RunRequest{Name: "tuesday", Reference: "n00"}
	status := answered[RunStatus](t, f.ask(AskStartRun, request))
	if status.Phase != PhaseBefore {
		t.Errorf("%+v", status)
	}
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatalf("run is %s", f.phase())
	}
	const sweep = 24 // trains in a sweep: six pairs, two directions, two trains in each direction
	before := f.core.runStatus().Trains
	if before < sweep || f.core.last.Why != "before run tuesday" {
		t.Errorf("%d trains before the run, by %+v", before, f.core.last)
	}
	f.run(5*time.Second, nil)
	f.restart() // in the middle of the run
	f.run(20*time.Second, nil)
	if f.phase() != PhaseOpen {
		t.Fatalf("after a restart the run is %s", f.phase())
	}
	f.run(5*time.Second, nil)
	f.clients["n01"].overRun = &control.Frequency{
		Lo_millihz: 2_600_000_000_001, Hi_millihz: 2_600_000_000_002,
		Clock: "a sundial over the run",
	}
	answered[RunStatus](t, f.ask(AskStopRun, nil))
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseAfter }) {
		t.Fatalf("run is %s", f.phase())
	}
	f.clients["n01"].connect()
	during := f.core.runStatus().Trains
	if !f.run(time.Minute, func() bool { return f.core.run == nil }) {
		t.Fatalf("run is %s", f.phase())
	}
	status = answered[RunStatus](t, f.ask(AskRun, nil))
	if status.Problem != "" {
		t.Fatalf("%+v", status)
	}
	entries := answered[[]RunEntry](t, f.ask(AskRuns, nil))
	if len(entries) != 1 || !entries[0].Complete || entries[0].Nodes != 4 {
		t.Fatalf("%+v", entries)
	}
	dir, err := runs.Open(entries[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	// The node measured this frequency over the run. When the node registers again later, its new
	// description does not replace this frequency.
	if n := dir.Run.Nodes[1]; n.FrequencyLo_hz != 2_600_000_000.001 ||
		n.FrequencyHi_hz != 2_600_000_000.002 || n.FrequencySource != "a sundial over the run" {
		t.Errorf("a node's frequency over the run: %+v", n)
	}
	if n := dir.Run.Nodes[0]; n.FrequencyLo_hz != 2.5999e9 ||
		n.FrequencyHi_hz != 2.6001e9 || n.FrequencySource != "a sundial" {
		t.Errorf("a node's frequency: %+v", n)
	}
	pairs, _ := dir.Relations()
	if len(pairs) != 6 {
		t.Fatalf("%d relations", len(pairs))
	}
	all := 0
	for _, p := range pairs {
		all += p.Trains()
		// A pair gets four trains in each of two sweeps. In the other 30 s of the open run, the 12
		// directions share 2,000 exchanges a second. The test requires fewer trains than this would
		// give, because nodes run no trains while they look for the restarted server.
		if p.Trains() < 300*f.config.Budget/2000 {
			t.Errorf("%s with %s has %d trains", p.A.Name, p.B.Name, p.Trains())
		}
		if _, err := relations(p, p.Trains()); err != nil {
			t.Error(err)
		}
	}
	if all < during+sweep || f.core.last.Why != "after run tuesday" {
		t.Errorf("%d trains, %d before the run was over, and then by %+v",
			all, during, f.core.last)
	}
	for _, c := range f.clients {
		if c.probing != nil {
			t.Errorf("%s still probes after the run", c.register.Name)
		}
		if len(c.opened) < 2 || !c.opened[len(c.opened)-1].Close {
			t.Errorf("%s was told %+v", c.register.Name, c.opened)
		}
	}
	if m, ok := f.ask(AskRemoveRun, RunRequest{Name: "tuesday"}).(*control.Answer); !ok {
		t.Errorf("%+v", m)
	}
	if entries := answered[[]RunEntry](t, f.ask(AskRuns, nil)); len(entries) != 0 {
		t.Errorf("%+v", entries)
	}
	if status := answered[*RunStatus](t, f.ask(AskRun, nil)); status != nil {
		t.Errorf("the run that was removed is %+v", status)
	}
}

func TestAnchorsKeepToTheFleetsBudget(t *testing.T) {
	config := testConfig()
	config.Budget = 2000
	f := newFleet(t, config, names(5)...)
	f.wantSweep(time.Minute)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatal(f.phase())
	}
	count := func() (n uint64) {
		for _, c := range f.clients {
			n += c.report
		}
		return n
	}
	f.run(time.Second, nil)
	before := count()
	f.run(10*time.Second, nil)
	trains := count() - before
	rate := float64(trains) * float64(f.config.TrainExchanges+2) / 10
	if rate > 2000 || rate < 1800 {
		t.Errorf("%.0f exchanges a second, want the budget of 2000", rate)
	}
	m := f.wantTrue()
	for _, p := range m.Pairs {
		if p.Age_ns > int64(5*time.Second) {
			t.Errorf("the newest train of %s with %s is %v old",
				p.From, p.Into, time.Duration(p.Age_ns))
		}
	}
}

func TestTableIsCheckedBeforeItIsServed(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.run(time.Second, nil)
	bad := TableRequest{Text: "version: 1\nrules: [nonsense]\n"}
	if m, ok := f.ask(AskSetTable, bad).(*control.Refusal); !ok {
		t.Errorf("a bad table is answered with %+v", m)
	}
	good := "version: 1\nrules:\n  - channel: \"*\"\n    handler: counter\n"
	got := answered[TableRequest](t, f.ask(AskSetTable, TableRequest{Text: good}))
	if got.Base != 1 || got.Text != good {
		t.Errorf("%+v", got)
	}
	m, ok := f.ask(AskSetTable, TableRequest{Text: good, Base: 7}).(*control.Refusal)
	if !ok || m.Code != control.NotNow {
		t.Errorf("a table made from another one is answered with %+v", m)
	}
	f.run(time.Second, nil)
	f.join("late")
	f.run(time.Second, nil)
	for _, c := range f.clients {
		if len(c.tables) != 1 || c.tables[0] != 1 {
			t.Errorf("%s has tables %v", c.register.Name, c.tables)
		}
	}
	f.restart()
	if got := answered[TableRequest](t, f.ask(AskTable, nil)); got.Base != 1 || got.Text != good {
		t.Errorf("a restarted server serves %+v", got)
	}
}

// Within the time that packets take, a new handler table reaches every node that uses tables. The
// matrix names nodes that do not use the table yet. The open run records when the server began to
// serve the table, and which table was served before.
func TestTableReachesEveryNodeAtOnce(t *testing.T) {
	f := newFleet(t, testConfig(), names(5)...)
	deaf, refuses, odd := f.clients["n01"], f.clients["n02"], f.clients["n03"]
	deaf.register.Capabilities = slices.DeleteFunc(deaf.register.Capabilities,
		func(s string) bool { return s == control.CanTable })
	deaf.connect()
	refuses.instead = func(control.Message) control.Message {
		return &control.TableState{Error: "no room"}
	}
	odd.instead = func(control.Message) control.Message { return &control.Done{} }
	f.run(time.Second, nil)
	const first = "version: 1\nrules: []\n"
	f.ask(AskSetTable, TableRequest{Text: first})
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatal(f.phase())
	}
	text := "version: 1\nrules:\n  - channel: \"*\"\n    handler: counter\n"
	served := f.now()
	f.ask(AskSetTable, TableRequest{Text: text, By: "me"})
	f.run(time.Millisecond, nil)
	for name, c := range f.clients {
		if want := map[bool]int{false: 2}[c == deaf]; len(c.tables) != want {
			t.Errorf("%s has tables %v", name, c.tables)
		}
	}
	uses := answered[TableRequest](t, f.ask(AskTable, nil)).Uses
	wanted := []TableUse{
		{"n00", 2, "", []int{2}}, {"n02", 0, "no room", nil},
		{"n03", 0, "answers the table with done", nil}, {"n04", 2, "", []int{2}},
	}
	if !reflect.DeepEqual(uses, wanted) {
		t.Errorf("the table is used by %+v, want %+v", uses, wanted)
	}
	for _, n := range f.core.fleetCopy().evaluate().Nodes {
		want := map[string]string{"n02": "no room", "n03": "answers the table with"}[n.Name]
		generation := map[string]uint64{"n00": 2, "n04": 2}[n.Name]
		if n.TableGeneration != generation || want == "" && n.TableError != "" ||
			!strings.Contains(n.TableError, want) {
			t.Errorf("%s has generation %d, %q", n.Name, n.TableGeneration, n.TableError)
		}
	}
	dir, err := runs.Open(f.core.run.draft.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	want := runs.TableChange{Served_utc_ns: served.UnixNano(), By: "me", Table: text}
	changes, err := dir.Table()
	if err != nil || len(changes) != 2 || changes[0].Table != first || changes[1] != want {
		t.Errorf("the run has %+v, %v", changes, err)
	}
}

// A node that is suspended during an open run has two epochs in that run, and separate relations
// for each epoch.
func TestRunKeepsBothEpochs(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	answered[RunStatus](t, f.ask(AskStartRun, RunRequest{Name: "tuesday"}))
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatalf("run is %s", f.phase())
	}
	f.run(5*time.Second, nil)
	c := f.clients["n01"]
	c.offset += 1 << 40
	c.register.Epoch = "e2"
	c.state = clientKilled
	f.run(5*time.Second, nil)
	c.state = clientRunning
	c.connect()
	f.run(10*time.Millisecond, nil)
	f.restart() // in the middle of the run
	f.run(20*time.Second, nil)
	answered[RunStatus](t, f.ask(AskStopRun, nil))
	if !f.run(time.Minute, func() bool { return f.core.run == nil }) {
		t.Fatalf("run is %s", f.phase())
	}
	dir, err := runs.Open(answered[RunStatus](t, f.ask(AskRun, nil)).Path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	n, _ := dir.Run.Node("n01")
	if n.Epoch != "e2" || len(n.Earlier) != 1 || n.Earlier[0].Quantum_cycles != n.Quantum_cycles {
		t.Errorf("node %+v", n)
	}
	pairs, missing := dir.Relations()
	of := map[string]int{}
	for _, p := range pairs {
		for _, n := range []string{p.A.Epoch, p.B.Epoch} {
			of[n]++
		}
	}
	if len(pairs) != 5 || len(missing) > 0 || of["e2"] != 2 {
		t.Errorf("%d relations of epochs %v, missing %v", len(pairs), of, missing)
	}
	f.wantPairs(3)
}

// A sweep that is due during a run waits for the end of the run. While the sweep waits, the core
// does not wake up again and again to check.
func TestRunLongerThanTheTimeBetweenSweeps(t *testing.T) {
	config := testConfig()
	config.SweepEvery, config.Budget = 30*time.Second, 20
	f := newFleet(t, config, names(2)...)
	f.wantSweep(time.Minute)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatal(f.phase())
	}
	for range 60 {
		f.run(time.Second, nil)
		if next := f.core.nextTick(); next.Before(f.now()) {
			t.Fatalf("the next thing to do was due %v ago", f.now().Sub(next))
		}
	}
	number := f.core.last.Number
	f.ask(AskStopRun, nil)
	f.waitComplete()
	// Two sweeps must follow: one that measures the anchors after the run, and then the sweep that
	// had become due during the run.
	if !f.run(time.Minute, func() bool { return f.core.last.Number >= number+2 }) {
		t.Error("no sweep after the run")
	}
}
