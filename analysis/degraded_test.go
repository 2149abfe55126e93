package analysis

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// chainEdges declare the path of simrun.Chain over three nodes.
var chainEdges = [][2]string{{"stage0/recv", "stage1/recv"}, {"stage1/recv", "stage2/recv"}}

// aChain is the directory of a run of 1,000 tuples over the nodes A, B and C.
func aChain(t *testing.T) string {
	t.Helper()
	parent := t.TempDir()
	if err := simrun.Chain(seed.Of(t), parent, "chain", 3, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(parent, "chain")
}

// rewrite changes the events of a node's only log.
func rewrite(t *testing.T, run, node string, change func([]logstore.Event) []logstore.Event) {
	t.Helper()
	dir := filepath.Join(run, "logs", node)
	found, err := filepath.Glob(filepath.Join(dir, "*"+logstore.Suffix))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	rewriteFile(t, found[0], change)
	all := func(logstore.Segment) bool { return true }
	if err := logstore.ExtendManifest(dir, all); err != nil {
		t.Fatal(err)
	}
}

// rewriteFile changes the events of a log that has only one block.
func rewriteFile(t *testing.T, path string, change func([]logstore.Event) []logstore.Event) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := logstore.NewReader(f, path)
	if err != nil {
		t.Fatal(err)
	}
	block, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	w, err := logstore.Create(nil, path, r.Header())
	if err != nil {
		t.Fatal(err)
	}
	block.Events = change(block.Events)
	if err := w.Append(block); err != nil {
		t.Fatal(err)
	}
	if err := w.Seal(); err != nil {
		t.Fatal(err)
	}
}

// spanBetween returns an answer's durations that begin on one node (from) and end on another (to).
func spanBetween(t *testing.T, a *Answer, from, to string) Durations {
	t.Helper()
	for _, l := range a.Spans {
		for _, p := range l.Pairs {
			if p.From == from && p.To == to {
				return p.Durations
			}
		}
	}
	t.Fatalf("nothing from %s to %s: spans %+v, findings %v", from, to, a.Spans, a.Findings)
	return Durations{}
}

// A defect of one node is named, and changes nothing in the answer about the other nodes.
func TestADegradedNodeHarmsNoOther(t *testing.T) {
	seed.NotUnderRace(t, "TestAnswersEqualOracle analyzes side by side too")
	const hour = 3600 * simrun.Hz
	wild := func(counter func(was uint64) uint64) func(*testing.T, string) {
		return func(t *testing.T, run string) {
			rewrite(t, run, "C", func(events []logstore.Event) []logstore.Event {
				events[500].Counter = counter(events[500].Counter)
				return events
			})
		}
	}
	for name, test := range map[string]struct {
		harm func(t *testing.T, run string)
		say  string
	}{
		"not related": {func(t *testing.T, run string) {
			for _, pair := range []string{"A--C", "B--C"} {
				if err := os.Remove(filepath.Join(run, "relations", pair+".rel")); err != nil {
					t.Fatal(err)
				}
			}
		}, "relations/A--C.rel"},
		"related to one": {func(t *testing.T, run string) {
			if err := os.Remove(filepath.Join(run, "relations", "B--C.rel")); err != nil {
				t.Fatal(err)
			}
		}, "relations/B--C.rel"},
		"an hour ahead": {wild(func(was uint64) uint64 {
			return was + hour
		}), "events at stage2/recv lie far from"},
		"before the run": {wild(func(was uint64) uint64 {
			return was - 87*simrun.Hz
		}), "events at stage2/recv lie far from"},
		"zero": {wild(func(uint64) uint64 {
			return 0
		}), "events at stage2/recv lie far from"},
		"the last of all": {wild(func(uint64) uint64 {
			return math.MaxUint64
		}), "events at stage2/recv lie far from"},
		"all elsewhere": {func(t *testing.T, run string) {
			rewrite(t, run, "C", func(events []logstore.Event) []logstore.Event {
				for i := range events {
					events[i].Counter = 1<<63 - 500 + uint64(i)
				}
				return events
			})
		}, "events at stage2/recv lie far from"},
	} {
		t.Run(name, func(t *testing.T) {
			run := aChain(t)
			for _, reference := range []string{"A", "B", "C"} {
				o := Options{Reference: reference, Edges: chainEdges}
				whole := spanBetween(t, analyzePath(t, run, o), "A", "B")
				copied := filepath.Join(t.TempDir(), "chain")
				if err := os.CopyFS(copied, os.DirFS(run)); err != nil {
					t.Fatal(err)
				}
				test.harm(t, copied)
				a := analyzePath(t, copied, o)
				if !a.Partial || !mentions(a, test.say) {
					t.Errorf("in cycles of %s: partial %v, findings %v, missing %v: %q is not said",
						reference, a.Partial, a.Findings, a.Missing, test.say)
				}
				if name == "not related" && reference == "C" {
					continue // cycles of the bad node say nothing about the other nodes
				}
				if d := cmp.Diff(whole, spanBetween(t, a, "A", "B")); name != "related to one" &&
					d != "" {
					t.Errorf("in cycles of %s, A to B:\n%s", reference, d)
				}
				if n := inBins(a, "stage0/recv"); n < 999 {
					t.Errorf("in cycles of %s: %d of 1000 events at stage0/recv are in a bin",
						reference, n)
				}
				if busy := busyBins(a, "stage0/recv"); busy < maxBins/4 {
					t.Errorf("in cycles of %s: all events at stage0/recv are in %d bins of %d",
						reference, busy, a.Bins.Count)
				}
			}
		})
	}
}

// If a run has only one node, all readings of its counter have a place on the time axis, however
// far apart they are. Nothing shows that one of them is wrong.
func TestCountersAtTheEndsOfTheirRange(t *testing.T) {
	for _, readings := range [][]uint64{{1, math.MaxUint64}, {5, 1 << 63}, {1<<63 - 1, 1<<63 + 1},
		{math.MaxUint64 - 1, math.MaxUint64}} {
		parent := t.TempDir()
		rng := seed.Random(t)
		nodes := simrun.Nodes(rng, 1)
		channels := []simrun.Channel{{Name: "a/start"}, {Name: "a/end"}}
		for i := range channels {
			channels[i].Records = []simrun.Record{
				{Time: simrun.Hz, ID: 1}, {Time: simrun.Hz + 5, ID: 2},
			}
		}
		if err := simrun.Write(rng, parent, "ends", nodes, channels); err != nil {
			t.Fatal(err)
		}
		run := filepath.Join(parent, "ends")
		for i, pattern := range []string{"a~start*", "a~end*"} {
			found, err := filepath.Glob(filepath.Join(run, "logs/A", pattern))
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v", found, err)
			}
			rewriteFile(t, found[0], func(events []logstore.Event) []logstore.Event {
				events[0].Counter, events[1].Counter = readings[i], readings[1]
				return events
			})
		}
		a := analyzePath(t, run, Options{})
		if n := inBins(a, "a/start") + inBins(a, "a/end"); n != 4 {
			t.Errorf("%v: %d of 4 events are in a bin of %+v", readings, n, a.Bins)
		}
		if l := a.Spans[0].All; l.Count+l.Unplaced != 2 ||
			l.Count > 0 && l.Min.Lo_cycles > l.Max.Hi_cycles {
			t.Errorf("%v: %+v", readings, l)
		}
	}
}

func analyzePath(t *testing.T, run string, o Options) *Answer {
	t.Helper()
	dir, err := runs.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	return analyze(t, dir, o)
}

// inBins is the number of events of a point that are on the time axis.
func inBins(a *Answer, point string) (n uint64) {
	for _, p := range a.Points {
		for _, events := range p.PerBin {
			if p.Name == point {
				n += events
			}
		}
	}
	return n
}

// busyBins is the number of bins with events of a point.
func busyBins(a *Answer, point string) (n int) {
	for _, p := range a.Points {
		for _, events := range p.PerBin {
			if p.Name == point && events > 0 {
				n++
			}
		}
	}
	return n
}

// Whatever the axis, a reading is in the bin whose edges enclose it. A node without an axis has no
// bins.
func TestAxis(t *testing.T) {
	var none axis
	if bin, on := none.bin(5); on {
		t.Errorf("without an axis 5 is in bin %d", bin)
	}
	rng := seed.Random(t)
	for range 20_000 {
		a := axis{
			base: rng.Uint64() >> rng.UintN(64), scale: rng.Uint64() >> rng.UintN(64),
			count: 1 + rng.IntN(maxBins),
		}
		reading := rng.Uint64() >> rng.UintN(64)
		bin, on := a.bin(reading)
		if !on {
			continue
		}
		if bin < 0 || bin >= a.count {
			t.Fatalf("%+v: %d is in bin %d", a, reading, bin)
		}
		from, length := a.binRange(bin, reading)
		if from > reading || reading-from > length || from+length < from {
			t.Fatalf("%+v: bin %d of %d is %d cycles from %d on", a, bin, reading, length, from)
		}
		if inner := a.base <= reading && a.binStart(bin) <= reading && bin+1 < a.count; inner &&
			length > 0 {
			if last, _ := a.bin(from + length - 1); last != bin {
				t.Fatalf("%+v: bin %d ends in bin %d", a, bin, last)
			}
		}
	}
}

// No duration that the closure can compute is refused as too far away.
func TestFarReadingsHaveNoDuration(t *testing.T) {
	rng := seed.Random(t)
	dir, err := runs.Open(aChain(t))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	o := Options{Reference: "A"}
	if err := o.defaults(); err != nil {
		t.Fatal(err)
	}
	in, err := openInput(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	timer, n := newTimer(in), len(in.nodes)
	reading := func(node int) uint64 {
		limits := timer.limits(node, (node+1)%n)
		switch rng.IntN(4) {
		case 0:
			return rng.Uint64()
		case 1:
			return limits.Lo + rng.Uint64N(20) - 10
		case 2:
			return limits.Hi + rng.Uint64N(20) - 10
		}
		return limits.Lo + rng.Uint64N(limits.Width())
	}
	var told, far int
	for range 2000 {
		a, b := rng.IntN(n), rng.IntN(n)
		x, y := reading(a), reading(b)
		ways := timer.way(a*n+b, a, b)
		d, err := ways.Duration(x, y)
		if err == nil {
			told++
		}
		if timer.known[a*n+b].outOfReach(x, y) {
			if far++; err == nil {
				t.Fatalf("from %d of %s to %d of %s is far, and took %v", x, in.nodes[a].Name, y,
					in.nodes[b].Name, d)
			}
		}
	}
	if told < 500 || far < 100 {
		t.Errorf("%d durations are told, %d are far", told, far)
	}
}
