package agent

import (
	"net"
	"sync"
)

// maxConnections is the largest number of connections that an agent accepts at each of its
// addresses. Further callers wait. While they wait, the agent needs no descriptors for them.
const maxConnections = 64

// boundedListener is a listener with a limit on its open connections.
type boundedListener struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

func bound(l net.Listener) net.Listener {
	return &boundedListener{
		Listener: l, slots: make(chan struct{}, maxConnections), closed: make(chan struct{}),
	}
}

func (b *boundedListener) Accept() (net.Conn, error) {
	select {
	case b.slots <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.slots
		return nil, err
	}
	return &boundedConn{Conn: c, done: sync.OnceFunc(func() { <-b.slots })}, nil
}

func (b *boundedListener) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	done func()
}

func (c *boundedConn) Close() error {
	defer c.done()
	return c.Conn.Close()
}
