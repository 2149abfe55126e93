package watch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// sim simulates a fleet. Its time is in cycles of a counter of 1 GHz, so a cycle is a ns. Each
// node's counter is that time plus an offset.
type sim struct {
	t            *testing.T
	v            *View
	now          uint64
	nodes        []*simNode
	seq          uint64
	pairs        map[[2]string]*simPair
	skippedPairs [][2]string // pairs of nodes that are not measured
	run          string
	orders       uint64
	lastAsked    uint64           // when the simulated client last asked
	unseen       bool             // a picture had a span from a/x to c/x without a reason
	tuples       map[uint64]int64 // for each id: the tuple's number in its tick (see simulateChain)
}

type simPair struct {
	*tscratio.Pair
	at, wrong uint64 // moment and error of the last train
}

type simNode struct {
	name         string
	epoch        string
	stream       string // the name of its present stream of Samples
	offset       uint64
	number       uint64
	began        uint64
	bits         int
	sendsNothing bool   // the node sends nothing
	cyclesBehind uint64 // events newer than this many cycles wait for the next Sample

	channels []*simChannel
	about    func(*coordinator.WatchedNode) // nil: an agent of this release
	sample   func(*control.Sample)          // changes what the node sends; nil: changes nothing
}

type simChannel struct {
	control.SampledChannel
}

const hz = 1_000_000_000

func newSim(t *testing.T, names ...string) *sim {
	s := &sim{
		t: t, v: New(2 * time.Second), now: 100 * hz, run: "r",
		pairs: map[[2]string]*simPair{}, tuples: map[uint64]int64{},
	}
	s.v.measured = s.checkTuple
	for i, name := range names {
		s.nodes = append(s.nodes, &simNode{
			name: name, epoch: "e", stream: "s", offset: uint64(i+1) << 50, began: s.now,
		})
	}
	for i, a := range s.nodes {
		for _, b := range s.nodes[i+1:] {
			s.pairs[[2]string{a.name, b.name}] = s.measuredPair(a, b)
		}
	}
	return s
}

const quantum, slack = 3, 50

func (n *simNode) described() tscratio.Node {
	return tscratio.Node{Name: n.name, Epoch: n.epoch, Nominal_hz: hz, Quantum_cycles: quantum,
		CoreSlack_cycles: slack}
}

// measuredPair returns a pair of nodes that were measured against each other once a second until
// now.
func (s *sim) measuredPair(a, b *simNode) *simPair {
	p, err := tscratio.NewPair(a.described(), b.described(), tscratio.DefaultAssumptions())
	if err != nil {
		s.t.Fatal(err)
	}
	for at := s.now - 20*hz; at <= s.now; at += hz {
		s.addTrain(p, a, b, at, 0)
	}
	return &simPair{p, s.now, 0}
}

// addTrain adds one measurement, a train of three exchanges of packets, to a pair of nodes. All
// readings of the second counter are wrong by the given number of cycles.
func (s *sim) addTrain(p *tscratio.Pair, a, b *simNode, at, wrong uint64) {
	const way = 20_000
	var all []tscratio.Exchange
	for i := range uint64(3) {
		at, other := at+i*3*way+a.offset, at+i*3*way+b.offset+wrong
		all = append(all, tscratio.Exchange{
			Sent: tscratio.At(at), Received: tscratio.At(other + way),
			Answered: tscratio.At(other + way + 100), Returned: tscratio.At(at + 2*way + 100),
		})
	}
	if err := p.Add(tscratio.Train{By: tscratio.StartedByA, Exchanges: all}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sim) node(name string) *simNode {
	i := slices.IndexFunc(s.nodes, func(n *simNode) bool { return n.name == name })
	return s.nodes[i]
}

// channel returns a channel of a node.
func (n *simNode) channel(name string) *simChannel {
	for _, c := range n.channels {
		if c.Name == name {
			return c
		}
	}
	c := &simChannel{control.SampledChannel{
		Name: name, Handler: "buffered", Keeps: control.KeepsAll,
	}}
	n.channels = append(n.channels, c)
	return c
}

// logEvent logs an event at a moment.
func (s *sim) logEvent(node, channelName string, id, at uint64) {
	n := s.node(node)
	c := n.channel(channelName)
	c.Events++
	if channel.SampleDepth(id) >= n.bits {
		c.Sampled = append(c.Sampled, control.SampledEvent{ID: id, Reading: at + n.offset})
	}
}

func (s *sim) clock() time.Time { return time.Unix(0, int64(s.now)) }

// ask makes every node send the events that it logged, and gives them to the View. The View's
// request was made 1 ms earlier.
func (s *sim) ask() {
	s.t.Helper()
	asked := s.clock().Add(-time.Millisecond)
	r := s.v.Request(asked)
	a := coordinator.WatchAnswer{Run: s.run, Phase: coordinator.PhaseOpen, Order: s.orders + 1}
	if s.run == "" {
		a.Phase = ""
	}
	for _, n := range s.nodes {
		about := coordinator.WatchedNode{
			Name: n.name, Epoch: n.epoch, Agent: true, CanWatch: true, Nominal_hz: hz,
			Quantum_cycles: quantum, CoreSlack_cycles: slack,
		}
		if n.about != nil {
			n.about(&about)
		}
		a.Nodes = append(a.Nodes, about)
		if n.sendsNothing || !about.CanWatch {
			continue
		}
		n.number++
		s.seq++
		m := control.Sample{
			Stream: n.stream + n.epoch, Number: n.number, Order: s.orders, Epoch: n.epoch,
			Since_ns:     int64(s.now - s.lastAsked),
			Began_cycles: n.began + n.offset, Until_cycles: s.now - n.cyclesBehind + n.offset,
			Made_cycles: s.now + n.offset, Bits: n.bits,
		}
		for _, c := range n.channels {
			sent := c.SampledChannel
			isNew := func(e control.SampledEvent) bool { return e.Reading > m.Until_cycles }
			c.Events, c.Dropped, c.Sampled = 0, 0, nil
			for _, e := range sent.Sampled {
				if isNew(e) {
					c.Sampled = append(c.Sampled, e)
				}
			}
			sent.Sampled = slices.DeleteFunc(sent.Sampled, isNew)
			m.Channels = append(m.Channels, sent)
		}
		if n.sample != nil {
			n.sample(&m)
		}
		a.Samples = append(a.Samples, coordinator.WatchedSample{
			Node: n.name, Sample: m, Events: control.EncodeSampled(m.Channels),
		})
	}
	a.Seq = s.seq
	s.orders++
	s.lastAsked = s.now
	for key, p := range s.pairs {
		a, b := s.node(key[0]), s.node(key[1])
		if s.now/hz > p.at/hz {
			s.addTrain(p.Pair, a, b, s.now, p.wrong)
			p.at = s.now
		}
	}
	for _, key := range r.Pairs {
		if p := s.pairs[key]; p != nil && !slices.Contains(s.skippedPairs, key) {
			a.Pairs = append(a.Pairs, p.Encode())
		}
	}
	s.v.Add(asked, s.clock(), &a)
}

// span finds the span between two points in a picture. If the picture lacks it, span returns one
// without tuples.
func span(p *Picture, from, to string) Span {
	for _, l := range p.Spans {
		if l.From == from && l.To == to {
			return l
		}
	}
	return Span{}
}

// names lists the spans of a picture that have tuples.
func names(p *Picture) (all []string) {
	for _, l := range p.Spans {
		name := l.From + " " + l.To
		if l.Whole {
			name = "[" + name + "]"
		}
		if l.Tuples > 0 {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// checkTuple compares a duration of a tuple of simulateChain with the truth.
func (s *sim) checkTuple(id uint64, l *Span, d tscratio.Duration) {
	i, ok := s.tuples[id]
	truth, known := map[string]int64{
		"a/x b/x": 500_000 - i*1000, "b/x c/x": 500_000, "a/x c/x": 1_000_000 - i*1000,
	}[l.From+" "+l.To]
	if ok && known && (truth < d.Lo || truth > d.Hi) {
		s.t.Errorf("FALSE: %s → %s is [%d, %d], and %d in truth", l.From, l.To, d.Lo, d.Hi, truth)
	}
}

// simulateChain simulates tuples for a time. They pass a/x on the first node, b/x on the second and
// c/x on the third. The View asks five times a second. Each such fifth of a second is a tick. Tuple
// i of a tick takes i µs less than the first tuple.
func (s *sim) simulateChain(seconds float64, change func(tick int)) *Picture {
	s.t.Helper()
	const tuples = 100 // in a tick
	var p *Picture
	for tick := range int(seconds * 5) {
		if change != nil {
			change(tick)
		}
		begin := s.now
		for i := range uint64(tuples) {
			id := begin/hz<<32 + begin%hz + i // each id is used once
			s.tuples[id] = int64(i)
			at := begin + i*hz/5/tuples
			s.logEvent("alpha", "a/x", id, at)
			s.logEvent("beta", "b/x", id, at+500_000-i*1000)
			s.logEvent("gamma", "c/x", id, at+1_000_000-i*1000)
		}
		s.now += hz/5 + 2_000_000
		s.ask()
		p = s.v.Picture(s.clock())
		l := span(p, "a/x", "c/x")
		s.unseen = s.unseen || l.Tuples > 0 && !l.Whole &&
			!strings.Contains(strings.Join(p.Notes, ""), unseenRemark)
	}
	return p
}
