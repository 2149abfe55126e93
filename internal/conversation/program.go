package conversation

import (
	"encoding/binary"
	"encoding/gob"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// Variable is an environment variable. If it is 1, a test program exchanges messages.
const Variable = "CLOUDPROFILER_CONVERSATION"

// A Call is a system call that sent or received something, as its program saw it.
type Call struct {
	Cookie        uint64 // the socket
	Ports         [2]int // its own port and its peer's, if it is a TCP socket
	Sent          bool
	Thread        int
	Bytes         int
	Before, After uint64 // the counter before and after it

	// Peer is set only by programs with the role "many", "pipes" or "rough".
	Peer   uint64 // the cookie of the socket at the other end
	Single bool   // a call receives one message, not a part of a stream
}

// A talker is one end of a connection, on a thread of its own.
type talker struct {
	socket int
	cookie uint64
	ports  [2]int
	thread int
	random *rand.Rand
	calls  []Call
	buffer []byte
	peer   uint64
	single bool
}

func newTalker(socket int, seed uint64) *talker {
	runtime.LockOSThread() // the thread ends with its goroutine
	// This stops TCP from delaying small messages until an acknowledgement comes.
	unix.SetsockoptInt(socket, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	cookie, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		panic(err)
	}
	return &talker{
		socket: socket, cookie: cookie, thread: unix.Gettid(),
		ports:  [2]int{port(unix.Getsockname(socket)), port(unix.Getpeername(socket))},
		random: rand.New(rand.NewPCG(seed, cookie)), buffer: make([]byte, 300_000),
	}
}

func port(at unix.Sockaddr, _ error) int {
	if ip, ok := at.(*unix.SockaddrInet4); ok {
		return ip.Port
	}
	return 0
}

// do makes a system call and writes down what it did.
func (t *talker) do(sent bool, f func() (int, error)) int {
	before := asm.Counter()
	n, err := f()
	after := asm.Counter()
	if err != nil {
		panic(err)
	}
	if n > 0 {
		t.calls = append(t.calls, Call{
			t.cookie, t.ports, sent, t.thread, n, before, after, t.peer, t.single,
		})
	}
	return n
}

// send sends a message. For each part of it, send chooses at random one of the system calls that
// send.
func (t *talker) send(bytes int) {
	b := t.buffer[:bytes]
	for len(b) > 0 {
		part := b
		if t.random.IntN(2) == 0 {
			part = b[:1+t.random.IntN(len(b))]
		}
		b = b[t.do(true, func() (int, error) {
			switch t.random.IntN(4) {
			case 0:
				return unix.Write(t.socket, part)
			case 1:
				return unix.SendmsgN(t.socket, part, nil, nil, unix.MSG_NOSIGNAL)
			case 2:
				half := len(part) / 2
				return unix.Writev(t.socket, [][]byte{part[:half], part[half:]})
			default:
				return len(part), unix.Sendto(t.socket, part, unix.MSG_NOSIGNAL, nil)
			}
		}):]
	}
}

// receive receives a message. For each part of it, receive chooses at random one of the system
// calls that receive. It returns false if the connection ended before the whole message arrived.
func (t *talker) receive(bytes int) bool {
	for b := t.buffer[:bytes]; len(b) > 0; {
		n := t.do(false, func() (int, error) {
			switch t.random.IntN(4) {
			case 0:
				return unix.Read(t.socket, b)
			case 1:
				n, _, err := unix.Recvfrom(t.socket, b, 0)
				return n, err
			case 2:
				half := len(b) / 2
				return unix.Readv(t.socket, [][]byte{b[:half], b[half:]})
			default:
				if n, _, err := unix.Recvfrom(t.socket, b, unix.MSG_PEEK); n == 0 || err != nil {
					return n, err // data that a call only peeked at is not a message
				}
				n, _, _, _, err := unix.Recvmsg(t.socket, b, nil, unix.MSG_WAITALL)
				return n, err
			}
		})
		if n == 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// size draws the size of a message. Most messages are small, so that one connection carries many.
func (t *talker) size() int {
	if t.random.IntN(16) == 0 {
		return 4 + t.random.IntN(200_000)
	}
	return 4 + t.random.IntN(300)
}

// ask sends messages. If answers is true, it receives an answer to each.
func (t *talker) ask(messages int, answers bool) {
	for range messages {
		size := t.size()
		answer := 0
		if answers {
			answer = t.size()
		}
		binary.LittleEndian.PutUint32(t.buffer, uint32(size))
		t.send(8)
		binary.LittleEndian.PutUint32(t.buffer, uint32(size))
		binary.LittleEndian.PutUint32(t.buffer[4:], uint32(answer))
		t.send(8)
		t.send(size)
		if answers && !t.receive(answer) {
			panic("no answer")
		}
	}
}

// answer serves a connection until its other end closes it.
func (t *talker) answer() {
	for t.receive(8) { // the head carries no data, so that there are more messages
		if !t.receive(8) {
			panic("half a message")
		}
		size := binary.LittleEndian.Uint32(t.buffer)
		answer := binary.LittleEndian.Uint32(t.buffer[4:])
		if !t.receive(int(size)) {
			panic("half a message")
		}
		if answer > 0 {
			t.send(int(answer))
		}
	}
}

// Main is the main function of the programs. A program is given its role, the address to listen at
// or to connect to, a seed, and the number of connections and messages. It writes the truth to its
// output. A program with the role caller is a client that prints a line when it has sent half of
// the messages, and then waits. A program with the role pipes does the same, but has both ends of
// its connections. A teller and an echo exchange datagrams over UDP.
func Main() {
	role, address := os.Args[1], netip.MustParseAddrPort(os.Args[2])
	seed, connections, messages := uint64(number(3)), number(4), number(5)
	ip := unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}
	var all []Call
	var mu sync.Mutex
	var running sync.WaitGroup
	start := func(socket int, work func(*talker)) {
		running.Go(func() {
			t := newTalker(socket, seed)
			work(t)
			mu.Lock()
			all = append(all, t.calls...)
			mu.Unlock()
			unix.Close(socket)
		})
	}
	must := func(err error) {
		if err != nil {
			panic(fmt.Sprint(role, ": ", err))
		}
	}
	switch role {
	case "local":
		local(seed, messages, start, must)
	case "pipes":
		var half sync.WaitGroup
		resume := make(chan struct{})
		pipes(seed, messages, start, must, &half, resume)
		half.Wait()
		fmt.Fprintln(os.Stderr, "half")
		_, err := os.Stdin.Read(make([]byte, 1))
		must(err)
		close(resume)
	case "many":
		many(address.Addr(), connections, start, must)
	case "echo":
		echo(address, messages, start, must)
	case "teller":
		tell(&ip, messages, 1, nil, start, must)
	case "twin":
		tell(&ip, messages, 4, rand.New(rand.NewPCG(seed, 0)), start, must)
	case "rough":
		rough(seed, messages, start, must)
	case "server":
		serve(&ip, address.Addr(), connections, start, must)
	default:
		call(&ip, role == "caller", connections, messages, start, must)
	}
	running.Wait()
	must(gob.NewEncoder(os.Stdout).Encode(all))
}

func stream(must func(error)) int {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	return s
}

// local writes messages to a pair of sockets, and reads them again.
func local(seed uint64, messages int, start func(int, func(*talker)), must func(error)) {
	unixPair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	for _, pair := range [][2]int{unixPair, datagrams(must)} {
		start(pair[0], func(t *talker) {
			other := newTalker(pair[1], seed)
			for i := range messages {
				b := t.buffer[:1000+i]
				copy(b, LocalBytes(len(b)))
				t.do(true, func() (int, error) { return unix.Write(t.socket, b) })
				other.do(false, func() (int, error) { return unix.Read(other.socket, b) })
			}
			unix.Close(other.socket)
			t.calls = append(t.calls, other.calls...)
		})
	}
}

// serve accepts connections, and answers the messages that arrive on them.
func serve(ip *unix.SockaddrInet4, address netip.Addr, connections int,
	start func(int, func(*talker)), must func(error)) {
	s := stream(must)
	must(unix.Bind(s, ip))
	must(unix.Listen(s, 100))
	at, err := unix.Getsockname(s)
	must(err)
	fmt.Fprintln(os.Stderr, netip.AddrPortFrom(address, uint16(port(at, nil))))
	for range connections {
		c, _, err := unix.Accept4(s, unix.SOCK_CLOEXEC)
		must(err)
		start(c, (*talker).answer)
	}
}

// call opens connections and asks the server on each. If the argument waits is true, the program
// stops half-way until somebody writes to its standard input.
func call(ip *unix.SockaddrInet4, waits bool, connections, messages int,
	start func(int, func(*talker)), must func(error)) {
	var half sync.WaitGroup
	resume := make(chan struct{})
	for i := range connections {
		s := stream(must)
		must(unix.Connect(s, ip))
		half.Add(1)
		start(s, func(t *talker) {
			t.ask(messages/2, i%3 != 2)
			half.Done()
			<-resume
			t.ask(messages/2, i%3 != 2)
			unix.Shutdown(t.socket, unix.SHUT_WR)
		})
	}
	half.Wait()
	if waits {
		fmt.Fprintln(os.Stderr, "half")
		_, err := os.Stdin.Read(make([]byte, 1))
		must(err)
	}
	close(resume)
}

// LocalBytes returns the bytes of a message of a program whose role is local.
func LocalBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(n + i*i/7)
	}
	return b
}

// datagrams returns two UDP sockets that are connected to each other.
func datagrams(must func(error)) (pair [2]int) {
	var at [2]unix.Sockaddr
	for i := range pair {
		var err error
		pair[i], err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		must(err)
		must(unix.Bind(pair[i], &unix.SockaddrInet6{Addr: [16]byte{15: 1}}))
		at[i], err = unix.Getsockname(pair[i])
		must(err)
	}
	must(unix.Connect(pair[0], at[1]))
	must(unix.Connect(pair[1], at[0]))
	return pair
}

func number(argument int) int {
	n, err := strconv.Atoi(os.Args[argument])
	if err != nil {
		panic(err)
	}
	return n
}
