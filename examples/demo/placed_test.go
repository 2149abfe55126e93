package demo

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// TestDemo only asks "cprof place" for a placement. This test also runs the job in the proposed
// placement.
func TestBarPlacedDemo(t *testing.T) {
	proof.Begin(t)
	o := options(t)
	o.Tuples, o.Exchanges = 600, 5
	o.Keep = filepath.Join(t.TempDir(), "kept")
	before, p, err := RunPlaced(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.After.Answer.Channels {
		stage, _, _ := strings.Cut(c.Name, "#")
		if stage != "window" && !slices.Contains(p.Actors[stage], c.Node) {
			t.Errorf("%s ran on node %s, want %v", c.Name, c.Node, p.Actors[stage])
		}
	}
	missed := 0
	for _, r := range []*Result{before, p.After} {
		checked, _, outside := r.Checked()
		missed += outside
		if checked < 10*o.Tuples || r.Lost != 0 || !r.Consistent() {
			t.Errorf("%d durations, %d lost", checked, r.Lost)
		}
	}
	proof.Check(t, proof.Bar{
		Name:   "demo before and after it is placed: durations whose bounds miss the truth",
		Figure: float64(missed), Unit: "durations",
	})
	if len(p.Changes) != 2 || p.Changes[0].Percent != 50 ||
		strings.Contains(p.Changes[0].Why, "lacks") {
		t.Errorf("the end-to-end latency changed by %+v", p.Changes)
	}
	// In the new placement, some nodes have no operators. So these nodes have no logs, but the run
	// must not report the logs as missing.
	run, err := runs.Open(PlacedDirectory(o.Keep))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if lacks := slices.Concat(run.Run.Missing, run.Lacks()); len(lacks) > 0 {
		t.Errorf("the run in the new placement lacks %v", lacks)
	}
}

func TestPlacedOutput(t *testing.T) {
	change := analysis.Change{
		From: "source/start", To: LastPoint, Percent: 50, Verdict: analysis.Faster,
		BeforeLo_ns: 1_085_000, BeforeHi_ns: 1_086_000, AfterLo_ns: 517_000, AfterHi_ns: 518_000,
	}
	slow := change
	slow.Percent, slow.Verdict, slow.Why = 99, analysis.Undecided, "too few durations"
	p := &Placed{
		Proposal: "9 operators on 2 of 4 nodes\n", Actors: map[string][]string{"join": {"A"}},
		After: demoResult(), Changes: []analysis.Change{change, slow},
	}
	var out, line strings.Builder
	if err := printDemo(&out, demoResult(), p, Options{Keep: "tuesday"}); err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(out.String(), "\nwhere the operators")
	if !found {
		t.Fatal("nothing is said about the placement")
	}
	golden(t, "demo-placed.txt", "where the operators"+text)
	if err := printDemoJSON(&line, demoResult(), p); err != nil {
		t.Fatal(err)
	}
	if want := `"placed":{"operators":{"join":["A"]},"durations_checked":1000,"outside":0,` +
		`"changes":[{"from":"source/start"`; !strings.Contains(line.String(), want) {
		t.Errorf("%s lacks %s", line.String(), want)
	}
}
