package analysis

import "slices"

// At these points the Java agent logs tuples that it cannot connect with other tuples.
const (
	unlinkedPoint   = "unlinked"   // made of others, but no link says of which
	unanchoredPoint = "unanchored" // only counted, because they have no id
)

// findBroken adds findings that name the points where the path of a tuple breaks off, because
// nothing connects its id with others. No latency across these points can be computed.
func (a *assembler) findBroken() {
	var unlinked, unanchored []string
	tuples := uint64(0)
	for i := range a.told {
		s, t := &a.in.sources[i], &a.told[i]
		if s.point < 0 {
			continue
		}
		switch p := a.in.points[s.point]; {
		case p.name == unlinkedPoint && t.events > 0:
			unlinked = append(unlinked, p.String())
			tuples += t.events
		case p.name == unanchoredPoint && t.samples.last.Count > 0:
			unanchored = append(unanchored, p.actor)
		}
	}
	if len(unlinked) > 0 {
		slices.Sort(unlinked)
		a.in.addFinding(FindUndecided,
			"%d tuples at %s were made by timers or later callbacks, and no "+
				"link says of which others: the latency of those others ends before them, "+
				"and theirs "+
				"begins there", tuples, someOf(slices.Compact(unlinked)))
	}
	if len(unanchored) > 0 {
		slices.Sort(unanchored)
		a.in.addFinding(FindUndecided,
			"%s sent tuples that are not anchored: they have no id, so paths "+
				"may go on there, and these tuples are in no figure but their count; anchor them",
			someOf(slices.Compact(unanchored)))
	}
}
