package messages

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// A Socket is one captured end of a connection. While its calls are loaded, they are in the order
// of their bytes.
type Socket struct {
	Log      *Log
	Of       *blackbox.Connection
	Other    *Socket // the other end; nil: not known
	Sends    []Call
	Receives []Call

	unloaded *socket // nil: the calls are loaded, and stay so
}

// Sockets returns all sockets that are connected. In TCP and UNIX sockets, the field Other is set
// if the other end is known. In sockets of other kinds, the calls are in the order of the stamps.
// Load loads the calls. Sockets removes the calls from the logs, so that no call is in memory
// twice.
func Sockets(logs []*Log) []*Socket {
	sockets, _ := mergeSockets(logs)
	otherEnd := findOtherEnd(sockets)
	others := peersOf(sockets)
	for _, s := range sockets {
		if !s.isTCP() {
			continue
		}
		if other := otherEnd(s); other != nil {
			others[s] = other
		}
	}
	var all []*Socket
	of := map[*socket]*Socket{}
	for _, s := range sockets {
		s.busy, s.again = nil, nil
		if s.isTCP() || s.of.Family == blackbox.UNIX || s.of.Remote.Port() != 0 {
			of[s] = &Socket{Log: s.log, Of: &s.of, unloaded: s}
			all = append(all, of[s])
		} else {
			s.sends, s.receives, s.moved = nil, nil, nil
		}
	}
	for s, other := range others {
		of[s].Other = of[other]
	}
	return all
}

// Load loads the calls of a socket.
func (k *Socket) Load() error {
	s := k.unloaded
	if s == nil || k.Sends != nil || k.Receives != nil {
		return nil
	}
	sends, receives, err := s.readBack()
	if err != nil {
		return err
	}
	if !s.isTCP() {
		numberCalls(sends, receives)
	}
	k.Sends, k.Receives = s.callsOf(sends), s.callsOf(receives)
	if s.moved == nil {
		s.sends, s.receives, k.unloaded = nil, nil, nil
	}
	return nil
}

// Release removes the calls of a socket from memory, if Load can load them again.
func (k *Socket) Release() {
	if k.unloaded != nil {
		k.Sends, k.Receives = nil, nil
	}
}

// callsOf returns calls in the order of their bytes. It changes the order of the list.
func (s *socket) callsOf(ends []end) []Call {
	inOrder(ends)
	exact := exactCalls(ends, s.lossy)
	calls := make([]Call, len(ends))
	for i := range ends {
		calls[i] = ends[i].call(s, exact[i])
	}
	return calls
}

// peersOf returns the other ends of UNIX sockets, which it finds by the kernel's cookies. Two
// sockets count as the ends of one connection only if each received as many bytes as the other
// sent. Then no datagram was lost, and the capture has seen both sockets from the same byte on.
func peersOf(sockets []*socket) map[*socket]*socket {
	find := unixPeers(sockets)
	peers := map[*socket]*socket{}
	for _, s := range sockets {
		if s.of.Family != blackbox.UNIX {
			continue
		}
		other := find(s)
		if other == nil {
			continue
		}
		sent, received := s.sizes()
		if otherSent, got := other.sizes(); sent != got || received != otherSent {
			continue
		}
		peers[s], peers[other] = other, s
	}
	return peers
}

func bytesOf(calls []end) (n uint64) {
	for i := range calls {
		n += uint64(calls[i].bytes)
	}
	return n
}

// numberCalls gives a position to each call of a UNIX or UDP socket. The bytes have the order of
// the calls.
func numberCalls(lists ...[]end) {
	for _, calls := range lists {
		slices.SortStableFunc(calls, func(a, b end) int { return cmp.Compare(a.began, b.began) })
		at := uint64(0)
		for i := range calls {
			calls[i].position, calls[i].sure = at, true
			at += uint64(calls[i].bytes)
		}
	}
}
