package library

import (
	"encoding/binary"
	"errors"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// newscastProtocol keeps a view of random nodes with timestamps. In each cycle a node and a member
// of its view merge their views, and keep the youngest entries. Without a transport, a node reads
// and changes the other node's view directly, as PeerSim's SimpleNewscast does. With a transport,
// the two exchange messages.
type newscastProtocol struct {
	w      *sim.World
	cache  int
	tr     sim.Transport // nil: a node changes the other's view directly
	own    uint8
	shards []*shardViews
}

// shardViews are the views of a shard's nodes, each from the youngest entry to the oldest.
type shardViews struct {
	count  []uint32
	nodes  []sim.Node
	stamps []sim.Time
}

// nodeView is the view of one node, in views or in a message.
type nodeView struct {
	nodes  []sim.Node
	stamps []sim.Time
}

// These are the kinds of newscast's messages.
const (
	newsAsk    = 1
	newsAnswer = 2
)

func newNewscast(b *Builder, key string) any {
	p := &newscastProtocol{w: b.W, cache: int(b.File.MustInt(key+".cache", 1, 1<<12)),
		own: b.Own(key)}
	if b.File.Has(key + ".transport") {
		p.tr = b.Transport(key + ".transport")
	}
	return p
}

func (p *newscastProtocol) Direct() bool      { return p.tr == nil }
func (p *newscastProtocol) Parts() []sim.Part { return []sim.Part{p} }

func (p *newscastProtocol) Allocate(shard int) {
	for len(p.shards) <= shard {
		p.shards = append(p.shards, nil)
	}
	n := sim.ShardNodes * p.cache
	p.shards[shard] = &shardViews{make([]uint32, sim.ShardNodes), make([]sim.Node, n),
		make([]sim.Time, n)}
}

func (p *newscastProtocol) Free(shard int) { p.shards[shard] = nil }

// viewOf returns the view of a node, and its capacity.
func (p *newscastProtocol) viewOf(n sim.Node) nodeView {
	v, i := p.shards[n/sim.ShardNodes], int(n%sim.ShardNodes)
	from, to := i*p.cache, i*p.cache+int(v.count[i])
	return nodeView{v.nodes[from : to : (i+1)*p.cache], v.stamps[from : to : (i+1)*p.cache]}
}

// setView replaces the view of a node.
func (p *newscastProtocol) setView(n sim.Node, v nodeView) {
	all, i := p.shards[n/sim.ShardNodes], int(n%sim.ShardNodes)
	all.count[i] = uint32(copy(all.nodes[i*p.cache:(i+1)*p.cache], v.nodes))
	copy(all.stamps[i*p.cache:(i+1)*p.cache], v.stamps)
}

func (p *newscastProtocol) Neighbours(n sim.Node) []sim.Node { return p.viewOf(n).nodes }

func (p *newscastProtocol) Link(n, neighbour sim.Node) bool {
	v := p.viewOf(n)
	for _, have := range v.nodes {
		if have == neighbour {
			return false
		}
	}
	if len(v.nodes) == p.cache {
		return false
	}
	now := p.w.Now()
	if k := len(v.nodes); k > 0 && v.stamps[k-1] < now { // the youngest entry must come first
		v = nodeView{append([]sim.Node{neighbour}, v.nodes...),
			append([]sim.Time{now}, v.stamps...)}
	} else {
		v.nodes, v.stamps = append(v.nodes, neighbour), append(v.stamps, now)
	}
	p.setView(n, v)
	return true
}

// randomEntry returns a random entry of a view. If that node is dead, randomEntry returns a living
// node near that entry in the view.
func (p *newscastProtocol) randomEntry(c *sim.Context) (sim.Node, bool) {
	v := p.viewOf(c.Node())
	if len(v.nodes) == 0 {
		return 0, false
	}
	first := c.Random().Int(len(v.nodes))
	for i := first; i < len(v.nodes); i++ { // the older entries come first
		if c.Up(v.nodes[i]) {
			return v.nodes[i], true
		}
	}
	for i := first - 1; i >= 0; i-- {
		if c.Up(v.nodes[i]) {
			return v.nodes[i], true
		}
	}
	return 0, false
}

// mergeViews returns the youngest entries of two views, and room for one more at the beginning.
// Each node occurs once. Two given nodes are left out.
func (p *newscastProtocol) mergeViews(c *sim.Context, a, b nodeView, without,
	other sim.Node) nodeView {
	v := nodeView{make([]sim.Node, 1, p.cache), make([]sim.Time, 1, p.cache)}
	mine := c.Random().Uint64()&1 == 0 // entries of equal age are taken in turn
	i, j := 0, 0
	for len(v.nodes) < p.cache && (i < len(a.nodes) || j < len(b.nodes)) {
		var n sim.Node
		var at sim.Time
		switch {
		case j == len(b.nodes) || i < len(a.nodes) && a.stamps[i] > b.stamps[j]:
			n, at, i = a.nodes[i], a.stamps[i], i+1
		case i == len(a.nodes) || b.stamps[j] > a.stamps[i]:
			n, at, j = b.nodes[j], b.stamps[j], j+1
		case mine:
			n, at, i, mine = a.nodes[i], a.stamps[i], i+1, false
		default:
			n, at, j, mine = b.nodes[j], b.stamps[j], j+1, true
		}
		if n != without && n != other && !p.has(v.nodes[1:], n) {
			v.nodes, v.stamps = append(v.nodes, n), append(v.stamps, at)
		}
	}
	return v
}

func (p *newscastProtocol) has(nodes []sim.Node, n sim.Node) bool {
	for _, have := range nodes {
		if have == n {
			return true
		}
	}
	return false
}

// putMerged replaces the view of a node by a merged view, and adds a fresh entry.
func (p *newscastProtocol) putMerged(n sim.Node, merged nodeView, fresh sim.Node, now sim.Time) {
	merged.nodes[0], merged.stamps[0] = fresh, now
	p.setView(n, merged)
}

func (p *newscastProtocol) copy(n sim.Node) nodeView {
	v := p.viewOf(n)
	return nodeView{append([]sim.Node(nil), v.nodes...), append([]sim.Time(nil), v.stamps...)}
}

func (p *newscastProtocol) NextCycle(c *sim.Context) {
	peer, ok := p.randomEntry(c)
	if !ok {
		return
	}
	if p.tr != nil {
		c.SendValue(p.tr, peer, p.own, newsAsk, p.copy(c.Node()))
		return
	}
	merged := p.mergeViews(c, p.viewOf(c.Node()), p.viewOf(peer), c.Node(), peer)
	p.putMerged(c.Node(), merged, peer, c.Now())
	p.putMerged(peer, merged, c.Node(), c.Now())
}

func (p *newscastProtocol) Receive(c *sim.Context, e *sim.Event) {
	kind := e.Plain()
	theirs, ok := c.Take(e).(nodeView)
	if !ok || p.tr == nil {
		c.Fail("newscast got an event that is not a view")
		return
	}
	if kind == newsAsk {
		c.SendValue(p.tr, e.From, p.own, newsAnswer, p.copy(e.To))
	}
	p.putMerged(e.To, p.mergeViews(c, p.viewOf(e.To), theirs, e.To, e.From), e.From, c.Now())
}

func (p *newscastProtocol) appendView(to []byte, v nodeView) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(len(v.nodes)))
	for i, n := range v.nodes {
		to = binary.LittleEndian.AppendUint32(to, uint32(n))
		to = binary.LittleEndian.AppendUint64(to, uint64(v.stamps[i]))
	}
	return to
}

var errView = errors.New("decode newscast: the view is damaged")

func (p *newscastProtocol) readView(from []byte) (v nodeView, rest []byte, err error) {
	if len(from) < 4 {
		return v, nil, errView
	}
	n := int(binary.LittleEndian.Uint32(from))
	from = from[4:]
	if n > p.cache || 12*n > len(from) {
		return v, nil, errView
	}
	for i := range n {
		m := sim.Node(binary.LittleEndian.Uint32(from[12*i:]))
		if int(m) >= p.w.Joined() {
			return v, nil, errView
		}
		v.nodes = append(v.nodes, m)
		v.stamps = append(v.stamps, sim.Time(binary.LittleEndian.Uint64(from[12*i+4:])))
	}
	return v, from[12*n:], nil
}

func (p *newscastProtocol) Encode(shard int, to []byte) []byte {
	for i := range sim.ShardNodes {
		to = p.appendView(to, p.viewOf(sim.Node(shard*sim.ShardNodes+i)))
	}
	return to
}

func (p *newscastProtocol) Decode(shard int, from []byte) ([]byte, error) {
	for i := range sim.ShardNodes {
		v, rest, err := p.readView(from)
		if err != nil {
			return nil, err
		}
		p.setView(sim.Node(shard*sim.ShardNodes+i), v)
		from = rest
	}
	return from, nil
}

func (p *newscastProtocol) EncodeValue(to []byte, v any) ([]byte, error) {
	return p.appendView(to, v.(nodeView)), nil
}

func (p *newscastProtocol) DecodeValue(from []byte) (any, error) {
	v, rest, err := p.readView(from)
	if err == nil && len(rest) > 0 {
		err = errView
	}
	return v, err
}
