package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/pebbe/zmq4"
)

// rawSocket returns a ZeroMQ socket that can send any frames with the key of client i.
func (f *fleet) rawSocket(i int) *zmq4.Socket {
	f.t.Helper()
	s := must(must(clients())(f.t).NewSocket(zmq4.DEALER))(f.t)
	f.t.Cleanup(func() { s.SetLinger(0); s.Close() })
	if err := errors.Join(
		s.SetCurveServerkey(f.key.Public), s.SetCurvePublickey(f.clients[i].Public),
		s.SetCurveSecretkey(f.clients[i].Secret),
		s.SetRcvtimeo(patience), s.SetSndtimeo(patience),
	); err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fleet) connect(s *zmq4.Socket) {
	f.t.Helper()
	if err := s.Connect("tcp://" + f.server.Address()); err != nil {
		f.t.Fatal(err)
	}
}

func send(t *testing.T, s *zmq4.Socket, frames ...[]byte) {
	t.Helper()
	parts := []any{}
	for _, f := range frames {
		parts = append(parts, f)
	}
	if _, err := s.SendMessage(parts...); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, s *zmq4.Socket) Message {
	t.Helper()
	m, _, err := Decode(must(s.RecvMessageBytes(0))(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func wantCode(t *testing.T, m Message, code Code) {
	t.Helper()
	if r, ok := m.(*Refusal); !ok || r.Code != code {
		t.Errorf("answer is %s %+v, want a refusal: %s", m.Kind(), m, code)
	}
}

func TestReplayedRegistrationIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a", "b", "c")
	f.admitAll()
	c := f.dial(2)
	must(c.Register(within(t), node("c")))(t)
	s := f.rawSocket(0)
	f.connect(s)
	hello := must(Encode(&Hello{Name: "a"}, 1))(t)
	send(t, s, hello...)
	r := node("a")
	r.Nonce = receive(t, s).(*Challenge).Nonce
	register := must(Encode(&r, 2))(t)
	send(t, s, register...)
	if m := receive(t, s); m.Kind() != KindWelcome {
		t.Fatalf("answer to a registration is %s", m.Kind())
	}
	send(t, s, register...) // again on the same connection
	wantCode(t, receive(t, s), Replayed)

	other := f.rawSocket(1) // another client that overheard the registration
	f.connect(other)
	send(t, other, register...)
	wantCode(t, receive(t, other), Replayed)
	send(t, other, hello...)
	receive(t, other)
	send(t, other, register...)
	wantCode(t, receive(t, other), Replayed)
	if n := f.server.Refused()[ReasonReplayed]; n != 3 {
		t.Errorf("%d replays counted, want 3", n)
	}
	f.wantRefused(ReasonReplayed)
	f.wantWell(c)
}

func TestChallengesEnd(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	g := newGate(func() time.Time { return now })
	first := g.challenge("a")
	second := g.challenge("a")
	if first == second || g.admit("a", first) {
		t.Error("a challenge outlives the next one")
	}
	if g.admit("a", second) {
		t.Error("a challenge outlives a wrong answer")
	}
	nonce := g.challenge("a")
	if g.challenge("b"); g.admit("b", nonce) {
		t.Error("a challenge is answered by another connection")
	}
	now = now.Add(challengeLasts)
	if g.admit("a", nonce) {
		t.Error("a challenge outlives its time")
	}
	if nonce = g.challenge("a"); !g.admit("a", nonce) || g.admit("a", nonce) {
		t.Error("a challenge is not answered exactly once")
	}
	for i := range 3 * maxChallenges {
		g.challenge(Peer(fmt.Sprint(i)))
	}
	if len(g.open) > maxChallenges || len(g.order) > maxChallenges {
		t.Errorf("%d challenges are kept", len(g.open))
	}
}

func TestServerRefusesWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	ping := must(Encode(&Ping{}, 9))(t)
	empty := func(v Version, k Kind) [][]byte {
		return [][]byte{header{v, k, 9}.encode(), []byte("{}")}
	}
	twoApart := Version{Current.Major, Current.Minor + 2}
	welcome := must(Encode(&Welcome{Heartbeat_ns: 1, Dead_ns: 2}, 9))(t)
	http := append([]byte("HTTP"), ping[0][4:]...)
	tests := map[string]struct {
		frames [][]byte
		reason Reason
		code   Code
	}{
		"no frames":       {[][]byte{{}}, ReasonMalformed, Malformed},
		"other magic":     {[][]byte{http, ping[1]}, ReasonMalformed, Malformed},
		"no JSON":         {[][]byte{ping[0], []byte("ping")}, ReasonMalformed, Malformed},
		"null":            {[][]byte{ping[0], []byte("null")}, ReasonMalformed, Malformed},
		"unknown kind":    {empty(Current, 999), ReasonKind, UnknownKind},
		"server's kind":   {must(Encode(&Pong{}, 9))(t), ReasonUnregistered, NotRegistered},
		"not for servers": {welcome, ReasonKind, UnknownKind},
		"unregistered":    {ping, ReasonUnregistered, NotRegistered},
		"minor 2 apart":   {empty(twoApart, KindPing), ReasonVersion, WrongVersion},
		"other major":     {empty(Version{1, 0}, KindPing), ReasonVersion, WrongVersion},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, "a")
			s := f.rawSocket(0)
			f.connect(s)
			send(t, s, test.frames...)
			wantCode(t, receive(t, s), test.code)
			f.wantRefused(test.reason)
		})
	}
}

func TestServerRefusesRoutingIDsOfAPeersOwn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	s := f.rawSocket(0)
	if err := s.SetIdentity("1234"); err != nil {
		t.Fatal(err)
	}
	f.connect(s)
	send(t, s, must(Encode(&Hello{Name: "a"}, 1))(t)...)
	wantCode(t, receive(t, s), Malformed)
	f.wantRefused(ReasonIdentity)
}

func TestServerCutsGiantMessages(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a", "b")
	f.admitAll()
	b := f.dial(1)
	must(b.Register(within(t), node("b")))(t)
	s := f.rawSocket(0)
	f.connect(s)
	frames := must(Encode(&Table{}, 1))(t)
	frames[2] = make([]byte, 100<<20)
	send(t, s, frames...)
	f.wantRefused(ReasonDisconnected)
	f.wantWell(b)

	frames[2] = make([]byte, MaxMessageBytes-4) // each frame is short enough, the message is not
	other := f.rawSocket(0)
	f.connect(other)
	send(t, other, frames...)
	wantCode(t, receive(t, other), TooLarge)
	f.wantRefused(ReasonTooLarge)
	f.wantWell(b)
}

// The server cuts a peer that sends single bytes slowly, in any stage of the handshake.
func TestServerCutsDrippingPeers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	f.admitAll()
	a := f.dial(0)
	must(a.Register(within(t), node("a")))(t)
	greeting := append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1}, "CURVE"...)
	greeting = append(greeting, make([]byte, 64-len(greeting))...)
	command := []byte{6, 0, 0, 0, 0, 0, 0, 4, 0} // the header of a command of 1,024 bytes
	for _, text := range [][]byte{
		nil,
		bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 100),
		greeting,
		slices.Concat(greeting, command[:6]),
		slices.Concat(greeting, command, make([]byte, 1024)), // takes more than 20 s
	} {
		conn := must(net.Dial("tcp", f.server.Address()))(t)
		began, cut, i := time.Now(), false, 0
		for ; !cut && time.Since(began) < patience; i++ {
			if i == 10 {
				f.wantWell(a) // meanwhile the slow peer is still connected
			}
			if i < len(text) {
				if _, err := conn.Write(text[i : i+1]); err != nil {
					cut = true
				}
			}
			conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			_, err := conn.Read(make([]byte, 1000))
			if err != nil && !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
				cut = true
			}
		}
		// The limit is for the whole handshake, so it ends long before the last of many bytes.
		if !cut || len(text) > 1000 && i >= len(text) {
			t.Errorf("a peer that slowly sends %.70q: cut: %v, after %d bytes in %v", text, cut, i,
				time.Since(began))
		}
		conn.Close()
	}
	f.wantRefused(ReasonHandshake)
	f.wantWell(a)
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}
