package analysis

import (
	"fmt"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// findEmpty reports the logs of which no row can be read. Without rows, only declared edges show
// where a log's point lies on a path. If no edge does, a path may begin before it seems to, or go
// on after it seems to end. findEmpty also names the channels that logged nothing.
func (in *input) findEmpty(g *graph, told []told) {
	var unused, placed, lacking []string
	rows := in.withRows(told)
	lacks := func(p int, log string) {
		switch rank := g.rank[p]; {
		case rows>>p&1 != 0:
		case g.ranksBefore[rank]|g.ranksAfter[rank] != 0:
			placed = append(placed, log)
		default:
			lacking = append(lacking, log)
		}
	}
	for p, at := range in.points {
		if log := in.unusable[at]; log != "" {
			lacks(p, log)
		}
	}
	for i := range told {
		s, t := &in.sources[i], &told[i]
		if s.trip != noTrip {
			continue
		}
		log := logOf(s.name, in.nodes[s.node].Name)
		switch {
		case t.rows == 0 && t.keptEvents(s).Kept == All && in.unusable[in.points[s.point]] == "":
			unused = append(unused, log)
		case t.keptEvents(s).Kept != All && s.keepsEvents():
			lacks(s.point, log)
		}
	}
	if len(unused) > 0 {
		in.addFinding(FindNote, "%s: nothing was logged there", logsHave(unused, "no row"))
	}
	if len(placed) > 0 {
		in.addFinding(FindUndecided, "%s: which tuples passed there is not known",
			logsHave(placed, noRow))
	}
	if len(lacking) > 0 {
		in.openEnds = logsHave(lacking, noRow)
		in.findings = slices.Insert(in.findings, 0, Finding{FindUndecided, in.openEnds +
			": paths may begin or go on there. So an end-to-end time is that from its first " +
			"named point to its last, and perhaps not that of the whole path"})
	}
}

// noteUnusable notes that a chosen log cannot be used in full. The log's point is then listed among
// the points of the run, even if nothing else is known of it.
func (in *input) noteUnusable(s logstore.Segment, node string) {
	if tripOf(s.Channel.Point) == noTrip &&
		in.options.Filter.choosesChannel(node, s.Channel.String(), s.Channel.Point) {
		in.unusable[pointOf(s)] = logOf(s.Channel.String(), node)
	}
}

// withRows returns the points whose logs have rows of events. Rows that the options do not choose
// count, too.
func (in *input) withRows(told []told) (mask uint64) {
	for i := range told {
		for _, rows := range told[i].report.Rows {
			if p := in.sources[i].point; p >= 0 && rows.Kind == logstore.Events && rows.Rows > 0 {
				mask |= 1 << p
			}
		}
	}
	return mask
}

// keepsEvents reports whether a log's channel was opened to keep events, all or some.
func (s *source) keepsEvents() bool {
	k := s.header.Settings.Kind
	return k.KeepsAll() || k.KeepsSome()
}

func logOf(channel, node string) string { return fmt.Sprintf("%s on node %s", channel, node) }

const noRow = "no row that can be used"

func logsHave(logs []string, what string) string {
	slices.Sort(logs)
	if logs = slices.Compact(logs); len(logs) == 1 {
		return fmt.Sprintf("the log of %s has %s", logs[0], what)
	}
	return fmt.Sprintf("the logs of %s have %s", someOf(logs), what)
}
