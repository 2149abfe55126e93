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
	// ErrRefused says that the server refused a request. A *RefusedError wraps it.
	ErrRefused = errors.New("refused by the server")

	// ErrUnreachable is returned if a message could not be sent in time. Either nothing answers at
	// the server's address, or the program there has another key.
	ErrUnreachable = errors.New("server cannot be reached")

	// ErrLost is returned by a Call if the connection that took the request ended before the client
	// had the answer. The server may have done what was requested, or not. The client connects
	// again by itself, so a request that may be repeated can be sent again at once.
	ErrLost = errors.New("connection ended before the answer came: whether the server did it is " +
		"not known")

	// ErrKey is returned if the server rejects the client's key. It wraps ErrUnreachable.
	ErrKey = fmt.Errorf("%w: it does not let this key in", ErrUnreachable)
)

// RefusedError is the error form of the server's Refusal.
type RefusedError struct{ Refusal }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("refused by the server (%s): %s", e.Code, e.Text)
}
func (e *RefusedError) Unwrap() error { return ErrRefused }

// ClientConfig configures a Client.
type ClientConfig struct {
	Server string // host:port
	Key    *Key   // the client's own, with the secret; nil: no keys, for a server on this machine
	Public string // the server's public key

	// Publics returns the public keys that the server may have. Use it while the server's key is
	// being replaced: the client tries one key after another. The client calls Publics before each
	// new connection. If Publics is nil, the client tries only Public.
	Publics func() ([]string, error)

	speaks Version // always Current, except in tests
}

// Client is the end of the link in a node or a command. Any goroutine may use it. It connects by
// itself, and reconnects if the connection ends. The server treats each new connection as a new
// peer. Until the client registers again, the server refuses its messages as NotRegistered.
type Client struct {
	server   string
	speaks   Version
	incoming chan Incoming
	loop     *loop
	done     chan struct{}
	config   ClientConfig
	publics  []string // keys that the server may have, as Publics last returned them
	turn     int      // the next key to try: an index into publics, modulo its length
	context  *zmq4.Context
	dealer   *zmq4.Socket // used only by the goroutine of run
	monitor  *zmq4.Socket // used only by run: see connect

	mu      sync.Mutex
	request uint64
	asked   map[uint64]*call // by request
}

// A call waits for the answer to a request.
type call struct {
	answer chan Incoming // has room for one; closed: the connection has ended
	sent   bool          // a connection has taken the request; protected by Client.mu
}

// clients returns the ZeroMQ context that all clients of this process share. They share one because
// each context costs two threads. The context allows ten thousand sockets: each client has five, so
// ZeroMQ's default of one thousand would allow only two hundred clients.
var clients = sync.OnceValues(func() (*zmq4.Context, error) {
	ctx, err := zmq4.NewContext()
	if err == nil {
		err = ctx.SetMaxSockets(10_000)
	}
	return ctx, err
})

// Check returns the error with which Dial would fail because of its configuration.
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
		asked: map[uint64]*call{},
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
		closeBoth(l.dealer, l.monitor)
	}
	return err
}

// connect opens a socket that connects, and reconnects, to the server. It also opens a monitor, a
// socket that reports if the server refuses the dealer's handshake, and if a connection ends.
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
		dealer.Monitor(name, zmq4.EVENT_HANDSHAKE_FAILED_AUTH|zmq4.EVENT_DISCONNECTED),
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

// serverKey returns the public key that the next connection expects from the server.
func (l *Client) serverKey() string {
	if l.config.Publics != nil {
		// If Publics fails, the client continues to use the previous list.
		if read, err := l.config.Publics(); err == nil && len(read) > 0 {
			l.publics = read
		}
	}
	return l.publics[l.turn%len(l.publics)]
}

// stuckLimit is how long messages wait for a connection before the client opens a new socket. A
// socket whose handshake was refused never connects again, although the server may accept the key
// later.
const stuckLimit = time.Second

// lostPause is how long the client sends nothing after the end of a connection. For a moment, the
// dealer still accepts messages for the ended connection, which then never arrive. The pause is
// shorter than the time that the dealer waits before it connects again.
const lostPause = 50 * time.Millisecond

// Receive waits for the next message that does not answer a Call of this client. If a message
// cannot be decoded, the client answers it with a Refusal, and Receive waits on.
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

// Send sends a message and returns as soon as a connection has accepted it. If the message is an
// answer, request is the number of the request that it answers. If no connection accepted the
// message before the context ended, the error wraps ErrUnreachable.
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
// connection ends after it took the request, the error wraps ErrLost. If the context has no
// deadline, Call waits for ten seconds.
func (l *Client) Call(ctx context.Context, m Message) (Message, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
	}
	c := &call{answer: make(chan Incoming, 1)}
	l.mu.Lock()
	l.request++
	// The server also numbers its own requests from 1. The highest bit marks the client's numbers.
	request := l.request | 1<<63
	l.asked[request] = c
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
	case in, ok := <-c.answer:
		if !ok {
			return nil, fmt.Errorf("wait for the answer to %s from %q: %w", m.Kind(), l.server,
				ErrLost)
		}
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

// Register says hello, answers the challenge and registers. It sets the nonce of r.
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
	var waiting []outgoing // messages that the dealer does not accept yet
	var stuck time.Time    // since when the dealer has accepted nothing; zero: it accepts messages
	var lost time.Time     // when the last connection ended
	known := false         // a server with the expected key has refused this client's key
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
			if p.Socket != l.monitor {
				continue
			}
			switch event, _, _, err := l.monitor.RecvEvent(zmq4.DONTWAIT); {
			case err != nil:
			case event == zmq4.EVENT_HANDSHAKE_FAILED_AUTH:
				// If the client has no key of its own, nobody refused it because of its key.
				refused = l.config.Key != nil
			case event == zmq4.EVENT_DISCONNECTED:
				lost = time.Now()
				l.lose()
			}
		}
		var queue []outgoing
		queue, closed = l.loop.take()
		before := len(waiting) + len(queue)
		if waiting = append(waiting, queue...); time.Since(lost) > lostPause {
			waiting = l.put(waiting)
		}
		if refused { // it is no use to wait longer
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
				l.lose()
				l.loop.poller.RemoveBySocket(l.dealer)
				l.loop.poller.RemoveBySocket(l.monitor)
				closeBoth(l.dealer, l.monitor)
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
	closeBoth(l.dealer, l.monitor)
	close(l.done)
}

// closeBoth closes a dealer and its monitor. It ends the monitoring first. Otherwise, if a
// connection ends while the dealer lingers, ZeroMQ waits for the closed monitor. All clients of the
// process then wait, too.
func closeBoth(dealer, monitor *zmq4.Socket) {
	_ = dealer.Monitor("", 0) // the arguments are valid
	dealer.Close()
	monitor.Close()
}

// put sends messages in order and returns the messages that the dealer does not accept yet.
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
		l.mu.Lock()
		if c := l.asked[o.request]; c != nil {
			c.sent = err == nil
		}
		l.mu.Unlock()
		o.sent <- err
	}
	return nil
}

// lose ends the Calls whose connection has ended. An answer that came before the end counts, unless
// ZeroMQ drops it together with the connection, as happens now and then if this goroutine is late.
func (l *Client) lose() {
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
			if l.answered(Incoming{Request: request, Message: m}) {
				continue // the waiting Call gets the error
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

// answered passes a message to the Call that waits for it. It returns false if the message answers
// no Call, so that Receive must return it.
func (l *Client) answered(in Incoming) bool {
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
