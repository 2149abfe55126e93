package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// The test binary is the process of a node as well.
const nodeVariable = "CLOUDPROFILER_DEMO_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(nodeVariable) != "" {
		if err := Node(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func options(t *testing.T) Options {
	self, err := reexec.Argv()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(nodeVariable, "1")
	return Options{Tuples: 500, PerSecond: 5000, Exchanges: 20, NodeCommand: self}
}

func leftovers(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob("/dev/shm/cloudprofiler-demo-*")
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestDemo(t *testing.T) {
	before := leftovers(t)
	r, err := Run(context.Background(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	if checked, outside := r.Checked(); checked != 4*500 || outside != 0 || r.Lost != 0 {
		t.Errorf("%d durations checked, %d outside, %d lost, want 2000, 0, 0", checked, outside, r.Lost)
	}
	if r.Trains < 5 || r.Exchanges < 40+5*(r.Trains-2) || r.Relation.Verdict != tscratio.Consistent {
		t.Errorf("%d trains, %d exchanges, %v", r.Trains, r.Exchanges, r.Relation.Verdict)
	}
	if r.Kernel < r.Stamps*9/10 {
		t.Errorf("%d of %d stamps are the kernel's, want nearly all", r.Kernel, r.Stamps)
	}
	if r.Paper.Exchanges < 40 || r.Paper.E.Sign() <= 0 || r.Paper.RoundTrip == 0 || r.Paper.Apart_cycles < 1e9 {
		t.Errorf("the paper's method: %+v", r.Paper)
	}
	if half, paper := r.HalfWidth_cycles(), r.Paper.HalfWidth_cycles(r.Relation.Wander); half <= 0 || half > paper {
		t.Errorf("the bound is %g cycles, by the paper's method %g", half, paper)
	}
	for _, hop := range r.Hops {
		if hop.TruePercentile(50) <= 0 {
			t.Errorf("%s: the truth is %d cycles: a tuple arrived before it left", hop.Name, hop.TruePercentile(50))
		}
		// On one node a bound is what its readings are: twice quantum and core slack.
		a := r.Nodes[0].Node
		if width, least := hop.Percentile(50).Width(), 2*(a.QuantumCycles+a.CoreSlackCycles); hop.Crosses != (width > least+20) {
			t.Errorf("%s: crosses %v, median is known to %d cycles, quantum and core slack are %d", hop.Name, hop.Crosses, width, least)
		}
	}
	if after := leftovers(t); !slices.Equal(before, after) {
		t.Errorf("left behind: %v", after)
	}
}

// Interrupted at any moment, it leaves nothing behind and says that it was interrupted.
func TestDemoInterrupted(t *testing.T) {
	before := leftovers(t)
	o := options(t)
	for step := range 7 {
		if o.PerSecond = 5000; step == 4 {
			o.PerSecond = 50 // the job would take ten seconds
		}
		ctx, cancel := context.WithCancel(context.Background())
		steps := 0
		o.Progress = func(string) {
			if steps == step {
				cancel()
			}
			steps++
		}
		if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted at step %d: %v", step, err)
		}
		cancel()
	}
	if after := leftovers(t); !slices.Equal(before, after) {
		t.Errorf("left behind: %v", after)
	}
}

// made is a run that never was: exchanges and events on physical counters.
func made(t *testing.T) (r Result, events map[string][]event) {
	const second, slack = 2_600_000_000, 0
	r.Nodes = virtualNodes(machine{virtual.Physical{Counter: 1 << 50, Realtime_ns: 1_700_000_000e9, Hz: second}, 1, slack})
	var clocks [2]*vnode.Counter
	for i, n := range r.Nodes {
		var err error
		if clocks[i], err = vnode.NewCounter(n.Clocks.Counter); err != nil {
			t.Fatal(err)
		}
	}
	exchange := func(at uint64) train {
		p := 1<<50 + at
		e := tscratio.Exchange{
			Sent: tscratio.At(clocks[0].Virtual(p)), Received: tscratio.At(clocks[1].Virtual(p + 10_000)),
			Answered: tscratio.At(clocks[1].Virtual(p + 10_500)), Returned: tscratio.At(clocks[0].Virtual(p + 30_000)),
		}
		return train{User: []tscratio.Exchange{e}, Best: tscratio.Train{By: tscratio.StartedByA, Exchanges: []tscratio.Exchange{e}}}
	}
	var during []train
	for i := range uint64(19) {
		during = append(during, exchange((i+1)*second/2))
	}
	if err := r.relate(exchange(0), during, exchange(10*second)); err != nil {
		t.Fatal(err)
	}
	r.Tuples = 100
	events = map[string][]event{}
	for id := range uint64(100) {
		p := 1<<50 + second + id*80_000_000
		events[sourceSend] = append(events[sourceSend], event{id, p})
		events[workerRecv] = append(events[workerRecv], event{id, p + 50_000})
		events[workerSend] = append(events[workerSend], event{id, p + 60_000})
		events[sinkRecv] = append(events[sinkRecv], event{id, p + 90_000})
	}
	return r, events
}

func TestJoinHoldsTheTruth(t *testing.T) {
	r, events := made(t)
	if err := r.join(events); err != nil {
		t.Fatal(err)
	}
	if checked, outside := r.Checked(); checked != 400 || outside != 0 || r.Lost != 0 {
		t.Errorf("%d checked, %d outside, %d lost", checked, outside, r.Lost)
	}
}

// The check against the truth is one that fails: a relation that is off by more than its bound is found out.
func TestJoinFindsAWrongRelation(t *testing.T) {
	r, events := made(t)
	r.Nodes[1].Clocks.Counter.Start += 100_000 // B's counter is not the one that the exchanges saw
	if err := r.join(events); err != nil {
		t.Fatal(err)
	}
	if _, outside := r.Checked(); outside != 200 {
		t.Errorf("%d durations outside, want all 200 that cross", outside)
	}
}

func TestJoinCountsLostTuples(t *testing.T) {
	r, events := made(t)
	events[sinkRecv] = events[sinkRecv][:97]
	if err := r.join(events); err != nil {
		t.Fatal(err)
	}
	if r.Lost != 3 {
		t.Errorf("%d lost, want 3", r.Lost)
	}
}

func TestPercentile(t *testing.T) {
	v := []int64{50, 10, 40, 30, 20}
	for p, want := range map[float64]int64{0: 10, 20: 10, 21: 20, 50: 30, 99: 50, 100: 50} {
		if got := percentile(slices.Clone(v), p); got != want {
			t.Errorf("p%v = %d, want %d", p, got, want)
		}
	}
}

// A node whose parent dies ends, because its input does.
func TestNodeEndsWithItsInput(t *testing.T) {
	in, parent, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- Node(context.Background(), in, out) }()
	if err := newLink(nil, parent).send(setup{Clocks: vnode.DefaultConfig(), Rings: t.TempDir(), State: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	parent.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Node = %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the node lives on without a parent")
	}
}
