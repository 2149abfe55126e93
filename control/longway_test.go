package control

import (
	"io"
	"net"
	"testing"
	"time"
)

// passLate passes bytes on in the order in which they come, each after a delay.
func passLate(to io.WriteCloser, from io.Reader, delay time.Duration) {
	type piece struct {
		bytes []byte
		due   time.Time
	}
	pieces := make(chan piece, 1000)
	go func() {
		defer to.Close()
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			to.Write(p.bytes)
		}
	}()
	defer close(pieces)
	for {
		b := make([]byte, 4096)
		n, err := from.Read(b)
		if err != nil {
			return
		}
		pieces <- piece{b[:n], time.Now().Add(delay)}
	}
}

// A client reaches a server that is far away, although the handshake takes longer than stuckLimit.
func TestAHandshakeOverALongWay(t *testing.T) {
	t.Parallel()
	const delay = 220 * time.Millisecond // the handshake takes five to seven times as long
	f := newFleet(t, "a")
	f.admitAll()
	way := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer way.Close()
	go func() {
		for {
			client, err := way.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", f.server.Address())
			if err != nil {
				client.Close()
				continue
			}
			go passLate(server, client, delay)
			go passLate(client, server, delay)
		}
	}()
	a := must(Dial(ClientConfig{
		Server: way.Addr().String(), Key: &f.clients[0], Public: f.key.Public,
	}))(t)
	defer a.Close()
	must(a.Register(within(t), node("a")))(t)
}
