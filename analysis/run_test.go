package analysis

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/returntrip"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func openRun(t testing.TB, parent, name string) *runs.Directory {
	t.Helper()
	d, err := runs.Open(filepath.Join(parent, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func analyze(t *testing.T, dir *runs.Directory, o Options) *Answer {
	t.Helper()
	a, err := Run(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Every duration contains the true one, whichever node's cycles it is given in.
func TestDurationsHoldTruth(t *testing.T) {
	rng := seed.Random(t)
	nodes := simrun.Nodes(rng, 3)
	nodes[1].Quantum = 26
	var channels []simrun.Channel
	times := map[string]map[uint64]uint64{}
	for i, name := range []string{"a/start", "a/end", "b#1/start", "b#1/end", "c/start"} {
		channels = append(channels, simrun.Channel{Node: []int{0, 0, 1, 1, 2}[i], Name: name})
		times[pointName(name)] = map[uint64]uint64{}
	}
	now := uint64(simrun.Hz)
	for id := range uint64(3000) {
		now += rng.Uint64N(3_000_000)
		at := now
		for i := range channels {
			at += 100 + rng.Uint64N(1<<rng.UintN(28))
			channels[i].Records = append(channels[i].Records, simrun.Record{Time: at, ID: id})
			times[pointName(channels[i].Name)][id] = at
		}
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "truth", nodes, channels); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "truth")
	for i, reference := range nodes {
		checked := 0
		a := analyze(t, dir,
			Options{Reference: reference.Name, Durations: func(d DurationRow) error {
				from, to := times[d.From][d.ID], times[d.To][d.ID]
				exact := nodes[i]
				exact.Quantum = 1
				truth := int64(exact.Reading(to) - exact.Reading(from))
				// A count between moments is itself known to within one cycle.
				if truth+1 < d.Lo || truth-1 > d.Hi {
					t.Errorf("in cycles of %s: tuple %d from %s to %s took %d, and the answer "+
						"is %v by %v",
						reference.Name, d.ID, d.From, d.To, truth, d.Span, d.Scenario)
				}
				checked++
				return nil
			}})
		if checked != 5*3000 {
			t.Errorf("%d durations, want four legs and one end to end for each of 3000 tuples",
				checked)
		}
		if a.Partial || len(a.Legs) != 4 || len(a.EndToEnd) != 1 {
			t.Errorf("answer: partial %v, legs %d and %d, findings %v", a.Partial, len(a.Legs),
				len(a.EndToEnd), a.Findings)
		}
		for k, want := range []string{"computation", "transfer", "computation", "transfer"} {
			if got := a.Legs[k]; got.Kind != want || (got.Local != nil) != (want == "computation") {
				t.Errorf("leg %s to %s is %s, local %v", got.From, got.To, got.Kind,
					got.Local != nil)
			}
		}
	}
}

// smallRun is two nodes, and two channels with 1,000 tuples.
func smallRun(t *testing.T) (string, *runs.Directory) {
	t.Helper()
	parent := t.TempDir()
	if err := simrun.Chain(3, parent, "small", 2, 1000, 10000); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(parent, "small"), openRun(t, parent, "small")
}

func mentions(a *Answer, word string) bool {
	text, err := json.Marshal(struct {
		M []Missing
		F []Finding
		P []Point
	}{a.Missing, a.Findings, a.Points})
	return err == nil && bytes.Contains(text, []byte(word))
}

// Points that the tuples put in a circle are reported once, not again for each circle within it.
// Each gets a place.
func TestCircle(t *testing.T) {
	in := &input{points: []point{{"a", "recv"}, {"b", "recv"}, {"c", "recv"}, {"d", "recv"}}}
	precedes := make([][]bool, 4)
	for p := range precedes {
		precedes[p] = make([]bool, 4)
		for q := range precedes[p] {
			precedes[p][q] = p != q
		}
	}
	g := in.sorted(precedes, "tuples")
	if len(in.findings) != 1 || !strings.Contains(in.findings[0].Text, "put a/recv, b/recv, "+
		"c/recv, d/recv in a circle: what is measured between them begins at a/recv") {
		t.Errorf("found %v", in.findings)
	}
	if !slices.Equal(g.order, []int{0, 1, 2, 3}) {
		t.Errorf("in order %v", g.order)
	}
}

// The span from an actor's start to its end, by the names of the vocabulary, is a computation.
// Spans between other points of one actor are inside it.
func TestKinds(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"a/start", "a/end", "computation"}, {"a/recv", "a/send", "computation"},
		{"a/recv", "a/start", "inside"}, {"a/end", "a/send", "inside"},
		{"a/start", "a/send", "inside"}, {"a/intended", "a/start", "inside"},
		{"a/send", "b/recv", "transfer"}, {"a/start", "b/end", "transfer"},
	} {
		p, q := strings.Split(test.from, "/"), strings.Split(test.to, "/")
		if got := kindOf(between, point{p[0], p[1]}, point{q[0], q[1]}); got != test.want {
			t.Errorf("%s to %s is %s, want %s", test.from, test.to, got, test.want)
		}
		if got := kindOf(fromLatest, point{p[0], p[1]}, point{q[0], q[1]}); got != "end-to-end" {
			t.Errorf("the whole way from %s to %s is %s", test.from, test.to, got)
		}
	}
}

// Links in a circle are followed for some generations. A finding says that the rest is not
// followed.
func TestLinksInACircle(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3}, []uint64{2, 3})
	links := simrun.Channel{Node: 0, Name: "w/link", Handler: "link"}
	for _, l := range [][2]uint64{{1, 2}, {2, 3}, {3, 2}} {
		links.Records = append(links.Records, simrun.Record{ID: l[0], Child: l[1], IsLink: true})
	}
	a := analyze(t, write(t, append(channels, links)...), Options{
		Edges: [][2]string{{"a/recv", "b/recv"}},
	})
	if !mentions(a, "or in a circle") || !a.Partial {
		t.Errorf("findings %v", a.Findings)
	}
	for _, l := range a.EndToEnd {
		if l.All.Count != 2 || l.From != "a/recv" || l.To != "b/recv" || l.Origin == "" {
			t.Errorf("from %s to %s, %s: %d", l.From, l.To, l.Origin, l.All.Count)
		}
	}
	if len(a.EndToEnd) != 2 {
		t.Errorf("%d end to end", len(a.EndToEnd))
	}
}

// If the bound does not tell whether an event came before or after the second tuple of its id, it
// belongs to that tuple.
func TestReusedIDWithinTheBound(t *testing.T) {
	channels := channelsOf([]uint64{1, 1}, []uint64{1, 1})
	for i := range channels[0].Records {
		at := simrun.Hz * uint64(1+i)
		channels[0].Records[i].Time, channels[1].Records[i].Time = at, at+10
	}
	a := analyze(t, write(t, channels...), Options{Edges: [][2]string{{"a/recv", "b/recv"}}})
	if l := a.Legs[0].All; a.Work.Tuples != 2 || a.Points[1].Duplicates != 0 || l.Count != 2 ||
		l.Undecided != 2 {
		t.Errorf("%d tuples, %d duplicates, %+v", a.Work.Tuples, a.Points[1].Duplicates, l)
	}
}

func channelsOf(ids ...[]uint64) []simrun.Channel {
	var channels []simrun.Channel
	for i, list := range ids {
		c := simrun.Channel{Node: i, Name: string(rune('a'+i)) + "/recv"}
		for k, id := range list {
			c.Records = append(c.Records, simrun.Record{
				Time: simrun.Hz + uint64(k*1000+i*500_000), ID: id,
			})
		}
		channels = append(channels, c)
	}
	return channels
}

func write(t *testing.T, channels ...simrun.Channel) *runs.Directory {
	t.Helper()
	rng := seed.Random(t)
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "r", simrun.Nodes(rng, 2), channels); err != nil {
		t.Fatal(err)
	}
	return openRun(t, parent, "r")
}

// The place of a point that few tuples pass is found, wherever in the run they are.
func TestAPointThatFewTuplesPass(t *testing.T) {
	const tuples = 3 * sampleTuples
	partition := newStore[logstore.Event](nil, 6, 1).partition
	last := uint64(0) // an id in the partition that is read last
	for id := range uint64(tuples) {
		if partition(id) > partition(last) {
			last = id
		}
	}
	channels := []simrun.Channel{
		{Node: 0, Name: "a/recv"}, {Node: 1, Name: "b/recv"}, {Node: 1, Name: "rare/recv"},
	}
	add := func(i int, id uint64) {
		channels[i].Records = append(channels[i].Records, simrun.Record{
			Time: simrun.Hz + id*1000 + uint64(i)*500_000, ID: id,
		})
	}
	for id := range uint64(tuples) {
		add(0, id)
		add(1, id)
		if id == last {
			add(2, id)
		}
	}
	a := analyze(t, write(t, channels...), Options{partitions: 6})
	var found bool
	for _, l := range a.Legs {
		found = found || l.From == "b/recv" && l.To == "rare/recv" && l.All.Count == 1
	}
	if !found || len(a.Legs) != 2 || mentions(a, "match those of no other point") {
		t.Errorf("legs %+v, findings %v", len(a.Legs), a.Findings)
	}
	if a.Partial {
		t.Errorf("findings %v", a.Findings)
	}
	// If tuples do connect a point to others, the rest of the run is not searched for tuples that
	// pass it with each other point. A finding says what is not measured.
	for i := range channels {
		channels[i].Records = channels[i].Records[:0]
	}
	for id := range uint64(tuples) {
		if add(0, id); id%2 == 0 || id == last {
			add(1, id)
		}
		if id%2 == 1 || id == last {
			add(2, id)
		}
	}
	a = analyze(t, write(t, channels...), Options{partitions: 6})
	if !mentions(
		a, "1 tuples pass points whose order is not known, such as b/recv and rare/recv") ||
		!a.Partial {
		t.Errorf("findings %v", a.Findings)
	}
	a = analyze(t, write(t, channels...), Options{
		partitions: 6, Edges: [][2]string{{"a/recv", "b/recv"}, {"a/recv", "rare/recv"}},
	})
	if a.Partial {
		t.Errorf("declared: findings %v", a.Findings)
	}
}

func TestReceivedBeforeSentIsFound(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3, 4}, []uint64{1, 2, 3, 4})
	channels[1].Records[2].Time = simrun.Hz / 2 // tuple 3 arrives long before it is sent
	a := analyze(t, write(t, channels...), Options{Edges: [][2]string{{"a/recv", "b/recv"}}})
	if l := a.Legs[0].All; l.After != 1 || l.Before != 3 ||
		!mentions(a, "tuple 3 was at a/recv on A surely after it was at b/recv") || !a.Partial {
		t.Errorf("%+v, findings %v", l, a.Findings)
	}
}

// If many tuples were received before they were sent, the same ones are named, whoever finds them
// and in whatever order.
func TestBackwardsAreTheSame(t *testing.T) {
	const tuples = 40
	ids := make([]uint64, tuples)
	for i := range ids {
		ids[i] = uint64(tuples-i) << pageBits
	}
	channels := channelsOf(ids, ids)
	for i := range channels[1].Records {
		channels[1].Records[i].Time -= simrun.Hz / 2
	}
	dir := write(t, channels...)
	for _, o := range []Options{{Workers: 1}, {Workers: 3}, {Durations: func(DurationRow) error {
		return nil
	}}, {Workers: 2, partitions: 1}} {
		o.Edges = [][2]string{{"a/recv", "b/recv"}}
		a := analyze(t, dir, o)
		for id := range uint64(maxBackwards + 1) {
			named := fmt.Sprintf("tuple %d was at a/recv on A surely after", (id+1)<<pageBits)
			if mentions(a, named) != (id < maxBackwards) {
				t.Errorf("%d workers: findings %v", o.Workers, a.Findings)
			}
		}
	}
}

// The slowest tuples are found whether tuples are measured together or one by one, and whether
// their path is a single span or not.
func TestSlowestAreOfAll(t *testing.T) {
	for _, stages := range []int{2, 3} {
		parent := t.TempDir()
		if err := simrun.Chain(seed.Of(t), parent, "r", stages, 5000, 10000); err != nil {
			t.Fatal(err)
		}
		dir := openRun(t, parent, "r")
		together := analyze(t, dir, Options{Reference: "A"})
		var rows []DurationRow
		alone := analyze(t, dir, Options{Reference: "A", Durations: func(r DurationRow) error {
			if r.From == "stage0/recv" && r.To == fmt.Sprintf("stage%d/recv", stages-1) {
				rows = append(rows, r)
			}
			return nil
		}})
		slices.SortFunc(rows, func(a, b DurationRow) int {
			return cmp.Or(cmp.Compare(b.Lo, a.Lo), cmp.Compare(a.ID, b.ID))
		})
		for i := range 10 {
			if len(rows) != 5000 || uint64(together.Slowest[i].ID) != rows[i].ID ||
				uint64(alone.Slowest[i].ID) != rows[i].ID {
				t.Errorf("%d stages, the %d. slowest of %d is %d, not %d or %d", stages, i+1,
					len(rows), rows[i].ID, together.Slowest[i].ID, alone.Slowest[i].ID)
			}
		}
	}
}

// If nothing can lie between a tuple's first point and its last, its path is already a span. Its
// durations are reported once, compared with the truth once, and named once if they are impossible.
// The slowest tuples are known all the same.
func TestAWholeWayOfOneLegIsToldOnce(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3, 4}, []uint64{1, 2, 3, 4, 5})
	channels[1].Records[2].Time = simrun.Hz / 2 // tuple 3 arrives long before it is sent
	channels[1].Records[3].Time += 10_000_000   // tuple 4 is late
	rng := seed.Random(t)
	nodes, parent := simrun.Nodes(rng, 2), t.TempDir()
	if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "r")
	truth := func(_ string, _ uint64, _ string) (tscratio.Interval, bool) {
		return tscratio.At(7), true
	}
	edges := [][2]string{{"a/recv", "b/recv"}}
	rows := 0
	for name, o := range map[string]Options{
		"together": {}, "alone": {Durations: func(DurationRow) error {
			rows++
			return nil
		}}, "no slowest": {Slowest: -1}, "two workers": {Workers: 2, partitions: 1},
	} {
		o.Edges, o.Truth = edges, truth
		a := analyze(t, dir, o)
		if len(a.Legs) != 1 || len(a.EndToEnd) != 0 || a.Legs[0].All.Count != 4 ||
			a.Legs[0].Whole != 4 || a.Held.Count != 4 {
			t.Errorf("%s: legs %+v, end to end %+v, held %+v", name, a.Legs, a.EndToEnd, a.Held)
		}
		if want := max(4+4*o.Slowest, 0); len(a.Slowest) != want ||
			want > 0 && a.Slowest[0].ID != 4 {
			t.Errorf("%s: slowest %+v", name, a.Slowest)
		}
		var before int
		for _, f := range a.Findings {
			if strings.Contains(f.Text, "surely") {
				before++
			}
		}
		if before != 2 { // that of the span, and that of the tuple
			t.Errorf("%s: findings %v", name, a.Findings)
		}
	}
	if rows != 4 {
		t.Errorf("%d durations were told, want 4", rows)
	}
}

// A whole path on which a point can lie is reported beside the span that skips the point. The span
// has other tuples: those that did not pass the point.
func TestAWholeWayPastAPointIsNoLeg(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3, 4}, []uint64{2, 4})
	channels = append(channels, simrun.Channel{Node: 0, Name: "c/recv"})
	for id := range uint64(4) {
		channels[2].Records = append(channels[2].Records, simrun.Record{
			Time: 2*simrun.Hz + id, ID: id + 1,
		})
	}
	a := analyze(t, write(t, channels...), Options{
		Edges: [][2]string{{"a/recv", "b/recv"}, {"b/recv", "c/recv"}},
	})
	counts := map[string]uint64{}
	for _, l := range append(a.Legs, a.EndToEnd...) {
		counts[l.From+" "+l.To+" "+l.Kind] = l.All.Count
		if l.Whole != 0 {
			t.Errorf("%d went their whole way from %s to %s, where %s is", l.Whole, l.From, l.To,
				"b/recv")
		}
	}
	want := map[string]uint64{
		"a/recv b/recv transfer": 2, "b/recv c/recv transfer": 2, "a/recv c/recv transfer": 2,
		"a/recv c/recv end-to-end": 4,
	}
	if !maps.Equal(counts, want) {
		t.Errorf("legs %v, want %v", counts, want)
	}
}

func TestDisorderAsRFC4737(t *testing.T) {
	// Ids of another origin, which are in order. A copy comes after itself, and is late only if a
	// greater one came before it.
	other := uint64(7) << originShift
	a := analyze(t, write(t,
		channelsOf([]uint64{1, 2, 3, 4, 5, 6},
			[]uint64{1, 1, 4, other, 2, 3, other + 1, 5, 5, 6})...), Options{})
	for _, p := range a.Points {
		want := map[string]uint64{"a/recv": 0, "b/recv": 2}[p.Name]
		if p.Disordered != want {
			t.Errorf("%d late at %s, want %d", p.Disordered, p.Name, want)
		}
	}
}

// Each writer's ids have their own order. If ids have very many origins, a finding says that their
// order was not followed.
func TestDisorderOfManyWritersAndOrigins(t *testing.T) {
	rng := seed.Random(t)
	nodes, parent := simrun.Nodes(rng, 2), t.TempDir()
	d, err := simrun.Begin(rng, parent, "many", nodes, simrun.Hz, 3*simrun.Hz)
	if err != nil {
		t.Fatal(err)
	}
	l, err := simrun.OpenLog(d, &nodes[0], "a/recv", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	at := nodes[0].Reading(2 * simrun.Hz)
	for shard, ids := range [][]uint64{{5, 6, 7}, {1, 3, 2}} {
		b := logstore.Block{Shard: shard}
		for _, id := range ids {
			b.Events = append(b.Events, logstore.Event{Counter: at, ID: id})
		}
		if err := l.Append(b); err != nil {
			t.Fatal(err)
		}
	}
	m, err := simrun.OpenLog(d, &nodes[1], "b/recv", "", 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(maxOrigins + 10) {
		if err := m.Event(2*simrun.Hz+i, i<<originShift); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.Seal(), m.Seal()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	a := analyze(t, openRun(t, parent, "many"), Options{})
	if a.Points[0].Disordered != 1 || a.Points[1].Disordered != 0 {
		t.Errorf("%d late of two writers, %d of many origins", a.Points[0].Disordered,
			a.Points[1].Disordered)
	}
	if !mentions(a, "the ids at b/recv are of more than") ||
		mentions(a, "the ids at a/recv are of more than") {
		t.Errorf("findings %v", a.Findings)
	}
}

// Twice the scratch file that a run needs is enough. With less than it needs, an error says so.
func TestScratchIsBounded(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(5, parent, "big", 2, 200_000, 1_000_000); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "big")
	scratch := t.TempDir()
	a := analyze(t, dir, Options{Memory_bytes: 1 << 20, Scratch: scratch})
	if a.Work.Scratch_bytes < 200_000*2*16/2 || a.Legs[0].All.Count != 200_000 {
		t.Errorf("%d bytes of scratch, %d durations", a.Work.Scratch_bytes, a.Legs[0].All.Count)
	}
	_, err := Run(context.Background(), dir, Options{
		Memory_bytes: 1 << 20, Scratch: scratch, Scratch_bytes: 1 << 20,
	})
	if !errors.Is(err, ErrScratch) || !strings.Contains(err.Error(), "1048576 bytes") {
		t.Error(err)
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	stopped := errors.New("stopped by a signal")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(stopped)
	// The error appears once, however many workers it ended.
	if _, err := Run(cancelled, dir, Options{Workers: 2}); !errors.Is(err, stopped) ||
		strings.Count(err.Error(), stopped.Error()) != 1 {
		t.Error(err)
	}
}

func TestRunLengthAndCounters(t *testing.T) {
	rng := seed.Random(t)
	nodes := simrun.Nodes(rng, 2)
	parent := t.TempDir()
	d, err := simrun.Begin(rng, parent, "length", nodes, simrun.Hz, 12*simrun.Hz)
	if err != nil {
		t.Fatal(err)
	}
	// Two sources and a sink: the first tuple is at 2 s, the last poison at 10 s.
	for i, c := range []struct {
		node                int
		name                string
		first, last, poison uint64
	}{{0, "s#0/send", 2, 8, 0}, {1, "s#1/send", 3, 9, 0}, {0, "t#0/recv", 4, 9, 9},
		{1, "t#1/recv", 4, 9, 10}} {
		l, err := simrun.OpenLog(d, &nodes[c.node], c.name, "first-last", i)
		if err != nil {
			t.Fatal(err)
		}
		at := func(s uint64) uint64 {
			if s == 0 {
				return 0
			}
			return nodes[c.node].Reading(s * simrun.Hz)
		}
		row := logstore.FirstLast{
			Count: 5, FirstCounter: at(c.first), FirstID: 1, LastCounter: at(c.last), LastID: 5,
			Poison: at(c.poison),
		}
		early := row // while the run lasts, the log keeps what is known so far
		early.Count, early.LastCounter, early.Poison = 1, row.FirstCounter, 0
		if err := errors.Join(l.Append(logstore.Block{FirstLasts: []logstore.FirstLast{early}}),
			l.Append(logstore.Block{FirstLasts: []logstore.FirstLast{row}}), l.Seal()); err != nil {
			t.Fatal(err)
		}
	}
	l, err := simrun.OpenLog(d, &nodes[1], "n/recv", "counter", 9)
	if err != nil {
		t.Fatal(err)
	}
	samples := []logstore.Sample{
		{Counter: nodes[1].Reading(2 * simrun.Hz), Count: 10},
		{Counter: nodes[1].Reading(3 * simrun.Hz), Count: 110},
		{Counter: nodes[1].Reading(5 * simrun.Hz), Count: 120},
	}
	if err := errors.Join(l.Append(logstore.Block{Samples: samples[:2]}),
		l.Append(logstore.Block{Samples: samples[2:]}), l.Seal()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	a := analyze(t, openRun(t, parent, "length"), Options{Reference: "A"})
	truth := func(from, to uint64) int64 {
		return int64(nodes[0].Reading(to*simrun.Hz) - nodes[0].Reading(from*simrun.Hz))
	}
	holds := func(i Interval, truth int64) bool {
		return i.Lo_cycles <= truth+1 && truth-1 <= i.Hi_cycles && i.Hi_cycles-i.Lo_cycles < 200_000
	}
	if a.Length == nil || !holds(a.Length.Interval, truth(2, 10)) || !a.Length.Poison ||
		a.Length.Tuples != 10 || a.Length.To != "t#1/recv on B" {
		t.Errorf("run length %+v, want %d cycles", a.Length, truth(2, 10))
	}
	if len(a.Counters) != 1 || a.Counters[0].Total != 120 || len(a.Counters[0].Periods) != 2 {
		t.Fatalf("counters %+v", a.Counters)
	}
	for i, want := range []Period{{Count: 100}, {Count: 10}} {
		p := a.Counters[0].Periods[i]
		if p.Count != want.Count || !holds(p.Length, []int64{truth(2, 3), truth(3, 5)}[i]) {
			t.Errorf("period %d: %+v", i, p)
		}
		if off := int64(uint64(p.From_cycles) - nodes[0].Reading(uint64(2+i)*simrun.Hz)); max(off,
			-off) > 100_000 {
			t.Errorf("period %d begins %d cycles from where it does", i, off)
		}
	}
}

func TestPointsAreThoseOfChannels(t *testing.T) {
	for i, p := range []string{channel.PointRecv, channel.PointStart, channel.PointEnd,
		channel.PointSend} {
		if pointOrder[p] != i+1 {
			t.Errorf("point %q is number %d", p, pointOrder[p])
		}
	}
	if len(pointOrder) != 4 || poison != channel.Poison {
		t.Error("the analysis has points, or a poison, of its own")
	}
	for e, p := range []string{sent: returntrip.PointSent, arrived: returntrip.PointArrived,
		acknowledged: returntrip.PointAcknowledged, echoed: returntrip.PointEchoed} {
		if tripPoints[p] != tripEvent(e) {
			t.Errorf("return trips have a point %q", p)
		}
	}
}

func TestAnswerAsJSON(t *testing.T) {
	_, dir := smallRun(t)
	a := analyze(t, dir, Options{})
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var back Answer
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("it is not read back as it was, %v", err)
	}
	if !bytes.Contains(text, []byte(`"reading":"`)) ||
		!bytes.Contains(text, []byte(`"id":"1125899`)) {
		t.Error("readings and ids are not strings")
	}
	if !bytes.Contains(text, []byte(`"percent":99.999,`)) ||
		!bytes.Contains(text, []byte(`"percent":1,`)) {
		t.Error("percentiles do not go from 1 to 99.999")
	}
}
