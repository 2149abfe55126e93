package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

var (
	// ErrRun is returned for a run.yaml that describes no run.
	ErrRun = errors.New("bad run")
	// ErrVersion is returned for a run of a version that this program does not know. It comes with
	// ErrRun.
	ErrVersion = errors.New("unknown version of a run")
)

// Version is the version of the runs that this package writes, and the only one that it reads.
const Version = 1

// Run is the content of run.yaml.
type Run struct {
	Version int    `yaml:"version"`
	Name    string `yaml:"name"`
	Note    string `yaml:"note,omitempty"` // for people

	// Begun and Ended say when the run began and ended, each as an interval. Ended is zero while
	// the run goes on.
	Begun UTC `yaml:"begun"`
	Ended UTC `yaml:"ended,omitempty"`

	// Reference is the node in whose cycles results are wanted. If it is empty, the reader of the
	// run chooses.
	Reference string `yaml:"reference,omitempty"`

	// These were assumed of each pair of counters, as in tscratio.Assumptions. Each stored pair has
	// its own as well.
	Wander_ppt int64 `yaml:"wander_ppt"`
	Window_ns  int64 `yaml:"window_ns"`

	Nodes   []Node    `yaml:"nodes"`
	Missing []Missing `yaml:"missing,omitempty"`
}

// UTC is an instant between two known ones, in ns since 1970.
type UTC struct {
	Lo_ns int64 `yaml:"lo_ns"`
	Hi_ns int64 `yaml:"hi_ns"`
}

// IsZero tells whether nothing is known.
func (u UTC) IsZero() bool { return u == UTC{} }

// UTCOf returns the instant of a clock that is off by at most slack.
func UTCOf(t time.Time, slack time.Duration) UTC {
	return UTC{Lo_ns: t.UnixNano() - int64(slack), Hi_ns: t.UnixNano() + int64(slack)}
}

// Epoch is a span of the run in which a node's counter ran unbroken.
type Epoch struct {
	Epoch            string `yaml:"epoch"`
	Quantum_cycles   uint64 `yaml:"quantum_cycles"`
	CoreSlack_cycles uint64 `yaml:"core_slack_cycles"`
}

// Node is a node of a run: one counter, in its last epoch in the run.
type Node struct {
	ID               string `yaml:"id,omitempty"` // of the machine, across its names
	Name             string `yaml:"name"`
	Number           int    `yaml:"number"` // in the tuple ids that the node makes
	Epoch            string `yaml:"epoch"`
	Quantum_cycles   uint64 `yaml:"quantum_cycles"`
	CoreSlack_cycles uint64 `yaml:"core_slack_cycles"`

	// Earlier are the epochs that ended during the run, in order.
	Earlier []Epoch `yaml:"earlier,omitempty"`

	// The counter's frequency is an interval, for display only. The source says against what it was
	// measured. 0: unknown.
	FrequencyLo_hz  float64 `yaml:"frequency_lo_hz,omitempty"`
	FrequencyHi_hz  float64 `yaml:"frequency_hi_hz,omitempty"`
	FrequencySource string  `yaml:"frequency_source,omitempty"`

	// its counter is a function of another's, which truth/ gives
	Virtual bool              `yaml:"virtual"`
	Facts   map[string]string `yaml:"facts,omitempty"`   // about the host, by name
	NoLogs  bool              `yaml:"no_logs,omitempty"` // it only takes part in measuring
	Left    string            `yaml:"left,omitempty"`    // why it was not there to the end
}

// Missing is a part that should be there but is not, or is not whole.
type Missing struct {
	// a path in the run directory, or a node's name with "node " before it
	Part   string `yaml:"part"`
	Reason string `yaml:"reason"`
}

func (m Missing) String() string { return m.Part + ": " + m.Reason }

// Assumptions returns the default assumptions with those that the run declares.
func (r *Run) Assumptions() tscratio.Assumptions {
	a := tscratio.DefaultAssumptions()
	if r.Wander_ppt > 0 {
		a.MaxWander = max(a.MaxWander, 16*tscratio.Wander(r.Wander_ppt))
		a.Wander = tscratio.Wander(r.Wander_ppt)
	}
	if r.Window_ns > 0 {
		a.Window = time.Duration(r.Window_ns)
	}
	return a
}

// Node returns the node of a name.
func (r *Run) Node(name string) (Node, bool) {
	for _, n := range r.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// Epochs returns all epochs of the node in the run, in order. There is one, unless the counter was
// interrupted.
func (n *Node) Epochs() []Epoch {
	return append(slices.Clone(n.Earlier), Epoch{n.Epoch, n.Quantum_cycles, n.CoreSlack_cycles})
}

// epochNumber returns the place of an epoch among those of the node, from 1. It returns 0 if the
// node does not have the epoch.
func (n *Node) epochNumber(epoch string) int {
	return 1 + slices.IndexFunc(n.Epochs(), func(e Epoch) bool { return e.Epoch == epoch })
}

// Enter notes a node's present state. If the node had another epoch, that becomes an earlier one,
// and changed is true. Enter keeps the narrowest frequency of one epoch.
func (r *Run) Enter(now Node) (changed bool) {
	i := slices.IndexFunc(r.Nodes, func(n Node) bool { return n.Name == now.Name })
	if i < 0 {
		r.Nodes = append(r.Nodes, now)
		return false
	}
	epochs := r.Nodes[i].Epochs()
	changed = r.Nodes[i].Epoch != now.Epoch
	now.Earlier = slices.DeleteFunc(epochs, func(e Epoch) bool { return e.Epoch == now.Epoch })
	was := r.Nodes[i]
	if !changed && was.measured() && (!now.measured() || was.unsure_hz() < now.unsure_hz()) {
		now.FrequencyLo_hz, now.FrequencyHi_hz = was.FrequencyLo_hz, was.FrequencyHi_hz
		now.FrequencySource = was.FrequencySource
	}
	r.Nodes[i] = now
	return changed
}

// measured says whether the frequency was measured. One with equal ends is nominal.
func (n *Node) measured() bool { return n.unsure_hz() > 0 }

func (n *Node) unsure_hz() float64 { return n.FrequencyHi_hz - n.FrequencyLo_hz }

// parseRun parses and checks a run.yaml. The name is for errors. Errors wrap ErrRun.
func parseRun(text []byte, name string) (Run, error) {
	var head struct {
		Version int `yaml:"version"`
	}
	fail := func(err error) (Run, error) {
		return Run{}, fmt.Errorf("read run %q: %w: %w", name, err, ErrRun)
	}
	if len(text) > maxRunBytes {
		return fail(fmt.Errorf("%d bytes, at most %d", len(text), maxRunBytes))
	}
	// The version comes first. Of another version nothing else is known.
	if err := yaml.Unmarshal(text, &head); err != nil {
		return fail(err)
	}
	if head.Version != Version {
		return fail(fmt.Errorf("version %d, this program knows %d: %w",
			head.Version, Version, ErrVersion))
	}
	var r Run
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&r); err != nil {
		return fail(err)
	}
	if err := decoder.Decode(new(yaml.Node)); err != io.EOF {
		return fail(errors.New("more than one YAML document"))
	}
	if err := r.Validate(); err != nil {
		return Run{}, fmt.Errorf("read run %q: %w", name, err)
	}
	return r, nil
}

// Encode returns the text that parseRun reads.
func (r Run) Encode() ([]byte, error) {
	r.Version = Version
	if err := r.Validate(); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	text.WriteString("# A run of Cloudprofiler: what was measured, where, and what is missing. " +
		"See runs/FORMAT.md.\n")
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(r); err != nil {
		return nil, fmt.Errorf("write run %q: %w", r.Name, err)
	}
	return text.Bytes(), nil
}

// Validate names the first key that makes no sense. The error wraps ErrRun.
func (r *Run) Validate() error {
	if err := CheckName(r.Name); err != nil {
		return fmt.Errorf("name: %w: %w", err, ErrRun)
	}
	if r.Wander_ppt < 0 || r.Window_ns < 0 {
		return fmt.Errorf("wander_ppt %d, window_ns %d: neither may be negative: %w", r.Wander_ppt,
			r.Window_ns, ErrRun)
	}
	for _, u := range []struct {
		key string
		UTC
	}{{"begun", r.Begun}, {"ended", r.Ended}} {
		if u.Lo_ns > u.Hi_ns {
			return fmt.Errorf("%s: lo_ns %d is after hi_ns %d: %w", u.key, u.Lo_ns, u.Hi_ns, ErrRun)
		}
	}
	if !r.Ended.IsZero() && r.Ended.Hi_ns < r.Begun.Lo_ns {
		return fmt.Errorf("ended: %d is before begun %d: %w", r.Ended.Hi_ns, r.Begun.Lo_ns, ErrRun)
	}
	names := map[string]bool{}
	for _, n := range r.Nodes {
		if err := n.validate(); err != nil {
			return fmt.Errorf("node %q: %w", n.Name, err)
		}
		if names[n.Name] {
			return fmt.Errorf("node %q is listed twice: %w", n.Name, ErrRun)
		}
		names[n.Name] = true
	}
	if r.Reference != "" && !names[r.Reference] {
		return fmt.Errorf("reference %q is not one of the nodes: %w", r.Reference, ErrRun)
	}
	return nil
}

func (n *Node) validate() error {
	if err := CheckNodeName(n.Name); err != nil {
		return fmt.Errorf("name: %w: %w", err, ErrRun)
	}
	// A counter that moves in steps of seconds, or whose cores disagree by seconds, is of no use.
	// Sums of these must not overflow.
	const most = 1 << 40
	known := map[string]bool{}
	for _, e := range n.Epochs() {
		switch {
		case e.Quantum_cycles > most || e.CoreSlack_cycles > most:
			return fmt.Errorf("quantum_cycles %d, core_slack_cycles %d: at most %d: %w",
				e.Quantum_cycles, e.CoreSlack_cycles, uint64(most), ErrRun)
		case known[e.Epoch]:
			return fmt.Errorf("earlier: epoch %q is listed twice: %w", e.Epoch, ErrRun)
		}
		known[e.Epoch] = true
	}
	switch {
	// The condition refuses NaN. 0 says that the frequency is not known; below 1 Hz, durations in
	// ns would not be finite.
	case !((n.FrequencyLo_hz == 0 || n.FrequencyLo_hz >= 1) &&
		n.FrequencyLo_hz <= n.FrequencyHi_hz && n.FrequencyHi_hz < 1e15):
		return fmt.Errorf("frequency from %v to %v Hz: %w", n.FrequencyLo_hz, n.FrequencyHi_hz,
			ErrRun)
	case n.Number < 0:
		return fmt.Errorf("number %d is negative: %w", n.Number, ErrRun)
	}
	return nil
}
