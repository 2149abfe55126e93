package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
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
	for _, legs := range [][]analysis.Leg{a.Legs, a.EndToEnd} {
		for _, l := range legs {
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
		return &analysis.EventRow{ID: 100 + way, Way: way, Point: point,
			At: tscratio.Interval{Lo: lo, Hi: hi}}
	}
	for way := uint64(1); way <= traceTuples+5; way++ {
		d := analysis.DurationRow{ID: 100 + way, Way: way, From: "a/p", To: "b/q"}
		back := analysis.DurationRow{ID: 100 + way, Way: way, From: "b/q", To: "c/r"}
		// One event of lost has no place.
		lost := analysis.DurationRow{ID: 100 + way, Way: way, From: "c/r", To: "d/s"}
		whole := analysis.DurationRow{ID: 100 + way, Way: way, From: "a/p", To: "c/r"}
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

// python runs a program in a directory and reads the JSON that it prints. It needs Python with a
// module, which make test-export installs.
func python(t *testing.T, dir, module, program, stdin string, out any) {
	t.Helper()
	command := cmp.Or(os.Getenv("CLOUDPROFILER_PYTHON"), "python3")
	if err := exec.Command(command, "-c", "import "+module).Run(); err != nil {
		t.Skipf("%s has no module %s: pip install %[2]s, or name another Python in "+
			"CLOUDPROFILER_PYTHON", command, module)
	}
	cmd := exec.Command(command, "-c", program)
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, strings.NewReader(stdin), os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stdin)
	}
	if err := json.Unmarshal(text, out); err != nil {
		t.Fatal(err)
	}
}

// duck runs SQL in a directory and returns the rows of its last statement.
func duck(t *testing.T, dir, sql string) (rows []map[string]any) {
	t.Helper()
	python(t, dir, "duckdb", `
import duckdb, json, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false")  # it would go to stdout, where a query takes 2 s
r = c.execute(sys.stdin.read())
names = [d[0] for d in r.description]
print(json.dumps([{n: str(v) for n, v in zip(names, row)} for row in r.fetchall()]))
`, sql, &rows)
	return rows
}

// Perfetto's own schema knows every field of a trace, and reads the durations that the table has.
func TestPerfettoReadsTrace(t *testing.T) {
	dir, answer := exported(t, seed.Random(t), 300)
	var trace struct {
		Unknown []string // fields that the schema does not have
		Types   map[string]int
		Slices  []string
	}
	python(t, dir, "perfetto", `
import json
from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
unknown, types, slices, tracks = [], {}, [], {}
def check(m):
    unknown.extend("%s %d" % (m.DESCRIPTOR.full_name, u.field_number) for u in UnknownFieldSet(m))
    for f, v in m.ListFields():
        if f.type == f.TYPE_MESSAGE:
            for inner in ([v] if hasattr(v, "DESCRIPTOR") else v):
                check(inner)
trace = pb.Trace()
with open("trace.perfetto-trace", "rb") as f:
    trace.ParseFromString(f.read())
check(trace)
for p in trace.packet:
    if p.HasField("track_descriptor"):
        tracks[p.track_descriptor.uuid] = p.track_descriptor.name
    if p.HasField("track_event"):
        e = p.track_event
        name = pb.TrackEvent.Type.Name(e.type)
        types[name] = types.get(name, 0) + 1
        if name == "TYPE_SLICE_BEGIN":
            a = {d.name: (d.int_value if d.HasField("int_value") else d.string_value)
                for d in e.debug_annotations}
            names = "from_node", "to_node", "lo_cycles", "hi_cycles", "scenario", "verdict"
            words = [tracks[e.track_uuid], e.name] + [str(a[n]) for n in names]
            slices.append(" ".join(words))
print(json.dumps({"Unknown": unknown, "Types": types, "Slices": slices}))
`, "", &trace)
	if len(trace.Unknown) > 0 {
		t.Errorf("the schema does not know %q", trace.Unknown)
	}
	if n := int(durationsOf(answer)); len(trace.Types) != 2 ||
		trace.Types["TYPE_SLICE_BEGIN"] != n || trace.Types["TYPE_SLICE_END"] != n {
		t.Errorf("events %v, want %d slices", trace.Types, n)
	}
	f, err := os.Open(filepath.Join(dir, "durations.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	// The columns are tuple_id, way, from_point, to_point, from_node, to_node, kind, lo_cycles,
	// hi_cycles, scenario and verdict.
	for _, r := range rows[1:] {
		words := []string{"tuple " + r[0], r[2] + " → " + r[3], r[4], r[5], r[7], r[8], r[9], r[10]}
		want = append(want, strings.Join(words, " "))
	}
	slices.Sort(want)
	slices.Sort(trace.Slices)
	if !slices.Equal(want, trace.Slices) {
		t.Errorf("of %d slices and %d durations not all are the same, first %q and %q",
			len(trace.Slices), len(want), trace.Slices[0], want[0])
	}
}

// Parquet has the rows that CSV has, in columns of the types that FORMAT.md names. Whatever rests
// on a suspect relation is suspect in every row, and in the result of join.sql.
func TestDuckDBReadsVerdicts(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Suspect(seed.Random(t), parent, "suspect"); err != nil {
		t.Fatal(err)
	}
	run, err := runs.Open(filepath.Join(parent, "suspect"))
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	_, answer, err := Run(t.Context(), run, analysis.Options{Reference: "A"}, Parquet|CSV|SQL)
	if err != nil {
		t.Fatal(err)
	}
	var suspect uint64
	for _, legs := range [][]analysis.Leg{answer.Legs, answer.EndToEnd} {
		for _, l := range legs {
			suspect += l.All.Suspect
		}
	}
	if suspect == 0 {
		t.Fatal("nothing is suspect")
	}
	sound, _ := exported(t, seed.Random(t), 500)
	for dir, want := range map[string]uint64{filepath.Join(parent, "suspect", "exports"): suspect,
		sound: 0} {
		for _, table := range []string{"events", "durations"} {
			rows := duck(t, dir, fmt.Sprintf(`
CREATE VIEW p AS SELECT COLUMNS(*)::VARCHAR FROM '%[1]s.parquet';
CREATE VIEW c AS SELECT * FROM read_csv('%[1]s.csv', all_varchar = true);
SELECT (SELECT count(*) FROM p) AS rows,
    (SELECT count(*) FROM (FROM p EXCEPT ALL FROM c))
        + (SELECT count(*) FROM (FROM c EXCEPT ALL FROM p)) AS other,
    (SELECT string_agg(column_name || ' ' || column_type, ', ')
        FROM (DESCRIBE FROM '%[1]s.parquet')) AS columns;`, table))
			if r := rows[0]; r["rows"] == "0" || r["other"] != "0" {
				t.Errorf("%s in Parquet and in CSV: %v", table, r)
			}
			described := map[string]string{
				"events": "tuple_id UBIGINT, way UBIGINT, lo_cycles UBIGINT, " +
					"hi_cycles UBIGINT, node VARCHAR, channel VARCHAR, point VARCHAR, " +
					"verdict VARCHAR",
				"durations": "tuple_id UBIGINT, way UBIGINT, from_point VARCHAR, " +
					"to_point VARCHAR, from_node VARCHAR, to_node VARCHAR, kind VARCHAR, " +
					"lo_cycles BIGINT, hi_cycles BIGINT, scenario VARCHAR, verdict VARCHAR",
			}[table]
			if got := rows[0]["columns"]; got != described {
				t.Errorf("%s has the columns %s, want %s", table, got, described)
			}
		}
		rows := duck(t, dir, joinSQL+`
SELECT count(*) FILTER (d.verdict = 'suspect') AS suspect,
    count(*) FILTER (d.verdict = 'suspect' AND j.verdict != 'suspect') AS hidden,
    count(*) FILTER (j.verdict = 'suspect') > 0 AS joined,
    count(*) FILTER (d.from_node != j.from_node OR d.to_node != j.to_node) AS misplaced
FROM durations d JOIN joined j USING (tuple_id, way, from_point, to_point, kind);`)
		if r := rows[0]; r["suspect"] != fmt.Sprint(want) || r["hidden"] != "0" ||
			r["joined"] != map[bool]string{true: "True", false: "False"}[want > 0] ||
			r["misplaced"] != "0" {
			t.Errorf("%d durations are suspect, and by the tables %v", want, r)
		}
	}
	// Either of the two events may rest on the relation.
	if _, _, err := Run(t.Context(), run, analysis.Options{Reference: "B"}, Parquet); err != nil {
		t.Fatal(err)
	}
	r := duck(t, filepath.Join(parent, "suspect", "exports"), joinSQL+`
SELECT count(*) AS all, count(*) FILTER (verdict = 'suspect') AS suspect FROM joined;`)[0]
	if r["suspect"] != r["all"] || r["all"] == "0" {
		t.Errorf("in cycles of the other node %v", r)
	}
}

// join.sql finds the same pairs in events, each with an interval that contains the native one.
// percentiles.sql finds the same percentiles in durations.
func TestDuckDBAgrees(t *testing.T) {
	for _, tuples := range []int{2000, 70_000} { // percentiles of the latter are rounded
		dir, answer := exported(t, seed.Random(t), tuples)
		rows := duck(t, dir, joinSQL+`
SELECT count(*) AS pairs,
    count(j.way) FILTER (j.lo_cycles <= d.lo_cycles AND j.hi_cycles >= d.hi_cycles) AS inside,
    (SELECT count(*) FROM joined) AS joined, count(*) FILTER (j.way IS NULL) AS missing
FROM durations d LEFT JOIN joined j USING (tuple_id, way, from_point, to_point, kind);`)
		n := fmt.Sprint(durationsOf(answer))
		if r := rows[0]; r["pairs"] != n || r["inside"] != n || r["missing"] != "0" {
			t.Errorf("of %s durations: %v", n, r)
		}
		legs := map[string]*analysis.Leg{}
		for i := range answer.Legs {
			legs[answer.Legs[i].From+answer.Legs[i].To+answer.Legs[i].Kind] = &answer.Legs[i]
		}
		for i := range answer.EndToEnd {
			legs[answer.EndToEnd[i].From+answer.EndToEnd[i].To+answer.EndToEnd[i].Kind] =
				&answer.EndToEnd[i]
		}
		compared := 0
		for _, r := range duck(t, dir, percentilesSQL) {
			l := legs[fmt.Sprint(r["from_point"], r["to_point"], r["kind"])]
			if l == nil {
				t.Fatalf("no leg for %v", r)
			}
			for _, p := range l.All.Percentiles {
				if fmt.Sprint(p.Percent) != strings.TrimSuffix(fmt.Sprint(r["percent"]), ".0") {
					continue
				}
				compared++
				if fmt.Sprint(p.Lo_cycles) != r["lo_cycles"] ||
					fmt.Sprint(p.Hi_cycles) != r["hi_cycles"] {
					t.Errorf("p%v from %s to %s: %d to %d, DuckDB has %v to %v",
						p.Percent, l.From, l.To, p.Lo_cycles, p.Hi_cycles, r["lo_cycles"],
						r["hi_cycles"])
				}
			}
		}
		if compared != 4*12 {
			t.Errorf("%d percentiles were compared, want 48", compared)
		}
	}
}
