package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// This is the trace that the thesis on replay clocks prints (see package clock). The program of the
// thesis offers a choice that is not possible: see the comments below.
func TestTraceOfTheThesis(t *testing.T) {
	f, err := os.Open("testdata/thesis.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := ReadTrace(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Events) != 13 || len(h.Nodes) != 5 || len(h.Messages) != 3 {
		t.Fatalf("%d events, %d nodes, %d messages", len(h.Events), len(h.Nodes), len(h.Messages))
	}
	name := func(i int) string {
		e := &h.Events[i]
		return fmt.Sprintf("%d %s", e.ID, h.Channels[e.Channel].Name)
	}
	o := h.Orders()
	d := o.Begin()
	for o.Len() > 0 {
		front := o.Front(d)
		i := slices.IndexFunc(front, func(i int) bool { return h.Events[i].Lo_cycles < 62 })
		if i < 0 {
			break
		}
		o.Take(d, front[i])
	}
	pool := func() (names []string) {
		for _, i := range o.Front(d) {
			names = append(names, name(i))
		}
		slices.Sort(names)
		return names
	}
	// The thesis offers "9 send" and "2 recv" together. These two events are on one node, so only
	// one of them can be next.
	if got := fmt.Sprint(pool()); got != "[10 send 9 send]" {
		t.Fatalf("what may come next is %v", got)
	}
	o.Take(d, slices.IndexFunc(h.Events, func(e Event) bool { return e.ID == 9 }))
	if got := fmt.Sprint(pool()); got != "[10 send 2 recv]" {
		t.Fatalf("after 9 send, what may come next is %v", got)
	}
}

// A history is written, and read again. The second history has the same events, and allows no order
// that the first one excludes.
func TestTracesAreReadAgain(t *testing.T) {
	rng := seed.Random(t)
	for range 200 {
		j := randomJob(rng, 2+rng.IntN(3), 4+rng.IntN(8))
		j.capture(rng, rng.IntN(4))
		j.link(rng)
		h, s, err := j.run(t, 12).Gather(context.Background(), Part{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range h.Events { // counters may show any number
			h.Events[i].Lo_cycles += 1 << 63
			h.Events[i].Hi_cycles += 1 << 63
		}
		for _, form := range []string{"thesis", "ShiViz"} {
			var text bytes.Buffer
			var again *History
			if form == "thesis" {
				err = h.WriteTrace(&text, 2*s.Bound_cycles+1, 1)
			} else {
				err = h.WriteShiViz(&text)
			}
			if err != nil {
				t.Fatal(err)
			}
			if form == "thesis" {
				again, err = ReadTrace(bytes.NewReader(text.Bytes()))
			} else {
				again, err = ReadShiViz(bytes.NewReader(text.Bytes()))
			}
			if err != nil {
				t.Fatalf("%s: %v:\n%s", form, err, text.String())
			}
			if len(again.Events) != len(h.Events) {
				t.Fatalf("%s: %d of %d events", form, len(again.Events), len(h.Events))
			}
			same := func(i int) int { // the event of h
				e := &again.Events[i]
				return slices.IndexFunc(h.Events, func(f Event) bool {
					return h.Nodes[f.Node] == again.Nodes[e.Node] && f.Index == e.Index
				})
			}
			for a := range again.Events {
				for b := range again.Events {
					x, y := same(a), same(b)
					if form == "ShiViz" && again.Before(a, b) && !h.Before(x, y) {
						t.Fatalf("ShiViz: events %d and %d are ordered:\n%s", x, y, text.String())
					}
					if form == "thesis" && h.leadsTo(x, y) && !again.Before(a, b) {
						t.Fatalf("thesis: events %d and %d are free:\n%s", x, y, text.String())
					}
					if form == "thesis" && again.leadsTo(a, b) && !h.leadsTo(x, y) {
						t.Fatalf("thesis: a message makes event %d cause %d:\n%s", x, y,
							text.String())
					}
					if form == "ShiViz" && h.leadsTo(x, y) != again.Before(a, b) {
						t.Fatalf("ShiViz: causality of events %d and %d:\n%s", x, y, text.String())
					}
				}
			}
		}
		if free, forced := h.Forced(2*s.Bound_cycles+1, 1); free != s.Free || forced > free {
			t.Fatalf("%d free pairs, %d forced, want %d free", free, forced, s.Free)
		}
	}
}

// leadsTo reports whether messages and the order of nodes lead from one event to another.
func (h *History) leadsTo(i, j int) bool {
	if i == j {
		return false
	}
	reached := map[int]bool{i: true}
	for k := i + 1; k <= j; k++ {
		for p := range reached {
			reached[k] = reached[k] || p < k && h.Events[p].Node == h.Events[k].Node && reached[p]
		}
		for _, m := range h.Messages {
			reached[k] = reached[k] || m[1] == k && reached[m[0]]
		}
		if !reached[k] {
			delete(reached, k)
		}
	}
	return reached[j]
}

func TestBadTraces(t *testing.T) {
	line := func(id int, kind, node string, hlc int, offsets string) string {
		return fmt.Sprintf("[(EventID=%d, EventType=%s, EventTime=[(NodeId=%s, HLC=%d, "+
			"Offsets=[%s], Counters=0)], Sender=%s, Receiver=x)]\n", id, kind, node, hlc, offsets,
			node)
	}
	for name, c := range map[string]struct {
		text string
		read func(string) error
		want string
		is   error
	}{
		"empty":        {"", thesis, "no events", ErrTrace},
		"another form": {"[(EventID=x)]\n", thesis, "line 1", ErrTrace},
		"a message that nobody sent": {line(3, "RECV", "a", 5, "0, -9"), thesis,
			"message 3 is received", ErrTrace},
		"no offset is 0": {line(3, "SEND", "a", 5, "1, 2"), thesis, "no offset is 0", ErrTrace},
		"offsets of other runs": {line(1, "SEND", "a", 5, "0, -9") +
			line(2, "SEND", "a", 5, "0"), thesis, "line 2", ErrTrace},
		"backwards on a node": {line(1, "SEND", "a", 50, "0, -9") +
			line(2, "SEND", "a", 5, "0, -9"), thesis, "is before itself", ErrCycle},
		"an event that is missing": {"a {\"a\":1, \"b\":4}\nx\n", shiviz,
			"has seen event 4 of host \"b\"", ErrTrace},
		"a count twice":  {"a {\"a\":1}\nx\na {\"a\":1}\ny\n", shiviz, "two events", ErrTrace},
		"no description": {"a {\"a\":1}\n", shiviz, "no description", ErrTrace},
		"no clock":       {"hello\n", shiviz, "line 1", ErrTrace},
		"a cycle": {"a {\"a\":1, \"b\":1}\nx\nb {\"b\":1, \"a\":1}\ny\n", shiviz,
			"is before itself", ErrCycle},
	} {
		err := c.read(c.text)
		if !errors.Is(err, c.is) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func thesis(text string) error { _, err := ReadTrace(strings.NewReader(text)); return err }
func shiviz(text string) error { _, err := ReadShiViz(strings.NewReader(text)); return err }

// Every trace that can be read has an order of all its events.
func FuzzTraces(f *testing.F) {
	text, err := os.ReadFile("testdata/thesis.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("a {\"a\":1}\nx\nb {\"b\":1, \"a\":1}\ny\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func(string) (*History, error){
			func(s string) (*History, error) { return ReadTrace(strings.NewReader(s)) },
			func(s string) (*History, error) { return ReadShiViz(strings.NewReader(s)) },
		} {
			h, err := read(text)
			if err != nil || len(h.Events) > 60 {
				continue
			}
			for order := range h.Orders().All() {
				if len(order) != len(h.Events) {
					t.Fatalf("%d of %d events are in order", len(order), len(h.Events))
				}
				break
			}
			for _, m := range h.Messages {
				if !h.Before(m[0], m[1]) {
					t.Fatalf("message %v is received before it is sent", m)
				}
			}
		}
	})
}
