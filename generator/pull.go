package generator

import (
	"fmt"
	"time"

	"github.com/pebbe/zmq4"
)

// A Bucket contains a few tuples that arrived together. The next call of Receive overwrites its
// memory, so its content is valid only until then.
type Bucket struct {
	Tuples    []Tuple
	Ends      []End
	Malformed []error // an error for each message that was dropped

	bytes []byte
	sizes []uint32
}

// A Source receives the tuples of one connection. One goroutine uses it.
type Source interface {
	// Receive fills a bucket with at most max messages. If nothing arrives, it returns soon with an
	// empty bucket.
	Receive(b *Bucket, max int) error
	// Close releases the resources of the source.
	Close() error
}

// PullOptions say how a Pull receives.
type PullOptions struct {
	// HighWater is the number of messages that may wait here. 0 means 1,000.
	HighWater int
	// Peer is called, from another goroutine, when a connection breaks (gone is true) and when a
	// connection is made (gone is false). It may be nil.
	Peer func(gone bool)
}

// Pull is a Source over ZeroMQ: a PULL socket that listens, with an I/O thread of its own.
type Pull struct {
	socket   *socket
	puller   puller
	endpoint string
	closed   bool
}

// bucketBytes is the size of a bucket's memory. It fits into a core's cache. If a message is
// longer, the memory grows.
const bucketBytes = 256 << 10

// receiveWait is how long Receive waits for the first message.
const receiveWait = 50 * time.Millisecond

// NewPull listens at an endpoint such as tcp://*:5555 or tcp://127.0.0.1:*.
func NewPull(endpoint string, o PullOptions) (*Pull, error) {
	if o.HighWater == 0 {
		o.HighWater = 1000
	}
	if o.HighWater < 1 {
		return nil, fmt.Errorf("pull at %q: %w: HighWater %d: give 1 or more",
			endpoint, ErrOptions, o.HighWater)
	}
	p := &Pull{puller: newPuller()}
	var err error
	p.socket, err = newSocket(zmq4.PULL, func(gone bool) {
		if o.Peer != nil {
			o.Peer(gone)
		}
	})
	if err != nil {
		p.puller.free()
		return nil, fmt.Errorf("pull at %q: %w", endpoint, err)
	}
	for _, option := range []struct{ option, value int }{
		{receiveHighWater, o.HighWater},
		{receiveTimeout, milliseconds(receiveWait)},
		{lingerOption, 0},
	} {
		if err == nil {
			err = p.socket.set(option.option, option.value)
		}
	}
	if err == nil {
		err = p.socket.setMaxMessage(maxMessage)
	}
	if err == nil {
		p.endpoint, err = p.socket.bind(endpoint)
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("pull at %q: %w", endpoint, err)
	}
	return p, nil
}

// Endpoint returns the address to which senders connect, with the port that was chosen.
func (p *Pull) Endpoint() string { return p.endpoint }

// Receive waits a little for the first message, then takes the messages that have arrived already.
func (p *Pull) Receive(b *Bucket, max int) error {
	b.Tuples, b.Ends, b.Malformed = b.Tuples[:0], b.Ends[:0], b.Malformed[:0]
	if b.bytes == nil {
		b.bytes = make([]byte, bucketBytes)
	}
	if len(b.sizes) < max {
		b.sizes = make([]uint32, max)
	}
	n, err := p.puller.receive(p.socket, b.bytes, b.sizes[:max])
	if err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	if n == 0 && p.puller.hasPending() {
		b.bytes = make([]byte, maxMessage)
		if n, err = p.puller.receive(p.socket, b.bytes, b.sizes[:max]); err != nil {
			return fmt.Errorf("pull: %w", err)
		}
	}
	rest := b.bytes
	for _, size := range b.sizes[:n] {
		var end *End
		if b.Tuples, end, err = parseMessage(rest[:size], b.Tuples); err != nil {
			b.Malformed = append(b.Malformed, err)
		} else if end != nil {
			b.Ends = append(b.Ends, *end)
		}
		rest = rest[size:]
	}
	return nil
}

// Close stops listening.
func (p *Pull) Close() error {
	if !p.closed {
		p.closed = true
		p.puller.free()
		p.socket.close()
	}
	return nil
}
