package analysis

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Route is a path: points that the same tuples pass. It is a part of the graph that is connected to
// no other. Tuples that were made of others have their own ids, and so a path of their own.
type Route struct {
	From   []string `json:"from"` // points where tuples begin
	To     []string `json:"to"`   // points where they end
	Tuples uint64   `json:"tuples"`

	// MadeOf are the paths of the tuples of which those of this path were made.
	MadeOf []int `json:"made_of,omitempty"`

	// Legs are the spans of the path that have durations, largest median first, by its low end.
	Legs []RankedLeg `json:"legs"`
}

// RankedLeg is a span in the order of its path.
type RankedLeg struct {
	Leg int `json:"leg"` // index in Answer's Legs
	// Surely says that its true median is above those of all spans after it. Their bounds do not
	// overlap, none is an estimate, and every duration of the path could be computed.
	Surely bool `json:"surely"`
}

// Lateness reports whether a span is not work of the program but how late its load was: from when a
// tuple was due, at a point that load generators call intended, to where it began.
func (l *Leg) Lateness() bool {
	return strings.HasSuffix(l.From, "/intended") &&
		l.Kind == "inside"
}

// routes finds which points the same tuples pass, and which of their spans are slow.
func (a *assembler) routes(out *Answer) {
	var masks []uint64 // of ranks, disjoint
	for mask := range a.found.masks {
		masks = slices.DeleteFunc(masks, func(other uint64) bool {
			if other&mask == 0 {
				return false
			}
			mask |= other
			return true
		})
		masks = append(masks, mask)
	}
	slices.SortFunc(masks, func(x, y uint64) int {
		return cmp.Compare(bits.TrailingZeros64(x), bits.TrailingZeros64(y))
	})
	on := map[string]int{} // index of a point's path
	for i, mask := range masks {
		route := Route{From: []string{}, To: []string{}}
		for rest := mask; rest != 0; rest &= rest - 1 {
			rank := bits.TrailingZeros64(rest)
			name := a.in.points[a.graph.order[rank]].String()
			on[name] = i
			if a.graph.before[rank]&mask == 0 {
				route.From = append(route.From, name)
			}
			if a.graph.after[rank]&mask == 0 {
				route.To = append(route.To, name)
			}
		}
		for m, n := range a.found.masks {
			if m&mask != 0 {
				route.Tuples += n
			}
		}
		out.Routes = append(out.Routes, route)
	}
	for i := range out.Routes {
		out.Routes[i].Legs = ranked(out.Legs, func(l *Leg) bool { return on[l.From] == i })
	}
	for _, l := range out.EndToEnd {
		from, to := on[l.From], on[l.To]
		if r := &out.Routes[to]; l.Origin != "" && from != to && !slices.Contains(r.MadeOf, from) {
			r.MadeOf = append(r.MadeOf, from)
		}
	}
}

// ranked orders the chosen spans by their medians.
func ranked(legs []Leg, of func(*Leg) bool) []RankedLeg {
	r := []RankedLeg{}
	median := func(i RankedLeg) Interval {
		p, _ := legs[i.Leg].All.Percentiles.At(50)
		return p
	}
	sure := true
	for i := range legs {
		if !of(&legs[i]) {
			continue
		}
		sure = sure && legs[i].All.Unplaced == 0
		if legs[i].All.Count > 0 {
			r = append(r, RankedLeg{Leg: i})
		}
	}
	slices.SortStableFunc(r, func(x, y RankedLeg) int {
		return cmp.Compare(median(y).Lo_cycles, median(x).Lo_cycles)
	})
	most := int64(math.MinInt64)
	for i, l := range slices.Backward(r) {
		sure = sure && legs[l.Leg].All.Suspect == 0
		r[i].Surely = sure && median(l).Lo_cycles > most
		most = max(most, median(l).Hi_cycles)
	}
	return r
}
