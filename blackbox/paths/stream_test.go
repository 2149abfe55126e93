package paths

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
)

func answerOf(t *testing.T, app string, requests int, options ...Options) (all []*Answer) {
	t.Helper()
	dir, _ := capturedRun(t, app, requests)
	for _, o := range options {
		o.Reference, o.Slowest = reference, 50
		a, err := Of(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

// same makes cmp ignore the unexported fields of patterns.
var same = cmpopts.IgnoreUnexported(Pattern{})

// If few calls fit into memory, the answer is the same as if all of them did.
func TestFewInMemory(t *testing.T) {
	all := answerOf(t, "shop", 150, Options{}, Options{held: 50},
		Options{Method: link.Methods[2], held: 1000}, Options{Method: link.Methods[2], held: 37})
	for i := 0; i < len(all); i += 2 {
		if diff := cmp.Diff(all[i].Patterns, all[i+1].Patterns, same); diff != "" {
			t.Errorf("patterns (-all +few):\n%s", diff)
		}
		for k := range all[i].Slowest {
			for c := range all[i].Slowest[k].Calls { // the calls in memory are other ones
				a, b := &all[i].Slowest[k].Calls[c], &all[i+1].Slowest[k].Calls[c]
				if a.Message.Lo_cycles != b.Message.Lo_cycles || a.Message.By != nil &&
					*a.Message.By != *b.Message.By {
					t.Fatalf("message %+v, want %+v", b.Message, a.Message)
				}
				a.Message, a.Request, a.Response = nil, nil, nil
				b.Message, b.Request, b.Response = nil, nil, nil
			}
		}
		if diff := cmp.Diff(all[i], all[i+1], same); diff != "" {
			t.Errorf("answer (-all +few):\n%s", diff)
		}
	}
}

// A run that is linked by windows has nearly the same paths as a run that is linked at once: each
// call is in one path, and the durations of equal paths are equal.
func TestWindows(t *testing.T) {
	all := answerOf(t, "hotel", 700, Options{}, Options{window: 150, held: 500})
	whole, parts := all[0], all[1]
	if parts.Calls != whole.Calls || parts.Links != whole.Links || whole.Chosen != 700 ||
		parts.Chosen != parts.Requests {
		t.Fatalf("%d calls, %d links and %d paths, want %d, %d and %d", parts.Calls, parts.Links,
			parts.Chosen, whole.Calls, whole.Links, whole.Chosen)
	}
	if d := parts.Requests - whole.Requests; d < -2 || d > 2 {
		t.Errorf("%d paths, and %d at once", parts.Requests, whole.Requests)
	}
	requests, n := 0, 0
	for i := range parts.Patterns {
		requests += parts.Patterns[i].Requests
		n += parts.Patterns[i].Requests * len(parts.Patterns[i].Calls)
	}
	if requests != parts.Requests || n != parts.Calls {
		t.Errorf("patterns have %d requests and %d calls, want %d and %d", requests, n,
			parts.Requests, parts.Calls)
	}
	same := 0
	for i := range whole.Slowest {
		a, b := &whole.Slowest[i], &parts.Slowest[i]
		if cmp.Equal(a.Whole, b.Whole) && len(a.Calls) == len(b.Calls) &&
			len(parts.Patterns[b.Pattern].Calls) == len(b.Calls) {
			same++
		}
	}
	if same < len(whole.Slowest)*9/10 || parts.Sure < whole.Sure*98/100 {
		t.Errorf("%d of %d slowest paths are the same; %d links are sure, and %d at once", same,
			len(whole.Slowest), parts.Sure, whole.Sure)
	}
}

// A tree stays in memory as long as one of its calls may still cause other calls.
func TestUnfinishedTrees(t *testing.T) {
	seen := Seen{Seen: calls.Seen{Places: []calls.Place{{Program: "a"}, {Program: "b"}}}}
	u := &unfinished{known: &known{observer: &observer{seen: seen}},
		into: newCollector(&Answer{}, nil, &Options{})}
	call := func(id, cause int64, caller, callee int32) {
		u.all = append(u.all, linkedCall{id: id, call: calls.Call{Caller: caller, Callee: callee},
			link: link.Streamed{Call: id, Cause: cause, RunnerUp: calls.NoCause, Probability: 1}})
	}
	call(0, calls.NoCause, calls.Outside, 0)
	call(1, calls.NoCause, calls.Outside, 0)
	call(2, 0, 0, 1)
	for i, want := range [][2]int{{1, 1}, {1, 1}, {2, 3}} { // requests and calls
		u.pass([][]int64{{2}, {2}, nil}[i])
		if a := u.into.Answer; a.Requests != want[0] || a.Calls != want[1] ||
			len(u.all) != 3-want[1] {
			t.Fatalf("pass %d: %d requests, %d calls, %d calls left", i, a.Requests, a.Calls,
				len(u.all))
		}
	}
}
