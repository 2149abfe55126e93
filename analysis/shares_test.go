package analysis

import (
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// triedCounts counts what was compared with the truth.
type triedCounts struct {
	complete int // spans of which the answer has all tuples
	shares   int
	wide     int // shares that include time that the logs do not show
	sampled  int // shares of tuples that were chosen by their ids
	surely   int
}

func (n *triedCounts) enough() bool {
	share := seed.Share()
	return n.complete >= 50/share && n.shares >= 100/share && n.wide >= 10/share &&
		n.sampled >= 10/share && n.surely >= 20/share
}

// completeSpans compares some spans with the truth: those of which an answer has all tuples.
func (w *oracleAnswer) completeSpans(t *testing.T, a *Answer, told *triedCounts) {
	t.Helper()
	for _, spans := range [][]Span{a.Spans, a.EndToEnd} {
		for i := range spans {
			l := &spans[i]
			if l.Completeness.Lacks() || l.All.Withheld+l.All.Unplaced > 0 || l.Origin != "" {
				continue
			}
			k := oracleSpan{from: l.From, to: l.To}
			switch l.Kind {
			case "waiting":
				k.origin = "waiting"
			case "end-to-end":
				k.origin = "whole"
			}
			if w.withheld[k] > 0 {
				continue // the truth is not known
			}
			var all []int64
			for _, ds := range w.spans[k] {
				for _, d := range ds {
					all = append(all, d.Lo)
				}
			}
			slices.Sort(all)
			// If the bounds do not tell which branch came last, the answer does not say that a
			// tuple waited for one of them. So where branches meet, it may show fewer waiting
			// tuples than there truly were.
			joins := slices.ContainsFunc(a.Spans, func(o Span) bool {
				return o.Kind == "waiting" && o.To == l.To
			})
			n := int(l.All.Count)
			off := max(n-len(all), len(all)-n)
			if off > 0 && (!joins || (n > len(all)) == (l.Kind == "waiting")) {
				t.Errorf("%d tuples from %s to %s (%s), said to be all, the truth is %d", n, l.From,
					l.To, l.Kind, len(all))
			}
			if off > 0 || n == 0 {
				continue
			}
			told.complete++
			for _, p := range l.All.Percentiles {
				v := all[rankBig(uint64(p.Percent*1000+0.5), n)]
				if v < p.Lo_cycles-30 || v > p.Hi_cycles+30 {
					t.Errorf("p%v from %s to %s is %v, the truth is %d", p.Percent, l.From, l.To,
						p.Interval, v)
				}
			}
		}
	}
}

// truePath compares what an answer says of a path with the truth: the shares of the spans, and
// which spans it calls surely slow.
func (w *oracleAnswer) truePath(t *testing.T, a *Answer, p *Path, told *triedCounts) {
	t.Helper()
	float := func(n *big.Int) float64 { f, _ := n.Float64(); return f }
	total, n := 0.0, uint64(0)
	for _, to := range p.To {
		if c := w.critical[[2]string{to}]; c != nil {
			total, n = total+float(&c.lo), n+c.n
		}
	}
	size := func(r RankedSpan) float64 {
		l := &a.Spans[r.Span]
		if r.Share == nil {
			p50, _ := l.All.Percentiles.At(50)
			return float64(p50.Lo_cycles)
		}
		share := 0.0
		if c := w.critical[[2]string{l.From, l.To}]; c != nil {
			share = float(&c.lo) / total
		}
		told.shares++
		told.wide += number(r.Share.Hi-r.Share.Lo > 0.1)
		told.sampled += number(p.SampledBy != "")
		if share < r.Share.Lo-1e-6 || share > r.Share.Hi+1e-6 {
			t.Errorf("the share of %s, %s is %v, the truth is %g", l.From, l.To, *r.Share, share)
		}
		return share
	}
	withheld := slices.ContainsFunc(slices.Concat(a.Spans, a.EndToEnd), func(l Span) bool {
		return l.All.Withheld > 0
	})
	if len(p.Spans) > 0 && p.Spans[0].Share != nil && (p.Whole > n || p.Whole < n && !withheld) {
		t.Errorf("shares of %d tuples from %v, the truth is %d", p.Whole, p.From, n)
	}
	for i, r := range p.Spans {
		slow := size(r)
		for _, after := range p.Spans[i+1:] {
			if told.surely += number(r.Surely); r.Surely && size(after) >= slow {
				l := &a.Spans[r.Span]
				t.Errorf("%s, %s is not surely slower than the next", l.From, l.To)
			}
		}
		if r.Surely && p.Completeness.Lacks() {
			t.Errorf("span %d of a path that lacks tuples is surely slow: %+v", i, p)
		}
	}
}

// Shares are withheld if the logs lack events that may decide which tuples have a whole path, or
// which of several events belongs to a tuple.
func TestSharesWithheld(t *testing.T) {
	// Every tuple goes from a to z. The log of one point may lack the events of the first 50
	// tuples. The log of x has only one event, that of a tuple that was seen nowhere else.
	for name, test := range map[string]struct {
		passed [4][]string // by the tuple's number mod 4: the points that it passes, in order
		lack   string      // the point whose log lacks events
		edges  [][2]string
		why    string
	}{
		"all are there": {
			[4][]string{{"a", "b", "b", "z"}, {"a", "z"}, {"a", "z"}, {"a", "z"}}, "",
			[][2]string{{"a", "b"}, {"b", "z"}}, "",
		},
		"the first of several events": {
			[4][]string{{"a", "b", "b", "z"}, {"a", "z"}, {"a", "z"}, {"a", "z"}}, "b",
			[][2]string{{"a", "b"}, {"b", "z"}}, "several events at b/recv",
		},
		"a branch without an end": {
			[4][]string{{"a", "b", "y", "z"}, {"a", "b", "z"}, {"a", "z"}, {"a", "z"}}, "b",
			[][2]string{{"a", "b"}, {"b", "y"}, {"a", "z"}}, "gone on from b/recv unseen",
		},
		"an end that the logs have of no tuple": {
			[4][]string{{"a", "b"}, {"a", "b"}, {"a", "z"}, {"a", "z"}}, "x",
			[][2]string{{"a", "b"}, {"b", "x"}, {"a", "z"}}, "x/recv dropped events",
		},
	} {
		records := map[string][]simrun.Record{"x": {{Time: simrun.Hz, ID: 9999}}}
		for id := range uint64(200) {
			at := uint64(simrun.Hz) + id*simrun.Hz/1000
			for i, p := range test.passed[id%4] {
				records[p] = append(records[p], simrun.Record{
					Time: at + uint64(i)*simrun.Hz/10_000, ID: id,
				})
			}
		}
		var channels []simrun.Channel
		for _, p := range slices.Sorted(maps.Keys(records)) {
			c := simrun.Channel{Name: p + "/recv", Records: records[p]}
			if p == "z" {
				c.Node = 1
			}
			if p == test.lack {
				c.Dropped = 50
				c.Records = slices.DeleteFunc(c.Records, func(r simrun.Record) bool {
					return r.ID < 50
				})
			}
			channels = append(channels, c)
		}
		o := Options{OnlyEdges: true}
		for _, e := range test.edges {
			o.Edges = append(o.Edges, [2]string{e[0] + "/recv", e[1] + "/recv"})
		}
		p := analyze(t, write(t, channels...), o).Paths[0]
		if (p.NoShares == "") != (test.why == "") || !strings.Contains(p.NoShares, test.why) {
			t.Errorf("%s: shares are withheld: %q, want %q", name, p.NoShares, test.why)
		}
		if surely := slices.ContainsFunc(p.Spans, func(r RankedSpan) bool {
			return r.Surely
		}); surely != (test.lack == "") {
			t.Errorf("%s: a span is surely slow: %v", name, surely)
		}
	}
}

// If a log may lack the first event of one of two tuples with the same id, the two look like one.
// Then no later span has all tuples.
func TestTwoTuplesThatLookLikeOne(t *testing.T) {
	channels := []simrun.Channel{{Name: "a/send"}, {Name: "b/recv"}, {Name: "c/recv", Node: 1}}
	for i := range channels {
		for id := range uint64(200) {
			at := uint64(simrun.Hz) + id*simrun.Hz/1000
			channels[i].Records = append(channels[i].Records, simrun.Record{
				Time: at + uint64(i)*simrun.Hz/10_000, ID: id % 100,
			})
		}
	}
	channels[0].Records, channels[0].Dropped = channels[0].Records[:150], 50
	for _, l := range analyze(t, write(t, channels...), Options{}).Spans {
		if !l.Completeness.Lacks() {
			t.Errorf("the span from %s to %s has %d tuples, said to be all", l.From, l.To,
				l.All.Count)
		}
	}
}

// A node without logs may have sent a branch to a point where ids have several events. The same
// durations are then withheld, whether tuples are measured together or one by one.
func TestWithheldAlike(t *testing.T) {
	channels := []simrun.Channel{everyTen(0, "a/send", 200, 0),
		everyTen(1, "b/recv", 200, simrun.Hz/1000)}
	for i, r := range channels[1].Records {
		if r.Time += simrun.Hz / 1000; i < 40 {
			channels[1].Records = append(channels[1].Records, r)
		}
	}
	simrun.InOrder(channels[1].Records)
	parent, rng := t.TempDir(), seed.Random(t)
	if err := simrun.Write(rng, parent, "job", simrun.Nodes(rng, 3), channels); err != nil {
		t.Fatal(err)
	}
	dir, told := openRun(t, parent, "job"), uint64(0)
	together := analyze(t, dir, Options{}).Spans[0].All
	analyze(t, dir, Options{Durations: func(DurationRow) error { told++; return nil }})
	if together.Count != told || together.Withheld != 200 {
		t.Errorf("%d durations together, %d one by one, %d withheld; want none, and 200 withheld",
			together.Count, told, together.Withheld)
	}
}

// The copies of a tuple arrive one after another at the point where branches meet. If one copy
// arrived before the tuple's id began again, another copy may still have been on its way. The
// answer says that it withholds the duration of that copy.
func TestCopiesOfATupleWhoseIDBeganAgain(t *testing.T) {
	const step = simrun.Hz / 10_000
	names := []string{"a/send", "b/recv", "b/send", "c/recv", "join/recv", "join/start"}
	channels := make([]simrun.Channel, len(names))
	for i, name := range names {
		channels[i] = simrun.Channel{Name: name, Node: number(i > 0)}
	}
	for id := range uint64(100) {
		log := func(point int, steps uint64) {
			channels[point].Records = append(channels[point].Records,
				simrun.Record{Time: simrun.Hz + (id*100+steps)*step, ID: id})
		}
		log(0, 0)
		log(3, 1)
		log(4, 2) // the copy by way of c
		log(1, 3)
		if id == 50 {
			log(0, 4) // the id begins again; this tuple is lost
		}
		log(2, 5)
		log(4, 6) // the copy by way of b
		log(5, 7)
	}
	var edges [][2]string
	for _, e := range [][2]int{{0, 1}, {1, 2}, {2, 4}, {0, 3}, {3, 4}, {4, 5}} {
		edges = append(edges, [2]string{names[e[0]], names[e[1]]})
	}
	a := analyze(t, write(t, channels...), Options{Edges: edges, OnlyEdges: true})
	i := slices.IndexFunc(a.Spans, func(l Span) bool { return l.From == "b/recv" })
	if l := &a.Spans[i]; l.To != "b/send" || l.All.Count != 99 || l.All.Withheld != 1 {
		t.Errorf("%d durations from b/recv to %s, %d withheld; want 99 and 1", l.All.Count, l.To,
			l.All.Withheld)
	}
}
