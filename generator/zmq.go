package generator

/*
#cgo pkg-config: libzmq
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

// A cp_puller keeps a message that did not fit into the last bucket, until the next call of
// cp_receive.
typedef struct {
	zmq_msg_t msg;
	int pending;
} cp_puller;

// cp_receive puts at most n messages one after the other into buf, and stops before a message that
// does not fit. It waits only for the first message, for at most the socket's ZMQ_RCVTIMEO. It
// returns the number of messages, 0 if none arrived in that time, or -1 and errno.
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

// cp_event waits for an event of a monitor. It returns the event's number, 0 if no event occurred
// within the socket's timeout, or -1 if none will ever occur.
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

#cgo noescape cp_receive
#cgo nocallback cp_receive
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/pebbe/zmq4"
)

// Package zmq4 calls C four times for a message, and allocates each message that it receives. At
// the rates of this package, that costs more than ZeroMQ itself. So this package has sockets of its
// own, which call C once for a bucket of messages. From zmq4 it uses only the names of errors and
// events.

// monitorEvents are the events that show whether there is a peer.
const monitorEvents = zmq4.EVENT_HANDSHAKE_SUCCEEDED |
	zmq4.EVENT_DISCONNECTED |
	zmq4.EVENT_MONITOR_STOPPED

// A socket is a ZeroMQ socket with a context, and so an I/O thread, of its own. One goroutine uses
// it.
type socket struct {
	context, socket unsafe.Pointer
	events          sync.WaitGroup
	closed          bool
	socketSender    // set for a PUSH socket only
}

// onPeers is called from the monitor's goroutine when a connection is made (gone is false) or ends
// (gone is true).
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
	if kind == zmq4.PUSH && !s.makePool() {
		s.close()
		return nil, errors.New("make a ZeroMQ socket: no memory for its messages")
	}
	if err := s.monitor(notify); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// monitor watches the socket's connections through a second socket, and calls the function notify.
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
	err = retryInterrupted(func() (int, error) {
		code, err := C.zmq_connect(pair, name)
		return int(code), err
	})
	if err != nil {
		C.zmq_close(pair)
		return fmt.Errorf("watch a ZeroMQ socket: %w", zmqError(err))
	}
	s.events.Go(func() {
		defer C.zmq_close(pair)
		for established := 0; ; {
			switch event := zmq4.Event(C.cp_event(pair)); {
			case event == zmq4.EVENT_HANDSHAKE_SUCCEEDED:
				established++
				notify(false)
			case event == zmq4.EVENT_DISCONNECTED && established > 0:
				// If established is 0, the connection that ended had never been established.
				established--
				notify(true)
			case event == zmq4.EVENT_MONITOR_STOPPED, event < 0:
				return
			}
		}
	})
	return nil
}

func (s *socket) set(option, value int) error {
	v := C.int(value)
	at, size := unsafe.Pointer(&v), C.size_t(unsafe.Sizeof(v))
	if code, err := C.zmq_setsockopt(s.socket, C.int(option), at, size); code != 0 {
		return fmt.Errorf("set ZeroMQ option %d to %d: %w", option, value, zmqError(err))
	}
	return nil
}

func (s *socket) setMaxMessage(bytes int64) error {
	v := C.int64_t(bytes)
	at, size := unsafe.Pointer(&v), C.size_t(unsafe.Sizeof(v))
	if code, err := C.zmq_setsockopt(s.socket, C.ZMQ_MAXMSGSIZE, at, size); code != 0 {
		return fmt.Errorf("set the longest ZeroMQ message to %d bytes: %w", bytes, zmqError(err))
	}
	return nil
}

// retryInterrupted repeats a call of ZeroMQ until no signal ends it. The Go runtime sends signals
// to preempt goroutines. A signal ends a call of ZeroMQ before the call does anything, so the call
// can be repeated.
func retryInterrupted(call func() (code int, err error)) error {
	for {
		code, err := call()
		if code == 0 {
			return nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func (s *socket) connect(endpoint string) error {
	e := C.CString(endpoint)
	defer C.free(unsafe.Pointer(e))
	err := retryInterrupted(func() (int, error) {
		code, err := C.zmq_connect(s.socket, e)
		return int(code), err
	})
	if err != nil {
		return fmt.Errorf("connect to %q: %w", endpoint, zmqError(err))
	}
	return nil
}

// bind listens and returns the actual endpoint, with the port that was chosen.
func (s *socket) bind(endpoint string) (string, error) {
	e := C.CString(endpoint)
	defer C.free(unsafe.Pointer(e))
	err := retryInterrupted(func() (int, error) {
		code, err := C.zmq_bind(s.socket, e)
		return int(code), err
	})
	if err != nil {
		return "", fmt.Errorf("listen at %q: %w", endpoint, zmqError(err))
	}
	var text [256]C.char
	size := C.size_t(len(text))
	at := unsafe.Pointer(&text[0])
	if code, err := C.zmq_getsockopt(s.socket, C.ZMQ_LAST_ENDPOINT, at, &size); code != 0 {
		return "", fmt.Errorf("listen at %q: %w", endpoint, zmqError(err))
	}
	return C.GoString(&text[0]), nil
}

// close releases the socket. It drops received messages at once. Messages that wait to be sent may
// still leave within the time of the socket's option ZMQ_LINGER.
func (s *socket) close() {
	if s.closed {
		return
	}
	s.closed = true
	C.zmq_socket_monitor(s.socket, nil, 0)
	C.zmq_close(s.socket)
	s.events.Wait()
	C.zmq_ctx_term(s.context)
	s.freePool() // libzmq has released all messages
}

func zmqError(err error) error {
	if number, ok := err.(syscall.Errno); ok {
		return zmq4.Errno(number)
	}
	return err
}

// A puller is the C part of a Pull. It is in C memory, because libzmq has its address.
type puller struct{ c *C.cp_puller }

func newPuller() puller {
	return puller{(*C.cp_puller)(C.calloc(1, C.size_t(unsafe.Sizeof(C.cp_puller{}))))}
}

func (p puller) free() {
	C.cp_drop(p.c)
	C.free(unsafe.Pointer(p.c))
}

// receive fills the buffer b with messages, and writes the sizes of the messages to the other
// slice.
func (p puller) receive(s *socket, b []byte, sizes []uint32) (int, error) {
	n, err := C.cp_receive(s.socket, p.c,
		(*C.char)(unsafe.Pointer(unsafe.SliceData(b))), C.size_t(len(b)),
		(*C.uint32_t)(unsafe.Pointer(unsafe.SliceData(sizes))), C.int(len(sizes)))
	if n < 0 {
		return 0, zmqError(err)
	}
	return int(n), nil
}

// hasPending reports whether a message waits that did not fit into the last bucket.
func (p puller) hasPending() bool { return p.c.pending != 0 }

// These are the options of sockets that this package uses.
const (
	sendHighWater    = C.ZMQ_SNDHWM
	receiveHighWater = C.ZMQ_RCVHWM
	receiveTimeout   = C.ZMQ_RCVTIMEO
	lingerOption     = C.ZMQ_LINGER
)

func milliseconds(d time.Duration) int { return int(d / time.Millisecond) }
