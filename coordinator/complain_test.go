package coordinator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/coordinator/faults"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Complaints are summed up: accusations come first, and nodes that are gone share a line, although
// they have been silent for different times.
func TestComplaintsAreSummedUp(t *testing.T) {
	s := &fleetCopy{}
	m := &s.matrix
	for i := range 9 {
		n := NodeStatus{Name: fmt.Sprintf("n%d", i), Alive: i < 2}
		if !n.Alive {
			n.Left = fmt.Sprintf("silent for 5.%03ds", i)
		}
		m.Nodes = append(m.Nodes, n)
	}
	m.Nodes[0].DroppedReports, m.Nodes[1].Accused = 4, true
	m.Sweep = &SweepStatus{Number: 3, Lost: []LostPair{{"n2", "n3", "no answer"},
		{"n4", "n5", "no answer"}}, Noisy: []NoisyNode{{"n0", "90 % busy"}}}
	pair := func(from, into, what string, p PairStatus) {
		p.From, p.Into, p.Unhealthy = from, into, what
		if p.Verdict = "none"; p.Hi_cycles > 0 {
			p.Verdict = tscratio.Suspect.String()
		}
		m.Pairs = append(m.Pairs, p)
	}
	pair("n0", "n1", neverMeasured, PairStatus{})
	pair("n0", "n2", neverMeasured, PairStatus{})
	pair("n1", "n2", "suspect: the data need a wander of at least 7 ppb", PairStatus{Hi_cycles: 9})
	pair("n1", "n3", "suspect: the data need a wander of at least 8 ppb", PairStatus{Hi_cycles: 9})
	pair("n1", "n4", "too few trains", PairStatus{GivenUp: true})
	s.describeFaults()
	want := []string{
		"node n1 contradicts nodes that have nothing else in common: its counter or its stamps " +
			"are wrong",
		"7 nodes are gone (silent): n2, n3, n4, n5, n6, n7, n8",
		"2 pairs are suspect: the data need more wander than is declared: n1 with n2, n1 with n3",
		"2 pairs were never measured: n0 with n1, n0 with n2",
		"2 pairs were not measured by the last sweep (no answer): n2 with n3, n4 with n5",
		"node n0 had to drop 4 reports of trains",
		"sweep 3 found node n0 not quiet: 90 % busy",
	}
	if !slices.Equal(m.Unhealthy, want) {
		t.Errorf("got  %q\nwant %q", m.Unhealthy, want)
	}
	if len(m.Faults) != 16 || m.Faults[1] != "node n2 is gone: silent for 5.002s" {
		t.Errorf("%d faults: %q", len(m.Faults), m.Faults)
	}
	// While a sweep is under way, it may still measure all pairs.
	m.Sweep.Running, m.faults = true, faults.List{}
	s.describeFaults()
	want = append(want[:3:3], "2 pairs are not measured yet: a sweep is under way: n0 with n1, "+
		"n0 with n2", want[5], want[6])
	if !slices.Equal(m.Unhealthy, want) {
		t.Errorf("during a sweep:\ngot  %q\nwant %q", m.Unhealthy, want)
	}
}

// While the server evaluates the fleet, it says how many pairs it has evaluated.
func TestProgressOfAnEvaluation(t *testing.T) {
	f := newFleet(t, testConfig(), names(5)...)
	f.wantSweep(time.Minute)
	progress := func() Progress { return answered[Progress](t, f.ask(AskProgress, nil)) }
	var work func() error
	var done func(error)
	usual := f.core.background
	f.core.background = func(w func() error, d func(error)) { work, done = w, d }
	var m *Matrix
	f.core.matrix(func(of *Matrix) { m = of })
	if got := progress(); got != (Progress{Evaluated: 0, Pairs: 10}) {
		t.Errorf("before the evaluation: %+v", got)
	}
	f.core.background = usual
	err := work()
	if got := progress(); got != (Progress{Evaluated: 10, Pairs: 10}) {
		t.Errorf("after the evaluation: %+v", got)
	}
	done(err)
	if got := progress(); got != (Progress{}) || m == nil || len(m.Pairs) != 20 {
		t.Errorf("in the end: %+v, %v", got, m)
	}
}
