package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pebbe/zmq4"
)

var (
	// ErrRefused says that the server refused a request. A *RefusedError wraps it.
	ErrRefused = errors.New("refused by the server")

	// ErrUnreachable is returned if a message could not be sent in time. Either nothing answers at
	// the server's address, or the program there has another key.
	ErrUnreachable = errors.New("server cannot be reached")

	// ErrLost is returned by a Call if the request was sent, but the connection ended before the
	// client had the answer. It is not known whether the server did what was requested. The client
	// connects again by itself, so a request that may be repeated can be sent again at once.
	ErrLost = errors.New("connection ended before the answer came: whether the server did it is " +
		"not known")

	// ErrKey is returned if the server rejects the client's key. It wraps ErrUnreachable.
	ErrKey = fmt.Errorf("%w: it does not let this key in", ErrUnreachable)
)

// RefusedError is the error that a Call returns if the server answers with a Refusal.
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

// Client is one end of the link, in a node or in a command; the other end is a Server. Any
// goroutine may use it. It connects by itself, and reconnects if the connection ends. The server
// treats each new connection as a new peer. Until the client registers again, the server refuses
// its messages as NotRegistered.
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
	asked   map[uint64]*call // the Calls that wait for an answer, by the number of their request
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
	if err := checkEndpoint(c.Server); err != nil {
		return fmt.Errorf("connect to %q: %w", c.Server, err)
	}
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

// connect opens the dealer: the ZeroMQ socket that connects, and reconnects, to the server. It also
// opens a monitor, a socket that reports if the server refuses the dealer's handshake, and if a
// connection ends.
func (l *Client) connect(ctx *zmq4.Context) (dealer, monitor *zmq4.Socket, err error) {
	if dealer, err = ctx.NewSocket(zmq4.DEALER); err != nil {
		return nil, nil, err
	}
	if monitor, err = ctx.NewSocket(zmq4.PAIR); err != nil {
		dealer.Close()
		return nil, nil, err
	}
	name := fmt.Sprintf("inproc://handshakes-%d", pairCount.Add(1))
	err = errors.Join(
		dealer.Monitor(name, zmq4.EVENT_HANDSHAKE_FAILED_AUTH|zmq4.EVENT_DISCONNECTED),
		monitor.SetLinger(0),
		monitor.Connect(name),
		setCommon(dealer, l.server),
		checkByZeroMQ(dealer),
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

// Receive waits for the next message that does not answer a Call of this client. If a message
// cannot be decoded, the client answers it with a Refusal, and Receive goes on waiting.
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
	o := outgoingItem{frames: frames, request: request, sent: make(chan error, 1)}
	o.until, _ = ctx.Deadline()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("send %s to %q: %w: %w", m.Kind(), l.server, ErrUnreachable, err)
	}
	if !l.loop.putMessage(o) {
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

// CallLimit is how long Call waits for an answer if its context has no deadline.
const CallLimit = 10 * time.Second

// Call sends a request and waits for its answer. A Refusal is returned as a *RefusedError. If the
// connection ends after the request was sent, the error wraps ErrLost. If the context has no
// deadline, Call waits for CallLimit.
func (l *Client) Call(ctx context.Context, m Message) (Message, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, CallLimit)
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

// Register sends a Hello, puts the nonce of the server's Challenge into r, and sends r. It returns
// the server's Welcome.
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
