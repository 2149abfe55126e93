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

	// ErrUnreachable is returned when a message was not sent in time. Either nothing answers at the
	// server's address, or the program there has another key.
	ErrUnreachable = errors.New("server cannot be reached")

	// ErrKey is returned when the server rejects the client's key. It wraps ErrUnreachable.
	ErrKey = fmt.Errorf("%w: it does not let this key in", ErrUnreachable)
)

// RefusedError is the server's refusal.
type RefusedError struct{ Refusal }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused by the server (%s): %s", e.Code, e.Text)
}
func (e *RefusedError) Unwrap() error { return ErrRefused }

// ClientConfig configures a Client.
type ClientConfig struct {
	Server string // host:port
	Key    *Key   // the client's own, with its secret; nil: no keys, for a server on this machine
	Public string // the server's public key

	// Publics returns the public keys that the server may have. It is for a server whose key is
	// being replaced: the client tries one key after the other. Publics is called before each new
	// connection. If it is nil, only Public is tried.
	Publics func() ([]string, error)

	speaks Version // Current, except in tests
}

// Client is the end of the link at a node or a command. Any goroutine may use it. It connects on
// its own, and reconnects when the connection ends. For the server, each new connection is a new
// peer, whose messages it refuses as NotRegistered until the client registers again.
type Client struct {
	server   string
	speaks   Version
	incoming chan Incoming
	loop     *loop
	done     chan struct{}
	config   ClientConfig
	publics  []string // keys that the server may have, as last read
	turn     int      // index into publics, modulo its length
	context  *zmq4.Context
	dealer   *zmq4.Socket // the loop's
	monitor  *zmq4.Socket // the loop's: reports the dealer's refused handshakes

	mu      sync.Mutex
	request uint64
	asked   map[uint64]chan Incoming // each channel has room for one answer
}

// clients is the ZeroMQ context that all clients of this process share, because a context costs two
// threads. Each client has five sockets. ZeroMQ's default limit of one thousand sockets would allow
// only two hundred clients.
var clients = sync.OnceValues(func() (*zmq4.Context, error) {
	ctx, err := zmq4.NewContext()
	if err == nil {
		err = ctx.SetMaxSockets(10_000)
	}
	return ctx, err
})

// Check returns the error with which Dial would fail before it opens anything.
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
	l := &Client{
		server: c.Server, speaks: c.speaks, config: c, publics: []string{c.Public},
		incoming: make(chan Incoming, 256), done: make(chan struct{}),
		asked: map[uint64]chan Incoming{},
	}
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

// connect opens a socket that connects, and reconnects, to the server. It opens a second socket
// that reports the first one's refused handshakes.
func (l *Client) connect(ctx *zmq4.Context) (dealer, monitor *zmq4.Socket, err error) {
	if dealer, err = ctx.NewSocket(zmq4.DEALER); err != nil {
		return nil, nil, err
	}
	if monitor, err = ctx.NewSocket(zmq4.PAIR); err != nil {
		dealer.Close()
		return nil, nil, err
	}
	name := fmt.Sprintf("inproc://handshakes-%d", pairs.Add(1))
	err = errors.Join(
		dealer.Monitor(name, zmq4.EVENT_HANDSHAKE_FAILED_AUTH),
		monitor.SetLinger(0),
		monitor.Connect(name),
		setCommon(dealer, l.server),
		dealer.SetImmediate(true),
		dealer.SetReconnectIvl(100*time.Millisecond),
		dealer.SetReconnectIvlMax(2*time.Second),
	)
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

// serverKey returns the public key to expect from the server.
func (l *Client) serverKey() string {
	if l.config.Publics != nil {
		// On an error, the last list remains in use.
		if read, err := l.config.Publics(); err == nil && len(read) > 0 {
			l.publics = read
		}
	}
	return l.publics[l.turn%len(l.publics)]
}

// stuckLimit is how long messages wait for a connection before the client opens a new one. ZeroMQ
// never retries a connection whose handshake was refused, but the server may accept the key later.
const stuckLimit = time.Second

// Receive waits for the next message that does not answer a Call of this client. If a message
// cannot be decoded, the client answers it with a Refusal and skips it.
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

// Send sends a message and returns as soon as a connection has accepted it. An answer repeats the
// number of its request. The error wraps ErrUnreachable if there was no connection until the
// context ended.
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

// Call sends a request and waits for its answer. A Refusal is returned as a *RefusedError. If the
// context has no deadline, Call waits for ten seconds.
func (l *Client) Call(ctx context.Context, m Message) (Message, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	answer := make(chan Incoming, 1)
	l.mu.Lock()
	l.request++
	// The server's own requests also count from 1. The top bit distinguishes the two.
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
		return nil, fmt.Errorf("wait for the answer to %s from %q: %w",
			m.Kind(), l.server, ctx.Err())
	}
}

// Register says hello, answers the challenge and registers. It fills in the nonce.
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

// Close ends the client. A message that has not left within a fifth of a second is lost.
func (l *Client) Close() error {
	l.loop.close()
	<-l.done
	return nil
}

// run is the only goroutine that uses the dealer.
func (l *Client) run() {
	id := l.loop.poller.Add(l.dealer, zmq4.POLLIN)
	l.loop.poller.Add(l.monitor, zmq4.POLLIN)
	var waiting []outgoing // the dealer does not accept these yet
	var stuck time.Time    // since when the dealer accepts nothing; zero: it accepts messages
	known := false         // the server proved its key and refused the client's
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
				event, _, _, err := l.monitor.RecvEvent(zmq4.DONTWAIT)
				if err == nil && event == zmq4.EVENT_HANDSHAKE_FAILED_AUTH {
					// Without a key of its own, the client cannot be refused because of its key.
					refused = l.config.Key != nil
				}
			}
		}
		var queue []outgoing
		queue, closed = l.loop.take()
		before := len(waiting) + len(queue)
		waiting = l.put(append(waiting, queue...))
		if refused { // waiting longer would not help
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

// put sends messages in order and returns the messages that must wait.
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
				continue // a Call of this client gets the error
			}
			if encoded, err := encode(m, request, l.speaks); err == nil {
				l.loop.put(outgoing{
					frames: encoded, request: request,
					sent: make(chan error, 1), until: time.Now().Add(time.Second),
				})
			}
			continue
		}
		in := Incoming{Request: request, Message: m}
		if !l.answered(in) {
			l.incoming <- in
		}
	}
}

// answered passes a message to the Call that waits for it. It reports whether the message is done.
func (l *Client) answered(in Incoming) bool {
	l.mu.Lock()
	answer := l.asked[in.Request]
	delete(l.asked, in.Request)
	l.mu.Unlock()
	if answer == nil {
		return in.Request&(1<<63) != 0 // too late: the Call has returned
	}
	answer <- in
	return true
}
