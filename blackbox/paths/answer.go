package paths

import (
	"errors"
	"math"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Options say how to answer.
type Options struct {
	// Reference is the node in whose cycles durations are given.
	Reference  analysis.Reference
	Wander     tscratio.Wander // assumed wander; 0: what is stored with each relation
	ThirdNodes tscratio.ThirdNodes
	Method     link.Method // finds causes; nil: the product's own

	Filter Filter // chooses paths; patterns and slowest paths are of these only
	// Slowest is how many of the slowest paths the answer has.
	Slowest int
	// The function Each is called for each chosen path, in the order in which the paths began. If
	// Each returns an error, Of returns that error. Each may be nil.
	Each func(*Path) error

	// Tests choose smaller numbers than the defaults: how many calls are in memory at once before
	// they are linked, and the window of the stream that links them.
	held, window int
}

// An Answer is what a run says about paths.
type Answer struct {
	Reference string `json:"reference"` // durations are in cycles of this node
	Method    string `json:"method"`    // by which causes were found

	Programs []string `json:"programs"` // that sent or received a call, sorted

	Calls    int `json:"calls"`    // a call is a request and its response
	Requests int `json:"requests"` // calls without a cause; each begins a path

	// Links counts calls whose caller was captured, and responses whose request had to be found.
	// Said counts the links with a probability of at least link.Said, and Sure the links with a
	// probability of at least link.Sure.
	Links int `json:"links"`
	Said  int `json:"said"`
	Sure  int `json:"sure"`
	// Pinned counts the links that follow from the tuples that instrumented programs logged. These
	// links are among Links.
	Pinned int `json:"pinned"`

	// Chosen counts the paths that the filter chose. The following fields are only about these
	// paths.
	Chosen   int       `json:"chosen"`
	Patterns []Pattern `json:"patterns"` // by the time that they took, the longest first
	Slowest  []Path    `json:"slowest"`  // the slowest paths, the slowest one first

	// Mixed counts connections on which several requests were open at the same time, so that it was
	// not clear which messages were requests and which were responses.
	Mixed int `json:"mixed"`
	// Refuted counts messages that seem to have been received before they were sent, by more than
	// the bound between the two nodes allows. The two ends of such a message count as those of
	// different calls.
	Refuted int             `json:"refuted"`
	Nodes   []messages.Node `json:"nodes"` // what was captured on each node

	Elsewhen string `json:"elsewhen,omitempty"` // as in messages.Times.Elsewhen
}

// Of returns the answer for a run, or nil if the run has no captured messages.
func Of(dir *runs.Directory, o Options) (*Answer, error) {
	a := &Answer{Reference: o.Reference.Node}
	k, err := o.look(dir, a)
	if k == nil || err != nil {
		return nil, err
	}
	defer k.close()
	a.Method, a.Mixed, a.Refuted = o.Method.Name(), k.seen.Mixed, k.seen.Refuted
	a.Programs = k.seen.programs()
	c := newCollector(a, k.times, &o)
	defer func() { a.Elsewhen = k.times.Elsewhen() }()
	if o.Each == nil && o.streams(k) {
		return a, o.stream(k, c)
	}
	seen, links, err := o.linkWhole(k)
	if err != nil {
		return nil, err
	}
	return a, c.addWhole(seen, links)
}

// known is what is known of a run's calls before they are linked.
type known struct {
	*observer
	times *messages.Times
	pins  map[int32]pin
	store *messages.Store
}

func (k *known) close() error { return errors.Join(k.store.Close(), k.calls.close()) }

// look makes calls from captured messages. It returns nil if no messages were captured. It adds
// what was captured on each node to an answer, unless the answer is nil.
func (o *Options) look(dir *runs.Directory, a *Answer) (*known, error) {
	k := &known{store: messages.NewStore(o.held)}
	isReady := false
	defer func() {
		if !isReady {
			k.store.Close()
		}
	}()
	logs, err := messages.LogsInto(dir, k.store)
	if err != nil || len(logs) == 0 {
		return nil, err
	}
	for _, l := range logs {
		if a != nil {
			a.Nodes = append(a.Nodes, l.Summary())
		}
	}
	if k.times, err = messages.NewTimes(dir, messages.Options{
		Reference: o.Reference.Node, Wander: o.Wander, ThirdNodes: o.ThirdNodes,
	}); err != nil {
		return nil, err
	}
	if o.Method == nil {
		o.Method = link.Methods[0]
	}
	v, err := surveySockets(messages.Sockets(logs))
	if err != nil {
		return nil, err
	}
	to := newScale(k.times, o.Reference, v)
	if k.observer, err = observe(v, to.ns, boundRefutes(k.times), o.held); err != nil {
		return nil, err
	}
	if k.pins, err = k.findPins(dir, to); err != nil {
		k.calls.close()
		return nil, err
	}
	isReady = true
	return k, nil
}

// findPins returns the links that logged tuples pin. If no tuples were logged, it need not look at
// the calls.
func (o *observer) findPins(dir *runs.Directory, to *scale) (map[int32]pin, error) {
	logged, err := readEntries(dir, &o.seen, to)
	if err != nil || len(logged) == 0 {
		return nil, err
	}
	seen := o.seen
	err = o.each(func(c calls.Call, _ *moments) error {
		seen.Calls = append(seen.Calls, c)
		return nil
	})
	return seen.findPins(logged), err
}

// linkWhole links all calls, which must fit into memory.
func (o *Options) linkWhole(k *known) (*Seen, []link.Link, error) {
	seen, err := k.whole()
	if err != nil {
		return nil, nil, err
	}
	if !o.streams(k) {
		return seen, seen.link(o.Method, k.pins), nil
	}
	links := make([]link.Link, len(seen.Calls))
	s := link.NewStream(seen.Quantum_ns, o.window, func(l link.Streamed) {
		links[l.Call] = link.Link{Cause: int32(l.Cause), Probability: l.Probability,
			RunnerUp: int32(l.RunnerUp), RunnerUpProbability: l.RunnerUpProbability}
	})
	seen.Known = map[int32]int32{}
	for _, p := range seen.Places {
		s.Place(p)
	}
	for i := range seen.Calls {
		links[i] = link.Link{Cause: calls.NoCause, RunnerUp: calls.NoCause}
		if p, is := k.pins[int32(i)]; is {
			seen.Known[int32(i)] = p.cause
			s.PushKnown(seen.Calls[i], int64(p.cause))
		} else {
			s.Push(seen.Calls[i])
		}
	}
	s.Flush()
	for call, p := range k.pins {
		links[call] = p.link()
	}
	return seen, links, nil
}

// link links the calls by the given method, except those whose causes logged tuples pin.
func (s *Seen) link(by link.Method, pins map[int32]pin) []link.Link {
	s.Known = map[int32]int32{}
	for call, p := range pins {
		s.Known[call] = p.cause
	}
	links := by.Link(&s.Seen)
	for call, p := range pins {
		links[call] = p.link()
	}
	return links
}

func (p pin) link() link.Link {
	return link.Link{Cause: p.cause, Probability: p.probability, RunnerUp: calls.NoCause}
}

// A scale converts stamps to ns for the linking of calls. Stamps of one node keep their distances,
// up to a constant factor. Stamps of different nodes agree as far as the run relates them.
type scale struct {
	hz    float64
	nodes map[*messages.Log]line
	zero  uint64
}

// A line maps readings of a node's counter to those of the reference.
type line struct {
	from uint64  // reading of the node
	to   uint64  // reading of the reference at the same time
	rate float64 // cycles of the reference in a cycle of the node
}

func newScale(times *messages.Times, r analysis.Reference, v *survey) *scale {
	s := &scale{hz: r.FrequencyLo_hz/2 + r.FrequencyHi_hz/2, nodes: map[*messages.Log]line{}}
	if !(s.hz > 0) {
		s.hz = 1e9
	}
	for l, e := range v.ends {
		s.nodes[l] = newLine(times, &e[0], &e[1])
		if s.zero == 0 || s.nodes[l].to < s.zero {
			s.zero = s.nodes[l].to
		}
	}
	return s
}

func (s *scale) ns(c *messages.Call) int64 { return s.readingAt(c.Log, momentOf(c)) }

// readingAt converts a reading of the counter of a capture's node to ns.
func (s *scale) readingAt(log *messages.Log, cycles uint64) int64 {
	l := s.nodes[log]
	apart := float64(int64(l.to-s.zero)) + float64(int64(cycles-l.from))*l.rate
	return int64(math.Round(min(max(apart/s.hz*1e9, -calls.Latest_ns), calls.Latest_ns)))
}

// newLine finds the line of a node from its first and its last call. If the run does not relate the
// node to the reference, newLine uses the node's readings unchanged, which is enough for links
// between calls of the same node.
func newLine(times *messages.Times, first, last *messages.Call) line {
	l := line{momentOf(first), momentOf(first), 1}
	x, err := times.At(first)
	if err != nil {
		return l
	}
	l.to = x.Mid()
	if y, err := times.At(last); err == nil && momentOf(last) > momentOf(first) {
		l.rate = float64(y.Mid()-x.Mid()) / float64(momentOf(last)-momentOf(first))
	}
	return l
}

// An Interval is a duration in cycles of the reference.
type Interval = analysis.Interval

// A Distribution describes durations. Its lower ends are sorted, and so are its upper ends. The
// true percentile lies between the lower end and the upper end at its rank. If there are more than
// 4096 durations, these ends are rounded outward, by less than 0.05 %.
type Distribution struct {
	Count       int          `json:"count"`
	Percentiles []Percentile `json:"percentiles"`
	Total       Interval     `json:"total"`
}

// A Percentile is an interval in cycles of the reference.
type Percentile = messages.Percentile

var percents = []float64{50, 90, 99, 100}

// At returns a percentile.
func (d *Distribution) At(percent float64) (i Interval, known bool) {
	for _, p := range d.Percentiles {
		if p.Percent == percent {
			return Interval{Lo_cycles: p.Lo_cycles, Hi_cycles: p.Hi_cycles}, true
		}
	}
	return i, false
}
