package coordinator

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func (f *fleet) swept() bool { return f.core.sweep == nil && f.core.last != nil }

func (f *fleet) wantSweep(limit time.Duration) *SweepStatus {
	f.t.Helper()
	if !f.run(limit, f.swept) {
		f.t.Fatalf("no sweep ended within %v: %+v", limit, f.core.sweepStatus())
	}
	return f.core.last
}

func TestSweepMeasuresEveryPairBothWays(t *testing.T) {
	for _, n := range []int{2, 3, 7, 10} {
		f := newFleet(t, testConfig(), names(n)...)
		s := f.wantSweep(time.Minute)
		if s.Complete != n*(n-1)/2 || s.Pairs != s.Complete || len(s.Lost) > 0 {
			t.Errorf("%d nodes: %+v", n, s)
		}
		if len(f.probed) != n*(n-1) {
			t.Errorf("%d nodes: %d directions were probed", n, len(f.probed))
		}
		for d, times := range f.probed {
			if times != 1 {
				t.Errorf("%d nodes: %v was probed %d times", n, d, times)
			}
		}
		if f.clashes > 0 {
			t.Errorf("%d nodes: %d times a node was in two pairs at once", n, f.clashes)
		}
		m := f.wantTrue()
		if len(m.Pairs) != n*(n-1) || !m.Healthy() {
			t.Errorf("%d nodes: %d pairs, unhealthy %q", n, len(m.Pairs), m.Unhealthy)
		}
		for _, p := range m.Pairs {
			if p.Bound_ns < 1 || p.Bound_ns > 30_000 || p.Bound_ns > p.Direct_ns {
				t.Errorf("bound of %s in %s is %v ns, direct %v",
					p.From, p.Into, p.Bound_ns, p.Direct_ns)
			}
		}
	}
}

func TestPairsOnOneMachineShareItsCores(t *testing.T) {
	config := testConfig()
	f := newFleet(t, config)
	widest := 0
	for _, name := range names(8) {
		c := f.join(name)
		c.register.Machine, c.register.Cores = "one", 4
	}
	// They registered before these were set, so they register again.
	for _, c := range f.clients {
		c.connect()
	}
	f.run(time.Minute, func() bool {
		if f.core.sweep != nil {
			widest = max(widest, f.core.sweep.running)
		}
		return f.swept()
	})
	if widest != 2 {
		t.Errorf("up to %d pairs at once on four cores, want 2", widest)
	}
	if s := f.core.last; s == nil || s.Complete != 28 {
		t.Errorf("%+v", s)
	}
}

func TestDeadNodesCostTheirOwnPairsOnly(t *testing.T) {
	tests := map[string]func(f *fleet, c *fakeClient){
		"killed":  func(f *fleet, c *fakeClient) { c.state = killed },
		"stopped": func(f *fleet, c *fakeClient) { c.state = stopped },
		"cut off": func(f *fleet, c *fakeClient) { c.cut = true },
		"leaves": func(f *fleet, c *fakeClient) {
			c.send(0, &control.Leave{Why: "update"})
			c.state = killed
		},
	}
	for name, fault := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, testConfig(), names(9)...)
			f.run(time.Minute, func() bool {
				return f.core.sweep != nil && f.core.sweep.round == 4
			})
			fault(f, f.clients["n03"])
			began := f.time
			s := f.wantSweep(time.Minute)
			if took := f.time - began; took > 10*time.Second {
				t.Errorf("the sweep takes %v more", took)
			}
			if s.Complete+len(s.Lost) != 36 || s.Complete < 28 {
				t.Errorf("%d pairs are complete, %d are lost", s.Complete, len(s.Lost))
			}
			for _, l := range s.Lost {
				if l.A != "n03" && l.B != "n03" {
					t.Errorf("%s with %s is lost: %s", l.A, l.B, l.Why)
				}
				if l.Why == "" {
					t.Errorf("%s with %s is lost for no reason", l.A, l.B)
				}
			}
			f.run(10*time.Second, nil)
			m := f.wantTrue()
			if m.Nodes[3].Alive || m.Nodes[3].Left == "" {
				t.Errorf("node is %+v", m.Nodes[3])
			}
			old, kept := 0, 0
			for _, p := range m.Pairs {
				if p.Old {
					old++
					if p.From != "n03" && p.Into != "n03" {
						t.Errorf("%s with %s is old", p.From, p.Into)
					}
					if p.Hi_cycles != 0 {
						kept++
					}
				}
			}
			if old == 0 || kept == 0 {
				t.Errorf("%d directions are old, %d of them have bounds: "+
					"results of dead nodes must be kept and marked", old, kept)
			}
			if !strings.Contains(strings.Join(m.Unhealthy, "\n"), "n03 is gone") {
				t.Errorf("unhealthy is %q", m.Unhealthy)
			}
		})
	}
}

// A server that is busy for long takes no node for dead because of that. It finds those that are
// gone right afterwards.
func TestTheServersOwnWorkIsNotSilence(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	f.clients["n00"].state = killed
	err := f.core.startSweep("asked for", f.config.Sweep, nil)
	if err != nil || len(f.core.pending) == 0 {
		t.Fatalf("%d requests, %v", len(f.core.pending), err)
	}
	asked := maps.Clone(f.core.pending)
	f.time += time.Minute
	f.core.wasBusy(time.Minute)
	f.core.tick()
	for id, p := range asked {
		if f.core.pending[id] != p {
			t.Errorf("request %d for %s no longer waits", id, p.what)
		}
	}
	if m := f.wantTrue(); !m.Nodes[0].Alive || !m.Nodes[1].Alive {
		t.Errorf("after a minute of work: %+v", m.Nodes)
	}
	f.run(f.config.Dead+time.Second, nil)
	if m := f.wantTrue(); m.Nodes[0].Alive || !m.Nodes[1].Alive {
		t.Errorf("after that: %+v", m.Nodes)
	}
}

func TestNodesThatComeBackAreMeasuredInTheSameSweep(t *testing.T) {
	f := newFleet(t, testConfig(), names(8)...)
	f.run(time.Minute, func() bool { return f.core.sweep != nil && f.core.sweep.round == 2 })
	f.clients["n05"].state = stopped
	f.run(time.Second, nil)
	f.clients["n05"].state = running
	f.clients["n05"].beat()
	s := f.wantSweep(time.Minute)
	if s.Complete != 28 {
		t.Errorf("%d of 28 pairs are complete: %+v", s.Complete, s.Lost)
	}
	f.wantTrue()
}

func TestNodesThatJoinAreMeasured(t *testing.T) {
	f := newFleet(t, testConfig(), names(4)...)
	f.run(time.Minute, func() bool { return f.core.sweep != nil })
	f.join("late")
	f.wantSweep(time.Minute)
	f.core.last = nil
	if s := f.wantSweep(time.Minute); s.Complete != 10 {
		t.Errorf("%+v", s)
	}
	if m := f.wantTrue(); !m.Healthy() {
		t.Errorf("unhealthy: %q", m.Unhealthy)
	}
}

// wantPairs checks how many pairs are kept, in memory and on disk. Pairs of epochs that ended would
// grow without limit.
func (f *fleet) wantPairs(n int) {
	f.t.Helper()
	files, err := filepath.Glob(filepath.Join(f.store.dir, "pairs", "*"))
	if err != nil || len(f.core.pairs) != n || len(files) != n {
		f.t.Errorf("%d pairs are known, %d are on disk, want %d: %v",
			len(f.core.pairs), len(files), n, err)
	}
}

func TestAnEpochEndsWhatWasKnown(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	c := f.clients["n01"]
	c.offset += 1 << 40
	c.register.Epoch, c.register.Instance = "e2", "other"
	c.state = killed
	f.run(5*time.Second, nil)
	c.state = running
	c.connect()
	f.core.last = nil
	if s := f.wantSweep(time.Minute); s.Complete != 3 {
		t.Errorf("%+v", s)
	}
	m := f.wantTrue()
	if !m.Healthy() || m.Nodes[1].Restarts != 1 {
		t.Errorf("unhealthy: %q, %+v", m.Unhealthy, m.Nodes[1])
	}
	f.wantPairs(3)
	f.restart()
	f.wantPairs(3)
	// An open run keeps its measurements until it is complete.
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatalf("run is %s", f.phase())
	}
	f.run(5*time.Second, nil)
	c.register.Epoch, c.offset = "e3", c.offset+1<<40
	c.connect()
	f.run(5*time.Second, nil)
	f.wantPairs(5)
	f.ask(AskStopRun, nil)
	f.complete()
	f.wantPairs(3)
}

func TestASecondProcessUnderANameIsRefusedWhileTheFirstLives(t *testing.T) {
	f := newFleet(t, testConfig(), "a", "b")
	f.run(time.Second, nil)
	first := f.clients["a"]
	second := f.join("a")
	f.clients["a"] = first
	f.run(3*time.Second, nil)
	if n := f.core.nodes["a"]; n.registered.Instance != first.register.Instance {
		t.Error("the second process has the name")
	}
	first.state = killed
	f.clients["a"] = second
	f.run(10*time.Second, nil)
	if n := f.core.nodes["a"]; !n.alive() || n.registered.Instance != second.register.Instance {
		t.Error("the second process did not get the name that became free")
	}
}

func TestRegisteringTwiceOnAConnectionIsOneRegistration(t *testing.T) {
	f := newFleet(t, testConfig(), "a", "b")
	f.run(time.Second, nil)
	c := f.clients["a"]
	peer := c.peer
	c.send(0, &c.register)
	f.run(10*time.Second, nil)
	if n := f.core.nodes["a"]; !n.alive() || n.peer != peer || n.restarts != 0 {
		t.Errorf("node is %+v", n)
	}
	if f.forgotten[peer] {
		t.Error("the link refuses what it sends")
	}
}

func TestSweepWaitsForAQuietMomentUpToALimit(t *testing.T) {
	config := testConfig()
	config.Sweep.Quiet = Quiet{
		Over: 20 * time.Millisecond, Limit: time.Second,
		Busy_ppm: 500_000, BytesASecond: 1 << 20,
	}
	f := newFleet(t, config, names(2)...)
	f.clients["n00"].busy = 900_000
	f.run(time.Minute, func() bool { return f.core.sweep != nil })
	f.run(300*time.Millisecond, nil)
	if len(f.probed) > 0 {
		t.Error("a busy node is probed at once")
	}
	f.clients["n00"].busy = 100_000
	s := f.wantSweep(time.Minute)
	if s.Quiet != "quiet" || s.Waited_ns < int64(200*time.Millisecond) {
		t.Errorf("%+v", s)
	}
	f.clients["n01"].busy = 900_000
	began := f.time
	if err := f.core.startSweep("again", config.Sweep, nil); err != nil {
		t.Fatal(err)
	}
	s = f.wantSweep(time.Minute)
	if took := f.time - began; took < time.Second || took > 2*time.Second {
		t.Errorf("a node that stays busy is waited for %v", took)
	}
	if s.Quiet != "1 of 2 nodes were not quiet" || len(s.Noisy) != 1 ||
		s.Noisy[0].Node != "n01" || !strings.Contains(s.Noisy[0].What, "90 %") || s.Complete != 1 {
		t.Errorf("%+v", s)
	}
}

func TestWhatIsNotQuiet(t *testing.T) {
	q := Quiet{Busy_ppm: 500_000, BytesASecond: 1_000_000}
	for want, load := range map[string]control.Load{
		"":                   {Busy_ppm: 500_000, ReceivedBytes: 20_000, SentBytes: 20_000},
		"51 % busy":          {Busy_ppm: 510_000},
		"receives 1500 kB/s": {ReceivedBytes: 30_000},
		"sends 1250 kB/s":    {SentBytes: 25_000},
	} {
		load.Over_ns = int64(20 * time.Millisecond)
		if got := q.finds(&load); got != want {
			t.Errorf("%+v: finds %q, want %q", load, got, want)
		}
	}
}

func TestRestartedServerKnowsWhatWasMeasured(t *testing.T) {
	f := newFleet(t, testConfig(), names(5)...)
	f.wantSweep(time.Minute)
	before := f.wantTrue()
	f.restart()
	after := f.wantTrue()
	if len(after.Pairs) != len(before.Pairs) {
		t.Fatalf("%d directions, %d before", len(after.Pairs), len(before.Pairs))
	}
	for i, p := range after.Pairs {
		q := before.Pairs[i]
		if !p.Old || p.Direct_ns != q.Direct_ns || p.Trains != q.Trains ||
			p.Reading_cycles != q.Reading_cycles {
			t.Errorf("is %+v\nwas %+v", p, q)
		}
	}
	// They come back one after another, each with its own heartbeat, so several sweeps may begin.
	if !f.run(time.Minute, func() bool { return f.swept() && f.core.last.Complete == 10 }) {
		t.Errorf("nodes do not come back to a restarted server: %+v", f.core.sweepStatus())
	}
}

func answered[T any](t *testing.T, m control.Message) (v T) {
	t.Helper()
	a, ok := m.(*control.Answer)
	if !ok {
		t.Fatalf("answer is %s: %+v", m.Kind(), m)
	}
	if err := json.Unmarshal(a.Result, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

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
	const sweep = 24 // trains: six pairs, two directions, two in each
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
	// The node measured this over the run. It registered again afterwards, which did not change it.
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
		// Two sweeps of four trains each, and 30 s of the budget (2,000 exchanges a second) among
		// 12 directions, less the time in which nodes looked for the restarted server.
		if p.Trains() < 300*f.config.Budget/2000 {
			t.Errorf("%s with %s has %d trains", p.A.Name, p.B.Name, p.Trains())
		}
		if _, err := relations(p); err != nil {
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

// A table reaches every node that takes one as fast as packets do. The matrix shows where it is not
// in force. A run that is under way records when it was served, and what held before.
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
	for _, n := range f.core.copyFleet()().Nodes {
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

// One direct link has up to 5 ms of noise in one direction. The others are good. The path over a
// third node bounds the pair as well as its two hops allow.
func TestClosureBoundsANoisyPair(t *testing.T) { closureBar(t) }

// TestBarClosure is the same test for the record.
func TestBarClosure(t *testing.T) {
	proof.Begin(t)
	bar := proof.Bar{
		Name:  "closure: bound of a pair with 5 ms of noise one way",
		Limit: 1.2, Unit: "× the sum of its two best hops",
	}
	proof.Check(t, bar.From(closureBar(t)))
}

func closureBar(t *testing.T) (ratios []float64) {
	f := newFleet(t, testConfig())
	f.links[[2]string{"n00", "n01"}] = link{5 * time.Millisecond, 5 * time.Millisecond}
	for _, name := range names(4) {
		f.join(name)
	}
	f.wantSweep(time.Minute)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(30*time.Second, nil)
	m := f.wantTrue()
	bound := map[[2]string]PairStatus{}
	for _, p := range m.Pairs {
		bound[[2]string{p.From, p.Into}] = p
	}
	for _, d := range [][2]string{{"n00", "n01"}, {"n01", "n00"}} {
		best := 1e18
		for _, via := range []string{"n02", "n03"} {
			hops := bound[[2]string{d[0], via}].Direct_ns + bound[[2]string{via, d[1]}].Direct_ns
			best = min(best, hops)
		}
		p := bound[d]
		t.Logf("%s in %s: ± %.0f ns %s, direct ± %.0f, sum of the two best hops %.0f",
			p.From, p.Into, p.Bound_ns, p.Path(), p.Direct_ns, best)
		ratios = append(ratios, p.Bound_ns/best)
		if p.Bound_ns > 1.2*best {
			t.Errorf("bound is %.2f of the sum of its two best hops, want at most 1.2",
				p.Bound_ns/best)
		}
		if p.Direct_ns < 1e6 {
			t.Errorf("the direct bound is ± %.0f ns: there is no noise", p.Direct_ns)
		}
		if p.Path() == "direct" {
			t.Error("the path is direct")
		}
	}
	return ratios
}

// A node's stamps are wrong, but plausible to each peer. Then bounds with that node are false, and
// no others, whatever it tells its peers. It is named once it is off by more than the paths to
// others allow. With "any", a smaller lie makes bounds between two honest nodes on a bad link
// false.
func TestALiarSpoilsItsOwnBoundsOnly(t *testing.T) {
	const liar = "n01"
	// In cycles: 23, 154 and 4 µs. A hop takes 10 to 30 µs.
	const off, far, shorter = 60_000, 400_000, 10_000
	for name, test := range map[string]struct {
		lies    map[string]int64 // by peer
		matters bool             // to other nodes, if any third node is believed
		named   bool             // in the matrix
	}{
		// To the other nodes this is a counter like any other.
		"alike to all": {
			map[string]int64{"n00": off, "n02": off, "n03": off, "n04": off}, false, false},
		"a little to one only": {map[string]int64{"n00": off}, true, false},
		"a lot to one only":    {map[string]int64{"n00": far}, false, true},
		"another to each": {
			map[string]int64{"n00": far, "n02": -far, "n03": 3 * far, "n04": -3 * far},
			false, true},
	} {
		t.Run(name, func(t *testing.T) {
			var others int
			for _, third := range []tscratio.ThirdNodes{tscratio.ThirdAgreed, tscratio.ThirdAny} {
				if third == tscratio.ThirdAny && !test.matters {
					continue
				}
				config := testConfig()
				config.ThirdNodes, config.Budget = third, 300
				f := newFleet(t, config)
				f.links[[2]string{"n00", "n02"}] = link{time.Millisecond, time.Millisecond}
				f.links[[2]string{"n02", "n00"}] = link{time.Millisecond, time.Millisecond}
				for _, name := range names(5) {
					f.join(name)
				}
				f.clients[liar].lie = func(peer string) (int64, int64) {
					return test.lies[peer], shorter
				}
				f.wantSweep(time.Minute)
				f.ask(AskStartRun, RunRequest{Name: "r"})
				f.run(8*time.Second, nil)
				m := f.core.copyFleet()()
				own := 0
				others = 0
				for _, p := range m.Pairs {
					if p.Hi_cycles == 0 {
						t.Fatalf("%s is not related to %s: %s", p.From, p.Into, p.Unhealthy)
					}
					if truth, ok := f.holds(p); ok {
						continue
					} else if p.From == liar || p.Into == liar {
						own++
					} else if others++; third == tscratio.ThirdAgreed {
						t.Errorf("%s in cycles of %s is [%d, %d] %s, and %d in truth: "+
							"neither of them lies", p.From, p.Into, p.Lo_cycles, p.Hi_cycles,
							p.Path(), truth)
					}
				}
				if own == 0 {
					t.Error("no bound of the liar's is false: it does not lie")
				}
				accused := slices.ContainsFunc(m.Unhealthy, func(s string) bool {
					return strings.HasPrefix(s, "node "+liar+" is in all disagreements")
				})
				if accused != test.named || test.named && m.Healthy() {
					t.Errorf("third nodes %v: named %v, want %v; healthy %v: %q",
						third, accused, test.named, m.Healthy(), m.Unhealthy)
				}
				if name == "another to each" {
					for _, n := range m.Nodes {
						if n.Accused && n.Name != liar {
							t.Errorf("%s is accused, and does not lie", n.Name)
						}
					}
				}
			}
			if test.matters && others == 0 {
				t.Error("with any third node believed, no bound between honest nodes is false: " +
					"the test sees nothing")
			}
		})
	}
}

// Faults of all kinds occur at random moments. No bound is false, nothing hangs, and every loss is
// named.
func TestRandomFaults(t *testing.T) {
	f := newFleet(t, testConfig(), names(10)...)
	f.wantSweep(time.Minute)
	normal := time.Duration(f.core.last.Took_ns)
	for range max(10, 50/seed.Share()) {
		c := f.clients[names(10)[f.r.IntN(10)]]
		switch f.r.IntN(4) {
		case 0:
			c.state = killed
		case 1:
			c.state = stopped
		case 2:
			c.cut = true
		case 3:
			f.core.flush()
			f.restart()
		}
		f.core.startSweep("faults", f.config.Sweep, nil)
		f.run(time.Duration(f.r.Int64N(int64(2*time.Second))), nil)
		if f.r.IntN(2) == 0 {
			if c.state == killed {
				c.register.Instance += "x"
				c.report, c.unacked = 0, nil
			}
			c.state, c.cut = running, false
			c.connect()
		}
		f.wantTrue()
	}
	if !f.run(time.Minute, func() bool { return f.core.sweep == nil }) {
		t.Fatal("a sweep hangs")
	}
	f.run(10*time.Second, nil) // the nodes that are gone are found to be
	f.core.sweepBy = time.Time{}
	f.run(time.Minute, func() bool { return f.core.sweep == nil })
	f.core.last = nil
	if err := f.core.startSweep("living", f.config.Sweep, nil); err != nil {
		t.Fatal(err)
	}
	s := f.wantSweep(time.Minute)
	if took := time.Duration(s.Took_ns); took > 3*normal {
		t.Errorf("the living take %v, %v is normal", took, normal)
	}
	living := 0
	for _, n := range f.core.nodes {
		if n.alive() {
			living++
		}
	}
	if s.Complete != living*(living-1)/2 {
		t.Errorf("%d living, %d pairs complete: %+v", living, s.Complete, s.Lost)
	}
	f.wantTrue()
}

// A node that is suspended during an open run has two epochs in it, each with its own relations.
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
	c.state = killed
	f.run(5*time.Second, nil)
	c.state = running
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

// A sweep that is due waits for the end of a run. The core does not wake up again and again to
// look.
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
		if next := f.core.next(); next.Before(f.now()) {
			t.Fatalf("the next thing to do was due %v ago", f.now().Sub(next))
		}
	}
	number := f.core.last.Number
	f.ask(AskStopRun, nil)
	f.complete()
	// One sweep after the run, and the next one that is due.
	if !f.run(time.Minute, func() bool { return f.core.last.Number >= number+2 }) {
		t.Error("no sweep after the run")
	}
}
