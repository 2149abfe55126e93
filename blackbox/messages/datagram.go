package messages

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// Datagrams may be lost, doubled and reordered, and the receiver's socket may not know who sends to
// it. So the two ends of a datagram are found by its size and its checksum. They must also agree
// with all addresses that are known, and the receiving call must not end before the sending one
// begins. If several datagrams are alike, a receiving call is matched only if it can have received
// just one of them. If records were lost or a log began shortly before, it may not be matched: see
// gap.go.

// A datagram is a call that sent or received a datagram, and the socket that the call used.
type datagram struct {
	of *socket
	*end
}

// content is what the two ends of a datagram have in common.
type content struct{ bytes, checksum uint32 }

func (d datagram) content() content { return content{d.bytes, d.checksum()} }

// mayBeReceived reports whether a datagram can have been received by a call.
func (d datagram) mayBeReceived(receive datagram, possible possibleFunc) bool {
	send, got := d.call(d.of, true), receive.call(receive.of, true)
	send.Lo_cycles = d.earliestBegin()
	return possible(&send, &got)
}

// sameNode is a possibleFunc that compares only calls of one node and one epoch. For all other
// calls it returns true.
func sameNode(send, receive *Call) bool {
	return send.Log.Node != receive.Log.Node || send.Log.Epoch != receive.Log.Epoch ||
		send.Lo_cycles <= receive.Hi_cycles
}

// matchDatagrams matches datagrams.
func (m *Matched) matchDatagrams(logs []*Log, sockets []*socket, possible possibleFunc,
	each func(Match)) {
	var sends, receives []datagram
	g := datagramMatcher{
		Matched: m, possible: possible, each: each, votes: map[translation]int{},
		captured: map[*socket]bool{}, receivers: map[uint16][]*socket{},
		owners: map[netip.Addr]map[namespace]bool{}, unsure: map[content]bool{},
		begun: findBeginnings(logs, possible),
	}
	gaps := findGaps(logs)
	for _, s := range sockets {
		if a := plainAddress(s.of.Local).Addr(); a.IsValid() && !a.IsUnspecified() {
			if g.owners[a] == nil {
				g.owners[a] = map[namespace]bool{}
			}
			g.owners[a][namespaceOf(s)] = true
		}
		for i := range s.sends {
			if s.sends[i].checksum() == 0 {
				m.Left[NoChecksum]++
			} else {
				sends = append(sends, datagram{s, &s.sends[i]})
			}
		}
		for i := range s.receives {
			d := datagram{s, &s.receives[i]}
			switch {
			case d.checksum() == 0:
			case gaps.mayLackSender(d, possible):
				g.unsure[d.content()] = true
			default:
				receives = append(receives, d)
			}
		}
		if len(s.receives) > 0 {
			port := s.of.Local.Port()
			g.receivers[port] = append(g.receivers[port], s)
		}
	}
	for _, all := range [][]datagram{sends, receives} {
		slices.SortStableFunc(all, func(a, b datagram) int {
			return cmp.Or(cmp.Compare(a.checksum(), b.checksum()), cmp.Compare(a.bytes, b.bytes))
		})
	}
	eachContent(sends, receives, g.noteVote)
	eachContent(sends, receives, g.match)
}

// eachContent goes through all contents that were sent. For every content, it calls the function
// that is named each, and passes all datagrams with this content.
func eachContent(sends, receives []datagram, each func(sends, receives []datagram)) {
	cut := func(all []datagram, c content) (these, rest []datagram) {
		n := 0
		for n < len(all) && all[n].content() == c {
			n++
		}
		return all[:n], all[n:]
	}
	for len(sends) > 0 {
		c := sends[0].content()
		for len(receives) > 0 && cmp.Or(cmp.Compare(receives[0].checksum(), c.checksum),
			cmp.Compare(receives[0].bytes, c.bytes)) < 0 {
			receives = receives[1:]
		}
		var s, r []datagram
		s, sends = cut(sends, c)
		r, receives = cut(receives, c)
		each(s, r)
	}
}

// datagramMatcher matches sent datagrams with received datagrams. It looks at all datagrams with
// the same content together.
type datagramMatcher struct {
	*Matched
	possible  possibleFunc
	each      func(Match)
	receivers map[uint16][]*socket // by local port
	captured  map[*socket]bool     // by sending socket: whether a captured one may receive from it
	votes     map[translation]int
	owners    map[netip.Addr]map[namespace]bool // where sockets have an address
	unsure    map[content]bool                  // of received ones whose sending call may be lost
	begun     *beginnings
}

// A namespace is one of a node's networks.
type namespace struct {
	node, epoch string
	number      uint32
}

func namespaceOf(s *socket) namespace {
	return namespace{s.log.Node, s.log.Epoch, s.of.Namespace}
}

// mostPairs is the largest number of pairs of datagrams of one content that are compared.
const mostPairs = 1 << 22

// match matches the datagrams of one content.
func (g *datagramMatcher) match(sends, receives []datagram) {
	if len(sends)*len(receives) > mostPairs {
		g.Left[Alike] += uint64(len(sends))
		return
	}
	claims := make([][]datagram, len(sends)) // receiving calls that can have only this one
	alike := make([]bool, len(sends))        // a receiving call can have this one or others
	early := make([]bool, len(sends))        // such a call may have received an older datagram
	again := len(sends) > 1 || len(receives) > 1
	for _, r := range receives {
		var possible []int
		for i, s := range sends {
			if g.isConceivable(s.of, r.of) && s.mayBeReceived(r, g.possible) {
				possible = append(possible, i)
			}
		}
		older := again && len(possible) > 0 && g.begun.mayBeOlder(r)
		for _, i := range possible {
			alike[i], early[i] = true, early[i] || older
		}
		if len(possible) == 1 && g.fitsReceiver(sends[possible[0]].of, r.of) {
			claims[possible[0]] = append(claims[possible[0]], r)
		}
	}
	for i, s := range sends {
		// A datagram may be doubled on the way. Then the first copy counts.
		slices.SortFunc(claims[i], func(a, b datagram) int { return cmp.Compare(a.ended, b.ended) })
		switch c := claims[i]; {
		case early[i]:
			g.Left[NearBegin]++
		case slices.ContainsFunc(c, func(d datagram) bool { return d.of != c[0].of }):
			g.Left[Several]++
		case len(c) > 0:
			send, got := *s.end, *c[0].end
			send.position, got.position = 0, 0 // they are checksums
			g.countFound(s.of, c[0].of, &send, &got, g.each)
		case alike[i]:
			g.Left[Alike]++
		case g.unsure[s.content()]:
			g.Left[NearLoss]++
		case g.knowsReceiver(s.of):
			g.Left[NotReceived]++
		default:
			g.countUnknown(s.of, s.end)
		}
	}
}

// knowsReceiver reports whether a captured socket may receive what the socket s sends. It does not
// find a receiver whose port is changed by a translation on the way.
func (g *datagramMatcher) knowsReceiver(s *socket) bool {
	is, known := g.captured[s]
	if !known {
		port := s.of.Remote.Port()
		is = port == 0 || slices.ContainsFunc(g.receivers[port], func(r *socket) bool {
			return g.fitsReceiver(s, r)
		})
		g.captured[s] = is
	}
	return is
}

// A translation says that something on the way, such as NAT or a load balancer, gives datagrams
// other addresses.
type translation struct {
	to, at   netip.AddrPort // sent to the first one, received at the second one
	by, from netip.AddrPort // sent by the first one, received from the second one
	node     string         // of the receiver
	network  uint32         // the namespace of its network
}

// enoughDatagrams is the number of datagrams of different contents that prove a translation.
const enoughDatagrams = 3

// noteVote notes a translation that can explain why the two ends of a datagram see different
// addresses. The caller ensures that all captured datagrams with this content are copies of one
// datagram.
func (g *datagramMatcher) noteVote(sends, receives []datagram) {
	if len(sends) != 1 || len(receives) == 0 {
		return
	}
	s, r := sends[0], receives[0]
	if slices.ContainsFunc(receives, func(d datagram) bool { return d.of != r.of }) {
		return
	}
	if t, near := compareAddresses(s.of, r.of); !near && t != (translation{}) &&
		s.mayBeReceived(r, g.possible) {
		g.votes[t]++
	}
}

// fitsReceiver reports whether a socket can receive what another one sends.
func (g *datagramMatcher) fitsReceiver(s, r *socket) bool {
	t, near := compareAddresses(s, r)
	return near || t != (translation{}) && g.votes[t] >= enoughDatagrams
}

// isConceivable reports whether socket r may receive what socket s sends. It also returns true if
// addresses may be translated between the two, even if too few datagrams have passed to prove the
// translation. But it returns false if one of the translated addresses belongs to another captured
// node: that node itself receives what is sent to its addresses, and sends what comes from them.
func (g *datagramMatcher) isConceivable(s, r *socket) bool {
	t, near := compareAddresses(s, r)
	if near || t == (translation{}) {
		return near
	}
	return g.votes[t] >= enoughDatagrams || !g.knownElsewhere(t.to, r) &&
		!g.knownElsewhere(t.from, s)
}

// knownElsewhere reports whether an address is known in other namespaces, but not in a socket's
// own.
func (g *datagramMatcher) knownElsewhere(a netip.AddrPort, s *socket) bool {
	owners := g.owners[a.Addr()]
	return len(owners) > 0 && !owners[namespaceOf(s)]
}

// compareAddresses compares the addresses that two sockets know. If the addresses agree, near is
// true. Otherwise compareAddresses returns the translation that must lie between the sockets, or an
// empty one if no translation is possible.
func compareAddresses(s, r *socket) (t translation, near bool) {
	sameNode := s.log.Node == r.log.Node && s.log.Epoch == r.log.Epoch
	if s == r || (s.of.Family == blackbox.UNIX) != (r.of.Family == blackbox.UNIX) {
		return t, false
	}
	if s.of.Family == blackbox.UNIX {
		return t, sameNode && (s.of.Peer == 0 || s.of.Peer == r.of.Cookie) &&
			(r.of.Peer == 0 || r.of.Peer == s.of.Cookie)
	}
	to, by, at, from := plainAddress(s.of.Remote), plainAddress(s.of.Local),
		plainAddress(r.of.Local), plainAddress(r.of.Remote)
	for _, a := range []netip.AddrPort{to, by, at, from} {
		if a.Addr().IsLoopback() && !(sameNode && s.of.Namespace == r.of.Namespace) {
			return t, false
		}
	}
	if to.Port() != 0 && !coversAddress(at, to) {
		t.to, t.at = to, at
	}
	if from.Port() != 0 && !coversAddress(by, from) {
		t.by, t.from = by, from
	}
	if t == (translation{}) {
		return t, true
	}
	t.node, t.network = r.log.Node, r.of.Namespace
	return t, false
}

// plainAddress returns an IPv4 address in the form of IPv4, even if the socket has it in the form
// of IPv6.
func plainAddress(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// coversAddress reports whether a socket receives what is sent to a given address. The parameter
// local is the socket's own address, or an address that stands for all addresses of its machine.
func coversAddress(local, address netip.AddrPort) bool {
	return local.Port() == address.Port() &&
		(!local.Addr().IsValid() || local.Addr().IsUnspecified() || local.Addr() == address.Addr())
}
