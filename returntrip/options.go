package returntrip

import (
	"errors"
	"net"
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// These are the points of the four channels. A channel's name consists of an actor and a point.
const (
	PointSent         = "ret-sent"         // at the start: the tuple leaves
	PointArrived      = "ret-arrived"      // at the end: the tuple arrives
	PointAcknowledged = "ret-acknowledged" // at the start: the acknowledgement arrives
	PointEchoed       = "ret-echoed"       // at the end: the echo arrives
)

// Options configure a Start or an End. A Start and its Ends must have the same Stream.
type Options struct {
	// Stream distinguishes the packets of this measurement from others. Any number is valid; a
	// random one is best.
	Stream uint64

	// Channels are the options with which the Start or the End opens its two channels.
	Channels handlers.Options
}

// Counts counts packets by what happened to them. An End sends acknowledgements and receives
// echoes. A Start receives acknowledgements and sends echoes.
type Counts struct {
	Sent     uint64 // packets that the network accepted
	Unsent   uint64 // packets that the network did not accept
	Received uint64 // packets of the expected kind; each was logged
	Foreign  uint64 // packets of another stream, version or kind, which had no effect
}

// sharedCounts are Counts that several goroutines may increase.
type sharedCounts struct {
	sent, unsent, received, foreign atomic.Uint64

	// news contains an element if a packet was received since somebody last read from news. If news
	// is nil, nobody reads from it.
	news chan struct{}
}

func (c *sharedCounts) read() Counts {
	return Counts{Sent: c.sent.Load(), Unsent: c.unsent.Load(), Received: c.received.Load(),
		Foreign: c.foreign.Load()}
}

// postPacket sends a packet and counts it. If it cannot send the packet, it counts the failure
// instead.
func (c *sharedCounts) postPacket(conn net.PacketConn, b []byte, to net.Addr) {
	if _, err := conn.WriteTo(b, to); err != nil {
		c.unsent.Add(1)
		return
	}
	c.sent.Add(1)
}

// receive reads packets until the connection is closed. For each packet that parse accepts, it
// calls the function take with the packet's id and sender. If receive ends for another reason, it
// returns that reason.
func (c *sharedCounts) receive(
	conn net.PacketConn, k kind, stream uint64, take func(id uint64, from net.Addr),
) error {
	var b [packetSize + 1]byte // a longer packet is cut to this length, and refused
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

// openTwo opens two channels of an actor. If the second one cannot be opened, openTwo closes the
// first one.
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
