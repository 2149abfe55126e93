package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// refusalText returns the text with which the core refuses a question, or "" if the core does not
// refuse.
func (f *fleet) refusalText(what string, argument any) string {
	if r, ok := f.ask(what, argument).(*control.Refusal); ok {
		return r.Code.String() + ": " + r.Text
	}
	return ""
}

func TestAForgottenNodeIsNowhere(t *testing.T) {
	f := newFleet(t, testConfig(), names(4)...)
	f.wantSweep(time.Minute)
	forget := func(name string) string { return f.refusalText(AskForgetNode, NodeRequest{name}) }
	got := forget("n02")
	if !strings.Contains(got, "not now") || !strings.Contains(got, "stop its client first") {
		t.Errorf("a node that is there: %q", got)
	}
	if got := forget("n99"); !strings.Contains(got, "not found") {
		t.Errorf("a node that never was: %q", got)
	}
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatal(f.phase())
	}
	f.clients["n02"].state = clientKilled
	f.run(10*time.Second, nil)
	if got := forget("n02"); !strings.Contains(got, `in run "r"`) {
		t.Errorf("a node of the run: %q", got)
	}
	f.ask(AskStopRun, nil)
	f.waitComplete() // the sweep after the run loses the node
	f.wantPairs(6)
	if m := f.wantTrue(); m.Healthy() || !strings.Contains(strings.Join(m.Unhealthy, "\n"), "n02") {
		t.Errorf("before: %q", m.Unhealthy)
	}
	if got := forget("n02"); got != "" {
		t.Fatal(got)
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			f.restart()
			f.run(20*time.Second, nil)
		}
		f.wantPairs(3)
		m := f.wantTrue()
		if !m.Healthy() || len(m.Nodes) != 3 || len(m.Pairs) != 6 {
			t.Errorf("restarted %v: %d nodes, %d pairs, unhealthy %q",
				restarted, len(m.Nodes), len(m.Pairs), m.Unhealthy)
		}
	}
	f.clients["n02"].state = clientRunning // it had only been away for a long time
	f.clients["n02"].connect()
	f.core.last = nil
	if s := f.wantSweep(time.Minute); s.Complete != 6 {
		t.Errorf("%+v", s)
	}
	if m := f.wantTrue(); !m.Healthy() || m.Nodes[2].Restarts != 0 {
		t.Errorf("unhealthy %q, %+v", m.Unhealthy, m.Nodes[2])
	}
}

// A node may be forgotten at any moment of a sweep that measures the node.
func TestANodeIsForgottenDuringASweep(t *testing.T) {
	for round := range 7 {
		f := newFleet(t, testConfig(), names(8)...)
		f.run(time.Minute, func() bool {
			return f.core.sweep != nil && f.core.sweep.round == round+1
		})
		f.clients["n03"].send(0, &control.Leave{Why: "scrapped"})
		f.clients["n03"].state = clientKilled
		f.run(time.Millisecond, nil)
		if got := f.refusalText(AskForgetNode, NodeRequest{"n03"}); got != "" {
			t.Fatal(got)
		}
		s := f.wantSweep(time.Minute)
		if s.Complete < 21 {
			t.Errorf("%d of the other 21 pairs are complete: %+v", s.Complete, s.Lost)
		}
		if m := f.wantTrue(); !m.Healthy() {
			t.Errorf("unhealthy: %q", m.Unhealthy)
		}
	}
	// A forgotten node also disappears from the results of a sweep that has ended.
	f := newFleet(t, testConfig(), names(8)...)
	f.run(time.Minute, func() bool { return f.core.sweep != nil && f.core.sweep.round == 2 })
	f.clients["n03"].state = clientKilled
	if s := f.wantSweep(time.Minute); len(s.Lost) == 0 {
		t.Fatalf("%+v", s)
	}
	f.run(10*time.Second, nil)
	if got := f.refusalText(AskForgetNode, NodeRequest{"n03"}); got != "" {
		t.Fatal(got)
	}
	if m := f.wantTrue(); !m.Healthy() {
		t.Errorf("unhealthy: %q", m.Unhealthy)
	}
}

// If a server dies while it forgets a node, the restarted server knows either everything or nothing
// about the node.
func TestAServerThatDiesWhileItForgets(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	f.clients["n01"].state = clientKilled
	f.run(10*time.Second, nil)
	delete(f.core.nodes, "n01")
	if err := f.store.append(blockForgetNode, "n01", nil); err != nil {
		t.Fatal(err)
	}
	if err := f.core.save(); err != nil {
		t.Fatal(err)
	}
	f.restart()
	f.wantPairs(1)
}
