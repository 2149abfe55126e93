package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/pebbe/zmq4"
)

var (
	// ErrRefused is wrapped by a *RefusedError.
	ErrRefused = errors.New("refused by the server")

	// ErrUnreachable is returned when a message did not leave within its time: nobody answers at the server's address, or what
	// answers has another key.
	ErrUnreachable = errors.New("server cannot be reached")

	// ErrKey is returned when the server does not let the client's key in. It wraps ErrUnreachable.
	ErrKey = fmt.Errorf("%w: it does not let this key in", ErrUnreachable)
)

// RefusedError is the server's refusal.
type RefusedError struct{ Refusal }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused by the server (%s): %s", e.Code, e.Text)
}
func (e *RefusedError) Unwrap() error { return ErrRefused }

// ClientConfig is what a Client needs.
type ClientConfig struct {
	Server string // host:port
	Key    *Key   // the client's own, with its secret. Nil: no keys, and the server must be on this machine
	Public string // the server's public key

	// Publics returns the public keys that the server may have, of which each is tried in turn: for
	// a server that is being given another key. It is called whenever a connection is begun anew.
	// Nil: Public alone.
	Publics func() ([]string, error)

	speaks Version // Current, but in tests
}

// Client is a node's or a command's end of the link. Any goroutine may use it. It connects by itself, and again after the server went
// away: it is then another peer there, and what it sends is refused as NotRegistered until it registers again.
type Client struct {
	server   string
	speaks   Version
	incoming chan Incoming
	loop     *loop
	done     chan struct{}
	config   ClientConfig
	publics  []string // that the server may have, as last read
	turn     int      // whose of publics it is
	context  *zmq4.Context
	dealer   *zmq4.Socket // the loop's,
	monitor  *zmq4.Socket // and the dealer's handshakes that were refused

	mu      sync.Mutex
	request uint64
	asked   map[uint64]chan Incoming // has room for one
}

// clients is the one context of all clients of this process: it costs two threads. Each has five sockets, and the thousand that ZeroMQ allows
// would do for two hundred.
var clients = sync.OnceValues(func() (*zmq4.Context, error) {
	ctx, err := zmq4.NewContext()
	if err == nil {
		err = ctx.SetMaxSockets(10_000)
	}
	return ctx, err
})

// Check says why Dial would not even try.
func (c ClientConfig) Check() error {
	if c.Key == nil && !onThisMachine(c.Server) {
		return fmt.Errorf("connect to %q: %w", c.Server, ErrNeedsKeys)
	}
	if c.Key != nil && c.Key.Secret == "" {
		return fmt.Errorf("connect to %q: key %q is not a secret key", c.Server, c.Key.Name)
	}
	return nil
}

// Dial opens a client. It does not wait for the server.
func Dial(c ClientConfig) (*Client, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.speaks == (Version{}) {
		c.speaks = Current
	}
	l := &Client{server: c.Server, speaks: c.speaks, incoming: make(chan Incoming, 256), done: make(chan struct{}),
		asked: map[uint64]chan Incoming{}, config: c, publics: []string{c.Public}}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("connect to %q: %w", c.Server, err)
	}
	go l.run()
	return l, nil
}

func (l *Client) open() error {
	ctx, err := clients()
	if err != nil {
		return err
	}
	l.context = ctx
	if l.dealer, l.monitor, err = l.connect(ctx); err != nil {
		return err
	}
	if l.loop, err = newLoop(ctx); err != nil {
		l.dealer.Close()
		l.monitor.Close()
	}
	return err
}

// connect opens a socket that connects, and connects again, and one that tells of handshakes that are refused.
func (l *Client) connect(ctx *zmq4.Context) (dealer, monitor *zmq4.Socket, err error) {
	if dealer, err = ctx.NewSocket(zmq4.DEALER); err != nil {
		return nil, nil, err
	}
	if monitor, err = ctx.NewSocket(zmq4.PAIR); err != nil {
		dealer.Close()
		return nil, nil, err
	}
	name := fmt.Sprintf("inproc://handshakes-%d", pairs.Add(1))
	err = errors.Join(dealer.Monitor(name, zmq4.EVENT_HANDSHAKE_FAILED_AUTH), monitor.SetLinger(0), monitor.Connect(name), setCommon(dealer, l.server), dealer.SetImmediate(true),
		dealer.SetReconnectIvl(100*time.Millisecond), dealer.SetReconnectIvlMax(2*time.Second))
	if c := l.config; err == nil && c.Key != nil {
		err = errors.Join(dealer.SetCurveServerkey(l.serverKey()),
			dealer.SetCurvePublickey(c.Key.Public), dealer.SetCurveSecretkey(c.Key.Secret))
	}
	if err == nil {
		err = dealer.Connect("tcp://" + l.server)
	}
	if err != nil {
		dealer.Close()
		monitor.Close()
		return nil, nil, err
	}
	return dealer, monitor, nil
}

// serverKey returns the key that the server is expected to have.
func (l *Client) serverKey() string {
	if l.config.Publics != nil {
		if read, err := l.config.Publics(); err == nil && len(read) > 0 { // else it is as it was
			l.publics = read
		}
	}
	return l.publics[l.turn%len(l.publics)]
}

// stuckLimit is how long messages wait for a connection before it is begun anew. ZeroMQ gives a connection up for good whose handshake
// was refused, but a key may be let in later.
const stuckLimit = time.Second

// Receive waits for the next message that is not the answer to a Call of this client. Messages that cannot be understood are
// answered with a Refusal and passed over.
func (l *Client) Receive(ctx context.Context) (Incoming, error) {
	select {
	case in := <-l.incoming:
		return in, nil
	case <-l.done:
		return Incoming{}, ErrClosed
	case <-ctx.Done():
		return Incoming{}, ctx.Err()
	}
}

// Send sends a message, usually the answer to a request, whose number it repeats. It returns when the message was handed to a
// connection; an error wraps ErrUnreachable when there was none until the context ended.
func (l *Client) Send(ctx context.Context, request uint64, m Message) error {
	frames, err := encode(m, request, l.speaks)
	if err != nil {
		return err
	}
	o := outgoing{frames: frames, request: request, sent: make(chan error, 1)}
	o.until, _ = ctx.Deadline()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send %s to %q: %w", m.Kind(), l.server, err)
	}
	if !l.loop.put(o) {
		return fmt.Errorf("send %s to %q: %w", m.Kind(), l.server, ErrClosed)
	}
	select {
	case err := <-o.sent:
		if err != nil {
			return fmt.Errorf("send %s to %q: %w", m.Kind(), l.server, err)
		}
		return nil
	case <-l.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("send %s to %q: %w: %w", m.Kind(), l.server, ErrUnreachable, ctx.Err())
	}
}

// Call sends a request and waits for its answer. A Refusal is a *RefusedError. Without a deadline it waits for ten seconds.
func (l *Client) Call(ctx context.Context, m Message) (Message, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	answer := make(chan Incoming, 1)
	l.mu.Lock()
	l.request++
	// Requests of the server's own count from 1 as well: the top bit tells them apart.
	request := l.request | 1<<63
	l.asked[request] = answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.asked, request)
		l.mu.Unlock()
	}()
	if err := l.Send(ctx, request, m); err != nil {
		return nil, err
	}
	select {
	case in := <-answer:
		if r, ok := in.Message.(*Refusal); ok {
			return nil, &RefusedError{*r}
		}
		return in.Message, nil
	case <-l.done:
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the answer to %s from %q: %w", m.Kind(), l.server, ctx.Err())
	}
}

// Register says hello, answers the challenge and registers. The nonce is filled in.
func (l *Client) Register(ctx context.Context, r Register) (*Welcome, error) {
	m, err := l.Call(ctx, &Hello{Name: r.Name, Software: r.Software})
	if err != nil {
		return nil, err
	}
	challenge, ok := m.(*Challenge)
	if !ok {
		return nil, fmt.Errorf("register %q: server answers hello with %s", r.Name, m.Kind())
	}
	r.Nonce = challenge.Nonce
	if m, err = l.Call(ctx, &r); err != nil {
		return nil, err
	}
	welcome, ok := m.(*Welcome)
	if !ok {
		return nil, fmt.Errorf("register %q: server answers with %s", r.Name, m.Kind())
	}
	return welcome, nil
}

// Close ends the client. What was sent and did not leave within a fifth of a second is lost.
func (l *Client) Close() error {
	l.loop.close()
	<-l.done
	return nil
}

// run is the only goroutine that touches the dealer.
func (l *Client) run() {
	id := l.loop.poller.Add(l.dealer, zmq4.POLLIN)
	l.loop.poller.Add(l.monitor, zmq4.POLLIN)
	var waiting []outgoing // that the dealer would not take yet
	var stuck time.Time    // since when it takes none; zero: it does
	known := false         // the server proved its key and refused ours
	for closed, refused := false, false; !closed; {
		wait, events := time.Duration(-1), zmq4.POLLIN
		if len(l.incoming) == cap(l.incoming) {
			wait, events = time.Millisecond, 0
		}
		if len(waiting) > 0 {
			wait, events = 50*time.Millisecond, events|zmq4.POLLOUT
		}
		l.loop.poller.Update(id, events)
		polled, err := l.loop.poller.Poll(wait)
		if err != nil && !isErrno(err, syscall.EINTR) {
			break
		}
		for _, p := range polled {
			if p.Socket == l.dealer && p.Events&zmq4.POLLIN != 0 {
				l.drain()
			}
			if p.Socket == l.monitor {
				if event, _, _, err := l.monitor.RecvEvent(zmq4.DONTWAIT); err == nil && event == zmq4.EVENT_HANDSHAKE_FAILED_AUTH {
					refused = l.config.Key != nil // whoever it is that refuses a client without a key, no key would help
				}
			}
		}
		var queue []outgoing
		queue, closed = l.loop.take()
		before := len(waiting) + len(queue)
		waiting = l.put(append(waiting, queue...))
		if refused { // for good: what waits need not wait for its time
			for _, o := range waiting {
				o.sent <- fmt.Errorf("key %q: %w", l.config.Key.Name, ErrKey)
			}
			waiting, refused, known = nil, false, true
		}
		switch {
		case len(waiting) == 0 || len(waiting) < before:
			stuck = time.Time{}
		case stuck.IsZero():
			stuck = time.Now()
		case time.Since(stuck) > stuckLimit:
			stuck = time.Now()
			if !known {
				l.turn++
			}
			known = false
			if again, monitor, err := l.connect(l.context); err == nil {
				for _, old := range []*zmq4.Socket{l.dealer, l.monitor} {
					l.loop.poller.RemoveBySocket(old)
					old.Close()
				}
				l.dealer, l.monitor = again, monitor
				l.loop.poller.Add(l.monitor, zmq4.POLLIN)
				id = l.loop.poller.Add(l.dealer, zmq4.POLLIN)
			}
		}
	}
	for _, o := range waiting {
		o.sent <- ErrClosed
	}
	l.loop.end()
	l.dealer.Close()
	l.monitor.Close()
	close(l.done)
}

// put sends messages in their order, and returns those that must wait.
func (l *Client) put(queue []outgoing) []outgoing {
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
		o.sent <- err
	}
	return nil
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
			if l.answered(Incoming{Request: request, Message: m}) {
				continue // a call of ours gets the error
			}
			if encoded, err := encode(m, request, l.speaks); err == nil {
				l.loop.put(outgoing{frames: encoded, request: request, sent: make(chan error, 1), until: time.Now().Add(time.Second)})
			}
			continue
		}
		in := Incoming{Request: request, Message: m}
		if !l.answered(in) {
			l.incoming <- in
		}
	}
}

// answered hands a message to the Call that waits for it.
func (l *Client) answered(in Incoming) bool {
	l.mu.Lock()
	answer := l.asked[in.Request]
	delete(l.asked, in.Request)
	l.mu.Unlock()
	if answer == nil {
		return in.Request&(1<<63) != 0 // it came too late for its Call
	}
	answer <- in
	return true
}
