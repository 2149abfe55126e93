package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
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

// A node that breaks the rules of the graph is named once other nodes together report enough
// offences, even if each of them reports only one. A single liar cannot have a node named.
func TestNodesThatBreakTheRulesAreNamed(t *testing.T) {
	f := largeFleet(t, 8)
	f.waitSettled()
	all := names(8)
	liar, hostile := all[0], all[1]
	says := func(name string, times int, blamed ...string) (accused []string) {
		c := f.clients[name]
		m := &control.Neighbours{Names: c.member.report}
		for _, b := range blamed {
			m.Blamed = append(m.Blamed, control.Blamed{Name: b, Times: times})
		}
		c.send(0, m)
		f.run(time.Second, nil)
		for _, s := range f.core.fleetCopy().evaluate().Faults {
			if strings.Contains(s, "breaks the rules") {
				accused = append(accused, s)
			}
		}
		return accused
	}
	if got := says(liar, control.MaxBlamed, append(all, all...)...); len(got) > 0 {
		t.Errorf("one node accuses: %q", got)
	}
	wantNamed := func(got []string, by int, such string) {
		t.Helper()
		want := fmt.Sprintf("node %s breaks the rules of the graph, as %d nodes say (such as %s "+
			"and %s): their logs say how", hostile, by, liar, such)
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := says(all[2], 3, hostile, "nobody", all[2]); len(got) > 0 {
		t.Errorf("named after seven offences: %q", got)
	}
	wantNamed(says(all[2], 4, hostile, "nobody", all[2]), 2, all[2])
	for i := 2; i < 5; i++ {
		if got := says(all[i], 1, hostile); len(got) > 0 {
			t.Errorf("%d nodes saw one offence, and one lies: %q", i-1, got)
		}
	}
	wantNamed(says(all[5], 1, hostile), 5, all[2])
}
