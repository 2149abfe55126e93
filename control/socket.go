package control

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pebbe/zmq4"
)

// ErrClosed is returned when this end of the link is closed.
var ErrClosed = errors.New("link is closed")

const (
	handshakeLimit    = 2 * time.Second // for the whole handshake, however slowly bytes arrive
	wireHeartbeat     = 2 * time.Second // of ZeroMQ itself: finds dead connections
	wireHeartbeatDead = 6 * time.Second // also finds messages whose bytes arrive too slowly
	wireOverhead      = 1024            // what CURVE adds; a longer frame ends its connection
	sendQueue         = 1000            // messages to one peer that wait in ZeroMQ
	lookEvery         = 50 * time.Millisecond
	lingerAtClose     = 200 * time.Millisecond
)

// onThisMachine reports whether no other machine can reach "host:port". The only name that it
// accepts is localhost; it looks up no names.
func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// portOf returns the port of "host:port".
func portOf(address string) int {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text) // the server listens on this address, so it has a port
	return port
}

func setCommon(s *zmq4.Socket, address string) error {
	return errors.Join(
		s.SetMaxmsgsize(MaxMessageBytes+wireOverhead),
		s.SetHandshakeIvl(handshakeLimit),
		s.SetHeartbeatIvl(wireHeartbeat),
		s.SetHeartbeatTimeout(wireHeartbeatDead),
		s.SetLinger(lingerAtClose),
		s.SetSndhwm(sendQueue),
		// ZeroMQ aborts the whole process if a peer goes away while ZeroMQ waits for the program to
		// read that peer's messages. So ZeroMQ must always continue to read, and flows limits what
		// waits.
		s.SetRcvhwm(0),
		s.SetIpv6(strings.HasPrefix(address, "[")),
	)
}

// A loop owns a ZeroMQ socket, which only one goroutine at a time may use. It also owns a pair of
// sockets with which other goroutines wake it.
type loop struct {
	poller *zmq4.Poller
	bell   *zmq4.Socket // the loop's end

	mu     sync.Mutex // guards the following fields
	ringer *zmq4.Socket
	rung   bool
	closed bool
	queue  []outgoing
}

// outgoing is a message on its way to the loop.
type outgoing struct {
	peer    Peer // server only
	frames  [][]byte
	request uint64
	revoked *Key       // server only, alone in its message: the key to revoke
	until   time.Time  // client only: when to give up
	sent    chan error // client only: has room for one error
}

// pairs counts the pairs of sockets in this process. Each pair needs a name of its own.
var pairs atomic.Int64

func newLoop(ctx *zmq4.Context) (l *loop, err error) {
	name := fmt.Sprintf("inproc://bell-%d", pairs.Add(1))
	l = &loop{poller: zmq4.NewPoller()}
	if l.bell, err = ctx.NewSocket(zmq4.PAIR); err != nil {
		return nil, err
	}
	if l.ringer, err = ctx.NewSocket(zmq4.PAIR); err != nil {
		return nil, errors.Join(err, l.bell.Close())
	}
	err = errors.Join(
		l.bell.SetLinger(0), l.ringer.SetLinger(0), l.bell.Bind(name), l.ringer.Connect(name))
	if err != nil {
		return nil, errors.Join(err, l.bell.Close(), l.ringer.Close())
	}
	l.poller.Add(l.bell, zmq4.POLLIN)
	return l, nil
}

// put queues a message and wakes the loop. It returns false if the loop is closed or the queue is
// full.
func (l *loop) put(o outgoing) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.queue) >= 100*sendQueue {
		return false
	}
	l.queue = append(l.queue, o)
	l.ring()
	return true
}

// ring wakes the loop. The caller holds l.mu.
func (l *loop) ring() {
	if !l.rung && l.ringer != nil {
		l.rung = true
		l.ringer.SendBytes(nil, zmq4.DONTWAIT) // it fails only if the bell rings already
	}
}

// take returns the queued messages, and whether the loop must end.
func (l *loop) take() (queue []outgoing, closed bool) {
	for {
		if _, err := l.bell.RecvBytes(zmq4.DONTWAIT); err != nil {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rung = false
	queue, l.queue = l.queue, nil
	return queue, l.closed
}

func (l *loop) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.rung = false
		l.ring()
	}
}

// end releases the bell. It is the last action of the loop.
func (l *loop) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.ringer.Close()
	l.ringer = nil
	l.bell.Close()
}

func isErrno(err error, code syscall.Errno) bool { return zmq4.AsErrno(err) == zmq4.Errno(code) }
