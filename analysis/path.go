package analysis

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// Path is a set of points that the same tuples pass: a part of the graph that no edge connects to
// the rest. Tuples that were made of other tuples have ids of their own, and thus a Path of their
// own.
type Path struct {
	From   []string `json:"from"` // points where tuples begin
	To     []string `json:"to"`   // points where they end
	Tuples uint64   `json:"tuples"`

	// MadeOf has the indexes, in Answer.Paths, of the paths of the tuples that this path's tuples
	// were made of.
	MadeOf []int `json:"made_of,omitempty"`

	// Completeness is how many of the tuples that passed the path's points are in the logs. If not
	// all are, no span is surely slower than another.
	Completeness Completeness `json:"completeness"`

	// Backwards is the number of durations between the path's points that surely end before they
	// begin. If there are any, an assumption is broken or an id is not unique, and no span is
	// surely slower than another.
	Backwards uint64 `json:"backwards,omitempty"`

	// Whole counts the tuples whose whole path is in the logs, from where they begin to where they
	// end. The shares describe these tuples.
	Whole uint64 `json:"whole"`
	// SampledBy is the rule by which the logs of the first and last points chose tuples by their
	// ids. If it is set, Whole counts only tuples that the rule chose. It is empty if there is no
	// such rule, or if shares are withheld.
	SampledBy string `json:"sampled_by,omitempty"`
	// NoShares says why shares are withheld.
	NoShares string `json:"no_shares,omitempty"`

	// Spans are the spans of the path that have durations. They are ordered by the low end of their
	// share of the end-to-end time, largest first. If no share is known, they are ordered by the
	// low end of their median.
	Spans []RankedSpan `json:"spans"`
}

// RankedSpan is a span in Path.Spans.
type RankedSpan struct {
	Span int `json:"span"` // index in Answer's Spans
	// Share is the time that tuples spent on this span while it was on their critical path, as a
	// share of their end-to-end time. Shares are known for all spans of a path or for none. If logs
	// lack tuples, the interval of a share includes the time that the logs do not show.
	Share *Share `json:"share,omitempty"`
	// Surely is true if the span's true share, or its true median, is surely above those of all
	// spans after it in Path.Spans. This is sure if all of these are true:
	//   - the intervals do not overlap, and none of them is an estimate;
	//   - every duration of the path could be computed, and none ends before it begins;
	//   - the logs have every tuple at every point of the path;
	//   - it is known that tuples take this span;
	//   - if medians give the order, no duration of the path is withheld.
	Surely bool `json:"surely"`
}

// Share is an interval that contains a share. A share is a number from 0 to 1.
type Share struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// Of says in words which tuples decide the order of the list Spans.
func (p *Path) Of() string {
	made := ""
	if len(p.MadeOf) > 0 {
		made = " that were made of others"
	}
	byShare := len(p.Spans) > 0 && p.Spans[0].Share != nil
	switch {
	case byShare && p.SampledBy != "":
		return fmt.Sprintf("%d sampled tuples%s", p.Whole, made)
	case byShare && p.Whole < p.Tuples:
		return fmt.Sprintf("%d of %d tuples%s", p.Whole, p.Tuples, made)
	case !byShare && p.Completeness.Lacks():
		return fmt.Sprintf("%d tuples%s in the logs", p.Tuples, made)
	}
	return fmt.Sprintf("%d tuples%s", p.Tuples, made)
}

// Unsure says why shares are withheld, or why no span is surely slower than another. It is empty if
// the logs have every tuple, and every tuple was received after it was sent.
func (p *Path) Unsure() string {
	switch {
	case p.NoShares != "":
		return "shares of the end-to-end time are withheld: " + p.NoShares
	case p.Backwards > 0:
		return fmt.Sprintf("no order is proven: of the durations on this path, %d surely end "+
			"before they begin", p.Backwards)
	case p.Completeness.Lacks():
		return "no order is proven, because logs do not have every tuple: " +
			p.Completeness.Because()
	}
	return ""
}

// Described says which tuples a span's durations describe. It is empty if they describe all.
func (l *Span) Described() string {
	switch l.Completeness.Kept {
	case Sampled:
		return fmt.Sprintf("%d sampled tuples", l.All.Count)
	case Lossy, Unknown:
		return fmt.Sprintf("%d tuples in the logs", l.All.Count)
	}
	return ""
}

// Lateness reports whether a span is not work of the program, but shows how late the program's load
// generator was. Such a span begins when the tuple was due, at a point that load generators call
// intended. The span ends where the tuple began.
func (l *Span) Lateness() bool {
	return strings.HasSuffix(l.From, "/intended") &&
		l.Kind == "inside"
}

// findPaths finds which points the same tuples pass, and which spans between these points are slow.
func (a *assembler) findPaths(out *Answer) {
	var masks []uint64 // masks of ranks; no two have a rank in common
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
			if a.graph.ranksBefore[rank]&mask == 0 {
				path.From = append(path.From, name)
			}
			if a.lastPoints(mask)>>rank&1 != 0 {
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
	a.findNothingInCommon(out, masks)
	for i := range out.Paths {
		path, total, mask := &out.Paths[i], a.wholeTime(masks[i]), a.graph.addUnseen(masks[i])
		path.Whole, path.Completeness = total.surely+total.perhaps, a.ofPath(mask)
		of := func(l *Span) bool { return on[l.From] == i }
		shares := make([]*Share, len(out.Spans))
		spilled := a.spilledTime(mask)
		total.doubtful = spilled.doubtful
		path.SampledBy, path.NoShares = a.noShares(mask, &total)
		if path.NoShares == "" {
			total.hi.merge(spilled.hi)
			total.unplaced += spilled.unplaced
			shares = a.shares(out.Spans, mask, &total, &spilled, of)
		}
		path.Backwards = backwardsOf(out, of)
		path.Spans = rankSpans(out.Spans, shares,
			!path.Completeness.Lacks() && path.Backwards == 0, of)
	}
	for _, l := range out.EndToEnd {
		from, to := on[l.From], on[l.To]
		if r := &out.Paths[to]; l.Origin != "" && from != to && !slices.Contains(r.MadeOf, from) {
			r.MadeOf = append(r.MadeOf, from)
		}
	}
}

// findNothingInCommon adds a finding if paths have no id in common and no links connect tuples. It
// leaves out paths of a single point, because findAlone reports those.
func (a *assembler) findNothingInCommon(out *Answer, masks []uint64) {
	var begins []string
	for i, mask := range masks {
		if mask&(mask-1) != 0 {
			begins = append(begins, out.Paths[i].From[0])
		}
	}
	linked := slices.ContainsFunc(a.in.sources, func(s source) bool { return s.keepsLinks() })
	if len(begins) > 1 && !linked {
		a.in.addFinding(FindUndecided,
			"no id at %s is at %s: the points are in %d groups that share no "+
				"id; times within a group are answered, times between groups are not: "+
				"if they are of "+
				"the same tuples, log the same ids, or link them", begins[0], begins[1],
			len(begins))
	}
}

// wholeTime sums up the end-to-end times of all tuples on a path.
func (a *assembler) wholeTime(mask uint64) (total criticalSums) {
	for k, l := range a.found.spans {
		if k.kind == wholePath && mask>>k.to&1 != 0 {
			total.merge(&l.critical)
		}
	}
	return total
}

// spilledTime sums up the end-to-end times of those tuples of a path whose events may belong to
// other tuples. Nobody knows on which spans these tuples spent their times.
func (a *assembler) spilledTime(mask uint64) (all criticalSums) {
	for rest := mask; rest != 0; rest &= rest - 1 {
		all.merge(&a.found.points[bits.TrailingZeros64(rest)].spilled)
	}
	return all
}

// backwardsOf counts the durations of the chosen spans that surely end before they begin.
func backwardsOf(out *Answer, of func(*Span) bool) (n uint64) {
	for _, spans := range [][]Span{out.Spans, out.EndToEnd} {
		for i := range spans {
			if of(&spans[i]) && spans[i].Origin == "" {
				n += spans[i].All.After
			}
		}
	}
	return n
}

// rankSpans orders the chosen spans by their shares, or by their medians if no share is known. If
// sure is false, no order is proven.
func rankSpans(spans []Span, shares []*Share, sure bool, of func(*Span) bool) []RankedSpan {
	r := []RankedSpan{}
	byShare, withheld := true, false
	for i := range spans {
		if !of(&spans[i]) || spans[i].Kind == "gap" || spans[i].Kind == "waiting" {
			continue
		}
		sure = sure && spans[i].All.Unplaced == 0
		withheld = withheld || spans[i].All.Withheld > 0
		if spans[i].All.Count > 0 {
			r = append(r, RankedSpan{Span: i, Share: shares[i]})
			byShare = byShare && shares[i] != nil
		}
	}
	size := func(s RankedSpan) (lo, hi float64) {
		if byShare {
			return s.Share.Lo, s.Share.Hi
		}
		p, _ := spans[s.Span].All.Percentiles.At(50)
		return float64(p.Lo_cycles), float64(p.Hi_cycles)
	}
	slices.SortStableFunc(r, func(x, y RankedSpan) int {
		a, _ := size(x)
		b, _ := size(y)
		return cmp.Compare(b, a)
	})
	sure = sure && (byShare || !withheld)
	most := math.Inf(-1)
	for i, l := range slices.Backward(r) {
		lo, hi := size(l)
		sure = sure && spans[l.Span].All.Suspect == 0
		r[i].Surely = sure && lo > most && !spans[l.Span].Open
		most = max(most, hi)
		if !byShare {
			r[i].Share = nil
		}
	}
	return r
}
