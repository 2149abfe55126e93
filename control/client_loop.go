package control

import (
	"fmt"
	"syscall"
	"time"

	"github.com/pebbe/zmq4"
)

// stuckLimit is how long messages wait for a connection before the client opens a new socket. The
// client needs a new socket because a socket whose handshake was refused never connects again. The
// server may accept the client's key later. But if no connection was refused or ended, a handshake
// may be under way, so the client waits for handshakeLimit, too.
const stuckLimit = time.Second

// lostPause is how long the client sends nothing after the end of a connection. For a moment, the
// dealer still accepts messages for the ended connection. These messages never arrive. The pause is
// shorter than the time that the dealer waits before it connects again.
const lostPause = 50 * time.Millisecond

// sendingState is the state of the messages that a client is sending. Only run's goroutine uses it.
type sendingState struct {
	dealer  int            // the dealer's number in the poller
	waiting []outgoingItem // messages that the dealer does not accept yet
	stuck   time.Time      // since when the dealer has accepted nothing; zero: it accepts messages
	lost    time.Time      // when the last connection ended, even if its handshake had not
	refused bool           // the server has just refused this client's key
	known   bool           // a server with the expected key has refused this client's key
}

// run is the only goroutine that uses the dealer.
func (l *Client) run() {
	s := sendingState{dealer: l.loop.poller.Add(l.dealer, zmq4.POLLIN)}
	l.loop.poller.Add(l.monitor, zmq4.POLLIN)
	for closed := false; !closed; {
		polled, err := l.poll(&s)
		if err != nil && !isErrno(err, syscall.EINTR) {
			break
		}
		for _, p := range polled {
			switch {
			case p.Socket == l.monitor:
				l.readEvent(&s)
			case p.Socket == l.dealer && p.Events&zmq4.POLLIN != 0:
				l.drain()
			}
		}
		var queue []outgoingItem
		queue, closed = l.loop.takeQueued()
		before := len(s.waiting) + len(queue)
		if s.waiting = append(s.waiting, queue...); time.Since(s.lost) > lostPause {
			s.waiting = l.putInOrder(s.waiting)
		}
		if s.refused { // it is no use to wait longer
			for _, o := range s.waiting {
				o.sent <- fmt.Errorf("key %q: %w", l.config.Key.Name, ErrKey)
			}
			s.waiting, s.refused, s.known = nil, false, true
		}
		if s.isStuck(before) {
			l.reconnect(&s)
		}
	}
	for _, o := range s.waiting {
		o.sent <- ErrClosed
	}
	l.loop.endLoop()
	closeBoth(l.dealer, l.monitor)
	close(l.done)
}

// poll waits until a socket is ready. The wait is short if messages wait for the dealer or for a
// caller of Receive, because run must then look at them again.
func (l *Client) poll(s *sendingState) ([]zmq4.Polled, error) {
	wait, events := time.Duration(-1), zmq4.POLLIN
	if len(l.incoming) == cap(l.incoming) {
		wait, events = time.Millisecond, 0
	}
	if len(s.waiting) > 0 {
		wait, events = 50*time.Millisecond, events|zmq4.POLLOUT
	}
	l.loop.poller.Update(s.dealer, events)
	return l.loop.poller.Poll(wait)
}

// readEvent reads one event of the monitor.
func (l *Client) readEvent(s *sendingState) {
	switch event, _, _, err := l.monitor.RecvEvent(zmq4.DONTWAIT); {
	case err != nil:
	case event == zmq4.EVENT_HANDSHAKE_FAILED_AUTH:
		// Only a client that has a key of its own can be refused because of its key.
		s.refused = l.config.Key != nil
	case event == zmq4.EVENT_DISCONNECTED:
		s.lost = time.Now()
		l.endLost()
	}
}

// isStuck reports whether messages wait, and the dealer has accepted none of them for stuckLimit.
// The parameter before is the number of messages that waited before run last tried to pass them to
// the dealer.
func (s *sendingState) isStuck(before int) bool {
	switch {
	case len(s.waiting) == 0 || len(s.waiting) < before:
		s.stuck = time.Time{}
	case s.stuck.IsZero():
		s.stuck = time.Now()
	case time.Since(s.stuck) > stuckLimit+handshakeLimit,
		time.Since(s.stuck) > stuckLimit && (s.known || s.lost.After(s.stuck)):
		s.stuck = time.Now()
		return true
	}
	return false
}

// reconnect replaces the dealer and its monitor. If the server may have several keys, the new
// dealer expects the next of them. But if a server with the expected key has refused this client's
// own key, then the expected key is right, and the new dealer expects it again.
func (l *Client) reconnect(s *sendingState) {
	if !s.known {
		l.turn++
	}
	s.known = false
	again, monitor, err := l.connect(l.context)
	if err != nil {
		return
	}
	l.endLost()
	l.loop.poller.RemoveBySocket(l.dealer)
	l.loop.poller.RemoveBySocket(l.monitor)
	closeBoth(l.dealer, l.monitor)
	l.dealer, l.monitor = again, monitor
	l.loop.poller.Add(l.monitor, zmq4.POLLIN)
	s.dealer = l.loop.poller.Add(l.dealer, zmq4.POLLIN)
}

// closeBoth closes a dealer and its monitor. It ends the monitoring first. Otherwise, if a
// connection ends while the dealer lingers, ZeroMQ waits for the closed monitor. All clients of the
// process then wait, too.
func closeBoth(dealer, monitor *zmq4.Socket) {
	_ = dealer.Monitor("", 0) // the arguments are valid
	dealer.Close()
	monitor.Close()
}

// putInOrder sends messages in order and returns the messages that the dealer does not accept yet.
func (l *Client) putInOrder(queue []outgoingItem) []outgoingItem {
	for i, o := range queue {
		if !o.until.IsZero() && time.Now().After(o.until) {
			o.sent <- ErrUnreachable
			continue
		}
		parts := make([]any, len(o.frames))
		for j, f := range o.frames {
			parts[j] = f
		}
		_, err := l.dealer.SendMessageDontwait(parts...)
		if isErrno(err, syscall.EAGAIN) {
			return queue[i:]
		}
		l.mu.Lock()
		if c := l.asked[o.request]; c != nil {
			c.sent = err == nil
		}
		l.mu.Unlock()
		o.sent <- err
	}
	return nil
}

// endLost ends the Calls whose connection has ended. If an answer came before the connection ended,
// the Call that waits for this answer still gets it. But if this goroutine is late, ZeroMQ may drop
// the answer together with the connection.
func (l *Client) endLost() {
	l.drain()
	l.mu.Lock()
	defer l.mu.Unlock()
	for request, c := range l.asked {
		if c.sent {
			delete(l.asked, request)
			close(c.answer)
		}
	}
}

func (l *Client) drain() {
	for len(l.incoming) < cap(l.incoming) {
		frames, err := l.dealer.RecvMessageBytes(zmq4.DONTWAIT)
		if err != nil {
			return
		}
		m, request, err := decode(frames, l.speaks)
		if err != nil {
			_, code := reasonOf(err)
			m = Refuse(code, err.Error())
			if l.passAnswer(Incoming{Request: request, Message: m}) {
				continue // the waiting Call gets the error
			}
			if encoded, err := encode(m, request, l.speaks); err == nil {
				l.loop.putMessage(outgoingItem{
					frames: encoded, request: request,
					sent: make(chan error, 1), until: time.Now().Add(time.Second),
				})
			}
			continue
		}
		in := Incoming{Request: request, Message: m}
		if !l.passAnswer(in) {
			l.incoming <- in
		}
	}
}

// passAnswer passes a message to the Call that waits for it. It returns false if the message
// answers no Call, so that Receive must return it.
func (l *Client) passAnswer(in Incoming) bool {
	l.mu.Lock()
	c := l.asked[in.Request]
	delete(l.asked, in.Request)
	l.mu.Unlock()
	if c == nil {
		return in.Request&(1<<63) != 0 // an answer that came too late: the Call has returned
	}
	c.answer <- in
	return true
}
