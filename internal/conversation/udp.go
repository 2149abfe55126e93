package conversation

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// echo answers each datagram with a datagram of the same length and other bytes.
func echo(at netip.AddrPort, messages int, start func(int, func(*talker)), must func(error)) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	must(unix.Bind(s, &unix.SockaddrInet4{Addr: at.Addr().As4(), Port: int(at.Port())}))
	fmt.Fprintln(os.Stderr, netip.AddrPortFrom(at.Addr(), uint16(port(unix.Getsockname(s)))))
	start(s, func(t *talker) {
		t.single = true
		for range messages {
			var from unix.Sockaddr
			n := t.do(false, func() (n int, err error) {
				n, from, err = unix.Recvfrom(s, t.buffer, 0)
				return n, err
			})
			for i := range t.buffer[:n] {
				t.buffer[i] ^= 0xff
			}
			t.do(true, func() (int, error) { return n, unix.Sendto(s, t.buffer[:n], 0, from) })
		}
	})
}

// tell sends datagrams of random bytes, and waits for the answer to each. One datagram in few (a
// number) gets its bytes from the random numbers of tell itself. All others get theirs from the
// random numbers of twin. So two programs with equal twins send the same datagrams, except for one
// in few.
func tell(to *unix.SockaddrInet4, messages, few int, twin *rand.Rand,
	start func(int, func(*talker)), must func(error)) {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	must(unix.Connect(s, to))
	start(s, func(t *talker) {
		t.single = true
		for n := range messages {
			random := t.random
			if n%few != 0 {
				random = twin
			}
			b := t.buffer[:1+random.IntN(1000)]
			for i := range b {
				b[i] = byte(random.Uint32())
			}
			t.do(true, func() (int, error) { return unix.Write(s, b) })
			t.do(false, func() (int, error) { return unix.Read(s, t.buffer) })
		}
	})
}
