package export

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// exported makes a run of three nodes, with a computation and losses, and exports all kinds of it.
func exported(t *testing.T, rng *rand.Rand, tuples int) (string, *analysis.Answer) {
	t.Helper()
	nodes := simrun.Nodes(rng, 3)
	var channels []simrun.Channel
	for i, name := range []string{"a/send", "b#1/start", "b#1/end", "c/recv"} {
		channels = append(channels, simrun.Channel{Node: []int{0, 1, 1, 2}[i], Name: name})
	}
	now := uint64(simrun.Hz)
	for id := range uint64(tuples) {
		now += rng.Uint64N(30_000)
		at := now
		for i := range channels {
			at += 100 + rng.Uint64N(1<<rng.UintN(20))
			channels[i].Records = append(channels[i].Records,
				simrun.Record{Time: at, ID: id | 1<<63})
			if rng.IntN(100) == 0 {
				break
			}
		}
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "r"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	files, answer, err := Run(context.Background(), dir, analysis.Options{Reference: "B"},
		Parquet|CSV|SQL|Perfetto)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 7 {
		t.Errorf("files %v", files)
	}
	return filepath.Join(parent, "r", "exports"), answer
}

func TestCSV(t *testing.T) {
	dir, answer := exported(t, seed.Random(t), 500)
	for name, want := range map[string]uint64{"events.csv": answer.Work.Events,
		"durations.csv": durationsOf(answer)} {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		f.Close()
		if err != nil || uint64(len(rows)) != want+1 {
			t.Errorf("%s has %d rows below its head, want %d; %v", name, len(rows)-1, want, err)
		}
	}
}

// Each column has its own values.
func TestCSVRows(t *testing.T) {
	var events, durations strings.Builder
	s, err := newCSVSink([]io.Writer{&events, &durations})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.event(&anEvent), s.duration(&aDuration), s.finish(nil)); err != nil {
		t.Fatal(err)
	}
	want := `tuple_id,way,lo_cycles,hi_cycles,node,channel,point,verdict
18446744073709551615,2,9223372036854775808,9223372036854775812,n,a#5/p,a/p,suspect
`
	if events.String() != want {
		t.Errorf("events\n%swant\n%s", &events, want)
	}
	want = `tuple_id,way,from_point,to_point,from_node,to_node,kind,` +
		`lo_cycles,hi_cycles,scenario,verdict
6,7,a/p,b/q,n,m,transfer,-8,9,direct,suspect
`
	if durations.String() != want {
		t.Errorf("durations\n%swant\n%s", &durations, want)
	}
}

func durationsOf(a *analysis.Answer) uint64 {
	var n uint64
	for _, spans := range [][]analysis.Span{a.Spans, a.EndToEnd} {
		for _, l := range spans {
			n += l.All.Count
		}
	}
	return n
}

// An export that is stopped leaves the files of an earlier one, and none of its own.
func TestExportThatIsStopped(t *testing.T) {
	exports, _ := exported(t, seed.Random(t), 5000)
	files := func() map[string]string {
		all := map[string]string{}
		entries, err := os.ReadDir(exports)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(exports, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			all[e.Name()] = string(text)
		}
		return all
	}
	before := files()
	dir, err := runs.Open(filepath.Dir(exports))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	stopped := errors.New("stopped by a signal")
	ctx, cancel := context.WithCancelCause(t.Context())
	o := analysis.Options{Reference: "A", Progress: func(_ float64, what string) {
		if what == "joining tuples" {
			cancel(stopped)
		}
	}}
	if names, _, err := Run(ctx, dir, o, Parquet|CSV|SQL|Perfetto); !errors.Is(err, stopped) ||
		len(names) > 0 {
		t.Errorf("files %q, %v", names, err)
	}
	if after := files(); len(before) != 7 || !maps.Equal(before, after) {
		t.Errorf("there are %q, and were %q, or another text is in one",
			slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
	if _, _, err := Run(t.Context(), dir, analysis.Options{Reference: "A"}, CSV); err != nil {
		t.Error(err)
	}
	if after := files(); after["events.csv"] == before["events.csv"] || len(after) != 7 {
		t.Errorf("%d files, and events.csv is another: %v",
			len(after), after["events.csv"] != before["events.csv"])
	}
}

// A trace consists of messages as protocol buffers write them. Slices nest in each track.
func TestTrace(t *testing.T) {
	dir, answer := exported(t, seed.Random(t), 300)
	text, err := os.ReadFile(filepath.Join(dir, "trace.perfetto-trace"))
	if err != nil {
		t.Fatal(err)
	}
	depth := map[uint64]int{}
	last := map[uint64]uint64{}
	tracks := map[uint64]bool{}
	begun := 0
	for _, packet := range fields(t, text)[tracePacket] {
		p := fields(t, packet.bytes)
		if len(p[packetSequence]) != 1 {
			t.Fatal("a packet without a sequence")
		}
		for _, track := range p[packetTrack] {
			d := fields(t, track.bytes)
			tracks[d[trackUUID][0].number] = len(d[trackName]) == 1
		}
		for _, event := range p[packetTrackEvent] {
			e := fields(t, event.bytes)
			at, track := p[packetTimestamp][0].number, e[eventTrack][0].number
			if !tracks[track] || at < last[track] {
				t.Fatalf("track %d: known %v, %d after %d", track, tracks[track], at, last[track])
			}
			last[track] = at
			switch e[eventType][0].number {
			case sliceBegin:
				depth[track]++
				begun++
				if len(e[eventName]) != 1 || len(e[eventAnnotation]) != 7 {
					t.Fatalf("slice %v", e)
				}
			case sliceEnd:
				if depth[track]--; depth[track] < 0 {
					t.Fatal("a slice ends that did not begin")
				}
			}
		}
	}
	for track, n := range depth {
		if n != 0 {
			t.Errorf("%d slices of track %d do not end", n, track)
		}
	}
	if uint64(begun) != durationsOf(answer) {
		t.Errorf("%d slices, %d durations", begun, durationsOf(answer))
	}
}

// A trace has no more tuples than a screen shows, and of each path the durations that are whole.
// Its clock is the reference's, in ns, from the first event on.
func TestTraceOfManyTuples(t *testing.T) {
	var out bytes.Buffer
	trace := newTrace(&out)
	madeOfOthers := analysis.DurationRow{ID: 101, From: "a/p", To: "b/q"}
	if err := trace.duration(&madeOfOthers); err != nil {
		t.Fatal(err)
	}
	event := func(way uint64, point string, lo, hi uint64) *analysis.EventRow {
		return &analysis.EventRow{ID: 100 + way, Tuple: way, Point: point,
			At: tscratio.Interval{Lo: lo, Hi: hi}}
	}
	for way := uint64(1); way <= traceTuples+5; way++ {
		d := analysis.DurationRow{ID: 100 + way, Tuple: way, From: "a/p", To: "b/q"}
		back := analysis.DurationRow{ID: 100 + way, Tuple: way, From: "b/q", To: "c/r"}
		// One event of lost has no place.
		lost := analysis.DurationRow{ID: 100 + way, Tuple: way, From: "c/r", To: "d/s"}
		whole := analysis.DurationRow{ID: 100 + way, Tuple: way, From: "a/p", To: "c/r"}
		if err := errors.Join(trace.duration(&d), trace.duration(&back), trace.duration(&lost),
			trace.duration(&whole),
			trace.event(event(way, "a/p", 1_000_000, 1_000_200)),
			trace.event(event(way, "b/q", 1_003_000, 1_003_200)),
			trace.event(event(way, "c/r", 1_002_000, 1_002_200))); err != nil {
			t.Fatal(err)
		}
	}
	if err := trace.finish(&analysis.Answer{Run: "r",
		Reference: analysis.Reference{Node: "n", FrequencyLo_hz: 1.9e9,
			FrequencyHi_hz: 2.1e9}}); err != nil {
		t.Fatal(err)
	}
	tracks, events := 0, map[uint64][]string{}
	for _, packet := range fields(t, out.Bytes())[tracePacket] {
		p := fields(t, packet.bytes)
		for _, track := range p[packetTrack] {
			d := fields(t, track.bytes)
			if tracks++; tracks > 1 && (len(d[trackParent]) != 1 || d[trackParent][0].number != 1) {
				t.Errorf("track %d has the parent %v", d[trackUUID][0].number, d[trackParent])
			}
		}
		for _, event := range p[packetTrackEvent] {
			e := fields(t, event.bytes)
			text := fmt.Sprint(p[packetTimestamp][0].number, " ")
			if e[eventType][0].number == sliceBegin {
				text += string(e[eventName][0].bytes)
			}
			events[e[eventTrack][0].number] = append(events[e[eventTrack][0].number], text)
		}
	}
	// At 2 GHz the events' middles are 50, 1550 and 1050 ns after the first begins. The second span
	// cannot end before it begins, so it has no length.
	want := []string{"50 a/p → b/q", "50 a/p → c/r", "1050 ", "1550 ", "1550 b/q → c/r", "1550 "}
	if tracks != 1+traceTuples || len(events) != traceTuples {
		t.Errorf("%d tracks, %d with events", tracks, len(events))
	}
	for track, got := range events {
		if !slices.Equal(got, want) {
			t.Fatalf("track %d: %q, want %q", track, got, want)
		}
	}
}

type field struct {
	number uint64
	bytes  []byte
}

// fields reads a protocol buffer.
func fields(t *testing.T, b []byte) map[int][]field {
	t.Helper()
	found := map[int][]field{}
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatal("a torn tag")
		}
		b = b[n:]
		v, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatal("a torn number")
		}
		b = b[n:]
		f := field{number: v}
		switch tag & 7 {
		case 0:
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
