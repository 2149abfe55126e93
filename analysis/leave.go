package analysis

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/runs"
)

// leaveOut drops points and logs if there are more of them than a single answer can distinguish,
// and notes how many it drops. It chooses one point of each node in turn, first the points with the
// most events. Thus one program with a thousand channels does not push out the points of other
// programs.
func (in *input) leaveOut(rank map[point]int) {
	sources := make([][]int, len(in.nodes))
	points := make([][]point, len(in.nodes))
	events := map[point]uint64{}
	for i := range in.sources {
		s := &in.sources[i]
		sources[s.node] = append(sources[s.node], i)
		if p := pointOf(s.segments[0]); s.trip == noTrip {
			events[p] += s.events
			if !slices.Contains(points[s.node], p) {
				points[s.node] = append(points[s.node], p)
			}
		}
	}
	for _, of := range points {
		slices.SortStableFunc(of, func(a, b point) int {
			return -cmp.Compare(events[a], events[b])
		})
	}
	chosen := inTurns(points, maxPoints)
	if n := len(rank) - len(chosen); n > 0 {
		in.noteMissing(runs.Missing{Part: "points", Reason: fmt.Sprintf(
			"%d of %d are left out, those with the fewest events of a node: choose up to %d by "+
				"channel",
			n, len(rank), maxPoints)})
	}
	kept := inTurns(sources, maxSources)
	if n := len(in.sources) - len(kept); n > 0 {
		in.noteMissing(runs.Missing{Part: "logs", Reason: fmt.Sprintf(
			"%d of %d are left out: choose up to %d by node or channel", n, len(in.sources),
			maxSources)})
	}
	clear(rank)
	left := in.sources[:0]
	for i, s := range in.sources {
		switch p := pointOf(s.segments[0]); {
		case !kept[i] || s.trip == noTrip && !chosen[p]:
			in.unseen[p] = fmt.Sprintf("not all logs of %s were looked at", p)
		default:
			left = append(left, s)
			if s.trip == noTrip {
				rank[p] = 0
			}
		}
	}
	in.sources = left
}

// inTurns chooses one item of each group in turn. most limits how many different items it chooses.
func inTurns[T comparable](groups [][]T, most int) map[T]bool {
	chosen := map[T]bool{}
	for turn, more := 0, true; more; turn++ {
		more = false
		for _, of := range groups {
			if turn < len(of) && (chosen[of[turn]] || len(chosen) < most) {
				chosen[of[turn]], more = true, true
			}
		}
	}
	return chosen
}
