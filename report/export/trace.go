package export

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// traceTuples is the number of tuples that a trace shows. That is far more than fit a screen.
const traceTuples = 2000

// trace writes tuples' paths in the form that Perfetto reads: a track for each tuple, a slice for
// each span. A trace contains only instants. So slices lie between the middles of intervals,
// converted by the middle of the frequency. The annotations of slices have the duration in cycles
// and in seconds: these are the answer.
//
// The encoding is protocol buffers, with the field numbers of Perfetto's trace_packet.proto,
// track_event.proto, track_descriptor.proto and debug_annotation.proto. These numbers never change,
// and are few enough to write out.
type trace struct {
	w    *bufio.Writer
	ways map[uint64]*tracedWay
}

type tracedWay struct {
	id        uint64
	events    map[string]analysis.EventRow // by point
	durations []analysis.DurationRow
}

func newTrace(w io.Writer) *trace { return &trace{bufio.NewWriter(w), map[uint64]*tracedWay{}} }

func (t *trace) way(id, way uint64) *tracedWay {
	traced := t.ways[way]
	if traced == nil && len(t.ways) < traceTuples {
		traced = &tracedWay{id: id, events: map[string]analysis.EventRow{}}
		t.ways[way] = traced
	}
	return traced
}

func (t *trace) event(e *analysis.EventRow) error {
	if way := t.way(e.ID, e.Tuple); way != nil {
		way.events[e.Point] = *e
	}
	return nil
}

func (t *trace) duration(d *analysis.DurationRow) error {
	if d.Tuple == 0 { // the tuple was made of others, and has no path
		return nil
	}
	if way := t.way(d.ID, d.Tuple); way != nil {
		way.durations = append(way.durations, *d)
	}
	return nil
}

// Field numbers.
const (
	tracePacket = 1

	packetTimestamp  = 8
	packetSequence   = 10
	packetTrackEvent = 11
	packetTrack      = 60

	trackUUID   = 1
	trackName   = 2
	trackParent = 5

	eventAnnotation = 4
	eventType       = 9
	eventTrack      = 11
	eventName       = 23

	annotationInt    = 4
	annotationString = 6
	annotationName   = 10

	sliceBegin = 1
	sliceEnd   = 2
)

// message is a protocol buffer that is being written.
type message []byte

func (m message) number(field int, v uint64) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(field)<<3), v)
}

func (m message) bytes(field int, v []byte) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|2)
	return append(binary.AppendUvarint(m, uint64(len(v))), v...)
}

func (m message) annotate(name string, value int64) message {
	return m.bytes(eventAnnotation,
		message{}.number(annotationInt, uint64(value)).bytes(annotationName, []byte(name)))
}

func (m message) annotateText(name, value string) message {
	return m.bytes(eventAnnotation,
		message{}.bytes(annotationString, []byte(value)).bytes(annotationName, []byte(name)))
}

func (t *trace) packet(m message) {
	t.w.Write(message{}.bytes(tracePacket, m.number(packetSequence, 1)))
}

func (t *trace) finish(a *analysis.Answer) error {
	const root = 1
	hz := a.Reference.FrequencyLo_hz/2 + a.Reference.FrequencyHi_hz/2
	means := a.Reference.SecondsMean()
	if hz == 0 {
		hz = 1e9 // a trace has no other unit
		means = "a cycle is drawn as a nanosecond"
	}
	name := fmt.Appendf(nil, "run %s, in cycles of %s; %s", a.Run, a.Reference.Node, means)
	t.packet(message{}.bytes(packetTrack, message{}.number(trackUUID, root).bytes(trackName, name)))
	// All tracks are counted from the first event, so that numbers are small.
	zero := ^uint64(0)
	for _, way := range t.ways {
		for _, e := range way.events {
			zero = min(zero, e.At.Lo)
		}
	}
	ns := func(e analysis.EventRow) uint64 { return uint64(float64(e.At.Mid()-zero) / hz * 1e9) }
	ways := make([]uint64, 0, len(t.ways))
	for way := range t.ways {
		ways = append(ways, way)
	}
	slices.Sort(ways)
	for _, number := range ways {
		way := t.ways[number]
		uuid := root + number
		track := message{}.number(trackUUID, uuid).number(trackParent, root)
		track = track.bytes(trackName, fmt.Appendf(nil, "tuple %d", way.id))
		t.packet(message{}.bytes(packetTrack, track))
		type edge struct {
			at    uint64
			begin bool
			long  uint64
			d     analysis.DurationRow
		}
		var edges []edge
		for _, d := range way.durations {
			from, ok := way.events[d.From]
			to, ok2 := way.events[d.To]
			if !ok || !ok2 {
				continue
			}
			// A slice cannot end before it begins. If the middles are in that order, the order is
			// undecided.
			begin, end := ns(from), max(ns(to), ns(from))
			edges = append(edges, edge{begin, true, end - begin, d},
				edge{end, false, end - begin, d})
		}
		// Slices nest. At one instant, ends precede beginnings. Longer slices begin first and end
		// last. Slices without length begin and end within the others.
		class := func(e edge) int {
			switch {
			case e.long == 0:
				return 2
			case e.begin:
				return 1
			}
			return 0
		}
		slices.SortStableFunc(edges, func(x, y edge) int {
			if c := cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(class(x), class(y))); c != 0 {
				return c
			}
			if x.begin {
				return cmp.Compare(y.long, x.long)
			}
			return cmp.Compare(x.long, y.long)
		})
		for _, e := range edges {
			m := message{}.number(eventTrack, uuid)
			if e.begin {
				m = m.number(eventType, sliceBegin).bytes(eventName, []byte(e.d.From+" → "+e.d.To))
				m = m.annotate("lo_cycles", e.d.Lo).annotate("hi_cycles", e.d.Hi)
				m = m.annotateText("scenario", e.d.Scenario.String())
				m = m.annotateText("verdict", e.d.Verdict.String())
				m = m.annotateText("from_node", e.d.FromNode).annotateText("to_node", e.d.ToNode)
				duration := analysis.Interval{Lo_cycles: e.d.Lo, Hi_cycles: e.d.Hi}
				if text := a.Reference.Seconds(duration); text != "" {
					m = m.annotateText("seconds", text)
				}
			} else {
				m = m.number(eventType, sliceEnd)
			}
			t.packet(message{}.number(packetTimestamp, e.at).bytes(packetTrackEvent, m))
		}
	}
	return t.w.Flush()
}
