package returntrip

import (
	"errors"
	"fmt"
	"net"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// Start is the place where tuples begin. Only one goroutine at a time may call Log. Any goroutine
// may call the other methods.
type Start struct {
	sent, acknowledged *handlers.Channel
	conn               net.PacketConn
	counts             sharedCounts
	done               chan struct{} // closed when the receiving goroutine ends
	err                error         // why it ended, unless Close ended it; read only after done
}

// NewStart opens the channels ACTOR/ret-sent and ACTOR/ret-acknowledged, and begins to echo the
// acknowledgements that arrive at conn. From now on the Start owns conn. If NewStart fails, conn is
// unchanged.
func NewStart(conn net.PacketConn, actor string, o Options) (*Start, error) {
	s := &Start{conn: conn, done: make(chan struct{})}
	var err error
	s.sent, s.acknowledged, err = openTwo(actor, PointSent, PointAcknowledged, o.Channels)
	if err != nil {
		return nil, fmt.Errorf("start return trips: %w", err)
	}
	go func() {
		defer close(s.done)
		var b [packetSize]byte
		s.err = s.counts.receive(conn, kindAcknowledgement, o.Stream,
			func(id uint64, from net.Addr) {
				s.acknowledged.Log(id)
				packet{kindEcho, o.Stream, id}.put(&b)
				s.counts.postPacket(conn, b[:], from)
			})
	}()
	return s, nil
}

// Log records that a tuple leaves now. It costs a log call. A nil Start does nothing.
func (s *Start) Log(id uint64) {
	if s != nil {
		s.sent.Log(id)
	}
}

// Counts returns the counts of this Start: it receives acknowledgements and sends echoes.
func (s *Start) Counts() Counts { return s.counts.read() }

// Close stops echoing and closes both channels, so that the drainer takes their last events. Before
// Close, call Settle on all Ends: they still need echoes. A nil Start does nothing.
func (s *Start) Close() error {
	if s == nil {
		return nil
	}
	err := s.conn.Close()
	<-s.done
	if s.err != nil {
		err = errors.Join(err, fmt.Errorf("receive acknowledgements: %w", s.err))
	}
	return errors.Join(err, s.sent.Close(), s.acknowledged.Close())
}
