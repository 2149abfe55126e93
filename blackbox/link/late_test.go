package link

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A late response belongs to a request that got no other response. If there are several, nobody
// knows to which.
func TestLinkLate(t *testing.T) {
	request, answer := calls.Call{Connection: 7}, calls.Call{Connection: 7, Answers: true}
	other := calls.Call{Connection: 8}
	none := Link{Cause: calls.NoCause, Probability: 0.99, RunnerUp: calls.NoCause}
	to := func(cause int32, p float64) Link {
		return Link{Cause: cause, Probability: p, RunnerUp: calls.NoCause}
	}
	seen := &calls.Seen{Calls: []calls.Call{request, other, request, answer, answer, request,
		request, answer, answer, request, answer, answer}}
	links := []Link{none, none, none, to(2, 0.8), none, none, none, none, none, none, none, none}
	linkLate(seen, links)
	want := []Link{none, none, none, to(2, 0.8), to(0, lateSays), none, none, to(5, lateSays/2),
		to(6, lateSays/2), none, to(9, lateSays), to(calls.NoCause, 0)}
	if diff := cmp.Diff(want, links); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
