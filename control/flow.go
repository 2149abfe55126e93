package control

import (
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
	some  []int         // descriptors of connections whose counts noteDrained begins again
	next  []int         // descriptors that look examines before it begins with the first again
	blind bool          // this ZeroMQ does not tell on which descriptor a message arrived

	pending uint64       // sum of the pending bytes of all connections
	large   map[int]bool // descriptors of connections with more than maxPending/64 of these bytes
}

// flow counts the bytes of one connection.
type flow struct {
	base  uint64 // bytes received at a time when ZeroMQ had delivered all complete messages
	taken uint64 // bytes of messages that ZeroMQ delivered since then
	count int    // number of these messages

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

	// resetAfter is the number of messages after which a connection's count begins again. Each time
	// takes a system call. Meanwhile the count does not contain what ZeroMQ adds to a message, so
	// the connection seems to have a kilobyte of an unfinished message.
	resetAfter = 16
)

func newFlows(port int, refused *refusals) *flows {
	return &flows{port: port, refused: refused, open: map[int]*flow{},
		large: map[int]bool{}}
}

func (f *flows) accepted(fd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(fd) // an earlier connection, whose end nobody noticed yet
	f.open[fd] = &flow{}
}

func (f *flows) ended(fd int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(fd)
}

// forget removes a connection. The caller has locked f.mu.
func (f *flows) forget(fd int) {
	if c := f.open[fd]; c != nil {
		f.setPending(fd, c, 0)
	}
	delete(f.open, fd)
}

func (f *flows) setPending(fd int, c *flow, bytes uint64) {
	f.pending += bytes - c.pending
	if c.pending = bytes; bytes > maxPending/64 {
		f.large[fd] = true
	} else {
		delete(f.large, fd)
	}
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
		flow.taken += uint64(bytes)
		if flow.count++; flow.count == resetAfter {
			f.some = append(f.some, n)
		}
	}
}

// noteDrained records that ZeroMQ has delivered all complete messages. If resetAfter messages came
// over a connection, the connection's count begins again: all bytes that have arrived on it so far
// count as delivered.
func (f *flows) noteDrained() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fd := range f.some {
		flow := f.open[fd]
		if flow == nil || flow.count < resetAfter {
			continue
		}
		received, err := receivedBytes(fd)
		if err != nil {
			f.forget(fd)
			continue
		}
		f.setPending(fd, flow, 0)
		flow.base, flow.taken, flow.count = received, 0, 0
	}
	f.some = f.some[:0]
}

// receivedBytes returns the number of bytes that have arrived at a socket.
func receivedBytes(fd int) (uint64, error) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, err
	}
	return info.Bytes_received, nil
}

// isOwn reports whether a descriptor belongs to a connection of the server.
func (f *flows) isOwn(fd int) bool {
	own, err := unix.Getsockname(fd)
	if err != nil {
		return false
	}
	switch a := own.(type) {
	case *unix.SockaddrInet4:
		return a.Port == f.port
	case *unix.SockaddrInet6:
		return a.Port == f.port
	}
	return false
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
	for fd := range f.large {
		f.examineFlow(fd)
	}
	for {
		among := maps.Keys(f.large)
		if f.pending > maxPendingAll {
			among = maps.Keys(f.open)
		}
		most := -1
		for fd := range among {
			if most < 0 || f.open[fd].pending > f.open[most].pending {
				most = fd
			}
		}
		if most < 0 || f.open[most].pending <= maxPending && f.pending <= maxPendingAll {
			return
		}
		f.refused.add(ReasonTooLarge, "connection cut: it sends and does not end its message",
			"bytes", f.open[most].pending)
		// ZeroMQ notices that the connection ended, and frees what it kept of the connection's
		// bytes.
		_ = unix.Shutdown(most, unix.SHUT_RDWR)
		f.forget(most)
	}
}

// examineFlow notes how many bytes of unfinished messages a connection has. If it has many, and the
// descriptor no longer belongs to a connection of the server, examineFlow forgets the descriptor.
func (f *flows) examineFlow(fd int) {
	flow := f.open[fd]
	if flow == nil {
		return
	}
	received, err := receivedBytes(fd)
	if err != nil {
		f.forget(fd)
		return
	}
	known := flow.base + flow.taken
	f.setPending(fd, flow, max(received, known)-known)
	if flow.pending > maxPending/64 && !f.isOwn(fd) {
		f.forget(fd)
	}
}
