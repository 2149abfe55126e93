package control

import (
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// fdProperty names a property of a received message: the descriptor of the connection on which the
// message arrived, as in ZMQ_SRCFD.
const fdProperty = "__fd"

// A connection is the server's record of a peer that sent a message.
type connection struct {
	public string // the peer's key; "" without keys
	may    bool   // the peer may end the connection: it said farewell, or is a command that asked
	fd     int    // the descriptor of ZeroMQ's socket; −1: unknown
	remote netip.AddrPort
}

// noteConnection records a peer's connection when the peer's first message arrives.
func (s *Server) noteConnection(peer Peer, public, fd string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.connections[peer]; known {
		return
	}
	c := connection{public: public, fd: -1}
	if n, err := strconv.Atoi(fd); err == nil {
		if remote, ok := remoteOf(n); ok {
			c.fd, c.remote = n, remote
		}
	}
	s.connections[peer] = c
	if c.fd >= 0 {
		delete(s.connections, s.peers[c.fd]) // an earlier one, whose end nobody noticed yet
		s.peers[c.fd] = peer
	}
}

// mayEnd records whether a peer may end its connection. A peer may do so if it said farewell, or if
// it is a command that asked a question. If the connection of any other peer ends, the server
// counts and logs that. If a command registers as a node, it may no longer end its connection.
func (s *Server) mayEnd(peer Peer, may bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, known := s.connections[peer]; known && c.may != may {
		c.may = may
		s.connections[peer] = c
	}
}

// removeEnded removes the record of the connection that used the given descriptor. It returns true
// if the peer was not allowed to end the connection (see mayEnd).
func (s *Server) removeEnded(fd int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	peer := s.peers[fd]
	c := s.connections[peer]
	delete(s.peers, fd)
	delete(s.connections, peer)
	return !c.may
}

// revoke ends all connections of a key. For Receive, it queues an Incoming about each of these
// connections, and one about the key.
func (s *Server) revoke(key Key) {
	if log := s.refused.log; log != nil {
		log.Warn("key was taken off the list: its connections end",
			"key", key.Name, "role", string(key.Role))
	}
	s.mu.Lock()
	var peers []Peer
	for peer, c := range s.connections {
		if c.public == key.Public {
			peers = append(peers, peer)
		}
	}
	s.mu.Unlock()
	for _, peer := range peers {
		s.cutPeer(peer)
		s.revoked = append(s.revoked, Incoming{Peer: peer, Key: key, Revoked: true})
	}
	s.revoked = append(s.revoked, Incoming{Key: key, Revoked: true})
}

// cutPeer ends a peer's connection. ZeroMQ has no function for this, so cutPeer shuts down the TCP
// socket. ZeroMQ then acts as if the peer had closed the connection. If the peer connects again, it
// must prove its key.
func (s *Server) cutPeer(peer Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.connections[peer]
	delete(s.connections, peer)
	delete(s.registered, peer)
	delete(s.peers, c.fd)
	// By now the descriptor may belong to the socket of another connection. That other connection
	// must stay open.
	if remote, ok := remoteOf(c.fd); ok && remote == c.remote {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR)
	}
}

// remoteOf returns the address of the other end of a TCP socket.
func remoteOf(fd int) (netip.AddrPort, bool) {
	if fd < 0 {
		return netip.AddrPort{}, false
	}
	address, err := unix.Getpeername(fd)
	if err != nil {
		return netip.AddrPort{}, false
	}
	switch a := address.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), true
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)), true
	}
	return netip.AddrPort{}, false
}
