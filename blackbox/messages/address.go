package messages

import (
	"net/netip"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// A library in a program (LD_PRELOAD) does not know the sequence numbers of TCP. Its positions
// begin at 0 for each connection. Only addresses can show which two sockets are the ends of a
// connection.

// lacksNumbers reports whether the log lacks the sequence numbers of a TCP socket.
func (s *socket) lacksNumbers() bool {
	return s.of.Protocol == blackbox.TCP && s.of.Sends == 0 && s.of.Receives == 0
}

// addresses are the two addresses of a connection, as one end sees them.
type addresses struct{ local, remote netip.AddrPort }

type byAddresses map[addresses][]*socket

func (all byAddresses) add(s *socket) {
	at := addresses{s.of.Local, s.of.Remote}
	all[at] = append(all[at], s)
}

// other returns the socket that is the other end of a connection, or nil if that is not sure. If
// ports are used again, several sockets of a node have the same addresses. Then only sockets that
// were used at the same time are considered.
func (all byAddresses) other(s *socket) (found *socket) {
	for _, other := range all[addresses{s.of.Remote, s.of.Local}] {
		sameNode := other.log.Node == s.log.Node && other.log.Epoch == s.log.Epoch
		switch {
		case other == s:
			continue
		case s.of.Local.Addr().IsLoopback() && (!sameNode || other.of.Namespace != s.of.Namespace):
			continue // the loopback interface of another node
		case sameNode && !s.usedTogether(other):
			continue
		}
		if found != nil {
			return nil
		}
		found = other
	}
	return found
}

// usedTogether reports whether two sockets of a node were used at the same time.
func (s *socket) usedTogether(other *socket) bool {
	first, last := s.usedStamps()
	begins, ends := other.usedStamps()
	return first <= ends && begins <= last
}

// usedStamps returns the first and the last stamp of a socket.
func (s *socket) usedStamps() (first, last uint64) {
	first = ^uint64(0)
	if s.moved != nil {
		first, last = s.moved.first, s.moved.last
	}
	for _, calls := range [][]end{s.sends, s.receives} {
		for i := range calls {
			first, last = min(first, calls[i].began), max(last, calls[i].ended)
		}
	}
	return first, last
}
