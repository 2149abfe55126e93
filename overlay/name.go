package overlay

import (
	"slices"
	"time"
)

// A Name names a node. A Transport needs nothing else to reach the node, and only the transport
// knows what a name means. A Name is not empty, and has at most MaxName bytes.
type Name string

func (n Name) valid() bool { return n != "" && len(n) <= MaxName }

// Time is a node's own time: the time since a moment that the node chose. It never runs backwards.
// Times of two nodes are never compared.
type Time = time.Duration

// neverTime is later than every deadline.
const neverTime Time = 1<<63 - 1

// A Transport sends messages to other nodes. It may lose, delay, double and reorder them. It must
// not call the node before Send returns, and nobody may change a message after Send. The transport
// vouches for senders: the name that is passed to Node.Receive is that of the node that really sent
// the message.
type Transport interface {
	Send(to Name, m Message)
}

// ring keeps the last values that were put into it.
type ring[T any] struct {
	values []T
	next   int
}

func (r *ring[T]) put(v T, limit int) {
	if len(r.values) < limit {
		r.values = append(r.values, v)
		return
	}
	r.values[r.next] = v
	r.next = (r.next + 1) % limit
}

func without[T any](all []T, drop func(T) bool) []T { return slices.DeleteFunc(all, drop) }
