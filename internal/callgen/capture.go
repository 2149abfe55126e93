package callgen

import (
	"cmp"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// Capture writes a run in which these calls were captured. The run has several nodes. Callers from
// outside were not captured. All moments of the calls must be known, except those of such callers.
// The request of call i has i+1 bytes.
func Capture(rng *rand.Rand, parent, name string, set *calls.Set, nodes int,
	more ...simrun.Channel) error {
	c := &capturer{set: set, node: func(place int32) int { return int(place) % nodes },
		free: map[[2]int32][]*connection{}, records: make([][]record, nodes)}
	for i, p := range set.Places {
		at := c.node(int32(i))
		c.describe(at, blackbox.Thread{Number: thread(int32(i)), Process: thread(int32(i)),
			Program: p.Program, Name: p.Program})
	}
	for i := range set.Calls {
		c.call(int32(i))
	}
	var channels []simrun.Channel
	for node, all := range c.records {
		slices.SortStableFunc(all, func(a, b record) int { return cmp.Compare(a.at, b.at) })
		ch := simrun.Channel{Node: node, Name: blackbox.Channel}
		for _, r := range all {
			for _, e := range r.events {
				ch.Records = append(ch.Records, simrun.Record{Time: r.at, ID: e.ID})
			}
		}
		channels = append(channels, ch)
	}
	if c.err != nil {
		return c.err
	}
	return simrun.Write(rng, parent, name, simrun.Nodes(rng, nodes), append(channels, more...))
}

type capturer struct {
	set     *calls.Set
	node    func(place int32) int
	free    map[[2]int32][]*connection // by caller and callee
	number  uint32                     // of sockets so far
	records [][]record                 // by node
	err     error
}

type record struct {
	at     uint64 // in cycles of the true clock
	events []blackbox.Event
}

// A connection carries one call at a time.
type connection struct {
	client, server uint32 // numbers of the sockets; 0: not captured
	first          uint64 // number with which the stream of requests began
	until_ns       int64
	asked, replied uint64 // bytes
}

func thread(place int32) uint32 { return uint32(place) + 100 }

// Tuples returns channels of the given places. The programs there log the number of each request
// from outside, plus 1. They log this number twice: when they receive the request, and before they
// send the response. The nodes are as in Capture.
func Tuples(set *calls.Set, nodes int, places ...int32) (all []simrun.Channel) {
	const after_ns = 2000
	c := &capturer{set: set}
	for _, place := range places {
		ch := simrun.Channel{Node: int(place) % nodes, Process: int(thread(place)),
			Name: set.Places[place].Program + "/tuple"}
		for i := range set.Calls {
			if k := &set.Calls[i]; k.Callee == place {
				id := uint64(set.Path[i]) + 1
				ch.Records = append(ch.Records,
					simrun.Record{Time: c.time(k.Received_ns + after_ns), ID: id},
					simrun.Record{Time: c.time(k.Replied_ns - after_ns), ID: id})
			}
		}
		simrun.InOrder(ch.Records)
		all = append(all, ch)
	}
	return all
}

// time converts the moment of a call to the true clock of the run.
func (c *capturer) time(ns int64) uint64 {
	first := c.set.Calls[0].Began_ns()
	return 2*simrun.Hz + uint64(float64(ns-first)*simrun.Hz/1e9)
}

// describe adds the description of a thread or of a connection to a node's records. Its stamp is so
// early that it holds for the whole log.
func (c *capturer) describe(node int, what interface {
	Events(at_cycles uint64) ([]blackbox.Event, error)
}) {
	events, err := what.Events(1)
	c.err = cmp.Or(c.err, err)
	c.records[node] = append(c.records[node], record{simrun.Hz, events})
}

// connect makes a connection between the places of a call.
func (c *capturer) connect(k *calls.Call) *connection {
	c.number += 2
	n := &connection{first: uint64(c.number)}
	local := func(place int32, port uint16) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(place + 2)}), port)
	}
	own, other := local(k.Caller, uint16(40000+c.number/2)), local(k.Callee, 80)
	if k.Caller >= 0 {
		n.client = c.number
		c.describe(c.node(k.Caller), blackbox.Connection{Number: n.client, Family: blackbox.IPv4,
			Protocol: blackbox.TCP, Cookie: uint64(n.client), Local: own, Remote: other,
			Sends: c.number, Receives: c.number + 1})
	}
	n.server = c.number + 1
	c.describe(c.node(k.Callee), blackbox.Connection{Number: n.server, Family: blackbox.IPv4,
		Protocol: blackbox.TCP, Cookie: uint64(n.server), Local: other, Remote: own,
		Sends: c.number + 1, Receives: c.number})
	return n
}

// call adds the messages of a call.
func (c *capturer) call(i int32) {
	k := &c.set.Calls[i]
	ways := [2]int32{k.Caller, k.Callee}
	at := slices.IndexFunc(c.free[ways], func(n *connection) bool {
		return n.until_ns < k.Began_ns()
	})
	if at < 0 {
		at = len(c.free[ways])
		c.free[ways] = append(c.free[ways], c.connect(k))
	}
	n := c.free[ways][at]
	n.until_ns = max(k.Replied_ns, k.Got_ns)
	add := func(kind blackbox.Kind, place int32, socket uint32, ns int64, position uint64,
		bytes int) {
		if socket == 0 {
			return
		}
		m := blackbox.Message{Kind: kind, Began_cycles: 1, Ended_cycles: 1, Connection: socket,
			Thread: thread(place), Position: position, Bytes: uint32(bytes), Stream: true,
			Sure: true}
		if kind == blackbox.Sent {
			m.Early, m.Width_cycles = true, blackbox.MinWidth_cycles
		}
		events, err := m.Events()
		c.err = cmp.Or(c.err, err)
		c.records[c.node(place)] = append(c.records[c.node(place)], record{c.time(ns), events[:]})
	}
	const answer_bytes = 10
	asked, replied := n.first+1+n.asked, n.first+2+n.replied
	bytes := int(i) + 1
	add(blackbox.Sent, k.Caller, n.client, k.Sent_ns, asked, bytes)
	add(blackbox.Received, k.Callee, n.server, k.Received_ns, asked, bytes)
	add(blackbox.Sent, k.Callee, n.server, k.Replied_ns, replied, answer_bytes)
	add(blackbox.Received, k.Caller, n.client, k.Got_ns, replied, answer_bytes)
	n.asked += uint64(bytes)
	n.replied += answer_bytes
}
