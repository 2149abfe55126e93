package placement

import (
	"errors"
	"fmt"
	"math"
)

// ErrJob is returned for a job that cannot be used.
var ErrJob = errors.New("unusable job")

// Range is an interval in nanoseconds that contains a true value.
type Range struct{ Lo_ns, Hi_ns float64 }

// Valid reports whether the ends of the range are finite, not negative and in the right order.
func (r Range) Valid() bool {
	return r.Lo_ns >= 0 && r.Lo_ns <= r.Hi_ns && !math.IsInf(r.Hi_ns, 0)
}

// Operator is one instance of an operator.
type Operator struct {
	Name      string
	Time      Range   // how long a core of speed 1 works on one tuple
	PerSecond float64 // how many tuples the operator gets
	Nodes     []int   // the nodes where the operator may run; nil: all
}

// Edge says that one operator sends tuples to another. From and To are the indices of the two
// operators.
type Edge struct{ From, To int }

// Node is a machine on which operators can run.
type Node struct {
	Name  string
	Cores float64 // how many cores the job's operators may use together
	Speed float64 // how much faster than a core of speed 1 each of its cores is
}

// Job is the input of Solve. The edges must not form a cycle.
type Job struct {
	Operators []Operator
	Edges     []Edge
	Nodes     []Node

	// Latency[i][k] is the time that a tuple takes from node i to node k. Latency[i][i] is the time
	// between two operators on node i.
	Latency [][]Range
}

// Placement has one element for each operator: the index of the operator's node.
type Placement []int

// These limits bound memory and time.
const (
	MaxOperators = 2_000
	MaxNodes     = 5_000
	maxEdges     = 1_000_000
)

// Check returns an error that wraps ErrJob if the job cannot be used.
func (j *Job) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, ErrJob)...)
	}
	switch {
	case len(j.Operators) == 0 || len(j.Operators) > MaxOperators:
		return bad("%d operators: use 1 to %d", len(j.Operators), MaxOperators)
	case len(j.Nodes) == 0 || len(j.Nodes) > MaxNodes:
		return bad("%d nodes: use 1 to %d", len(j.Nodes), MaxNodes)
	case len(j.Edges) > maxEdges:
		return bad("%d edges: use at most %d", len(j.Edges), maxEdges)
	case len(j.Latency) != len(j.Nodes):
		return bad("latencies from %d nodes, but there are %d", len(j.Latency), len(j.Nodes))
	}
	for _, o := range j.Operators {
		switch {
		case !o.Time.Valid():
			return bad("operator %q works for %v on a tuple", o.Name, o.Time)
		case !(o.PerSecond >= 0) || math.IsInf(o.PerSecond, 0):
			return bad("operator %q gets %v tuples per second", o.Name, o.PerSecond)
		case o.Nodes != nil && len(o.Nodes) == 0:
			return bad("operator %q may run on no node", o.Name)
		}
		for _, n := range o.Nodes {
			if n < 0 || n >= len(j.Nodes) {
				return bad("operator %q may run on node %d of %d", o.Name, n, len(j.Nodes))
			}
		}
	}
	for i, n := range j.Nodes {
		if !(n.Cores > 0) || !(n.Speed > 0) || math.IsInf(n.Cores, 0) || math.IsInf(n.Speed, 0) {
			return bad("node %q has %v cores of speed %v", n.Name, n.Cores, n.Speed)
		}
		if len(j.Latency[i]) != len(j.Nodes) {
			return bad("latencies from node %q into %d nodes, but there are %d", n.Name,
				len(j.Latency[i]), len(j.Nodes))
		}
		for k, l := range j.Latency[i] {
			if !l.Valid() {
				return bad("latency %v from node %q to node %q", l, n.Name, j.Nodes[k].Name)
			}
		}
	}
	for _, e := range j.Edges {
		if min(e.From, e.To) < 0 || max(e.From, e.To) >= len(j.Operators) {
			return bad("edge from operator %d to operator %d of %d", e.From, e.To,
				len(j.Operators))
		}
	}
	return nil
}
