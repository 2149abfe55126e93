package export

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

var update = flag.Bool("update", false, "write the golden files")

// engine runs SQL. Its program reads statements as JSON, and prints the rows of the last statement.
type engine struct {
	name, module string
	opens        string // the file that opens the tables
	program      string
}

var duckDB = engine{"DuckDB", "duckdb", "duckdb.sql", `
import duckdb, json, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false")  # it would go to stdout, where a query takes 2 s
for s in json.load(sys.stdin):
    r = c.execute(s)
names = [d[0] for d in r.description]
print(json.dumps([{n: None if v is None else str(v) for n, v in zip(names, row)}
    for row in r.fetchall()]))
`}

var engines = []engine{duckDB, {"Spark", "pyspark", "spark.sql", `
import json, sys
from pyspark.sql import SparkSession
c = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false") \
    .config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "ERROR") \
    .config("spark.ui.showConsoleProgress", "false").getOrCreate()
for s in json.load(sys.stdin):
    r = c.sql(s)
print(json.dumps([{n: None if v is None else str(v) for n, v in row.asDict().items()}
    for row in r.collect()]))
c.stop()
`}, {"ClickHouse", "chdb", "clickhouse.sql", `
import json, sys
from chdb import session
c = session.Session()
for s in json.load(sys.stdin):
    r = c.query(s, "JSON")
print(json.dumps([{n: None if v is None else str(v) for n, v in row.items()}
    for row in json.loads(str(r))["data"]]))
`}}

// ask opens the tables in a directory and returns the rows of a query.
func (e engine) ask(t *testing.T, dir, sql string) (rows []map[string]*string) {
	t.Helper()
	all := append(statements(queryText(e.opens)), sql)
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	runPython(t, dir, e.module, e.program, string(text), &rows)
	return rows
}

// statements splits SQL, without its comments.
func statements(sql string) (all []string) {
	var lines []string
	for _, line := range strings.Split(sql, "\n") {
		if !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	for _, s := range strings.Split(strings.Join(lines, "\n"), ";") {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, s)
		}
	}
	return all
}

// runJoin runs join.sql.
func (e engine) runJoin(t *testing.T, dir string) (all []measuredPair) {
	t.Helper()
	for _, r := range e.ask(t, dir, statements(queryText("join.sql"))[0]) {
		whole := func(name string) *int64 {
			if r[name] == nil {
				return nil
			}
			v, err := strconv.ParseInt(*r[name], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return &v
		}
		all = append(all, measuredPair{pair{*r["tuple_id"], *r["way"], *r["from_way"],
			*r["from_point"], *r["to_point"], *r["kind"], *r["from_node"], *r["to_node"]},
			whole("lo_cycles"), whole("hi_cycles"), *r["verdict"]})
	}
	inOrder(all)
	return all
}

// compareGolden takes the durations of the job that forkingJob makes. It compares them with a file
// of durations that a person has checked. Each duration is a pair of events.
func compareGolden(t *testing.T, all []measuredPair) {
	t.Helper()
	var lines []string
	for _, m := range all {
		if len(m.ID) < 4 {
			lines = append(lines, fmt.Sprintf("tuple %2s: %s → %s, %s\n", m.ID, m.From, m.To,
				m.Kind))
		}
	}
	slices.Sort(lines)
	text := strings.Join(lines, "")
	path := filepath.Join("testdata", "forks.txt")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("the pairs are\n%swant\n%s", text, want)
	}
}

// In a job with parallel branches, the analysis finds the durations that a person has checked. This
// test needs no SQL engine.
func TestForks(t *testing.T) {
	compareGolden(t, nativeDurations(t, forkingJob(t), analysis.Options{Reference: "A"}))
}

func TestDuckDBJoinsForks(t *testing.T) {
	run, o := forkingJob(t), analysis.Options{Reference: "A"}
	joined := duckDB.runJoin(t, exportOf(t, run, o))
	compareGolden(t, joined)
	samePairs(t, nativeDurations(t, run, o), joined)
}

func TestDuckDBJoinsRandomJobs(t *testing.T) {
	seed.For(t, 12, func(t *testing.T, rng *rand.Rand) {
		run, o := randomJob(t, rng)
		native := nativeDurations(t, run, o)
		if len(native) == 0 {
			t.Fatal("no durations")
		}
		samePairs(t, native, duckDB.runJoin(t, exportOf(t, run, o)))
	})
}

// A and C have good relations to the reference B, but a poor relation to each other. So the
// intervals of their events are narrow, and those of the durations between A and C are wide.
func TestDuckDBJoinsOriginsOfAPoorRelation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var j job
	for id := range uint64(100) {
		at := simrun.Hz + id*simrun.Hz/100
		j.log(0, "source/send", at, id)
		j.log(1, "window/recv", at+1_000_000, id)
		if id%5 == 4 {
			for of := id - 4; of <= id; of++ {
				j.logLink(of, 1<<40|id)
			}
			j.log(1, "window/send", at+2_000_000, 1<<40|id)
			j.log(2, "sink/recv", at+3_000_000, 1<<40|id)
		}
	}
	nodes := simrun.Nodes(rng, 3)
	run := j.write(t, rng, nodes)
	relateBefore(t, rng, run, &nodes[0], &nodes[2])
	o := analysis.Options{Reference: "B", ThirdNodes: tscratio.ThirdNone}
	dir := exportOf(t, run, o)
	joined := duckDB.runJoin(t, dir)
	samePairs(t, nativeDurations(t, run, o), joined)
	r := duckDB.ask(t, dir, `SELECT count(*) AS n FROM origins
    WHERE earlier_cycles > 0 AND later_cycles > 0`)[0]
	if *r["n"] != "40" {
		t.Errorf("%s of 40 durations from origins have events that are placed too well", *r["n"])
	}
}

// runPercentiles runs percentiles.sql, and returns how many of its rows differ from the answer's.
func (e engine) runPercentiles(t *testing.T, dir string, answer *analysis.Answer) (other int) {
	t.Helper()
	rows := map[string]map[string]*string{}
	for _, r := range e.ask(t, dir, statements(queryText("percentiles.sql"))[0]) {
		percent, err := strconv.ParseFloat(*r["percent"], 64)
		if err != nil {
			t.Fatal(err)
		}
		rows[fmt.Sprint(*r["from_point"], *r["to_point"], *r["kind"], percent)] = r
	}
	ns := answer.Reference.Nanoseconds()
	los, his := map[string][]int64{}, map[string][]int64{} // sorted, by points and kind
	for _, d := range nativeDurations(t, filepath.Dir(dir),
		analysis.Options{Reference: answer.Reference.Node}) {
		key := fmt.Sprint(d.From, d.To, d.Kind)
		los[key], his[key] = append(los[key], *d.Lo), append(his[key], *d.Hi)
	}
	for key := range los {
		slices.Sort(los[key])
		slices.Sort(his[key])
	}
	for _, spans := range [][]analysis.Span{answer.Spans, answer.EndToEnd} {
		for _, s := range spans {
			if s.Kind == "gap" {
				s.Kind = "transfer"
			}
			for _, p := range s.All.Percentiles {
				key := fmt.Sprint(s.From, s.To, s.Kind, p.Percent)
				r := rows[key]
				delete(rows, key)
				lo_ns, hi_ns, _ := ns.Of(p.Interval)
				// The query's percentile in ns is an interval. It must lie within the analysis's
				// percentile, which is rounded outward. It must also contain the exact percentile.
				// The analysis's percentile and the exact one are converted to ns here.
				span := fmt.Sprint(s.From, s.To, s.Kind)
				rank := max(int(math.Ceil(p.Percent*float64(s.All.Count)/100-1e-9)), 1) - 1
				most_ns, least_ns, _ := ns.Of(analysis.Interval{Lo_cycles: los[span][rank],
					Hi_cycles: his[span][rank]})
				number := func(name string) int64 {
					v, err := strconv.ParseInt(*r[name], 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					return v
				}
				if r == nil || number("lo_cycles") != p.Lo_cycles ||
					number("hi_cycles") != p.Hi_cycles || number("n") != int64(s.All.Count) ||
					number("lo_ns") < lo_ns || number("lo_ns") > most_ns ||
					number("hi_ns") > hi_ns || number("hi_ns") < least_ns {
					if other++; other <= 5 {
						t.Errorf("%s: p%v of %d from %s to %s: %+v, %d to %d ns, SQL has %v",
							e.name, p.Percent, s.All.Count, s.From, s.To, p.Interval, lo_ns, hi_ns,
							shown(r))
					}
				}
			}
		}
	}
	if len(rows) > 0 {
		t.Errorf("%s: %d percentiles are of no span", e.name, len(rows))
	}
	return other + len(rows)
}

func shown(row map[string]*string) map[string]string {
	all := map[string]string{}
	for name, v := range row {
		all[name] = "NULL"
		if v != nil {
			all[name] = *v
		}
	}
	return all
}

// signedRun is a run of two nodes in which many durations may be negative, and some last for days.
func signedRun(t *testing.T, rng *rand.Rand, tuples int) string {
	var j job
	for id := range uint64(tuples) {
		at := simrun.Hz + id*10_000
		j.log(0, "a/send", at, id)
		after := at + rng.Uint64N(1<<(1+rng.UintN(14)))
		if id%100 == 0 {
			after = at + rng.Uint64N(1<<(14+rng.UintN(22)))
		}
		j.log(1, "b/recv", after, id)
	}
	return j.write(t, rng, simrun.Nodes(rng, 2))
}

// The query percentiles.sql finds the same percentiles of durations as the analysis. The analysis
// gives exact percentiles of few durations, and rounds those of many.
func TestDuckDBFindsPercentiles(t *testing.T) {
	rng := seed.Random(t)
	for _, tuples := range []int{2000, 70_000} { // with 70,000, percentiles are rounded
		run := signedRun(t, rng, tuples)
		answer := answerOf(t, run, analysis.Options{Reference: "B"})
		if p, _ := answer.Spans[0].All.Percentiles.At(1); p.Lo_cycles >= 0 {
			t.Errorf("the first percentile is %v: no end is negative", p)
		}
		duckDB.runPercentiles(t, exportOf(t, run, analysis.Options{Reference: "B"}), answer)
		dir, answer := exportedRun(t, rng, tuples)
		duckDB.runPercentiles(t, dir, answer)
	}
}

func answerOf(t *testing.T, run string, o analysis.Options) *analysis.Answer {
	t.Helper()
	dir, err := runs.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	answer, err := analysis.Run(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// The tables have the columns that FORMAT.md names. The rows in CSV are the same as in Parquet.
func TestDuckDBReadsTables(t *testing.T) {
	run, o := randomJob(t, seed.Random(t))
	dir := exportOf(t, run, o)
	for table, columns := range map[string]string{
		"events": "tuple_id UBIGINT, way BIGINT, path INTEGER, lo_cycles BIGINT, " +
			"hi_cycles BIGINT, lo_ns BIGINT, hi_ns BIGINT, node VARCHAR, channel VARCHAR, " +
			"point VARCHAR, verdict VARCHAR, part BIGINT",
		"durations": "tuple_id UBIGINT, way BIGINT, from_way BIGINT, from_point VARCHAR, " +
			"to_point VARCHAR, from_node VARCHAR, to_node VARCHAR, kind VARCHAR, " +
			"critical VARCHAR, lo_cycles BIGINT, hi_cycles BIGINT, lo_ns BIGINT, hi_ns BIGINT, " +
			"scenario VARCHAR, verdict VARCHAR, part BIGINT",
		"origins": "way BIGINT, from_way BIGINT, from_point VARCHAR, to_point VARCHAR, " +
			"kind VARCHAR, earlier_cycles BIGINT, later_cycles BIGINT",
		"edges": "path INTEGER, from_point VARCHAR, to_point VARCHAR, kind VARCHAR",
		"about": "key VARCHAR, value VARCHAR",
	} {
		inParts := strings.HasSuffix(columns, "part BIGINT")
		r := shown(duckDB.ask(t, dir, fmt.Sprintf(`
WITH p AS (SELECT COLUMNS(* %[2]s)::VARCHAR FROM %[1]s),
c AS (FROM read_csv('%[1]s.csv', all_varchar = true, nullstr = ''))
SELECT (SELECT count(*) FROM p) AS n,
    (SELECT count(*) FROM (FROM p EXCEPT ALL FROM c))
        + (SELECT count(*) FROM (FROM c EXCEPT ALL FROM p)) AS other,
    (SELECT string_agg(column_name || ' ' || column_type, ', ') FROM (DESCRIBE FROM %[1]s))
        AS columns`, table, map[bool]string{true: "EXCLUDE (part)"}[inParts]))[0])
		if r["n"] == "0" && table != "origins" || r["other"] != "0" {
			t.Errorf("%s in Parquet and in CSV: %v", table, r)
		}
		if r["columns"] != columns {
			t.Errorf("%s has the columns %s, want %s", table, r["columns"], columns)
		}
	}
}

// Whatever rests on a suspect relation is suspect in every row, and also in the result of join.sql.
func TestDuckDBReadsVerdicts(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Suspect(seed.Random(t), parent, "suspect"); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(parent, "suspect")
	for _, reference := range []string{"A", "B"} { // either event may rest on the relation
		o := analysis.Options{Reference: reference}
		native, joined := nativeDurations(t, run, o), duckDB.runJoin(t, exportOf(t, run, o))
		samePairs(t, native, joined)
		for _, p := range joined {
			if p.Verdict != "suspect" {
				t.Errorf("in cycles of %s: %v is %s", reference, p, p.Verdict)
			}
		}
		if len(joined) != 100 {
			t.Errorf("%d pairs", len(joined))
		}
	}
}

// Each engine that runs join.sql and percentiles.sql finds what the analysis finds.
func TestBarEngines(t *testing.T) {
	size := proof.Begin(t)
	for _, e := range engines {
		if size != proof.Full && e.name != duckDB.name {
			continue // the other engines take long to start
		}
		pairs := proof.Bar{Name: "pairs that only one of join.sql on " + e.name +
			" and the analysis finds, or whose interval it misses", Unit: "pairs"}
		percentiles := proof.Bar{Name: "percentiles of " + e.name + " that are not the analysis'",
			Unit: "percentiles"}
		if _, absent := pythonWith(e.module); absent != "" {
			pairs.Absent, percentiles.Absent = absent, absent
			proof.Check(t, pairs, percentiles)
			continue
		}
		joins := func(run string, o analysis.Options) []measuredPair {
			joined := e.runJoin(t, exportOf(t, run, o))
			pairs.Figure += float64(samePairs(t, nativeDurations(t, run, o), joined))
			return joined
		}
		compareGolden(t, joins(forkingJob(t), analysis.Options{Reference: "A"}))
		for range 2 {
			joins(randomJob(t, seed.Random(t)))
		}
		o := analysis.Options{Reference: "B"}
		for _, tuples := range []int{2000, 70_000} {
			run := signedRun(t, seed.Random(t), tuples)
			percentiles.Figure += float64(e.runPercentiles(t, exportOf(t, run, o),
				answerOf(t, run, o)))
		}
		proof.Check(t, pairs, percentiles)
	}
}
