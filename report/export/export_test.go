package export

import (
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// exported makes a run of three nodes, with a computation and losses, and exports all of it.
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
			channels[i].Records = append(channels[i].Records, simrun.Record{Time: at, ID: id | 1<<63})
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
	files, answer, err := Run(context.Background(), dir, analysis.Options{Reference: "B"}, Parquet|CSV|SQL|Perfetto)
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
	for name, want := range map[string]uint64{"events.csv": answer.Work.Events, "durations.csv": durationsOf(answer)} {
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

func durationsOf(a *analysis.Answer) uint64 {
	var n uint64
	for _, legs := range [][]analysis.Leg{a.Legs, a.EndToEnd} {
		for _, l := range legs {
			n += l.All.Count
		}
	}
	return n
}

// A trace is messages as protocol buffers write them, and in each track slices nest.
func TestTrace(t *testing.T) {
	dir, answer := exported(t, seed.Random(t), 300)
	text, err := os.ReadFile(filepath.Join(dir, "trace.perfetto-trace"))
	if err != nil {
		t.Fatal(err)
	}
	depth := map[uint64]int{}
	last := map[uint64]uint64{}
	tracks := map[uint64]bool{}
	slices := 0
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
				slices++
				if len(e[eventName]) != 1 || len(e[eventAnnotation]) != 6 {
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
	if uint64(slices) != durationsOf(answer) {
		t.Errorf("%d slices, %d durations", slices, durationsOf(answer))
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

// duck runs SQL in a directory and returns the rows of its last statement. It needs Python with the package duckdb: scripts/install export.
func duck(t *testing.T, dir, sql string) []map[string]any {
	t.Helper()
	python := os.Getenv("CLOUDPROFILER_PYTHON")
	if python == "" {
		python = "python3"
	}
	if err := exec.Command(python, "-c", "import duckdb").Run(); err != nil {
		t.Skipf("%s has no package duckdb: pip install duckdb, or name another Python in CLOUDPROFILER_PYTHON", python)
	}
	const program = `
import duckdb, json, sys
c = duckdb.connect()
r = c.execute(sys.stdin.read())
names = [d[0] for d in r.description]
print(json.dumps([{n: str(v) for n, v in zip(names, row)} for row in r.fetchall()]))
`
	cmd := exec.Command(python, "-c", program)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(sql)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, sql)
	}
	var rows []map[string]any
	if err := json.Unmarshal(out, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// The ready SQL finds over events the same pairs, each in an interval that contains the native one, and over durations the same percentiles.
func TestDuckDBAgrees(t *testing.T) {
	for _, tuples := range []int{2000, 70_000} { // of the latter, percentiles are rounded
		dir, answer := exported(t, seed.Random(t), tuples)
		rows := duck(t, dir, joinSQL+`
SELECT count(*) AS pairs, count(j.way) FILTER (j.lo_cycles <= d.lo_cycles AND j.hi_cycles >= d.hi_cycles) AS inside,
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
			legs[answer.EndToEnd[i].From+answer.EndToEnd[i].To+answer.EndToEnd[i].Kind] = &answer.EndToEnd[i]
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
				if fmt.Sprint(p.Lo_cycles) != r["lo_cycles"] || fmt.Sprint(p.Hi_cycles) != r["hi_cycles"] {
					t.Errorf("p%v from %s to %s: %d to %d, DuckDB has %v to %v", p.Percent, l.From, l.To, p.Lo_cycles, p.Hi_cycles, r["lo_cycles"], r["hi_cycles"])
				}
			}
		}
		if compared != 4*12 {
			t.Errorf("%d percentiles were compared, want 48", compared)
		}
	}
}
