package analysis

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// Points that no tuple passes together are on different paths, even if edges between them are
// declared. What was made of tuples on one path was not made of another's.
func TestRoutesApart(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3}, []uint64{7, 8})
	links := simrun.Channel{Node: 0, Name: "w/link", Handler: "link"}
	links.Records = append(links.Records, simrun.Record{ID: 1, Child: 2, IsLink: true})
	a := analyze(t, write(t, append(channels, links)...), Options{
		Edges: [][2]string{{"a/recv", "b/recv"}},
	})
	want := []Path{
		{From: []string{"a/recv"}, To: []string{"a/recv"}, Tuples: 3, Spans: []RankedSpan{}},
		{From: []string{"b/recv"}, To: []string{"b/recv"}, Tuples: 2, Spans: []RankedSpan{}},
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
			From: []string{"a/recv"}, To: []string{"b/recv"}, Tuples: 3,
			Spans: []RankedSpan{{Span: 0, Surely: true}},
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
			{1, true}, {2, true}, {0, true},
		}},
		"ends touch": {[]Span{span(10, 20), span(20, 29)}, []RankedSpan{
			{1, false}, {0, true},
		}},
		"a wide one comes later": {[]Span{span(0, 35), span(10, 15), span(30, 39)}, []RankedSpan{
			{2, false}, {1, false}, {0, true},
		}},
		"an estimate comes later": {[]Span{span(30, 39), of(span(20, 29), estimate), span(10, 19)},
			[]RankedSpan{{0, false}, {1, false}, {2, true}}},
		"one has no durations": {[]Span{of(span(0, 0), func(d *Durations) {
			*d = Durations{}
		}), span(10, 19)}, []RankedSpan{{1, true}}},
		"some durations could not be computed": {[]Span{span(20, 29),
			of(span(10, 19), func(d *Durations) {
				d.Unplaced = 1
			})}, []RankedSpan{{0, false}, {1, false}}},
		"none of one could": {[]Span{span(20, 29),
			of(span(0, 0), func(d *Durations) {
				*d = Durations{Unplaced: 1}
			})}, []RankedSpan{{0, false}}},
		"equally slow, as they came": {[]Span{span(20, 29), span(20, 24)}, []RankedSpan{
			{0, false}, {1, true},
		}},
		"nothing": {nil, []RankedSpan{}},
	} {
		if diff := cmp.Diff(test.want, ranked(test.spans, func(*Span) bool {
			return true
		})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	spans := []Span{
		span(10, 19), span(20, 29), of(span(30, 39), func(d *Durations) { d.Unplaced = 1 }),
	}
	if diff := cmp.Diff([]RankedSpan{{1, true}, {0, true}}, ranked(spans, func(l *Span) bool {
		return l != &spans[2]
	})); diff != "" {
		t.Errorf("with a span of another path: %s", diff)
	}
}
