package main

import (
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/examples/engine"
)

// Storm's averages become claims. An average over no events makes no claim.
func TestAveragesBecomeClaims(t *testing.T) {
	got := claimsOf([]string{
		"said: complete events 12.5 100", "said: execute join 0.02 40", "said: execute count NaN 0",
	})
	want := []engine.Claim{
		{
			Name: "complete latency of events", From: "job.events/read", To: "job.events/done",
			Lo_ms: 12.5, Hi_ms: 12.5,
		},
		{
			Name: "execute latency of join", From: "join/recv", To: "join/end",
			Lo_ms: 0.02, Hi_ms: 0.02,
		},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
