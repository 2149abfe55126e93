package returntrip

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// The points of the four channels, behind the actor's name.
const (
	PointSent         = "ret-sent"         // at the start: the tuple leaves
	PointArrived      = "ret-arrived"      // at the end: it is there
	PointAcknowledged = "ret-acknowledged" // at the start: the end says so
	PointEchoed       = "ret-echoed"       // at the end: the start has heard it
)

// Options are of a start or an end. Both ends must have the same Stream.
type Options struct {
	// Stream tells this measurement's packets from others'. Any number will do, a random one is
	// best.
	Stream uint64

	// Channels is how the channels are opened.
	Channels handlers.Options
}

// Counts say what became of packets.
type Counts struct {
	Sent     uint64 // acknowledgements or echoes handed to the network
	Unsent   uint64 // that the network did not take
	Received uint64 // echoes or acknowledgements, each logged
	Foreign  uint64 // packets that were not of this stream, version and kind, and were not taken
}

// counters is Counts while they grow.
type counters struct {
	sent, unsent, received, foreign atomic.Uint64

	// holds one if a packet was received since somebody looked; nil: nobody looks
	news chan struct{}
}

func (c *counters) read() Counts {
	return Counts{Sent: c.sent.Load(), Unsent: c.unsent.Load(), Received: c.received.Load(),
		Foreign: c.foreign.Load()}
}

// post sends a packet and counts it. A program goes on where the network does not.
func (c *counters) post(conn net.PacketConn, b []byte, to net.Addr) {
	if _, err := conn.WriteTo(b, to); err != nil {
		c.unsent.Add(1)
		return
	}
	c.sent.Add(1)
}

// receive takes packets until the connection is closed, and returns why it ended otherwise.
func (c *counters) receive(conn net.PacketConn, k kind, stream uint64,
	take func(id uint64, from net.Addr)) error {
	var b [packetSize + 1]byte // a longer packet is cut to this
	for {
		n, from, err := conn.ReadFrom(b[:])
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		id, err := parse(b[:n], k, stream)
		if err != nil {
			c.foreign.Add(1)
			continue
		}
		take(id, from)
		c.received.Add(1)
		select {
		case c.news <- struct{}{}:
		default:
		}
	}
}

// openTwo opens two channels of an actor, or none.
func openTwo(actor, point1, point2 string, o handlers.Options) (*handlers.Channel,
	*handlers.Channel, error) {
	one, err := handlers.Open(actor+"/"+point1, o)
	if err != nil {
		return nil, nil, err
	}
	two, err := handlers.Open(actor+"/"+point2, o)
	if err != nil {
		return nil, nil, errors.Join(err, one.Close())
	}
	return one, two, nil
}
