package control

import (
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// fdProperty is where ZeroMQ says, of a message, which socket it came from (what ZMQ_SRCFD returns).
const fdProperty = "__fd"

// A connection is what is known of a peer that came in with a key.
type connection struct {
	public string // its key
	fd     int    // ZeroMQ's socket; −1: not known
	remote netip.AddrPort
}

// note takes note of a peer's connection, with its first message.
func (s *Server) note(peer Peer, public, fd string) {
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
}

// ended forgets the connection that a socket was of.
func (s *Server) ended(fd int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer, c := range s.connections {
		if c.fd == fd {
			delete(s.connections, peer)
		}
	}
}

// revoke ends all that a key is connected by, and tells who receives.
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
		s.cut(peer)
		s.revoked = append(s.revoked, Incoming{Peer: peer, Key: key, Revoked: true})
	}
	s.revoked = append(s.revoked, Incoming{Key: key, Revoked: true})
}

// cut ends a peer's connection. ZeroMQ ends none, but takes a socket whose other end is gone for
// what it is; and what connects anew is asked for its key.
func (s *Server) cut(peer Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.connections[peer]
	delete(s.connections, peer)
	delete(s.registered, peer)
	// The number may be of another socket by now, which must not suffer.
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
