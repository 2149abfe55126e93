package overlay

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A lie is what a hostile node does with a message that it gets. Afterwards the node handles the
// message like an ordinary node, unless the function of the lie returned true.
type lie struct {
	name string
	do   func(liar *member, from Name, m Message) bool
	want Offence // the offence for which liars are blamed
	hub  bool    // the liar holds ends of edges, which honest nodes then lack
}

// mayLie reports whether a liar may send another lie. Without this limit, a liar would lie without
// end, because each answer of a victim makes the liar lie again.
func (m *member) mayLie() bool {
	if m.fleet.now >= m.second+time.Second {
		m.second, m.lied = m.fleet.now, 0
	}
	m.lied++
	return m.lied <= 30
}

var lies = []lie{
	{"promises edges of others", func(liar *member, from Name, m Message) bool {
		h, ok := m.(Hop)
		if !ok {
			return false
		}
		liar.Send(from, Ack{ID: h.ID, OK: true})
		s := h.Walk.(Seek)
		victim := chooseRandom(liar.fleet.random, liar.fleet.nodes).name
		liar.Send(s.Origin, Grant{ID: liar.fleet.random.Uint64(), Walk: s.ID, Out: victim,
			Take: s.In})
		// The liar keeps the edge that it took.
		if len(liar.node.outs) < 100 && liar.node.out(s.Origin) == nil {
			liar.node.outs = append(liar.node.outs, &outEdge{peer: s.Origin, due: liar.fleet.now})
		}
		return true
	}, FalsePromise, false},
	{"promises edges to nobody", func(liar *member, from Name, m Message) bool {
		h, ok := m.(Hop)
		if ok {
			liar.Send(from, Ack{ID: h.ID, OK: true})
			s := h.Walk.(Seek)
			liar.Send(s.Origin, Grant{ID: liar.fleet.random.Uint64(), Walk: s.ID,
				Out: Name(fmt.Sprint("nobody", liar.fleet.random.IntN(1000)))})
		}
		return ok
	}, FalsePromise, false},
	{"swallows walks", func(liar *member, from Name, m Message) bool {
		h, ok := m.(Hop)
		if ok {
			liar.Send(from, Ack{ID: h.ID, OK: true})
		}
		return ok
	}, "", false},
	{"lets walks go on for ever", func(liar *member, _ Name, m Message) bool {
		if h, ok := m.(Hop); ok && liar.mayLie() {
			for _, o := range liar.node.outs {
				s := h.Walk.(Seek)
				s.Mix, s.Scan = MaxMix, MaxScan
				liar.Send(o.peer, Hop{ID: liar.fleet.random.Uint64(), Walk: s})
			}
		}
		return false
	}, "", false},
	{"sends walks without end", func(liar *member, _ Name, _ Message) bool {
		for _, o := range liar.node.outs {
			if !liar.mayLie() {
				break
			}
			liar.Send(o.peer, Hop{ID: liar.fleet.random.Uint64(),
				Walk: Seek{Origin: liar.name, Out: true, Scan: 1 << 40}})
		}
		return false
	}, EndlessWalk, false},
	{"floods in the name of everybody", func(liar *member, _ Name, _ Message) bool {
		for range 10 {
			if !liar.mayLie() {
				break
			}
			for _, o := range liar.node.outs {
				liar.Send(o.peer, Hop{ID: liar.fleet.random.Uint64(),
					Walk: Seek{Origin: chooseRandom(liar.fleet.random, liar.fleet.nodes).name,
						ID: liar.fleet.random.Uint64(), Out: true, In: true, Scan: MaxScan}})
			}
		}
		return false
	}, TooManyWalks, false},
	{"answers for everybody", func(liar *member, _ Name, _ Message) bool {
		r := liar.fleet.random
		if !liar.mayLie() {
			return false
		}
		victim := chooseRandom(r, liar.fleet.nodes)
		other := chooseRandom(r, liar.fleet.nodes).name
		for _, m := range []Message{Ack{r.Uint64(), true}, Grant{ID: r.Uint64(), Out: other},
			Handover{r.Uint64(), other}, Leaving{r.Uint64(), other}, Revoke{r.Uint64(), other},
			Ended{ID: r.Uint64()}, Drop{}, Alive{}, Pong{r.Uint64(), false}} {
			liar.Send(victim.name, m)
		}
		return false
	}, "", false},
	{"says another great heat all the time", func(liar *member, _ Name, _ Message) bool {
		r := liar.fleet.random
		if liar.mayLie() {
			liar.Send(chooseRandom(r, liar.fleet.nodes).name, Warm{[]Heat{{"bound", r.Uint64()}}})
			for _, i := range liar.node.ins {
				liar.Send(i.peer, Warm{[]Heat{{fmt.Sprint("kind", r.IntN(100)), r.Uint64()}}})
			}
		}
		return false
	}, "", false},
	{"gives itself to everybody who asks", func(liar *member, from Name, m Message) bool {
		if p, ok := m.(Ping); ok {
			liar.Send(from, Pong{Seq: p.Seq, OK: true})
			return true
		}
		return false
	}, "", true},
}

// accused returns the nodes that the server would name, if it heard only from some nodes: see
// addBlamed in package coordinator.
func (f *fleet) accused(asked func(*member) bool) map[Name]int {
	all := map[Name]int{}
	for _, m := range f.alive() {
		times := map[Name]int{}
		for _, b := range m.node.Blamed() {
			times[b.Name] += int(b.Count)
		}
		for name, n := range times {
			if asked(m) {
				all[name] += min(n, ShunAfter/2)
			}
		}
	}
	maps.DeleteFunc(all, func(_ Name, n int) bool { return n < ShunAfter })
	return all
}

// wantNobodyAccused fails the test if nodes seem to break rules, although all are honest.
func (f *fleet) wantNobodyAccused() {
	f.t.Helper()
	if all := f.accused(func(*member) bool { return true }); len(all) > 0 {
		f.t.Errorf("accused although all are honest: %v", all)
	}
}

// maxRate is the largest number of messages a second that an honest node may send in this test. It
// accepts WalksPerSecond walks from each of seven incoming neighbours, and as many from all
// strangers together. Four messages are allowed for each of these walks: the walk itself, its
// answer, and two more, because the node also answers walks that it drops. Ten more leave room for
// pings.
const maxRate = 4*WalksPerSecond*8 + 10

// Six of 120 nodes are hostile, and a third of the others die. The honest nodes that are left must
// form a regular graph again, must not be flooded, and must blame the hostile nodes whose offences
// can be noticed.
func TestHostileNodes(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	for _, l := range lies {
		t.Run(l.name, func(t *testing.T) {
			f := grownFleet(t, rand.New(rand.NewPCG(1, 0)), 120)
			liars := map[Name]bool{}
			for len(liars) < 6 {
				liars[chooseRandom(f.random, f.nodes).name] = true
			}
			f.traitor = func(to *member, from Name, m Message) bool {
				return liars[to.name] && l.do(to, from, m)
			}
			f.run(30 * time.Second)
			for _, m := range f.nodes {
				if !liars[m.name] && f.random.IntN(3) == 0 {
					m.node = nil
				}
			}
			sent := map[Name]int{}
			for _, m := range f.alive() {
				sent[m.name] = m.sent
			}
			f.run(2 * time.Minute)
			lacking := 0
			for _, m := range f.alive() {
				if liars[m.name] {
					continue
				}
				m.node.invariants(t)
				outs, ins := m.node.Neighbours()
				lacking += 7 - len(outs)
				if !l.hub {
					lacking += 7 - len(ins)
				}
				if rate := float64(m.sent-sent[m.name]) / 120; rate > maxRate {
					t.Errorf("%s sends %v messages a second", m.name, rate)
				}
				for _, b := range m.node.Blamed() {
					edge := m.node.out(b.Name) != nil || m.node.in(b.Name) != nil
					if edge && m.node.shunsNode(b.Name) {
						t.Errorf("%s has an edge with %s, which it blames", m.name, b.Name)
					}
				}
			}
			var named []Name
			for name := range f.accused(func(m *member) bool { return !liars[m.name] }) {
				if named = append(named, name); !liars[name] {
					t.Errorf("%s is accused, but honest", name)
				}
			}
			t.Logf("%d ends are missing, %d liars are named", lacking, len(named))
			// Liars may keep ends of honest nodes free, but at most 14 ends for each liar, because
			// a liar could have 14 edges.
			if limit := 14 * len(liars); lacking > limit {
				t.Errorf("%d ends are missing, want at most %d", lacking, limit)
			}
			if l.want != "" && len(named) < 5 {
				t.Errorf("%d of 6 liars are named", len(named))
			}
			for name := range liars {
				f.byName[name].node = nil
			}
			if n := f.countReached(); n != len(f.alive()) {
				t.Errorf("%d of %d honest nodes can be reached", n, len(f.alive()))
			}
		})
	}
}

// Neighbours and a crowd of strangers send three times as many walks as they may. The node keeps no
// more than its limits allow. After a first burst, it passes on no more than WalksPerSecond walks a
// second for each neighbour, and as many for the whole crowd.
func TestCrowd(t *testing.T) {
	net := &lastMessage{}
	n, err := New(Config{Name: "me", Degree: 7, Random: rand.New(rand.NewPCG(1, 0)),
		Transport: net})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		name := Name(fmt.Sprint("neighbour", i))
		n.Receive(0, name, Ping{Seq: 1})
		n.outs = append(n.outs, &outEdge{peer: name + "!", due: neverTime})
	}
	r := rand.New(rand.NewPCG(2, 0))
	hops := 0
	const seconds, perSecond = 200, 8 * 3 * WalksPerSecond // less than a flood
	for i := range seconds * perSecond {
		now := Time(i) * time.Second / perSecond
		net.last = nil
		name := Name(fmt.Sprint("crowd", r.IntN(100_000)))
		if i%8 != 0 {
			name = Name(fmt.Sprint("neighbour", i%8-1))
			n.Receive(now, name, Ping{Seq: 1})
		}
		hop := Hop{ID: r.Uint64(), Walk: Seek{Origin: name, ID: r.Uint64(), Out: true, Scan: 9}}
		n.Receive(now, name, hop)
		if m, ok := net.last.(Hop); ok {
			n.Receive(now, net.to, Ack{ID: m.ID, OK: true})
			hops++
		}
		if n.Next() <= now {
			n.Tick(now)
		}
		n.invariants(t)
	}
	limit := 8 * (WalksBurst + WalksPerSecond*seconds)
	if hops > limit || hops < limit*9/10 {
		t.Errorf("%d walks passed on in %d s, want %d", hops, seconds, limit)
	}
	if blamed := n.Blamed(); len(blamed) > 0 {
		t.Errorf("blamed without a flood: %+v", blamed)
	}
}

// Only the node at the beginning of an edge can change the edge. An answer is ignored unless it
// comes from the node that was asked.
func TestStrangersChangeNothing(t *testing.T) {
	for name, messages := range map[string][]Message{
		"hand over": {Handover{ID: 1, To: "x"}},
		"leave":     {Leaving{ID: 1, Instead: "x"}},
		"drop":      {Drop{}},
		"revoke":    {Revoke{ID: 1, Out: "friend"}},
		"grant":     {Grant{ID: 1, Out: "x"}, Grant{ID: 2, Walk: 7, Out: "x"}},
		"back":      {Alive{}},
		"deny":      {Pong{Seq: 5}, Pong{Seq: 6}},
		"answer":    {Ack{ID: 9, OK: true}, Pong{Seq: 9, OK: true}},
	} {
		n, err := New(Config{Name: "me", Degree: 7, Random: rand.New(rand.NewPCG(1, 0)),
			Transport: &lastMessage{}})
		if err != nil {
			t.Fatal(err)
		}
		n.Receive(0, "friend", Ping{Seq: 1})
		n.outs = []*outEdge{{peer: "friend", seq: 5, open: &openPart{promisedBy: "other"}}}
		var got []Fact
		n.ask("friend", 9, Ping{Seq: 9}, AskTries, gatheredFact{&got})
		for _, m := range messages {
			n.Receive(0, "stranger", m)
		}
		n.Receive(0, "friend", Pong{Seq: 6})
		outs, ins := n.Neighbours()
		if len(outs) != 1 || outs[0] != "friend" || len(ins) != 1 || ins[0] != "friend" ||
			len(n.back) > 0 || len(got) > 0 {
			t.Errorf("%s: neighbours %q and %q, back %q, answered %t", name, outs, ins, n.back,
				len(got) > 0)
		}
	}
}
