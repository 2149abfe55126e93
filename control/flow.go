package control

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// flows limits the memory that unfinished messages take. ZeroMQ keeps the frames of a message until
// the last frame has arrived, and complete messages until the program receives them. ZeroMQ limits
// the size of a frame (see setCommon), but neither the number of frames nor their sum. So one peer
// could fill this machine's memory. Therefore flows compares, for each connection, the bytes that
// arrived on the socket with the bytes of the messages that ZeroMQ delivered. If the difference
// exceeds a limit, flows cuts the connection. Any goroutine may use flows.
type flows struct {
	port    int // the port on which the server listens
	refused *refusals

	mu    sync.Mutex
	open  map[int]*flow // by the descriptor of ZeroMQ's socket
	some  []int         // descriptors of connections that delivered a message since drained
	next  []int         // descriptors that look examines before it begins with the first again
	blind bool          // this ZeroMQ does not tell on which descriptor a message arrived
}

// flow counts the bytes of one connection.
type flow struct {
	base  uint64 // bytes received by the time when ZeroMQ had last delivered all complete messages
	taken uint64 // bytes of messages that ZeroMQ delivered since then

	pending uint64 // bytes of unfinished messages when look examined the connection last
}

const (
	// maxPending is the limit of one connection. It leaves room for the longest message, for
	// messages that wait to be received, and for the kernel's own buffers.
	maxPending = 64 << 20

	// maxPendingAll is the limit of all connections together, because one key may have many
	// connections. flows first cuts the connection with the most bytes.
	maxPendingAll = 192 << 20

	// lookAt is the number of connections that one call of the method cutExcessive examines in
	// turn. It is limited, because each connection takes two system calls. In addition, each call
	// examines the connections that had more than 1/64 of maxPending when they were last examined.
	lookAt = 200
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

// noteDelivered records that a message of the given number of bytes was delivered. The descriptor
// fd is a text because ZeroMQ returns it as text.
func (f *flows) noteDelivered(fd string, bytes int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := strconv.Atoi(fd)
	if err != nil {
		f.blind = true
	} else if flow := f.open[n]; flow != nil {
		if flow.taken == 0 {
			f.some = append(f.some, n)
		}
		flow.taken += uint64(bytes)
	}
}

// noteDrained records that ZeroMQ has delivered all complete messages. If a complete message came
// over a connection since the previous call, the connection's count begins again: all bytes that
// have arrived on it so far count as delivered.
func (f *flows) noteDrained() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fd := range f.some {
		flow := f.open[fd]
		if flow == nil || flow.taken == 0 {
			continue
		}
		received, err := f.receivedBytes(fd)
		if err != nil {
			delete(f.open, fd)
			continue
		}
		flow.base, flow.taken, flow.pending = received, 0, 0
	}
	f.some = f.some[:0]
}

// receivedBytes returns the number of bytes that have arrived on a connection. If the descriptor
// does not (or no longer) belong to a connection of the server, receivedBytes returns an error.
func (f *flows) receivedBytes(fd int) (uint64, error) {
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

// cutExcessive cuts connections that have too many bytes of unfinished messages.
func (f *flows) cutExcessive() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.blind {
		return
	}
	if len(f.next) == 0 {
		f.next = slices.Collect(maps.Keys(f.open))
	}
	some := f.next[:min(lookAt, len(f.next))]
	f.next = f.next[len(some):]
	for _, fd := range some {
		f.examineFlow(fd)
	}
	pending, all := map[int]uint64{}, uint64(0)
	for fd, flow := range f.open {
		if flow.pending > maxPending/64 {
			f.examineFlow(fd)
		}
		if all += flow.pending; flow.pending > 0 {
			pending[fd] = flow.pending
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
		// ZeroMQ notices that the connection ended, and frees what it kept of the connection's
		// bytes.
		_ = unix.Shutdown(most, unix.SHUT_RDWR)
		all -= pending[most]
		delete(pending, most)
		delete(f.open, most)
	}
}

// examineFlow notes how many bytes of unfinished messages a connection has. If the descriptor no
// longer belongs to a connection of the server, examineFlow forgets the descriptor.
func (f *flows) examineFlow(fd int) {
	flow := f.open[fd]
	if flow == nil {
		return
	}
	received, err := f.receivedBytes(fd)
	if err != nil {
		delete(f.open, fd)
		return
	}
	known := flow.base + flow.taken
	flow.pending = max(received, known) - known
}
