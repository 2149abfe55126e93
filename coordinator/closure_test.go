package coordinator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// The direct link between two nodes has up to 5 ms of noise in one direction. All other links are
// good. The closure also uses paths over third nodes. So the bound of these two nodes is as narrow
// as a path over two good links allows.
func TestClosureBoundsANoisyPair(t *testing.T) { closureBar(t) }

// TestBarClosure makes the same test and records the result.
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

// A liar is a node whose stamps are wrong, but look plausible to each peer. By default, only the
// liar's own bounds are then false, even if it tells each peer a different lie. The server names
// the liar if the lie is larger than the bounds of the paths over other nodes. But suppose that the
// server is told to believe any single third node. Then a smaller lie can make the bound of two
// honest nodes false, if their direct link is bad.
func TestALiarSpoilsItsOwnBoundsOnly(t *testing.T) {
	const liar = "n01"
	// These lies are in cycles. They correspond to 23, 154 and 4 µs. A packet between two nodes
	// takes 10 to 30 µs.
	const off, far, shorter = 60_000, 400_000, 10_000
	for name, test := range map[string]struct {
		lies    map[string]int64 // the error of the liar's stamps for each peer, in cycles
		matters bool             // with ThirdAny, the liar makes bounds of honest nodes false
		named   bool             // the matrix names the liar
	}{
		// If all peers see a counter shifted by the same number, it looks like an honest counter.
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
				m := f.core.fleetCopy().evaluate()
				own := 0
				others = 0
				for _, p := range m.Pairs {
					if p.Hi_cycles == 0 {
						t.Fatalf("%s is not related to %s: %s", p.From, p.Into, p.Unhealthy)
					}
					if truth, ok := f.holdsTruth(p); ok {
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
					return strings.Contains(s, "that disagrees with another leads over node") &&
						strings.Contains(s, liar)
				})
				if accused != test.named || test.named && m.Healthy() {
					t.Errorf("third nodes %v: named %v, want %v; healthy %v: %q",
						third, accused, test.named, m.Healthy(), m.Unhealthy)
				}
				for _, n := range m.Nodes {
					if n.Accused && n.Name != liar {
						t.Errorf("%s is accused, and does not lie", n.Name)
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

// Faults of all kinds occur at random moments. No bound is false, nothing hangs, and the server
// gives a reason for every lost pair.
func TestRandomFaults(t *testing.T) {
	f := newFleet(t, testConfig(), names(10)...)
	f.wantSweep(time.Minute)
	normal := time.Duration(f.core.last.Took_ns)
	for range max(10, 50/seed.Share()) {
		c := f.clients[names(10)[f.r.IntN(10)]]
		switch f.r.IntN(4) {
		case 0:
			c.state = clientKilled
		case 1:
			c.state = clientStopped
		case 2:
			c.isCut = true
		case 3:
			f.core.flush()
			f.restart()
		}
		f.core.startSweep("faults", f.config.Sweep, nil)
		f.run(time.Duration(f.r.Int64N(int64(2*time.Second))), nil)
		if f.r.IntN(2) == 0 {
			if c.state == clientKilled {
				c.register.Instance += "x"
				c.report, c.unacked = 0, nil
			}
			c.state, c.isCut = clientRunning, false
			c.connect()
		}
		f.wantTrue()
	}
	if !f.run(time.Minute, func() bool { return f.core.sweep == nil }) {
		t.Fatal("a sweep hangs")
	}
	f.run(10*time.Second, nil) // the server notices which nodes are gone
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
		if n.isAlive() {
			living++
		}
	}
	if s.Complete != living*(living-1)/2 {
		t.Errorf("%d living, %d pairs complete: %+v", living, s.Complete, s.Lost)
	}
	f.wantTrue()
}
