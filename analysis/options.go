package analysis

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Options say what to ask of a run. The zero value asks for everything.
type Options struct {
	// Reference is the node in whose cycles the answer is given. If it is empty, the run's own
	// choice is used. Without that, the node with the smallest median bound to the others is used.
	Reference string

	// Wander is assumed for each pair instead of the stored wander. 0: the stored wander.
	Wander tscratio.Wander

	// ThirdNodes says how far other nodes may narrow the relation of two nodes. With more than 32
	// nodes, third nodes are not used.
	ThirdNodes tscratio.ThirdNodes

	// Memory_bytes is how much memory events may take; 0 is 512 MiB. The rest goes to a scratch
	// file of at most Scratch_bytes; 0 is 64 GiB. The file is in the directory Scratch, or in the
	// system's directory for temporary files.
	Memory_bytes  int64
	Scratch       string
	Scratch_bytes int64

	// Workers is the number of cores to use; 0: all.
	Workers int

	// Slowest is the number of slowest tuples that are kept with their whole path; 0 is 10,
	// negative is none. For a tuple of which others were made, the path under its own id is kept.
	Slowest int

	// Edges declare which points follow which, each as actor/point. They replace the graph that is
	// found in the data.
	Edges [][2]string

	Filter Filter

	// Truth returns the smallest and the largest value that the counter of node other may truly
	// have read when node's counter showed reading. ok is false where that is not known. It is
	// known only for virtual nodes (internal/truth). The whole answer is then checked against
	// Truth. Many goroutines call Truth. nil: the truth is not known.
	Truth func(node string, reading uint64, other string) (read tscratio.Interval, ok bool)

	// Progress is called with the share of the work that is done, from 0 to 1, and with what is
	// being done. It may be nil.
	Progress func(done float64, what string)

	// Events and Durations are called for every event and every duration, one at a time and in no
	// order. Either may be nil. An error from them ends the analysis. If either is set, one core is
	// used.
	Events    func(EventRow) error
	Durations func(DurationRow) error

	exactValues int // as exactValues; for tests
	partitions  int // bits; for tests
}

// Filter chooses a part of a run. Its zero value chooses everything.
type Filter struct {
	// Tuples that began between From_cycles and To_cycles of the reference node, unless To_cycles
	// is 0. A tuple is chosen if the interval of its begin overlaps that time.
	From_cycles, To_cycles uint64
	// Same choice in ns of UTC by the reference node's clock, unless To_utc_ns is 0.
	From_utc_ns, To_utc_ns int64

	Nodes []string // only events on these nodes; none: on all
	// Only events of channels whose name matches one of these patterns (path.Match); none: of all.
	Channels []string
	// Only tuples whose id is between the two ids of a pair, ends included; none: all.
	IDs [][2]uint64
}

// EventRow is an event for export.
type EventRow struct {
	ID    uint64
	Tuple uint64 // tells apart tuples that share an id
	// At is in cycles of the reference node. The difference of two events of one tuple contains the
	// duration between them.
	At      tscratio.Interval
	Node    string
	Channel string
	Point   string
	Verdict tscratio.Verdict
}

// DurationRow is a duration for export.
type DurationRow struct {
	ID       uint64
	Tuple    uint64 // as in EventRow; 0 for a tuple that was made of others
	From, To string // points
	FromNode string
	ToNode   string
	Kind     string // as in Span; if it has an origin, followed by ", earliest" or ", latest"
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
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf(
				"analyze channels %q: %w: give names or patterns such as parser*/start", p,
				err)
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

// channel reports whether a channel of a node is chosen.
func (f *Filter) channel(node, name string) bool {
	if len(f.Nodes) > 0 && !slices.Contains(f.Nodes, node) {
		return false
	}
	for _, p := range f.Channels {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return len(f.Channels) == 0
}

// unmatched returns the nodes and patterns that choose nothing of a run, with the names that exist.
// It does not return a node and a pattern that each choose something, but together choose nothing.
func (f *Filter) unmatched(nodes, channels []string) (missing []runs.Missing) {
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
			ok, _ := path.Match(p, name)
			return ok
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

// someOf lists names. If there are many, it lists only the first.
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

// any reports whether the filter leaves anything out.
func (f *Filter) any() bool {
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
