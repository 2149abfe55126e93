package control

import (
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// fdProperty is the property of a message in which ZeroMQ gives the socket that it came from. It is
// what ZMQ_SRCFD returns.
const fdProperty = "__fd"

// A connection is what the server knows of a peer that came with a key.
type connection struct {
	public string // the peer's key
	fd     int    // ZeroMQ's descriptor; −1: not known
	remote netip.AddrPort
}

// note remembers a peer's connection when its first message arrives.
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

// ended forgets the connection that used a descriptor.
func (s *Server) ended(fd int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer, c := range s.connections {
		if c.fd == fd {
			delete(s.connections, peer)
		}
	}
}

// revoke ends all connections of a key, and tells the receiver of the server's messages.
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

// cut ends a peer's connection. ZeroMQ itself cannot end one, so cut shuts the TCP socket down.
// ZeroMQ then treats the socket like any whose other end is gone. A new connection has to prove its
// key.
func (s *Server) cut(peer Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.connections[peer]
	delete(s.connections, peer)
	delete(s.registered, peer)
	// The descriptor may belong to another socket by now, which must stay open.
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
