package analysis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func (in *input) workers() int {
	if in.options.Events != nil || in.options.Durations != nil {
		return 1
	}
	if in.options.Workers > 0 {
		return in.options.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// Run analyzes a run. The error wraps ErrNothing, ErrScratch, the context's cause, or what the
// options' functions return. What is missing or damaged is part of the answer and not an error.
func Run(ctx context.Context, dir *runs.Directory, o Options) (answer *Answer, err error) {
	began := time.Now()
	if err := o.defaults(); err != nil {
		return nil, err
	}
	fail := func(err error) (*Answer, error) {
		return nil, fmt.Errorf("analyze run %q: %w", dir.Run.Name, err)
	}
	in, err := openInput(dir, o)
	if err != nil {
		return fail(err)
	}
	if len(in.nodes) == 0 {
		return fail(fmt.Errorf("it names no nodes: %w", ErrNothing))
	}
	if in.clocks.reference < 0 {
		return fail(fmt.Errorf("it has no log that can be read: %s: %w", missingText(in.missing),
			ErrNothing))
	}
	t := newTimer(in)
	if err := in.resolveFilter(); err != nil {
		return fail(err)
	}
	bins, axes := in.axes(t)
	temporary := cmp.Or(o.Scratch, os.TempDir())
	s := newScratch(temporary, o.Memory_bytes/2, o.Scratch_bytes)
	defer func() { err = errors.Join(err, s.close()) }()
	all, err := in.scatter(ctx, s, axes)
	if err != nil {
		return fail(err)
	}
	g, err := in.sample(ctx, all, axes)
	if err != nil {
		return fail(err)
	}
	l := in.newLineage(s, all)
	f, err := in.gather(ctx, all, g, axes, l)
	if err != nil {
		return fail(err)
	}
	if l != nil {
		w := in.newGatherer(g, axes)
		if err := l.follow(ctx, all, w); err != nil {
			return fail(err)
		}
		f.merge(&w.found, o.Slowest)
		if w.orphans > 0 {
			in.find(FindUndecided, "%d tuples that were made of others came to the end, but "+
				"where those others began is not known", w.orphans)
		}
	}
	trips, err := in.returnTrips(ctx, all, g, axes)
	if err != nil {
		return fail(err)
	}
	in.progress(1, "done")
	a := &assembler{
		in: in, graph: g, found: f, told: all.told, timer: t, bins: bins, returns: trips,
	}
	answer = a.answer()
	answer.Work = Work{
		Tuples: f.tuples, Seconds: time.Since(began).Seconds(), Scratch_bytes: s.used.Load(),
	}
	if o.Filter.any() && f.tuples == 0 && answer.Length == nil && len(answer.Counters) == 0 {
		answer.Comparisons = nil // they are about the time of tuples
		answer.Missing = append(answer.Missing, Missing{
			Part: "tuples",
			Reason: "no tuple of the run is among those chosen by time, node, channel or id: " +
				"choose more",
		})
		answer.Partial = true
	}
	for i := range all.told {
		if in.sources[i].trip == noTrip {
			answer.Work.Events += all.told[i].events
		}
	}
	return answer, nil
}

func missingText(missing []runs.Missing) string {
	if len(missing) == 0 {
		return "there is none"
	}
	var parts []string
	for _, m := range missing[:min(len(missing), 3)] {
		parts = append(parts, m.String())
	}
	return strings.Join(parts, "; ")
}

// resolveFilter converts the filter's UTC times to cycles of the reference.
func (in *input) resolveFilter() error {
	f := &in.options.Filter
	if f.To_utc_ns == 0 {
		return nil
	}
	n := in.nodes[in.clocks.reference]
	h, known := in.referenceHeader()
	if !known || n.FrequencyHi_hz == 0 {
		return fmt.Errorf("choose tuples by UTC: no log of reference node %q says how its "+
			"counter and UTC relate, or its frequency is not known: choose by cycles", n.Name)
	}
	// Rounded outward: what may lie within the times is chosen.
	e := float64(n.described.CoreSlackCycles + n.described.QuantumCycles +
		h.Stamp.OrderingSlack_cycles())
	cycles := func(ns int64, hz float64) float64 { return float64(ns) * hz / 1e9 }
	least := func(ns int64) float64 {
		return min(cycles(ns, n.FrequencyLo_hz), cycles(ns, n.FrequencyHi_hz))
	}
	most := func(ns int64) float64 {
		return max(cycles(ns, n.FrequencyLo_hz), cycles(ns, n.FrequencyHi_hz))
	}
	f.From_cycles = shifted(h.Counter, math.Floor(least(f.From_utc_ns-h.UTCHi_ns))-e)
	f.To_cycles = shifted(h.Counter, math.Ceil(most(f.To_utc_ns-h.UTCLo_ns))+e)
	f.To_cycles = max(f.To_cycles, 1)
	return nil
}

// referenceHeader is the header of any log of the reference node, even one that was not chosen.
func (in *input) referenceHeader() (logstore.Header, bool) {
	for _, s := range in.sources {
		if s.node == in.clocks.reference {
			return s.header, true
		}
	}
	logs, _ := in.run.Logs()
	for _, l := range logs {
		for _, s := range l.Segments {
			if l.Node != in.nodes[in.clocks.reference].node {
				break
			}
			f, err := logstore.OpenFile(s.Path)
			if err != nil {
				continue
			}
			h := f.Header()
			f.Close()
			if in.nodeOf(l.Node, h.Epoch) == in.clocks.reference {
				return h, true
			}
		}
	}
	return logstore.Header{}, false
}

// shifted is c + d, limited to the range of a counter.
func shifted(c uint64, d float64) uint64 {
	switch {
	case d < 0 && -d >= float64(c):
		return 0
	case d < 0:
		return c - uint64(-d)
	case d >= float64(math.MaxUint64-c):
		return math.MaxUint64
	}
	return c + uint64(d)
}

// assembler makes an Answer of what was found.
type assembler struct {
	in    *input
	graph *graph
	found *found
	told  []told
	timer *timer
	bins  Bins

	returns *returns
}

func (a *assembler) answer() *Answer {
	in := a.in
	r := in.nodes[in.clocks.reference]
	out := &Answer{
		Version: AnswerVersion, Run: in.run.Run.Name, Note: in.run.Run.Note,
		Complete: in.run.Complete, Bins: a.bins,
		Reference: Reference{
			Node: r.Name, Chosen: in.options.Reference == "" && in.run.Run.Reference == "",
			FrequencyLo_hz: r.FrequencyLo_hz, FrequencyHi_hz: r.FrequencyHi_hz,
			Source: r.FrequencySource,
		},
		Nodes: []Node{}, Pairs: []Pair{}, ThirdNodes: in.options.ThirdNodes, Points: []Point{},
		Channels: []Channel{}, Legs: []Leg{}, EndToEnd: []Leg{}, Routes: []Route{},
	}
	for _, n := range in.nodes {
		out.Nodes = append(out.Nodes, Node{
			Name: n.Name, ID: n.ID, Epoch: n.Epoch, Quantum_cycles: n.described.QuantumCycles,
			CoreSlack_cycles: n.described.CoreSlackCycles,
			FrequencyLo_hz:   n.FrequencyLo_hz, FrequencyHi_hz: n.FrequencyHi_hz,
			Virtual: n.Virtual,
			Facts:   n.Facts, Left: n.Left,
		})
	}
	a.pairs(out)
	a.channels(out)
	a.points(out)
	a.legs(out)
	a.routes(out)
	out.Held = in.heldInAll(out)
	out.Length = a.length()
	a.counters(out)
	out.ReturnTrips = a.returns.answer(in)
	out.Comparisons = in.compare(a.bins, a.returns)
	for _, s := range a.found.slowest {
		out.Slowest = append(out.Slowest, a.way(s))
	}
	if n := a.found.blind; n > 0 {
		first, last := bits.TrailingZeros64(a.found.apart), 63-bits.LeadingZeros64(a.found.apart)
		in.find(FindUndecided, "%d tuples pass points whose order is not known, such as %s and "+
			"%s, because none of %d sampled tuples passed both: nothing is measured between "+
			"them; declare the edges",
			n, in.points[a.graph.order[first]], in.points[a.graph.order[last]], sampleTuples)
	}
	if n := a.found.overused; n > 0 {
		in.find(FindUndecided, "%d ids occur more than %d times each, as in a program that logs "+
			"one id for everything: their events are counted, but no durations are measured "+
			"between them",
			n, maxCopies)
	}
	for _, b := range a.found.backs {
		from, to := in.points[a.graph.order[b.leg.from]], in.points[a.graph.order[b.leg.to]]
		in.find(FindImpossible, "tuple %d was at %s on %s surely after it was at %s on %s (%v "+
			"cycles): an assumption is broken, or its id is not unique",
			b.id, from, in.nodes[b.a].Name, to, in.nodes[b.b].Name, b.span)
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
			widths[i] = uint64(scaled(float64(widths[i]), scale))
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
		if r.Verdict == tscratio.Suspect || p.intoB.Verdict == tscratio.Suspect {
			a.in.find(FindSuspect, "the relation of %s and %s is suspect: its data need a "+
				"wander of at least %v, but %v was declared: what rests on it is an estimate",
				p.a, p.b, r.Least, asked)
		}
		out.Pairs = append(out.Pairs, pair)
	}
	audit := a.in.clocks.closure.Audit(auditReadings(len(a.in.nodes)))
	for _, d := range audit.Disagreements {
		a.in.find(FindImpossible, "%v", d)
	}
	if len(audit.Disagreements) > 1 && len(audit.Accused) > 0 {
		a.in.find(
			FindImpossible,
			"%s is in all disagreements between paths: its counter, or what it reported, is wrong",
			strings.Join(audit.Accused, " and "))
	}
}

// auditReadings is at how many readings third nodes are checked against each relation. With many
// nodes it is few.
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
			a.in.find(FindDamage, "the log of %s cannot be read to its end: %v", what, t.err)
		}
		if c.Damage > 0 {
			places := "1 place"
			if c.Damage > 1 {
				places = fmt.Sprintf("%d places, first", c.Damage)
			}
			a.in.find(FindDamage, "the log of %s is damaged in %s: %v", what, places,
				first(t.report.Damage))
		}
		if c.Unaccounted > 0 {
			a.in.find(FindDamage, "the log of %s lacks %d rows that had been written", what,
				c.Unaccounted)
		}
		if c.Dropped > 0 {
			a.in.find(FindUndecided, "the log of %s says that %d events were dropped: tuples "+
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
			Source: g.before[r] == 0, Sink: g.after[r] == 0,
			Tuples: f.tuples, Duplicates: f.duplicates, Lost: f.lost, InFlight: f.inFlight(),
			Appeared: f.appeared, PerBin: make([]uint64, a.bins.Count),
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
		if off > 0 {
			in.find(FindUndecided, "%d events at %s lie far from the time in which counters "+
				"were measured, or at an unknown time: what is shown over time lacks them", off,
				point.Name)
		}
		point.Undecided = a.undecided(r)
		if mixed {
			in.find(FindNote, "the ids at %s are of more than %d origins: whether they came in "+
				"order is not known", point.Name, maxOrigins)
		}
		out.Points = append(out.Points, point)
	}
}

// undecided says why it is not known whether tuples that end at a point are lost.
func (a *assembler) undecided(r int) string {
	var why []string
	if f := &a.found.points[r]; a.graph.after[r] != 0 && f.lost+f.inFlight() > 0 {
		for _, n := range a.in.silent {
			why = append(why, fmt.Sprintf("no log of node %s is there", n))
		}
		for rest := a.graph.after[r]; rest != 0; rest &= rest - 1 {
			if reason := a.in.unseen[a.in.points[a.graph.order[bits.TrailingZeros64(
				rest)]]]; reason != "" {
				why = append(why, reason)
			}
		}
	}
	for i := range a.told {
		s, t := &a.in.sources[i], &a.told[i]
		if s.point < 0 || a.graph.after[r]>>a.graph.rank[s.point]&1 == 0 {
			continue
		}
		switch {
		case t.thins != "" && t.thins != a.thinsAt(r):
			why = append(why, fmt.Sprintf("%s keeps only %s", s.name, t.thins))
		case t.err != nil || !t.report.Whole():
			why = append(why, fmt.Sprintf("the log of %s is not whole", s.name))
		default:
			for k := range t.report.Rows {
				if len(t.report.Rows[k].Dropped) > 0 {
					why = append(why, fmt.Sprintf("%s dropped events", s.name))
					break
				}
			}
		}
	}
	slices.Sort(why)
	return strings.Join(slices.Compact(why), "; ")
}

func (a *assembler) thinsAt(r int) string {
	for i := range a.told {
		if a.graph.rankOf(&a.in.sources[i]) == r {
			return a.told[i].thins
		}
	}
	return ""
}

func (a *assembler) legs(out *Answer) {
	keys := make([]legKey, 0, len(a.found.legs))
	for k, l := range a.found.legs {
		if slices.ContainsFunc(l.parts, func(p *legPart) bool { return p != nil }) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y legKey) int {
		return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to),
			cmp.Compare(x.kind, y.kind))
	})
	// unplaced counts spans with durations that could not be computed; most is the largest number
	// of these in one span.
	var unplaced, most uint64
	var mostOf string
	for _, k := range keys {
		if a.found.legs[k].again {
			continue
		}
		leg := a.leg(a.found.legs[k])
		if leg.All.After > 0 {
			a.in.find(FindImpossible, "%d tuples were surely at %s before they were at %s",
				leg.All.After, leg.To, leg.From)
		}
		if leg.All.Unplaced > 0 {
			unplaced++
			if n := leg.All.Unplaced; n > most {
				most, mostOf = n, leg.From+" to "+leg.To
			}
		}
		if k.kind == between {
			out.Legs = append(out.Legs, leg)
		} else {
			out.EndToEnd = append(out.EndToEnd, leg)
		}
	}
	switch unplaced {
	case 0:
	case 1:
		a.in.find(
			FindUndecided,
			"%d durations from %s could not be computed: their nodes are not related at that time",
			most, mostOf)
	default:
		a.in.find(FindUndecided, "durations of %d spans could not be computed, such as %d "+
			"from %s: their nodes are not related at that time", unplaced, most, mostOf)
	}
}

func (a *assembler) leg(l *leg) Leg {
	in := a.in
	p, q := in.points[a.graph.order[l.key.from]], in.points[a.graph.order[l.key.to]]
	out := Leg{
		From: p.String(), To: q.String(), Kind: kindOf(l.key.kind, p, q), Pairs: []NodePair{},
		OverTime: []BinDurations{},
	}
	switch l.key.kind {
	case fromEarliest:
		out.Origin = "earliest"
	case fromLatest:
		out.Origin = "latest"
	}
	if whole := a.found.legs[legKey{l.key.from, l.key.to, wholeWay}]; l.key.kind == between &&
		whole != nil && whole.again {
		for _, part := range whole.parts {
			if part != nil {
				out.Whole += part.n
			}
		}
	}
	all, local, remote := newLegPart(in.options.exactValues), newLegPart(in.options.exactValues),
		newLegPart(in.options.exactValues)
	for i, part := range l.parts {
		if part == nil {
			continue
		}
		from, to := i/len(in.nodes), i%len(in.nodes)
		out.Pairs = append(out.Pairs, NodePair{
			in.nodes[from].Name, in.nodes[to].Name, durations(part),
		})
		all.merge(part)
		if from == to {
			local.merge(part)
		} else {
			remote.merge(part)
		}
	}
	out.All = durations(all)
	for _, group := range []struct {
		part *legPart
		into **Durations
	}{{local, &out.Local}, {remote, &out.Remote}} {
		if group.part.n+group.part.unplaced > 0 {
			d := durations(group.part)
			*group.into = &d
		}
	}
	for i, b := range l.bins {
		if b != nil {
			out.OverTime = append(out.OverTime, BinDurations{
				i, b.n, intervalOf(b.percentile(50_000)), intervalOf(b.percentile(99_000)),
			})
		}
	}
	return out
}

// kindOf is a span's kind in words.
func kindOf(k legKind, p, q point) string {
	switch {
	case k != between:
		return "end-to-end"
	case p.actor != q.actor:
		return "transfer"
	case p.name == "start" && q.name == "end", p.name == "recv" && q.name == "send":
		return "computation"
	}
	return "inside"
}

func durations(p *legPart) Durations {
	d := Durations{
		Count: p.n, Percentiles: Percentiles{}, Bounds: []BoundPercentile{},
		Scenarios: map[string]uint64{}, Lows: []Bin{}, Highs: []Bin{}, Widths: []Bin{},
		Suspect: p.suspect, Unplaced: p.unplaced, After: p.orders[0], Undecided: p.orders[1],
		Before: p.orders[2], Held: p.held.held(),
	}
	for s, n := range p.scenarios {
		if n > 0 {
			d.Scenarios[tscratio.Scenario(s).String()] = n
		}
	}
	if p.n == 0 {
		return d
	}
	for i, s := range p.percentiles(percents_milli) {
		d.Percentiles = append(d.Percentiles, Percentile{
			float64(percents_milli[i]) / 1000, intervalOf(s),
		})
	}
	for i, b := range p.bounds(percents_milli) {
		d.Bounds = append(d.Bounds, BoundPercentile{float64(percents_milli[i]) / 1000, b})
	}
	d.Mean = Interval{p.sumLo.over(p.n), p.sumHi.up(p.n)}
	d.Min, d.Max = intervalOf(p.least), intervalOf(p.largest)
	d.Lows, d.Highs, d.Widths = p.plots()
	return d
}

// plots are the ends and half-widths in coarse bins.
func (d *distribution) plots() (lows, highs, widths []Bin) {
	if d.lo != nil {
		return coarseBins(d.lo), coarseBins(d.hi), coarseBins(d.bound)
	}
	var lo, hi, bound counts
	for _, s := range d.exact {
		lo.add(s.Lo)
		hi.add(s.Hi)
		bound.add(int64(min(halfWidth(s), math.MaxInt64)))
	}
	return coarseBins(&lo), coarseBins(&hi), coarseBins(&bound)
}

func coarseBins(c *counts) []Bin {
	bins := []Bin{}
	c.each(func(lo, hi int64, n uint64) bool {
		var from, to int64
		if lo >= 0 {
			from, to = coarseEdges(coarse(lo))
		} else {
			b, t := coarseEdges(coarse(^hi))
			from, to = ^t, ^b
		}
		if k := len(bins) - 1; k >= 0 && bins[k].Lo_cycles == from {
			bins[k].Count += n
			return true
		}
		bins = append(bins, Bin{from, to, n})
		return true
	})
	return bins
}

// way is a tuple's whole path.
func (a *assembler) way(s slow) Way {
	w := Way{ID: Reading(s.id), Total: intervalOf(s.total)}
	for i, e := range s.way {
		src := &a.in.sources[e.source]
		p := Passed{
			Point: a.in.points[src.point].String(), Channel: src.name,
			Node: a.in.nodes[src.node].Name, Reading: Reading(e.reading),
		}
		if d, err := a.timer.between(int(s.way[0].source), int(e.source), s.way[0].reading,
			e.reading); err == nil {
			p.At, p.Verdict = intervalOf(d.Span), d.Verdict.String()
		}
		if i > 0 {
			before := s.way[i-1]
			if d, err := a.timer.between(int(before.source), int(e.source), before.reading,
				e.reading); err == nil {
				since := intervalOf(d.Span)
				p.Since = &since
			}
		}
		w.Passed = append(w.Passed, p)
	}
	return w
}

// length is the time from the first tuple to the end, over all channels that record these. The span
// holds the time between every two of them, so it does not matter which was first.
func (a *assembler) length() *RunLength {
	var out *RunLength
	poison := slices.ContainsFunc(a.told, func(t told) bool { return t.firstLast.Poison != 0 })
	var worst tscratio.Verdict
	for i := range a.told {
		if a.told[i].firstLast.Count == 0 {
			continue
		}
		for j := range a.told {
			end := a.told[j].firstLast.Poison
			if !poison && a.told[j].firstLast.Count > 0 {
				end = a.told[j].firstLast.LastCounter
			}
			if end == 0 {
				continue
			}
			d, err := a.timer.between(i, j, a.told[i].firstLast.FirstCounter, end)
			if err != nil {
				continue
			}
			worst = max(worst, d.Verdict)
			if out == nil {
				out = &RunLength{Interval: intervalOf(d.Span), Poison: poison}
			}
			if d.Lo >= out.Lo_cycles {
				from, to := &a.in.sources[i], &a.in.sources[j]
				out.From, out.To = from.name+" on "+a.in.nodes[from.node].Name,
					to.name+" on "+a.in.nodes[to.node].Name
			}
			out.Lo_cycles, out.Hi_cycles = max(out.Lo_cycles, d.Lo), max(out.Hi_cycles, d.Hi)
		}
	}
	if out == nil {
		return nil
	}
	out.Verdict = worst.String()
	// The end of the job is the channels that no other first-last channel follows.
	last := -1
	for i := range a.told {
		if a.told[i].firstLast.Count > 0 {
			last = max(last, a.graph.rankOf(&a.in.sources[i]))
		}
	}
	for i := range a.told {
		if a.graph.rankOf(&a.in.sources[i]) == last {
			out.Tuples += a.told[i].firstLast.Count
		}
	}
	return out
}

func (a *assembler) counters(out *Answer) {
	for i := range a.told {
		samples := a.told[i].samples.all()
		if len(samples) == 0 {
			continue
		}
		s := &a.in.sources[i]
		if n := a.told[i].samples.backwards; n > 0 {
			a.in.find(FindDamage, "%d samples of %s on node %s count less than one before, or "+
				"were taken before it: they are left out", n, s.name, a.in.nodes[s.node].Name)
		}
		c := Counter{
			Channel: s.name, Node: a.in.nodes[s.node].Name, Total: samples[len(samples)-1].Count,
			Periods: []Period{},
		}
		for k := 1; k < len(samples); k++ {
			x, y := samples[k-1], samples[k]
			p := Period{Count: y.Count - x.Count}
			if at, _, err := a.timer.place(i, x.Counter); err == nil {
				p.From_cycles = Reading(at.Mid())
			}
			if d, err := a.timer.between(i, i, x.Counter, y.Counter); err == nil {
				p.Length = intervalOf(d.Span)
			}
			c.Periods = append(c.Periods, p)
		}
		out.Counters = append(out.Counters, c)
	}
}
