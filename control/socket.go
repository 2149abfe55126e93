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

// ErrClosed is returned by an end of a link that was closed.
var ErrClosed = errors.New("link is closed")

const (
	handshakeLimit    = 2 * time.Second // for the whole handshake, however it drips
	wireHeartbeat     = 2 * time.Second // ZeroMQ's own, which finds dead connections,
	wireHeartbeatDead = 6 * time.Second // and messages that drip
	wireOverhead      = 1024            // CURVE makes a frame longer; one beyond that ends its connection
	sendQueue         = 1000            // messages to one peer that wait in ZeroMQ
	lookEvery         = 50 * time.Millisecond
	lingerAtClose     = 200 * time.Millisecond
)

// onThisMachine says whether "host:port" is surely not reached from elsewhere. A name other than localhost is not looked up.
func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// portOf is the port of "host:port".
func portOf(address string) int {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text) // of an address that is listened on
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
		// ZeroMQ aborts the whole process if a peer is gone while it waits for its messages to be
		// read. So it reads on, and flows limits what waits.
		s.SetRcvhwm(0),
		s.SetIpv6(strings.HasPrefix(address, "[")),
	)
}

// A loop owns a ZeroMQ socket, which one goroutine at a time may use, and a pair of sockets by which others wake it.
type loop struct {
	poller *zmq4.Poller
	bell   *zmq4.Socket // the loop's end

	mu     sync.Mutex // of what follows
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
	revoked *Key       // server only, and then alone: a key that is to be revoked
	until   time.Time  // client only: when to give up
	sent    chan error // client only: has room for one
}

// pairs counts the pairs of sockets within this process: each wants a name of its own.
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
	if err := errors.Join(l.bell.SetLinger(0), l.ringer.SetLinger(0), l.bell.Bind(name), l.ringer.Connect(name)); err != nil {
		return nil, errors.Join(err, l.bell.Close(), l.ringer.Close())
	}
	l.poller.Add(l.bell, zmq4.POLLIN)
	return l, nil
}

// put queues a message and wakes the loop; false: it is closed, or the queue is full.
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

// ring wakes the loop. l.mu is held.
func (l *loop) ring() {
	if !l.rung && l.ringer != nil {
		l.rung = true
		l.ringer.SendBytes(nil, zmq4.DONTWAIT) // a bell that cannot be rung is ringing
	}
}

// take returns what was queued, and whether the loop is to end.
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

// end releases the bell; it is the loop's last deed.
func (l *loop) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.ringer.Close()
	l.ringer = nil
	l.bell.Close()
}

func isErrno(err error, code syscall.Errno) bool { return zmq4.AsErrno(err) == zmq4.Errno(code) }
