package analysis

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Kept says whether the logs have all tuples that passed a point, or all tuples that a set of
// durations describes. The values below are in order: the first means that all are there, and the
// last means that it is not known whether they are.
type Kept string

const (
	All     Kept = "all"     // every tuple
	Sampled Kept = "sampled" // those that a handler chose by a rule
	Lossy   Kept = "lossy"   // events were dropped, or a log lacks rows
	Unknown Kept = "unknown" // a log is missing, or it is not known to which set a tuple belongs
)

// Completeness says how much of a set of tuples is in the logs, and why the rest is not.
type Completeness struct {
	Kept Kept     `json:"kept"`
	Why  []string `json:"why,omitempty"` // sorted; none if all is kept
}

// Lacks reports whether the set lacks tuples, or may lack some.
func (c Completeness) Lacks() bool { return c.Kept != All && c.Kept != "" }

var keptOrder = []Kept{All, Sampled, Lossy, Unknown}

// combineWith returns the completeness of a set that has two parts. Kept is that of the worse part,
// and Why has the reasons of both.
func (c Completeness) combineWith(d Completeness) Completeness {
	if slices.Index(keptOrder, d.Kept) > slices.Index(keptOrder, c.Kept) {
		c.Kept = d.Kept
	}
	c.Why = slices.Concat(c.Why, d.Why)
	slices.Sort(c.Why)
	c.Why = slices.Compact(c.Why)
	return c
}

// keptEvents says whether a log has all events of its channel.
func (t *told) keptEvents(s *source) Completeness {
	c := Completeness{Kept: All}
	if t.thins != "" {
		c = c.combineWith(Completeness{Sampled, []string{s.name + keepsOnly + t.thins}})
	}
	if t.err != nil || !t.report.Whole() {
		c = c.combineWith(Completeness{Lossy, []string{
			fmt.Sprintf("the log of %s is not whole", s.name)}})
	}
	if t.rows == 0 && t.err == nil && !t.report.Sealed { // the log may be cut off
		c = c.combineWith(Completeness{Lossy, []string{
			fmt.Sprintf("the log of %s has neither a row nor an end", s.name)}})
	}
	for k := range t.report.Rows {
		if len(t.report.Rows[k].Dropped) > 0 {
			c = c.combineWith(Completeness{Lossy, []string{s.name + droppedEvents}})
		}
	}
	return c
}

// keepsLinks reports whether a log's channel keeps links, and no events.
func (s *source) keepsLinks() bool {
	return s.trip == noTrip && s.header.Settings.Kind.String() == "link"
}

// ofRun names the nodes without a log and the logs without a readable row. Any tuple may have
// passed there unseen.
func (in *input) ofRun() Completeness {
	c := Completeness{Kept: All}
	for _, n := range in.silent {
		c = c.combineWith(Completeness{Unknown, []string{fmt.Sprintf("no log of node %s is there",
			n)}})
	}
	if in.openEnds != "" {
		c = c.combineWith(Completeness{Unknown, []string{in.openEnds}})
	}
	return c
}

// If all logs with events chose tuples by their ids, and by the same rule during the whole run,
// chosenByID returns this rule. Each tuple that the rule chooses is then in all these logs.
// Otherwise chosenByID returns "".
func (in *input) chosenByID(told []told) (rule string) {
	for i := range told {
		t := &told[i]
		if in.sources[i].point < 0 || t.events == 0 {
			continue
		}
		if !t.choosesByID() || rule != "" && t.thins != rule {
			return ""
		}
		rule = t.thins
	}
	return rule
}

// choosesByID reports whether one rule chose tuples by their ids, during the whole run.
func (t *told) choosesByID() bool { return strings.HasPrefix(t.thins, "xoy") && t.changes == 0 }

// lackingRanks returns the ranks of points whose logs do not have every tuple that other logs have.
func (in *input) lackingRanks(g *graph, told []told) (mask uint64) {
	rule := in.chosenByID(told)
	for r, p := range g.order {
		if in.unseen[in.points[p]] != "" || len(in.silent) > 0 {
			mask |= 1 << r
		}
	}
	for i := range told {
		s, t := &in.sources[i], &told[i]
		chosen := t.keptEvents(s).Kept == Sampled && t.thins == rule
		if s.point >= 0 && !chosen && t.keptEvents(s).Kept != All {
			mask |= 1 << g.rankOf(s)
		}
	}
	return mask
}

// thinnedRanks returns the ranks of points whose logs may hide repetitions: even if every tuple had
// two events at such a point, the log might show only one event of each tuple. A log may do so in
// three cases: it could not be read to its end; it lacks more than half as many events as it has;
// its channel chose events by other means than one rule for ids.
func (in *input) thinnedRanks(g *graph, told []told) (mask uint64) {
	for i := range told {
		s, t := &in.sources[i], &told[i]
		lacking := uint64(0)
		for k := range t.report.Rows {
			lacking += t.report.Rows[k].MissingRows()
			for _, n := range t.report.Rows[k].Dropped {
				lacking += n
			}
		}
		byEvent := t.thins != "" && !t.choosesByID()
		if s.point >= 0 && (byEvent || t.err != nil || lacking > t.events/2) {
			mask |= 1 << g.rankOf(s)
		}
	}
	return mask
}

// completeness says how many of the tuples that passed a point are in the logs. except is empty, or
// a rule that chooses tuples by their ids. A log counts as complete if it lacks only tuples that
// this rule does not choose, because the logs with which the caller compares it lack the same
// tuples.
func (a *assembler) completeness(rank int, except string) Completeness {
	if except == "" && a.complete[rank].Kept != "" {
		return a.complete[rank]
	}
	c := Completeness{Kept: All}
	if why := a.in.unseen[a.in.points[a.graph.order[rank]]]; why != "" {
		c = c.combineWith(Completeness{Unknown, []string{why}})
	}
	for i := range a.told {
		s, t := &a.in.sources[i], &a.told[i]
		if a.graph.rankOf(s) != rank {
			continue
		}
		if d := t.keptEvents(s); d.Kept != Sampled || t.thins != except {
			c = c.combineWith(d)
		}
	}
	if except == "" {
		a.complete[rank] = c
	}
	return c
}

// sampledByID is the rule by which all channels of a point choose tuples by their ids, during the
// whole run. It is empty if the channels use no such rule, or several.
func (a *assembler) sampledByID(rank int) string {
	rule := ""
	for i := range a.told {
		if t := &a.told[i]; a.graph.rankOf(&a.in.sources[i]) == rank {
			if !t.choosesByID() || rule != "" && t.thins != rule {
				return ""
			}
			rule = t.thins
		}
	}
	return rule
}

// whyUndecided is about tuples whose last event is at a point. It says why nobody can know whether
// these tuples were lost after the point or ended there.
func (a *assembler) whyUndecided(rank int) string {
	c, rule := Completeness{Kept: All}, a.sampledByID(rank)
	if a.graph.ranksAfter[rank] != 0 || a.graph.openEnds {
		c = a.in.ofRun()
	}
	for rest := a.graph.ranksAfter[rank]; rest != 0; rest &= rest - 1 {
		c = c.combineWith(a.completeness(bits.TrailingZeros64(rest), rule))
	}
	for i := range a.told {
		if s := &a.in.sources[i]; s.keepsLinks() && a.graph.ranksAfter[rank] != 0 {
			// other tuples may have been made of those at this point
			c = c.combineWith(a.told[i].keptEvents(s))
		}
	}
	if n := a.found.points[rank].guessedEnds; n > 0 {
		c = c.combineWith(Completeness{Unknown,
			[]string{fmt.Sprintf("%d tuples share their ids with "+
				"others, so what became of which is not known", n)}})
	}
	return c.Because()
}

// unseenBetween returns points that a tuple may have passed without an event on its way from one
// given point to another. The logs of these points do not have every tuple. A point is left out if
// the same rule chooses tuples by their ids at this point and at the two ends: then a tuple with
// events at both ends has an event at the point, too.
func (a *assembler) unseenBetween(from, to int) []string {
	var names []string
	rule := a.sampledByID(from)
	if rule != a.sampledByID(to) {
		rule = ""
	}
	for rest := a.graph.ranksAfter[from] & a.graph.ranksBefore[to]; rest != 0; rest &= rest - 1 {
		if r := bits.TrailingZeros64(rest); a.completeness(r, rule).Kept != All {
			names = append(names, a.in.points[a.graph.order[r]].String())
		}
	}
	return names
}

// gapsByRank returns, for each rank, the later ranks that a tuple may have reached from there past
// an unseen point. For these ranks, unseenBetween names a point between the two.
func (a *assembler) gapsByRank() []uint64 {
	all := make([]uint64, len(a.graph.order))
	for from := range all {
		for rest := a.graph.ranksAfter[from]; rest != 0; rest &= rest - 1 {
			if to := bits.TrailingZeros64(rest); len(a.unseenBetween(from, to)) > 0 {
				all[from] |= 1 << to
			}
		}
	}
	return all
}

// ofSpan says how many of the tuples that a span describes are in the logs. A span from one point
// to the next describes tuples that passed no point between the two and did not wait for another
// branch. So it also matters what the logs of a third point lack, if this point precedes the end of
// the span but not its beginning. If an id has several events at an end of the span, all earlier
// points matter: two tuples may share the id, and if the log of an earlier point lacks an event of
// one of them, they look like one tuple.
func (a *assembler) ofSpan(k spanKey) Completeness {
	c := a.completeness(k.from, "").combineWith(a.completeness(k.to, "")).combineWith(a.in.ofRun())
	before := a.graph.ranksBefore[k.to]
	again := a.found.points[k.from].duplicates+a.found.points[k.to].duplicates > 0
	for rest := before; rest != 0; rest &= rest - 1 {
		r := bits.TrailingZeros64(rest)
		unseen := k.kind < wholePath && a.graph.ranksBefore[k.from]>>r&1 == 0
		if unseen || again && a.sampledByID(r) == "" {
			c = c.combineWith(a.completeness(r, ""))
		}
	}
	return c
}
