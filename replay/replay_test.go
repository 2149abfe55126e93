package replay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// boundedTranslator translates a true time y to the interval from y + error − 2·bound to
// y + error. So the interval contains y if error is at most 2·bound.
type boundedTranslator struct{ error, bound uint64 }

func (b boundedTranslator) Translate(y uint64) (tscratio.Interval, tscratio.Verdict, error) {
	at := y + b.error // 0 to 2·bound above the true time
	return tscratio.Interval{Lo: at - 2*b.bound, Hi: at}, tscratio.Consistent, nil
}

// job is a random job in memory: tuples pass points on several nodes, in the order of the points.
type job struct {
	nodes  int
	events [][]logstore.Event // of each node; readings are true times
	points [][]int
	bounds []boundedTranslator
	all    []happenedEvent

	captured []capturedMessage
	links    []logstore.Link // tuples that were made of others
	made     [][2]int        // pairs of points, as in Options.Made
	renamed  int             // from this point on, ids are larger by 100; 0: at no point
}

// link adds links, and pairs of points, that agree with what happened. Then it may choose a point
// from which on the tuples have other ids.
func (j *job) link(rng *rand.Rand) {
	for range rng.IntN(3) {
		j.made = append(j.made, [2]int{rng.IntN(4), rng.IntN(4)})
	}
	for range rng.IntN(4) {
		l := logstore.Link{Parent: rng.Uint64N(4), Child: rng.Uint64N(4)}
		j.links = append(j.links, l)
		for i, e := range j.all {
			for k, f := range j.all {
				if j.linksPut(e, f) && i > k { // the link would put event i before an earlier one
					j.links = j.links[:len(j.links)-1]
					return
				}
			}
		}
	}
	if j.renamed = rng.IntN(4); j.renamed > 0 {
		for n, events := range j.events {
			for i := range events {
				if j.points[n][i] >= j.renamed {
					events[i].ID += 100
				}
			}
		}
	}
}

// linksPut reports whether links put e before f.
func (j *job) linksPut(e, f happenedEvent) bool {
	if !slices.Contains(j.made, [2]int{e.point, f.point}) || e.node == f.node {
		return false
	}
	makers := []uint64{f.id}
	for i := 0; i < len(makers); i++ {
		for _, l := range j.links {
			if l.Child == makers[i] && !slices.Contains(makers, l.Parent) {
				makers = append(makers, l.Parent)
			}
		}
	}
	return slices.Contains(makers[1:], e.id)
}

type capturedMessage struct {
	from, to       int
	sent, received uint64
}

// capture adds captured messages between the nodes.
func (j *job) capture(rng *rand.Rand, messages int) {
	last := j.all[len(j.all)-1].time
	for range messages {
		m := capturedMessage{from: rng.IntN(j.nodes), sent: 1000 + rng.Uint64N(last-999)}
		m.to = (m.from + 1 + rng.IntN(j.nodes-1)) % j.nodes
		m.received = m.sent + rng.Uint64N(30)
		j.captured = append(j.captured, m)
	}
}

type happenedEvent struct {
	node, point int
	id, time    uint64
	at          tscratio.Interval
}

func randomJob(rng *rand.Rand, nodes, events int) *job {
	j := &job{nodes: nodes, events: make([][]logstore.Event, nodes), points: make([][]int, nodes)}
	for range nodes {
		b := uint64(rng.IntN(30))
		j.bounds = append(j.bounds, boundedTranslator{rng.Uint64N(2*b + 1), b})
	}
	now := uint64(1000)
	stage := map[uint64]int{}
	for range events {
		now += 1 + rng.Uint64N(20)
		id := rng.Uint64N(4)
		n := rng.IntN(nodes)
		e := happenedEvent{node: n, point: stage[id], id: id, time: now}
		stage[id]++
		e.at, _, _ = j.bounds[n].Translate(now)
		j.all = append(j.all, e)
		j.events[n] = append(j.events[n], logstore.Event{Counter: now, ID: id})
		j.points[n] = append(j.points[n], e.point)
	}
	return j
}

// run makes a run of the job. Each point is a channel on each node.
func (j *job) run(t testing.TB, points int) *Run {
	r := &Run{}
	for p := range points {
		r.points = append(r.points, fmt.Sprintf("actor/p%d", p))
		if p > 0 {
			r.options.Edges = append(r.options.Edges, [2]string{r.points[p-1], r.points[p]})
		}
	}
	for _, m := range j.made {
		if max(m[0], m[1]) < points {
			r.options.Made = append(r.options.Made, [2]string{r.points[m[0]], r.points[m[1]]})
		}
	}
	r.links.made = slices.Clone(j.links)
	if j.renamed > 0 { // by three operators, one after the other
		for id := range uint64(4) {
			r.links.began = append(r.links.began,
				logstore.Link{Parent: 1000 + id, Child: 100 + id},
				logstore.Link{Parent: id, Child: 2000 + id},
				logstore.Link{Parent: 2000 + id, Child: 1000 + id})
		}
	}
	r.links.resolve()
	if err := r.connect(); err != nil {
		t.Fatal(err)
	}
	for n := range j.nodes {
		l := &lane{name: fmt.Sprintf("n%d", n), node: uint32(n), view: j.bounds[n]}
		r.Nodes = append(r.Nodes, l.name)
		for p := range points {
			f := &shardFeed{channel: uint32(len(r.Channels))}
			r.Channels = append(r.Channels, Channel{
				Name: r.points[p], Actor: "actor", Point: fmt.Sprintf("p%d", p), Node: n,
				point: uint16(p),
			})
			for i, e := range j.events[n] {
				if j.points[n][i] == p {
					f.block = append(f.block, e)
				}
			}
			l.feeds = append(l.feeds, f)
		}
		r.lanes = append(r.lanes, l)
	}
	for _, m := range j.captured {
		r.deliver(r.Nodes[m.from], m.sent, r.Nodes[m.to], m.received)
	}
	return r
}

// trueOrder returns what causality and time imply by definition. This is the transitive closure of
// three orders together: the order of each node's events, the order of the messages and the order
// of the intervals.
func (j *job) trueOrder() [][]bool {
	before := make([][]bool, len(j.all))
	for i, e := range j.all {
		before[i] = make([]bool, len(j.all))
		for k, f := range j.all {
			before[i][k] = i < k && e.node == f.node || e.at.Hi < f.at.Lo ||
				e.id == f.id && e.point+1 == f.point || j.linksPut(e, f)
			for _, m := range j.captured {
				before[i][k] = before[i][k] || e.node == m.from && e.time < m.sent &&
					f.node == m.to && f.time > m.received
			}
		}
	}
	return makeTransitive(before)
}

// makeTransitive makes an order transitive.
func makeTransitive(before [][]bool) [][]bool {
	for k := range before {
		for i := range before {
			for m := range before {
				before[i][m] = before[i][m] || before[i][k] && before[k][m]
			}
		}
	}
	return before
}

// impliedOrder returns what the messages of a history and the times of its events imply.
func (j *job) impliedOrder(h *History) [][]bool {
	before := make([][]bool, len(j.all))
	for i, e := range j.all {
		before[i] = make([]bool, len(j.all))
		for k, f := range j.all {
			before[i][k] = i < k && e.node == f.node || e.at.Hi < f.at.Lo
		}
	}
	for _, m := range h.Messages {
		before[j.findNumber(&h.Events[m[0]])][j.findNumber(&h.Events[m[1]])] = true
	}
	return makeTransitive(before)
}

// findNumber finds an event of the run among the events of the job.
func (j *job) findNumber(e *Event) int {
	return slices.IndexFunc(j.all, func(h happenedEvent) bool {
		return h.time == e.Reading && h.node == int(e.Node)
	})
}

// The order of any two events, the number of free pairs and the list of all orders are the same as
// those that a brute-force search finds.
func TestOrdersAreThoseOfBruteForce(t *testing.T) {
	rng := seed.Random(t)
	runs := 6_000
	if proof.WantsFull() {
		runs = 1_000_000
	} else if seed.Race {
		runs /= 10
	}
	free, compared := 0, 0
	for range runs {
		j := randomJob(rng, 2+rng.IntN(3), 2+rng.IntN(6))
		j.capture(rng, rng.IntN(4))
		j.link(rng)
		h, s, err := j.run(t, 8).Gather(context.Background(), Part{})
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Events) != len(j.all) || s.Broken != 0 {
			t.Fatalf("%d of %d events, %d broken", len(h.Events), len(j.all), s.Broken)
		}
		truth := j.trueOrder()
		pairs := uint64(0)
		for a := range h.Events {
			for b := range h.Events {
				x, y := j.findNumber(&h.Events[a]), j.findNumber(&h.Events[b])
				if got := h.Events[a].Before(&h.Events[b]); got != truth[x][y] {
					t.Fatalf("events %+v and %+v: before is %v", j.all[x], j.all[y], got)
				}
				if a < b && !truth[x][y] {
					pairs++
					if truth[y][x] {
						t.Fatalf("event %d comes first and is after event %d", a, b)
					}
				}
			}
		}
		if got := j.impliedOrder(h); !reflect.DeepEqual(got, truth) {
			t.Fatalf("%v: messages %v and times imply %v, want %v", j.all, h.Messages, got, truth)
		}
		o := h.Orders()
		if s.Free != pairs || o.Free() != pairs {
			t.Fatalf("%d and %d free pairs, by brute force %d", s.Free, o.Free(), pairs)
		}
		free += int(pairs)
		compared += compareOrders(t, o, h, j, truth)
	}
	if free < runs || compared < runs {
		t.Errorf("only %d free pairs and %d orders in %d runs: the test shows little", free,
			compared, runs)
	}
}

// compareOrders compares all orders with the permutations of the events that agree with the true
// order.
func compareOrders(t *testing.T, o *Orders, h *History, j *job, truth [][]bool) int {
	want := map[string]bool{}
	var permute func(order []int, used int)
	permute = func(order []int, used int) {
		if len(order) == len(j.all) {
			want[fmt.Sprint(order)] = true
			return
		}
	next:
		for e := range j.all {
			if used>>e&1 == 1 {
				continue
			}
			for f := range j.all {
				if used>>f&1 == 0 && truth[f][e] {
					continue next
				}
			}
			permute(append(order[:len(order):len(order)], e), used|1<<e)
		}
	}
	permute(nil, 0)
	got := 0
	for order := range o.All() {
		of := make([]int, len(order))
		for i, e := range order {
			of[i] = j.findNumber(&h.Events[e])
		}
		if !want[fmt.Sprint(of)] {
			t.Fatalf("order %v is not one of brute force", of)
		}
		got++
	}
	if n := o.Count().Orders.Int64(); got != len(want) || int(n) != got {
		t.Fatalf("%d orders, counted %d, by brute force %d", got, n, len(want))
	}
	return got
}

// Each order is drawn equally often. A fair sampler exceeds the limit of chi-square in one run of
// 10,000.
func TestSamplesAreUniform(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	o := NewOrders([]int{0, 0, 1, 1, 2}, func(i, j int) bool {
		return i == 0 && j == 1 || i == 2 && j == 3 || i == 0 && j == 3
	})
	c := o.Count()
	n := int(c.Orders.Int64())
	counts := map[string]int{}
	const draws = 20_000
	for range draws {
		order, exact := c.Sample(rng)
		if !exact {
			t.Fatal("the orders were counted, and the sample is not exact")
		}
		counts[fmt.Sprint(order)]++
	}
	chi := 0.0
	for _, k := range counts {
		d := float64(k) - draws/float64(n)
		chi += d * d / (draws / float64(n))
	}
	if len(counts) != n || chi > 2.5*float64(n)+20 {
		t.Errorf("%d of %d orders, chi-square %.1f", len(counts), n, chi)
	}
	uncounted := &Counted{of: o}
	if order, exact := uncounted.Sample(rng); exact || len(order) != 5 ||
		slices.Index(order, 0) > slices.Index(order, 3) {
		t.Errorf("without a count: %v, exact %v", order, exact)
	}
}

// Suppose that the interval of a message's receipt ends before the interval of its sending begins.
// Then the summary counts and names the message. In the history, the sending is nevertheless before
// the receipt.
func TestBrokenBoundIsNamed(t *testing.T) {
	j := &job{nodes: 2, bounds: []boundedTranslator{{0, 10}, {10, 10}}}
	j.events = [][]logstore.Event{{{Counter: 1000, ID: 7}}, {{Counter: 960, ID: 7}}}
	j.points = [][]int{{0}, {1}}
	h, s, err := j.run(t, 2).Gather(context.Background(), Part{})
	if err != nil {
		t.Fatal(err)
	}
	want := "id 7, sent by actor/p0 on n0, received by actor/p1 on n1"
	if s.Broken != 1 || len(s.Named) != 1 || s.Named[0] != want {
		t.Errorf("%d broken, %q, want %q", s.Broken, s.Named, want)
	}
	if !h.Events[0].Before(&h.Events[1]) || h.Events[0].Node != 0 {
		t.Errorf("the message is received before it is sent: %+v", h.Events)
	}
}

// A pattern of channels means the same in a Part as in a handler table.
func TestPartOfChannels(t *testing.T) {
	for pattern, want := range map[string]bool{
		"parser*": true, "parser/start": true, "parser#7/*": true, "*rt": true,
		"parser": false, "parser#8/start": false,
	} {
		part := Part{Channels: []string{"other/*", pattern}}
		if got := part.has(&Event{}, "parser#7/start", "a"); got != want {
			t.Errorf("%q chooses parser#7/start: %v", pattern, got)
		}
	}
}

func TestCycleIsAnError(t *testing.T) {
	j := &job{nodes: 2, bounds: []boundedTranslator{{50, 50}, {50, 50}}}
	j.events = [][]logstore.Event{
		{{Counter: 1000, ID: 1}, {Counter: 1001, ID: 2}},
		{{Counter: 1000, ID: 2}, {Counter: 1001, ID: 1}},
	}
	j.points = [][]int{{1, 0}, {1, 0}}
	_, _, err := j.run(t, 2).Gather(context.Background(), Part{})
	if !errors.Is(err, ErrCycle) {
		t.Errorf("%v, want %v", err, ErrCycle)
	}
}

// The number of events in memory depends on how wide the bounds are, and not on how long the run
// is.
func TestWindowIsAsWideAsTheBounds(t *testing.T) {
	j := chainJob(30_000)
	s, err := j.run(t, 3).Each(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// Events are 100 cycles apart. So, with a bound of 30 cycles, only a few events are in memory,
	// even with those that were read ahead.
	if s.Events != 30_000 || s.Window > 16 {
		t.Errorf("%d events, at most %d in memory", s.Events, s.Window)
	}
	for n := range j.bounds {
		j.bounds[n] = boundedTranslator{3000, 3000}
	}
	s, err = j.run(t, 3).Each(context.Background(), nil)
	if err != nil || s.Events != 30_000 || s.Window < 100 || s.Window > 1600 {
		t.Errorf("wide bounds: %d events, at most %d in memory, %v", s.Events, s.Window, err)
	}
}

// chainJob is a job of three nodes through which tuples pass one after another.
func chainJob(events int) *job {
	j := &job{nodes: 3, events: make([][]logstore.Event, 3), points: make([][]int, 3)}
	for i := range events {
		n := i % 3
		j.events[n] = append(j.events[n], logstore.Event{Counter: uint64(100_000 + 100*i),
			ID: uint64(i / 3)})
		j.points[n] = append(j.points[n], n)
	}
	j.bounds = []boundedTranslator{{30, 30}, {0, 30}, {60, 30}}
	return j
}
