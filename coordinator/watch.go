package coordinator

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// WatchRequest asks what the nodes' channels log at present. A client that watches sends several
// such requests a second.
type WatchRequest struct {
	After uint64      `json:"after,string"`    // Seq of the previous answer; 0: first request
	Pairs [][2]string `json:"pairs,omitempty"` // the nodes of each pair whose trains to send
}

// WatchAnswer is the answer to a WatchRequest.
type WatchAnswer struct {
	Seq     uint64          `json:"seq,string"`
	Nodes   []WatchedNode   `json:"nodes"`
	Samples []WatchedSample `json:"samples"`         // those that arrived after WatchRequest.After
	Pairs   [][]byte        `json:"pairs,omitempty"` // newest trains, by tscratio.Pair.Encode

	Run        string              `json:"run,omitempty"` // "": no run is under way
	Phase      Phase               `json:"phase,omitempty"`
	Reference  string              `json:"reference,omitempty"` // the run's reference node, if any
	ThirdNodes tscratio.ThirdNodes `json:"third_nodes"`

	// Order is the number of the first control.Watch that the server sends after this request
	// arrived.
	Order uint64 `json:"order,string"`
}

// WatchedNode describes a registered node.
type WatchedNode struct {
	Name      string             `json:"name"`
	Epoch     string             `json:"epoch"`
	Agent     bool               `json:"agent"`     // false: a tsc-client, which keeps no events
	CanWatch  bool               `json:"can_watch"` // false for the agents of old releases
	Virtual   bool               `json:"virtual,omitempty"`
	Software  string             `json:"software"`
	Frequency *control.Frequency `json:"frequency,omitempty"`

	Nominal_hz       uint64 `json:"nominal_hz,string"`
	Quantum_cycles   uint64 `json:"quantum_cycles,string"`
	CoreSlack_cycles uint64 `json:"core_slack_cycles,string"`
}

// WatchedSample is a node's Sample. Events contains the result of control.EncodeSampled for its
// channels.
type WatchedSample struct {
	Node string `json:"node"`
	control.Sample
	Events []byte `json:"sampled"`
}

// MaxWatchedPairs is the largest number of pairs in a WatchRequest.
const MaxWatchedPairs = 512

const (
	// watchLasts is how long the server keeps Samples after the last request, and how long nodes
	// send Samples after the last order.
	watchLasts = 2 * time.Second

	// watchEvery is the least time between two orders to the nodes.
	watchEvery = 400 * time.Millisecond

	// watchEvents is the largest number of sampled events that all nodes together should send in a
	// second. But each node may always send leastWatchEvents.
	watchEvents      = 5000
	leastWatchEvents = 100

	// maxWatched is the largest number of Samples of one node that the server keeps for requests.
	// maxWatchedEvents is the largest number of events in these Samples. An agent sends five
	// Samples a second.
	maxWatched       = 16
	maxWatchedEvents = 4 * watchEvents

	// watchedTrains_s is how old a pair's trains in an answer may be. Older trains hardly narrow
	// the bounds of present events.
	watchedTrains_s = 20
)

// watchState is the core's state while somebody watches.
type watchState struct {
	until   time.Time // when the watch ends unless another request comes
	order   uint64    // number of the last control.Watch
	ordered time.Time
	seq     uint64 // Seq of the newest Sample
}

// A watchedSample is one Sample of a node, with its Seq.
type watchedSample struct {
	seq uint64
	m   *control.Sample
}

func (c *core) isWatched() bool { return c.now().Before(c.watch.until) }

// keepSample keeps a node's Sample for the clients that watch.
func (c *core) keepSample(n *node, m *control.Sample) {
	if !c.isWatched() || m.Epoch != n.registered.Epoch {
		return
	}
	c.watch.seq++
	n.newestSamples = append(n.newestSamples, watchedSample{c.watch.seq, m})
	for len(n.newestSamples) > maxWatched || events(n.newestSamples) > maxWatchedEvents {
		n.newestSamples = n.newestSamples[1:]
	}
}

func events(all []watchedSample) (n int) {
	for _, s := range all {
		for _, c := range s.m.Channels {
			n += len(c.Sampled)
		}
	}
	return n
}

// answerWatch answers a client that watches, and makes the nodes go on sending Samples.
func (c *core) answerWatch(r WatchRequest) (*WatchAnswer, error) {
	if len(r.Pairs) > MaxWatchedPairs {
		return nil, fmt.Errorf("watch: %d pairs, more than %d", len(r.Pairs), MaxWatchedPairs)
	}
	w, now := &c.watch, c.now()
	if !c.isWatched() {
		for _, n := range c.nodes { // left over from an earlier watch
			n.newestSamples = nil
		}
	}
	w.until = now.Add(watchLasts)
	a := &WatchAnswer{
		Seq: w.seq, Order: w.order + 1, Samples: []WatchedSample{}, Nodes: []WatchedNode{},
		ThirdNodes: c.config.ThirdNodes,
	}
	if now.Sub(w.ordered) >= watchEvery {
		w.ordered = now
		w.order++
		c.orderSamples()
	}
	if c.run != nil {
		a.Run, a.Phase, a.Reference = c.run.name(), c.run.phase, c.run.draft.Run().Reference
	}
	for _, n := range c.nodesByName() {
		if !n.isAlive() {
			continue
		}
		about := n.registered
		a.Nodes = append(a.Nodes, WatchedNode{
			Name: about.Name, Epoch: about.Epoch, Agent: n.can(control.CanFiles),
			CanWatch: n.can(control.CanWatch), Virtual: about.Virtual, Software: about.Software,
			Frequency: about.Frequency, Nominal_hz: about.Nominal_hz,
			Quantum_cycles:   about.Quantum_cycles,
			CoreSlack_cycles: about.CoreSlack_cycles,
		})
		for _, s := range n.newestSamples {
			if s.seq > r.After {
				a.Samples = append(a.Samples, WatchedSample{
					Node: about.Name, Sample: *s.m, Events: control.EncodeSampled(s.m.Channels),
				})
			}
		}
	}
	for _, names := range r.Pairs {
		if encoded := c.watchedPair(names); encoded != nil {
			a.Pairs = append(a.Pairs, encoded)
		}
	}
	return a, nil
}

// orderSamples tells all nodes that can send Samples to go on sending them for the time watchLasts.
func (c *core) orderSamples() {
	var can []*node
	for _, n := range c.nodesByName() {
		if n.isAlive() && n.can(control.CanWatch) {
			can = append(can, n)
		}
	}
	for _, n := range can {
		c.send(n.peer, 0, &control.Watch{
			Order: c.watch.order, For_ns: int64(watchLasts),
			Events: max(watchEvents/len(can), leastWatchEvents),
		})
	}
}

// watchedPair returns the newest trains of two nodes. If the nodes have not been measured in their
// present epochs, it returns nil.
func (c *core) watchedPair(names [2]string) []byte {
	if names[0] > names[1] {
		names[0], names[1] = names[1], names[0]
	}
	key, ok := c.current[names]
	a, b := c.nodes[names[0]], c.nodes[names[1]]
	if p := c.pairs[key]; ok && p != nil && a.isAlive() && b.isAlive() &&
		a.registered.Epoch == key.epochA && b.registered.Epoch == key.epochB {
		long := watchedTrains_s * b.registered.Nominal_hz
		if _, newest := p.liveTrains.Split(p.readB - min(p.readB,
			long)); newest.Trains() >= leastTrains {
			return newest.Encode()
		}
		return p.liveTrains.Encode()
	}
	return nil
}

// leastTrains is how many trains of the last watchedTrains_s seconds are enough for an answer. If a
// pair has fewer such trains, the answer has all trains of the pair.
const leastTrains = 8
