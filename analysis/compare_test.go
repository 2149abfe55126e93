package analysis

import (
	"math"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// methodsOf are the methods of a run's only pair.
func methodsOf(t *testing.T, a *Answer) map[string]Method {
	t.Helper()
	if len(a.Comparisons) != 1 || len(a.Comparisons[0].Methods) != 4 {
		t.Fatalf("%d comparisons, want one of four methods: %v", len(a.Comparisons), a.Comparisons)
	}
	methods := map[string]Method{}
	for _, m := range a.Comparisons[0].Methods {
		methods[m.Name] = m
		if (len(m.Bounds_cycles) == 0) == (m.Absent == "") ||
			len(m.Bounds_cycles) > 0 && len(m.Bounds_cycles) != a.Bins.Count {
			t.Errorf("%s has %d bounds in %d bins, absent for %q", m.Name, len(m.Bounds_cycles),
				a.Bins.Count, m.Absent)
		}
		if values := m.Bounds_cycles.presentValues(); len(values) > 0 &&
			(values[0] != m.Least_cycles || values[len(values)-1] != m.Worst_cycles ||
				m.Median_cycles < m.Least_cycles || m.Median_cycles > m.Worst_cycles) {
			t.Errorf("%s: %d, %d, %d of %v", m.Name, m.Least_cycles, m.Median_cycles,
				m.Worst_cycles, values)
		}
	}
	return methods
}

// The paper's bound follows from the anchors before and after the run, and grows with the wander
// since the nearer anchor. Our bound is smaller.
func TestComparesWithAnchors(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(3, parent, "chain", 2, 30_000, 10_000); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "chain")
	a := analyze(t, dir, Options{})
	methods := methodsOf(t, a)
	ours, paper := methods[Ours], methods[MinRTT]
	if !ours.Proven || paper.Proven {
		t.Errorf("proven: ours %v, the paper's %v", ours.Proven, paper.Proven)
	}
	if ours.Worst_cycles >= paper.Least_cycles {
		t.Errorf("ours is %d at worst, the paper's %d at best", ours.Worst_cycles,
			paper.Least_cycles)
	}
	// From bin to bin, the paper's bound grows by the wander, up to the middle between the anchors.
	got := float64(paper.Bounds_cycles[a.Bins.Count/4] - paper.Bounds_cycles[0])
	if want := float64(a.Bins.Width_cycles) * float64(a.Bins.Count/4) * 1e-6; math.Abs(
		got-want) > want/10 {
		t.Errorf("it grows by %g cycles in a quarter of the run, want %g", got, want)
	}
	if last := len(paper.Bounds_cycles) - 1; paper.Bounds_cycles[last] >= paper.Worst_cycles {
		t.Error("it does not shrink towards the second anchor")
	}
	wide := methodsOf(t, analyze(t, dir, Options{Wander: 2 * tscratio.PPM}))
	if wider := wide[MinRTT]; wider.Median_cycles < paper.Median_cycles+simrun.Hz/2*1e-6 {
		t.Errorf("with twice the wander %d cycles, with once %d", wider.Median_cycles,
			paper.Median_cycles)
	}
}

// The claims of both nodes' daemons are added up. The sum is known only after both daemons have
// claimed something. Claims of another epoch are not used.
func TestComparesWithClaims(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(7, parent, "chain", 2, 20_000, 10_000); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "chain")
	a := analyze(t, dir, Options{})
	if m := methodsOf(t, a)[NTP]; !strings.Contains(m.Absent, "not kept") {
		t.Errorf("nothing was kept: %v", m)
	}
	// The daemon of each node makes its first claim in the middle of the run.
	half := uint64(a.Bins.From_cycles) + a.Bins.Width_cycles*uint64(a.Bins.Count)/2
	pairs, _ := dir.Relations()
	for node, offset := range map[string]int64{"A": 1000, "B": -500} {
		at := half
		if node != a.Reference.Node {
			side := tscratio.SideA
			if node == "B" {
				side = tscratio.SideB
			}
			relation, err := pairs[0].Relate(side, pairs[0].Declared.Wander)
			if err != nil {
				t.Fatal(err)
			}
			i, err := relation.Translate(half)
			if err != nil {
				t.Fatal(err)
			}
			at = i.Mid()
		}
		keepClaims(t, dir.Path, node, "epoch-"+node,
			[]logstore.NTP{{CounterLo: at, CounterHi: at, Offset_ns: offset, RootDispersion_ns: 30,
				RootDelay_ns: 20, Stratum: 2}}, 1)
	}
	m := methodsOf(t, analyze(t, dir, Options{}))[NTP]
	if m.Proven || m.Absent != "" {
		t.Fatalf("%+v", m)
	}
	// This is the sum of the bounds of A and B in ns, each rounded up to cycles of the reference. A
	// bound is |offset| + dispersion + delay/2.
	want := int64(math.Ceil(1040*a.Reference.FrequencyHi_hz/1e9) +
		math.Ceil(540*a.Reference.FrequencyHi_hz/1e9))
	for b, v := range m.Bounds_cycles {
		switch {
		case b < a.Bins.Count/2-1 && v != None:
			t.Errorf("bin %d: %d, before anything was claimed", b, v)
		case b > a.Bins.Count/2 && v != want:
			t.Errorf("bin %d: %d, want %d", b, v, want)
		}
	}
	if m.Median_cycles != want {
		t.Errorf("median %d, want %d", m.Median_cycles, want)
	}
	keepClaims(t, dir.Path, "B", "an older one", []logstore.NTP{{Stratum: 1}}, 1)
	a = analyze(t, dir, Options{})
	if m := methodsOf(t, a)[NTP]; !strings.Contains(m.Absent, "epoch") || !a.Partial {
		t.Errorf("claims of another epoch: %q, and the answer is partial: %v", m.Absent, a.Partial)
	}
}

// A claim is used for 10 s, or until the daemon says that it no longer has a time source.
func TestClaimsGrowOld(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(7, parent, "long", 2, 300, 20); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "long")
	a := analyze(t, dir, Options{Reference: "A"})
	pairs, _ := dir.Relations()
	relation, err := pairs[0].Relate(tscratio.SideB, pairs[0].Declared.Wander)
	if err != nil {
		t.Fatal(err)
	}
	for name, until_s := range map[string]float64{"too old": 10, "it follows no source": 4} {
		end := int(until_s * simrun.Hz / float64(a.Bins.Width_cycles)) // index of a bin
		if end < 10 || end+10 > a.Bins.Count {
			t.Fatalf("%d bins, and claims end in the %dth", a.Bins.Count, end)
		}
		for _, node := range []string{"A", "B"} {
			var claims []logstore.NTP
			for i, stratum := range []uint64{2, 0} {
				at := uint64(a.Bins.From_cycles) + uint64(i)*uint64(until_s*simrun.Hz)
				if node == "B" {
					at = trueReading(t, relation, at)
				}
				if stratum > 0 || name != "too old" {
					claims = append(claims, logstore.NTP{
						CounterLo: at, CounterHi: at, Offset_ns: 1000, Stratum: stratum,
					})
				}
			}
			keepClaims(t, dir.Path, node, "epoch-"+node, claims, 1)
		}
		m := methodsOf(t, analyze(t, dir, Options{Reference: "A"}))[NTP]
		if len(m.Bounds_cycles) != a.Bins.Count {
			t.Fatalf("%s: %+v", name, m)
		}
		for b, v := range m.Bounds_cycles {
			if b > 0 && b < end-1 && v == None || b > end+1 && v != None {
				t.Errorf("%s: bound %d in bin %d, and claims end in the %dth", name, v, b, end)
			}
		}
	}
}

// trueReading is what one counter shows at the moment when another counter shows a given reading.
func trueReading(t *testing.T, r *tscratio.Relation, reading uint64) uint64 {
	t.Helper()
	at, err := r.Translate(reading)
	if err != nil {
		t.Fatal(err)
	}
	return at.Mid()
}

// A method is compared with ours only where both have a value. Bins in which only ours has one are
// gaps.
func TestMethodsAreComparedAtTheSameMoments(t *testing.T) {
	ours := Column{10, 20, 1000, 30, None}
	for name, test := range map[string]struct {
		bounds Column
		times  float64
		gaps   int
	}{
		"everywhere":           {Column{100, 200, 10_000, 300, 7}, 10, 0},
		"only when it is easy": {Column{20, 40, None, 60, None}, 2, 1},
		"never together":       {Column{None, None, None, None, 5}, 0, 4},
		"nowhere":              {nil, 0, 0},
	} {
		m := Method{Bounds_cycles: test.bounds}
		if m.setBeside(ours); m.Times != test.times || m.Gaps != test.gaps {
			t.Errorf("%s: %g times as wide, %d gaps, want %g and %d", name, m.Times, m.Gaps,
				test.times, test.gaps)
		}
	}
}
