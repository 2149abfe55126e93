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
	if h := slowestHop(&demo.Result{}); h != nil {
		t.Errorf("of none: %+v", h)
	}
}
