package paths

import (
	"math"
	"slices"

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
}

// An Answer is what a run says about paths.
type Answer struct {
	Reference string `json:"reference"` // durations are in cycles of this node
	Method    string `json:"method"`    // by which causes were found

	Calls    int `json:"calls"`    // a call is a request and its response
	Requests int `json:"requests"` // calls without a cause; each begins a path

	// Links counts calls whose caller was captured, and responses whose request had to be found.
	// Said counts the links with a probability of at least link.Said, and Sure the links with a
	// probability of at least link.Sure.
	Links int `json:"links"`
	Said  int `json:"said"`
	Sure  int `json:"sure"`
	// Pinned counts the links that instrumented programs show, because they logged tuples. They
	// are among Links.
	Pinned int `json:"pinned"`

	// Chosen counts the paths that the filter chose. The following fields are only about these
	// paths.
	Chosen   int       `json:"chosen"`
	Patterns []Pattern `json:"patterns"` // the one that took the most time first
	Slowest  []Path    `json:"slowest"`  // the slowest paths, the slowest one first

	// Mixed counts connections on which several requests were open at the same time, so that it was
	// not clear which messages were requests and which were responses.
	Mixed int `json:"mixed"`
	// Refuted counts messages that seem to have been received before they were sent, by more than
	// the bound between the two nodes allows. The two ends of such a message count as those of
	// different calls.
	Refuted int             `json:"refuted"`
	Nodes   []messages.Node `json:"nodes"` // what was captured on each node
}

// Of returns the answer for a run, or nil if the run has no captured messages.
func Of(dir *runs.Directory, o Options) (*Answer, error) {
	logs, err := messages.Logs(dir)
	if err != nil || len(logs) == 0 {
		return nil, err
	}
	times, seen, links, err := o.link(dir, logs)
	if err != nil {
		return nil, err
	}
	a := &Answer{Reference: o.Reference.Node, Method: o.Method.Name()}
	for _, l := range logs {
		a.Nodes = append(a.Nodes, l.Summary())
	}
	return a, a.answer(seen, links, times, &o)
}

// link makes calls from captured messages, and links them.
func (o *Options) link(dir *runs.Directory, logs []*messages.Log) (*messages.Times, *Seen,
	[]link.Link, error) {
	times, err := messages.NewTimes(dir, messages.Options{
		Reference: o.Reference.Node, Wander: o.Wander, ThirdNodes: o.ThirdNodes,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if o.Method == nil {
		o.Method = link.Methods[0]
	}
	sockets := messages.Sockets(logs)
	to := newScale(times, o.Reference, sockets)
	seen := observe(sockets, to.ns, boundRefutes(times))
	logged, err := readEntries(dir, seen, to)
	if err != nil {
		return nil, nil, nil, err
	}
	return times, seen, seen.link(o.Method, seen.findPins(logged)), nil
}

// link links the calls. The method is not used for links that logged tuples pin.
func (s *Seen) link(by link.Method, pins map[int32]pin) []link.Link {
	s.Known = map[int32]int32{}
	for call, p := range pins {
		s.Known[call] = p.cause
	}
	links := by.Link(&s.Seen)
	for call, p := range pins {
		links[call] = link.Link{Cause: p.cause, Probability: p.probability,
			RunnerUp: calls.NoCause}
	}
	return links
}

func (a *Answer) answer(seen *Seen, links []link.Link, times *messages.Times, o *Options) error {
	a.Mixed, a.Refuted, a.Pinned = seen.Mixed, seen.Refuted, len(seen.Known)
	for i := range links {
		if !seen.Calls[i].Answers {
			a.Calls++
		}
		if seen.Calls[i].Caller >= 0 {
			a.Links++
			if links[i].Probability >= link.Said {
				a.Said++
			}
			if links[i].Probability >= link.Sure {
				a.Sure++
			}
		}
	}
	f := newForest(seen, links)
	a.Requests = len(f.roots)
	m := &meter{forest: f, times: times, parts: make([]parts, len(seen.Calls)),
		number: map[int32]int32{}}
	var chosen []int32
	for _, r := range f.roots {
		m.measure(r)
		if m.isChosen(r, &o.Filter) {
			chosen = append(chosen, r)
		}
	}
	a.Chosen = len(chosen)
	a.Patterns = m.groupTrees(chosen)
	for _, r := range m.slowestTrees(chosen, o.Slowest) {
		a.Slowest = append(a.Slowest, m.describeTree(r))
	}
	for _, r := range chosen {
		if o.Each == nil {
			break
		}
		p := m.describeTree(r)
		if err := o.Each(&p); err != nil {
			return err
		}
	}
	return nil
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

func newScale(times *messages.Times, r analysis.Reference, sockets []*messages.Socket) *scale {
	s := &scale{hz: r.FrequencyLo_hz/2 + r.FrequencyHi_hz/2, nodes: map[*messages.Log]line{}}
	if !(s.hz > 0) {
		s.hz = 1e9
	}
	ends := map[*messages.Log][2]*messages.Call{} // the first and the last call
	for _, k := range sockets {
		for _, all := range [][]messages.Call{k.Sends, k.Receives} {
			for i := range all {
				c := &all[i]
				e, known := ends[c.Log]
				if !known || momentOf(c) < momentOf(e[0]) {
					e[0] = c
				}
				if !known || momentOf(c) > momentOf(e[1]) {
					e[1] = c
				}
				ends[c.Log] = e
			}
		}
	}
	for l, e := range ends {
		s.nodes[l] = newLine(times, e[0], e[1])
		if s.zero == 0 || s.nodes[l].to < s.zero {
			s.zero = s.nodes[l].to
		}
	}
	return s
}

func (s *scale) ns(c *messages.Call) int64 { return s.readingAt(c.Log, momentOf(c)) }

// readingAt converts a reading of the counter of a capture's node.
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
// true percentile lies between the lower end and the upper end at its rank.
type Distribution struct {
	Count       int          `json:"count"`
	Percentiles []Percentile `json:"percentiles"`
	Total       Interval     `json:"total"`
}

// A Percentile is an interval in cycles of the reference.
type Percentile = messages.Percentile

var percents = []float64{50, 90, 99, 100}

func distribution(all []Interval) Distribution {
	lo, hi := make([]int64, len(all)), make([]int64, len(all))
	d := Distribution{Count: len(all)}
	for i, v := range all {
		lo[i], hi[i] = v.Lo_cycles, v.Hi_cycles
		d.Total.Lo_cycles += lo[i]
		d.Total.Hi_cycles += hi[i]
	}
	slices.Sort(lo)
	slices.Sort(hi)
	for _, p := range percents {
		if n := len(all); n > 0 {
			k := max(int(math.Ceil(p/100*float64(n))), 1) - 1
			d.Percentiles = append(d.Percentiles, Percentile{Percent: p, Lo_cycles: lo[k],
				Hi_cycles: hi[k]})
		}
	}
	return d
}

// At returns a percentile.
func (d *Distribution) At(percent float64) (i Interval, known bool) {
	for _, p := range d.Percentiles {
		if p.Percent == percent {
			return Interval{Lo_cycles: p.Lo_cycles, Hi_cycles: p.Hi_cycles}, true
		}
	}
	return i, false
}
