package agent

import (
	"errors"
	"net"
	"path/filepath"
	"testing"
)

// Callers that open connections and send nothing occupy only a limited number of the agent's
// descriptors.
func TestConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	l := bound(inner)
	var held []net.Conn
	dial := func() {
		c, err := net.Dial("unix", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	for range maxConnections {
		dial()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	slots := l.(*boundedListener).slots
	if len(slots) != maxConnections || cap(slots) != maxConnections {
		t.Fatalf("%d of %d slots are taken by %d connections", len(slots), cap(slots),
			maxConnections)
	}
	dial() // this connection waits
	type accepted struct {
		net.Conn
		error
	}
	next := make(chan accepted)
	go func() {
		for range 2 {
			c, err := l.Accept()
			next <- accepted{c, err}
		}
	}()
	held[0].Close()
	held[0].Close() // a second Close must not free a second slot
	c := <-next
	if c.error != nil {
		t.Fatalf("the next one, after another has gone: %v", c.error)
	}
	defer c.Close()
	if len(slots) != maxConnections {
		t.Errorf("%d slots are taken by %d connections", len(slots), maxConnections)
	}
	l.Close()
	if c := <-next; !errors.Is(c.error, net.ErrClosed) {
		t.Errorf("while all are taken, it is closed: %v", c.error)
	}
}
