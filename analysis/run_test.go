package analysis

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
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

// Every duration's interval contains the true duration, in the cycles of each node.
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
				// A count of cycles between two moments is known only to within one cycle.
				if truth+1 < d.Lo || truth-1 > d.Hi {
					t.Errorf("in cycles of %s: tuple %d from %s to %s took %d, and the answer "+
						"is %v by %v",
						reference.Name, d.ID, d.From, d.To, truth, d.Elapsed, d.Scenario)
				}
				checked++
				return nil
			}})
		if checked != 5*3000 {
			t.Errorf("%d durations, want four spans and one end to end for each of 3000 tuples",
				checked)
		}
		if a.Partial || len(a.Spans) != 4 || len(a.EndToEnd) != 1 {
			t.Errorf("answer: partial %v, spans %d and %d, findings %v", a.Partial, len(a.Spans),
				len(a.EndToEnd), a.Findings)
		}
		for k, want := range []string{"computation", "transfer", "computation", "transfer"} {
			got, local := a.Spans[k], want == "computation"
			if got.Kind != want || (got.Local != nil) != local {
				t.Errorf("span %s to %s is %s, local %v", got.From, got.To, got.Kind,
					got.Local != nil)
			}
		}
	}
}

// smallRun writes a run of two nodes, and two channels with 1,000 tuples.
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

// If the order in which tuples pass points has a circle, as from a to b and back to a, one finding
// reports the circle. Circles within it have no findings of their own. Each point still gets a
// place in the order.
func TestCircle(t *testing.T) {
	in := &input{points: []point{{"a", "recv"}, {"b", "recv"}, {"c", "recv"}, {"d", "recv"}}}
	precedes := matrix(4)
	for p := range precedes {
		for q := range precedes[p] {
			precedes[p][q] = p != q
		}
	}
	g := in.rankPoints(&ordering{precedes: precedes, mayPrecede: matrix(4)})
	if len(in.findings) != 1 || !strings.Contains(in.findings[0].Text, "put a/recv, b/recv, "+
		"c/recv, d/recv in a circle: what is measured between them begins at a/recv") {
		t.Errorf("found %v", in.findings)
	}
	if !slices.Equal(g.order, []int{0, 1, 2, 3}) {
		t.Errorf("in order %v", g.order)
	}
}

// A point that only follows a circle is not part of the circle, and does not come first in the
// order.
func TestCircleHasOnlyItsPoints(t *testing.T) {
	precedes := matrix(4)
	for _, pair := range [][2]int{{1, 2}, {2, 3}, {3, 1}, {3, 0}} {
		precedes[pair[0]][pair[1]] = true
	}
	g, circle := sortPoints(precedes)
	if !slices.Equal(circle, []int{1, 2, 3}) || !slices.Equal(g.order, []int{1, 2, 3, 0}) {
		t.Errorf("circle %v, order %v", circle, g.order)
	}
}

// A span of one actor is a computation if it goes from start to end or from recv to send. Spans
// between other points of one actor are of kind inside.
func TestKinds(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"a/start", "a/end", "computation"}, {"a/recv", "a/send", "computation"},
		{"a/recv", "a/start", "inside"}, {"a/end", "a/send", "inside"},
		{"a/start", "a/send", "inside"}, {"a/intended", "a/start", "inside"},
		{"a/send", "b/recv", "transfer"}, {"a/start", "b/end", "transfer"},
	} {
		p, q := strings.Split(test.from, "/"), strings.Split(test.to, "/")
		in := &input{points: []point{{p[0], p[1]}, {q[0], q[1]}}}
		g := &graph{order: []int{0, 1}, gaps: make([]uint64, 2)}
		l := span{key: spanKey{from: 0, to: 1}}
		if got := l.kindWords(in, g); got != test.want {
			t.Errorf("%s to %s is %s, want %s", test.from, test.to, got, test.want)
		}
		g.gaps[0] = 1 << 1
		if got := l.kindWords(in, g); got != "gap" {
			t.Errorf("%s to %s, past a point, is %s", test.from, test.to, got)
		}
		l.key.kind = fromLatest
		if got := l.kindAndOrigin(in, g); got != "end-to-end, latest" {
			t.Errorf("the whole way from %s to %s is %s", test.from, test.to, got)
		}
	}
}

// Links in a circle are followed for some generations only. A finding says so.
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

// Two tuples have the same id. If the bound does not tell whether an event with this id came before
// or after the beginning of the second tuple, the event belongs to the second tuple.
func TestReusedIDWithinTheBound(t *testing.T) {
	channels := channelsOf([]uint64{1, 1}, []uint64{1, 1})
	for i := range channels[0].Records {
		at := simrun.Hz * uint64(1+i)
		channels[0].Records[i].Time, channels[1].Records[i].Time = at, at+10
	}
	a := analyze(t, write(t, channels...), Options{Edges: [][2]string{{"a/recv", "b/recv"}}})
	if l := a.Spans[0].All; a.Work.Tuples != 2 || a.Points[1].Duplicates != 0 || l.Count != 2 ||
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

// A point that few tuples pass gets its place in the order, even if these tuples are only at the
// end of the run.
func TestAPointThatFewTuplesPass(t *testing.T) {
	const tuples = 3 * sampleTuples
	partition := newStore[logstore.Event](nil, 6, 1).partition
	last := uint64(0) // will be an id in the partition that is read last
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
	for _, l := range a.Spans {
		found = found || l.From == "b/recv" && l.To == "rare/recv" && l.All.Count == 1
	}
	if !found || len(a.Spans) != 2 || mentions(a, "match those of no other point") {
		t.Errorf("spans %+v, findings %v", len(a.Spans), a.Findings)
	}
	if a.Partial {
		t.Errorf("findings %v", a.Findings)
	}
	// Now each point shares tuples of the sample with another point, so the analysis does not read
	// on. No tuple of the sample passes both b/recv and rare/recv. A finding says that nothing is
	// measured between these two.
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

// The slowest tuples are found in four cases: tuples are measured together or one by one, and their
// path is a single span or several.
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

// If no point can lie between a tuple's first point and its last, its whole path is a single span.
// The duration is then reported once and compared with the truth once. If a tuple arrives before it
// is sent, there is a finding about the span and another about the tuple. The slowest tuples are
// still known.
func TestAWholePathOfOneSpanIsToldOnce(t *testing.T) {
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
		if len(a.Spans) != 1 || len(a.EndToEnd) != 0 || a.Spans[0].All.Count != 4 ||
			a.Spans[0].Whole != 4 || a.Held.Count != 4 {
			t.Errorf("%s: spans %+v, end to end %+v, held %+v", name, a.Spans, a.EndToEnd, a.Held)
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
		if before != 2 { // one for the span, and one for the tuple
			t.Errorf("%s: findings %v", name, a.Findings)
		}
	}
	if rows != 4 {
		t.Errorf("%d durations were told, want 4", rows)
	}
}

// If a point can lie on a whole path, the whole path is reported in addition to the span that skips
// the point. That span has other tuples: those that did not pass the point.
func TestAWholePathPastAPointIsNoSpan(t *testing.T) {
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
	for _, l := range append(a.Spans, a.EndToEnd...) {
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
		t.Errorf("spans %v, want %v", counts, want)
	}
}
