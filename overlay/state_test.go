package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// textCodec is a codec for tests. It writes the text that fmt prints for a message, and remembers
// which message has that text.
type textCodec map[string]any

func (all textCodec) codec() Codec {
	return Codec{
		Encode: func(to []byte, m any) ([]byte, error) {
			text := fmt.Sprintf("%#v", m)
			all[text] = m
			return append(to, text...), nil
		},
		Decode: func(from []byte) (any, error) { return all[string(from)], nil },
		Name:   func(name Name) (Name, bool) { return name, name.valid() },
	}
}

// sameValue compares two values. A list without elements equals a nil list.
func sameValue(a, b reflect.Value, path string) error {
	differ := fmt.Errorf("%s differs", path)
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return differ
			}
			return nil
		}
		if a.Elem().Type() != b.Elem().Type() {
			return differ
		}
		return sameValue(a.Elem(), b.Elem(), path)
	case reflect.Struct:
		for i := range a.NumField() {
			name := a.Type().Field(i).Name
			switch name {
			case "random", "transport", "match", "mayTake": // the owner restores these
				continue
			}
			if err := sameValue(a.Field(i), b.Field(i), path+"."+name); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if a.Len() != b.Len() {
			return differ
		}
		for i := range a.Len() {
			if err := sameValue(a.Index(i), b.Index(i),
				fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	default:
		if !a.Equal(b) {
			return differ
		}
	}
	return nil
}

// storeAndRestore stores the state of a node and returns a node with that state.
func storeAndRestore(t testing.TB, n *Node, c Codec) *Node {
	t.Helper()
	b, err := n.AppendState([]byte("before"), c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := New(Config{Name: n.self, Degree: n.degree, Random: n.random,
		Transport: n.transport})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := again.RestoreState(append(b[len("before"):], "rest"...), c)
	if err != nil || string(rest) != "rest" {
		t.Fatalf("%q is left, %v", rest, err)
	}
	if err := sameValue(reflect.ValueOf(n), reflect.ValueOf(again), "node"); err != nil {
		t.Fatal(err)
	}
	if twice, err := again.AppendState(nil, c); err != nil ||
		!bytes.Equal(twice, b[len("before"):]) {
		t.Fatalf("stored again, the state has other bytes: %v", err)
	}
	return again
}

// TestStoredNodesGoOn runs the same fleet twice, with many faults. In one of the two runs, all
// nodes are stored and restored again and again. Both runs must end in the same state, and each
// kind of step must have been stored.
func TestStoredNodesGoOn(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	s := seed.Of(t)
	steps := map[string]bool{}
	run := func(restores bool) (states [][]byte) {
		c := textCodec{}.codec()
		f := newFleet(t, rand.New(rand.NewPCG(s, 0)), 4)
		f.loss = 0.1
		for round := range 110 {
			if len(f.nodes) == 0 {
				f.add()
			} else if round < 35 {
				f.add(f.alive()[0].name)
			}
			f.run(97 * time.Millisecond)
			f.cut = round >= 60 && round < 80
			alive := f.alive()
			switch m := alive[round%len(alive)]; {
			case round%20 == 7:
				m.node.Leave(f.now)
			case round%20 == 11:
				m.node = nil
			case round%5 == 0:
				m.node.setTime(f.now)
				if m.node.SetFacts(Fact(fmt.Sprint("role=", round))) != nil ||
					m.node.SetHeats(f.now, Heat{"h", uint64(round)}) != nil {
					t.Fatal("no fact or heat is set")
				}
			}
			for _, m := range f.alive() {
				if restores {
					for _, r := range m.node.asked {
						steps[fmt.Sprintf("%T", r.then)] = true
					}
					m.node = storeAndRestore(t, m.node, c)
				}
			}
		}
		for _, m := range f.alive() {
			b, err := m.node.AppendState(nil, c)
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, b)
		}
		return states
	}
	want, got := run(false), run(true)
	if len(got) != len(want) {
		t.Fatalf("%d nodes, want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("restored, node %d ends in another state", i)
		}
	}
	t.Logf("stored %v", steps)
	if len(steps) < 6 {
		t.Errorf("only the steps %v were stored: the test is too easy", steps)
	}
}

// TestEachStepIsStored stores each kind of step: with an edge that the node has, and with one that
// it no longer has.
func TestEachStepIsStored(t *testing.T) {
	there := &outEdge{peer: "a", open: &openPart{next: "b"}}
	gone := &outEdge{peer: "c", heats: &toldHeat{[]Heat{{"h", 7}}, 9}}
	w := Seek{Origin: "o", ID: 3, Out: true, Outs: []Name{"p"}, Scan: 4, Revisits: 2}
	for _, s := range []step{nil, afterTake{"a"}, afterLink{w}, afterGrant{there, "b", true, "c"},
		afterGrant{o: gone, to: "b"}, joiningIn{joinState{there, w, "q", 8}},
		joiningOut{joinState{gone, w, "q", 9}},
		joinedOut{there, "q"}, afterHandOver{gone, "x", "y", 77},
		afterGiveFor{there, answeredRequest{from: "z", id: 5}},
		afterHop{w, "u", 3}, afterHop{Search{Origin: "o", Pattern: "*"}, "u", 1},
		afterHint{Search{Origin: "o"}, "v", "w"}} {
		n, err := New(Config{Name: "me", Degree: 3, Random: rand.New(rand.NewPCG(1, 0)),
			Transport: &lastMessage{}})
		if err != nil {
			t.Fatal(err)
		}
		n.outs = []*outEdge{{peer: "other"}, there}
		n.ask("b", 17, Ping{Seq: 17}, 3, s)
		again := storeAndRestore(t, n, textCodec{}.codec())
		if g, ok := again.asked[0].then.(afterGrant); ok && g.late && g.o != again.outs[1] {
			t.Error("the step is about a copy of the edge")
		}
	}
}

// A node whose owner waits for an answer cannot be stored.
func TestOpenSearchIsNotStored(t *testing.T) {
	n, err := New(Config{Name: "me", Degree: 3, Random: rand.New(rand.NewPCG(1, 0)),
		Transport: &lastMessage{}, Outs: []Name{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Search(1, "x", func(Result) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.AppendState(nil, textCodec{}.codec()); !errors.Is(err, errOpen) {
		t.Error(err)
	}
}

// TestStateBytes compares the bytes of a state with known ones. If the bytes change, the state of
// agents in a checkpoint needs a new version (sim/FORMAT.md).
func TestStateBytes(t *testing.T) {
	n, err := New(Config{Name: "me", Degree: 3, Random: rand.New(rand.NewPCG(1, 0)),
		Transport: &lastMessage{}, Outs: []Name{"a", "b"}, Ins: []Name{"c"}, Contacts: []Name{"d"}})
	if err != nil {
		t.Fatal(err)
	}
	n.ask("b", 17, Ping{Seq: 17}, 3, afterHandOver{n.outs[0], "x", "y", 77})
	n.seen.rememberRequest(answeredRequest{from: "q", id: 3, ok: true})
	n.facts = []Fact{"role=x"}
	n.blame("b", BadMessage)
	c := textCodec{}.codec()
	c.Encode = func(to []byte, _ any) ([]byte, error) { return append(to, "PING"...), nil }
	got, err := n.AppendState(nil, c)
	const want = "000000000080a8d6b90700feffffffffffffffff01feffffffffffffffff0180c8afa025" +
		"00000000040261000000a6cd97ea11" +
		"00000000" +
		"00000000000000026200000090cef7d302000000000000000000000002026380e888" +
		"87430000000211000000" +
		"0000000002620850494e470480cab5ee010e02027802799a010202710300000000000000" +
		"00020000000202" +
		"640000020c726f6c653d780000000000000000000000000000000000000000000002026260" +
		"73656e6473206e616d657320746861742061726520656d7074792c20746f6f206c6f6e67" +
		"206f7220746f6f2" +
		"06d616e790200"
	if text := fmt.Sprintf("%x", got); err != nil || text != want {
		t.Errorf("%v\n%s, want\n%s", err, text, want)
	}
}

// FuzzState reads states that nobody wrote. A node must refuse them, or be able to go on.
func FuzzState(f *testing.F) {
	fresh := func(t testing.TB) *Node {
		n, err := New(Config{Name: "me", Degree: 3, Random: rand.New(rand.NewPCG(1, 0)),
			Transport: &lastMessage{}, Outs: []Name{"a", "b"}, Ins: []Name{"a", "c"}})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	c := textCodec{}.codec()
	n := fresh(f)
	n.ask("b", 17, Ping{Seq: 17}, 3, afterHandOver{n.outs[0], "x", "y", 77})
	n.seen.rememberRequest(answeredRequest{from: "q", id: 3})
	good, err := n.AppendState(nil, c)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		n := fresh(t)
		if _, err := n.RestoreState(b, c); err != nil {
			return
		}
		for range 3 {
			n.Tick(max(n.now, min(n.Next(), n.now+time.Hour)))
			n.Receive(n.now, "a", Ping{Seq: 1})
			n.Receive(n.now, "b", Ack{ID: 17})
		}
	})
}
