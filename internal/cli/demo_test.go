package cli

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/demo"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func TestSlowestHop(t *testing.T) {
	hop := func(from string, lo int64, since bool) *demo.Hop {
		return &demo.Hop{From: from, Since: since, Durations: []tscratio.Span{{Lo: lo, Hi: lo + 5}}}
	}
	r := &demo.Result{Hops: []*demo.Hop{hop("a/end", 10, false), hop("b/end", 70, false), hop("window/end", 900, false), hop("a/start", 500, true), hop("c/end", 30, false)}}
	if h := slowestHop(r); h == nil || h.From != "b/end" {
		t.Errorf("slowest: %+v, want b's", h)
	}
	for from, want := range map[string]string{"source/intended": ": it is how late tuples left, so this machine is too slow for the load", "source/start": "", "b/end": ""} {
		if got := whySlowest(hop(from, 1, false)); got != want {
			t.Errorf("why %s is the slowest: %q, want %q", from, got, want)
		}
	}
	if h := slowestHop(&demo.Result{}); h != nil {
		t.Errorf("of none: %+v", h)
	}
}
