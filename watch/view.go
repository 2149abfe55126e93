package watch

import (
	"maps"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

const (
	// Kept is how long an event waits for the next event of its tuple. If a tuple takes longer from
	// one point to the next, the pictures lack it.
	Kept = 30 * time.Second

	// silent is a time. If a node has sent no Sample for that long, the frontier no longer waits
	// for the node.
	silent = 1500 * time.Millisecond

	// pairsEvery is the time between two requests for the measurements of nodes.
	pairsEvery = time.Second

	// These limit how much data from nodes a View keeps.
	maxEvents_s = 16_000 // events from one node in a second
	maxNames    = 4096   // points of all nodes, since the View began
)

// A View is everything that one watching client has received and still needs. Only one goroutine
// may use it.
type View struct {
	window time.Duration
	seq    uint64
	orders map[uint64]time.Time // by the order's number: a moment before the server sent it
	last   coordinator.WatchAnswer

	nodes  map[string]*node
	tuples map[uint64]*tuple
	depths []depthAt      // oldest first
	names  map[string]int // by actor/point: the index into points
	points []point

	clocks clocks
	order  *order        // the order that was last derived
	passed []passedEvent // memory for the next picture

	measured func(id uint64, l *Span, d tscratio.Duration) // for tests: each duration of a picture
}

// A node is what a View knows about one node of the fleet from one stream of its Samples. If the
// agent there begins a new stream, the View makes a new value of this type.
type node struct {
	coordinator.WatchedNode
	ended bool // another stream has begun, or the node has left the fleet

	stream        string // name of the stream; "": no Sample has come
	number        uint64 // number of the newest Sample
	began, until  uint64
	order         uint64        // number of the newest order that the node has named
	since         time.Duration // time from that order's arrival to the end of the node's data
	lastHeard     time.Time     // when the newest Sample came, or when the node was first seen
	samples       []receivedCounts
	missedSample  time.Time // when the View last noticed a missing Sample
	refusedEvents time.Time // when the View last refused events above the limit
	fullChannels  int       // channels that had no room in the newest Sample
	thins         bool      // the result of thinsOut

	second time.Time // when the present second of the limit began
	taken  int       // events in that second
}

// receivedCounts is the part of a Sample that the View keeps.
type receivedCounts struct {
	at          time.Time
	until, made uint64 // the time that the counts cover ends between these readings
	since       uint64 // until of the previous Sample
	sinceMade   uint64
	begins      bool // the counts begin at an unknown moment, so they enter no rate
	bits        int
	lost        bool
	events      int
	channels    []countedEvents
}

type countedEvents struct {
	point           int
	name, handler   string
	keeps           string
	events, dropped uint64
}

// point is a place in the program: a channel's name without its instance.
type point struct{ actor, name string }

func (p point) String() string { return p.actor + "/" + p.name }

// A tuple has the sampled events of one id.
type tuple struct {
	events    []event
	since, at time.Time // when the first event and the newest event came
}

// A node with many events samples fewer ids than others: it takes only ids of at least a certain
// depth (channel.SampleDepth). depthAt contains the greatest depth (bits) that any node used in the
// Samples that came at one moment.
type depthAt struct {
	at   time.Time
	bits int
}

type event struct {
	node    *node
	point   int
	reading uint64
	slack   uint64
}

// New returns a View. Its pictures show the time from one window ago to the present.
func New(window time.Duration) *View {
	return &View{
		window: window, orders: map[uint64]time.Time{}, nodes: map[string]*node{},
		tuples: map[uint64]*tuple{}, names: map[string]int{}, clocks: newClocks(),
		order: &order{},
	}
}

// Request returns the next request for the server.
func (v *View) Request(now time.Time) coordinator.WatchRequest {
	r := coordinator.WatchRequest{After: v.seq}
	if now.Sub(v.clocks.asked) >= pairsEvery || v.clocks.isNew {
		v.clocks.asked, v.clocks.isNew = now, false
		r.Pairs = v.clocks.wantedPairs(v.nodes)
	}
	return r
}

// Add takes the server's answer to a request. asked is the time at which the request was made, and
// now is the time at which the answer arrived.
func (v *View) Add(asked, now time.Time, a *coordinator.WatchAnswer) {
	if a.Seq < v.seq { // the server has restarted
		clear(v.orders)
	}
	v.seq = a.Seq
	if a.Order > 0 {
		v.orders[a.Order] = asked
		delete(v.orders, a.Order-1000)
	}
	v.last = *a
	v.last.Samples, v.last.Pairs = nil, nil
	v.addNodes(now, a)
	depth := 0
	for i := range a.Samples {
		s := &a.Samples[i]
		v.addSample(now, s)
		if n := v.nodes[s.Node]; n != nil && !n.thins {
			depth = max(depth, s.Bits)
		}
	}
	v.depths = append(v.depths, depthAt{now, depth})
	for now.Sub(v.depths[0].at) > v.window+2*Kept {
		v.depths = v.depths[1:]
	}
	v.clocks.add(v.nodes, a)
	for id, t := range v.tuples {
		if now.Sub(t.at) > Kept {
			delete(v.tuples, id)
		}
	}
}

func (v *View) addNodes(now time.Time, a *coordinator.WatchAnswer) {
	there := map[string]bool{}
	for _, about := range a.Nodes {
		there[about.Name] = true
		n := v.nodes[about.Name]
		if n != nil && n.Epoch != about.Epoch {
			n.ended = true
			n = nil
			v.clocks.dropRelations() // the known relations belong to the old epoch
		}
		if n == nil {
			n = &node{lastHeard: now}
			v.nodes[about.Name] = n
		}
		n.WatchedNode = about
	}
	for name, n := range v.nodes {
		if !there[name] {
			n.ended = true
			delete(v.nodes, name)
		}
	}
}

func (v *View) addSample(now time.Time, s *coordinator.WatchedSample) {
	n := v.nodes[s.Node]
	if n == nil || s.Epoch != n.Epoch ||
		control.DecodeSampled(s.Events, s.Channels) != nil {
		return // wait for Samples of the epoch that Add took from the answer
	}
	if s.Stream != n.stream {
		if n.stream != "" {
			n.ended = true
			about := n.WatchedNode
			n = &node{WatchedNode: about}
			v.nodes[s.Node] = n
		}
		n.stream, n.began, n.number = s.Stream, s.Began_cycles, s.Number-1
		if s.Number > 1 {
			// The stream began before this View, for another client. This View lacks the stream's
			// first Samples, and the events in them. So for this View the stream begins only when
			// the present Sample was made.
			n.began = max(s.Made_cycles, s.Until_cycles)
		}
		n.until = s.Until_cycles
		v.clocks.isNew = true // the node's relations may belong to another epoch
	}
	got := receivedCounts{
		at: now, until: s.Until_cycles, made: max(s.Made_cycles, s.Until_cycles), bits: s.Bits,
		lost: s.Lost > 0, begins: true,
	}
	if s.Number != n.number+1 || s.Until_cycles < n.until {
		n.missedSample = now
	} else if len(n.samples) > 0 {
		got.noteFollows(&n.samples[len(n.samples)-1], s.Began_cycles)
	}
	n.number, n.until, n.lastHeard = s.Number, s.Until_cycles, now
	n.order, n.since, n.fullChannels = s.Order, time.Duration(s.Since_ns), s.Left
	for i := range s.Channels {
		c := &s.Channels[i]
		p, ok := v.pointOf(c.Name)
		if !ok {
			continue
		}
		got.events += len(c.Sampled)
		got.channels = append(got.channels, countedEvents{
			p, c.Name, c.Handler, c.Keeps, c.Events, c.Dropped,
		})
		v.addEvents(now, n, p, c)
	}
	n.samples = append(n.samples, got)
	for len(n.samples) > 0 && now.Sub(n.samples[0].at) > v.window+2*time.Second {
		n.samples = n.samples[1:]
	}
}

// noteFollows notes that the counts of a Sample begin where those of the previous Sample end. There
// is one exception. If the previous Sample ends no later than its stream began, this Sample still
// counts events from before the stream. Then its counts begin at an unknown moment.
func (s *receivedCounts) noteFollows(previous *receivedCounts, began uint64) {
	s.since, s.sinceMade = previous.until, previous.made
	s.begins = previous.until <= began
}

func (v *View) addEvents(now time.Time, n *node, p int, c *control.SampledChannel) {
	if now.Sub(n.second) >= time.Second {
		n.second, n.taken = now, 0
	}
	for _, e := range c.Sampled {
		if n.taken++; n.taken > maxEvents_s {
			n.refusedEvents = now
			return
		}
		t := v.tuples[e.ID]
		if t == nil {
			t = &tuple{since: now}
			v.tuples[e.ID] = t
		}
		t.at = now
		if len(t.events) < 2*maxPoints { // a program may log one id without end
			t.events = append(t.events, event{n, p, e.Reading, c.Slack_cycles})
		}
	}
}

// pointOf returns the index of a channel's point. If there are too many points, ok is false.
func (v *View) pointOf(name string) (index int, ok bool) {
	p := point{name: name}
	if n, err := channel.ParseName(name); err == nil {
		p = point{n.Actor, n.Point}
	}
	key := p.String()
	index, ok = v.names[key]
	if !ok && len(v.points) < maxNames {
		index, ok = len(v.points), true
		v.points = append(v.points, p)
		v.names[key] = index
	}
	return index, ok
}

// senders returns the nodes that send Samples at present, sorted by name.
func (v *View) senders(now time.Time) (all []*node) {
	for _, name := range slices.Sorted(maps.Keys(v.nodes)) {
		if n := v.nodes[name]; n.stream != "" && now.Sub(n.lastHeard) <= silent {
			all = append(all, n)
		}
	}
	return all
}
