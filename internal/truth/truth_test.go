package truth

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// run returns a run of two nodes. The nodes in truth are virtual nodes of the given configurations.
func run(t *testing.T, truth map[string]vnode.Config) *runs.Directory {
	t.Helper()
	parent := t.TempDir()
	if err := simrun.Chain(1, parent, "chain", 2, 10, 1000); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "chain"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	if err := os.MkdirAll(filepath.Join(dir.Path, "truth"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range truth {
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir.Path, filepath.FromSlash(runs.TruthPath(name))),
			text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range dir.Run.Nodes {
		_, dir.Run.Nodes[i].Virtual = truth[dir.Run.Nodes[i].Name]
	}
	return dir
}

// For counters of any kind, Truth returns what the exact inverse returns. A reading that the
// counter never shows has no translation.
func TestTruthIsTheExactInverse(t *testing.T) {
	r := seed.Random(t)
	shapes := []vnode.Shape{vnode.Steady, vnode.Sine, vnode.Walk, vnode.Temperature}
	for i := range 12 {
		physical := virtual.Physical{Counter: 1 << 50, Realtime_ns: 1_700_000_000e9,
			Hz: 2_600_000_000}
		a := virtual.Config(r, "A", physical, shapes[r.IntN(len(shapes))], 0.5, 10*time.Minute)
		b := virtual.Config(r, "B", physical, shapes[r.IntN(len(shapes))], 0.5, 10*time.Minute)
		if i%3 == 1 {
			b.Counter.Quantum_cycles, b.Counter.Start = 26, b.Counter.Start-b.Counter.Start%26
		}
		if i%3 == 2 {
			b.Counter.Steps = []vnode.Step{{At: physical.Counter + 5e9,
				By_cycles: 1 + r.Int64N(1e6)}}
		}
		c, missing := Of(run(t, map[string]vnode.Config{"A": a, "B": b}))
		if c == nil || len(missing) > 0 {
			t.Fatalf("%v, missing %v", c, missing)
		}
		exactA, _ := vnode.NewTruth(a.Counter)
		exactB, err := vnode.NewTruth(b.Counter)
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			p := physical.Counter + r.Uint64N(60*physical.Hz)
			reading := exactB.Reading(p)
			got, ok := c.Truth("B", reading, "A")
			want := exactB.Translate(reading, exactA)
			if !ok || len(want) != 1 || got.Lo != want[0].First || got.Hi != want[0].Last ||
				!got.Contains(exactA.Reading(p)) {
				t.Fatalf("case %d: %d of B is %v of A (%v), want %v", i, reading, got, ok, want)
			}
			if got, ok := c.Truth("B", reading, "B"); !ok || got.Lo != reading ||
				got.Hi != reading {
				t.Fatalf("its own reading %d is %v", reading, got)
			}
		}
		if b.Counter.Quantum_cycles > 1 {
			if got, ok := c.Truth("B", exactB.Reading(physical.Counter+1e9)+1, "A"); ok {
				t.Errorf("a reading that the counter never shows is %v", got)
			}
		}
	}
}

func TestTruthIsNotKnown(t *testing.T) {
	r := seed.Random(t)
	physical := virtual.Physical{Counter: 1 << 50, Realtime_ns: 1_700_000_000e9, Hz: 2_600_000_000}
	config := func(name string) vnode.Config {
		return virtual.Config(r, name, physical, vnode.Sine, 0.5, 10*time.Minute)
	}
	if c, missing := Of(run(t, nil)); c != nil || len(missing) > 0 {
		t.Errorf("of real nodes: %v, missing %v", c, missing)
	}
	c, missing := Of(run(t, map[string]vnode.Config{"A": config("A")}))
	if c == nil || len(missing) > 0 {
		t.Fatalf("%v, missing %v", c, missing)
	}
	if got, ok := c.Truth("A", 5, "B"); ok {
		t.Errorf("of a node without truth: %v", got)
	}

	dir := run(t, map[string]vnode.Config{"A": config("A"), "B": config("B")})
	dir.Run.Nodes[1].ID = "another machine"
	c, _ = Of(dir)
	if got, ok := c.Truth("A", c.nodes["A"].exact.Reading(physical.Counter), "B"); ok {
		t.Errorf("between machines: %v", got)
	}

	if c,
		missing =
		Of(run(t, map[string]vnode.Config{"A": config("another"), "B": config("B")})); len(
		missing) != 1 || missing[0].Part != "truth/A.json" || c == nil {
		t.Errorf("the truth about another node: missing %v", missing)
	}
	dir = run(t, map[string]vnode.Config{"A": config("A")})
	if err := os.WriteFile(filepath.Join(dir.Path, "truth", "A.json"), []byte(`{"version": 1`),
		0o600); err != nil {
		t.Fatal(err)
	}
	if c, missing = Of(dir); len(missing) != 1 || c != nil {
		t.Errorf("a torn truth: %v, missing %v", c, missing)
	}
}

func BenchmarkTruth(b *testing.B) {
	physical := virtual.Physical{Counter: 1 << 50, Realtime_ns: 1_700_000_000e9, Hz: 2_600_000_000}
	r := seed.Random(b)
	c := &Counters{nodes: map[string]*counter{}}
	for _, name := range []string{"A", "B"} {
		text, err := virtual.Config(r, name, physical, vnode.Walk, 0.5, 10*time.Minute).Encode()
		if err != nil {
			b.Fatal(err)
		}
		if err := c.add(name, "", text); err != nil {
			b.Fatal(err)
		}
	}
	at := c.nodes["B"].exact.Reading(physical.Counter + 7e9)
	for b.Loop() {
		c.Truth("B", at, "A")
	}
}
