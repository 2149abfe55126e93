package zmqtransport

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pebbe/zmq4"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// Transport is a minrtt.Transport on one REQ or REP socket. Only one goroutine at a time may use
// it, but any goroutine may call Close.
type Transport struct {
	counter func() uint64
	// All packets go to peer and come from it. For a REP socket peer is empty, because ZeroMQ does
	// not name the sender.
	peer netip.AddrPort

	answers bool // a REP socket: it must send once after each packet that it receives
	owes    bool // the socket has not yet sent after the last packet

	closed atomic.Bool
	use    sync.Mutex // held during calls on the socket
	socket *zmq4.Socket
	zmq    *zmq4.Context
	wait   time.Duration // the socket's receive timeout, ZMQ_RCVTIMEO
}

var _ minrtt.Transport = (*Transport)(nil)

const (
	// longestWait is the longest time that one call waits for a packet. Close may have to wait as
	// long.
	longestWait = 20 * time.Millisecond

	// connectTimeout is the longest time that Send waits for the connection.
	connectTimeout = time.Second
)

// Listen opens a REP socket that receives probes on a local address. Port 0 means any free port.
func Listen(
	local netip.AddrPort, counter func() uint64,
) (t *Transport, bound netip.AddrPort, err error) {
	t, err = open(zmq4.REP, local, counter, func(s *zmq4.Socket) error {
		if err := s.Bind(endpoint(local)); err != nil {
			return err
		}
		at, err := s.GetLastEndpoint()
		if err != nil {
			return err
		}
		bound, err = netip.ParseAddrPort(strings.TrimPrefix(at, "tcp://"))
		return err
	})
	if err != nil {
		return nil, bound, fmt.Errorf("listen on ZeroMQ %v: %w", local, err)
	}
	t.answers = true
	return t, bound, nil
}

// Dial opens a REQ socket to one remote address. A thread of ZeroMQ makes the connection, in the
// network namespace of the thread that calls Dial.
func Dial(remote netip.AddrPort, counter func() uint64) (*Transport, error) {
	t, err := open(zmq4.REQ, remote, counter, func(s *zmq4.Socket) error {
		// Relaxed: if an answer got lost, the next request need not wait for it. Correlate: if an
		// answer comes late, the next request does not receive it.
		return errors.Join(s.SetReqRelaxed(1), s.SetReqCorrelate(1), s.Connect(endpoint(remote)))
	})
	if err != nil {
		return nil, fmt.Errorf("dial ZeroMQ %v: %w", remote, err)
	}
	t.peer = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	return t, nil
}

func endpoint(a netip.AddrPort) string { return "tcp://" + a.String() }

func open(
	kind zmq4.Type, address netip.AddrPort, counter func() uint64,
	connect func(*zmq4.Socket) error,
) (*Transport, error) {
	if counter == nil {
		return nil, errors.New("no counter given")
	}
	// Each socket has a ZeroMQ context of its own. The threads of a context start in the network
	// namespace of the thread that creates the context's first socket.
	zmq, err := zmq4.NewContext()
	if err != nil {
		return nil, err
	}
	t := &Transport{counter: counter, zmq: zmq}
	if t.socket, err = zmq.NewSocket(kind); err == nil {
		err = errors.Join(t.socket.SetLinger(0), t.socket.SetIpv6(address.Addr().Unmap().Is6()),
			t.socket.SetSndtimeo(connectTimeout), connect(t.socket))
	}
	if err != nil {
		if t.socket != nil {
			err = errors.Join(err, t.socket.Close())
		}
		return nil, errors.Join(err, zmq.Term())
	}
	return t, nil
}

// Send does what minrtt.Transport.Send does.
func (t *Transport) Send(packet []byte, _ netip.AddrPort) (minrtt.Sent, error) {
	t.use.Lock()
	defer t.use.Unlock()
	if t.closed.Load() {
		return minrtt.Sent{}, minrtt.ErrClosed
	}
	for {
		before := t.counter()
		_, err := t.socket.SendBytes(packet, 0)
		if errors.Is(err, zmq4.Errno(syscall.EINTR)) {
			continue
		}
		if err != nil {
			return minrtt.Sent{}, fmt.Errorf("send by ZeroMQ: %w", err)
		}
		t.owes = false
		return minrtt.Sent{Before_cycles: before}, nil
	}
}

// Receive does what minrtt.Transport.Receive does.
func (t *Transport) Receive(b []byte, until time.Time) (minrtt.Received, error) {
	for {
		if r, done, err := t.receiveOnce(b, time.Until(until)); done {
			return r, err
		}
	}
}

// receiveOnce waits for a packet, but no longer than longestWait, so that Close can proceed. It
// reports whether there is a result.
func (t *Transport) receiveOnce(
	b []byte, left time.Duration,
) (r minrtt.Received, done bool, err error) {
	t.use.Lock()
	defer t.use.Unlock()
	if t.closed.Load() {
		return r, true, minrtt.ErrClosed
	}
	if t.owes {
		// The answerer did not answer the last packet, but the socket must send before it can
		// receive.
		if _, err := t.socket.SendBytes(nil, 0); err != nil {
			return r, true, fmt.Errorf("send by ZeroMQ: %w", err)
		}
		t.owes = false
	}
	if wait := max(min(left, longestWait), 0); wait != t.wait || t.wait == 0 {
		if err := t.socket.SetRcvtimeo(wait); err != nil {
			return r, true, fmt.Errorf("receive by ZeroMQ: %w", err)
		}
		t.wait = wait
	}
	packet, err := t.socket.RecvBytes(0)
	r.After_cycles = t.counter()
	switch {
	case err == nil:
		t.owes = t.answers
		copy(b, packet)
		r.Length, r.From = len(packet), t.peer
		return r, true, nil
	case errors.Is(err, zmq4.Errno(syscall.EAGAIN)) && left <= longestWait:
		return r, true, minrtt.ErrTimeout
	case errors.Is(err, zmq4.Errno(syscall.EAGAIN)), errors.Is(err, zmq4.Errno(syscall.EINTR)):
		return r, false, nil
	}
	return r, true, fmt.Errorf("receive by ZeroMQ: %w", err)
}

// SentStamps does nothing, because the kernel takes no stamps of these packets.
func (t *Transport) SentStamps(func([]byte, minrtt.Stamps)) {}

// Sources returns Unsupported. ZeroMQ hides its sockets, so the kernel cannot be asked for stamps.
func (t *Transport) Sources() (transmit, receive minrtt.Source) {
	return minrtt.Unsupported, minrtt.Unsupported
}

// Now does what minrtt.Transport.Now does.
func (t *Transport) Now() time.Time { return time.Now() }

// Close closes the socket.
func (t *Transport) Close() error {
	if t.closed.Swap(true) {
		return minrtt.ErrClosed
	}
	t.use.Lock()
	defer t.use.Unlock()
	return errors.Join(t.socket.Close(), t.zmq.Term())
}
