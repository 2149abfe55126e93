package export

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
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
)

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
	for _, spans := range [][]analysis.Span{answer.Spans, answer.EndToEnd} {
		for _, l := range spans {
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
		spans := map[string]*analysis.Span{}
		for i := range answer.Spans {
			spans[answer.Spans[i].From+answer.Spans[i].To+answer.Spans[i].Kind] = &answer.Spans[i]
		}
		for i := range answer.EndToEnd {
			spans[answer.EndToEnd[i].From+answer.EndToEnd[i].To+answer.EndToEnd[i].Kind] =
				&answer.EndToEnd[i]
		}
		compared := 0
		for _, r := range duck(t, dir, percentilesSQL) {
			l := spans[fmt.Sprint(r["from_point"], r["to_point"], r["kind"])]
			if l == nil {
				t.Fatalf("no span for %v", r)
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
