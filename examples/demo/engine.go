package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/cli/answers"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/truth"
	"github.com/cloudprofiler/cloudprofiler/report"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Engine is a cluster of programs, such as Flink, that runs in the place of examples/adstream. The
// programs of a node log into the rings of that node.
type Engine interface {
	// Nodes returns the number of nodes, from 1 to 4.
	Nodes() int
	// Start starts the cluster and waits until it takes jobs. temporary is a directory for its
	// files.
	Start(ctx context.Context, nodes []EngineNode, temporary string) error
	// Run runs a job to its end.
	Run(ctx context.Context) error
	// Stop stops whatever Start started. It may be called several times.
	Stop()
}

// An Observed is an Engine whose programs log nothing. Their messages are captured instead, so each
// node has a network namespace of its own.
type Observed interface {
	Engine
	// Collected is called once the logs of all nodes are collected. logs has the directory of each
	// node's logs. The logs still have readings of the machine's counter, and not of the nodes'
	// virtual counters.
	Collected(logs []string) error
	// Judge is called later, when the run has readings of each node's virtual counter. It compares
	// the run with the truth.
	Judge(run *runs.Directory, known *truth.Counters) error
	// Describe adds the messages to the data of the report's page.
	Describe(run *runs.Directory, data *report.Data) error
}

// EngineNode is a node on which an engine's programs run.
type EngineNode struct {
	Name    string
	Rings   string // CLOUDPROFILER_DIR of its programs
	Address netip.Addr
	// Do runs a function in the node's network namespace. If all nodes share one namespace, Do only
	// calls the function.
	Do func(func() error) error
}

// EngineResult is what the demonstration of an engine found.
type EngineResult struct {
	Answer    *analysis.Answer
	Nodes     []NodeFacts
	Wander    tscratio.Wander // wander that is assumed of each pair
	Durations int             // number of durations that were compared with the truth
	Between   int             // number of these between nodes
	Outside   int             // number of these that did not contain the truth: must be 0
	Repeated  int             // durations of tuples that passed a point twice: not compared
	Dropped   int             // events that are in no log
	Matched   Matched
}

// Matched counts events: those that operators sent, those that operators received, and those that
// both ends of a connection recorded.
type Matched struct {
	Sent, Received, Both int
	Twice                int // events whose id was logged at the same point before
	Again                int // number of events in Received that had been received before
}

// Consistent reports whether every relation is consistent.
func (r *EngineResult) Consistent() bool {
	for _, p := range r.Answer.Pairs {
		if p.Verdict != tscratio.Consistent.String() {
			return false
		}
	}
	return true
}

// RunEngine runs the demonstration with an engine's job. The parameter lasts is about how long the
// job takes. All nodes share the loopback interface, unless the engine is an Observed.
func RunEngine(
	ctx context.Context, o Options, engine Engine, lasts time.Duration,
) (*EngineResult, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	_, observed := engine.(Observed)
	o.Loopback, o.PerSecond, o.Tuples = !observed, 1, int(lasts/time.Second)
	d := &demonstration{o: o, engine: engine}
	result := &EngineResult{}
	d.engineResult = result
	err := d.runWithin(ctx, d.run)
	return result, err
}

func (d *demonstration) startEngine(ctx context.Context, temporary string) error {
	if d.engine == nil {
		return nil
	}
	d.o.Progress("starting the engine's cluster")
	var nodes []EngineNode
	for i, s := range d.setups {
		nodes = append(nodes, EngineNode{
			Name: s.Node.Name, Rings: s.Rings, Address: s.Address,
			Do: func(f func() error) error { return d.place.runIn(i, f) },
		})
	}
	return d.engine.Start(ctx, nodes, temporary)
}

// answerEngine analyses the run, and compares every duration with the truth.
func (d *demonstration) answerEngine(ctx context.Context, run *runs.Directory) error {
	known, missing := truth.Of(run)
	if known == nil || len(missing) > 0 {
		return fmt.Errorf("read the truth about the nodes from the run: %v", missing)
	}
	r := d.engineResult
	if o, ok := d.engine.(Observed); ok {
		if err := o.Judge(run, known); err != nil {
			return err
		}
		var err error
		d.Answer, err = analysis.Run(ctx, run, analysis.Options{Scratch: d.scratch})
		if err != nil {
			return err
		}
		r.Answer, r.Nodes = d.Answer, d.Nodes
		return d.keepReport(run)
	}
	physical, err := readPhysicals(nil, d.logDirectories()...)
	if err != nil {
		return err
	}
	r.Matched = matchIDs(physical)
	made, err := readMade(d.logDirectories()...)
	if err != nil {
		return err
	}
	check, err := newChecker(physical, made, d.Nodes[0].Clocks.Counter, r.take)
	if err != nil {
		return err
	}
	d.o.Progress("joining tuples, checking their durations against the truth")
	d.Answer, err = analysis.Run(ctx, run, analysis.Options{
		Durations: func(row analysis.DurationRow) error {
			err := check.checkDuration(row)
			// After a failure, an engine delivers unfinished tuples again. So a tuple may pass a
			// point twice.
			if errors.Is(err, errTwice) {
				r.Repeated++
				return nil
			}
			return err
		},
		Truth: known.Truth, Scratch: d.scratch,
	})
	if err != nil {
		return err
	}
	d.countLost()
	r.Wander = run.Run.Assumptions().Wander
	r.Answer, r.Nodes, r.Dropped = d.Answer, d.Nodes, d.Lost
	return d.keepReport(run)
}

func (r *EngineResult) take(d analysis.DurationRow, truth int64) {
	r.Durations++
	if d.FromNode != d.ToNode {
		r.Between++
	}
	if !d.Contains(truth) {
		r.Outside++
	}
}

// sendPoints lists how the names of some points end: those at which the Java agent logs the tuples
// that leave an operator.
var sendPoints = []string{"/send", "/unlinked"}

// loadPoints is the text with which the names of the load generator's points begin. No operator
// receives the ids that are logged at these points.
const loadPoints = "generator/"

// matchIDs compares the ids that all operators sent with the ids that all operators received. An id
// that was sent several times, for example because the tuple passed several operators, must have
// been received as often.
func matchIDs(all pointEvents) (m Matched) {
	sent, received, twice := map[uint64]int{}, map[uint64]int{}, map[uint64]int{}
	for point, events := range all {
		to, isReceived := received, true
		switch {
		case strings.HasPrefix(point, loadPoints):
			continue
		case slices.ContainsFunc(sendPoints, func(p string) bool {
			return strings.HasSuffix(point, p)
		}):
			to, isReceived = sent, false
			m.Sent += len(events)
		case strings.HasSuffix(point, "/recv"):
			m.Received += len(events)
		default:
			continue
		}
		for i, e := range events { // they are sorted by their ids
			to[e.id]++
			if i > 0 && events[i-1].id == e.id {
				m.Twice++
				if isReceived {
					twice[e.id]++
				}
			}
		}
	}
	for id, n := range sent {
		m.Both += min(n, received[id])
		m.Again += min(max(received[id]-n, 0), twice[id])
	}
	return m
}

// PrintEngine prints what the demonstration of an engine found. It returns an error if a result is
// not what it must be.
func PrintEngine(w io.Writer, r *EngineResult) error {
	printNodes(w, &Result{
		Nodes: r.Nodes, Answer: r.Answer, Wander: r.Wander,
	})
	answers.PrintPaths(w, r.Answer)
	m := r.Matched
	_, err := fmt.Fprintf(w, "\n%d events sent, %d received, %d of them both; %d received "+
		"again; %d twice at one point\n"+
		"%d durations checked against the truth, %d of them between nodes: %d outside of their "+
		"bound; %d of repeated events not checked; %d events dropped\n",
		m.Sent, m.Received, m.Both, m.Again, m.Twice, r.Durations, r.Between, r.Outside,
		r.Repeated, r.Dropped)
	switch {
	case err != nil:
		return err
	case r.Outside > 0:
		return fmt.Errorf("%d of %d durations did not contain the truth: this is a defect",
			r.Outside, r.Durations)
	case m.Both+m.Again < m.Received && r.Dropped == 0:
		return fmt.Errorf("%d of %d received events have an id that was not sent: this is a defect",
			m.Received-m.Both-m.Again, m.Received)
	case r.Durations == 0:
		return errors.New("no duration was measured")
	case !r.Consistent():
		return fmt.Errorf("a relation is suspect, so bounds are estimates: %w", command.ErrPartial)
	}
	return nil
}
