package overlay

import (
	"math/rand/v2"
	"testing"
	"time"
)

// lastMessage is a transport that only keeps the last message.
type lastMessage struct {
	count int
	to    Name
	last  Message
}

func (s *lastMessage) Send(to Name, m Message) { s.count, s.to, s.last = s.count+1, to, m }

// A script turns bytes into calls of a node's methods.
type script struct{ rest []byte }

func (s *script) byte() byte {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

var scriptNames = []Name{"me", "", Name(make([]byte, MaxName+1)), "a", "b", "c", "d", "e", "f", "g",
	"h", "i", "j"}

func (s *script) name() Name {
	b := int(s.byte())
	if b >= 2*len(scriptNames) {
		return Name([]byte{'x', byte(b)})
	}
	return scriptNames[b%len(scriptNames)]
}

func (s *script) number() int { return int(int8(s.byte())) * 8 }

func (s *script) names() (all []Name) {
	for range s.byte() % 40 {
		all = append(all, s.name())
	}
	return all
}

func (s *script) facts() (all []Fact) {
	for range s.byte() % 40 {
		all = append(all, Fact(s.name()))
	}
	return all
}

// id returns a small number, or the id of one of the node's requests, walks or pings.
func (s *script) id(n *Node) uint64 {
	b := uint64(s.byte())
	switch {
	case b < 64 && len(n.seeks) > 0:
		return n.seeks[b%uint64(len(n.seeks))].id
	case b >= 224 && len(n.searches) > 0:
		return n.searches[b%uint64(len(n.searches))].ID
	case b < 128 && len(n.asked) > 0:
		return n.asked[b%uint64(len(n.asked))].id
	case b < 192 && len(n.outs) > 0:
		return n.outs[b%uint64(len(n.outs))].seq
	}
	return b
}

func (s *script) flag() bool { return s.byte()%2 == 1 }

func (s *script) message(n *Node) Message {
	switch s.byte() % 24 {
	case 0:
		return Ping{s.id(n), s.id(n)}
	case 1:
		return Pong{s.id(n), s.flag()}
	case 2:
		return Drop{}
	case 3:
		return Probe{}
	case 4:
		return Alive{}
	case 5, 6:
		return Ack{s.id(n), s.flag()}
	case 7:
		return Hop{s.id(n), Seek{Origin: s.name(), ID: s.id(n), Out: s.flag(), In: s.flag(),
			Give: s.name(), Apart: s.flag(), Outs: s.names(), Mix: s.number(),
			Scan: s.number(), Revisits: s.number()}}
	case 8:
		return Hop{s.id(n), nil}
	case 9:
		return Grant{s.id(n), s.id(n), s.name(), s.flag(), s.flag()}
	case 10:
		return Handover{s.id(n), s.name()}
	case 11:
		return Leaving{s.id(n), s.name()}
	case 13:
		return Hint{s.name(), s.facts(), int(s.byte()%5) - 1}
	case 14:
		return Verify{s.id(n), "[a-"}
	case 15:
		return Found{s.id(n), s.id(n), s.name(), s.number(), s.number()}
	case 18:
		return Warm{[]Heat{{"h", s.id(n)}}[:s.byte()%2]}
	case 19:
		return Felt{s.id(n), s.id(n), s.id(n), s.number()}
	case 20:
		return Hop{s.id(n), Climb{Origin: s.name(), ID: s.id(n), By: "h", Visited: s.number(),
			Mix: s.number(), Scan: s.number()}}
	case 21:
		return Take{s.id(n), "q"}
	case 22:
		return Given{s.id(n), "item"}
	case 23:
		return Keep{s.id(n), s.id(n), s.flag()}
	case 17:
		return Confirm{s.id(n), "abc"}
	case 16:
		return Hop{s.id(n), Search{Origin: s.name(), ID: s.id(n), Pattern: "a*",
			Known: s.names(), Denied: s.names(), Visited: s.number(), Meetings: s.number(),
			Mix: s.number(), Scan: s.number()}}
	case 12:
		if s.flag() {
			return Revoke{s.id(n), s.name()}
		}
		return Ended{s.id(n), s.id(n), s.flag()}
	}
	return nil
}

// FuzzNode sends a node any messages from anybody. The node must not panic, must not keep more than
// its limits allow, and must not answer one message with many.
func FuzzNode(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 0))
	for range 20 {
		all := make([]byte, 2000)
		for i := range all {
			all[i] = byte(r.Uint32())
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, all []byte) {
		net := &lastMessage{}
		n, err := New(Config{Name: "me", Degree: 3, Random: rand.New(rand.NewPCG(1, 0)),
			Transport: net, Match: matchPattern, Contacts: []Name{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		s := &script{all}
		now := Time(0)
		for len(s.rest) > 0 {
			before := net.count
			switch b := s.byte(); {
			case b < 40:
				now += Time(b) * 100 * time.Millisecond
				n.Tick(now)
				if n.Next() <= now {
					t.Fatalf("after Tick(%v) Next is %v", now, n.Next())
				}
				continue
			case b == 254:
				_ = n.Search(now, "a*", func(Result) {}) // refused if too many are open
				continue
			case b == 253:
				_ = n.Climb(now, "h", func([]Hot) {}) // refused, too
				continue
			case b == 252:
				_ = n.Put(now, "q", string([]byte{s.byte()})) // refused if there are too many
				continue
			case b == 251:
				_ = n.Take(now, "q", func(i Item, _ bool) { // refused, too
					if s.flag() {
						n.Finish(now, i, s.flag(), func(bool) {})
					}
				})
				continue
			case b == 255:
				n.Leave(now)
				continue
			}
			n.Receive(now, s.name(), s.message(n))
			if sent := net.count - before; sent > 4 {
				t.Fatalf("one message made the node send %d", sent)
			}
			n.invariants(t)
		}
	})
}
