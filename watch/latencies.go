package watch

import (
	"math/bits"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// path is a tuple with its events. A point's rank is the number of its bit in masks. The field mask
// has the bits of the tuple's points, and events are in the order of these ranks.
type path struct {
	id     uint64
	mask   uint64
	events []passedEvent
}

// passedEvent is an event of a path.
type passedEvent struct {
	event
	rank      int
	readingAt tscratio.Interval // the event, on the reference's counter
	isPlaced  bool              // true if the field readingAt is known
}

func (t *path) of(rank int) passedEvent { return t.events[bits.OnesCount64(t.mask&(1<<rank-1))] }

// At most evidenceTuples tuples decide the order of points. The order is derived again when the
// relations change, and after orderEvery.
const (
	evidenceTuples = 1000
	orderEvery     = time.Second
)

// computeLatencies computes the durations of the window's tuples.
func (p *painter) computeLatencies() {
	p.chooseRanks()
	paths := p.pathsInWindow()
	order := p.v.order
	if order.version != p.v.clocks.version || p.now.Sub(order.derivedAt) >= orderEvery ||
		!slices.Equal(order.points, p.ranks) {
		e := &evidence{points: p.ranks}
		for _, t := range paths[:min(len(paths), evidenceTuples)] {
			e.add(t.events)
		}
		order = e.order()
		order.derivedAt, order.version = p.now, p.v.clocks.version
		p.v.order = order
	}
	spans := map[legKey]*Span{}
	for i := range paths {
		p.measure(order, spans, &paths[i])
	}
	for _, l := range spans {
		if l.Tuples = len(l.spread.los); l.Tuples > 0 {
			l.spread.sort()
			l.P50, l.P99 = l.spread.at(50, &p.Reference), l.spread.at(99, &p.Reference)
			l.Estimate = l.spread.estimate
		}
		p.Spans = append(p.Spans, *l)
	}
	p.sortSpans()
}

// pathsInWindow returns the tuples of the sample with an event in the window.
func (p *painter) pathsInWindow() (all []path) {
	events := p.v.passed[:0] // the events of all paths
	for id, t := range p.v.tuples {
		// Leave a tuple out if it has too few events, if perhaps not all nodes sampled its id, or
		// if it ended before the window began.
		if len(t.events) < 2 || channel.SampleDepth(id) < p.depthSince(t.since) ||
			p.now.Sub(t.at) > p.v.window+2*silent {
			continue
		}
		one, begin, again := path{id: id}, len(events), false
		for _, e := range t.events {
			rank, ok := p.rank[e.point]
			if !ok || e.node.ended || e.node.Virtual || e.node.thins {
				continue
			}
			again = again || one.mask>>rank&1 != 0
			one.mask |= 1 << rank
			at, placed := p.v.clocks.placeReading(e.node, e.reading)
			events = append(events, passedEvent{e, rank, at, placed})
		}
		if again {
			p.repeatedIDs++
		}
		if again || len(events)-begin < 2 {
			events = events[:begin]
			continue
		}
		one.events = events[begin:len(events):len(events)]
		slices.SortFunc(one.events, func(x, y passedEvent) int { return x.rank - y.rank })
		all = append(all, one)
	}
	p.v.passed = events
	return all
}

type legKey struct {
	from, to int
	whole    bool
}

// measure adds a tuple's durations to the spans.
func (p *painter) measure(order *order, spans map[legKey]*Span, t *path) {
	shown := false
	for _, to := range t.events {
		if !p.inWindow(to) {
			continue
		}
		shown = true
		for from := range bitsOf(order.directBefore(t.mask, to.rank)) {
			between := order.after[from] & order.before[to.rank] & p.lossyMask
			p.add(spans, legKey{from, to.rank, false}, t, between != 0)
		}
	}
	if shown {
		p.Tuples++
	}
	first, last, ok := order.wholeEnds(t.mask)
	if ok && p.inWindow(t.of(last)) && order.directBefore(t.mask, last)&(1<<first) == 0 {
		p.add(spans, legKey{first, last, true}, t, false)
	}
}

// inWindow reports whether an event is in the time that the picture shows.
func (p *painter) inWindow(e passedEvent) bool {
	window := cycles(p.v.window, p.reference.Nominal_hz)
	return e.isPlaced && e.readingAt.Hi <= p.end && e.readingAt.Mid() >= p.end-min(p.end, window)
}

// add adds a tuple's duration to a span, unless the tuple may have passed another point in between.
func (p *painter) add(spans map[legKey]*Span, key legKey, t *path, passedUnseen bool) {
	from, to := t.of(key.from), t.of(key.to)
	if !from.isPlaced || from.readingAt.Lo < p.begun {
		return // perhaps not all nodes sent samples yet when this duration began
	}
	l := spans[key]
	if l == nil {
		l = &Span{
			From: p.ranks[key.from].String(), To: p.ranks[key.to].String(), Whole: key.whole,
			To_s: p.rates[to.point], Some: p.whyUnseen[from.point], spread: &spread{},
		}
		if l.Some == "" {
			l.Some = p.whyUnseen[to.point]
		}
		spans[key] = l
	}
	p.v.clocks.wantRelation(from.node.Name, to.node.Name)
	d, ok := p.v.clocks.durationBetween(p.reference, from.event, to.event)
	switch {
	case passedUnseen:
		l.LeftOut++
	case !ok:
		l.Unknown++
	default:
		l.spread.add(d)
		if p.v.measured != nil {
			p.v.measured(t.id, l, d)
		}
	}
}
