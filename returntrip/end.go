package returntrip

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// End is where tuples end. Log belongs to one goroutine at a time, the other methods to any.
type End struct {
	arrived, echoed *handlers.Channel
	conn            net.PacketConn
	start           net.Addr
	stream          uint64
	out             [packetSize]byte // Log's own
	counts          counters
	done            chan struct{} // closed when the receiver has ended
	err             error         // why, if not because of Close; read after done
}

// NewEnd opens the channels ACTOR/ret-arrived and ACTOR/ret-echoed, and takes the echoes that come
// to conn, which is the End's from now on. Acknowledgements go to start, where a Start of the same
// stream receives. With an error conn is as it was.
func NewEnd(conn net.PacketConn, start net.Addr, actor string, o Options) (*End, error) {
	e := &End{conn: conn, start: start, stream: o.Stream, done: make(chan struct{})}
	e.counts.news = make(chan struct{}, 1)
	var err error
	if e.arrived, e.echoed, err = openTwo(actor, PointArrived, PointEchoed,
		o.Channels); err != nil {
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

// Log says that a tuple is here now, and acknowledges it. It costs a log call and a system call: a
// program that cannot pay this for every tuple calls Log for some. A nil End does nothing.
func (e *End) Log(id uint64) {
	if e == nil {
		return
	}
	e.arrived.Log(id)
	packet{kindAcknowledgement, e.stream, id}.put(&e.out)
	e.counts.post(e.conn, e.out[:], e.start)
}

// Settle waits until as many echoes came as acknowledgements were sent, or ctx ends, as it does
// where a packet was lost. Nobody may log meanwhile. The error is ctx's. A nil End does nothing.
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
			return nil // nothing comes any more; Close says why
		case <-ctx.Done():
			return fmt.Errorf("wait for echoes: %d of %d came: %w", c.Received, c.Sent, ctx.Err())
		}
	}
}

// Counts are of acknowledgements sent and echoes received.
func (e *End) Counts() Counts { return e.counts.read() }

// Close ends the measurement and gives the channels to the drainer. A nil End does nothing.
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
