package analysis

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// ReturnTrips are durations from one node to another, each computed twice. One method uses the
// acknowledgement that came back over the network (ReT). The other uses the related counters.
// Package returntrip logs the events.
type ReturnTrips struct {
	From     string `json:"from"` // actor that tuples leave
	To       string `json:"to"`   // actor where they arrive
	FromNode string `json:"from_node"`
	ToNode   string `json:"to_node"`

	// Unanswered counts tuples that left and arrived, but for which a packet was lost: the
	// acknowledgement, or the echo that answers the acknowledgement.
	Unanswered uint64 `json:"unanswered"`
	Disagree   uint64 `json:"disagree"` // tuples whose two intervals do not overlap: must be 0

	// Let start be the round trip that was measured on the node that a tuple left, and end the
	// round trip that was measured on the node where it arrived. The tuple took between start − end
	// and start. So the half-width of ByReturnTrip is half of end, as ReT claims.
	ByReturnTrip Durations `json:"by_return_trip"`
	ByCounters   Durations `json:"by_counters"`

	OverTime []BinTrips `json:"over_time"` // each trip in the bin of the time when the tuple left
}

// BinTrips has the medians over one bin, rounded outward by up to 1/16.
type BinTrips struct {
	Bin                      int      `json:"bin"`
	Count                    uint64   `json:"count"`
	ByReturnTrip             Interval `json:"by_return_trip"`
	ByCounters               Interval `json:"by_counters"`
	BoundByReturnTrip_cycles int64    `json:"bound_by_return_trip_cycles"`
	BoundByCounters_cycles   int64    `json:"bound_by_counters_cycles"`
}

// tripEvent says which of the four moments of a return trip an event is. sent and acknowledged are
// on the node that the tuple left. arrived and echoed are on the node where it arrived.
type tripEvent uint8

const (
	noTrip tripEvent = iota
	tripSent
	tripArrived
	tripAcknowledged
	tripEchoed
	tripEvents
	// jvmPaused is an event of a JVM's pauses, and no part of a return trip.
	jvmPaused
)

// tripPoints are the points at which package returntrip opens its channels.
// TestPointsAreThoseOfChannels compares tripPoints with that package.
var tripPoints = map[string]tripEvent{
	"ret-sent": tripSent, "ret-arrived": tripArrived, "ret-acknowledged": tripAcknowledged,
	"ret-echoed": tripEchoed,
}

// tripOf says which moment of a return trip a channel logs. The channel's point decides this.
func tripOf(point string) tripEvent {
	if point == pausePoint {
		return jvmPaused
	}
	return tripPoints[point]
}

type tripKey struct {
	from, to         string // actors
	fromNode, toNode int
}

func (k tripKey) compare(l tripKey) int {
	return cmp.Or(cmp.Compare(k.from, l.from), cmp.Compare(k.to, l.to),
		cmp.Compare(k.fromNode, l.fromNode), cmp.Compare(k.toNode, l.toNode))
}

// tripGroup sums up the return trips that have the same key.
type tripGroup struct {
	unanswered, disagree uint64

	trips, counters tripSide
	id              uint64              // id of the first tuple whose intervals do not overlap
	claimIntervals  [2]tscratio.Elapsed // the intervals of that tuple, by trip and by counters
}

// tripSide has the durations that one of the two methods gives.
type tripSide struct {
	part   *spanPart
	span   span // the durations over time
	widths span // the half-widths over time
}

func (s *tripSide) add(d *tscratio.Duration, x uint64, axis *axis) {
	s.span.add(s.part, []tscratio.Elapsed{d.Elapsed}, d, []uint64{x}, axis)
	bin, on := axis.bin(x)
	if !on {
		return
	}
	width := int64(halfWidth(d.Elapsed))
	b := s.widths.histogramOf(bin)
	b.n++
	b.lo[coarseBucket(width)]++
	b.hi[coarseBucket(width)]++
}

// returnJoiner joins return trips and groups the results by key. Only one goroutine may use it.
type returnJoiner struct {
	w      *gatherer
	groups map[tripKey]*tripGroup
	unsent uint64 // tuples that arrived, but whose departure no log shows
	// ambiguous counts tuples whose id left twice, or whose events of one kind are on several
	// nodes.
	ambiguous uint64
}

// returnTrips joins the events of return trips.
func (in *input) returnTrips(ctx context.Context, s *scatteredLogs, g *graph,
	axes []axis) (*returnJoiner, error) {
	r := &returnJoiner{groups: map[tripKey]*tripGroup{}}
	if s.returns == nil {
		return r, nil
	}
	r.w = in.newGatherer(g, axes)
	events := &scatteredLogs{events: s.returns}
	for p := range s.returns.partitions() {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		if err := r.w.load(events, p, false); err != nil {
			return nil, err
		}
		r.w.eachID(r.joinTuple)
	}
	for _, k := range slices.SortedFunc(maps.Keys(r.groups), tripKey.compare) {
		if g := r.groups[k]; g.disagree > 0 {
			in.addFinding(FindImpossible,
				"of %d tuples from %s on %s to %s on %s the return trip and "+
					"the related counters contradict each other, as for tuple %d with %v and %v "+
					"cycles: an assumption is broken, or an id is not unique",
				g.disagree, k.from, in.nodes[k.fromNode].Name, k.to, in.nodes[k.toNode].Name, g.id,
				g.claimIntervals[0], g.claimIntervals[1])
		}
	}
	if r.unsent > 0 {
		in.addFinding(FindNote,
			"the arrival of %d tuples was acknowledged, but no log says that they left", r.unsent)
	}
	if r.ambiguous > 0 {
		in.addFinding(FindNote,
			"the return trips of %d tuples are not counted: their ids left twice, "+
				"or arrived at several nodes", r.ambiguous)
	}
	return r, nil
}

// joinTuple joins all events of an id. If a packet or the tuple arrived more than once on one node,
// a moment has several events, and the earliest is used. This is safe: no acknowledgement precedes
// the first arrival, and no echo precedes the first acknowledgement.
func (r *returnJoiner) joinTuple(id uint64, events []passage) {
	var first [tripEvents]passage
	var times [tripEvents]int
	ambiguous := false
	for _, e := range events {
		k := r.w.in.sources[e.source].trip
		if times[k]++; times[k] == 1 {
			first[k] = e
			continue
		}
		ambiguous = ambiguous || k == tripSent || r.node(e) != r.node(first[k])
		if e.reading < first[k].reading {
			first[k] = e
		}
	}
	// A tuple that did not arrive is not counted: a filter may have dropped it.
	if times[tripSent] == 0 || times[tripArrived] == 0 {
		if times[tripArrived] > 0 {
			r.unsent++
		}
		return
	}
	if f := &r.w.in.options.Filter; f.To_cycles != 0 && !r.w.beginsInTime(first[tripSent]) {
		return
	}
	whole := times[tripAcknowledged] > 0 && times[tripEchoed] > 0
	if ambiguous || whole && (r.node(first[tripAcknowledged]) != r.node(first[tripSent]) ||
		r.node(first[tripEchoed]) != r.node(first[tripArrived])) {
		r.ambiguous++
		return
	}
	g := r.group(first[tripSent], first[tripArrived])
	if !whole {
		g.unanswered++
		return
	}
	r.measure(g, id, &first)
}

func (r *returnJoiner) node(e passage) int { return r.w.in.sources[e.source].node }

func (r *returnJoiner) group(from, to passage) *tripGroup {
	actor := func(e passage) string { return r.w.in.sources[e.source].segments[0].Channel.Actor }
	k := tripKey{actor(from), actor(to), r.node(from), r.node(to)}
	g := r.groups[k]
	if g == nil {
		most := r.w.in.options.exactValues
		g = &tripGroup{
			trips: tripSide{part: newSpanPart(most)}, counters: tripSide{part: newSpanPart(most)},
		}
		r.groups[k] = g
	}
	return g
}

// measure computes a duration by both methods.
func (r *returnJoiner) measure(g *tripGroup, id uint64, e *[tripEvents]passage) {
	between := func(x, y tripEvent) (tscratio.Duration, error) {
		return r.w.timer.durationBetween(int(e[x].source), int(e[y].source), e[x].reading,
			e[y].reading)
	}
	trip, err := between(tripSent, tripAcknowledged)
	back, err2 := between(tripArrived, tripEchoed)
	counters, err3 := between(tripSent, tripArrived)
	axis := &r.w.axes[r.node(e[tripSent])]
	if err != nil || err2 != nil {
		g.trips.part.unplaced++
	} else {
		trip.Lo -= back.Hi
		trip.Verdict = max(trip.Verdict, back.Verdict)
		if back.Hi >= 0 {
			g.trips.add(&trip, e[tripSent].reading, axis)
			r.checkTruth(g.trips.part, trip.Elapsed, e)
		}
	}
	if err3 != nil {
		g.counters.part.unplaced++
	} else {
		g.counters.add(&counters, e[tripSent].reading, axis)
		r.checkTruth(g.counters.part, counters.Elapsed, e)
	}
	if err == nil && err2 == nil &&
		(back.Hi < 0 || err3 == nil && (trip.Hi < counters.Lo || counters.Hi < trip.Lo)) {
		if g.disagree++; g.disagree == 1 {
			g.id, g.claimIntervals = id, [2]tscratio.Elapsed{trip.Elapsed, counters.Elapsed}
		}
	}
}

// checkTruth compares the interval of a return trip with the truth.
func (r *returnJoiner) checkTruth(p *spanPart, s tscratio.Elapsed, e *[tripEvents]passage) {
	r.w.in.checkTruth(p, r.node(e[tripSent]), r.node(e[tripArrived]), []tscratio.Elapsed{s},
		[]uint64{e[tripSent].reading}, []uint64{e[tripArrived].reading})
}

// sumHeld sums up how the return trips between two nodes, in both directions, compare with the
// truth. nil: the truth is not known.
func (r *returnJoiner) sumHeld(in *input, a, b string) (h *Held) {
	for k, g := range r.groups {
		if x, y := in.nodes[k.fromNode].Name,
			in.nodes[k.toNode].Name; (x == a && y == b || x == b && y == a) &&
			g.trips.part.held != nil {
			if h == nil {
				h = new(Held)
			}
			h.Merge(&g.trips.part.held.Held)
		}
	}
	return h
}

// durationsByKey returns the durations that the return trips give, by key.
func (r *returnJoiner) durationsByKey(in *input) []ReturnTrips {
	var all []ReturnTrips
	for _, k := range slices.SortedFunc(maps.Keys(r.groups), tripKey.compare) {
		g := r.groups[k]
		t := ReturnTrips{
			From: k.from, To: k.to, FromNode: in.nodes[k.fromNode].Name,
			ToNode: in.nodes[k.toNode].Name, Unanswered: g.unanswered,
			Disagree: g.disagree, ByReturnTrip: durations(g.trips.part),
			ByCounters: durations(g.counters.part), OverTime: []BinTrips{},
		}
		for i, b := range g.trips.span.bins {
			if b == nil {
				continue
			}
			bin := BinTrips{
				Bin: i, Count: b.n, ByReturnTrip: intervalOf(b.percentile(50_000)),
				BoundByReturnTrip_cycles: g.trips.widths.bins[i].percentile(50_000).Hi,
			}
			if i < len(g.counters.span.bins) && g.counters.span.bins[i] != nil {
				bin.ByCounters = intervalOf(g.counters.span.bins[i].percentile(50_000))
				bin.BoundByCounters_cycles = g.counters.widths.bins[i].percentile(50_000).Hi
			}
			t.OverTime = append(t.OverTime, bin)
		}
		all = append(all, t)
	}
	return all
}

// medianBounds returns, for each bin of time, the median bound that the return trips between two
// nodes claim. It combines the return trips of both directions.
func (r *returnJoiner) medianBounds(in *input, a, b string, bins int) Column {
	var widths span
	for k, g := range r.groups {
		if x, y := in.nodes[k.fromNode].Name, in.nodes[k.toNode].Name; x == a && y == b ||
			x == b && y == a {
			for i, bin := range g.trips.widths.bins {
				if bin != nil {
					widths.histogramOf(i).merge(bin)
				}
			}
		}
	}
	column := emptyColumn(bins)
	for i, b := range widths.bins {
		if b != nil && i < bins {
			column[i] = min(b.percentile(50_000).Hi, mostBound_cycles)
		}
	}
	return column
}
