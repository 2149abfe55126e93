package analysis

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Path is a set of points that the same tuples pass. It is a part of the graph that is connected to
// no other part. Tuples that were made of others have their own ids, and so have a Path of their
// own.
type Path struct {
	From   []string `json:"from"` // points where tuples begin
	To     []string `json:"to"`   // points where they end
	Tuples uint64   `json:"tuples"`

	// MadeOf are the paths of the tuples of which this path's tuples were made.
	MadeOf []int `json:"made_of,omitempty"`

	// Spans are the spans of the path that have durations, ordered by the low end of the median,
	// largest first.
	Spans []RankedSpan `json:"spans"`
}

// RankedSpan is a span in the order of its path.
type RankedSpan struct {
	Span int `json:"span"` // index in Answer's Spans
	// Surely is true if the span's true median is above the true medians of all spans after it.
	// Their intervals do not overlap, none is an estimate, and every duration of the path could be
	// computed.
	Surely bool `json:"surely"`
}

// Lateness reports whether a span is not work of the program, but shows how late its load was. Such
// a span begins when the tuple was due, at a point that load generators call intended. It ends
// where the tuple began.
func (l *Span) Lateness() bool {
	return strings.HasSuffix(l.From, "/intended") &&
		l.Kind == "inside"
}

// paths finds which points the same tuples pass, and which spans between these points are slow.
func (a *assembler) paths(out *Answer) {
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
		path := Path{From: []string{}, To: []string{}}
		for rest := mask; rest != 0; rest &= rest - 1 {
			rank := bits.TrailingZeros64(rest)
			name := a.in.points[a.graph.order[rank]].String()
			on[name] = i
			if a.graph.before[rank]&mask == 0 {
				path.From = append(path.From, name)
			}
			if a.graph.after[rank]&mask == 0 {
				path.To = append(path.To, name)
			}
		}
		for m, n := range a.found.masks {
			if m&mask != 0 {
				path.Tuples += n
			}
		}
		out.Paths = append(out.Paths, path)
	}
	for i := range out.Paths {
		out.Paths[i].Spans = ranked(out.Spans, func(l *Span) bool { return on[l.From] == i })
	}
	for _, l := range out.EndToEnd {
		from, to := on[l.From], on[l.To]
		if r := &out.Paths[to]; l.Origin != "" && from != to && !slices.Contains(r.MadeOf, from) {
			r.MadeOf = append(r.MadeOf, from)
		}
	}
}

// ranked orders the chosen spans by their medians.
func ranked(spans []Span, of func(*Span) bool) []RankedSpan {
	r := []RankedSpan{}
	median := func(i RankedSpan) Interval {
		p, _ := spans[i.Span].All.Percentiles.At(50)
		return p
	}
	sure := true
	for i := range spans {
		if !of(&spans[i]) || spans[i].Kind == "gap" {
			continue
		}
		sure = sure && spans[i].All.Unplaced == 0
		if spans[i].All.Count > 0 {
			r = append(r, RankedSpan{Span: i})
		}
	}
	slices.SortStableFunc(r, func(x, y RankedSpan) int {
		return cmp.Compare(median(y).Lo_cycles, median(x).Lo_cycles)
	})
	most := int64(math.MinInt64)
	for i, l := range slices.Backward(r) {
		sure = sure && spans[l.Span].All.Suspect == 0
		r[i].Surely = sure && median(l).Lo_cycles > most
		most = max(most, median(l).Hi_cycles)
	}
	return r
}
