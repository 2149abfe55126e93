package returntrip

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// These are the points of the four channels. In a channel's name, the point follows the actor's
// name.
const (
	PointSent         = "ret-sent"         // at the start: the tuple leaves
	PointArrived      = "ret-arrived"      // at the end: the tuple arrives
	PointAcknowledged = "ret-acknowledged" // at the start: the acknowledgement arrives
	PointEchoed       = "ret-echoed"       // at the end: the echo arrives
)

// Options configure a start or an end. Both ends must have the same Stream.
type Options struct {
	// Stream distinguishes this measurement's packets from others. Any number will do; a random one
	// is best.
	Stream uint64

	// Channels are the options with which the channels are opened.
	Channels handlers.Options
}

// Counts are the numbers of packets, by their fate.
type Counts struct {
	Sent     uint64 // acknowledgements or echoes handed to the network
	Unsent   uint64 // acknowledgements or echoes that the network did not accept
	Received uint64 // echoes or acknowledgements, each logged
	Foreign  uint64 // packets of another stream, version or kind, which were ignored
}

// counters are Counts that are still growing.
type counters struct {
	sent, unsent, received, foreign atomic.Uint64

	// news contains an element if a packet was received since the last read from news. It is nil if
	// nothing reads from it.
	news chan struct{}
}

func (c *counters) read() Counts {
	return Counts{Sent: c.sent.Load(), Unsent: c.unsent.Load(), Received: c.received.Load(),
		Foreign: c.foreign.Load()}
}

// post sends a packet and counts it. If sending fails, the program continues.
func (c *counters) post(conn net.PacketConn, b []byte, to net.Addr) {
	if _, err := conn.WriteTo(b, to); err != nil {
		c.unsent.Add(1)
		return
	}
	c.sent.Add(1)
}

// receive handles packets until the connection is closed. If it ends for another reason, it returns
// that reason.
func (c *counters) receive(
	conn net.PacketConn, k kind, stream uint64, take func(id uint64, from net.Addr),
) error {
	var b [packetSize + 1]byte // a longer packet is cut to this length
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
func openTwo(
	actor, point1, point2 string, o handlers.Options,
) (*handlers.Channel, *handlers.Channel, error) {
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
