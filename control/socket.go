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

// ErrClosed is returned if this end of the link is closed.
var ErrClosed = errors.New("link is closed")

const (
	handshakeLimit    = 2 * time.Second // time for the whole handshake, even if bytes arrive slowly
	wireHeartbeat     = 2 * time.Second // how often ZeroMQ or the kernel checks the connection
	wireHeartbeatDead = 6 * time.Second // a silence of this length ends it
	wireOverhead      = 1024            // bytes that CURVE may add to a frame
	sendQueue         = 1000            // number of messages to one peer that may wait in ZeroMQ
	lookEvery         = 50 * time.Millisecond
	lingerAtClose     = 200 * time.Millisecond
)

// onThisMachine reports whether no other machine can reach "host:port". Of all host names, it
// accepts only localhost, because it does not look up names.
func onThisMachine(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// ErrAddress is returned if an address lacks its host or its port.
var ErrAddress = errors.New("an address is HOST:PORT")

// checkEndpoint returns an error that says what an address lacks.
func checkEndpoint(address string) error {
	switch host, port, err := net.SplitHostPort(address); {
	case err != nil && !strings.HasSuffix(address, "]") && strings.Count(address, ":") > 1:
		return fmt.Errorf("%w: write an IPv6 address in brackets, such as [::1]:7330", ErrAddress)
	case err != nil || port == "":
		return fmt.Errorf("%w: the port is missing: write %s:7330", ErrAddress,
			strings.TrimSuffix(address, ":"))
	case host == "":
		return fmt.Errorf("%w: the host is missing: write 127.0.0.1%s or 0.0.0.0%s", ErrAddress,
			address, address)
	}
	return nil
}

// portOf returns the port of "host:port".
func portOf(address string) int {
	_, text, _ := net.SplitHostPort(address)
	port, _ := strconv.Atoi(text) // the server listens on this address, so the port is valid
	return port
}

func setCommon(s *zmq4.Socket, address string) error {
	return errors.Join(
		s.SetMaxmsgsize(MaxMessageBytes+wireOverhead),
		s.SetHandshakeIvl(handshakeLimit),
		s.SetLinger(lingerAtClose),
		s.SetSndhwm(sendQueue),
		// If ZeroMQ's queue of received messages is full, ZeroMQ waits for the program to read. If
		// the peer goes away during this wait, ZeroMQ aborts the whole process. So the queue has no
		// limit. Instead, flows limits the memory of the queue.
		s.SetRcvhwm(0),
		s.SetIpv6(strings.HasPrefix(address, "[")),
	)
}

// checkByZeroMQ makes ZeroMQ check a client's connection with heartbeats.
func checkByZeroMQ(s *zmq4.Socket) error {
	return errors.Join(s.SetHeartbeatIvl(wireHeartbeat), s.SetHeartbeatTimeout(wireHeartbeatDead))
}

// checkByKernel makes the kernel check a server's connections. A server does not use ZeroMQ's
// heartbeats: for each answer to a heartbeat, ZeroMQ searches the timers of all connections, so ten
// thousand connections would keep a core busy.
func checkByKernel(s *zmq4.Socket) error {
	const every = int(wireHeartbeat / time.Second)
	return errors.Join(s.SetTcpKeepalive(1), s.SetTcpKeepaliveIdle(every),
		s.SetTcpKeepaliveIntvl(every), s.SetTcpKeepaliveCnt(int(wireHeartbeatDead/wireHeartbeat)-1),
		s.SetTcpMaxrt(wireHeartbeatDead))
}

// A loop passes messages to the goroutine that owns a ZeroMQ socket: only one goroutine at a time
// may use such a socket. Other goroutines queue messages in the loop. Then they wake the owner
// through a pair of sockets, which the owner can poll.
type loop struct {
	poller *zmq4.Poller
	bell   *zmq4.Socket // the receiving end of the pair

	mu     sync.Mutex // guards the fields below
	ringer *zmq4.Socket
	rung   bool
	closed bool
	queue  []outgoingItem
}

// outgoingItem is what a loop's goroutine must do: send a message or, if revoked is set, end the
// connections of a key.
type outgoingItem struct {
	peer    Peer // server only
	frames  [][]byte
	request uint64
	revoked *Key       // server only: the key to revoke; all other fields are then zero
	until   time.Time  // client only: when to give up
	sent    chan error // client only: has room for one error
}

// pairCount counts the pairs of sockets in this process, because each pair needs a name of its own.
var pairCount atomic.Int64

func newLoop(ctx *zmq4.Context) (l *loop, err error) {
	name := fmt.Sprintf("inproc://bell-%d", pairCount.Add(1))
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

// putMessage queues a message and wakes the loop's goroutine. If the loop is closed or the queue is
// full, putMessage returns false.
func (l *loop) putMessage(o outgoingItem) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.queue) >= 100*sendQueue {
		return false
	}
	l.queue = append(l.queue, o)
	l.wakeLoop()
	return true
}

// wakeLoop wakes the loop's goroutine. The caller must have locked l.mu.
func (l *loop) wakeLoop() {
	if !l.rung && l.ringer != nil {
		l.rung = true
		l.ringer.SendBytes(nil, zmq4.DONTWAIT) // it fails only if the owner is being woken already
	}
}

// takeQueued returns the queued messages. The result closed says that the loop's goroutine must
// end.
func (l *loop) takeQueued() (queue []outgoingItem, closed bool) {
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
		l.wakeLoop()
	}
}

// endLoop closes the loop's sockets. It is the last call of the loop's goroutine.
func (l *loop) endLoop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.ringer.Close()
	l.ringer = nil
	l.bell.Close()
}

func isErrno(err error, code syscall.Errno) bool { return zmq4.AsErrno(err) == zmq4.Errno(code) }
