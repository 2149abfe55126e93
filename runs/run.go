package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

var (
	// ErrRun is returned for a run.yaml that is not valid.
	ErrRun = errors.New("bad run")
	// ErrVersion is returned, together with ErrRun, for a run of a version that this program does
	// not know.
	ErrVersion = errors.New("unknown version of a run")
)

// Version is the version of the runs that this package writes, and the only one that it reads.
const Version = 1

// Run is the content of run.yaml.
type Run struct {
	Version int    `yaml:"version"`
	Name    string `yaml:"name"`
	Note    string `yaml:"note,omitempty"` // a text for people

	// Begun and Ended are the times at which the run began and ended, as intervals. Ended is zero
	// while the run is open.
	Begun UTC `yaml:"begun"`
	Ended UTC `yaml:"ended,omitempty"`

	// Reference is the reference node: results are in cycles of this node's counter. If Reference
	// is empty, the reader of the run chooses a node.
	Reference string `yaml:"reference,omitempty"`

	// Wander_ppt and Window_ns are the assumptions for each pair of counters, as in
	// tscratio.Assumptions. A stored pair may have assumptions of its own.
	Wander_ppt int64 `yaml:"wander_ppt"`
	Window_ns  int64 `yaml:"window_ns"`

	// AllPairs is the size of the largest fleet whose runs should have a relation of each pair of
	// nodes; 0 stands for DefaultAllPairs. In a larger fleet, a node measures only some other
	// nodes. There it is enough that chains of relations lead from each node to all others.
	AllPairs int `yaml:"all_pairs,omitempty"`

	Nodes   []Node    `yaml:"nodes"`
	Missing []Missing `yaml:"missing,omitempty"`
}

// UTC is an interval that contains an instant, in ns since 1970.
type UTC struct {
	Lo_ns int64 `yaml:"lo_ns"`
	Hi_ns int64 `yaml:"hi_ns"`
}

// IsZero reports whether the instant is unknown.
func (u UTC) IsZero() bool { return u == UTC{} }

// UTCOf returns an interval that contains the true time, if a clock that is off by at most slack
// showed t.
func UTCOf(t time.Time, slack time.Duration) UTC {
	return UTC{Lo_ns: t.UnixNano() - int64(slack), Hi_ns: t.UnixNano() + int64(slack)}
}

// Epoch is a part of the run in which nothing interrupted a node's counter.
type Epoch struct {
	Epoch            string `yaml:"epoch"`
	Quantum_cycles   uint64 `yaml:"quantum_cycles"`
	CoreSlack_cycles uint64 `yaml:"core_slack_cycles"`
}

// Node is a node of a run. All fields about the counter except Earlier describe it in the node's
// last epoch of the run.
type Node struct {
	ID               string `yaml:"id,omitempty"` // id of the machine, whatever its name
	Name             string `yaml:"name"`
	Number           int    `yaml:"number"` // the node's number in the tuple ids that it makes
	Epoch            string `yaml:"epoch"`
	Quantum_cycles   uint64 `yaml:"quantum_cycles"`
	CoreSlack_cycles uint64 `yaml:"core_slack_cycles"`

	// Earlier are the epochs that ended during the run, in order.
	Earlier []Epoch `yaml:"earlier,omitempty"`

	// FrequencyLo_hz and FrequencyHi_hz are the interval of the counter's frequency, for display
	// only; 0: unknown. FrequencySource says against which clock the frequency was measured.
	FrequencyLo_hz  float64 `yaml:"frequency_lo_hz,omitempty"`
	FrequencyHi_hz  float64 `yaml:"frequency_hi_hz,omitempty"`
	FrequencySource string  `yaml:"frequency_source,omitempty"`

	// Virtual is true if the node's counter is a function of another counter. The node's file in
	// the directory truth of the run describes this function.
	Virtual bool              `yaml:"virtual"`
	Facts   map[string]string `yaml:"facts,omitempty"`   // facts about the host, by name
	NoLogs  bool              `yaml:"no_logs,omitempty"` // the node has no log, and lacks none
	Left    string            `yaml:"left,omitempty"`    // why the node left before the end
}

// Missing is a part that should be in the run but is absent or incomplete.
type Missing struct {
	// Part is a path in the run directory, or "node " and a node's name.
	Part   string `yaml:"part"`
	Reason string `yaml:"reason"`
}

func (m Missing) String() string { return m.Part + ": " + m.Reason }

// Assumptions returns the assumptions of the run. An assumption that the run does not declare has
// its default value.
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

// Node returns the node with this name. It reports false if the run has no such node.
func (r *Run) Node(name string) (Node, bool) {
	for _, n := range r.Nodes {
		if n.Name == name {
			return n, true
		}
	}
	return Node{}, false
}

// Epochs returns all epochs of the node in the run, in order. There is only one epoch unless the
// counter was interrupted during the run.
func (n *Node) Epochs() []Epoch {
	return append(slices.Clone(n.Earlier), Epoch{n.Epoch, n.Quantum_cycles, n.CoreSlack_cycles})
}

// epochNumber returns the position of an epoch in n.Epochs, from 1. It returns 0 if the epoch is
// not in n.Epochs.
func (n *Node) epochNumber(epoch string) int {
	return 1 + slices.IndexFunc(n.Epochs(), func(e Epoch) bool { return e.Epoch == epoch })
}

// Enter notes the present state of a node. If the node was in another epoch before, that epoch
// becomes an earlier epoch, and changed is true. Within an epoch, Enter keeps the narrowest
// measured interval of the frequency.
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
	if !changed && was.wasMeasured() && (!now.wasMeasured() || was.unsure_hz() < now.unsure_hz()) {
		now.FrequencyLo_hz, now.FrequencyHi_hz = was.FrequencyLo_hz, was.FrequencyHi_hz
		now.FrequencySource = was.FrequencySource
	}
	r.Nodes[i] = now
	return changed
}

// wasMeasured reports whether somebody measured the frequency. If both ends of its interval are
// equal, the frequency is nominal, and nobody has measured it.
func (n *Node) wasMeasured() bool { return n.unsure_hz() > 0 }

func (n *Node) unsure_hz() float64 { return n.FrequencyHi_hz - n.FrequencyLo_hz }

// parseRun parses and checks a run.yaml. name is the file's name, for errors. Errors wrap ErrRun.
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
	// Check the version first, because in another version all other keys are unknown.
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

// Encode returns the run as text that parseRun can read.
func (r Run) Encode() ([]byte, error) { return r.encode(nodeTexts{}) }

func (r Run) encode(known nodeTexts) ([]byte, error) {
	r.Version = Version
	if err := r.Validate(); err != nil {
		return nil, err
	}
	nodes := r.Nodes
	r.Nodes = nil
	text, err := encodeYAML(r)
	if err == nil && len(nodes) > 0 {
		var list []byte
		if list, err = known.encode(nodes); err == nil {
			text = bytes.Replace(text, []byte("\nnodes: []\n"),
				append([]byte("\nnodes:\n"), list...), 1)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("write run %q: %w", r.Name, err)
	}
	const head = "# A run of Cloudprofiler: what was measured, where, and what is missing. " +
		"See runs/FORMAT.md.\n"
	return append([]byte(head), text...), nil
}

func encodeYAML(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	err := encoder.Encode(v)
	return text.Bytes(), err
}

// nodeTexts has, by name, nodes as they are written in run.yaml. A run may have thousands of nodes,
// and each node that joins changes run.yaml. So only the nodes that changed are encoded.
type nodeTexts map[string]nodeText

type nodeText struct {
	node Node
	text []byte
}

// encode returns the list of the nodes.
func (known nodeTexts) encode(nodes []Node) (list []byte, err error) {
	var changed []Node
	for _, n := range nodes {
		if !reflect.DeepEqual(known[n.Name].node, n) {
			changed = append(changed, n)
		}
	}
	if len(changed) > 0 {
		text, err := encodeYAML(map[string][]Node{"nodes": changed})
		if err != nil {
			return nil, err
		}
		// Each line within a node is indented more than the line with which the node begins.
		const begin = "\n  - "
		items := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte(begin))[1:]
		if len(items) != len(changed) {
			return nil, fmt.Errorf("%d nodes became %d in YAML", len(changed), len(items))
		}
		for i, n := range changed {
			known[n.Name] = nodeText{n, slices.Concat([]byte(begin[1:]), items[i], []byte("\n"))}
		}
	}
	for _, n := range nodes {
		list = append(list, known[n.Name].text...)
	}
	return list, nil
}

// Validate returns an error that names the first invalid key. The error wraps ErrRun.
func (r *Run) Validate() error {
	if err := CheckName(r.Name); err != nil {
		return fmt.Errorf("name: %w: %w", err, ErrRun)
	}
	if r.Wander_ppt < 0 || r.Window_ns < 0 {
		return fmt.Errorf("wander_ppt %d, window_ns %d: neither may be negative: %w", r.Wander_ppt,
			r.Window_ns, ErrRun)
	}
	if r.AllPairs < 0 {
		return fmt.Errorf("all_pairs %d: want a number of nodes: %w", r.AllPairs, ErrRun)
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
	// 2⁴⁰ cycles take minutes. A counter that moves in such steps, or whose cores differ so much,
	// is useless. Below this limit, sums of these numbers do not overflow.
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
	// This condition is negated so that it refuses NaN, too. 0 means that the frequency is unknown.
	// Near 0 Hz, durations in ns would not be finite.
	case !((n.FrequencyLo_hz == 0 || n.FrequencyLo_hz >= 1) &&
		n.FrequencyLo_hz <= n.FrequencyHi_hz && n.FrequencyHi_hz < 1e15):
		return fmt.Errorf("frequency from %v to %v Hz: %w", n.FrequencyLo_hz, n.FrequencyHi_hz,
			ErrRun)
	case n.Number < 0:
		return fmt.Errorf("number %d is negative: %w", n.Number, ErrRun)
	}
	return nil
}
