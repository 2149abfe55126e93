package analysis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Options say what to ask of a run. The zero value asks for everything.
type Options struct {
	// Reference is the node in whose cycles the answer is given. If Reference is empty, the run's
	// own choice is used. If the run has no choice either, it is the node that is related to the
	// most other nodes. If there are several such nodes, it is the one with the smallest median
	// bound to the other nodes.
	Reference string

	// Wander is assumed for each pair of nodes, instead of the wander that is stored with their
	// measurements. 0: the stored wander.
	Wander tscratio.Wander

	// ThirdNodes says which measurements by way of a third node may narrow the relation of two
	// nodes. If a node was measured, on average, with more than 32 others, third nodes are not
	// used.
	ThirdNodes tscratio.ThirdNodes

	// Memory_bytes is how much memory events may take; 0 is 512 MiB. Events beyond that go to a
	// scratch file of at most Scratch_bytes; 0 is 64 GiB. The file is in the directory Scratch. If
	// Scratch is empty, the file is in the system's directory for temporary files.
	Memory_bytes  int64
	Scratch       string
	Scratch_bytes int64

	// Workers is the number of cores to use; 0: all.
	Workers int

	// Slowest is the number of slowest tuples whose whole path is kept. As many paths are also kept
	// for the slowest tuples that were made of other tuples. 0 means 10, and a negative number
	// means none. If other tuples were made of a slow tuple, only the slow tuple's path under its
	// own id is kept.
	Slowest int

	// Edges declare which points follow which, each as actor/point. They are added to the graph
	// that is found in the data, and decide orders that the data leave open. If the data prove the
	// opposite order, the edge is not used, and a finding says so.
	Edges [][2]string
	// OnlyEdges makes the graph from the declared edges alone, whatever the data show. Points
	// without a declared edge are then on no path. It is for jobs whose graph is known beforehand.
	OnlyEdges bool

	Filter Filter

	// Truth gets the reading that one node's counter showed at some moment. It returns the smallest
	// and the largest reading that another node's counter may truly have had at that moment. This
	// is known only for virtual nodes (internal/truth); otherwise ok is false. If Truth is set, the
	// whole answer is checked against it. Many goroutines call it. nil: the truth is not known.
	Truth func(node string, reading uint64, other string) (read tscratio.Interval, ok bool)

	// Progress is called with the share of the work that is done, from 0 to 1, and with what is
	// being done. It may be nil.
	Progress func(done float64, what string)

	// Begin is called once, before Events and Durations. If it returns an error, the analysis ends.
	// It may be nil.
	Begin func(Basis) error

	// Events is called for every event, and Durations for every duration. No two calls run at the
	// same time. Either function may be nil. If a function returns an error, the analysis ends. If
	// one of them is set, the analysis uses only one core. Tuples come in any order, but all rows
	// of a tuple follow one another, its durations before its events. Tuples that share an id
	// follow one another too, in the order of time. Tuples that were made of other tuples have
	// further durations, after the rows of all tuples.
	Events    func(EventRow) error
	Durations func(DurationRow) error

	// Pauses is called for each completely logged pause of a JVM, before Events and Durations. It
	// may be nil. If it returns an error, the analysis ends.
	Pauses func(PauseRow) error

	// Links is called for each logged link, with the ids of two tuples: the child was made of the
	// parent. It is called before the rows of the child. It may be nil. Set it only if Events or
	// Durations is set.
	Links func(parent, child uint64)

	exactValues int // replaces the constant exactValues; for tests
	partitions  int // 0, or the number of partitions as a power of two; for tests
}

// Filter chooses a part of a run. Its zero value chooses everything.
type Filter struct {
	// From_cycles and To_cycles choose tuples that began between these two readings of the
	// reference node. A tuple is chosen if the interval in which it began overlaps the time between
	// the two. If To_cycles is 0, neither field has an effect.
	From_cycles, To_cycles uint64
	// From_utc_ns and To_utc_ns choose tuples in the same way, but in ns of UTC by the reference
	// node's clock. If To_utc_ns is 0, neither field has an effect.
	From_utc_ns, To_utc_ns int64

	Nodes []string // choose only events on these nodes; empty: on all nodes
	// Channels chooses only events of channels whose name matches one of these patterns, which mean
	// the same as in a handler table. Empty: events of all channels.
	Channels []string
	// IDs has pairs of ids. It chooses only tuples whose id is between the two ids of a pair, ends
	// included. Empty: all tuples.
	IDs [][2]uint64
}

// Basis says what exported cycles mean, and what their bounds assume.
type Basis struct {
	Reference  Reference
	Clock      Clock
	ThirdNodes tscratio.ThirdNodes
	// Zero_cycles is where the time axis begins, about at the first event.
	Zero_cycles uint64
	// Declared_ppm is the largest wander that was declared for any relation, and Used_ppm is the
	// largest that the analysis used. Both are wanders within a window of Window_s seconds.
	// Used_ppm is larger than Declared_ppm only if a relation is suspect.
	Declared_ppm, Used_ppm, Window_s float64
	Relations, Suspect               int
	// Kept is how many of the run's events are in the logs. Lacks says in words what is lacking.
	Kept  Kept
	Lacks string
}

// EventRow is an event for export.
type EventRow struct {
	ID    uint64
	Tuple uint64 // counts tuples from 1; tuples that share an id have different numbers
	// At is where the event lies on the reference node's counter. For two events of one tuple, the
	// difference of their intervals contains the interval of the duration between the events.
	At tscratio.Interval
	// Unplaced says that At is not known, because the event's node was not related to the reference
	// at that time. A duration from or to the event may still be known.
	Unplaced bool

	Node    string
	Channel string
	Point   string
	Verdict tscratio.Verdict
	// Ended says that the tuple ended at this event's point, although the job has points after it.
	// The Answer counts it there as lost, filtered or in flight. A tuple that forks may end at
	// several points.
	Ended bool
}

// DurationRow is a duration for export.
type DurationRow struct {
	ID       uint64
	Tuple    uint64 // as in EventRow; 0: the row begins at another tuple, of which this was made
	Origin   uint64 // if Tuple is 0: EventRow.Tuple of the event at From
	Made     uint64 // if Tuple is 0: EventRow.Tuple of the event at To
	From, To string // points
	FromNode string
	ToNode   string
	Kind     string // as in Span; if the span has an origin, followed by ", earliest" or ", latest"
	Critical Critical
	// Whole is true if this is the tuple's duration from its first point to the one that it passed
	// last. If no point can lie between these two points, the span between them has the same
	// duration. Then this row stands for both durations, and no row of kind end-to-end follows.
	Whole bool
	// Ends are where the two events lie on the reference node's counter. They are set only if Tuple
	// is 0 and both events can be placed there. For other durations, EventRows place the two
	// events.
	Ends [2]tscratio.Interval
	tscratio.Duration
}

// Validate reports values that are wrong for any run.
func (o *Options) Validate() error {
	f := &o.Filter
	switch {
	case o.Memory_bytes != 0 && o.Memory_bytes < 1<<20:
		return fmt.Errorf("analyze with %d bytes of memory: give 1 MiB or more", o.Memory_bytes)
	case o.Workers < 0:
		return fmt.Errorf("analyze with %d workers: give 1 or more, or 0 for all cores", o.Workers)
	case f.To_cycles != 0 && f.From_cycles > f.To_cycles:
		return fmt.Errorf("analyze tuples from %d to %d cycles: the first is after the second",
			f.From_cycles, f.To_cycles)
	case f.To_utc_ns != 0 && f.From_utc_ns > f.To_utc_ns:
		return fmt.Errorf("analyze tuples from %s to %s: the first is after the second",
			utcText(f.From_utc_ns), utcText(f.To_utc_ns))
	}
	for _, p := range f.Channels {
		if err := channel.CheckPattern(p); err != nil {
			return fmt.Errorf("analyze channels: %w", err)
		}
	}
	for _, r := range f.IDs {
		if r[0] > r[1] {
			return fmt.Errorf("analyze ids from %d to %d: the first is above the second", r[0],
				r[1])
		}
	}
	for _, e := range o.Edges {
		for _, p := range e {
			if actor, name, found := strings.Cut(p, "/"); !found || actor == "" || name == "" ||
				strings.Contains(actor, "#") {
				return fmt.Errorf(
					"analyze with edge %q to %q: a point is actor/point, without an instance", e[0],
					e[1])
			}
		}
	}
	return nil
}

func utcText(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

func (o *Options) defaults() error {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.Memory_bytes == 0 {
		o.Memory_bytes = 512 << 20
	}
	if o.Scratch_bytes == 0 {
		o.Scratch_bytes = 64 << 30
	}
	if o.Slowest == 0 {
		o.Slowest = 10
	}
	o.Slowest = max(o.Slowest, 0)
	if o.exactValues == 0 {
		o.exactValues = exactValues
	}
	return nil
}

// choosesChannel reports whether a channel of a node is chosen. On a chosen node, channels of JVM
// pauses are always chosen, because pauses are no events of tuples.
func (f *Filter) choosesChannel(node, name, point string) bool {
	if len(f.Nodes) > 0 && !slices.Contains(f.Nodes, node) {
		return false
	}
	if point == pausePoint {
		return true
	}
	for _, p := range f.Channels {
		if channel.MatchName(p, name) {
			return true
		}
	}
	return len(f.Channels) == 0
}

// unmatchedNames returns the chosen nodes and patterns that match nothing in a run, and the names
// that exist there. If a node and a pattern each match something, but no channel matches both, they
// are not reported.
func (f *Filter) unmatchedNames(nodes, channels []string) (missing []runs.Missing) {
	for _, n := range f.Nodes {
		if !slices.Contains(nodes, n) {
			missing = append(missing, runs.Missing{
				Part: fmt.Sprintf("node %q", n),
				Reason: "it was chosen, but the run has no such node: use one of " +
					someOf(nodes),
			})
		}
	}
	for _, p := range f.Channels {
		if !slices.ContainsFunc(channels, func(name string) bool {
			return channel.MatchName(p, name)
		}) {
			missing = append(missing, runs.Missing{
				Part: fmt.Sprintf("channel %q", p),
				Reason: "it was chosen, but no channel with a log has this name: use some of " +
					someOf(channels),
			})
		}
	}
	return missing
}

// someOf lists names. If there are more than 12, it lists the first 12.
func someOf(names []string) string {
	const most = 12
	switch {
	case len(names) == 0:
		return "none, as there are none"
	case len(names) <= most:
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), len(names)-most)
}

// leavesOut reports whether the filter leaves anything out.
func (f *Filter) leavesOut() bool {
	return len(f.Nodes)+len(f.Channels)+len(f.IDs) > 0 || f.To_cycles != 0 || f.To_utc_ns != 0
}

func (f *Filter) id(id uint64) bool {
	for _, r := range f.IDs {
		if r[0] <= id && id <= r[1] {
			return true
		}
	}
	return false
}
