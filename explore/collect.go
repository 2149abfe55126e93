package explore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// collector takes the rows of an analysis: all pauses, then for each tuple all its durations, then
// all its events. From these rows it makes stays (see Lane), durations and tuples. It sorts stays
// and durations by track and time, and tuples by id.
type collector struct {
	items  *sorter[item]
	tuples *sorter[tuple]
	arena  []byte // bodies of tuples that are not written yet

	lanes    []Lane
	channels []Channel
	points   []string
	spans    []Span
	kinds    []string // kinds of pauses
	tracks   uint32   // number of lanes, spans and JVMs together
	// The numbers of the tracks: one for each lane, each span and each JVM.
	laneTrack, spanTrack, jvmTrack []uint32

	channelOf map[[2]string]uint32 // by node and channel
	spanNames map[[3]string]uint32 // by from, to and kind
	ends      []spanEnds           // ends of each span

	number uint64 // number and id of the tuple whose rows are coming in
	id     uint64
	path   path
}

const noTrack = ^uint32(0)

// spanEnds are the two points of a span, as indices in collector.points.
type spanEnds struct{ from, to int }

// These are sizes in bytes: of one item, and of one buffer of each of the two sorters. A sorter has
// at most two buffers at a time.
const (
	itemSize     = 72
	itemsBuffer  = 48 << 20
	tuplesBuffer = 24 << 20
)

func newCollector(scratch string) (*collector, error) {
	c := &collector{channelOf: map[[2]string]uint32{}, spanNames: map[[3]string]uint32{}}
	var err error
	if c.items, err = newSorter(scratch, itemsBuffer, compareItems,
		func(i *item) [2]uint64 { return [2]uint64{uint64(i.track), i.mid} }, appendItem,
		readItem); err != nil {
		return nil, err
	}
	if c.tuples, err = newSorter(scratch, tuplesBuffer, compareTuples,
		func(t *tuple) [2]uint64 { return [2]uint64{t.id, t.number} }, appendTuple,
		readTuple); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *collector) track() uint32 {
	c.tracks++
	return c.tracks - 1
}

// channelIndex returns the index of an event's channel in collector.channels. It adds a channel
// that is new.
func (c *collector) channelIndex(e *analysis.EventRow) (uint32, error) {
	key := [2]string{e.Node, e.Channel}
	if i, ok := c.channelOf[key]; ok {
		return i, nil
	}
	instance, _, _ := strings.Cut(e.Channel, "/")
	actor, _, _ := strings.Cut(instance, "#")
	lane := slices.IndexFunc(c.lanes, func(l Lane) bool {
		return l.Node == e.Node && l.Instance == instance
	})
	if lane < 0 {
		if lane = len(c.lanes); lane == maxLanes {
			return 0, fmt.Errorf("more than %d instances of actors: choose some with --channel",
				maxLanes)
		}
		c.lanes = append(c.lanes, Lane{Node: e.Node, Actor: actor, Instance: instance})
		c.laneTrack = append(c.laneTrack, c.track())
	}
	c.channelOf[key] = uint32(len(c.channels))
	c.channels = append(c.channels, Channel{Lane: lane, Point: c.point(e.Point)})
	return uint32(len(c.channels) - 1), nil
}

func (c *collector) point(name string) int {
	i := slices.Index(c.points, name)
	if i < 0 {
		i = len(c.points)
		c.points = append(c.points, name)
	}
	return i
}

func (c *collector) span(d *analysis.DurationRow) uint32 {
	key := [3]string{d.From, d.To, d.Kind}
	i, ok := c.spanNames[key]
	if !ok {
		i = uint32(len(c.spans))
		c.spanNames[key] = i
		c.spans = append(c.spans, Span{From: d.From, To: d.To, Kind: d.Kind})
		c.spanTrack = append(c.spanTrack, c.track())
		c.ends = append(c.ends, spanEnds{c.point(d.From), c.point(d.To)})
	}
	return i
}

func (c *collector) duration(d *analysis.DurationRow) error {
	span := c.span(d)
	suspect := d.Verdict == tscratio.Suspect
	if d.Tuple == 0 { // the tuple was made of others: the duration begins in another tuple
		if d.Ends[0].Hi == 0 {
			return nil // the moment at which the duration began is unknown
		}
		i := item{track: c.spanTrack[span], lo: d.Lo, hi: d.Hi, id: d.ID, suspect: suspect}
		i.setMoment(d.Ends[0])
		c.items.add(i, itemSize)
		made := path{durations: []duration{{span, d.Lo, d.Hi, d.Scenario, d.Critical, suspect}}}
		c.store(d.ID, 0, &made)
		return nil
	}
	c.beginNext(d.ID, d.Tuple)
	c.path.durations = append(c.path.durations,
		duration{span, d.Lo, d.Hi, d.Scenario, d.Critical, suspect})
	return nil
}

func (c *collector) event(e *analysis.EventRow) error {
	channel, err := c.channelIndex(e)
	if err != nil {
		return err
	}
	c.beginNext(e.ID, e.Tuple)
	if e.Ended {
		c.channels[channel].Ended++
	}
	c.path.events = append(c.path.events,
		event{channel, e.At, e.Verdict == tscratio.Suspect, e.Ended})
	return nil
}

// beginNext finishes the present tuple if the coming row belongs to another tuple.
func (c *collector) beginNext(id, number uint64) {
	if number != c.number {
		c.flush()
		c.id, c.number = id, number
	}
}

// flush makes the rows of the present tuple and hands them to the sorters.
func (c *collector) flush() {
	p := &c.path
	if len(p.events) > 0 {
		c.addDurations()
		c.addStays()
		c.store(c.id, c.number, p)
	}
	p.events, p.durations = p.events[:0], p.durations[:0]
}

func (c *collector) store(id, number uint64, p *path) {
	from := len(c.arena)
	c.arena = p.append(c.arena)
	body := c.arena[from:len(c.arena):len(c.arena)]
	c.tuples.add(tuple{id, number, body}, len(body)+48)
	if len(c.arena) > 1<<20 { // stored tuples still use the old arena
		c.arena = make([]byte, 0, 1<<20+1<<16)
	}
}

// eventAt returns the present tuple's event at a point, or nil.
func (c *collector) eventAt(point int) *event {
	for i := range c.path.events {
		if e := &c.path.events[i]; c.channels[e.channel].Point == point {
			return e
		}
	}
	return nil
}

// addDurations makes rows of the present tuple's durations.
func (c *collector) addDurations() {
	for _, d := range c.path.durations {
		from, to := c.eventAt(c.ends[d.span].from), c.eventAt(c.ends[d.span].to)
		if from == nil {
			continue
		}
		i := item{track: c.spanTrack[d.span], lo: d.lo, hi: d.hi, id: c.id,
			suspect: d.suspect || from.suspect}
		if to != nil {
			i.instance = uint32(c.channels[to.channel].Lane)
		}
		i.setMoment(from.at)
		c.items.add(i, itemSize)
	}
}

// addStays makes rows of the present tuple's stays. A stay covers all events of the tuple in one
// lane, in the order of the path.
func (c *collector) addStays() {
	events := c.path.events
	for k := range events {
		lane := c.channels[events[k].channel].Lane
		if slices.ContainsFunc(events[:k], func(e event) bool {
			return c.channels[e.channel].Lane == lane
		}) {
			continue // an earlier event in this lane has made the stay
		}
		i := item{track: c.laneTrack[lane], id: c.id, instance: uint32(lane), instant: true,
			suspect: events[k].suspect}
		i.setMoment(events[k].at)
		before := k
		for j := k; j < len(events); j++ {
			e := &events[j]
			if c.channels[e.channel].Lane != lane {
				continue
			}
			if e.ended {
				i.ended = uint32(c.channels[e.channel].Point) + 1
			}
			if j > k {
				lo, hi, suspect := c.durationBetween(&events[before], e)
				i.lo, i.hi, i.instant = limitedSum(i.lo, lo), limitedSum(i.hi, hi), false
				i.suspect = i.suspect || suspect
				before = j
			}
		}
		c.items.add(i, itemSize)
	}
}

// durationBetween returns the duration between two events of the present tuple. If the analysis
// gave none, it returns the difference of the two moments. That interval is wider, but contains the
// truth.
func (c *collector) durationBetween(a, b *event) (lo, hi int64, suspect bool) {
	from, to := c.channels[a.channel].Point, c.channels[b.channel].Point
	for _, d := range c.path.durations {
		if c.ends[d.span] == (spanEnds{from, to}) {
			return d.lo, d.hi, d.suspect
		}
	}
	return limitedDifference(b.at.Lo, a.at.Hi), limitedDifference(b.at.Hi, a.at.Lo), a.suspect ||
		b.suspect
}

const farthestReading = 1<<63 - 1

// limitedDifference returns the difference of two readings, limited to ±(2⁶³ − 1).
func limitedDifference(a, b uint64) int64 {
	switch {
	case a >= b:
		return int64(min(a-b, farthestReading))
	default:
		return -int64(min(b-a, farthestReading))
	}
}

// limitedSum returns the sum of two durations, limited to ±(2⁶³ − 1).
func limitedSum(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return farthestReading
	case a < 0 && b < 0 && sum >= 0:
		return -farthestReading
	}
	return sum
}

func (c *collector) end() error {
	c.flush()
	return cmp.Or(c.items.end(), c.tuples.end())
}

func (c *collector) close() error { return cmp.Or(c.items.close(), c.tuples.close()) }
