package engine

import (
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// A measurement is an interval, so its difference from a claim is an interval, too. If both are
// single numbers, so is the difference. The difference is negative if the claim is too low.
func TestClaimIsOffByAnInterval(t *testing.T) {
	r := analysis.Reference{Node: "A", FrequencyLo_hz: 1e9, FrequencyHi_hz: 1e9}
	measured := analysis.Durations{
		Mean: analysis.Interval{Lo_cycles: 2_000_000, Hi_cycles: 3_000_000},
		Percentiles: analysis.Percentiles{{
			Percent: 99, Interval: analysis.Interval{Lo_cycles: 7_000_000, Hi_cycles: 7_000_000},
		}},
	}
	for want, c := range map[string]Claim{
		"x|mean|5 to 6 ms|2.50 ± 0.50 ms|+2 to +4 ms|a/send → b/recv": {Lo_ms: 5, Hi_ms: 6},
		"x|p99|4 ms|7.000000000 ms ± 0 ns|-3 ms|a/send → b/recv": {
			Percent: 99, Lo_ms: 4, Hi_ms: 4,
		},
	} {
		c.Name, c.From, c.To = "x", "a/send", "b/recv"
		var b strings.Builder
		c.print(&b, r, measured)
		if got := strings.ReplaceAll(strings.TrimSpace(b.String()), "\t", "|"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// At the lowest frequency, a positive duration has the most milliseconds, and a negative duration
// is the farthest below zero.
func TestMilliseconds(t *testing.T) {
	r := analysis.Reference{FrequencyLo_hz: 1e6, FrequencyHi_hz: 2e6}
	lo, hi := milliseconds(r, analysis.Interval{Lo_cycles: -4000, Hi_cycles: 8000})
	if lo != -4 || hi != 8 {
		t.Errorf("%g to %g ms, want -4 to 8", lo, hi)
	}
}
