package analysis

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// assembler makes an Answer of what was found.
type assembler struct {
	in    *input
	graph *graph
	found *gatherResult
	told  []told
	timer *timer
	bins  Bins

	returns  *returnJoiner
	between  []*span                 // the spans between points, in the answer's order
	complete [maxPoints]Completeness // by rank; empty: not computed yet
}

func (in *input) basis(bins Bins) Basis {
	b := Basis{
		Reference: in.describeReference(), Clock: in.clockFacts(bins),
		ThirdNodes:  in.options.ThirdNodes,
		Zero_cycles: uint64(bins.From_cycles), Relations: len(in.clocks.pairs),
	}
	for _, p := range in.clocks.pairs {
		for _, r := range []*tscratio.Relation{p.intoA, p.intoB} {
			declared := cmp.Or(in.options.Wander, r.Declared.Wander)
			b.Declared_ppm = max(b.Declared_ppm, declared.PPM())
			b.Used_ppm = max(b.Used_ppm, r.Wander.PPM())
			b.Window_s = max(b.Window_s, r.Declared.Window.Seconds())
		}
		if p.suspect() {
			b.Suspect++
		}
	}
	return b
}

func (a *assembler) answer() *Answer {
	in := a.in
	out := &Answer{
		Version: AnswerVersion, Run: in.run.Run.Name, Note: in.run.Run.Note,
		Complete: in.run.Complete, Bins: a.bins,
		Reference: in.describeReference(),
		Nodes:     []Node{}, Pairs: []Pair{}, ThirdNodes: in.options.ThirdNodes, Points: []Point{},
		Channels: []Channel{}, Spans: []Span{}, EndToEnd: []Span{}, Paths: []Path{},
	}
	for i, n := range in.nodes {
		out.Nodes = append(out.Nodes, Node{
			Name: n.Name, ID: n.ID, Epoch: n.Epoch, Quantum_cycles: n.described.Quantum_cycles,
			CoreSlack_cycles: n.described.CoreSlack_cycles,
			FrequencyLo_hz:   n.FrequencyLo_hz, FrequencyHi_hz: n.FrequencyHi_hz,
			Virtual: n.Virtual,
			Facts:   in.nodeFacts(i), Left: n.Left,
		})
	}
	out.Causes = Causes{Near: in.near, Makes: in.findMakes(a.graph)}
	for _, h := range in.handed {
		out.Causes.Renames = append(out.Causes.Renames, h.actor)
	}
	a.pairs(out)
	a.channels(out)
	a.points(out)
	a.spans(out)
	a.findPaths(out)
	a.tellPauses(out)
	out.Held = in.heldInAll(out)
	out.Length = a.runLength()
	a.counters(out)
	out.ReturnTrips = a.returns.durationsByKey(in)
	out.Comparisons = in.compare(a.bins, a.returns)
	for _, made := range []bool{false, true} {
		for _, s := range a.slowestOf(made) {
			out.Slowest = append(out.Slowest, a.pathOfTuple(s, made))
		}
	}
	if n := a.found.blindTuples; n > 0 {
		first, last := bits.TrailingZeros64(a.found.unorderedPoints),
			63-bits.LeadingZeros64(a.found.unorderedPoints)
		in.addFinding(FindUndecided,
			"%d tuples pass points whose order is not known, such as %s and "+
				"%s, because none of %d sampled tuples passed both: nothing is measured between "+
				"them; declare the edges",
			n, in.points[a.graph.order[first]], in.points[a.graph.order[last]], sampleTuples)
	}
	if n := a.found.childless; n > 0 && !in.options.Filter.leavesOut() {
		kind := FindNote // for example, the run ended before the last windows did
		if a.found.bornIDs == 0 {
			kind = FindUndecided
		}
		in.addFinding(kind,
			"%d tuples that links say were made of others are %s: no event of theirs is "+
				"logged", n, a.unfinishedWord())
	}
	a.findBroken()
	if n := a.found.overused; n > 0 {
		in.addFinding(FindUndecided,
			"%d ids occur more than %d times each, as in a program that logs "+
				"one id for everything: their events are counted, but no durations are measured "+
				"between them",
			n, maxCopies)
	}
	for _, b := range a.found.backs {
		from, to := in.points[a.graph.order[b.span.from]], in.points[a.graph.order[b.span.to]]
		why := "an assumption is broken, or its id is not unique"
		if a.graph.againstData[b.span.from]>>b.span.to&1 != 0 {
			why = "it contradicts the declared edge"
		}
		in.addFinding(FindImpossible,
			"tuple %d was at %s on %s surely after it was at %s on %s (%v "+
				"cycles): %s", b.id, from, in.nodes[b.a].Name, to, in.nodes[b.b].Name, b.elapsed,
			why)
	}
	for _, m := range in.missing {
		out.Missing = append(out.Missing, Missing{m.Part, m.Reason})
	}
	out.Findings = in.findings
	out.Partial = len(out.Missing) > 0 || slices.ContainsFunc(out.Findings, func(f Finding) bool {
		return f.Kind != FindNote
	})
	return out
}

func (a *assembler) pairs(out *Answer) {
	for _, p := range a.in.clocks.pairs {
		r := p.intoA
		widths := a.in.clocks.boundsTo(p.b, p.a)
		for i, scale := 0, a.in.rateOf(p.a); i < len(widths); i++ {
			widths[i] = uint64(scaleUp(float64(widths[i]), scale))
		}
		pair := Pair{
			A: p.a, B: p.b, Wander_ppm: r.Wander.PPM(), LeastWander_ppm: r.Least.PPM(),
			Window_s: r.Declared.Window.Seconds(),
			Verdict:  r.Verdict.String(), Bounds_cycles: slices.Clone(widths),
		}
		if rate, err := r.Rate(r.Limits().Mid()); err == nil {
			pair.Rate = (rate.Lo.Float() + rate.Hi.Float()) / 2
		}
		if len(widths) > 0 {
			slices.Sort(widths)
			pair.Best_cycles, pair.Bound_cycles, pair.Worst_cycles = widths[0],
				widths[len(widths)/2], widths[len(widths)-1]
		}
		asked := cmp.Or(a.in.options.Wander, r.Declared.Wander)
		pair.Declared_ppm = asked.PPM()
		if p.suspect() {
			a.in.addFinding(FindSuspect, "the relation of %s and %s is suspect: its data need a "+
				"wander of at least %v, but %v was declared: what rests on it is an estimate",
				p.a, p.b, r.Least, asked)
		}
		out.Pairs = append(out.Pairs, pair)
	}
	audit := a.in.clocks.closure.Audit(auditReadings(len(a.in.nodes)))
	for _, d := range audit.Disagreements {
		a.in.addFinding(FindImpossible, "%v", d)
	}
	if len(audit.Accused) > 0 {
		whose := "its counter, or what it reported,"
		if len(audit.Accused) > 1 {
			whose = "the counter of one of them, or what it reported,"
		}
		a.in.addFinding(FindImpossible,
			"every path that disagrees with another leads over %s: %s is "+
				"wrong", strings.Join(audit.Accused, " and "), whose)
	}
	for _, name := range audit.Liars {
		a.in.addFinding(
			FindImpossible,
			"%s contradicts nodes that have nothing else in common: its counter, or what it "+
				"reported, is wrong", name)
	}
}

// auditReadings returns the number of readings at which each relation is compared with the
// relations over third nodes. With many nodes there are many relations, so each is checked at only
// one reading.
func auditReadings(nodes int) int {
	if nodes > maxClosed {
		return 1
	}
	return 16
}

func (a *assembler) channels(out *Answer) {
	for i := range a.told {
		t, s := &a.told[i], &a.in.sources[i]
		c := Channel{
			Name: s.name, Node: a.in.nodes[s.node].Name,
			Incarnation: fmt.Sprintf("%x", s.header.Incarnation),
			Handler:     s.header.Settings.String(),
			Rows:        t.rows, Poison: t.poison,
			Damage: len(t.report.Damage) + t.report.MoreDamage,
			Sealed: t.report.Sealed, Changes: t.changes, Disordered: t.disordered,
		}
		for k := range t.report.Rows {
			c.Unaccounted += t.report.Rows[k].MissingRows()
			for _, n := range t.report.Rows[k].Dropped {
				c.Dropped += n
			}
		}
		what := fmt.Sprintf("%s of node %s", s.name, c.Node)
		if t.err != nil {
			a.in.addFinding(FindDamage, "the log of %s cannot be read to its end: %v", what, t.err)
		}
		if c.Damage > 0 {
			places := "1 place"
			if c.Damage > 1 {
				places = fmt.Sprintf("%d places, first", c.Damage)
			}
			a.in.addFinding(FindDamage, "the log of %s is damaged in %s: %v", what, places,
				first(t.report.Damage))
		}
		if c.Unaccounted > 0 {
			a.in.addFinding(FindDamage, "the log of %s lacks %d rows that had been written", what,
				c.Unaccounted)
		}
		if c.Dropped > 0 {
			a.in.addFinding(FindUndecided,
				"the log of %s says that %d events were dropped: tuples "+
					"that seem lost may be among them", what, c.Dropped)
		}
		out.Channels = append(out.Channels, c)
	}
}

func first[E error](all []E) any {
	if len(all) == 0 {
		return "not kept"
	}
	return all[0]
}

func (a *assembler) points(out *Answer) {
	in, g := a.in, a.graph
	for r, p := range g.order {
		f := &a.found.points[r]
		point := Point{
			Name: in.points[p].String(), Actor: in.points[p].actor, Nodes: []string{},
			Source: g.ranksBefore[r] == 0, Sink: (g.ranksAfter[r] | g.asides>>r&1) == 0,
			Tuples: f.tuples, Duplicates: f.duplicates, Lost: f.lost,
			InFlight: f.inFlight() + f.unfinished, Appeared: f.appeared,
			Perhaps: f.perhapsEnds,
			PerBin:  make([]uint64, a.bins.Count),
		}
		mixed, off := false, uint64(0)
		for i := range a.told {
			s, t := &in.sources[i], &a.told[i]
			if s.point != p {
				continue
			}
			if name := in.nodes[s.node].Name; !slices.Contains(point.Nodes, name) {
				point.Nodes = append(point.Nodes, name)
			}
			point.Events += t.events
			point.Disordered += t.disordered
			mixed, off = mixed || t.tooMixed, off+t.offAxis
			for b, n := range t.perBin {
				if b < len(point.PerBin) {
					point.PerBin[b] += n
				}
			}
		}
		slices.Sort(point.Nodes)
		a.findAlone(r, &point)
		a.findSharedIDs(f, point.Name)
		// If the logs of later points keep only tuples that a rule chooses, a steady share of the
		// tuples seems to end here, although nothing filters them. In this case, whyUndecided
		// returns a reason.
		if a.whyUndecided(r) == "" && f.actsAsFilter(point.PerBin) {
			point.Filtered, point.Lost = point.Lost, 0
		}
		if off > 0 {
			in.addFinding(FindUndecided, "%d events at %s lie far from the time in which counters "+
				"were measured, or at an unknown time: what is shown over time lacks them", off,
				point.Name)
		}
		point.Completeness, point.Undecided = a.completeness(r, "").combineWith(a.in.ofRun()),
			a.whyUndecided(r)
		point.Rule = a.sampledByID(r)
		if mixed {
			in.addFinding(FindNote,
				"the ids at %s are of more than %d origins: whether they came in "+
					"order is not known", point.Name, maxOrigins)
		}
		out.Points = append(out.Points, point)
	}
}

// findAlone adds a finding if the tuples at a point were seen at no other point, or if some of them
// are unfinished.
func (a *assembler) findAlone(rank int, at *Point) {
	f := &a.found.points[rank]
	switch {
	case a.graph.lonelyRanks>>rank&1 != 0 && f.madeOfOthers > 0 && f.madeOfOthers == f.tuples:
		a.in.addFinding(FindUndecided,
			"the %d tuples at %s were made of others, and are %s: no later "+
				"event of theirs is logged", f.madeOfOthers, at.Name, a.unfinishedWord())
	case a.graph.lonelyRanks>>rank&1 != 0:
		a.in.addFinding(FindUndecided,
			"no tuple at %s is seen anywhere else: its ids match those of no "+
				"other point, so its events are counted, but no time is measured "+
				"from it or to it; "+
				"log at each point the id that the tuple has at all of them", at.Name)
	case f.unfinished > 0:
		a.in.addFinding(FindNote,
			"%d tuples in flight at %s were made of others, and are %s: no event "+
				"shows that they left %s", f.unfinished, at.Name, a.unfinishedWord(), at.Actor)
	}
}

// unfinishedWord is the word for tuples whose end no log shows.
func (a *assembler) unfinishedWord() string {
	if a.graph.lackingLogs != 0 || len(a.in.unseen)+len(a.in.silent) > 0 {
		return "unfinished or not logged"
	}
	return "unfinished"
}

// findSharedIDs adds findings about ids that begin at a point more than once.
func (a *assembler) findSharedIDs(f *pointFound, at string) {
	const guessed = "log the same ids, and which later events belong to which is guessed from " +
		"their times: give each"
	if f.shared.n > 0 {
		x, y := &a.in.sources[f.shared.logs[0]], &a.in.sources[f.shared.logs[1]]
		a.in.addFinding(FindUndecided,
			"%d ids begin at %s on %s and on %s: two programs %s program ids "+
				"of its own", f.shared.n, at, a.in.nodes[x.node].Name, a.in.nodes[y.node].Name,
			guessed)
	}
	if f.mixed.n > 0 {
		x, y := &a.in.sources[f.mixed.logs[0]], &a.in.sources[f.mixed.logs[1]]
		a.in.addFinding(FindUndecided,
			"%d ids begin at %s both in %s and in %s on %s: two programs or "+
				"instances %s ids of its own", f.mixed.n, at, x.name, y.name,
			a.in.nodes[x.node].Name, guessed)
	}
	lossy := a.graph.lackingLogs != 0
	if f.beginAgain > 0 && !lossy {
		a.in.addFinding(FindNote,
			"%d ids begin at %s more than once, each in one log: the program used "+
				"them again, and each time they are taken for another tuple", f.beginAgain, at)
	}
	if f.beginAgain > 0 && lossy {
		a.in.addFinding(FindUndecided,
			"%d ids begin at %s more than once, each in one log: the program "+
				"used them again, or logged an event again; as the logs lack events, which events "+
				"belong to one tuple is guessed from their times", f.beginAgain, at)
	}
}

func (a *assembler) counters(out *Answer) {
	for i := range a.told {
		samples := a.told[i].samples.keptSamples()
		if len(samples) == 0 {
			continue
		}
		s := &a.in.sources[i]
		if n := a.told[i].samples.backwards; n > 0 {
			a.in.addFinding(FindDamage,
				"%d samples of %s on node %s count less than one before, or "+
					"were taken before it: they are left out", n, s.name, a.in.nodes[s.node].Name)
		}
		c := Counter{
			Channel: s.name, Node: a.in.nodes[s.node].Name, Total: samples[len(samples)-1].Count,
			Periods: []Period{},
		}
		for k := 1; k < len(samples); k++ {
			x, y := samples[k-1], samples[k]
			p := Period{Count: y.Count - x.Count}
			if at, _, err := a.timer.placeEvent(i, x.Counter); err == nil {
				p.From_cycles = Reading(at.Mid())
			}
			if d, err := a.timer.durationBetween(i, i, x.Counter, y.Counter); err == nil {
				p.Length = intervalOf(d.Elapsed)
			}
			c.Periods = append(c.Periods, p)
		}
		out.Counters = append(out.Counters, c)
	}
}
