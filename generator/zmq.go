package generator

/*
#cgo pkg-config: libzmq
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

// cp_send sends the first of n messages that lie one after the other in buf, until one does not fit, and returns how many
// it sent, or -1 and errno.
static int cp_send(void *socket, const char *buf, const uint32_t *sizes, int n) {
	for (int i = 0; i < n; i++) {
		if (zmq_send(socket, buf, sizes[i], ZMQ_DONTWAIT) < 0) {
			if (errno == EINTR) {
				i--;
				continue;
			}
			if (errno == EAGAIN)
				return i;
			return -1;
		}
		buf += sizes[i];
	}
	return n;
}

// cp_counter is asm.Counter.
static inline uint64_t cp_counter(void) {
#if defined(__x86_64__)
	uint32_t low, high, core;
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(core));
	return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
	uint64_t count;
	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(count)::"memory");
	return count;
#else
#error "no counter is known for this processor"
#endif
}

// cp_pace is cp_send with a time for each message: it waits for it, spinning, and notes when it sent.
static int cp_pace(void *socket, const char *buf, const uint32_t *sizes, const uint64_t *due, uint64_t *sent, int n) {
	for (int i = 0; i < n; i++) {
		do
			sent[i] = cp_counter();
		while ((int64_t)(due[i] - sent[i]) > 0);
		int taken = cp_send(socket, buf, sizes + i, 1);
		if (taken < 0)
			return -1;
		if (taken == 0)
			return i;
		buf += sizes[i];
	}
	return n;
}

// cp_wait waits until the socket takes a message, for some milliseconds at most.
static int cp_wait(void *socket, long ms) {
	zmq_pollitem_t item = {socket, 0, ZMQ_POLLOUT, 0};
	return zmq_poll(&item, 1, ms);
}

// A cp_puller keeps the message that found no room in the last bucket.
typedef struct {
	zmq_msg_t msg;
	int pending;
} cp_puller;

// cp_receive puts messages one after the other into buf: at most n, and none that does not fit. It waits for the first, as long as the
// socket's ZMQ_RCVTIMEO says, and for no other. It returns how many it received, 0 after the time, or -1 and errno.
static int cp_receive(void *socket, cp_puller *p, char *buf, size_t room, uint32_t *sizes, int n) {
	int i = 0;
	while (i < n) {
		if (!p->pending) {
			zmq_msg_init(&p->msg);
			if (zmq_msg_recv(&p->msg, socket, i > 0 ? ZMQ_DONTWAIT : 0) < 0) {
				int error = errno;
				zmq_msg_close(&p->msg);
				if (error == EINTR)
					continue;
				if (error == EAGAIN || i > 0)
					return i;
				errno = error;
				return -1;
			}
			p->pending = 1;
		}
		size_t size = zmq_msg_size(&p->msg);
		if (size > room)
			return i;
		memcpy(buf, zmq_msg_data(&p->msg), size);
		zmq_msg_close(&p->msg);
		p->pending = 0;
		sizes[i++] = (uint32_t)size;
		buf += size;
		room -= size;
	}
	return i;
}

static void cp_drop(cp_puller *p) {
	if (p->pending)
		zmq_msg_close(&p->msg);
	p->pending = 0;
}

// cp_event waits for an event of a monitor: its number, 0 where none came in time, -1 where there will be none.
static int cp_event(void *socket) {
	zmq_msg_t msg;
	int event = 0;
	for (int part = 0;; part++) {
		zmq_msg_init(&msg);
		if (zmq_msg_recv(&msg, socket, 0) < 0) {
			int error = errno;
			zmq_msg_close(&msg);
			return error == EAGAIN || error == EINTR ? 0 : -1;
		}
		if (part == 0 && zmq_msg_size(&msg) >= 2) {
			uint16_t number;
			memcpy(&number, zmq_msg_data(&msg), sizeof number);
			event = number;
		}
		int more = zmq_msg_more(&msg);
		zmq_msg_close(&msg);
		if (!more)
			return event;
	}
}

#cgo noescape cp_send
#cgo nocallback cp_send
#cgo noescape cp_pace
#cgo nocallback cp_pace
#cgo noescape cp_receive
#cgo nocallback cp_receive
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/pebbe/zmq4"
)

// Package zmq4 crosses into C four times for a message, and allocates each one that it receives: here that costs more than ZeroMQ itself. So
// the sockets of this package are its own, which cross once for a bucket of messages, and zmq4 gives the names of errors and options.

// monitorEvents are those that say whether there is somebody at the other end.
const monitorEvents = zmq4.EVENT_HANDSHAKE_SUCCEEDED | zmq4.EVENT_DISCONNECTED | zmq4.EVENT_MONITOR_STOPPED

// A socket is a ZeroMQ socket with a context, and so an I/O thread, of its own. One goroutine uses it; peers may be read by any.
type socket struct {
	context, socket unsafe.Pointer
	peers           atomic.Int64 // connections that stand
	broken          atomic.Int64 // connections that ended
	events          sync.WaitGroup
	closed          bool
}

// onPeers is called from the monitor's goroutine when a connection comes (gone is false) or ends.
type onPeers func(gone bool)

func newSocket(kind zmq4.Type, notify onPeers) (*socket, error) {
	s := &socket{context: C.zmq_ctx_new()}
	if s.context == nil {
		return nil, errors.New("make a ZeroMQ context: no memory, or too many open files")
	}
	var err error
	if s.socket, err = C.zmq_socket(s.context, C.int(kind)); s.socket == nil {
		C.zmq_ctx_term(s.context)
		return nil, fmt.Errorf("make a ZeroMQ socket: %w", zmqError(err))
	}
	if err := s.monitor(notify); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// monitor learns from a socket of its own which connections stand.
func (s *socket) monitor(notify onPeers) error {
	name := C.CString("inproc://peers")
	defer C.free(unsafe.Pointer(name))
	if code, err := C.zmq_socket_monitor(s.socket, name, C.int(monitorEvents)); code != 0 {
		return fmt.Errorf("watch a ZeroMQ socket: %w", zmqError(err))
	}
	pair, err := C.zmq_socket(s.context, C.ZMQ_PAIR)
	if pair == nil {
		return fmt.Errorf("watch a ZeroMQ socket: %w", zmqError(err))
	}
	if code, err := C.zmq_connect(pair, name); code != 0 {
		C.zmq_close(pair)
		return fmt.Errorf("watch a ZeroMQ socket: %w", zmqError(err))
	}
	s.events.Go(func() {
		defer C.zmq_close(pair)
		for {
			switch event := zmq4.Event(C.cp_event(pair)); {
			case event == zmq4.EVENT_HANDSHAKE_SUCCEEDED:
				s.peers.Add(1)
				notify(false)
			case event == zmq4.EVENT_DISCONNECTED:
				// Also a connection that never came to stand may be reported.
				if s.peers.Load() > 0 {
					s.peers.Add(-1)
					s.broken.Add(1)
					notify(true)
				}
			case event == zmq4.EVENT_MONITOR_STOPPED, event == 0xFFFF, C.int(int16(event)) < 0:
				return
			}
		}
	})
	return nil
}

func (s *socket) set(option, value int) error {
	v := C.int(value)
	if code, err := C.zmq_setsockopt(s.socket, C.int(option), unsafe.Pointer(&v), C.size_t(unsafe.Sizeof(v))); code != 0 {
		return fmt.Errorf("set ZeroMQ option %d to %d: %w", option, value, zmqError(err))
	}
	return nil
}

func (s *socket) setMaxMessage(bytes int64) error {
	v := C.int64_t(bytes)
	if code, err := C.zmq_setsockopt(s.socket, C.ZMQ_MAXMSGSIZE, unsafe.Pointer(&v), C.size_t(unsafe.Sizeof(v))); code != 0 {
		return fmt.Errorf("set the longest ZeroMQ message to %d bytes: %w", bytes, zmqError(err))
	}
	return nil
}

func (s *socket) connect(endpoint string) error {
	e := C.CString(endpoint)
	defer C.free(unsafe.Pointer(e))
	if code, err := C.zmq_connect(s.socket, e); code != 0 {
		return fmt.Errorf("connect to %q: %w", endpoint, zmqError(err))
	}
	return nil
}

// bind returns the endpoint as it came to be, with the port that was chosen.
func (s *socket) bind(endpoint string) (string, error) {
	e := C.CString(endpoint)
	defer C.free(unsafe.Pointer(e))
	if code, err := C.zmq_bind(s.socket, e); code != 0 {
		return "", fmt.Errorf("listen at %q: %w", endpoint, zmqError(err))
	}
	var text [256]C.char
	size := C.size_t(len(text))
	if code, err := C.zmq_getsockopt(s.socket, C.ZMQ_LAST_ENDPOINT, unsafe.Pointer(&text[0]), &size); code != 0 {
		return "", fmt.Errorf("listen at %q: %w", endpoint, zmqError(err))
	}
	return C.GoString(&text[0]), nil
}

// send sends the messages that lie one after the other in b and returns how many the socket took.
func (s *socket) send(b []byte, sizes []uint32) (int, error) {
	n, err := C.cp_send(s.socket, (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), (*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(sizes))), C.int(len(sizes)))
	if n < 0 {
		return 0, zmqError(err)
	}
	return int(n), nil
}

// pace sends each message at its time, and notes when it did.
func (s *socket) pace(b []byte, sizes []uint32, due, sent []uint64) (int, error) {
	n, err := C.cp_pace(s.socket, (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), (*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(sizes))),
		(*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(due))), (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(sent))), C.int(len(sizes)))
	if n < 0 {
		return 0, zmqError(err)
	}
	return int(n), nil
}

// waitRoom waits until the socket takes a message, for some time at most.
func (s *socket) waitRoom(d time.Duration) { C.cp_wait(s.socket, C.long(milliseconds(d))) }

// close gives the socket back: at once what was received, and what is to be sent within the linger time that was set.
func (s *socket) close() {
	if s.closed {
		return
	}
	s.closed = true
	C.zmq_socket_monitor(s.socket, nil, 0)
	C.zmq_close(s.socket)
	s.events.Wait()
	C.zmq_ctx_term(s.context)
}

func zmqError(err error) error {
	if number, ok := err.(syscall.Errno); ok {
		return zmq4.Errno(number)
	}
	return err
}

// A puller is the C part of a Pull. It lives in C memory, as libzmq knows its address.
type puller struct{ c *C.cp_puller }

func newPuller() puller {
	return puller{(*C.cp_puller)(C.calloc(1, C.size_t(unsafe.Sizeof(C.cp_puller{}))))}
}

func (p puller) free() {
	C.cp_drop(p.c)
	C.free(unsafe.Pointer(p.c))
}

// receive fills b with messages, whose sizes it returns in sizes.
func (p puller) receive(s *socket, b []byte, sizes []uint32) (int, error) {
	n, err := C.cp_receive(s.socket, p.c, (*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b)), (*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(sizes))), C.int(len(sizes)))
	if n < 0 {
		return 0, zmqError(err)
	}
	return int(n), nil
}

// pending says whether a message waits that did not fit.
func (p puller) pending() bool { return p.c.pending != 0 }

// The options that a socket is given.
const (
	sendHighWater    = C.ZMQ_SNDHWM
	receiveHighWater = C.ZMQ_RCVHWM
	receiveTimeout   = C.ZMQ_RCVTIMEO
	lingerOption     = C.ZMQ_LINGER
)

func milliseconds(d time.Duration) int { return int(d / time.Millisecond) }
