package report

import (
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// If the durations of a span are not those of all tuples, each of its rows on the page says so, and
// so does the list of the slowest spans. The words are those that cprof prints in a terminal.
func TestFromSaysWhatIsLacking(t *testing.T) {
	a, run := inventedChain(t)
	for _, s := range From(a, run, "a test").Spans {
		if s.Lacks != "" {
			t.Errorf("%s lacks %q, and the run is whole", s.Name, s.Lacks)
		}
	}
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for i := range spans {
			spans[i].Completeness = analysis.Completeness{Kept: analysis.Sampled,
				Why: []string{"stage0/send keeps only xoy x=1 y=2"}}
			spans[i].All.Withheld = 7
			spans[i].Pairs[0].Unplaced = 3
		}
	}
	a.Points[0].Completeness = a.Spans[0].Completeness
	d := From(a, run, "a test")
	const want = "sampled: stage0/send keeps only xoy x=1 y=2"
	for _, s := range d.Spans {
		if s.Lacks != want && s.Lacks != want+"; 3 not related" {
			t.Errorf("%s lacks %q, want %q", s.Name, s.Lacks, want)
		}
	}
	for _, s := range d.Paths[0].Slowest {
		if !strings.HasPrefix(s.Lacks, want+"; 7 withheld") {
			t.Errorf("%s lacks %q, want %q and what is withheld", s.Name, s.Lacks, want)
		}
	}
	if d.Totals.Lacks != want || d.Throughput[0].Lacks != want || d.Throughput[1].Lacks != "" {
		t.Errorf("the totals lack %q, and the places %q and %q", d.Totals.Lacks,
			d.Throughput[0].Lacks, d.Throughput[1].Lacks)
	}
	if len(d.Spans) == 0 || len(d.Paths[0].Slowest) == 0 {
		t.Error("the run has no spans")
	}
}
