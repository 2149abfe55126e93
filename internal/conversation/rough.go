package conversation

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// rough exchanges messages over TCP connections that end in every possible way. For each way, it
// makes, uses and ends a connection many times. The client's port is always the same, so it is used
// again at once.
func rough(seed uint64, times int, start func(socket int, work func(*talker)), must func(error)) {
	for i, use := range []func(client, server *talker, must func(error)){
		reset, unread, halfClosed, passed, shared,
	} {
		listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		must(err)
		home := [4]byte{127, 0, 0, 1}
		must(unix.Bind(listener, &unix.SockaddrInet4{Addr: home}))
		must(unix.Listen(listener, 10))
		at, err := unix.Getsockname(listener)
		must(err)
		start(listener, func(all *talker) {
			own := 0
			for n := range times {
				client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
				must(err)
				must(unix.SetsockoptInt(client, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
				must(unix.Bind(client, &unix.SockaddrInet4{Addr: home, Port: own}))
				must(unix.Connect(client, at))
				own = port(unix.Getsockname(client))
				server, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
				must(err)
				c := newTalker(client, seed+uint64(i*times+n))
				s := newTalker(server, seed+uint64(i*times+n))
				c.peer, s.peer = s.cookie, c.cookie
				use(c, s, must)
				// A reset leaves no trace of the connection, so its port is free again.
				for _, t := range []*talker{c, s} {
					unix.SetsockoptLinger(t.socket, unix.SOL_SOCKET, unix.SO_LINGER,
						&unix.Linger{Onoff: 1})
					unix.Close(t.socket)
					all.calls = append(all.calls, t.calls...)
				}
			}
		})
	}
}

// The method some sends some messages, and returns how many bytes they have.
func (t *talker) some() (bytes int) {
	for range 1 + t.random.IntN(4) {
		n := 1 + t.random.IntN(400)
		t.sendEach([]int{n})
		bytes += n
	}
	return bytes
}

// reset ends a connection when everything has been received.
func reset(client, server *talker, _ func(error)) {
	server.receiveEach([]int{client.some()})
	client.receiveEach([]int{server.some()})
}

// unread ends a connection while some messages, or parts of them, have not been received.
func unread(client, server *talker, _ func(error)) {
	if n := client.some() / 2; n > 0 {
		server.receiveEach([]int{n})
	}
	server.some()
}

// halfClosed ends one direction of a connection. The other one is still used.
func halfClosed(client, server *talker, must func(error)) {
	n := client.some()
	must(unix.Shutdown(client.socket, unix.SHUT_WR))
	server.receiveEach([]int{n})
	if n := server.receiveOne(server.buffer); n != 0 {
		panic(fmt.Sprint("received ", n, " bytes after the end"))
	}
	for range 3 {
		client.receiveEach([]int{server.some()})
	}
	must(unix.Shutdown(server.socket, unix.SHUT_WR))
	client.receiveOne(client.buffer)
}

// passed passes the client's descriptor to another thread, in a message over a UNIX socket. Both
// threads use the connection, one after the other.
func passed(client, server *talker, must func(error)) {
	n := client.some()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	must(unix.Sendmsg(pair[0], []byte{1}, unix.UnixRights(client.socket), nil, 0))
	var other sync.WaitGroup
	other.Go(func() {
		room := make([]byte, unix.CmsgSpace(4))
		_, got, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), room, unix.MSG_CMSG_CLOEXEC)
		must(err)
		messages, err := unix.ParseSocketControlMessage(room[:got])
		must(err)
		fds, err := unix.ParseUnixRights(&messages[0])
		must(err)
		t := newTalker(fds[0], uint64(n))
		t.peer = server.cookie
		n += t.some()
		client.calls = append(client.calls, t.calls...)
		unix.Close(fds[0])
	})
	other.Wait()
	unix.Close(pair[0])
	unix.Close(pair[1])
	server.receiveEach([]int{n + client.some()})
	client.receiveEach([]int{server.some()})
}

// shared lets two threads send over one connection, in turns.
func shared(client, server *talker, _ func(error)) {
	n := 0
	for range 3 {
		var other sync.WaitGroup
		other.Go(func() {
			t := newTalker(client.socket, uint64(n))
			t.peer = server.cookie
			n += t.some()
			client.calls = append(client.calls, t.calls...)
		})
		other.Wait()
		n += client.some()
	}
	server.receiveEach([]int{n})
}
