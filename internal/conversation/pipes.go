package conversation

import (
	"math/rand/v2"
	"sync"

	"golang.org/x/sys/unix"
)

// pipes exchanges messages over UNIX sockets of all types and over UDP. One thread sends some
// messages, and the other thread receives them and sends one message back, and so on. In the
// middle, some messages have been sent and not yet received: both threads then wait until the
// channel resume is closed.
func pipes(seed uint64, messages int, start func(socket int, work func(*talker)),
	must func(error), half *sync.WaitGroup, resume chan struct{}) {
	pair := func(kind int) [2]int {
		p, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		must(err)
		return p
	}
	for i, sockets := range [][2]int{
		pair(unix.SOCK_STREAM), pair(unix.SOCK_STREAM), pair(unix.SOCK_DGRAM),
		pair(unix.SOCK_SEQPACKET), datagrams(must),
	} {
		half.Add(1)
		var cookies [2]uint64
		for k, s := range sockets {
			var err error
			cookies[k], err = unix.GetsockoptUint64(s, unix.SOL_SOCKET, unix.SO_COOKIE)
			must(err)
		}
		for k := range sockets {
			start(sockets[k], func(t *talker) {
				t.peer, t.single = cookies[1-k], i > 1
				plan := rand.New(rand.NewPCG(seed, uint64(i))) // both threads know it
				for round := range messages {
					sizes := make([]int, 1+plan.IntN(4))
					for j := range sizes {
						sizes[j] = 1 + plan.IntN(3000)
					}
					if k == 0 {
						t.sendEach(sizes)
					}
					if round == messages/2 {
						if k == 0 {
							half.Done()
						}
						<-resume
					}
					if k == 1 {
						t.receiveEach(sizes)
						t.sendEach([]int{8})
					} else {
						t.receiveEach([]int{8})
					}
				}
			})
		}
	}
}

// sendEach sends messages of random content, each with one call.
func (t *talker) sendEach(sizes []int) {
	for _, n := range sizes {
		b := t.buffer[:n]
		for i := range b {
			b[i] = byte(t.random.Uint32())
		}
		t.do(true, func() (int, error) {
			switch t.random.IntN(4) {
			case 0:
				return unix.Write(t.socket, b)
			case 1:
				return unix.SendmsgN(t.socket, b, nil, nil, unix.MSG_NOSIGNAL)
			case 2:
				return unix.Writev(t.socket, [][]byte{b})
			default:
				return n, unix.Sendto(t.socket, b, unix.MSG_NOSIGNAL, nil)
			}
		})
	}
}

// receiveEach receives messages of the given sizes. If t.single is set, it receives each with one
// call. If not, the messages are a stream, and each call receives any number of the next bytes.
func (t *talker) receiveEach(sizes []int) {
	if t.single {
		for range sizes {
			t.receiveOne(t.buffer)
		}
		return
	}
	left := 0
	for _, n := range sizes {
		left += n
	}
	for left > 0 {
		left -= t.receiveOne(t.buffer[:1+t.random.IntN(left)])
	}
}

func (t *talker) receiveOne(b []byte) int {
	return t.do(false, func() (n int, err error) {
		switch t.random.IntN(4) {
		case 0:
			return unix.Read(t.socket, b)
		case 1:
			n, _, err = unix.Recvfrom(t.socket, b, 0)
		case 2:
			n, err = unix.Readv(t.socket, [][]byte{b})
		default:
			if n, _, err = unix.Recvfrom(t.socket, b, unix.MSG_PEEK); n > 0 && err == nil {
				n, _, _, _, err = unix.Recvmsg(t.socket, b, nil, 0)
			}
		}
		return n, err
	})
}
