package control

import (
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// flows limits the memory that unfinished messages take. ZeroMQ keeps the frames of a message until
// the last frame has arrived, and whole messages until they are received. It limits the size of a
// frame (see setCommon), but neither the number of frames nor their sum, so one peer could fill
// this machine's memory. flows therefore compares, for each connection, the bytes that arrived on
// its socket with the bytes of the messages that ZeroMQ delivered. It cuts a connection when the
// difference exceeds a limit. Any goroutine may use flows.
type flows struct {
	port    int // the server's
	refused *refusals

	mu    sync.Mutex
	open  map[int]*flow // by ZeroMQ's descriptor of the connection
	blind bool          // this ZeroMQ does not report the descriptor of a message
}

// A flow is one connection.
type flow struct {
	base  uint64 // bytes received when all whole messages had last been delivered
	taken uint64 // bytes of messages delivered since then
}

const (
	// maxPending is the limit of one connection. It allows for a message of the longest kind, the
	// messages that wait for their turn, and the system's own buffers.
	maxPending = 64 << 20

	// maxPendingAll is the limit of all connections together, since one key may have many
	// connections. The connection with the most bytes is cut first.
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

// took records a message of some bytes. The descriptor is a text because ZeroMQ returns it as text.
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

// drained records that all whole messages have been delivered. All other bytes of a connection
// belong to a message that is still arriving.
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

// received returns the number of bytes that arrived on a connection. It fails if the descriptor is
// not, or no longer, a connection of the server.
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

// look cuts the connections with too many bytes of unfinished messages.
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
		f.refused.add(ReasonTooLarge, "connection cut: it sends and does not end its message",
			"bytes", pending[most])
		// ZeroMQ notices that the connection ended, and frees all that arrived on it.
		_ = unix.Shutdown(most, unix.SHUT_RDWR)
		all -= pending[most]
		delete(pending, most)
		delete(f.open, most)
	}
}
