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

// A request waits for a slow call, while many later ones overtake it. Its response comes soon after
// the response of the call.
func TestLinkLateAfterCall(t *testing.T) {
	const unknown = calls.Unknown
	set := &calls.Seen{Places: make([]calls.Place, 3)}
	var links []Link
	add := func(c calls.Call, cause int32) int32 {
		set.Calls = append(set.Calls, c)
		links = append(links, Link{Cause: cause, Probability: 0.99, RunnerUp: calls.NoCause})
		return int32(len(links) - 1)
	}
	request := func(at, sent, got int64) int32 {
		r := add(calls.Call{Callee: 1, Received_ns: at, Connection: 7}, calls.NoCause)
		add(calls.Call{Caller: 1, Callee: 2, Sent_ns: sent, Got_ns: got}, r)
		return r
	}
	answer := func(at int64, cause int32) int32 {
		return add(calls.Call{Caller: 1, Sent_ns: at, Got_ns: unknown, Connection: 7,
			Answers: true}, cause)
	}
	first, slow := request(0, 2, 900), request(5, 7, 500)
	for at := int64(20); at < 480; at += 20 {
		answer(at+12, request(at, at+2, at+10))
	}
	request(498, 499, 600)
	want := map[int32]int32{answer(502, calls.NoCause): slow, answer(902, calls.NoCause): first}
	linkLate(set, links)
	for a, r := range want {
		if l := links[a]; l.Cause != r || l.Probability != lateSays {
			t.Errorf("response %d: %+v, want the request %d", a, l, r)
		}
	}
}

// A request gets one response. If it seems to get two, the one that was sent while the request
// waited for a call belongs to a slow request. If both can be its own, nobody knows which is.
func TestLinkLateOneEach(t *testing.T) {
	none := Link{Cause: calls.NoCause, RunnerUp: calls.NoCause}
	to := func(cause int32, p float64) Link {
		return Link{Cause: cause, Probability: p, RunnerUp: calls.NoCause}
	}
	request := func(at int64) calls.Call {
		return calls.Call{Callee: 1, Received_ns: at, Connection: 7}
	}
	asks := func(at, got int64) calls.Call {
		return calls.Call{Caller: 1, Callee: 2, Sent_ns: at, Got_ns: got}
	}
	answer := func(at int64) calls.Call {
		return calls.Call{Caller: 1, Sent_ns: at, Connection: 7, Answers: true}
	}
	seen := &calls.Seen{Places: make([]calls.Place, 3), Calls: []calls.Call{
		request(0), asks(1, 500), request(480), asks(481, 600), answer(502), answer(603)}}
	for _, c := range []struct {
		got         int64 // when the second request got the response of its call
		links, want [2]Link
	}{
		{600, [2]Link{to(2, 0.99), to(2, 0.98)}, [2]Link{to(0, lateSays), to(2, 0.98)}},
		{490, [2]Link{to(2, 0.99), to(2, 0.98)}, [2]Link{to(2, 0.5), to(0, 0.5)}},
		{490, [2]Link{to(2, 0.99), to(2, 0.4)}, [2]Link{to(2, 0.99), to(2, 0.4)}},
	} {
		seen.Calls[3].Got_ns = c.got
		links := []Link{none, to(0, 0.99), none, to(2, 0.99), c.links[0], c.links[1]}
		linkLate(seen, links)
		if diff := cmp.Diff(c.want[:], links[4:]); diff != "" {
			t.Errorf("response at %d (-want +got):\n%s", c.got, diff)
		}
	}
}
