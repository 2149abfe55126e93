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
	want := []Route{
		{From: []string{"a/recv"}, To: []string{"a/recv"}, Tuples: 3, Legs: []RankedLeg{}},
		{From: []string{"b/recv"}, To: []string{"b/recv"}, Tuples: 2, Legs: []RankedLeg{}},
	}
	if diff := cmp.Diff(want, a.Routes); diff != "" {
		t.Error(diff)
	}

	channels = channelsOf([]uint64{1, 2, 3}, []uint64{1, 2, 3})
	a = analyze(t, write(t, append(channels, links)...), Options{
		Edges: [][2]string{{"a/recv", "b/recv"}},
	})
	want = []Route{
		{
			From: []string{"a/recv"}, To: []string{"b/recv"}, Tuples: 3,
			Legs: []RankedLeg{{Leg: 0, Surely: true}},
		},
	}
	if len(a.EndToEnd) == 0 {
		t.Error("no tuple was made of another")
	}
	if diff := cmp.Diff(want, a.Routes); diff != "" {
		t.Error(diff)
	}
}

func TestWhichLegIsSurelySlower(t *testing.T) {
	leg := func(lo, hi int64) Leg {
		return Leg{All: Durations{Count: 10, Percentiles: Percentiles{{50, Interval{lo, hi}}}}}
	}
	of := func(l Leg, change func(*Durations)) Leg {
		change(&l.All)
		return l
	}
	estimate := func(d *Durations) { d.Suspect = 1 }
	for name, test := range map[string]struct {
		legs []Leg
		want []RankedLeg
	}{
		"apart": {[]Leg{leg(10, 19), leg(40, 49), leg(20, 39)}, []RankedLeg{
			{1, true}, {2, true}, {0, true},
		}},
		"ends touch": {[]Leg{leg(10, 20), leg(20, 29)}, []RankedLeg{
			{1, false}, {0, true},
		}},
		"a wide one comes later": {[]Leg{leg(0, 35), leg(10, 15), leg(30, 39)}, []RankedLeg{
			{2, false}, {1, false}, {0, true},
		}},
		"an estimate comes later": {[]Leg{leg(30, 39), of(leg(20, 29), estimate), leg(10, 19)},
			[]RankedLeg{{0, false}, {1, false}, {2, true}}},
		"one has no durations": {[]Leg{of(leg(0, 0), func(d *Durations) {
			*d = Durations{}
		}), leg(10, 19)}, []RankedLeg{{1, true}}},
		"some durations could not be computed": {[]Leg{leg(20, 29),
			of(leg(10, 19), func(d *Durations) {
				d.Unplaced = 1
			})}, []RankedLeg{{0, false}, {1, false}}},
		"none of one could": {[]Leg{leg(20, 29),
			of(leg(0, 0), func(d *Durations) {
				*d = Durations{Unplaced: 1}
			})}, []RankedLeg{{0, false}}},
		"equally slow, as they came": {[]Leg{leg(20, 29), leg(20, 24)}, []RankedLeg{
			{0, false}, {1, true},
		}},
		"nothing": {nil, []RankedLeg{}},
	} {
		if diff := cmp.Diff(test.want, ranked(test.legs, func(*Leg) bool {
			return true
		})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	legs := []Leg{leg(10, 19), leg(20, 29), of(leg(30, 39), func(d *Durations) { d.Unplaced = 1 })}
	if diff := cmp.Diff([]RankedLeg{{1, true}, {0, true}}, ranked(legs, func(l *Leg) bool {
		return l != &legs[2]
	})); diff != "" {
		t.Errorf("with a leg of another route: %s", diff)
	}
}
