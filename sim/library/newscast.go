package library

import (
	"encoding/binary"
	"errors"

	"github.com/cloudprofiler/cloudprofiler/sim"
)

// newscast keeps a view of random nodes with timestamps. In each cycle a node and a member of its
// view merge their views, and keep the youngest entries. Without a transport, a node reads and
// changes the other node's view directly, as PeerSim's SimpleNewscast does. With a transport, the
// two exchange messages.
type newscast struct {
	w      *sim.World
	cache  int
	tr     sim.Transport // nil: a node changes the other's view directly
	own    uint8
	shards []*views
}

// views are the views of a shard's nodes, each from the youngest entry to the oldest.
type views struct {
	count  []uint32
	nodes  []sim.Node
	stamps []sim.Time
}

// view is the view of one node, in views or in a message.
type view struct {
	nodes  []sim.Node
	stamps []sim.Time
}

// These are the kinds of newscast's messages.
const (
	newsAsk    = 1
	newsAnswer = 2
)

func newNewscast(b *Builder, key string) any {
	p := &newscast{w: b.W, cache: int(b.File.MustInt(key+".cache", 1, 1<<12)), own: b.Own(key)}
	if b.File.Has(key + ".transport") {
		p.tr = b.Transport(key + ".transport")
	}
	return p
}

func (p *newscast) Direct() bool      { return p.tr == nil }
func (p *newscast) Parts() []sim.Part { return []sim.Part{p} }

func (p *newscast) Allocate(shard int) {
	for len(p.shards) <= shard {
		p.shards = append(p.shards, nil)
	}
	n := sim.ShardNodes * p.cache
	p.shards[shard] = &views{make([]uint32, sim.ShardNodes), make([]sim.Node, n),
		make([]sim.Time, n)}
}

func (p *newscast) Free(shard int) { p.shards[shard] = nil }

// of returns the view of a node, and its capacity.
func (p *newscast) of(n sim.Node) view {
	v, i := p.shards[n/sim.ShardNodes], int(n%sim.ShardNodes)
	from, to := i*p.cache, i*p.cache+int(v.count[i])
	return view{v.nodes[from : to : (i+1)*p.cache], v.stamps[from : to : (i+1)*p.cache]}
}

// set replaces the view of a node.
func (p *newscast) set(n sim.Node, v view) {
	all, i := p.shards[n/sim.ShardNodes], int(n%sim.ShardNodes)
	all.count[i] = uint32(copy(all.nodes[i*p.cache:(i+1)*p.cache], v.nodes))
	copy(all.stamps[i*p.cache:(i+1)*p.cache], v.stamps)
}

func (p *newscast) Neighbours(n sim.Node) []sim.Node { return p.of(n).nodes }

func (p *newscast) Link(n, neighbour sim.Node) bool {
	v := p.of(n)
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
		v = view{append([]sim.Node{neighbour}, v.nodes...), append([]sim.Time{now}, v.stamps...)}
	} else {
		v.nodes, v.stamps = append(v.nodes, neighbour), append(v.stamps, now)
	}
	p.set(n, v)
	return true
}

// peer returns a random entry of a view. If that node is dead, peer returns a living node near that
// entry in the view.
func (p *newscast) peer(c *sim.Context) (sim.Node, bool) {
	v := p.of(c.Node())
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

// merge returns the youngest entries of two views, and room for one more at the beginning. Each
// node occurs once. Two given nodes are left out.
func (p *newscast) merge(c *sim.Context, a, b view, without, other sim.Node) view {
	v := view{make([]sim.Node, 1, p.cache), make([]sim.Time, 1, p.cache)}
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

func (p *newscast) has(nodes []sim.Node, n sim.Node) bool {
	for _, have := range nodes {
		if have == n {
			return true
		}
	}
	return false
}

// put replaces the view of a node by a merged view, and adds a fresh entry.
func (p *newscast) put(n sim.Node, merged view, fresh sim.Node, now sim.Time) {
	merged.nodes[0], merged.stamps[0] = fresh, now
	p.set(n, merged)
}

func (p *newscast) copy(n sim.Node) view {
	v := p.of(n)
	return view{append([]sim.Node(nil), v.nodes...), append([]sim.Time(nil), v.stamps...)}
}

func (p *newscast) NextCycle(c *sim.Context) {
	peer, ok := p.peer(c)
	if !ok {
		return
	}
	if p.tr != nil {
		c.SendValue(p.tr, peer, p.own, newsAsk, p.copy(c.Node()))
		return
	}
	merged := p.merge(c, p.of(c.Node()), p.of(peer), c.Node(), peer)
	p.put(c.Node(), merged, peer, c.Now())
	p.put(peer, merged, c.Node(), c.Now())
}

func (p *newscast) Receive(c *sim.Context, e *sim.Event) {
	kind := e.Plain()
	theirs, ok := c.Take(e).(view)
	if !ok || p.tr == nil {
		c.Fail("newscast got an event that is not a view")
		return
	}
	if kind == newsAsk {
		c.SendValue(p.tr, e.From, p.own, newsAnswer, p.copy(e.To))
	}
	p.put(e.To, p.merge(c, p.of(e.To), theirs, e.To, e.From), e.From, c.Now())
}

func (p *newscast) appendView(to []byte, v view) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(len(v.nodes)))
	for i, n := range v.nodes {
		to = binary.LittleEndian.AppendUint32(to, uint32(n))
		to = binary.LittleEndian.AppendUint64(to, uint64(v.stamps[i]))
	}
	return to
}

var errView = errors.New("decode newscast: the view is damaged")

func (p *newscast) readView(from []byte) (v view, rest []byte, err error) {
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

func (p *newscast) Encode(shard int, to []byte) []byte {
	for i := range sim.ShardNodes {
		to = p.appendView(to, p.of(sim.Node(shard*sim.ShardNodes+i)))
	}
	return to
}

func (p *newscast) Decode(shard int, from []byte) ([]byte, error) {
	for i := range sim.ShardNodes {
		v, rest, err := p.readView(from)
		if err != nil {
			return nil, err
		}
		p.set(sim.Node(shard*sim.ShardNodes+i), v)
		from = rest
	}
	return from, nil
}

func (p *newscast) EncodeValue(to []byte, v any) ([]byte, error) {
	return p.appendView(to, v.(view)), nil
}

func (p *newscast) DecodeValue(from []byte) (any, error) {
	v, rest, err := p.readView(from)
	if err == nil && len(rest) > 0 {
		err = errView
	}
	return v, err
}
