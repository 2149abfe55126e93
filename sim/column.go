package sim

import (
	"encoding/binary"
	"errors"
	"math"
)

// ShardNodes is the number of nodes in a shard. It is so small that the state and the events of a
// shard fit into a core's cache.
const (
	ShardNodes = 1 << shardBits
	shardBits  = 12
)

func shardOf(n Node) int { return int(n >> shardBits) }
func inShard(n Node) int { return int(n & (ShardNodes - 1)) }

// A Part is one part of a protocol's state. It is cut into pieces, one for each shard. Only the
// worker of a shard uses the shard's piece.
type Part interface {
	Allocate(shard int)
	Free(shard int)
	Encode(shard int, to []byte) []byte
	// Decode reads what Encode wrote, and returns the bytes that follow.
	Decode(shard int, from []byte) ([]byte, error)
}

// errShort is returned for a piece of a checkpoint that ends too early.
var errShort = errors.New("the piece ends too early")

// Value is a type that the elements of a column can have.
type Value interface {
	float64 | uint64 | uint32 | uint8
}

// A Column has one value for each node.
type Column[T Value] struct{ shards [][]T }

// At returns the value of a node. The shard of the node must be in this process.
func (c *Column[T]) At(n Node) *T { return &c.shards[shardOf(n)][inShard(n)] }

// Shard returns the values of a shard's nodes.
func (c *Column[T]) Shard(shard int) []T { return c.shards[shard] }

func (c *Column[T]) Allocate(shard int) {
	for len(c.shards) <= shard {
		c.shards = append(c.shards, nil)
	}
	c.shards[shard] = make([]T, ShardNodes)
}

func (c *Column[T]) Free(shard int) { c.shards[shard] = nil }

func (c *Column[T]) Encode(shard int, to []byte) []byte {
	for _, v := range c.shards[shard] {
		switch v := any(v).(type) {
		case float64:
			to = binary.LittleEndian.AppendUint64(to, math.Float64bits(v))
		case uint64:
			to = binary.LittleEndian.AppendUint64(to, v)
		case uint32:
			to = binary.LittleEndian.AppendUint32(to, v)
		case uint8:
			to = append(to, v)
		}
	}
	return to
}

func (c *Column[T]) Decode(shard int, from []byte) ([]byte, error) {
	values := c.shards[shard]
	var size int
	switch any(values[0]).(type) {
	case float64, uint64:
		size = 8
	case uint32:
		size = 4
	case uint8:
		size = 1
	}
	if len(from) < size*len(values) {
		return nil, errShort
	}
	for i := range values {
		b := from[i*size:]
		switch p := any(&values[i]).(type) {
		case *float64:
			*p = math.Float64frombits(binary.LittleEndian.Uint64(b))
		case *uint64:
			*p = binary.LittleEndian.Uint64(b)
		case *uint32:
			*p = binary.LittleEndian.Uint32(b)
		case *uint8:
			*p = b[0]
		}
	}
	return from[size*len(values):], nil
}

// nodeTurns has the engine's own state of each node. The protocols have states of their own.
type nodeTurns struct{ shards [][]turn }

type turn struct {
	drawn  uint64 // how many values were drawn from the node's stream
	number uint32 // number of the last event that the node posted
}

func (c *nodeTurns) at(n Node) *turn { return &c.shards[shardOf(n)][inShard(n)] }

func (c *nodeTurns) Allocate(shard int) {
	for len(c.shards) <= shard {
		c.shards = append(c.shards, nil)
	}
	c.shards[shard] = make([]turn, ShardNodes)
}

func (c *nodeTurns) Free(shard int) { c.shards[shard] = nil }

func (c *nodeTurns) Encode(shard int, to []byte) []byte {
	for _, t := range c.shards[shard] {
		to = binary.LittleEndian.AppendUint64(to, t.drawn)
		to = binary.LittleEndian.AppendUint32(to, t.number)
	}
	return to
}

func (c *nodeTurns) Decode(shard int, from []byte) ([]byte, error) {
	if len(from) < 12*ShardNodes {
		return nil, errShort
	}
	for i := range c.shards[shard] {
		c.shards[shard][i] = turn{binary.LittleEndian.Uint64(from),
			binary.LittleEndian.Uint32(from[8:])}
		from = from[12:]
	}
	return from, nil
}

// Links are the neighbours of each node, in the order in which they were added. A node needs 12
// bytes, and 4 for each neighbour.
type Links struct {
	// Capacity is the number of neighbours for which a node has room at first.
	Capacity int
	shards   []*linkShard
}

type linkShard struct {
	rows [ShardNodes]linkRow
	all  []Node
}

// linkRow says where the neighbours of a node lie in linkShard.all: the first place, how many
// neighbours there are, and for how many there is room.
type linkRow struct{ start, count, room uint32 }

func (l *Links) Allocate(shard int) {
	for len(l.shards) <= shard {
		l.shards = append(l.shards, nil)
	}
	l.shards[shard] = &linkShard{}
}

// Reserve makes room for a number of neighbours of each node of a shard. The shard must have no
// neighbours yet.
func (l *Links) Reserve(shard, each, nodes int) {
	s := l.shards[shard]
	if len(s.all) > 0 || each == 0 {
		return
	}
	s.all = make([]Node, each*nodes)
	for i := range nodes {
		s.rows[i] = linkRow{start: uint32(i * each), room: uint32(each)}
	}
}

func (l *Links) Free(shard int) { l.shards[shard] = nil }

// Of returns the neighbours of a node. The caller must not keep the slice.
func (l *Links) Of(n Node) []Node {
	s := l.shards[shardOf(n)]
	r := &s.rows[inShard(n)]
	return s.all[r.start : r.start+r.count]
}

// Add adds a neighbour, unless the node has it already. It reports whether it added one.
func (l *Links) Add(n, neighbour Node) bool {
	for _, have := range l.Of(n) {
		if have == neighbour {
			return false
		}
	}
	s := l.shards[shardOf(n)]
	r := &s.rows[inShard(n)]
	if r.count == r.room {
		room := max(r.room*2, uint32(max(l.Capacity, 4)))
		start := uint32(len(s.all))
		s.all = append(s.all, make([]Node, room)...)
		copy(s.all[start:], s.all[r.start:r.start+r.count])
		r.start, r.room = start, room
	}
	s.all[r.start+r.count] = neighbour
	r.count++
	return true
}

// Set replaces the neighbours of a node.
func (l *Links) Set(n Node, neighbours []Node) {
	l.shards[shardOf(n)].rows[inShard(n)].count = 0
	for _, to := range neighbours {
		l.Add(n, to)
	}
}

func (l *Links) Encode(shard int, to []byte) []byte {
	for i := range ShardNodes {
		links := l.Of(Node(shard<<shardBits + i))
		to = binary.LittleEndian.AppendUint32(to, uint32(len(links)))
		for _, n := range links {
			to = binary.LittleEndian.AppendUint32(to, uint32(n))
		}
	}
	return to
}

func (l *Links) Decode(shard int, from []byte) ([]byte, error) {
	for i := range ShardNodes {
		if len(from) < 4 {
			return nil, errShort
		}
		n := int(binary.LittleEndian.Uint32(from))
		from = from[4:]
		if n > len(from)/4 {
			return nil, errShort
		}
		s := l.shards[shard]
		s.rows[i] = linkRow{uint32(len(s.all)), uint32(n), uint32(n)}
		for j := range n {
			s.all = append(s.all, Node(binary.LittleEndian.Uint32(from[4*j:])))
		}
		from = from[4*n:]
	}
	return from, nil
}
