package job

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// tupleSubject returns the NATS subject of the tuples for an instance.
func (j *runner) tupleSubject(stage string, instance int) string {
	return fmt.Sprintf("%s.%s.%d", j.name, stage, instance)
}

// ackSubject returns the subject of the acknowledgements for an instance.
func (j *runner) ackSubject(stage string, instance int) string {
	return fmt.Sprintf("%s.%s.%d.acks", j.name, stage, instance)
}

// sender sends an instance's tuples to the instances of the next operator. Only the instance's
// goroutine uses it. Acknowledgements arrive on another goroutine.
type sender struct {
	conn     *nats.Conn
	from     int
	lanes    []lane
	inFlight uint64
	buffer   []byte
}

// lane leads to one receiver.
type lane struct {
	subject string
	sent    uint64
	acked   atomic.Uint64 // number of sent tuples that the receiver has taken
	news    chan struct{} // has a value if acked grew since the sender last checked it
}

// An acknowledgement has two numbers: the receiver's number among its operator's instances (2
// bytes), and how many of the sender's tuples the receiver has taken (8 bytes).
const ackSize = 10

// newSender makes the sender of an instance. The sender listens for acknowledgements until the
// connection ends.
func (j *runner) newSender(conn *nats.Conn, stage int, from int) (*sender, error) {
	next := Stages[stage+1]
	s := &sender{
		conn: conn, from: from,
		lanes: make([]lane, len(j.Actors[next])), inFlight: uint64(j.Stream.InFlight),
	}
	for i := range s.lanes {
		s.lanes[i].subject, s.lanes[i].news = j.tupleSubject(next, i), make(chan struct{}, 1)
	}
	_, err := conn.Subscribe(j.ackSubject(Stages[stage], from), func(m *nats.Msg) {
		if len(m.Data) != ackSize {
			return
		}
		i := int(binary.BigEndian.Uint16(m.Data))
		if i >= len(s.lanes) {
			return
		}
		s.lanes[i].acked.Store(binary.BigEndian.Uint64(m.Data[2:]))
		select {
		case s.lanes[i].news <- struct{}{}:
		default:
		}
	})
	return s, err
}

// awaitReceivers waits until every receiver, and every instance after the receivers, is ready. It
// sends each receiver a hello and waits for the answer. The answer proves that tuples get through,
// because tuples have the same subject as the hello. It also proves that acknowledgements get
// through: servers learn of subscriptions in the order in which they are made, and the subscription
// to acknowledgements is made before the subscription to answers.
func (s *sender) awaitReceivers(ctx context.Context) error {
	hello := (&message{kind: kindHello, from: s.from}).append(nil)
	for i := range s.lanes {
		for {
			attempt, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			_, err := s.conn.RequestWithContext(attempt, s.lanes[i].subject, hello)
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("wait for %s: %w", s.lanes[i].subject, context.Cause(ctx))
			}
			if errors.Is(err, nats.ErrNoResponders) { // this error returns at once, so wait here
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
			} else if !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("wait for %s: %w", s.lanes[i].subject, err)
			}
		}
	}
	return nil
}

// send sends a tuple to the receiver that the tuple's key chooses. It waits while that receiver is
// too far behind.
func (s *sender) send(ctx context.Context, m *message, key uint64) error {
	l := &s.lanes[key%uint64(len(s.lanes))]
	for l.sent-l.acked.Load() >= s.inFlight {
		select {
		case <-l.news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l.sent++
	return s.publish(l, m)
}

// publish sends a message to one receiver. It does not change the message, because an actor may
// still be working on it.
func (s *sender) publish(l *lane, m *message) error {
	s.buffer = m.append(s.buffer[:0])
	if err := s.conn.Publish(l.subject, s.buffer); err != nil { // copies the buffer
		return fmt.Errorf("send to %s: %w", l.subject, err)
	}
	return nil
}

// end sends poison to each receiver.
func (s *sender) end() error {
	for i := range s.lanes {
		l := &s.lanes[i]
		poison := &message{
			kind: kindPoison, from: s.from, id: l.sent, watermark_us: maxWatermark_us,
		}
		if err := s.publish(l, poison); err != nil {
			return err
		}
	}
	return s.conn.Flush()
}

// receiver contains what an instance knows about its senders. Only the instance's goroutine uses
// it.
type receiver struct {
	conn      *nats.Conn
	in        chan *nats.Msg
	instance  int
	ackEvery  uint64
	senders   []upstreamSender
	watermark int64 // the smallest of the senders' watermarks
	open      int   // senders that have not ended
}

type upstreamSender struct {
	acks         string
	taken        uint64
	watermark_us int64
	ended        bool
}

func (j *runner) newReceiver(conn *nats.Conn, stage, instance int) (*receiver, error) {
	before := Stages[stage-1]
	r := &receiver{
		conn: conn, instance: instance, ackEvery: max(uint64(j.Stream.InFlight)/4, 1),
		senders: make([]upstreamSender, len(j.Actors[before])),
	}
	for i := range r.senders {
		r.senders[i].acks = j.ackSubject(before, i)
	}
	r.open = len(r.senders)
	// r.in must be long enough for all tuples in flight and for repeated hellos, because the client
	// drops messages while r.in is full.
	r.in = make(chan *nats.Msg, len(r.senders)*(j.Stream.InFlight+64)+64)
	_, err := conn.ChanSubscribe(j.tupleSubject(Stages[stage], instance), r.in)
	return r, err
}

// countTaken counts a tuple. For every ackEvery tuples of a sender, it sends that sender one
// acknowledgement.
func (r *receiver) countTaken(m *message) error {
	u := &r.senders[m.from]
	u.taken++
	if u.taken%r.ackEvery != 0 {
		return nil
	}
	var b [ackSize]byte
	binary.BigEndian.PutUint16(b[:], uint16(r.instance))
	binary.BigEndian.PutUint64(b[2:], u.taken)
	return r.conn.Publish(u.acks, b[:])
}

// noteEnd records a sender's poison. If some of the sender's tuples are missing, the error says how
// many.
func (r *receiver) noteEnd(m *message) error {
	u := &r.senders[m.from]
	if u.ended {
		return fmt.Errorf("sender %d ended twice", m.from)
	}
	u.ended = true
	r.open--
	if u.taken != m.id {
		return fmt.Errorf("%d of %d tuples of sender %d arrived", u.taken, m.id, m.from)
	}
	return nil
}

// The method advance records a sender's watermark. It returns whether the smallest of all
// watermarks has grown.
func (r *receiver) advance(m *message) bool {
	r.senders[m.from].watermark_us = m.watermark_us
	least := r.senders[0].watermark_us
	for _, u := range r.senders[1:] {
		least = min(least, u.watermark_us)
	}
	grown := least > r.watermark
	r.watermark = least
	return grown
}
