package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// talkerProcess starts the process that exchanges messages, and sends orders to it. This is a
// separate process, because a capture does not see the calls of its own process.
type talkerProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startTalker(ctx context.Context, command []string) (*talkerProcess, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	in, out, err := startPiped(cmd)
	if err != nil {
		return nil, err
	}
	return &talkerProcess{cmd, in, json.NewDecoder(out)}, nil
}

func (t *talkerProcess) ask(o talkOrder) (r talkReport, err error) {
	if err := json.NewEncoder(t.in).Encode(o); err != nil {
		return r, err
	}
	if err := t.out.Decode(&r); err != nil {
		return r, noReport(err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

func (t *talkerProcess) close() {
	t.in.Close()
	t.cmd.Wait()
}

// CaptureProcess reads orders from its input until the input ends, and exchanges messages as the
// orders say. Capture starts a process that calls it.
func CaptureProcess(in io.Reader, out io.Writer) error {
	orders, reports := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o talkOrder
		if err := orders.Decode(&o); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		before, began := ownTime(), time.Now()
		r, err := o.obey()
		r.Busy, r.Took = ownTime()-before, time.Since(began)
		if err != nil {
			r.Error = err.Error()
		}
		if err := reports.Encode(r); err != nil {
			return err
		}
	}
}

func (o talkOrder) obey() (r talkReport, err error) {
	switch o.Do {
	case "ping-pong":
		return o.pingPong()
	case "flood":
		return o.flood()
	case "converse":
		return o.converse()
	case "ask":
		return o.ask()
	}
	return r, fmt.Errorf("order %q is not known", o.Do)
}

// loopbackPair returns the two ends of a TCP connection over loopback.
func loopbackPair() (client, server int, err error) {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(listener)
	if client, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, 0, err
	}
	err = unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(listener, 1)
	}
	at, nameErr := unix.Getsockname(listener)
	if err = errors.Join(err, nameErr); err == nil {
		err = unix.Connect(client, at)
	}
	if err == nil {
		server, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	}
	for _, s := range []int{client, server} {
		unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	return client, server, err
}

const talkSize = 64 // bytes of a message

// pingPong sends messages back and forth from one thread, so that no thread has to wake another.
func (o talkOrder) pingPong() (r talkReport, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	client, server, err := loopbackPair()
	if err != nil {
		return r, err
	}
	defer unix.Close(client)
	defer unix.Close(server)
	b := make([]byte, talkSize)
	const batch = 64
	var m callMeter
	for began := time.Now(); time.Since(began) < o.For; {
		if err := m.begin(); err != nil {
			return r, err
		}
		for range batch {
			for _, s := range [][2]int{{client, server}, {server, client}} {
				_, sendErr := unix.Write(s[0], b)
				_, receiveErr := unix.Read(s[1], b)
				if err := errors.Join(sendErr, receiveErr); err != nil {
					return r, err
				}
			}
		}
		if err := m.end(4 * batch); err != nil {
			return r, err
		}
		r.Calls += 4 * batch
		if o.PerSecond > 0 {
			due := time.Duration(r.Calls) * time.Second / time.Duration(o.PerSecond)
			time.Sleep(time.Until(began.Add(due)))
		}
	}
	r.Call_ns = median(m.pieces)
	return r, nil
}

// callMeter measures the processor time of calls on this thread. It measures short groups of calls
// (pieces), so that most pieces are not interrupted.
type callMeter struct {
	pieces []float64 // ns of a call
	before time.Duration
}

func (m *callMeter) begin() (err error) {
	m.before, err = threadTime()
	return err
}

// The method end ends a piece, which consisted of the given number of calls.
func (m *callMeter) end(calls int) error {
	now, err := threadTime()
	m.pieces = append(m.pieces, float64(now-m.before)/float64(calls))
	return err
}

// flood sends many messages, and then receives all of them at once, from one thread. If a second
// thread received, the load on the machine would determine how many messages each of its calls
// receives.
func (o talkOrder) flood() (r talkReport, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	client, server, err := loopbackPair()
	if err != nil {
		return r, err
	}
	defer unix.Close(client)
	defer unix.Close(server)
	const many, rounds = 32, 6
	b, all := make([]byte, talkSize), make([]byte, many*talkSize)
	var m callMeter
	for began := time.Now(); time.Since(began) < o.For; {
		calls := 0
		if err := m.begin(); err != nil {
			return r, err
		}
		for range rounds {
			for range many {
				if _, err := unix.Write(client, b); err != nil {
					return r, err
				}
			}
			for left := len(all); left > 0; calls++ {
				n, err := unix.Read(server, all)
				if err != nil {
					return r, err
				}
				left -= n
			}
			calls += many
		}
		if err := m.end(calls); err != nil {
			return r, err
		}
		r.Calls += uint64(calls)
	}
	r.Call_ns = median(m.pieces)
	return r, nil
}

// conversationThreads is the number of threads that converse at the same time.
const conversationThreads = 4

// converse sends messages of random sizes over some connections, in both directions. Each message
// is received by one call.
func (o talkOrder) converse() (r talkReport, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	// messages in each direction; a message is two calls
	each := max(o.Messages/conversationThreads/4, 1)
	for range conversationThreads {
		all.Go(func() {
			streams, talkErr := conversation(each)
			mu.Lock()
			defer mu.Unlock()
			r.Streams, err = append(r.Streams, streams...), errors.Join(err, talkErr)
		})
	}
	all.Wait()
	r.Calls = uint64(4 * each * conversationThreads)
	return r, err
}

func conversation(each int) ([]talkStream, error) {
	client, server, err := loopbackPair()
	if err != nil {
		return nil, err
	}
	defer unix.Close(client)
	defer unix.Close(server)
	ways := [][2]int{{client, server}, {server, client}}
	var streams []talkStream
	var sizes []*rand.Rand
	for _, w := range ways {
		s := talkStream{Messages: each, Seed: rand.Uint64()}
		for _, end := range []struct {
			of     int
			cookie *uint64
		}{{w[0], &s.Sender}, {w[1], &s.Receiver}} {
			*end.cookie, err = unix.GetsockoptUint64(end.of, unix.SOL_SOCKET, unix.SO_COOKIE)
			if err != nil {
				return nil, err
			}
		}
		streams = append(streams, s)
		sizes = append(sizes, rand.New(rand.NewPCG(s.Seed, 0)))
	}
	b := make([]byte, 4096)
	for range each {
		for i, w := range ways {
			n := 1 + sizes[i].IntN(1000)
			_, sendErr := unix.Write(w[0], b[:n])
			got, _, receiveErr := unix.Recvfrom(w[1], b[:n], unix.MSG_WAITALL)
			if err := errors.Join(sendErr, receiveErr); err != nil || got != n {
				return nil, fmt.Errorf("received %d of %d bytes: %v", got, n, err)
			}
		}
	}
	return streams, nil
}

// ask sends requests to a server over several connections. Each connection waits for the answer
// before it sends the next request.
func (o talkOrder) ask() (r talkReport, err error) {
	var done atomic.Uint64
	var all sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for range o.Connections {
		all.Go(func() {
			if e := o.askOver(began, &done); e != nil {
				mu.Lock()
				err = e
				mu.Unlock()
			}
		})
	}
	all.Wait()
	r.Calls = done.Load()
	return r, err
}

func (o talkOrder) askOver(began time.Time, done *atomic.Uint64) error {
	c, err := net.Dial("tcp", o.Address)
	if err != nil {
		return err
	}
	defer c.Close()
	b, request := make([]byte, 4096), []byte(o.Request)
	answer := 0
	for time.Since(began) < o.For {
		if _, err := c.Write(request); err != nil {
			return err
		}
		for got := 0; got == 0 || got < answer; {
			n, err := c.Read(b[got:])
			if err != nil {
				return err
			}
			got += n
			if answer == 0 { // all answers must be as long as the first one
				time.Sleep(50 * time.Millisecond)
				c.SetReadDeadline(time.Now())
				n, _ := c.Read(b[got:])
				c.SetReadDeadline(time.Time{})
				answer, got = got+n, got+n
			}
		}
		if n := done.Add(1); o.PerSecond > 0 {
			due := time.Duration(n) * time.Second / time.Duration(o.PerSecond)
			time.Sleep(time.Until(began.Add(due)))
		}
	}
	if bytes.HasPrefix(b, []byte("-")) || bytes.HasPrefix(b, []byte("HTTP/1.1 4")) {
		return fmt.Errorf("the server answers %.60q", b)
	}
	return nil
}
