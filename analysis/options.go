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

// Options say what is asked of a run. The zero value asks for everything.
type Options struct {
	// Reference is the node in whose cycles the answer is given; empty: the run's own, else the node with the smallest median bound to the
	// others.
	Reference string

	// Wander is assumed of each pair in place of what is stored with it; 0: as stored.
	Wander tscratio.Wander

	// ThirdNodes says how far other nodes may narrow what is known of two. Of more than 32 nodes none may.
	ThirdNodes tscratio.ThirdNodes

	// Memory_bytes is how much events may take in memory, 0 is 512 MiB; what is beyond goes to a scratch file in Scratch, or the system's
	// directory for temporary files, of at most Scratch_bytes, 0 is 64 GiB.
	Memory_bytes  int64
	Scratch       string
	Scratch_bytes int64

	// Workers is how many cores are used; 0: all.
	Workers int

	// Slowest is how many of the slowest tuples are kept with their whole way, of those that others were made of the way under their own id; 0 is
	// 10, negative none.
	Slowest int

	// Edges declare which points follow which, each actor/point, in place of what is found in the data.
	Edges [][2]string

	Filter Filter

	// Truth says what another node's counter truly read, at the least and at the most, while a node's read so; ok is false where that is not known.
	// Only of virtual nodes is it (internal/truth): then all that is answered is held against it. It is called by many goroutines. nil: nobody knows.
	Truth func(node string, reading uint64, other string) (read tscratio.Interval, ok bool)

	// Progress is told how much of the work is done, from 0 to 1, and what is being done. It may be nil.
	Progress func(done float64, what string)

	// Events and Durations are told every event and every duration, one at a time and in no order; nil: nobody wants them. An error from
	// them ends the analysis. With them, one core is used.
	Events    func(EventRow) error
	Durations func(DurationRow) error

	exactValues int // as exactValues; for tests
	partitions  int // bits; for tests
}

// Filter says which part of a run is looked at. Its zero value is all.
type Filter struct {
	// Tuples that began from From_cycles to To_cycles of the reference node, if To_cycles is not 0. One whose interval is partly in is in.
	From_cycles, To_cycles uint64
	// The same in ns of UTC, if To_utc_ns is not 0, as the reference node's clock tells it.
	From_utc_ns, To_utc_ns int64

	Nodes    []string    // events on these nodes; none: all
	Channels []string    // events of channels whose name one of these patterns (path.Match) matches; none: all
	IDs      [][2]uint64 // tuples with an id from the first to the second of one of these; none: all
}

// EventRow is an event as it is exported.
type EventRow struct {
	ID      uint64
	Way     uint64            // tells tuples apart that share an id
	At      tscratio.Interval // in cycles of the reference node; the difference of two events of a way holds the duration between them
	Node    string
	Channel string
	Point   string
	Verdict tscratio.Verdict
}

// DurationRow is a duration as it is exported.
type DurationRow struct {
	ID       uint64
	Way      uint64 // as EventRow's; of a tuple that was made of others, 0
	From, To string // points
	FromNode string
	ToNode   string
	Kind     string // as Leg's, with ", earliest" or ", latest" behind it for a Leg with an origin
	tscratio.Duration
}

// Validate tells what no run could answer: values that are wrong by themselves.
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
			return fmt.Errorf("analyze channels %q: %w: give names or patterns as parser*/start", p,
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

// channel tells whether a channel of a node is looked at.
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

// unmatched are the nodes and patterns that choose nothing of a run, with what there is. Two of which each chooses something, and nothing
// together, are not among them.
func (f *Filter) unmatched(nodes, channels []string) (missing []runs.Missing) {
	for _, n := range f.Nodes {
		if !slices.Contains(nodes, n) {
			missing = append(missing, runs.Missing{
				Part: fmt.Sprintf("node %q", n),
				Reason: "it was chosen, and no node of the run is called so: use one of " +
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
				Reason: "it was chosen, and no channel with a log is called so: use some of " +
					someOf(channels),
			})
		}
	}
	return missing
}

// someOf lists names, of many the first.
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

// any tells whether anything is left out.
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
