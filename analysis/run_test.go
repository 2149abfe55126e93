package analysis

import (
	"bytes"
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

// Every duration holds the true one, whichever node's cycles it is given in.
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
		a := analyze(t, dir, Options{Reference: reference.Name, Durations: func(d DurationRow) error {
			from, to := times[d.From][d.ID], times[d.To][d.ID]
			exact := nodes[i]
			exact.Quantum = 1
			truth := int64(exact.Reading(to) - exact.Reading(from))
			// A count between moments is known to within a cycle itself.
			if truth+1 < d.Lo || truth-1 > d.Hi {
				t.Errorf("in cycles of %s: tuple %d from %s to %s took %d, and the answer is %v by %v", reference.Name, d.ID, d.From, d.To, truth, d.Span, d.Scenario)
			}
			checked++
			return nil
		}})
		if checked != 5*3000 {
			t.Errorf("%d durations, want four legs and one end to end for each of 3000 tuples", checked)
		}
		if a.Partial || len(a.Legs) != 4 || len(a.EndToEnd) != 1 {
			t.Errorf("answer: partial %v, legs %d and %d, findings %v", a.Partial, len(a.Legs), len(a.EndToEnd), a.Findings)
		}
		for k, want := range []string{"computation", "transfer", "computation", "transfer"} {
			if got := a.Legs[k]; got.Kind != want || (got.Local != nil) != (want == "computation") {
				t.Errorf("leg %s to %s is %s, local %v", got.From, got.To, got.Kind, got.Local != nil)
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

// What is bad or missing is said, and what is left is answered.
func TestBadInput(t *testing.T) {
	glob := func(t *testing.T, pattern string) string {
		t.Helper()
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) != 1 {
			t.Fatalf("%q: %v, %v", pattern, found, err)
		}
		return found[0]
	}
	for name, test := range map[string]struct {
		do    func(t *testing.T, dir string)
		word  string // is in the answer
		pairs int    // durations of the one leg that are left; -1: no leg
	}{
		"no_logs_of_a_node": {func(t *testing.T, dir string) { os.RemoveAll(dir + "/logs/B") }, "logs/B", -1},
		"torn_log": {func(t *testing.T, dir string) {
			file := glob(t, dir+"/logs/B/*")
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(file, info.Size()-200); err != nil {
				t.Fatal(err)
			}
		}, "is damaged in 1 place: ", -1},
		"no_log_but_a_text": {func(t *testing.T, dir string) {
			if err := os.WriteFile(glob(t, dir+"/logs/B/*"), []byte("hello"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a log file", -1},
		"missing_relation": {func(t *testing.T, dir string) { os.Remove(dir + "/relations/A--B.rel") }, "were not related", 0},
		"torn_relation":    {func(t *testing.T, dir string) { os.Truncate(dir+"/relations/A--B.rel", 100) }, "torn", 0},
		"two_epochs": {func(t *testing.T, dir string) {
			text, err := os.ReadFile(dir + "/run.yaml")
			if err != nil {
				t.Fatal(err)
			}
			os.WriteFile(dir+"/run.yaml", bytes.Replace(text, []byte("epoch: epoch-B"), []byte("epoch: after-boot"), 1), 0o600)
		}, "of epoch", -1},
	} {
		t.Run(name, func(t *testing.T) {
			path, dir := smallRun(t)
			test.do(t, path)
			dir.Close()
			dir, err := runs.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			a := analyze(t, dir, Options{})
			if !a.Partial || !mentions(a, test.word) {
				t.Errorf("partial %v, missing %v, findings %v: %q is not said", a.Partial, a.Missing, a.Findings, test.word)
			}
			if test.pairs == 0 { // without relation nothing says what follows what
				if len(a.Legs) > 0 || !mentions(a, "how long that took is not known") {
					t.Errorf("legs %+v, findings %v", a.Legs, a.Findings)
				}
				a = analyze(t, dir, Options{Edges: [][2]string{{"stage0/recv", "stage1/recv"}}})
			}
			switch {
			case test.pairs < 0 && len(a.Legs) > 0:
				t.Errorf("%d legs", len(a.Legs))
			case test.pairs >= 0 && (len(a.Legs) != 1 || a.Legs[0].All.Count != uint64(test.pairs) || a.Legs[0].All.Unplaced != 1000):
				t.Errorf("legs %+v", a.Legs)
			}
			if a.Points[0].Events != 1000 {
				t.Errorf("%d events at %s", a.Points[0].Events, a.Points[0].Name)
			}
		})
	}
}

// Of a log that is damaged in the middle, or torn, the rest is used: what is gone is counted, and what is seen no more is not called lost.
func TestRestOfADamagedLogIsUsed(t *testing.T) {
	const blocks = 4
	for name, test := range map[string]struct {
		damage func(log []byte) []byte
		left   uint64 // durations; the torn log ends in its second block
		gap    uint64 // rows that are known to be gone
	}{
		"bit":  {func(log []byte) []byte { log[len(log)*3/8] ^= 1; return log }, (blocks - 1) * logstore.MaxRows, logstore.MaxRows},
		"torn": {func(log []byte) []byte { return log[:len(log)*3/8] }, logstore.MaxRows, logstore.MaxRows},
	} {
		parent := t.TempDir()
		if err := simrun.Chain(9, parent, "long", 2, blocks*logstore.MaxRows, 100_000); err != nil {
			t.Fatal(err)
		}
		dir := openRun(t, parent, "long")
		found, err := filepath.Glob(filepath.Join(dir.Path, "logs/B/*"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		log, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(found[0], test.damage(log), 0o600); err != nil {
			t.Fatal(err)
		}
		a := analyze(t, dir, Options{})
		var c Channel
		for _, of := range a.Channels {
			if of.Node == "B" {
				c = of
			}
		}
		if len(a.Legs) != 1 || a.Legs[0].All.Count != test.left || a.Legs[0].All.After > 0 || c.Damage != 1 || c.Unaccounted != test.gap || !a.Partial || !mentions(a, "is damaged in 1 place") {
			t.Errorf("%s: legs %d, channel %+v, findings %v", name, len(a.Legs), c, a.Findings)
		}
		if p := a.Points[0]; p.Lost+p.InFlight != blocks*logstore.MaxRows-test.left || !strings.Contains(p.Undecided, "the log of stage1/recv is not whole") {
			t.Errorf("%s: at %s %d are lost and %d in flight, undecided %q", name, p.Name, p.Lost, p.InFlight, p.Undecided)
		}
	}
}

// Points that the tuples put in a circle are told once, not again for each circle within it, and each has its place.
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
	if len(in.findings) != 1 || !strings.Contains(in.findings[0].Text, "put a/recv, b/recv, c/recv, d/recv in a circle: what is measured between them begins at a/recv") {
		t.Errorf("found %v", in.findings)
	}
	if !slices.Equal(g.order, []int{0, 1, 2, 3}) {
		t.Errorf("in order %v", g.order)
	}
}

// A computation is what the vocabulary calls an actor's beginning and end; other points of one actor are inside it.
func TestKinds(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"a/start", "a/end", "computation"}, {"a/recv", "a/send", "computation"}, {"a/recv", "a/start", "inside"}, {"a/end", "a/send", "inside"},
		{"a/start", "a/send", "inside"}, {"a/intended", "a/start", "inside"}, {"a/send", "b/recv", "transfer"}, {"a/start", "b/end", "transfer"},
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

// Links that lead in a circle are followed for a while, and what is beyond is said to be left.
func TestLinksInACircle(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3}, []uint64{2, 3})
	links := simrun.Channel{Node: 0, Name: "w/link", Handler: "link"}
	for _, l := range [][2]uint64{{1, 2}, {2, 3}, {3, 2}} {
		links.Records = append(links.Records, simrun.Record{ID: l[0], Child: l[1], IsLink: true})
	}
	a := analyze(t, write(t, append(channels, links)...), Options{Edges: [][2]string{{"a/recv", "b/recv"}}})
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

// Where the bound does not tell whether an event came before the second tuple of its id or behind it, it is that tuple's.
func TestReusedIDWithinTheBound(t *testing.T) {
	channels := channelsOf([]uint64{1, 1}, []uint64{1, 1})
	for i := range channels[0].Records {
		at := simrun.Hz * uint64(1+i)
		channels[0].Records[i].Time, channels[1].Records[i].Time = at, at+10
	}
	a := analyze(t, write(t, channels...), Options{Edges: [][2]string{{"a/recv", "b/recv"}}})
	if l := a.Legs[0].All; a.Work.Tuples != 2 || a.Points[1].Duplicates != 0 || l.Count != 2 || l.Undecided != 2 {
		t.Errorf("%d tuples, %d duplicates, %+v", a.Work.Tuples, a.Points[1].Duplicates, l)
	}
}

func channelsOf(ids ...[]uint64) []simrun.Channel {
	var channels []simrun.Channel
	for i, list := range ids {
		c := simrun.Channel{Node: i, Name: string(rune('a'+i)) + "/recv"}
		for k, id := range list {
			c.Records = append(c.Records, simrun.Record{Time: simrun.Hz + uint64(k*1000+i*500_000), ID: id})
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

func TestIDsThatNeverMatch(t *testing.T) {
	a := analyze(t, write(t, channelsOf([]uint64{1, 2, 3}, []uint64{11, 12})...), Options{})
	if len(a.Legs) > 0 || a.Work.Tuples != 5 || !mentions(a, "match those of no other point") {
		t.Errorf("%+v", a)
	}
}

// The order of a point that few tuples pass is found, wherever in the run these are.
func TestAPointThatFewTuplesPass(t *testing.T) {
	const tuples = 3 * sampleTuples
	partition := newStore[logstore.Event](nil, 6, 1).partition
	last := uint64(0) // of the page that is looked at last
	for id := range uint64(tuples) {
		if partition(id) > partition(last) {
			last = id
		}
	}
	channels := []simrun.Channel{{Node: 0, Name: "a/recv"}, {Node: 1, Name: "b/recv"}, {Node: 1, Name: "rare/recv"}}
	add := func(i int, id uint64) {
		channels[i].Records = append(channels[i].Records, simrun.Record{Time: simrun.Hz + id*1000 + uint64(i)*500_000, ID: id})
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
	// Of a point that others pass too it is not looked for which tuples pass it with each other point: that these are not measured is said.
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
	if !mentions(a, "1 tuples pass points in an order that is not known, such as b/recv and rare/recv") || !a.Partial {
		t.Errorf("findings %v", a.Findings)
	}
	a = analyze(t, write(t, channels...), Options{partitions: 6, Edges: [][2]string{{"a/recv", "b/recv"}, {"a/recv", "rare/recv"}}})
	if a.Partial {
		t.Errorf("declared: findings %v", a.Findings)
	}
}

// A channel that nothing but the end of the stream came to is nothing to be said about.
func TestAChannelWithoutEvents(t *testing.T) {
	channels := append(channelsOf([]uint64{1, 2, 3}, []uint64{1, 2, 3}), simrun.Channel{Node: 0, Name: "error/recv", Records: []simrun.Record{{Time: simrun.Hz, ID: poison}}})
	if a := analyze(t, write(t, channels...), Options{}); a.Partial || len(a.Legs) != 1 || len(a.Channels) != 3 {
		t.Errorf("partial %v, findings %v, %d legs, %d channels", a.Partial, a.Findings, len(a.Legs), len(a.Channels))
	}
}

func TestNoTuples(t *testing.T) {
	a := analyze(t, write(t), Options{})
	if len(a.Legs) > 0 || a.Work.Tuples != 0 || !a.Partial || !mentions(a, "logs/A") {
		t.Errorf("%+v", a)
	}
	a = analyze(t, write(t, channelsOf([]uint64{poison}, []uint64{poison})...), Options{})
	if a.Work.Tuples != 0 || len(a.Channels) != 2 || a.Channels[0].Poison != 1 {
		t.Errorf("of poison alone: %+v", a)
	}
}

func TestReceivedBeforeSentIsFound(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3, 4}, []uint64{1, 2, 3, 4})
	channels[1].Records[2].Time = simrun.Hz / 2 // tuple 3 is long there when it is sent
	a := analyze(t, write(t, channels...), Options{Edges: [][2]string{{"a/recv", "b/recv"}}})
	if l := a.Legs[0].All; l.After != 1 || l.Before != 3 || !mentions(a, "tuple 3 was at a/recv on A surely after it was at b/recv") || !a.Partial {
		t.Errorf("%+v, findings %v", l, a.Findings)
	}
}

// Of many that were received before they were sent the same are named, whoever finds them and in whatever order.
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
	for _, o := range []Options{{Workers: 1}, {Workers: 3}, {Durations: func(DurationRow) error { return nil }}, {Workers: 2, partitions: 1}} {
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

// Where nothing can lie between a tuple's first point and its last, the way is a leg already: its durations are told once, counted once against
// the truth and named once where they cannot be. What is slow is known all the same.
func TestAWholeWayOfOneLegIsToldOnce(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3, 4}, []uint64{1, 2, 3, 4, 5})
	channels[1].Records[2].Time = simrun.Hz / 2 // tuple 3 is long there when it is sent
	channels[1].Records[3].Time += 10_000_000   // and 4 is late
	rng := seed.Random(t)
	nodes, parent := simrun.Nodes(rng, 2), t.TempDir()
	if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "r")
	truth := func(_ string, _ uint64, _ string) (tscratio.Interval, bool) { return tscratio.At(7), true }
	edges := [][2]string{{"a/recv", "b/recv"}}
	rows := 0
	for name, o := range map[string]Options{
		"together": {}, "alone": {Durations: func(DurationRow) error { rows++; return nil }}, "no slowest": {Slowest: -1}, "two workers": {Workers: 2, partitions: 1},
	} {
		o.Edges, o.Truth = edges, truth
		a := analyze(t, dir, o)
		if len(a.Legs) != 1 || len(a.EndToEnd) != 0 || a.Legs[0].All.Count != 4 || a.Legs[0].Whole != 4 || a.Held.Count != 4 {
			t.Errorf("%s: legs %+v, end to end %+v, held %+v", name, a.Legs, a.EndToEnd, a.Held)
		}
		if want := max(4+4*o.Slowest, 0); len(a.Slowest) != want || want > 0 && a.Slowest[0].ID != 4 {
			t.Errorf("%s: slowest %+v", name, a.Slowest)
		}
		var before int
		for _, f := range a.Findings {
			if strings.Contains(f.Text, "surely") {
				before++
			}
		}
		if before != 2 { // the leg's, and the tuple's
			t.Errorf("%s: findings %v", name, a.Findings)
		}
	}
	if rows != 4 {
		t.Errorf("%d durations were told, want 4", rows)
	}
}

// A whole way on which a point can lie is told beside the leg past it, which has other tuples: those that did not pass the point.
func TestAWholeWayPastAPointIsNoLeg(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3, 4}, []uint64{2, 4})
	channels = append(channels, simrun.Channel{Node: 0, Name: "c/recv"})
	for id := range uint64(4) {
		channels[2].Records = append(channels[2].Records, simrun.Record{Time: 2*simrun.Hz + id, ID: id + 1})
	}
	a := analyze(t, write(t, channels...), Options{Edges: [][2]string{{"a/recv", "b/recv"}, {"b/recv", "c/recv"}}})
	counts := map[string]uint64{}
	for _, l := range append(a.Legs, a.EndToEnd...) {
		counts[l.From+" "+l.To+" "+l.Kind] = l.All.Count
		if l.Whole != 0 {
			t.Errorf("%d went their whole way from %s to %s, where %s is", l.Whole, l.From, l.To, "b/recv")
		}
	}
	want := map[string]uint64{"a/recv b/recv transfer": 2, "b/recv c/recv transfer": 2, "a/recv c/recv transfer": 2, "a/recv c/recv end-to-end": 4}
	if !maps.Equal(counts, want) {
		t.Errorf("legs %v, want %v", counts, want)
	}
}

// What is seen no more because a log is not there, cannot be used or was not chosen is not called lost without that being said.
func TestLostOrNotLookedAt(t *testing.T) {
	for name, test := range map[string]struct {
		do     func(logs string)
		filter Filter
		lost   uint64
		why    string
	}{
		"all":            {nil, Filter{}, 1, ""},
		"no log":         {func(logs string) { os.RemoveAll(logs + "/B") }, Filter{}, 3, "no log of node B is there"},
		"bad log":        {func(logs string) { spoil(t, logs+"/B/b#1*") }, Filter{}, 3, "not all logs of b/recv can be used"},
		"node":           {nil, Filter{Nodes: []string{"A"}}, 3, "not all channels of b/recv were chosen"},
		"channel":        {nil, Filter{Channels: []string{"a#0/*", "b#0/*"}}, 3, "not all channels of b/recv were chosen"},
		"channel before": {nil, Filter{Channels: []string{"a#0/*", "b*/*"}}, 1, ""},
	} {
		channels := channelsOf([]uint64{7, 1, 2, 3, 4, 5}, []uint64{2, 4}, []uint64{1, 3, 5}, []uint64{11, 12})
		for i, c := range []struct {
			node int
			name string
		}{{0, "a#0/recv"}, {1, "b#1/recv"}, {0, "b#0/recv"}, {1, "a#1/recv"}} {
			channels[i].Node, channels[i].Name = c.node, c.name
		}
		dir := write(t, channels...)
		if test.do != nil {
			test.do(filepath.Join(dir.Path, "logs"))
		}
		a := analyze(t, dir, Options{Edges: [][2]string{{"a/recv", "b/recv"}}, Filter: test.filter})
		if p := a.Points[0]; p.Name != "a/recv" || p.Lost != test.lost || p.Undecided != test.why || a.Points[1].Undecided != "" {
			t.Errorf("%s: %d lost at %s, undecided %q, at the end %q", name, p.Lost, p.Name, p.Undecided, a.Points[1].Undecided)
		}
	}
}

// spoil writes something else into a file.
func spoil(t *testing.T, pattern string) {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%q: %v, %v", pattern, found, err)
	}
	if err := os.WriteFile(found[0], []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDisorderAsRFC4737(t *testing.T) {
	other := uint64(7) << originShift // of another origin, whose own ids are in order; a copy is behind itself, and late only behind a greater one
	a := analyze(t, write(t, channelsOf([]uint64{1, 2, 3, 4, 5, 6}, []uint64{1, 1, 4, other, 2, 3, other + 1, 5, 5, 6})...), Options{})
	for _, p := range a.Points {
		want := map[string]uint64{"a/recv": 0, "b/recv": 2}[p.Name]
		if p.Disordered != want {
			t.Errorf("%d late at %s, want %d", p.Disordered, p.Name, want)
		}
	}
}

// Each writer's ids are in an order of their own, and of ids of very many origins it is said that nobody followed them.
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
		t.Errorf("%d late of two writers, %d of many origins", a.Points[0].Disordered, a.Points[1].Disordered)
	}
	if !mentions(a, "the ids at b/recv are of more than") || mentions(a, "the ids at a/recv are of more than") {
		t.Errorf("findings %v", a.Findings)
	}
}

func TestFilters(t *testing.T) {
	_, dir := smallRun(t)
	all := analyze(t, dir, Options{})
	first := all.Slowest[0].Passed[0]
	for name, test := range map[string]struct {
		filter Filter
		tuples uint64
		legs   int
	}{
		"ids":         {Filter{IDs: [][2]uint64{{1<<50 | 10, 1<<50 | 19}, {1<<50 | 30, 1<<50 | 30}}}, 11, 1},
		"node":        {Filter{Nodes: []string{"B"}}, 1000, 0},
		"channel":     {Filter{Channels: []string{"stage0/*"}}, 1000, 0},
		"both":        {Filter{Nodes: []string{"B"}, Channels: []string{"stage0/*"}}, 0, 0},
		"time":        {Filter{From_cycles: 1, To_cycles: 2}, 0, 0},
		"open time":   {Filter{To_cycles: ^uint64(0)}, 1000, 1},
		"one instant": {Filter{From_cycles: uint64(first.Reading), To_cycles: uint64(first.Reading)}, 1, 1},
	} {
		a := analyze(t, dir, Options{Filter: test.filter, Reference: first.Node})
		if a.Work.Tuples != test.tuples || len(a.Legs) != test.legs {
			t.Errorf("%s: %d tuples and %d legs, want %d and %d", name, a.Work.Tuples, len(a.Legs), test.tuples, test.legs)
		}
	}
	for name, o := range map[string]Options{
		"reference": {Reference: "nobody"}, "pattern": {Filter: Filter{Channels: []string{"["}}}, "ids": {Filter: Filter{IDs: [][2]uint64{{2, 1}}}},
		"edge": {Edges: [][2]string{{"a", "b"}}}, "circle": {Edges: [][2]string{{"stage0/recv", "stage1/recv"}, {"stage1/recv", "stage0/recv"}}}, "memory": {Memory_bytes: 1},
	} {
		if _, err := Run(context.Background(), dir, o); err == nil {
			t.Errorf("bad %s was taken", name)
		}
	}
}

// Twice the scratch file that a run needs is enough; less than it needs is an error that says so.
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
	_, err := Run(context.Background(), dir, Options{Memory_bytes: 1 << 20, Scratch: scratch, Scratch_bytes: 1 << 20})
	if !errors.Is(err, ErrScratch) || !strings.Contains(err.Error(), "1048576 bytes") {
		t.Error(err)
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	stopped := errors.New("stopped by a signal")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(stopped)
	// However many workers it ended, it is said once.
	if _, err := Run(cancelled, dir, Options{Workers: 2}); !errors.Is(err, stopped) || strings.Count(err.Error(), stopped.Error()) != 1 {
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
	}{{0, "s#0/send", 2, 8, 0}, {1, "s#1/send", 3, 9, 0}, {0, "t#0/recv", 4, 9, 9}, {1, "t#1/recv", 4, 9, 10}} {
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
		row := logstore.FirstLast{Count: 5, FirstCounter: at(c.first), FirstID: 1, LastCounter: at(c.last), LastID: 5, Poison: at(c.poison)}
		early := row // as long as the run lasts, what is known so far is kept
		early.Count, early.LastCounter, early.Poison = 1, row.FirstCounter, 0
		if err := errors.Join(l.Append(logstore.Block{FirstLasts: []logstore.FirstLast{early}}), l.Append(logstore.Block{FirstLasts: []logstore.FirstLast{row}}), l.Seal()); err != nil {
			t.Fatal(err)
		}
	}
	l, err := simrun.OpenLog(d, &nodes[1], "n/recv", "counter", 9)
	if err != nil {
		t.Fatal(err)
	}
	samples := []logstore.Sample{{Counter: nodes[1].Reading(2 * simrun.Hz), Count: 10}, {Counter: nodes[1].Reading(3 * simrun.Hz), Count: 110}, {Counter: nodes[1].Reading(5 * simrun.Hz), Count: 120}}
	if err := errors.Join(l.Append(logstore.Block{Samples: samples[:2]}), l.Append(logstore.Block{Samples: samples[2:]}), l.Seal()); err != nil {
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
	if a.Length == nil || !holds(a.Length.Interval, truth(2, 10)) || !a.Length.Poison || a.Length.Tuples != 10 || a.Length.To != "t#1/recv on B" {
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
		if off := int64(uint64(p.From_cycles) - nodes[0].Reading(uint64(2+i)*simrun.Hz)); max(off, -off) > 100_000 {
			t.Errorf("period %d begins %d cycles from where it does", i, off)
		}
	}
}

func TestASuspectRelationIsMarked(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Suspect(seed.Random(t), parent, "suspect"); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "suspect")
	a := analyze(t, dir, Options{})
	if a.Length == nil || a.Length.Verdict != "suspect" {
		t.Errorf("run length %+v", a.Length)
	}
	if a.Pairs[0].Verdict != "suspect" || a.Legs[0].All.Suspect != 100 || !a.Partial || !mentions(a, "is suspect") {
		t.Errorf("pair %+v, suspect %d, findings %v", a.Pairs[0], a.Legs[0].All.Suspect, a.Findings)
	}
	if a := analyze(t, dir, Options{Wander: 10 * tscratio.PPM}); a.Pairs[0].Verdict != "consistent" || a.Legs[0].All.Suspect != 0 || a.Partial {
		t.Errorf("with enough wander: pair %+v, suspect %d, findings %v", a.Pairs[0], a.Legs[0].All.Suspect, a.Findings)
	}
}

func TestPointsAreThoseOfChannels(t *testing.T) {
	for i, p := range []string{channel.PointRecv, channel.PointStart, channel.PointEnd, channel.PointSend} {
		if pointOrder[p] != i+1 {
			t.Errorf("point %q is number %d", p, pointOrder[p])
		}
	}
	if len(pointOrder) != 4 || poison != channel.Poison {
		t.Error("the analysis has points, or a poison, of its own")
	}
	for e, p := range []string{sent: returntrip.PointSent, arrived: returntrip.PointArrived, acknowledged: returntrip.PointAcknowledged, echoed: returntrip.PointEchoed} {
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
	if !bytes.Contains(text, []byte(`"reading":"`)) || !bytes.Contains(text, []byte(`"id":"1125899`)) {
		t.Error("readings and ids are not strings")
	}
	if !bytes.Contains(text, []byte(`"percent":99.999,`)) || !bytes.Contains(text, []byte(`"percent":1,`)) {
		t.Error("percentiles do not go from 1 to 99.999")
	}
}

// One node needs no relation.
func TestOneNode(t *testing.T) {
	rng := seed.Random(t)
	parent := t.TempDir()
	nodes := simrun.Nodes(rng, 1)
	channels := []simrun.Channel{{Name: "a/start"}, {Name: "a/end"}}
	for id := range uint64(100) {
		channels[0].Records = append(channels[0].Records, simrun.Record{Time: simrun.Hz + id*1000, ID: id})
		channels[1].Records = append(channels[1].Records, simrun.Record{Time: simrun.Hz + id*1000 + 500, ID: id})
	}
	if err := simrun.Write(rng, parent, "one", nodes, channels); err != nil {
		t.Fatal(err)
	}
	a := analyze(t, openRun(t, parent, "one"), Options{})
	if a.Partial || len(a.Legs) != 1 || a.Legs[0].All.Count != 100 || a.Legs[0].All.Scenarios["trivial"] != 100 {
		t.Errorf("partial %v, findings %v, missing %v, legs %+v", a.Partial, a.Findings, a.Missing, a.Legs)
	}
	if m := a.Legs[0].All.Max; m.Lo_cycles > 500 || m.Hi_cycles < 500 || m.Hi_cycles-m.Lo_cycles > 4 {
		t.Errorf("500 cycles are %v", m)
	}
}

// Tuples are chosen by UTC through the reference's own stamp of it, outward.
func TestFilterByUTC(t *testing.T) {
	_, dir := smallRun(t)
	const s = 1_000_000_000 // the simulation's counters begin at the year 1970; its tuples at 2 s
	for name, test := range map[string]struct{ from, to, least, most int64 }{
		"all": {0, 100 * s, 1000, 1000}, "none": {50 * s, 100 * s, 0, 0}, "the first half": {0, 2*s + s/20, 400, 600},
	} {
		a := analyze(t, dir, Options{Filter: Filter{From_utc_ns: test.from, To_utc_ns: test.to}})
		if n := int64(a.Work.Tuples); n < test.least || n > test.most {
			t.Errorf("%s: %d tuples", name, n)
		}
		// The reference's stamp is read also where nothing of that node is chosen.
		other := analyze(t, dir, Options{Reference: "A", Filter: Filter{Nodes: []string{"B"}, From_utc_ns: test.from, To_utc_ns: test.to}})
		if n := int64(other.Work.Tuples); n < test.least || n > test.most {
			t.Errorf("%s, of the other node: %d tuples", name, n)
		}
	}
}

// A time of UTC becomes the widest stretch of cycles that it may be: by the ends of the stamp, of the frequency and of what a reading may be off.
func TestUTCIsWidenedOutward(t *testing.T) {
	const counter = 1_000_000
	for name, test := range map[string]struct {
		from_ns, to_ns int64
		lo, hi         int64 // from the counter
	}{
		"after the stamp": {1000, 3000, 1000 - 200, 2 * (3000 - 100)}, "around it": {0, 300, -2 * 200, 2 * (300 - 100)}, "before it": {0, 50, -2 * 200, -(100 - 50)},
	} {
		for _, stamp := range []channel.Stamp{channel.Ordered, channel.Unordered} {
			in := &input{
				nodes:   []nodeInput{{Node: runs.Node{FrequencyLo_hz: 1e9, FrequencyHi_hz: 2e9}, described: tscratio.Node{QuantumCycles: 26, CoreSlackCycles: 4}}},
				sources: []source{{header: logstore.Header{Counter: counter, UTCLo_ns: 100, UTCHi_ns: 200, Stamp: stamp}}},
				options: Options{Filter: Filter{From_utc_ns: test.from_ns, To_utc_ns: test.to_ns}},
			}
			if err := in.resolveFilter(); err != nil {
				t.Fatal(err)
			}
			f, e := in.options.Filter, 26+4+int64(stamp.OrderingSlack_cycles())
			if lo, hi := int64(f.From_cycles)-counter, int64(f.To_cycles)-counter; lo != test.lo-e || hi != test.hi+e {
				t.Errorf("%s: from %d to %d cycles after the stamp, want %d to %d", name, lo, hi, test.lo-e, test.hi+e)
			}
		}
	}
}
