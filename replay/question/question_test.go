package question

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/replay"
)

// lostUpdate has the states that show a lost update. Each teller reads a balance, and writes it
// back with a deposit added. If two tellers read the same balance, one deposit is lost.
var lostUpdate = []string{
	`balance = 0 then event.point == "write" ? seen[event.node] + event.value : balance`,
	`seen by node = 0 then event.point == "read" ? balance : seen[event.node]`,
	`deposited = 0 then event.point == "write" ? deposited + event.value : deposited`,
}

func events(texts ...string) (all []Event) {
	for _, t := range texts {
		var e Event
		if _, err := fmt.Sscan(t, &e.Node, &e.Point, &e.ID); err != nil {
			panic(err)
		}
		e.Actor, e.Handler = "teller", "id"
		e.Channel = e.Actor + "/" + e.Point
		all = append(all, e)
	}
	return all
}

// freeOrders returns orders in which only the order of each node is fixed.
func freeOrders(all []Event) *replay.Orders {
	nodes := nodesOf(all)
	var lanes []int
	for _, e := range all {
		lanes = append(lanes, slices.Index(nodes, e.Node))
	}
	return replay.NewOrders(lanes, func(i, j int) bool { return lanes[i] == lanes[j] && i < j })
}

func TestFindsLostUpdate(t *testing.T) {
	all := events("a read 10", "a log 1", "a write 10", "b log 2", "b read 20", "b write 20",
		"c read 30", "c write 30")
	q, err := Parse("balance < deposited", lostUpdate)
	if err != nil {
		t.Fatal(err)
	}
	f, err := q.Search(context.Background(), all, freeOrders(all))
	if err != nil {
		t.Fatal(err)
	}
	// Two tellers must read before one of them writes. In the shortest order one of the two is c,
	// because a and b also have an event at the point log.
	if len(f.Order) != 5 || f.Visible != 6 {
		t.Fatalf("order %v with %d visible events", f.Order, f.Visible)
	}
	checkOrder(t, q, all, freeOrders(all), f.Order)
	names, after, err := q.States(all, []int{0, 4, 1, 2, 5})
	if got := fmt.Sprint(names, after); err != nil || got != "[balance seen deposited] "+
		"[[0 a: 0, b: 0, c: 0 0] [0 a: 0, b: 0, c: 0 0] [0 a: 0, b: 0, c: 0 0] "+
		"[10 a: 0, b: 0, c: 0 10] [20 a: 0, b: 0, c: 0 30]]" {
		t.Errorf("the states are %s, %v", got, err)
	}
	// In the order that really happened, nothing is lost.
	ordered := replay.NewOrders(make([]int, len(all)), func(i, j int) bool { return i < j })
	if f, err := q.Search(context.Background(), all, ordered); err != nil || f.Order != nil {
		t.Errorf("found %v, %v in the order that happened", f.Order, err)
	}
}

// model has the states of lostUpdate and the number of holders of a lock. It computes them in Go,
// so that the brute-force search does not use CEL.
type model struct {
	balance, deposited, held int64
	seen                     [3]int64 // by node
}

const held = `held = 0 then event.point == "acquire" ? held + 1 :
	event.point == "release" ? held - 1 : held`

func (m model) after(e *Event) model {
	n := e.Node[0] - 'a'
	switch e.Point {
	case "read":
		m.seen[n] = m.balance
	case "write":
		m.balance = m.seen[n] + int64(e.ID)
		m.deposited += int64(e.ID)
	case "acquire":
		m.held++
	case "release":
		m.held--
	}
	return m
}

// conditions are conditions in CEL. For each, the function holds says in Go what the condition
// means. Its parameter last is the last event, or nil before the first event.
var conditions = []struct {
	text  string
	holds func(m *model, last *Event, end bool) bool
}{
	{"balance < deposited", func(m *model, _ *Event, _ bool) bool {
		return m.balance < m.deposited
	}},
	{"held > 1", func(m *model, _ *Event, _ bool) bool { return m.held > 1 }},
	{"held < 0", func(m *model, _ *Event, _ bool) bool { return m.held < 0 }},
	{"end && held == 1", func(m *model, _ *Event, end bool) bool { return end && m.held == 1 }},
	{`event.point == "log" && held == 1`, func(m *model, last *Event, _ bool) bool {
		return last != nil && last.Point == "log" && m.held == 1
	}},
	{"balance > 40 && held == 0", func(m *model, _ *Event, _ bool) bool {
		return m.balance > 40 && m.held == 0
	}},
	{"seen['b'] == 10", func(m *model, _ *Event, _ bool) bool { return m.seen[1] == 10 }},
	{"end && balance == 20", func(m *model, _ *Event, end bool) bool {
		return end && m.balance == 20
	}},
}

// The search finds an order if and only if brute force finds one. No order that brute force finds
// is shorter.
func TestSearchAgainstBruteForce(t *testing.T) {
	rng := seed.Random(t)
	runs := 500
	if size, _ := proof.Wanted(); size == proof.Full {
		runs = 1_000_000
	}
	questions := make([]*Question, len(conditions))
	for i, c := range conditions {
		var err error
		if questions[i], err = Parse(c.text, append(slices.Clone(lostUpdate), held)); err != nil {
			t.Fatal(err)
		}
	}
	points := []string{"read", "write", "log", "acquire", "release"}
	found := map[bool]int{}
	for range runs {
		var all []Event
		add := func(node int, point string, id int) {
			all = append(all, Event{Node: "abc"[node : node+1], Actor: "teller", Point: point,
				Handler: "id", Channel: "teller/" + point, ID: uint64(id)})
		}
		for range 2 + rng.IntN(4) {
			add(rng.IntN(3), points[rng.IntN(len(points))], 10*(1+rng.IntN(2)))
		}
		add(1, "log", 10)
		o := random(rng, all)
		c := rng.IntN(len(conditions))
		f, err := questions[c].Search(context.Background(), all, o)
		if err != nil {
			t.Fatal(err)
		}
		want := bruteForce(all, o, conditions[c].holds)
		got := -1
		if f.Order != nil || want == 0 {
			got = len(f.Order)
		}
		if got != want || f.Holds != (want >= 0) {
			t.Fatalf("%q over %v: found %v, by brute force %d events", conditions[c].text, all,
				f.Order, want)
		}
		if got > 0 {
			checkOrder(t, questions[c], all, o, f.Order)
		}
		found[got > 0]++
	}
	if found[true] < runs/10 || found[false] < runs/10 {
		t.Errorf("%v: the test shows little", found)
	}
}

func random(rng *rand.Rand, all []Event) *replay.Orders {
	nodes := nodesOf(all)
	var lanes []int
	for _, e := range all {
		lanes = append(lanes, slices.Index(nodes, e.Node))
	}
	before := make([][]bool, len(all))
	for i := range all {
		before[i] = make([]bool, len(all))
		for j := i + 1; j < len(all); j++ {
			before[i][j] = lanes[i] == lanes[j] || rng.IntN(8) == 0
		}
	}
	for k := range all {
		for i := range all {
			for j := range all {
				before[i][j] = before[i][j] || before[i][k] && before[k][j]
			}
		}
	}
	return replay.NewOrders(lanes, func(i, j int) bool { return before[i][j] })
}

// bruteForce returns the length of the shortest beginning of any order after which the condition
// holds, or -1 if there is none. It goes through all orders.
func bruteForce(all []Event, o *replay.Orders, holds func(*model, *Event, bool) bool) int {
	best := -1
	done := o.Begin()
	var extend func(m model, last *Event, n int)
	extend = func(m model, last *Event, n int) {
		if holds(&m, last, n == len(all)) && (best < 0 || n < best) {
			best = n
		}
		for _, i := range o.Front(done) {
			o.Take(done, i)
			extend(m.after(&all[i]), &all[i], n+1)
			o.Undo(done, i)
		}
	}
	extend(model{}, nil, 0)
	return best
}

// checkOrder replays an order that was found: it must be possible, and the condition must hold.
func checkOrder(t *testing.T, q *Question, all []Event, o *replay.Orders, order []int) {
	d := o.Begin()
	nodes := nodesOf(all)
	v := &values{question: q, states: q.begin(nodes)}
	for n, i := range order {
		if !slices.Contains(o.Front(d), i) {
			t.Fatalf("%v: event %d cannot come next", order, i)
		}
		o.Take(d, i)
		var err error
		if v.states, err = q.nextValues(v.states, &all[i], nodes); err != nil {
			t.Fatal(err)
		}
		v.event, v.end = &all[i], n+1 == len(all)
	}
	if holds, err := q.holds(v); err != nil || !holds {
		t.Fatalf("%q does not hold after %v: %v", q.find.text, order, err)
	}
}

func TestBadExpressionsSayWhere(t *testing.T) {
	for _, c := range []struct {
		find, state, want string
	}{
		{"balance <", "balance = 0 then balance", "Syntax error"},
		{"balanse < 0", "balance = 0 then balance", "column 1: undeclared reference to 'balanse'"},
		{"balance < 0.5", "balance = 0 then balance", "no matching overload"},
		{"balance", "balance = 0 then balance", "is of type int, and must be of type bool"},
		{"balance < 0", "balance = 0 then 'x'", "is of type string, and must be of type int"},
		{"balance < 0", "balance = zero then 1", "undeclared reference to 'zero'"},
		{"balance < 0", "balance: 0", "give it the form NAME = VALUE then NEXT"},
		{"true", "end = 0 then 1", "expressions already have end"},
		{"event.size > 1", "a = 0 then a", "undeclared reference"},
		{"1/0 == a", "a = 0 then a", "division by zero"},
	} {
		q, err := Parse(c.find, []string{c.state})
		if err == nil {
			all := events("a read 1")
			_, err = q.Search(context.Background(), all, freeOrders(all))
		}
		if !errors.Is(err, ErrExpression) || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%q, %q: %v, want %q", c.find, c.state, err, c.want)
		}
	}
}

// The search does not permute events that cannot matter: it visits few places, although there are
// many orders.
func TestIndependentEventsAreNotPermuted(t *testing.T) {
	var all []Event
	for i := range 60 {
		all = append(all, events(fmt.Sprintf("%c log %d", 'a'+i%3, i))...)
	}
	all = append(all, events("a acquire 1", "b acquire 1")...)
	q, err := Parse("held > 2", []string{
		`held = 0 then event.point == "acquire" ? held + 1 : held`,
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := q.Search(context.Background(), all, freeOrders(all))
	if err != nil || f.Order != nil || f.Visible != 2 || f.Places != 4 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A condition on the end is only true after all events, even those that cannot matter.
func TestEndIsAfterAllEvents(t *testing.T) {
	all := events("a acquire 1", "b log 1", "a log 2")
	q, err := Parse("end && held == 1", []string{
		`held = 0 then event.point == "acquire" ? held + 1 : held`,
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := q.Search(context.Background(), all, freeOrders(all))
	if err != nil || len(f.Order) != 3 || f.Visible != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

// Programs of different releases refuse each other.
func TestQuestionSaysItsVersion(t *testing.T) {
	var out strings.Builder
	if err := Answer(t.Context(), strings.NewReader(`{"version": 1, "find": "true"}`),
		&out); err != nil || !strings.Contains(out.String(), `"version":1`) {
		t.Errorf("version 1: %v, %s", err, &out)
	}
	for _, text := range []string{`{"find": "true"}`, `{"version": 2, "find": "true"}`} {
		if err := Answer(t.Context(), strings.NewReader(text), io.Discard); err == nil ||
			!strings.Contains(err.Error(), "this program knows version 1") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
