package messages

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A network carries datagrams between the sockets of three nodes. It loses, doubles and reorders
// them, and one address on it is that of a load balancer.
type network struct {
	random   *rand.Rand
	now      uint64
	logs     [3]*Log
	number   uint32
	flying   []flyingDatagram
	content  uint32
	repeated uint32 // number of contents that are sent again and again

	truth map[uint64]map[*post]uint64 // by sent call: the first receiving call at each socket
	alike map[uint64]bool             // sent calls whose content is sent again and again
	by    map[uint64]way
	ways  map[way]int // sent and received datagrams of each way, with contents of their own

	posts    []*post
	before   bool              // the logs have not begun yet
	loss     float64           // share of the calls that the logs lack now
	nearLoss bool              // a call that sent a datagram may be lost
	received map[uint64]uint64 // by receiving call: the call that sent
}

// A way is the addresses between which datagrams travel.
type way struct{ to, at string }

// A post is a socket.
type post struct {
	log           *Log
	number        uint32
	local, remote netip.AddrPort
	queue         []flyingDatagram
}

type flyingDatagram struct {
	call     uint64
	to       *post
	bytes    uint32
	checksum uint32
}

var nowhere = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)

func newNetwork(random *rand.Rand) *network {
	n := &network{
		random: random, now: 1000, truth: map[uint64]map[*post]uint64{}, alike: map[uint64]bool{},
		by: map[uint64]way{}, ways: map[way]int{}, content: random.Uint32(),
		repeated: 3,
		received: map[uint64]uint64{},
	}
	for i := range n.logs {
		n.logs[i] = newLog(fmt.Sprint("node-", i))
		n.logs[i].complete = true
	}
	return n
}

// openSocket makes a socket with a local address. About half of the sockets also accept datagrams
// for the other addresses of their node. If the parameter remote is a valid address, the socket is
// also connected to that address.
func (n *network) openSocket(node int, local string, remote netip.AddrPort) *post {
	n.number++
	p := &post{
		log: n.logs[node], number: n.number, local: netip.MustParseAddrPort(local), remote: remote,
	}
	bound := p.local
	if n.random.IntN(2) == 0 { // it accepts datagrams for all addresses of its node
		bound = netip.AddrPortFrom(netip.IPv4Unspecified(), bound.Port())
	}
	p.log.add(blackbox.Connection{
		Number: p.number, Family: blackbox.IPv4, Protocol: blackbox.UDP, Local: bound,
		Remote: remote, Cookie: uint64(p.number),
	})
	return p
}

func (n *network) record(p *post, k blackbox.Kind, f flyingDatagram) uint64 {
	n.now += 10 + uint64(n.random.IntN(50))
	if n.before {
		return n.now
	}
	if n.loss > 0 && n.random.Float64() < n.loss {
		p.log.add(blackbox.Loss{Reason: blackbox.BufferFull, First_cycles: n.now,
			Last_cycles: n.now, Messages: 1})
		return n.now
	}
	p.log.add(blackbox.Message{
		Kind: k, Began_cycles: n.now, Ended_cycles: n.now + 5, Connection: p.number,
		Thread: p.number, Bytes: f.bytes, Checksum: f.checksum,
	})
	return n.now
}

// send sends a datagram. If it goes through the load balancer, it is sent to an address that the
// receiver does not have.
func (n *network) send(from, to *post, repeated bool) {
	n.content++
	f := flyingDatagram{to: to, bytes: 1 + n.random.Uint32N(2000), checksum: n.content * 2654435761}
	if repeated {
		f.bytes, f.checksum = 4, 7+n.random.Uint32N(n.repeated)
	}
	f.call = n.record(from, blackbox.Sent, f)
	n.truth[f.call], n.alike[f.call] = map[*post]uint64{}, repeated
	n.by[f.call] = way{from.remote.String() + from.local.String(), to.local.String()}
	if from.remote.Port() == 53 { // clients of one service share a way
		n.by[f.call] = way{from.remote.String(), to.local.String()}
	}
	if n.random.IntN(8) > 0 {
		n.flying = append(n.flying, f)
		if n.random.IntN(8) == 0 {
			n.flying = append(n.flying, f)
		}
	}
}

// moveDatagram delivers a datagram to a socket, or none. Then it lets a random socket receive a
// datagram, if one waits there.
func (n *network) moveDatagram(all []*post) {
	if len(n.flying) > 0 && n.random.IntN(2) == 0 {
		i := n.random.IntN(min(len(n.flying), 4))
		f := n.flying[i]
		n.flying = slices.Delete(n.flying, i, i+1)
		f.to.queue = append(f.to.queue, f)
	}
	p := all[n.random.IntN(len(all))]
	if len(p.queue) == 0 {
		return
	}
	f := p.queue[0]
	p.queue = p.queue[1:]
	at := n.record(p, blackbox.Received, f)
	n.received[at] = f.call
	if _, again := n.truth[f.call][p]; !again {
		n.truth[f.call][p] = at
		if !n.alike[f.call] && !n.nearLoss {
			n.ways[n.by[f.call]]++
		}
	}
}

// newMixed returns a network of eight sockets.
func newMixed(random *rand.Rand) *network {
	n := newNetwork(random)
	service := netip.MustParseAddrPort("10.0.9.9:53")
	plain := n.openSocket(0, "10.0.0.1:70", nowhere)
	n.posts = []*post{plain, n.openSocket(1, "10.0.1.1:71", plain.local)}
	for i := range 4 {
		n.posts = append(n.posts, n.openSocket(0, fmt.Sprintf("10.0.0.1:%d", 4000+i), service))
	}
	for i := range 2 {
		n.posts = append(n.posts, n.openSocket(1+i, fmt.Sprintf("10.0.%d.1:53", 1+i), nowhere))
	}
	return n
}

// talk lets the sockets of a mixed network exchange datagrams.
func (n *network) talk(datagrams int) {
	plain, other, clients, servers := n.posts[0], n.posts[1], n.posts[2:6], n.posts[6:]
	random := n.random
	for range datagrams {
		repeated := random.IntN(6) == 0
		switch random.IntN(4) {
		case 0:
			n.send(other, plain, repeated)
		case 1:
			n.send(plain, other, repeated)
		case 2: // by way of the load balancer
			n.send(clients[random.IntN(4)], servers[random.IntN(2)], repeated)
		default:
			n.send(servers[random.IntN(2)], clients[random.IntN(4)], repeated)
		}
		for range random.IntN(6) {
			n.moveDatagram(n.posts)
		}
	}
}

// Datagrams are never matched wrongly, though they are lost, doubled and reordered, and go through
// a load balancer. Every datagram is matched unless its content is sent again and again.
func TestDatagrams(t *testing.T) {
	random := seed.Random(t)
	matched, all := 0, 0
	for range 100 {
		n := newMixed(random)
		n.talk(150)
		m, a := n.check(t)
		matched, all = matched+m, all+a
	}
	t.Logf("%d of %d matched", matched, all)
}

// If the logs lack calls, a datagram may seem to be received by a call that in truth received
// another datagram with the same content. So a datagram that was received during the loss, or
// shortly after it, is not matched. All others are matched as if nothing had been lost.
func TestDatagramsWithLostCalls(t *testing.T) {
	random := seed.Random(t)
	fits := func(send, receive *Call) bool { return send.Lo_cycles <= receive.Hi_cycles+100 }
	matched, near := 0, uint64(0)
	for range 300 {
		n := newMixed(random)
		n.repeated = 30
		n.talk(80)
		n.loss, n.nearLoss = 0.2, true
		before := n.now
		n.talk(80)
		n.loss = 0
		late := n.takeFlying() // these are received much later
		n.talk(80)
		n.now += mostOnTheWay_cycles / 2
		n.flying = append(n.flying, late...)
		for range 1000 {
			n.moveDatagram(n.posts)
		}
		n.takeFlying()
		n.now += mostOnTheWay_cycles
		after := n.now
		n.nearLoss = false
		n.talk(80)
		found := map[uint64]bool{}
		m := match(n.logs[:], fits, func(m Match) {
			matched++
			sent, got := m.Send.Lo_cycles, m.Receive.Lo_cycles
			found[sent] = true
			if n.received[got] != sent {
				t.Fatalf("%d is matched with %d, which received %d", sent, got,
					n.received[got])
			}
		})
		near += m.Left[NearLoss]
		for sent, at := range n.truth {
			for _, got := range at {
				if (got+200 < before || sent > after) && !n.alike[sent] && !found[sent] &&
					n.ways[n.by[sent]] >= enoughDatagrams {
					t.Fatalf("the datagram that was sent at %d by %v is not matched: %+v", sent,
						n.by[sent], m)
				}
			}
		}
	}
	t.Logf("%d datagrams are matched, %d are not because of a loss", matched, near)
	if near == 0 {
		t.Error("no datagram was left out because of a loss")
	}
}

// Logs may begin in the middle of what programs do. Then some datagrams that are received were sent
// before, and others with the same content are sent again. No datagram is matched with a call that
// received another one, or a later copy of it. Long after the beginning of all logs, a beginning
// makes no difference.
func TestDatagramsInTheMiddle(t *testing.T) {
	random := seed.Random(t)
	fits := func(send, receive *Call) bool { return send.Lo_cycles <= receive.Hi_cycles+100 }
	matched, near := 0, uint64(0)
	for range 300 {
		n := newMixed(random)
		n.repeated = 5
		for _, l := range n.logs {
			l.complete = false
		}
		n.before = true
		n.talk(30)
		late := n.takeFlying() // these are received later
		n.before = false
		n.talk(80)
		n.flying = append(n.flying, late...)
		n.talk(80)
		for range 1000 {
			n.moveDatagram(n.posts)
		}
		n.takeFlying()
		n.now += 2 * mostOnTheWay_cycles
		after := n.now
		n.ways = map[way]int{}
		n.talk(300) // sends all contents again that are sent again and again
		found := map[uint64]bool{}
		m := match(n.logs[:], fits, func(m Match) {
			matched++
			sent, got := m.Send.Lo_cycles, m.Receive.Lo_cycles
			found[sent] = true
			first := false
			for _, at := range n.truth[sent] {
				first = first || at == got
			}
			if n.received[got] != sent || !first {
				t.Fatalf("%d is matched with %d, which received %d", sent, got, n.received[got])
			}
		})
		near += m.Left[NearBegin]
		for sent, at := range n.truth {
			if sent > after && len(at) > 0 && !n.alike[sent] && !found[sent] &&
				n.ways[n.by[sent]] >= enoughDatagrams {
				t.Fatalf("the datagram that was sent at %d by %v is not matched: %+v", sent,
					n.by[sent], m)
			}
		}
	}
	t.Logf("%d datagrams are matched, %d are not because a log had just begun", matched, near)
	if near == 0 {
		t.Error("no datagram was left out because a log had just begun")
	}
}

// takeFlying takes from the network all datagrams that were sent and not yet received.
func (n *network) takeFlying() (all []flyingDatagram) {
	all, n.flying = n.flying, nil
	for _, p := range n.posts {
		all = append(all, p.queue...)
		p.queue = nil
	}
	return all
}

func (n *network) check(t *testing.T) (matched, all int) {
	t.Helper()
	found := map[uint64]bool{}
	// The clocks of the nodes are known within 100 cycles.
	fits := func(send, receive *Call) bool { return send.Lo_cycles <= receive.Hi_cycles+100 }
	m := match(n.logs[:], fits, func(m Match) {
		sent, got := m.Send.Lo_cycles, m.Receive.Lo_cycles
		right := false
		for _, at := range n.truth[sent] {
			right = right || at == got
		}
		if !right || found[sent] {
			t.Fatalf("wrong match: %+v, received at %v", m, n.truth[sent])
		}
		found[sent] = true
	})
	var left uint64
	for _, k := range m.Left {
		left += k
	}
	if m.Matched+left != m.Sent || len(found) != int(m.Matched) || int(m.Sent) != len(n.truth) {
		t.Errorf("%+v", m)
	}
	for sent, at := range n.truth {
		if len(at) == 0 {
			continue
		}
		all++
		if found[sent] {
			matched++
		} else if !n.alike[sent] && n.ways[n.by[sent]] >= enoughDatagrams {
			t.Errorf("the datagram that was sent at %d by %v is not matched: %+v", sent,
				n.by[sent], m)
		}
	}
	return matched, all
}

// Two back ends behind one address give identical answers. A received answer is matched if only one
// of the two sent answers fits, because the other one was sent too late, or to somebody else. If
// both fit, neither is chosen, and the message is counted with this reason.
func TestIdenticalAnswers(t *testing.T) {
	const bound = 100 // the clocks of the nodes are known within so many cycles
	fits := func(send, receive *Call) bool { return send.Lo_cycles <= receive.Hi_cycles+bound }
	service := netip.MustParseAddrPort("10.0.9.9:53")
	for name, c := range map[string]struct {
		sent  [2]uint64 // when each back end sends the answer; 0: it does not
		got   uint64
		right int // the back end that sent what the client received; -1: nobody can know
	}{
		"one answers":                  {[2]uint64{5000, 0}, 6000, 0},
		"the other answers afterwards": {[2]uint64{5000, 6400}, 6000, 0},
		"outside of the bound":         {[2]uint64{6350, 5000}, 6000, 1},
		"within the bound":             {[2]uint64{6090, 5000}, 6000, -1},
		"both answer before":           {[2]uint64{5000, 5010}, 6000, -1},
	} {
		n := newNetwork(seed.Random(t))
		client := n.openSocket(0, "10.0.0.1:4000", service)
		var servers [2]*post
		for i := range servers {
			servers[i] = n.openSocket(1+i, fmt.Sprintf("10.0.%d.1:53", 1+i), nowhere)
		}
		at := func(p *post, k blackbox.Kind, now uint64, content uint32) uint64 {
			if now == 0 {
				return 0
			}
			n.now = now
			return n.record(p, k, flyingDatagram{bytes: 40, checksum: content})
		}
		for i, server := range servers { // answers of their own prove who is behind the address
			for k := range uint32(enoughDatagrams) {
				content := 100 + 10*uint32(i) + k
				at(server, blackbox.Sent, 1000+uint64(content), content)
				at(client, blackbox.Received, 3000+uint64(content), content)
			}
		}
		var sent [2]uint64
		for i, server := range servers {
			// Before a thread answers, it receives a request. So the answer cannot be older than
			// this request.
			if c.sent[i] != 0 {
				at(server, blackbox.Received, c.sent[i]-100, 1000+uint32(i))
			}
			sent[i] = at(server, blackbox.Sent, c.sent[i], 7)
		}
		got := at(client, blackbox.Received, c.got, 7)
		matched := -1
		m := match(n.logs[:], fits, func(m Match) {
			if m.Receive.Lo_cycles == got {
				matched = slices.Index(sent[:], m.Send.Lo_cycles)
			}
		})
		want := map[Reason]uint64{}
		for i := range sent {
			switch {
			case sent[i] == 0 || i == c.right:
			case c.right < 0:
				want[Alike]++
			default:
				want[NotReceived]++
			}
		}
		if matched != c.right || !maps.Equal(m.Left, want) {
			t.Errorf("%s: back end %d is matched, want %d; left %v, want %v", name, matched,
				c.right, m.Left, want)
		}
	}
}
