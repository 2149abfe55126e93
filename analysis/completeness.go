package analysis

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Kept says how complete the logs are: for a point, of the tuples that passed it; for a set of
// durations, of the tuples that it describes. The values below go from complete to unknown.
type Kept string

const (
	All     Kept = "all"     // every tuple
	Sampled Kept = "sampled" // those that a handler chose by a rule
	Lossy   Kept = "lossy"   // events were dropped, or a log lacks rows
	Unknown Kept = "unknown" // a log is missing, or was not chosen
)

// Completeness is how much of a set is in the logs, and why the rest is not.
type Completeness struct {
	Kept Kept     `json:"kept"`
	Why  []string `json:"why,omitempty"` // sorted; none if all is kept
}

var keptOrder = []Kept{All, Sampled, Lossy, Unknown}

// with adds what another part of the set lacks.
func (c Completeness) with(d Completeness) Completeness {
	if slices.Index(keptOrder, d.Kept) > slices.Index(keptOrder, c.Kept) {
		c.Kept = d.Kept
	}
	c.Why = slices.Concat(c.Why, d.Why)
	slices.Sort(c.Why)
	c.Why = slices.Compact(c.Why)
	return c
}

// kept returns how much of its channel's events a log has.
func (t *told) kept(s *source) Completeness {
	c := Completeness{Kept: All}
	if t.thins != "" {
		c = c.with(Completeness{Sampled, []string{
			fmt.Sprintf("%s keeps only %s", s.name, t.thins)}})
	}
	if t.err != nil || !t.report.Whole() {
		c = c.with(Completeness{Lossy, []string{
			fmt.Sprintf("the log of %s is not whole", s.name)}})
	}
	for k := range t.report.Rows {
		if len(t.report.Rows[k].Dropped) > 0 {
			c = c.with(Completeness{Lossy, []string{fmt.Sprintf("%s dropped events", s.name)}})
		}
	}
	return c
}

// keepsLinks reports whether a log's channel keeps links, and no events.
func (s *source) keepsLinks() bool { return s.header.Settings.Kind.String() == "link" }

// ofRun names the nodes that may have seen any tuple and have no log at all.
func (a *assembler) ofRun() Completeness {
	c := Completeness{Kept: All}
	for _, n := range a.in.silent {
		c = c.with(Completeness{Unknown, []string{fmt.Sprintf("no log of node %s is there", n)}})
	}
	return c
}

// completeness is how much of what passed a point is in the logs. except, unless it is empty, is a
// rule of sampling by id that is ignored, because the same tuples were chosen elsewhere.
func (a *assembler) completeness(rank int, except string) Completeness {
	if except == "" && a.complete[rank].Kept != "" {
		return a.complete[rank]
	}
	c := Completeness{Kept: All}
	if why := a.in.unseen[a.in.points[a.graph.order[rank]]]; why != "" {
		c = c.with(Completeness{Unknown, []string{why}})
	}
	for i := range a.told {
		s, t := &a.in.sources[i], &a.told[i]
		if a.graph.rankOf(s) != rank {
			continue
		}
		if d := t.kept(s); d.Kept != Sampled || t.thins != except {
			c = c.with(d)
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
			if !strings.HasPrefix(t.thins, "xoy") || t.changes > 0 ||
				rule != "" && t.thins != rule {
				return ""
			}
			rule = t.thins
		}
	}
	return rule
}

// undecided says why it is not known whether tuples that end at a point are lost.
func (a *assembler) undecided(rank int) string {
	c, rule := Completeness{Kept: All}, a.sampledByID(rank)
	if a.graph.after[rank] != 0 {
		c = a.ofRun()
	}
	for rest := a.graph.after[rank]; rest != 0; rest &= rest - 1 {
		c = c.with(a.completeness(bits.TrailingZeros64(rest), rule))
	}
	return strings.Join(c.Why, "; ")
}

// past returns the points between two others that a tuple may have passed without an event, because
// the logs of these points do not have every tuple.
func (a *assembler) past(from, to int) []string {
	var names []string
	for rest := a.graph.after[from] & a.graph.before[to]; rest != 0; rest &= rest - 1 {
		if r := bits.TrailingZeros64(rest); a.completeness(r, "").Kept != All {
			names = append(names, a.in.points[a.graph.order[r]].String())
		}
	}
	return names
}
