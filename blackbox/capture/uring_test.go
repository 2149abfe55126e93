package capture

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

// A uring is an io_uring with one entry at a time.
type uring struct {
	fd           int
	ring         []byte
	entries      []byte
	tail         *uint32 // of the submissions
	head, filled *uint32 // of the completions
	completions  int     // offset of the completions in ring
}

// These are operations of io_uring.
const (
	uringSendmsg = 9
	uringRecvmsg = 10
	uringRead    = 22
	uringWrite   = 23
	uringSend    = 26
	uringRecv    = 27

	uringWorker = 1 << 4 // let a thread of the kernel do it
)

func newUring() *uring {
	var p [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		must(errno)
	}
	u32 := func(at int) int { return int(binary.NativeEndian.Uint32(p[at:])) }
	const submissions, completions, entries = 40, 80, 0x10000000
	u := &uring{fd: int(fd), completions: u32(completions + 20)}
	var err error
	u.ring, err = unix.Mmap(u.fd, 0, max(u.completions+64, u32(submissions+24)+64),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	must(err)
	u.entries, err = unix.Mmap(u.fd, entries, 64, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE)
	must(err)
	at := func(offset int) *uint32 { return (*uint32)(unsafe.Pointer(&u.ring[offset])) }
	u.tail = at(u32(submissions + 4))
	u.head, u.filled = at(u32(completions)), at(u32(completions+4))
	return u
}

// submitOne submits one operation, waits for its end, and returns its result.
func (u *uring) submitOne(operation, flags byte, socket int, at unsafe.Pointer,
	n int) (int, error) {
	clear(u.entries)
	u.entries[0], u.entries[1] = operation, flags
	binary.NativeEndian.PutUint32(u.entries[4:], uint32(socket))
	binary.NativeEndian.PutUint64(u.entries[16:], uint64(uintptr(at)))
	binary.NativeEndian.PutUint32(u.entries[24:], uint32(n))
	atomic.AddUint32(u.tail, 1)
	const wait = 1
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), 1, 1, wait, 0,
		0); errno != 0 {
		return 0, errno
	}
	if atomic.LoadUint32(u.filled) == *u.head {
		return 0, fmt.Errorf("operation %d has not ended", operation)
	}
	result := int32(binary.NativeEndian.Uint32(
		u.ring[u.completions+16*int(*u.head&1)+8:]))
	atomic.AddUint32(u.head, 1)
	if result < 0 {
		return 0, unix.Errno(-result)
	}
	return int(result), nil
}

// uringSteps sends and receives by io_uring, over TCP and over UNIX sockets.
func uringSteps(s *steps) {
	u := newUring()
	client, server := s.connectedPair()
	two, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(err)
	var pinned runtime.Pinner
	b := make([]byte, 64)
	v := &unix.Iovec{Base: &b[0]}
	m := &unix.Msghdr{Iov: v, Iovlen: 1}
	for _, p := range []any{&b[0], v, m} {
		pinned.Pin(p)
	}
	defer pinned.Unpin()
	n := 0
	for _, ends := range [][2]int{{client, server}, {two[0], two[1]}} {
		for _, flags := range []byte{0, uringWorker} {
			for _, by := range [][2]byte{{uringSend, uringRecv}, {uringWrite, uringRead},
				{uringSendmsg, uringRecvmsg}} {
				n++
				at := unsafe.Pointer(&b[0])
				if v.SetLen(n); by[0] == uringSendmsg {
					at = unsafe.Pointer(m)
				}
				s.doStep("sent", ends[0], func() (int, error) {
					return u.submitOne(by[0], flags, ends[0], at, n)
				})
				s.doStep("received", ends[1], func() (int, error) {
					return u.submitOne(by[1], flags, ends[1], at, n)
				})
			}
		}
	}
}

// Messages that are sent and received by io_uring are captured, even if threads of the kernel do
// the work. Such threads belong to the process.
func TestPrivilegedUring(t *testing.T) {
	privileged.Need(t)
	r := newRig(t, Options{Also: Also{Arrivals: true, Threads: true}})
	truth, process := stepsOf(t, "uring")
	got := r.endCapture(t)
	seen, n, workers := map[side][]blackbox.Message{}, 0, 0
	for _, m := range got.messages {
		s := side{got.connections[m.Connection].Cookie, m.Kind == blackbox.Sent}
		seen[s] = append(seen[s], m)
	}
	for _, d := range truth {
		if d.What != "sent" && d.What != "received" {
			continue
		}
		n++
		s := side{d.Cookie, d.What == "sent"}
		if len(seen[s]) == 0 {
			t.Fatalf("not captured: %+v", d)
		}
		m := seen[s][0]
		seen[s] = seen[s][1:]
		if int(m.Bytes) != d.Bytes || m.Began_cycles > d.After ||
			int(got.threads[m.Thread].Process) != process ||
			m.Stream && (!m.Sure || m.Early != s.sent) {
			t.Errorf("%+v by %+v, the truth is %+v", m, got.threads[m.Thread], d)
		}
		if int(m.Thread) != d.Thread {
			workers++
		}
	}
	if n != 24 || workers == 0 {
		t.Errorf("%d messages, of which threads of the kernel moved %d", n, workers)
	}
	t.Logf("%d messages, of which threads of the kernel moved %d", n, workers)
}
