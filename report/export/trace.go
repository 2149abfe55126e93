package export

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// traceTuples is the number of tuples that a trace shows if the options name no number.
const traceTuples = 2000

// trace writes tuples' paths in the form that Perfetto reads. Each node is a process, and each
// instance of an operator on the node is a thread. A slice is a duration. Perfetto knows no
// intervals. So the length of a slice is the middle of the duration's interval, and the slice's
// annotations have the interval. Durations that lead from one instance to another have tracks of
// their own. So do the durations of tuples from end to end. Flows lead from instance to instance.
// Programs whose messages were captured are drawn like instances.
type trace struct {
	w      *bufio.Writer
	tuples joiner
	shown  choice
	shows  string // says which tuples and messages the trace shows

	captured transfers
	lacked   string // as Lacks in analysis.Basis

	zero   uint64 // the trace begins at this reading of the reference
	tracks map[trackKey][]*slice
	flows  uint64
	uuids  uint64
	lacks  int // durations without a place in time
}

// trackKey names a track. A track without a node belongs to the run.
type trackKey struct{ node, name string }

func (k trackKey) compare(l trackKey) int {
	return cmp.Or(cmp.Compare(k.node, l.node), cmp.Compare(k.name, l.name))
}

// slice is a duration, or an event that is at neither end of a duration within an instance.
type slice struct {
	begin_ns, length_ns int64
	event               bool
	name                string
	about               []attribute
	flows               []uint64
}

func (s *slice) end_ns() int64 { return s.begin_ns + s.length_ns }

func newTrace(w io.Writer, slowest int) *trace {
	t := &trace{w: bufio.NewWriter(w), tracks: map[trackKey][]*slice{}}
	t.shown, t.captured = choice{most: traceTuples}, transfers{most: traceMessages}
	if slowest > 0 {
		t.shown = choice{most: slowest, slowest: true}
		t.captured = transfers{most: slowest, slowest: true}
	}
	t.tuples.tell = t.shown.add
	return t
}

func (t *trace) event(e *analysis.EventRow) error { return t.tuples.event(e) }

func (t *trace) duration(d *analysis.DurationRow) error {
	if d.Tuple == 0 { // it begins in the tuples of which this one was made: a trace leaves it out
		return nil
	}
	return t.tuples.duration(d)
}

func (t *trace) finish(a *analysis.Answer) error {
	if err := t.tuples.endTuples(); err != nil {
		return err
	}
	tuples := t.shown.sortedTuples()
	t.zero = ^uint64(0)
	for _, tuple := range tuples {
		t.zero = min(t.zero, tuple.beginMiddle())
	}
	sent := t.captured.kept.sortedElements()
	for _, m := range sent {
		t.zero = min(t.zero, m.at.Mid())
	}
	for _, tuple := range tuples {
		t.layTuple(tuple, &a.Reference)
	}
	for _, m := range sent {
		t.layMessage(m, &a.Reference)
	}
	t.writePauses(a)
	t.shows = t.shown.describeChoice(a.Work.Tuples)
	if t.captured.all > 0 && a.Work.Tuples == 0 {
		t.shows = t.captured.keptWords()
	} else if t.captured.all > 0 {
		t.shows += "; " + t.captured.keptWords()
	}
	if t.lacks > 0 {
		t.shows += fmt.Sprintf("; %d of their durations have no place on the counter of %s",
			t.lacks, a.Reference.Node)
	}
	if t.lacked != "" {
		t.shows += "; not all tuples are in the logs: " + t.lacked
	}
	means := a.Reference.SecondsMean()
	if a.Reference.FrequencyHi_hz == 0 {
		means = "a cycle is drawn as a nanosecond"
	}
	t.writeTracks(fmt.Sprintf("run %s: %s; in cycles of %s; %s", a.Run, t.shows, a.Reference.Node,
		means))
	return t.w.Flush()
}

// writePauses puts the pauses of each JVM on a track of its node. Pauses that began before the
// trace are left out, because the time of a slice cannot be negative.
func (t *trace) writePauses(a *analysis.Answer) {
	for _, j := range a.JVMs {
		k := trackKey{node: j.Node, name: "pauses of " + j.Name}
		for _, p := range j.Longest {
			since := int64(uint64(p.At_cycles) - t.zero)
			if uint64(p.At_cycles) < t.zero || since < 0 {
				continue
			}
			t.tracks[k] = append(t.tracks[k], &slice{
				name: p.Kind,
				begin_ns: a.Reference.Length_ns(
					analysis.Interval{Lo_cycles: since, Hi_cycles: since}),
				length_ns: max(a.Reference.Length_ns(p.Length), 0),
				about: []attribute{
					{name: "length_lo_cycles", number: p.Length.Lo_cycles},
					{name: "length_hi_cycles", number: p.Length.Hi_cycles},
					{name: "reaching_lo_cycles", number: p.Reaching.Lo_cycles},
					{name: "reaching_hi_cycles", number: p.Reaching.Hi_cycles},
				},
			})
		}
	}
}

// endsTrack is the track of the durations of kind end-to-end.
var endsTrack = trackKey{name: "end to end"}

// layTuple puts a tuple's durations and events on tracks.
func (t *trace) layTuple(tuple *tuple, r *analysis.Reference) {
	leave, arrive := map[string]*slice{}, map[string]*slice{} // by point
	put := func(k trackKey, s *slice) *slice {
		t.tracks[k] = append(t.tracks[k], s)
		return s
	}
	at := func(e *analysis.EventRow) int64 {
		since := int64(e.At.Mid() - t.zero)
		return r.Length_ns(analysis.Interval{Lo_cycles: since, Hi_cycles: since})
	}
	var hops []*analysis.DurationRow
	for i := range tuple.durations {
		d := &tuple.durations[i]
		from, to := tuple.eventAt(d.From), tuple.eventAt(d.To)
		if from == nil || to == nil {
			t.lacks++
			continue
		}
		s := &slice{
			name: d.From + " → " + d.To, begin_ns: at(from),
			about: describeDuration(tuple, d, from, to, r),
			// If the middle is negative, the order of the two events is not decided. A slice has no
			// negative length.
			length_ns: max(r.Length_ns(analysis.Interval{Lo_cycles: d.Lo, Hi_cycles: d.Hi}), 0),
		}
		k, l := instanceOf(from), instanceOf(to)
		switch {
		case d.Kind == endToEnd:
			if s.name = fmt.Sprintf("tuple %d", tuple.id); !d.Whole {
				s.name += ", to " + d.To
			}
			put(endsTrack, s)
		case k != l:
			put(trackKey{name: k.node + " " + k.name + " → " + l.node + " " + l.name}, s)
			hops = append(hops, d)
		default:
			put(k, s)
			leave[d.To], arrive[d.From] = s, s
		}
	}
	for i := range tuple.events {
		e := &tuple.events[i]
		switch begins, ends := arrive[e.Point], leave[e.Point]; {
		case begins == nil && ends == nil:
			s := put(instanceOf(e), &slice{
				name: e.Point, begin_ns: at(e), event: true,
				about: []attribute{text("tuple_id", fmt.Sprint(tuple.id))},
			})
			leave[e.Point], arrive[e.Point] = s, s
		case begins == nil:
			arrive[e.Point] = ends
		case ends == nil:
			leave[e.Point] = begins
		}
	}
	for _, d := range hops {
		t.flows++
		for _, s := range []*slice{leave[d.From], arrive[d.To]} {
			s.flows = append(s.flows, t.flows)
		}
	}
}

// instanceOf is the track of the instance that logged an event.
func instanceOf(e *analysis.EventRow) trackKey {
	instance, _, _ := strings.Cut(e.Channel, "/")
	return trackKey{e.Node, instance}
}

// writeTracks writes all tracks. The run's tracks are below a track for the run. Each node's tracks
// are below a process for the node.
func (t *trace) writeTracks(about string) {
	root := t.writeTrack(message{}.text(trackName, about))
	node, process := "", uint64(0)
	// Perfetto takes a thread for the main thread of a process if both have the same id. So threads
	// have ids above those of processes.
	firstThread := uint64(len(t.tracks)) + 1
	for i, k := range slices.SortedFunc(maps.Keys(t.tracks), trackKey.compare) {
		if k.node == "" {
			t.writeLanes(t.tracks[k], func() uint64 {
				return t.writeTrack(message{}.number(trackParent, root).text(trackName, k.name))
			})
			continue
		}
		if k.node != node {
			node, process = k.node, process+1
			t.writeTrack(message{}.bytes(trackProcess,
				message{}.number(processID, process).text(processName, node)))
		}
		thread := uint64(0) // the first lane, which is the parent of further lanes
		t.writeLanes(t.tracks[k], func() uint64 {
			if thread > 0 {
				return t.writeTrack(message{}.number(trackParent, thread).text(trackName, k.name))
			}
			thread = t.writeTrack(message{}.bytes(trackThread,
				message{}.number(threadProcess, process).
					number(threadID, firstThread+uint64(i)).text(threadName, k.name)))
			return thread
		})
	}
}

// writeLanes writes the slices of a track. Slices of one track must nest: Perfetto cuts a
// slice that ends after the slice around it. So slices that overlap are on separate lanes, which
// are tracks with the same name and parent. Perfetto shows such tracks as one.
func (t *trace) writeLanes(all []*slice, track func() uint64) {
	slices.SortStableFunc(all, func(a, b *slice) int {
		return cmp.Or(cmp.Compare(a.begin_ns, b.begin_ns), cmp.Compare(b.length_ns, a.length_ns))
	})
	var ends []int64 // the end of the last slice of each lane
	var uuids []uint64
	for _, s := range all {
		lane := slices.IndexFunc(ends, func(end int64) bool { return end <= s.begin_ns })
		if lane < 0 {
			lane, ends, uuids = len(ends), append(ends, 0), append(uuids, track())
		}
		ends[lane] = s.end_ns()
		t.writeSlice(uuids[lane], s)
	}
}

// writeSlice writes a slice on a track.
func (t *trace) writeSlice(track uint64, s *slice) {
	begin := message{}.number(eventTrack, track).text(eventName, s.name)
	for _, flow := range s.flows {
		begin = begin.fixed(eventFlow, flow)
	}
	for _, a := range s.about {
		begin = begin.annotate(a)
	}
	put := func(at_ns int64, kind uint64, m message) {
		t.packet(message{}.number(packetTimestamp, uint64(at_ns)).
			bytes(packetTrackEvent, m.number(eventType, kind)))
	}
	if s.event {
		put(s.begin_ns, instant, begin)
		return
	}
	put(s.begin_ns, sliceBegin, begin)
	put(s.end_ns(), sliceEnd, message{}.number(eventTrack, track))
}

// writeTrack writes the description of a track, and returns the track's number.
func (t *trace) writeTrack(m message) uint64 {
	t.uuids++
	t.packet(message{}.bytes(packetTrack, m.number(trackUUID, t.uuids)))
	return t.uuids
}

func (t *trace) packet(m message) {
	t.w.Write(message{}.bytes(tracePacket, m.number(packetSequence, 1)))
}
