package control

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// dialRaw opens a TCP connection and greets in ZeroMQ's protocol ZMTP 3.0, without the library and
// without keys.
func dialRaw(t *testing.T, address string) net.Conn {
	t.Helper()
	conn := must(net.Dial("tcp", address))(t)
	t.Cleanup(func() { conn.Close() })
	greeting := make([]byte, 64)
	copy(greeting, "\xff\x00\x00\x00\x00\x00\x00\x00\x01\x7f\x03\x00NULL")
	ready := "\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER"
	hello := append(greeting, 4, byte(len(ready)))
	if _, err := conn.Write(append(hello, ready...)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// partOfMessage returns a frame of ZMTP that announces more frames of the same message.
func partOfMessage(bytes int) []byte {
	frame := make([]byte, 9+bytes)
	frame[0] = 3 // flags: more frames follow, long frame
	binary.BigEndian.PutUint64(frame[1:], uint64(bytes))
	return frame
}

// The server cuts a connection on which a message does not end. Otherwise ZeroMQ would keep all of
// its frames in memory.
func TestAMessageWithoutEndIsCut(t *testing.T) {
	s := must(Listen(ServerConfig{Address: "127.0.0.1:0"}))(t)
	defer s.Close()
	f := &fleet{t: t, server: s}
	f.admitAll()
	honest := must(Dial(ClientConfig{Server: s.Address()}))(t)
	defer honest.Close()
	must(honest.Register(within(t), node("a")))(t)

	conn := dialRaw(t, s.Address())
	frame := partOfMessage(MaxMessageBytes)
	for sent := 0; sent <= maxPending; sent += len(frame) {
		if _, err := conn.Write(frame); err != nil {
			t.Fatalf("cut after only %d bytes: %v", sent, err)
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("an unfinished message of 64 MiB is not cut")
	}
	if s.Refused()[ReasonTooLarge] == 0 {
		t.Error("the cut is not counted")
	}
	f.wantWell(honest)
}

// A server survives if a peer goes away while the peer's messages wait to be received.
func TestAPeerGoesWhileItsMessagesWait(t *testing.T) {
	s := must(Listen(ServerConfig{Address: "127.0.0.1:0"}))(t)
	defer s.Close()
	a := must(Dial(ClientConfig{Server: s.Address()}))(t)
	defer a.Close()
	go a.Register(within(t), node("a"))
	in := must(s.Receive(within(t)))(t)
	for !s.full() { // a full server takes no more messages from ZeroMQ
		if err := a.Send(within(t), 0, &Ping{}); err != nil {
			t.Fatal(err)
		}
	}
	conn := dialRaw(t, s.Address())
	greeting := make([]byte, 64+2)
	// The server reads messages only after it has sent its greeting.
	if _, err := io.ReadFull(conn, greeting); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := conn.Write([]byte{0, 1, 'x'}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(wireHeartbeat / 4) // by now the server has read as many bytes as it will
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for end := time.Now().Add(patience); s.Refused()[ReasonDisconnected] == 0; {
		if time.Now().After(end) {
			t.Fatal("nobody notices that the peer went away")
		}
		time.Sleep(10 * time.Millisecond)
	}
	for s.full() {
		must(s.Receive(within(t)))(t)
	}
	if err := s.Send(in.Peer, in.Request, &Welcome{Heartbeat_ns: 1e9, Dead_ns: 3e9}); err != nil {
		t.Error(err)
	}
}

// If many connections together exceed the limit for all, the server cuts the largest ones, although
// each connection stays within its own limit.
func TestManyMessagesWithoutEndAreCut(t *testing.T) {
	refused := newRefusals(nil)
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	flows := newFlows(l.Addr().(*net.TCPAddr).Port, refused)
	sizes := []int{50 << 20, 60 << 20, 40 << 20, 30 << 20, 1 << 20, 20 << 20}
	var fds []int
	for _, size := range sizes {
		to := must(net.Dial("tcp", l.Addr().String()))(t)
		defer to.Close()
		from := must(l.Accept())(t)
		defer from.Close()
		raw := must(from.(*net.TCPConn).SyscallConn())(t)
		if err := raw.Control(func(fd uintptr) { fds = append(fds, int(fd)) }); err != nil {
			t.Fatal(err)
		}
		flows.accepted(fds[len(fds)-1])
		go to.Write(make([]byte, size))
		if _, err := io.CopyN(io.Discard, from, int64(size)); err != nil {
			t.Fatal(err)
		}
	}
	flows.cutExcessive()
	for i, fd := range fds {
		if cut := flows.open[fd] == nil; cut != (sizes[i] == 60<<20) {
			t.Errorf("the connection that brought %d MiB of 201 in all is cut: %v",
				sizes[i]>>20, cut)
		}
	}
}

// A connection may send any number of complete messages.
func TestManyMessagesAreNotCut(t *testing.T) {
	f := newFleet(t, "a")
	others := f.admitAll()
	a := f.dial(0)
	must(a.Register(within(t), node("a")))(t)
	chunk := &Chunk{Path: "x", Size: 1, Data: make([]byte, MaxChunkBytes)}
	for range maxPending/MaxChunkBytes + 16 {
		if err := a.Send(within(t), 0, chunk); err != nil {
			t.Fatal(err)
		}
		select {
		case <-others:
		case <-within(t).Done():
			t.Fatalf("chunk does not come: %v", f.server.Refused())
		}
	}
	f.server.flows.cutExcessive()
	if n := f.server.Refused()[ReasonTooLarge]; n > 0 {
		t.Errorf("%d connections are cut", n)
	}
	f.wantWell(a)
}

// What ZeroMQ adds to messages does not add up: after many small messages, a connection has hardly
// any bytes of unfinished messages.
func TestSmallMessagesLeaveNothingUnfinished(t *testing.T) {
	f := newFleet(t, "a")
	others := f.admitAll()
	a := f.dial(0)
	must(a.Register(within(t), node("a")))(t)
	for range 2000 {
		if err := a.Send(within(t), 0, &Done{}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-others:
		case <-within(t).Done():
			t.Fatal("a message does not come")
		}
	}
	flows := f.server.flows
	flows.mu.Lock()
	defer flows.mu.Unlock()
	const most = 16 << 10 // one that is never counted anew would have 140 kB
	for fd, flow := range flows.open {
		if flows.examineFlow(fd); flow.pending > most {
			t.Errorf("%d bytes seem to be unfinished, want at most %d", flow.pending, most)
		}
	}
	if len(flows.open) != 1 {
		t.Errorf("%d connections, want 1", len(flows.open))
	}
}

// The server limits how many bytes of messages may wait until the program calls Receive. From an
// unknown peer the server decodes only small messages.
func TestMessagesWaitByTheirBytes(t *testing.T) {
	f := newFleet(t, "a")
	a := f.dial(0)
	go a.Register(within(t), node("a"))
	in := must(f.server.Receive(within(t)))(t)
	welcome := &Welcome{Heartbeat_ns: 1e9, Dead_ns: 3e9}
	if err := f.server.Send(in.Peer, in.Request, welcome); err != nil {
		t.Fatal(err)
	}
	chunk := &Chunk{Path: "x", Size: 1, Data: make([]byte, MaxChunkBytes)}
	const sent = 40
	go func() {
		for range sent {
			a.Send(within(t), 0, chunk)
		}
	}()
	for f.server.queued.Load() < maxQueued {
		time.Sleep(time.Millisecond)
	}
	if !f.server.full() {
		t.Errorf("%d bytes wait, and more are taken", f.server.queued.Load())
	}
	for range sent {
		must(f.server.Receive(within(t)))(t)
	}
	if n := f.server.queued.Load(); n != 0 {
		t.Errorf("%d bytes wait, and nothing does", n)
	}
	body := must(Encode(&Ping{}, 7))(t)
	body[0][7] = byte(KindRegister)
	s := f.rawSocket(0)
	f.connect(s)
	send(t, s, body[0], make([]byte, maxSmall+1))
	f.wantRefused(ReasonTooLarge)
}
