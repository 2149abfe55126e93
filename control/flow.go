package control

import (
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// ZeroMQ keeps a message until its last frame has come, however many there are, and whole messages
// until they are taken. It has a limit for none but single frames (see setCommon). So one peer
// could fill this machine's memory. flows watches, from outside, how much each connection has brought that did not come out as
// messages, and cuts it beyond a limit. Any goroutine may use it.
type flows struct {
	port    int // that the server listens on
	refused *refusals

	mu    sync.Mutex
	open  map[int]*flow // by ZeroMQ's descriptor of the connection
	blind bool          // this ZeroMQ does not say by which descriptor a message came
}

// A flow is one connection.
type flow struct {
	base  uint64 // bytes that it had brought when all messages that were whole had been taken
	taken uint64 // bytes of messages since
}

const (
	// Of one connection: a message of the longest kind, those that wait for their turn, and what
	// the system's own buffers hold.
	maxPending = 64 << 20

	// Of all together: a key may have many connections. The one with most goes first.
	maxPendingAll = 192 << 20
)

func newFlows(port int, refused *refusals) *flows {
	return &flows{port: port, refused: refused, open: map[int]*flow{}}
}

func (f *flows) accepted(fd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[fd] = &flow{}
}

func (f *flows) ended(fd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, fd)
}

// took notes a message, by the descriptor as ZeroMQ writes it.
func (f *flows) took(fd string, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := strconv.Atoi(fd)
	if err != nil {
		f.blind = true
	} else if f.open[n] != nil {
		f.open[n].taken += uint64(bytes)
	}
}

// drained notes that all messages that were whole have been taken: what a connection that brought
// one has beyond them is on its way.
func (f *flows) drained() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for fd, flow := range f.open {
		if flow.taken == 0 {
			continue
		}
		if received, err := f.received(fd); err == nil {
			flow.base, flow.taken = received, 0
		}
	}
}

// received is how many bytes a connection has brought. The error says that it is none of the
// server's, any more.
func (f *flows) received(fd int) (uint64, error) {
	own, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	port := 0
	switch a := own.(type) {
	case *unix.SockaddrInet4:
		port = a.Port
	case *unix.SockaddrInet6:
		port = a.Port
	}
	if port != f.port {
		return 0, fmt.Errorf("socket is at port %d", port)
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, err
	}
	return info.Bytes_received, nil
}

// look cuts connections that have brought too much.
func (f *flows) look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blind {
		return
	}
	pending, all := map[int]uint64{}, uint64(0)
	for fd, flow := range f.open {
		received, err := f.received(fd)
		if err != nil {
			delete(f.open, fd)
			continue
		}
		if known := flow.base + flow.taken; received > known {
			pending[fd] = received - known
			all += received - known
		}
	}
	for {
		most := -1
		for fd := range pending {
			if most < 0 || pending[fd] > pending[most] {
				most = fd
			}
		}
		if most < 0 || pending[most] <= maxPending && all <= maxPendingAll {
			return
		}
		f.refused.add(ReasonTooLarge, "connection is cut: it sends and does not end its message", "bytes", pending[most])
		_ = unix.Shutdown(most, unix.SHUT_RDWR) // ZeroMQ finds it ended, and lets go of all that came
		all -= pending[most]
		delete(pending, most)
		delete(f.open, most)
	}
}
