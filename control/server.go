package control

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pebbe/zmq4"
)

// Peer identifies one connection to the server. A client that connects again is another peer.
type Peer string

func (p Peer) String() string { return hex.EncodeToString([]byte(p)) }

// ServerConfig configures a Server.
type ServerConfig struct {
	Address string // host:port; port 0 means any free port
	Key     *Key   // the server's, with the secret; nil: no keys, and Address is on this machine

	// Clients returns the keys that the server accepts. The server calls it once a second, and up
	// to ten times a second while connections arrive. If Clients also returns an error, the server
	// still accepts the returned keys. If a key is missing from two lists in a row, a second apart,
	// the server closes the key's connections. Lists with a temporary error do not count here.
	Clients func() ([]Key, error)

	Log *slog.Logger // nil: the server logs nothing

	speaks Version // always Current, except in tests
}

// Incoming is a message that a Server or a Client received, or an event of a Server.
type Incoming struct {
	Peer    Peer // set by a Server only
	Key     Key  // the peer's key; set by a Server only; zero without keys
	Request uint64
	Message Message // nil: the message with number Request did not reach Peer, or Revoked is set

	// Revoked says that Key was taken off the list, and that Peer's connection was closed. Receive
	// returns one such Incoming for each peer with the key. Then it returns one more without a
	// Peer, even if the key had no connections.
	Revoked bool

	bytes int64 // length of the message on the wire
}

// Bytes returns the length of the message on the wire.
func (in Incoming) Bytes() int64 { return in.bytes }

// Server is the server's end of the link. Any goroutine may use it.
type Server struct {
	speaks   Version
	address  string
	refused  *refusals
	incoming chan Incoming
	queued   atomic.Int64 // bytes of all messages in incoming
	flows    *flows
	loop     *loop
	done     chan struct{}
	monitor  chan struct{}
	zap      *zap
	context  *zmq4.Context
	router   *zmq4.Socket // used only by the goroutine of run

	revoked []Incoming // used only by run: revocations that wait until incoming has room

	mu          sync.Mutex
	registered  map[Peer]bool
	connections map[Peer]connection
	peers       map[int]Peer // of connections, by the descriptor
}

// Check returns the error with which Listen would fail because of its configuration.
func (c ServerConfig) Check() error {
	if err := checkEndpoint(c.Address); err != nil {
		return fmt.Errorf("listen on %q: %w", c.Address, err)
	}
	if c.Key == nil && !onThisMachine(c.Address) {
		return fmt.Errorf("listen on %q: %w", c.Address, ErrNeedsKeys)
	}
	if c.Key != nil && (c.Key.Role != RoleServer || c.Key.Secret == "") {
		return fmt.Errorf("listen on %q: key %q is not a server's secret key",
			c.Address, c.Key.Name)
	}
	return nil
}

// Listen opens a server.
func Listen(c ServerConfig) (*Server, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.speaks == (Version{}) {
		c.speaks = Current
	}
	s := &Server{
		speaks:     c.speaks,
		refused:    newRefusals(c.Log),
		incoming:   make(chan Incoming, 256),
		done:       make(chan struct{}),
		monitor:    make(chan struct{}),
		registered: map[Peer]bool{}, connections: map[Peer]connection{},
		peers: map[int]Peer{},
	}
	if err := s.open(c); err != nil {
		return nil, fmt.Errorf("listen on %q: %w", c.Address, err)
	}
	go s.run()
	return s, nil
}

func (s *Server) open(c ServerConfig) (err error) {
	if s.context, err = zmq4.NewContext(); err != nil {
		return err
	}
	defer func() {
		if err == nil {
			return
		}
		if s.loop != nil {
			s.loop.endLoop()
		}
		if s.zap != nil {
			s.zap.close()
		}
		if s.router != nil {
			s.router.Close()
		}
		s.context.Term()
	}()
	if s.router, err = s.context.NewSocket(zmq4.ROUTER); err != nil {
		return err
	}
	err = errors.Join(setCommon(s.router, c.Address), checkByKernel(s.router),
		s.router.SetRouterMandatory(1))
	if err != nil {
		return err
	}
	if s.loop, err = newLoop(s.context); err != nil {
		return err
	}
	if c.Key != nil {
		revoke := func(k Key) bool { return s.loop.putMessage(outgoingItem{revoked: &k}) }
		if s.zap, err = newZap(s.context, c.Clients, revoke, s.refused); err != nil {
			return err
		}
		if err := errors.Join(s.router.SetZapDomain(zapDomain), s.router.SetCurveServer(1),
			s.router.SetCurveSecretkey(c.Key.Secret)); err != nil {
			return err
		}
	}
	events := zmq4.EVENT_ACCEPTED | zmq4.EVENT_DISCONNECTED |
		zmq4.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq4.EVENT_HANDSHAKE_FAILED_PROTOCOL |
		zmq4.EVENT_HANDSHAKE_FAILED_AUTH | zmq4.EVENT_MONITOR_STOPPED
	if err := s.router.Monitor("inproc://monitor", events); err != nil {
		return err
	}
	monitor, err := s.context.NewSocket(zmq4.PAIR)
	if err != nil {
		return err
	}
	if err := errors.Join(monitor.SetLinger(0), monitor.Connect("inproc://monitor")); err != nil {
		monitor.Close()
		return err
	}
	if err := s.router.Bind("tcp://" + c.Address); err != nil {
		monitor.Close()
		return err
	}
	endpoint, err := s.router.GetLastEndpoint()
	if err != nil {
		monitor.Close()
		return err
	}
	s.address = strings.TrimPrefix(endpoint, "tcp://")
	s.flows = newFlows(portOf(s.address), s.refused)
	go s.followEvents(monitor)
	return nil
}

// Address returns the host:port on which the server listens.
func (s *Server) Address() string { return s.address }

// Refused returns the number of refusals for each reason.
func (s *Server) Refused() map[Reason]uint64 { return s.refused.all() }

// Receive waits for the next message that the link did not refuse. If Receive returns a Register,
// the Register has answered its challenge, and its peer is registered until Forget is called.
func (s *Server) Receive(ctx context.Context) (Incoming, error) {
	taken := func(in Incoming) (Incoming, error) {
		s.queued.Add(-in.bytes)
		return in, nil
	}
	select {
	case in := <-s.incoming:
		return taken(in)
	default:
	}
	select {
	case in := <-s.incoming:
		return taken(in)
	case <-s.done:
		return Incoming{}, ErrClosed
	case <-ctx.Done():
		return Incoming{}, ctx.Err()
	}
}

// Send queues a message to a peer and does not wait. If Send returns an error, the message was not
// queued. If the peer of a queued message is gone, Receive later returns an Incoming without a
// message.
func (s *Server) Send(to Peer, request uint64, m Message) error {
	frames, err := encode(m, request, s.speaks)
	if err != nil {
		return err
	}
	if !s.loop.putMessage(outgoingItem{peer: to, frames: frames, request: request}) {
		return fmt.Errorf("send %s to %s: %w", m.Kind(), to, ErrClosed)
	}
	return nil
}

// Forget ends a peer's registration. The link refuses the peer's messages until it registers again.
func (s *Server) Forget(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.registered, p)
}

// Admit registers a peer that has sent no Register. The peer is registered until Forget is called.
func (s *Server) Admit(p Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registered[p] = true
}

// Close ends the server. A message that has not left within a fifth of a second is lost.
func (s *Server) Close() error {
	s.loop.close()
	<-s.done
	return nil
}

// run is the only goroutine that uses the router.
func (s *Server) run() {
	gate := newGate(time.Now)
	looked := time.Now()
	id := s.loop.poller.Add(s.router, zmq4.POLLIN)
	for closed := false; !closed; {
		wait := lookEvery
		if s.full() { // do not read more: senders must wait, so that memory does not grow
			s.loop.poller.Update(id, 0)
			wait = time.Millisecond
		} else {
			s.loop.poller.Update(id, zmq4.POLLIN)
		}
		polled, err := s.loop.poller.Poll(wait)
		if err != nil && !isErrno(err, syscall.EINTR) {
			break
		}
		if now := time.Now(); now.Sub(looked) >= lookEvery {
			looked = now
			s.flows.cutExcessive()
		}
		for _, p := range polled {
			if p.Socket == s.router {
				s.passArrived(gate)
			}
		}
		var queue []outgoingItem
		queue, closed = s.loop.takeQueued()
		for _, o := range queue {
			if o.revoked != nil {
				s.revoke(*o.revoked)
			} else {
				s.put(o)
			}
		}
		for len(s.revoked) > 0 && len(s.incoming) < cap(s.incoming) {
			s.incoming <- s.revoked[0]
			s.revoked = s.revoked[1:]
		}
	}
	s.loop.endLoop()
	s.router.Close()
	<-s.monitor
	if s.zap != nil {
		s.zap.close()
	}
	s.context.Term()
	close(s.done)
}

func (s *Server) put(o outgoingItem) {
	parts := make([]any, 0, len(o.frames)+1)
	parts = append(parts, []byte(o.peer))
	for _, f := range o.frames {
		parts = append(parts, f)
	}
	if _, err := s.router.SendMessageDontwait(parts...); err != nil {
		s.refused.add(ReasonUnsent, "peer takes no messages", "peer", o.peer, "error", err)
		select {
		case s.incoming <- Incoming{Peer: o.peer, Request: o.request}:
		default:
		}
	}
}

// maxQueued is how many bytes of messages may wait for Receive, as counted on the wire. Once
// decoded, a message may take several times as much memory.
const maxQueued = 16 << 20

func (s *Server) full() bool {
	return len(s.incoming) == cap(s.incoming) || s.queued.Load() >= maxQueued
}

// passArrived passes arrived messages on to Receive, while Receive's queue has room.
func (s *Server) passArrived(g *gate) {
	for !s.full() {
		peer, err := s.router.RecvBytes(zmq4.DONTWAIT)
		if err != nil {
			s.flows.noteDrained()
			return
		}
		frames, properties, err := s.readFrames()
		if err != nil {
			return
		}
		s.judgeMessage(g, Peer(peer), frames, properties)
	}
}

// followEvents follows ZeroMQ's events. It counts connections that ended and handshakes that
// failed.
func (s *Server) followEvents(monitor *zmq4.Socket) {
	defer close(s.monitor)
	defer monitor.Close()
	for {
		event, _, value, err := monitor.RecvEvent(0)
		if err != nil {
			if isErrno(err, syscall.EINTR) {
				continue
			}
			return
		}
		switch event {
		case zmq4.EVENT_ACCEPTED:
			s.flows.accepted(value)
		case zmq4.EVENT_DISCONNECTED:
			s.flows.ended(value)
			if s.removeEnded(value) {
				s.refused.add(ReasonDisconnected, "connection ended without a farewell")
			}
		case zmq4.EVENT_MONITOR_STOPPED:
			return
		default:
			s.refused.add(ReasonHandshake, "handshake refused", "event", event.String())
		}
	}
}
