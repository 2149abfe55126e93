package coordinator

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
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
	// The clients had registered before these fields were set, so they register again.
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
		"killed":  func(f *fleet, c *fakeClient) { c.state = clientKilled },
		"stopped": func(f *fleet, c *fakeClient) { c.state = clientStopped },
		"cut off": func(f *fleet, c *fakeClient) { c.isCut = true },
		"leaves": func(f *fleet, c *fakeClient) {
			c.send(0, &control.Leave{Why: "update"})
			c.state = clientKilled
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

// While the server itself is busy for a long time, it handles no messages. Afterwards it must not
// think that the nodes were silent, and must declare no node dead. But it must soon notice the
// nodes that are really gone.
func TestTheServersOwnWorkIsNotSilence(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	f.clients["n00"].state = clientKilled
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
	f.clients["n05"].state = clientStopped
	f.run(time.Second, nil)
	f.clients["n05"].state = clientRunning
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

// wantPairs checks how many pairs are kept in memory, and that a restarted server would know the
// pairs of the present epochs. If pairs of ended epochs stayed, their number would grow without
// limit.
func (f *fleet) wantPairs(n int) {
	f.t.Helper()
	err := f.core.save()
	known, stored, want := len(f.core.pairs), len(f.restoredCore().pairs), len(f.core.current)
	if err != nil || known != n || stored != want {
		f.t.Errorf("%d pairs are known, want %d; %d are on disk, want %d: %v",
			known, n, stored, want, err)
	}
}

func TestAnEpochEndsWhatWasKnown(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	c := f.clients["n01"]
	c.offset += 1 << 40
	c.register.Epoch, c.register.Instance = "e2", "other"
	c.state = clientKilled
	f.run(5*time.Second, nil)
	c.state = clientRunning
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
	// A pair that an open run uses stays until the run is complete.
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
	f.waitComplete()
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
	first.state = clientKilled
	f.clients["a"] = second
	f.run(10*time.Second, nil)
	if n := f.core.nodes["a"]; !n.isAlive() || n.registered.Instance != second.register.Instance {
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
	if n := f.core.nodes["a"]; !n.isAlive() || n.peer != peer || n.restarts != 0 {
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
		if got := q.whyNoisy(&load); got != want {
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
	// The nodes come back one after another, each with its own heartbeat, so several sweeps may
	// begin.
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
