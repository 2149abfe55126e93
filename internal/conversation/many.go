package conversation

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// The function many opens a number of TCP connections, so that all are open at the same time, and
// sends a message in both directions over each of them. Then it does the same once more, without a
// pause, with new connections.
func many(at netip.Addr, connections int, start func(socket int, work func(*talker)),
	must func(error)) {
	var limit unix.Rlimit
	must(unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	limit.Cur = limit.Max
	must(unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
	socket := func() int {
		s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(err)
		return s
	}
	start(socket(), func(t *talker) {
		t.single = true
		for range 2 {
			listener := socket()
			must(unix.Bind(listener, &unix.SockaddrInet4{Addr: at.As4()}))
			must(unix.Listen(listener, 10))
			at, err := unix.Getsockname(listener)
			must(err)
			var pairs [][2]int
			for range connections {
				client := socket()
				must(unix.Connect(client, at))
				server, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
				must(err)
				pairs = append(pairs, [2]int{client, server})
			}
			must(unix.Close(listener))
			for i, p := range pairs {
				for _, way := range [][2]int{p, {p[1], p[0]}} {
					t.use(way[0], way[1], must)
					t.do(true, func() (int, error) { return unix.Write(way[0], t.buffer[:1+i%50]) })
					t.use(way[1], way[0], must)
					t.do(false, func() (int, error) { return unix.Read(way[1], t.buffer[:100]) })
				}
			}
			for _, p := range pairs {
				for _, s := range p { // a reset leaves no trace of the connection
					must(unix.SetsockoptLinger(s, unix.SOL_SOCKET, unix.SO_LINGER,
						&unix.Linger{Onoff: 1}))
					must(unix.Close(s))
				}
			}
		}
	})
}

// use lets the talker go on with another connection.
func (t *talker) use(socket, other int, must func(error)) {
	for at, s := range map[*uint64]int{&t.cookie: socket, &t.peer: other} {
		var err error
		*at, err = unix.GetsockoptUint64(s, unix.SOL_SOCKET, unix.SO_COOKIE)
		must(err)
	}
}
