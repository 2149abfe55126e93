package analysis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// everyTen makes a channel that logs the ids 1, 2, 3 and so on, one every 10 ms. Each event is
// delayed by some cycles.
func everyTen(node int, name string, n int, delay uint64) simrun.Channel {
	c := simrun.Channel{Node: node, Name: name}
	for i := range uint64(n) {
		c.Records = append(c.Records, simrun.Record{
			Time: simrun.Hz + i*simrun.Hz/100 + delay, ID: i + 1,
		})
	}
	return c
}

// hasFinding reports whether an answer has a finding of a kind that contains a text.
func hasFinding(a *Answer, kind FindingKind, text string) bool {
	for _, f := range a.Findings {
		if f.Kind == kind && strings.Contains(f.Text, text) {
			return true
		}
	}
	return false
}

// If the bounds are wider than the time between two points, their order is open: a finding says so,
// and nothing that rests on it is sure.
func TestOrderThatBoundsLeaveOpen(t *testing.T) {
	channels := []simrun.Channel{
		everyTen(0, "source/send", 20, 0), everyTen(0, "x/recv", 20, 10_000_000),
		everyTen(1, "y/recv", 20, 10_000_100), everyTen(0, "sink/recv", 20, 20_000_000),
	}
	for _, chosen := range [][]simrun.Channel{channels, channels[1:3]} {
		dir := write(t, chosen...)
		a := analyze(t, dir, Options{})
		if !hasFinding(a, FindUndecided,
			"/recv is undecided, because the bounds are wider than the "+
				"time between them") {
			t.Errorf("%d channels: findings %v", len(chosen), a.Findings)
		}
		for _, p := range a.Paths {
			for _, s := range p.Spans {
				if s.Surely && len(chosen) > 2 {
					t.Errorf("%s, %s is surely slow", a.Spans[s.Span].From, a.Spans[s.Span].To)
				}
			}
		}
		analyze(t, dir, Options{Durations: func(r DurationRow) error {
			if r.Critical == SurelyCritical && r.Kind != "end-to-end" {
				t.Errorf("%s, %s is surely critical", r.From, r.To)
			}
			return nil
		}})
		a = analyze(t, dir, Options{Edges: [][2]string{{"x/recv", "y/recv"}}})
		if a.Partial {
			t.Errorf("declared: findings %v", a.Findings)
		}
	}
}

// If the bounds prove the order of two points for only one tuple of 20,000, that tuple does not
// decide the order of the points.
func TestOneSurePairDecidesNothing(t *testing.T) {
	const tuples = 20_000
	for _, early := range []uint64{0, 40_000} {
		x, y := everyTen(0, "x/recv", tuples, 10_000_000), everyTen(1, "y/recv", tuples, 10_000_100)
		y.Records[tuples/2].Time -= early // surely before the tuple was at x/recv
		a := analyze(t, write(t, everyTen(0, "source/send", tuples, 0), x, y), Options{})
		if !hasFinding(a, FindUndecided,
			"/recv is undecided, because the bounds are wider than the "+
				"time between them") {
			t.Errorf("%d cycles early: findings %v", early, a.Findings)
		}
	}
}

// A finding says that a declared edge changes nothing, or how many tuples contradict it.
func TestFindingsAboutDeclaredEdges(t *testing.T) {
	late := everyTen(1, "b/recv", 20, 10_000_000)
	late.Records[4].Time = simrun.Hz / 2
	for name, test := range map[string]struct {
		channels []simrun.Channel
		edge     [2]string
		kind     FindingKind
		say, not string
	}{
		"needless": {
			[]simrun.Channel{everyTen(0, "a/recv", 20, 0), everyTen(1, "b/recv", 20, 10_000_000)},
			[2]string{"a/recv", "b/recv"}, FindNote,
			"the declared edge from a/recv to b/recv adds nothing: the data show it", "",
		},
		"wrong": {
			[]simrun.Channel{everyTen(0, "a/recv", 20, 0), everyTen(1, "b/recv", 20, 10_000_000)},
			[2]string{"b/recv", "a/recv"}, FindImpossible,
			"the declared edge from b/recv to a/recv contradicts the data, and is not used: 20 " +
				"of 20 tuples were surely at a/recv before they were at b/recv", "is not unique",
		},
		"right, but for one": {
			[]simrun.Channel{everyTen(0, "a/recv", 20, 0), late},
			[2]string{"a/recv", "b/recv"}, FindImpossible,
			"1 of 20 tuples were surely at b/recv before they were at a/recv", "",
		},
	} {
		a := analyze(t, write(t, test.channels...), Options{Edges: [][2]string{test.edge}})
		if !hasFinding(a, test.kind, test.say) || test.not != "" && mentions(a, test.not) {
			t.Errorf("%s: findings %v", name, a.Findings)
		}
	}
}

// A declared edge that contradicts the data does no harm: apart from the finding about the edge,
// the answer is the same as without the edge. If two edges contradict the data only together, the
// first is used.
func TestEdgesAgainstTheData(t *testing.T) {
	const ms = simrun.Hz / 1000
	dir := write(t, everyTen(0, "source/send", 20, 0), everyTen(1, "work/recv", 20, ms),
		everyTen(1, "work/send", 20, 2*ms), everyTen(0, "sink/recv", 20, 3*ms))
	want := analyze(t, dir, Options{})
	against := [][2]string{{"sink/recv", "source/send"}, {"work/send", "work/recv"}}
	got := analyze(t, dir, Options{Edges: against})
	for _, e := range against {
		if !hasFinding(got, FindImpossible, "the declared edge from "+e[0]+" to "+e[1]+
			" contradicts the data, and is not used: 20 of 20 tuples were surely at "+e[1]) {
			t.Errorf("findings %v", got.Findings)
		}
	}
	if len(got.Findings) != len(want.Findings)+2 {
		t.Errorf("findings %v, without the edges %v", got.Findings, want.Findings)
	}
	for _, a := range []*Answer{got, want} {
		a.Findings, a.Partial, a.Work = nil, false, Work{}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("an edge against the data changed the answer: %s", diff)
	}

	// No tuple passes both a and b. The data show that c precedes b, and that a precedes d.
	apart := []simrun.Channel{everyTen(0, "c/recv", 20, 0), everyTen(1, "b/recv", 20, ms),
		everyTen(0, "a/recv", 20, 0), everyTen(1, "d/recv", 20, ms)}
	for i := range apart[2:] {
		for k := range apart[2+i].Records {
			apart[2+i].Records[k].ID += 100
		}
	}
	got = analyze(t, write(t, apart...), Options{Edges: [][2]string{
		{"b/recv", "a/recv"}, {"d/recv", "c/recv"},
	}})
	if !hasFinding(got, FindImpossible,
		"the declared edge from d/recv to c/recv contradicts the data, "+
			"and is not used: tuples or other edges put them in the opposite order") ||
		mentions(got, "from b/recv to a/recv contradicts") || mentions(got, "circle") {
		t.Errorf("findings %v", got.Findings)
	}
}

// If groups of points share no id, a finding says so, and also says what can be answered.
func TestGroupsThatShareNoID(t *testing.T) {
	other := []simrun.Channel{everyTen(1, "b/recv", 20, 1000), everyTen(1, "b/send", 20, 2000)}
	for i := range other {
		for k := range other[i].Records {
			other[i].Records[k].ID += 1000
		}
	}
	channels := append(other, everyTen(0, "a/recv", 20, 0), everyTen(0, "a/send", 20, 500))
	a := analyze(t, write(t, channels...), Options{})
	if !hasFinding(a, FindUndecided,
		"no id at a/recv is at b/recv: the points are in 2 groups that "+
			"share no id; times within a group are answered") &&
		!hasFinding(a, FindUndecided, "no id at b/recv is at a/recv") || len(a.Spans) != 2 {
		t.Errorf("findings %v, spans %v", a.Findings, a.Spans)
	}
}

// Durations within a node are answered even if the nodes are not related. On nodes other than the
// reference they are estimates, which rest on the measured frequencies.
func TestDurationsWithinNodesWithoutRelations(t *testing.T) {
	const took = 12_345_678
	dir := write(t, everyTen(0, "a/recv", 20, 0), everyTen(0, "a/send", 20, took),
		everyTen(1, "b/recv", 20, 2*took), everyTen(1, "b/send", 20, 3*took))
	if err := os.Truncate(filepath.Join(dir.Path, "relations", "A--B.rel"), 100); err != nil {
		t.Fatal(err)
	}
	dir = openRun(t, filepath.Dir(dir.Path), filepath.Base(dir.Path))
	for _, reference := range []string{"A", "B"} {
		a := analyze(t, dir, Options{Reference: reference})
		within := 0
		for _, l := range a.Spans {
			d := l.Local
			if d == nil {
				continue
			}
			within++
			if own := l.Pairs[0].From == reference; d.Count != 20 || d.Unplaced != 0 ||
				(d.Suspect == 0) != own || d.Min.Lo_cycles > took+took/1000 ||
				d.Max.Hi_cycles < took-took/1000 ||
				d.Max.Hi_cycles-d.Min.Lo_cycles > took/200 {
				t.Errorf("in cycles of %s, %s to %s: %+v", reference, l.From, l.To, d)
			}
		}
		other := map[string]string{"A": "B", "B": "A"}[reference]
		if within != 2 || !hasFinding(a, FindSuspect, other+" and "+reference+" are not related") ||
			mentions(a, "tuples pass b/recv and b/send, whose") ||
			!hasFinding(a, FindUndecided, "tuples pass 4 pairs of points") {
			t.Errorf("in cycles of %s: %d spans within nodes, findings %v", reference, within,
				a.Findings)
		}
	}
}

// Tuples of windows that are still open are called unfinished. They are not called lost, and no
// finding complains that their ids occur at only one point.
func TestWindowsThatNeverClose(t *testing.T) {
	const ms = simrun.Hz / 1000
	for name, test := range map[string]struct {
		opens, closes func(window uint64) bool // whether its start, its end is logged
		kind          FindingKind
		say           string
	}{
		"none": {
			func(uint64) bool { return true }, func(uint64) bool { return false }, FindUndecided,
			"the 20 tuples at window/start were made of others, and are unfinished: no later",
		},
		"one does not": {
			func(uint64) bool { return true }, func(w uint64) bool { return w != 7 }, FindNote,
			"1 tuples in flight at window/start were made of others, and are unfinished: no event",
		},
		"none, and none is seen": {
			func(uint64) bool { return false }, func(uint64) bool { return false }, FindUndecided,
			"20 tuples that links say were made of others are unfinished: no event of theirs",
		},
		"one is not seen": {
			func(w uint64) bool { return w != 7 }, func(w uint64) bool { return w != 7 }, FindNote,
			"1 tuples that links say were made of others are unfinished: no event of theirs",
		},
	} {
		source, into := everyTen(0, "source/send", 200, 0), everyTen(1, "window/recv", 200, ms)
		start, end := everyTen(1, "window/start", 0, 0), everyTen(1, "window/end", 0, 0)
		link := simrun.Channel{Node: 1, Name: "window/link", Handler: "link"}
		for i, r := range into.Records {
			w := uint64(i) / 10
			child := 1<<40 + w
			link.Records = append(link.Records, simrun.Record{ID: r.ID, Child: child, IsLink: true})
			if i%10 == 0 && test.opens(w) {
				start.Records = append(start.Records, simrun.Record{Time: r.Time + ms, ID: child})
			}
			if i%10 == 9 && test.closes(w) {
				end.Records = append(end.Records, simrun.Record{Time: r.Time + ms, ID: child})
			}
		}
		a := analyze(t, write(t, source, into, link, start, end), Options{})
		if !hasFinding(a, test.kind, test.say) || mentions(a, "match those of no other point") ||
			a.Partial != (test.kind != FindNote) {
			t.Errorf("%s: findings %v, missing %v", name, a.Findings, a.Missing)
		}
		for _, p := range a.Points {
			if p.Lost > 0 {
				t.Errorf("%s: %d are lost at %s", name, p.Lost, p.Name)
			}
		}
	}
}

// If all withheld durations are withheld for the same reason, a finding names it.
func TestWhyDurationsAreWithheld(t *testing.T) {
	const ms = simrun.Hz / 1000
	again := func() []simrun.Channel { // tuples begin again before they arrive
		c := []simrun.Channel{everyTen(0, "a/send", 20, 0), everyTen(1, "b/recv", 20, 4*ms)}
		c[1].Records = append(c[1].Records, c[1].Records[3])
		c[0].Records = append(c[0].Records, simrun.Record{Time: simrun.Hz + 31*ms, ID: 4},
			simrun.Record{Time: simrun.Hz + 33*ms, ID: 4})
		simrun.InOrder(c[0].Records)
		simrun.InOrder(c[1].Records)
		return c
	}
	joined := func() []simrun.Channel { // one branch of one tuple is lost before a join
		c := []simrun.Channel{everyTen(0, "a/send", 20, 0), everyTen(0, "b/recv", 20, 2*ms),
			everyTen(1, "c/recv", 20, 3*ms), everyTen(1, "d/recv", 20, 4*ms)}
		for i, r := range c[3].Records {
			c[1].Records[i].Time += uint64(i%2) * 2 * ms // either branch may be the last
			if c[3].Records[i].Time += 2 * ms; i != 5 {
				c[3].Records = append(c[3].Records, simrun.Record{Time: r.Time + ms, ID: r.ID})
			}
		}
		simrun.InOrder(c[3].Records)
		return c
	}
	for name, test := range map[string]struct {
		channels []simrun.Channel
		why, not withheldWhy
	}{
		"began again":      {again(), beganAgain, fitsNoBranches},
		"a branch is lost": {joined(), fitsNoBranches, beganAgain},
	} {
		a := analyze(t, write(t, test.channels...), Options{})
		if !mentions(a, "withheld: "+withheldWords[test.why]) ||
			mentions(a, withheldWords[test.not]) {
			t.Errorf("%s: findings %v", name, a.Findings)
		}
	}
}
