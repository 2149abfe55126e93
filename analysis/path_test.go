package analysis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// Points that no tuple passes together are on different paths, even if edges between them are
// declared. If the tuples of a path were made of other tuples, the path names the path of those
// other tuples.
func TestRoutesApart(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3}, []uint64{7, 8})
	links := simrun.Channel{Node: 0, Name: "w/link", Handler: "link"}
	links.Records = append(links.Records, simrun.Record{ID: 1, Child: 2, IsLink: true})
	a := analyze(t, write(t, append(channels, links)...), Options{
		Edges: [][2]string{{"a/recv", "b/recv"}},
	})
	want := []Path{
		{From: []string{"a/recv"}, To: []string{"a/recv"}, Tuples: 3, Spans: []RankedSpan{},
			Completeness: Completeness{Kept: All}},
		{From: []string{"b/recv"}, To: []string{"b/recv"}, Tuples: 2, Spans: []RankedSpan{},
			Completeness: Completeness{Kept: All}},
	}
	if diff := cmp.Diff(want, a.Paths); diff != "" {
		t.Error(diff)
	}

	channels = channelsOf([]uint64{1, 2, 3}, []uint64{1, 2, 3})
	a = analyze(t, write(t, append(channels, links)...), Options{
		Edges: [][2]string{{"a/recv", "b/recv"}},
	})
	want = []Path{
		{
			From: []string{"a/recv"}, To: []string{"b/recv"}, Tuples: 3, Whole: 3,
			Completeness: Completeness{Kept: All},
			Spans:        []RankedSpan{{Span: 0, Share: &Share{1, 1}, Surely: true}},
		},
	}
	if len(a.EndToEnd) == 0 {
		t.Error("no tuple was made of another")
	}
	if diff := cmp.Diff(want, a.Paths); diff != "" {
		t.Error(diff)
	}
}

func TestWhichSpanIsSurelySlower(t *testing.T) {
	span := func(lo, hi int64) Span {
		return Span{All: Durations{Count: 10, Percentiles: Percentiles{{50, Interval{lo, hi}}}}}
	}
	of := func(l Span, change func(*Durations)) Span {
		change(&l.All)
		return l
	}
	estimate := func(d *Durations) { d.Suspect = 1 }
	for name, test := range map[string]struct {
		spans []Span
		want  []RankedSpan
	}{
		"apart": {[]Span{span(10, 19), span(40, 49), span(20, 39)}, []RankedSpan{
			{Span: 1, Surely: true}, {Span: 2, Surely: true}, {Span: 0, Surely: true},
		}},
		"ends touch": {[]Span{span(10, 20), span(20, 29)}, []RankedSpan{
			{Span: 1, Surely: false}, {Span: 0, Surely: true},
		}},
		"a wide one comes later": {[]Span{span(0, 35), span(10, 15), span(30, 39)}, []RankedSpan{
			{Span: 2, Surely: false}, {Span: 1, Surely: false}, {Span: 0, Surely: true},
		}},
		"an estimate comes later": {[]Span{span(30, 39), of(span(20, 29), estimate), span(10, 19)},
			[]RankedSpan{{Span: 0}, {Span: 1}, {Span: 2, Surely: true}}},
		"one has no durations": {[]Span{of(span(0, 0), func(d *Durations) {
			*d = Durations{}
		}), span(10, 19)}, []RankedSpan{{Span: 1, Surely: true}}},
		"some durations could not be computed": {[]Span{span(20, 29),
			of(span(10, 19), func(d *Durations) {
				d.Unplaced = 1
			})}, []RankedSpan{{Span: 0, Surely: false}, {Span: 1, Surely: false}}},
		"none of one could": {[]Span{span(20, 29),
			of(span(0, 0), func(d *Durations) {
				*d = Durations{Unplaced: 1}
			})}, []RankedSpan{{Span: 0, Surely: false}}},
		"equally slow, as they came": {[]Span{span(20, 29), span(20, 24)}, []RankedSpan{
			{Span: 0, Surely: false}, {Span: 1, Surely: true},
		}},
		"nothing": {nil, []RankedSpan{}},
	} {
		all := func(*Span) bool { return true }
		got := rankSpans(test.spans, noShares(test.spans), true, all)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		// With shares in place of the medians, the order is the same.
		shares := noShares(test.spans)
		for i := range test.spans {
			if m, ok := test.spans[i].All.Percentiles.At(50); ok {
				shares[i] = &Share{float64(m.Lo_cycles) / 100, float64(m.Hi_cycles) / 100}
				test.spans[i].All.Percentiles = nil
			}
		}
		for i := range test.want {
			test.want[i].Share = shares[test.want[i].Span]
		}
		if diff := cmp.Diff(test.want, rankSpans(test.spans, shares, true, all)); diff != "" {
			t.Errorf("by shares, %s: %s", name, diff)
		}
	}
	// No order is proven if logs lack tuples. If durations are withheld, an order that medians give
	// is not proven either.
	apart := []Span{span(20, 29), span(10, 19)}
	unproven := []RankedSpan{{Span: 0}, {Span: 1}}
	all := func(*Span) bool { return true }
	if diff := cmp.Diff(unproven, rankSpans(apart, noShares(apart), false, all)); diff != "" {
		t.Errorf("logs lack tuples: %s", diff)
	}
	apart[1].All.Withheld = 1
	if diff := cmp.Diff(unproven, rankSpans(apart, noShares(apart), true, all)); diff != "" {
		t.Errorf("a duration is withheld: %s", diff)
	}
	spans := []Span{
		span(10, 19), span(20, 29), of(span(30, 39), func(d *Durations) { d.Unplaced = 1 }),
	}
	want := []RankedSpan{{Span: 1, Surely: true}, {Span: 0, Surely: true}}
	if diff := cmp.Diff(want, rankSpans(spans, noShares(spans), true, func(l *Span) bool {
		return l != &spans[2]
	})); diff != "" {
		t.Errorf("with a span of another path: %s", diff)
	}
}

// If a tuple was surely received before it was sent, an assumption behind the bounds is broken. So
// no span of the tuple's path is called surely slow, and the path says why. Other paths keep their
// order.
func TestNothingIsSureOfWhatWasReceivedBeforeItWasSent(t *testing.T) {
	const ms = simrun.Hz / 1000
	late := everyTen(1, "b/recv", 200, ms)
	late.Records[70].Time -= 2 * ms
	simrun.InOrder(late.Records)
	channels := []simrun.Channel{everyTen(0, "a/send", 200, 0), late,
		everyTen(1, "b/send", 200, 5*ms)}
	for i, c := range channels[:3] {
		other := simrun.Channel{Node: c.Node, Name: "other-" + c.Name}
		for k, r := range everyTen(c.Node, "", 200, uint64(i*i)*ms).Records {
			other.Records = append(other.Records, simrun.Record{Time: r.Time, ID: 1000 + uint64(k)})
		}
		channels = append(channels, other)
	}
	a := analyze(t, write(t, channels...), Options{})
	if len(a.Paths) != 2 {
		t.Fatalf("%d paths, want 2", len(a.Paths))
	}
	for _, p := range a.Paths {
		broken := p.From[0] == "a/send"
		if len(p.Spans) != 2 || p.Spans[0].Surely == broken || p.Spans[1].Surely == broken {
			t.Errorf("from %v: spans %+v", p.From, p.Spans)
		}
		if want := "1 surely end before they begin"; strings.Contains(p.Unsure(), want) != broken {
			t.Errorf("from %v: %q", p.From, p.Unsure())
		}
	}
}

func noShares(spans []Span) []*Share { return make([]*Share, len(spans)) }
