package page

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
)

func interval(cycles int64) analysis.Interval {
	return analysis.Interval{Lo_cycles: cycles, Hi_cycles: cycles}
}

// A page has a row for each call of patterns and slow paths, a dashed line for a doubtful link, and
// names only as text, whatever is in them.
func TestWrite(t *testing.T) {
	const hostile = "<script>alert(1)</script>"
	at := func(cycles int64) *analysis.Interval {
		i := interval(cycles)
		return &i
	}
	a := &paths.Answer{Chosen: 9, Links: 10, Said: 5, Patterns: []paths.Pattern{{
		From: hostile, Requests: 9, Probability: 0.5,
		Whole: paths.Distribution{Total: interval(1000)},
		Calls: []paths.Call{
			{Program: "front", Nodes: []string{"n"}, Probability: 1, WaitedOwn: interval(250)},
			{Depth: 1, Program: hostile, Probability: 0.5, WaitedOwn: interval(250),
				WaitedNetwork: interval(500)},
		},
	}}, Slowest: []paths.Path{{Whole: at(2_000_000), Calls: []paths.PathCall{
		{To: paths.End{Program: "front"}, Probability: 1, Sent: at(0), Received: at(500_000),
			Replied: at(1_500_000), Got: at(2_000_000)},
		{Depth: 1, To: paths.End{Program: hostile}, Probability: 0.95, Sent: at(600_000)},
	}}}}
	var html bytes.Buffer
	err := Write(&html, hostile, a, analysis.Reference{FrequencyLo_hz: 1e9, FrequencyHi_hz: 1e9})
	if err != nil {
		t.Fatal(err)
	}
	page := html.String()
	if strings.Contains(page, "<script") {
		t.Error("a name became markup")
	}
	for what, want := range map[string]int{
		"<g><title>": 4, "stroke-dasharray": 1, ">25.0 %<": 1, ">75.0 %<": 1, ">2 ms<": 1,
		// The response of the slow path is in the network for 0.5 of 2 ms.
		"width=\"560.0\" height=\"6\"": 1, "width=\"280.0\" height=\"14\"": 2,
	} {
		if n := strings.Count(page, what); n != want {
			t.Errorf("%q occurs %d times, want %d", what, n, want)
		}
	}
}

// The steps of an axis are round, and few.
func TestSteps(t *testing.T) {
	for end, want := range map[float64]float64{100: 20, 1: 0.2, 7: 1, 3: 1, 2: 0.5, 0: 0} {
		if got := stepOf(end); got != want {
			t.Errorf("steps of %v for an axis to %v, want %v", got, end, want)
		}
	}
}
