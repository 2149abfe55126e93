package generator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pebbe/zmq4"
)

// PushOptions say how a Push sends.
type PushOptions struct {
	// Batch is the largest number of tuples in a message; 0 means 1. A message never has more
	// tuples than the sender hands over in one call, which SenderOptions.Batch limits.
	Batch int
	// HighWater is the number of messages that may wait at each end of the connection. While that
	// many wait, Send takes no tuples. 0 means 1,000.
	HighWater int
	// Patience is how long NewPush waits for a receiver to answer, and how long Close waits for
	// messages to leave. 0 means 5 s.
	Patience time.Duration
	// Peer is called, from another goroutine, when a connection breaks (gone is true) and when the
	// connection is back (gone is false). It may be nil.
	Peer func(gone bool)
}

// Push is a Sink over ZeroMQ: a PUSH socket with a connection and an I/O thread of its own.
type Push struct {
	o      PushOptions
	socket *socket

	scratch []byte
	sizes   []uint32
	counts  []int // tuples in each message
}

// NewPush connects to an endpoint such as tcp://192.0.2.7:5555, and waits until a receiver answers.
func NewPush(ctx context.Context, endpoint string, o PushOptions) (*Push, error) {
	o.Batch, o.HighWater = cmp.Or(o.Batch, 1), cmp.Or(o.HighWater, 1000)
	o.Patience = cmp.Or(o.Patience, 5*time.Second)
	if o.Batch < 1 || o.Batch > maxPerMessage || o.HighWater < 1 || o.Patience < 0 {
		return nil, fmt.Errorf("push to %q: %w: Batch %d, HighWater %d, Patience %s: "+
			"give a Batch of 1 to %d, a HighWater of 1 or more and no negative Patience",
			endpoint, ErrOptions, o.Batch, o.HighWater, o.Patience, maxPerMessage)
	}
	p := &Push{o: o}
	there, before := make(chan struct{}, 1), false
	var err error
	p.socket, err = newSocket(zmq4.PUSH, func(gone bool) {
		if !gone {
			select {
			case there <- struct{}{}:
			default:
			}
		}
		if o.Peer != nil && (gone || before) {
			o.Peer(gone)
		}
		before = true
	})
	if err != nil {
		return nil, fmt.Errorf("push to %q: %w", endpoint, err)
	}
	err = p.socket.set(sendHighWater, o.HighWater)
	if err == nil {
		err = p.socket.set(lingerOption, milliseconds(o.Patience))
	}
	if err == nil {
		err = p.socket.connect(endpoint)
	}
	if err == nil {
		select {
		case <-there:
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(o.Patience):
			err = fmt.Errorf("nobody answered in %s: start the receiver first", o.Patience)
		}
	}
	if err != nil {
		p.socket.close()
		return nil, fmt.Errorf("push to %q: %w", endpoint, err)
	}
	return p, nil
}

// Send sends tuples in as few messages as Batch allows. It does not take tuples beyond the
// high-water mark.
func (p *Push) Send(tuples []Tuple) (int, error) {
	if err := p.encode(tuples, p.o.Batch); err != nil {
		return 0, err
	}
	messages, err := p.socket.send(p.scratch, p.sizes)
	if err != nil {
		return 0, fmt.Errorf("push: %w", err)
	}
	taken := 0
	for _, n := range p.counts[:messages] {
		taken += n
	}
	return taken, nil
}

// encode writes tuples as messages into p.scratch, one after the other.
func (p *Push) encode(tuples []Tuple, batch int) error {
	p.scratch, p.sizes, p.counts = p.scratch[:0], p.sizes[:0], p.counts[:0]
	for left := tuples; len(left) > 0; {
		n := min(batch, len(left))
		begin := len(p.scratch)
		p.scratch = appendHeader(p.scratch, kindTuples, n)
		for i, t := range left[:n] {
			if len(t.Body) == 0 || len(t.Body) > MaxTuple {
				return fmt.Errorf("push tuple %d: %w: %d bytes, want 1 to %d",
					t.ID, ErrTuple, len(t.Body), MaxTuple)
			}
			if i > 0 && len(p.scratch)-begin+prefixBytes+len(t.Body) > maxMessage {
				n = i
				break
			}
			p.scratch = appendTuple(p.scratch, t)
		}
		p.scratch[begin+6], p.scratch[begin+7] = byte(n), byte(n>>8)
		p.sizes = append(p.sizes, uint32(len(p.scratch)-begin))
		p.counts = append(p.counts, n)
		left = left[n:]
	}
	return nil
}

// canPace reports whether sendAt may be used with a clock. The clock must be this machine's
// counter. Each message must have one tuple, because the tuples of a message are due at different
// times.
func (p *Push) canPace(c Clock) bool {
	_, real := c.(*counterClock)
	return real && p.o.Batch == 1
}

// sendAt sends each tuple at its time. It waits for that time in C, where Go's scheduler and
// garbage collector do not interfere.
func (p *Push) sendAt(
	tuples []Tuple, due []uint64, noted []pacingNote, lateAfter uint64, hz float64,
) (int, error) {
	if err := p.encode(tuples, 1); err != nil {
		return 0, err
	}
	n, err := p.socket.pace(p.scratch, p.sizes, lateAfter, hz, due, noted)
	if err != nil {
		return 0, fmt.Errorf("push: %w", err)
	}
	return n, nil
}

// WaitRoom waits until the connection has room for a message, but no longer than atMost.
func (p *Push) WaitRoom(atMost time.Duration) { p.socket.waitRoom(atMost) }

// Close sends e, the message that ends a thread's stream of tuples. It closes the connection once
// all messages have left, but at the latest after Patience.
func (p *Push) Close(e End) error {
	defer p.socket.close()
	message := appendEnd(nil, e)
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		n, err := p.socket.send(message, []uint32{uint32(len(message))})
		if err != nil {
			return fmt.Errorf("push the end: %w", err)
		}
		if n == 1 {
			return nil
		}
		if time.Since(begun) > p.o.Patience {
			return fmt.Errorf("push the end: the engine has taken nothing for %s, "+
				"and does not know of the end", p.o.Patience)
		}
	}
}
