package export

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// drawnTrace is a trace as Perfetto shows it.
type drawnTrace struct {
	title  string
	slices []drawnSlice
}

type drawnSlice struct {
	track     string // preceded by the names of the tracks above it
	lane      uint64
	name      string
	begin     uint64
	length    uint64
	instant   bool
	about     map[string]string
	flows     []uint64
	unclosed  bool
	inAnother bool
}

// drawnOf reads a trace as Perfetto does: an end closes the most recently begun slice of its track.
func drawnOf(t *testing.T, trace []byte) *drawnTrace {
	t.Helper()
	d := &drawnTrace{}
	tracks, processes := map[uint64]string{}, map[uint64]string{}
	open, last := map[uint64][]int{}, map[uint64]uint64{}
	var threads []uint64
	text := func(f []field) string { return string(f[0].bytes) }
	for _, packet := range readFields(t, trace)[tracePacket] {
		p := readFields(t, packet.bytes)
		if len(p[packetSequence]) != 1 {
			t.Fatal("a packet without a sequence")
		}
		for _, track := range p[packetTrack] {
			m := readFields(t, track.bytes)
			var name string
			switch {
			case len(m[trackProcess]) > 0:
				process := readFields(t, m[trackProcess][0].bytes)
				name = text(process[processName])
				processes[process[processID][0].number] = name
			case len(m[trackThread]) > 0:
				thread := readFields(t, m[trackThread][0].bytes)
				name = processes[thread[threadProcess][0].number] + "/" + text(thread[threadName])
				threads = append(threads, thread[threadID][0].number)
			case len(m[trackParent]) > 0:
				name = tracks[m[trackParent][0].number]
				// Slices that overlap are on separate tracks (lanes). The first lane of an instance
				// is the parent of the others, and all have the same name. So do not add this name
				// to the full name once more.
				if own := text(m[trackName]); !strings.HasSuffix(name, "/"+own) {
					name = own
				}
			default:
				d.title = text(m[trackName])
			}
			uuid := m[trackUUID][0].number
			if _, again := tracks[uuid]; again {
				t.Fatalf("two tracks are %d", uuid)
			}
			tracks[uuid] = name
		}
		for _, event := range p[packetTrackEvent] {
			e := readFields(t, event.bytes)
			at, track := p[packetTimestamp][0].number, e[eventTrack][0].number
			if _, known := tracks[track]; !known || at < last[track] {
				t.Fatalf("track %d: known %v, %d after %d", track, known, at, last[track])
			}
			last[track] = at
			kind := e[eventType][0].number
			if kind == sliceEnd {
				n := len(open[track]) - 1
				if n < 0 {
					t.Fatal("a slice ends that did not begin")
				}
				s := &d.slices[open[track][n]]
				s.length, s.unclosed, open[track] = at-s.begin, false, open[track][:n]
				continue
			}
			s := drawnSlice{track: tracks[track], lane: track, name: text(e[eventName]), begin: at,
				instant: kind == instant, about: map[string]string{}, unclosed: kind == sliceBegin,
				inAnother: len(open[track]) > 0}
			for _, a := range e[eventAnnotation] {
				m := readFields(t, a.bytes)
				if len(m[annotationString]) > 0 {
					s.about[text(m[annotationName])] = text(m[annotationString])
				} else if len(m[annotationDouble]) > 0 {
					s.about[text(m[annotationName])] = fmt.Sprint(math.Float64frombits(
						m[annotationDouble][0].number))
				} else {
					s.about[text(m[annotationName])] = fmt.Sprint(int64(m[annotationInt][0].number))
				}
			}
			for _, f := range e[eventFlow] {
				s.flows = append(s.flows, f.number)
			}
			if kind == sliceBegin {
				open[track] = append(open[track], len(d.slices))
			}
			d.slices = append(d.slices, s)
		}
	}
	slices.Sort(threads)
	if slices.ContainsFunc(threads, func(id uint64) bool { return processes[id] != "" }) ||
		len(slices.Compact(slices.Clone(threads))) != len(threads) {
		t.Fatalf("the ids of threads are %v, those of processes %v", threads, processes)
	}
	for _, s := range d.slices {
		if s.unclosed || s.inAnother {
			t.Fatalf("slice %q on %q ends: %v, is within another, which may cut it: %v", s.name,
				s.track, !s.unclosed, s.inAnother)
		}
	}
	return d
}

type field struct {
	number uint64
	bytes  []byte
}

// readFields reads a protocol buffer.
func readFields(t *testing.T, b []byte) map[int][]field {
	t.Helper()
	found := map[int][]field{}
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatal("a torn tag")
		}
		b = b[n:]
		v, n := binary.Uvarint(b)
		if tag&7 == 1 && len(b) >= 8 {
			v, n = binary.LittleEndian.Uint64(b), 8
		}
		if n <= 0 {
			t.Fatal("a torn number")
		}
		b = b[n:]
		f := field{number: v}
		switch tag & 7 {
		case 0, 1:
		case 2:
			if v > uint64(len(b)) {
				t.Fatal("a torn message")
			}
			f.bytes, b = b[:v], b[v:]
		default:
			t.Fatalf("wire type %d", tag&7)
		}
		found[int(tag>>3)] = append(found[int(tag>>3)], f)
	}
	return found
}
