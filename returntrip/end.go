package returntrip

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// End is the place where tuples arrive. Only one goroutine at a time may call Log. Any goroutine
// may call the other methods.
type End struct {
	arrived, echoed *handlers.Channel
	conn            net.PacketConn
	start           net.Addr
	stream          uint64
	out             [packetSize]byte // used only by Log
	counts          sharedCounts
	done            chan struct{} // closed when the receiving goroutine ends
	err             error         // why it ended, unless Close ended it; read only after done
}

// NewEnd opens the channels ACTOR/ret-arrived and ACTOR/ret-echoed, and begins to receive echoes at
// conn. The End sends acknowledgements to start, the address of a Start with the same stream. From
// now on the End owns conn. If NewEnd fails, conn is unchanged.
func NewEnd(conn net.PacketConn, start net.Addr, actor string, o Options) (*End, error) {
	e := &End{conn: conn, start: start, stream: o.Stream, done: make(chan struct{})}
	e.counts.news = make(chan struct{}, 1)
	var err error
	e.arrived, e.echoed, err = openTwo(actor, PointArrived, PointEchoed, o.Channels)
	if err != nil {
		return nil, fmt.Errorf("end return trips: %w", err)
	}
	go func() {
		defer close(e.done)
		e.err = e.counts.receive(conn, kindEcho, o.Stream, func(id uint64, _ net.Addr) {
			e.echoed.Log(id)
		})
	}()
	return e, nil
}

// Log records that a tuple has arrived, and acknowledges the tuple. It costs a log call and a
// system call. A program that cannot afford this for every tuple may call Log for some tuples only.
// A nil End does nothing.
func (e *End) Log(id uint64) {
	if e == nil {
		return
	}
	e.arrived.Log(id)
	packet{kindAcknowledgement, e.stream, id}.put(&e.out)
	e.counts.postPacket(e.conn, e.out[:], e.start)
}

// Settle waits until the number of received echoes equals the number of sent acknowledgements. If a
// packet was lost, Settle waits until ctx ends, and returns ctx's error. Log must not be called
// meanwhile. A nil End does nothing.
func (e *End) Settle(ctx context.Context) error {
	if e == nil {
		return nil
	}
	for {
		c := e.counts.read()
		if c.Received >= c.Sent {
			return nil
		}
		select {
		case <-e.counts.news:
		case <-e.done:
			return nil // no echo can arrive any more; Close returns the reason
		case <-ctx.Done():
			return fmt.Errorf("wait for echoes: %d of %d came: %w", c.Received, c.Sent, ctx.Err())
		}
	}
}

// Counts returns the counts of this End: it sends acknowledgements and receives echoes.
func (e *End) Counts() Counts { return e.counts.read() }

// Close ends the measurement and closes both channels, so that the drainer takes their last events.
// A nil End does nothing.
func (e *End) Close() error {
	if e == nil {
		return nil
	}
	err := e.conn.Close()
	<-e.done
	if e.err != nil {
		err = errors.Join(err, fmt.Errorf("receive echoes: %w", e.err))
	}
	return errors.Join(err, e.arrived.Close(), e.echoed.Close())
}
