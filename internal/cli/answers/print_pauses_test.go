package answers

import (
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// Pauses are printed if a JVM logged any, and tuples only if much of their time lay in pauses.
func TestPrintPauses(t *testing.T) {
	show := func(paused_cycles int64) string {
		var out strings.Builder
		of := func(n int64) analysis.Interval {
			return analysis.Interval{Lo_cycles: n, Hi_cycles: n + 10}
		}
		printPauses(&out, &analysis.Answer{
			JVMs: []analysis.JVM{{Name: "jvm-7", Node: "b", Pauses: 5, Total: of(2000),
				Reaching: of(100), Kinds: []analysis.PauseKind{{Name: "G1CollectFull", Count: 3,
					Longest: of(900)}}}},
			EndToEnd: []analysis.Span{{From: "a/send", To: "b/end", Kind: "end-to-end",
				Pauses: &analysis.SpanPauses{All: analysis.PausedTime{Count: 300},
					Slowest: analysis.PausedTime{Count: 3, Total: of(1000),
						Paused: of(paused_cycles),
						JVMs:   []analysis.JVMTime{{JVM: "jvm-7", Node: "b"}}}}}},
		})
		return strings.Join(strings.Fields(out.String()), " ")
	}
	const jvm = "pauses of JVMs jvm-7 on b: 5 pauses, together 2005 ± 5 cycles, 105 ± 5 cycles " +
		"of that until all threads had stopped; most of it G1CollectFull, 3 times, at most " +
		"905 ± 5 cycles"
	if got := show(90); got != jvm {
		t.Errorf("got  %q\nwant %q", got, jvm)
	}
	want := jvm + " a/send → b/end, the slowest 3 of 300: 49 to 51 % of their time lay in pauses " +
		"of JVMs, most of it in those of jvm-7 on b"
	if got := show(500); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var out strings.Builder
	if printPauses(&out, &analysis.Answer{}); out.Len() > 0 {
		t.Errorf("without pauses: %q", out.String())
	}
}
