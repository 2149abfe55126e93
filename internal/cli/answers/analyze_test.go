package answers

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// returnPoints are the channels of return trips, in the order of a tuple's events. The tuple goes
// to the other node, an acknowledgement comes back, and an echo of it follows.
var returnPoints = []string{"source#0/ret-sent", "worker#0/ret-arrived",
	"source#0/ret-acknowledged", "worker#0/ret-echoed"}

// aRun makes a run of 2,000 tuples that go from one node to another and back, with return trips. It
// returns the run's directory.
func aRun(t *testing.T, name string) string {
	t.Helper()
	rng := seed.Random(t)
	nodes := simrun.Nodes(rng, 2)
	var channels []simrun.Channel
	for i, name := range []string{"source#0/send", "worker#0/recv", "worker#0/send",
		"sink#0/recv"} {
		channels = append(channels, simrun.Channel{Node: []int{0, 1, 1, 0}[i], Name: name})
	}
	for i, name := range returnPoints {
		channels = append(channels, simrun.Channel{Node: i % 2, Name: name})
	}
	for id := range uint64(2000) {
		at := simrun.Hz + id*100_000
		for i := range returnPoints {
			channels[4+i].Records = append(channels[4+i].Records,
				simrun.Record{Time: at + uint64(i)*15_000, ID: id})
		}
		for i := range 4 {
			channels[i].Records = append(channels[i].Records, simrun.Record{Time: at, ID: id})
			at += 20_000 + rng.Uint64N(40_000)
			if id%500 == 7 && i == 1 {
				break // the worker drops the tuple
			}
		}
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, name, nodes, channels); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(parent, name)
}

func TestAnalyze(t *testing.T) {
	run := aRun(t, "small")
	code, out, stderr := cprof("analyze", run)
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, say := range []string{
		"run small: 2 nodes, 8 channels, 2000 tuples",
		"\nslowest spans by share of the end-to-end time, for 1996 of 2000 tuples",
		"\nhow sure\n  bounds between nodes: ± ", "the data agree", "\nlook at next\n",
		"all figures: cprof analyze " + run + " -v\n", "share, %", "span, µs",
		"source/send → worker/recv", "lost",
	} {
		if !strings.Contains(out, say) {
			t.Errorf("%q is not in\n%s", say, out)
		}
	}
	for _, hidden := range []string{"cycles", "slowest tuples", "by return trip", "ntp", "note"} {
		if strings.Contains(out, hidden) {
			t.Errorf("%q is shown without being asked for:\n%s", hidden, out)
		}
	}
	_, out, _ = cprof("analyze", run, "--slowest", "2")
	if strings.Count(out, " source#0/send on A → (") != 2 || strings.Contains(out, "cycles") {
		t.Errorf("--slowest 2 shows\n%s", out)
	}
	code, out, stderr = cprof("analyze", run, "-v")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	for _, say := range []string{
		"run small: 2 nodes, 8 channels, 2000 tuples", "cycles are those of node ",
		"the data agree", "source/send → worker/recv",
		"worker/recv → worker/send, computation\n  local ", "end-to-end",
		" ± ", "lost", "slowest tuples", "± cycles, median", "A, B ", "source on A → worker on B",
		" ± 1500", "- ntp: what the NTP daemon of node A",
	} {
		if !strings.Contains(out, say) {
			t.Errorf("%q is not in\n%s", say, out)
		}
	}
	code, out, _ = cprof("analyze", run, "--json", "--reference", "B", "--slowest", "0")
	var a analysis.Answer
	if err := json.Unmarshal([]byte(out), &a); err != nil || code != 0 || a.Reference.Node != "B" ||
		a.Reference.Chosen || len(a.Slowest) > 0 || len(a.Spans) != 3 {
		t.Errorf("exit code %d, %v, reference %+v, %d slowest, %d spans", code, err, a.Reference,
			len(a.Slowest), len(a.Spans))
	}
	if p := a.Points[1]; p.Name != "worker/recv" || p.Lost != 4 {
		t.Errorf("%+v", p)
	}
	_, out, _ = cprof("analyze", run, "--csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	// There are four spans. Each has rows for the whole span and for its only pair of nodes.
	if want := 1 + 4*2*12; err != nil || len(rows) != want {
		t.Errorf("%d rows of CSV, want %d, %v", len(rows), want, err)
	}
}

func TestAnalyzeSaysWhatIsWrong(t *testing.T) {
	run := aRun(t, "broken")
	for name, test := range map[string]struct {
		args []string
		code int
		say  string
	}{
		"no run": {[]string{t.TempDir()}, 1, "no run.yaml"},
		"nothing there": {[]string{"/nothing/there"}, 1,
			`cprof: open run "/nothing/there": no such file or directory: ` +
				"give the directory of one run"},
		"no node": {[]string{run, "--reference", "Z"}, 1, "use one of A, B"},
		"both":    {[]string{run, "--json", "--csv"}, 2, "choose one"},
		"memory":  {[]string{run, "--memory", "lots"}, 2, "512MiB"},
		"edge":    {[]string{run, "--edge", "a"}, 2, "source/send:worker/recv"},
		"id":      {[]string{run, "--id", "x"}, 2, "100-200"},
		"time":    {[]string{run, "--from", "yesterday"}, 2, "2026-11-20T14:00:00Z"},
		"times":   {[]string{run, "--from", "5", "--to", "2026-11-20T14:00:00Z"}, 2, "both"},
		"wander":  {[]string{run, "--wander", "-1"}, 2, "is no wander"},
		"backwards": {[]string{run, "--from", "7", "--to", "5"}, 2, "from 7 to 5 cycles: the " +
			"first is after the second"},
		"backwards UTC": {[]string{run, "--from", "2026-11-20T14:00:01Z", "--to",
			"2026-11-20T14:00:00Z"}, 2, "from 2026-11-20T14:00:01Z to 2026-11-20T14:00:00Z"},
		"pattern":       {[]string{run, "--channel", "["}, 2, `no channel's name has "["`},
		"point":         {[]string{run, "--edge", "a:b"}, 2, "a point is actor/point"},
		"little memory": {[]string{run, "--memory", "1KiB"}, 2, "1 MiB or more"},
		"workers":       {[]string{run, "--workers", "-1"}, 2, "-1 workers"},
		"slowest":       {[]string{run, "--slowest", "-3"}, 2, "0 or more"},
		"third nodes":   {[]string{run, "--third-nodes", "all"}, 2, "agreed, any, none"},
		"nobody":        {nil, 2, "RUN is missing"},

		// A script passes such empty values if it did not set its variables.
		"empty node":      {[]string{run, "--node", ""}, 2, `--node "": it is empty`},
		"empty nodes":     {[]string{run, "--node", "A,"}, 2, `--node "A,": it is empty`},
		"empty channel":   {[]string{run, "--channel", ""}, 2, `--channel "": it is empty`},
		"empty id":        {[]string{run, "--id="}, 2, `--id "": it is empty`},
		"empty edge":      {[]string{run, "--edge", ""}, 2, `--edge "": it is empty`},
		"empty time":      {[]string{run, "--from", "5", "--to", ""}, 2, `--to "": it is empty`},
		"empty reference": {[]string{run, "--reference", ""}, 2, `--reference "": it is empty`},
	} {
		if code, _, stderr := cprof(append([]string{"analyze"},
			test.args...)...); code != test.code || !strings.Contains(stderr, test.say) {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, test.code, stderr)
		}
	}
	if err := os.Remove(filepath.Join(run, "relations", "A--B.rel")); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := cprof("analyze", run)
	if code != 3 || !strings.Contains(stderr, "suspect, missing or undecided") ||
		!strings.Contains(out, "missing\n  relations/A--B.rel: ") ||
		!strings.Contains(out, "worker/recv → worker/send") && !strings.Contains(out,
			"source/send → sink/recv") {
		t.Errorf("without its relation: exit code %d, %s\n%s", code, stderr, out)
	}
}

// joinLines joins the lines of a text.
func joinLines(text string) string { return strings.Join(strings.Fields(text), " ") }

// If a flag names something that the run does not have, the answer says so, and covers the rest. If
// nothing of the run is chosen, there is no answer.
func TestAnalyzeSaysWhatIsNotThereToChoose(t *testing.T) {
	run := aRun(t, "chosen")
	for name, test := range map[string]struct {
		args []string
		code int
		say  []string
	}{
		"one node": {[]string{"--node", "A"}, 0, []string{"2000 tuples"}},
		"no such node": {[]string{"--node", "Z"}, 1, []string{
			`run "chosen": it has no node "Z": use one of A, B`}},
		"one of two": {[]string{"--node", "A,B,Z"}, 3,
			[]string{" 2000 tuples", "source/send → worker/recv", `node "Z": `}},
		"no such channel": {[]string{"--channel", "nothing*,x"}, 1, []string{
			`it has no log of channel "nothing*" or "x": use one of sink#0/recv, source#0/`}},
		"no such channel on a node": {[]string{"--channel", "sink#0/*", "--node", "B"}, 1,
			[]string{"no tuple for --node B and --channel sink#0/*: it has the nodes A, B; it has",
				"the channels sink#0/recv, source#0/"}},
		"no such id": {[]string{"--id", "999999"}, 1,
			[]string{`it has no tuple for --id 999999: "cprof log dump" prints its ids`}},
		"no such ids": {[]string{"--id", "999999-1000000"}, 1, []string{"--id 999999-1000000: "}},
		"another time": {[]string{"--from", "2090-01-01T00:00:00Z"}, 1,
			[]string{"no tuple for --from 2090-01-01T00:00:00Z: it lasted from 1970-01-01T00:00:"}},
		"another time in cycles": {[]string{"--from", "7", "--to", "9", "--reference", "B"}, 1,
			[]string{"no tuple for --from 7 and --to 9: its time axis is from ",
				" cycles of node B"}},
		"wander asked for": {[]string{"--wander", "0.5ppm"}, 0,
			[]string{"if rates wander by 0.5 ppm at most", "the data agree"}},
		"wander above all": {[]string{"--wander", "900ppm"}, 3, []string{"relations/A--B.rel: ",
			"wander above w_max"}},
	} {
		code, out, stderr := cprof(append([]string{"analyze", run}, test.args...)...)
		if code != test.code {
			t.Errorf("%s: exit code %d, want %d: %s", name, code, test.code, stderr)
		}
		for _, say := range test.say {
			if !strings.Contains(joinLines(out+stderr), strings.TrimSpace(say)) {
				t.Errorf("%s: %q is not in\n%s%s", name, say, out, stderr)
			}
		}
		if code == 1 && out != "" {
			t.Errorf("%s: it failed, and printed\n%s", name, out)
		}
	}
	// A reason that many results share is printed once, with an example.
	_, out, _ := cprof("analyze", run, "--wander", "900ppm")
	if text := joinLines(out); strings.Count(text, "how long that took is not known") != 1 ||
		!strings.Contains(text, "tuples pass 4 pairs of points whose nodes are not related, such "+
			"as sink/recv and worker/recv") ||
		strings.Count(text, "at that time") != 1 {
		t.Errorf("with no relation:\n%s", out)
	}
	// run.yaml may already say that a relation is missing, and why. The answer then also says that
	// the relation is refused now, or that its file is gone.
	file, err := os.OpenFile(filepath.Join(run, "run.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("missing:\n  - part: relations/A--B.rel\n    reason: no " +
		"answer in time\n"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := cprof("analyze", run, "--wander", "900ppm")
	if code != 3 || !strings.Contains(out, "no answer in time") ||
		!strings.Contains(joinLines(out), "wander above w_max") {
		t.Errorf("a relation refused of which a part is missing: exit code %d, %s\n%s",
			code, stderr, out)
	}
	if err := os.Remove(filepath.Join(run, "relations", "A--B.rel")); err != nil {
		t.Fatal(err)
	}
	if code, out, stderr := cprof("analyze", run); code != 3 ||
		!strings.Contains(out, "no answer in time") ||
		strings.Count(out, "relations/A--B.rel: the two nodes were not related") != 1 {
		t.Errorf("a relation that is gone of which a part was missing before: exit code %d, %s\n%s",
			code, stderr, out)
	}
}

// A shell completes the names of runs, and of what a run contains. If anything is wrong, the shell
// shows no error.
func TestCompletions(t *testing.T) {
	run := aRun(t, "tuesday")
	t.Setenv("CLOUDPROFILER_RUNS", filepath.Dir(run))
	for _, test := range []struct {
		typed []string
		want  string
	}{
		{[]string{"analyze", ""}, "tuesday\n:0\n"},
		{[]string{"report", "tu"}, "tuesday\n:0\n"},
		{[]string{"export", "x"}, ":0\n"},
		{[]string{"analyze", "tuesday", ""}, ":4\n"},
		{[]string{"diff", "tuesday", ""}, "tuesday\n:0\n"},
		{[]string{"diff", "monday,"}, "monday,tuesday\n:0\n"},
		{[]string{"diff", "tuesday,monday", "monday", "--node", "A,"}, "A,B\n:4\n"},
		{[]string{"analyze", "tuesday", "--reference", ""}, "A\nB\n:4\n"},
		{[]string{"analyze", "tuesday", "--node", "A,"}, "A,B\n:4\n"},
		{[]string{"analyze", "tuesday", "--node=B,"}, "B,A\n:4\n"},
		{[]string{"analyze", "tuesday", "--node", "A,B,"}, ":4\n"},
		{[]string{"analyze", "tuesday", "--channel", "x,source#0/s"},
			"x,source#0/send\n:4\n"},
		{[]string{"analyze", "tuesday", "--edge", "s"}, "sink/recv:\nsource/ret-acknowledged:\n" +
			"source/ret-sent:\nsource/send:\n:6\n"},
		{[]string{"analyze", "tuesday", "--edge", "source/send:worker/s"},
			"source/send:worker/send\n:4\n"},
		{[]string{"analyze", "tuesday", "--edge", "source/send:so"},
			"source/send:source/ret-acknowledged\nsource/send:source/ret-sent\n:4\n"},
		{[]string{"analyze", "tuesday", "--edge", "a/b:c/d,si"}, "a/b:c/d,sink/recv:\n:6\n"},
		{[]string{"analyze", "tuesday", "--edge", "a/b:c/d,e/f:si"},
			"a/b:c/d,e/f:sink/recv\n:4\n"},
		{[]string{"export", "tuesday", "--as", ""}, "csv\nparquet\nperfetto\n:4\n"},
		{[]string{"export", "tuesday", "--as", "csv,p"},
			"csv,parquet\ncsv,perfetto\n:4\n"},
		{[]string{"export", "--as=parquet,"}, "parquet,csv\nparquet,perfetto\n:4\n"},
		{[]string{"analyze", "tuesday", "--reference", "A,"}, ":4\n"},
		{[]string{"analyze", "tuesday", "--channel", "si"}, "sink#0/recv\n:4\n"},
		{[]string{"analyze", run, "--channel", "worker#0/s"}, "worker#0/send\n:4\n"},
		{[]string{"analyze", "--node", ""}, ":4\n"},
		{[]string{"analyze", "nobody", "--node", ""}, ":4\n"},
	} {
		code, out, _ := cprof(append([]string{"__complete"}, test.typed...)...)
		if code != 0 || out != test.want {
			t.Errorf("%q: exit code %d, %q, want %q", test.typed, code, out, test.want)
		}
	}
	// Completion does not offer names that a shell could misread.
	for _, name := range []string{"; rm -rf", "$(x)", ".part", "no-run"} {
		if err := os.Mkdir(filepath.Join(filepath.Dir(run), name), 0o700); err != nil {
			t.Fatal(err)
		}
		if name == "no-run" {
			continue
		}
		path := filepath.Join(filepath.Dir(run), name, "run.yaml")
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, out, _ := cprof("__complete", "analyze", ""); out != "tuesday\n:0\n" {
		t.Errorf("with strange names: %q", out)
	}
}

func TestDiff(t *testing.T) {
	before, after := aRun(t, "before"), aRun(t, "after")
	code, out, stderr := cprof("diff", before, after)
	if code != 0 || !strings.Contains(out, "before: run before, 2000 tuples") ||
		!strings.Contains(out, "\nafter:  run after, 2000 tuples") ||
		strings.Count(out, " → ") != 1+4 || strings.Count(out, "\n  p99 ") != 4 {
		t.Errorf("exit code %d, %s\n%s", code, stderr, out)
	}
	if !strings.Contains(out, "one run on each side does not show") {
		t.Errorf("nothing says that runs are to be repeated:\n%s", out)
	}
	again, later := aRun(t, "again"), aRun(t, "later")
	code, out, stderr = cprof("diff", before+","+again, after+","+later)
	if code != 0 || strings.Count(out, " run again, ") != 1 ||
		strings.Contains(out, "one run on each") {
		t.Errorf("two on each side: exit code %d, %s\n%s", code, stderr, out)
	}
	code, out, _ = cprof("diff", before+","+again, after, "--json")
	if code != 0 || strings.Count(out, `"before_runs":2,"after_runs":1`) != 4*2 {
		t.Errorf("two before, one after: exit code %d\n%s", code, out)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(before, link); err != nil {
		t.Fatal(err)
	}
	for _, twice := range [][2]string{
		{before, before}, {before + "," + before, after}, {after, again + "," + again + "/"},
		{before + "," + later, after + "," + link},
	} {
		if code, out, stderr := cprof("diff", twice[0], twice[1]); code != 2 || out != "" ||
			!strings.Contains(stderr, "is given twice, as ") {
			t.Errorf("%v: exit code %d, %s", twice, code, stderr)
		}
	}
	if code, _, stderr := cprof("diff", before+",", after); code != 2 ||
		!strings.Contains(stderr, "between two commas is empty") {
		t.Errorf("an empty name: exit code %d, %s", code, stderr)
	}
	code, out, _ = cprof("diff", before, after, "--json")
	if code != 0 || strings.Count(out, `"verdict"`) != 4*2 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	// diff and export do not list what is missing. They say which command does.
	for _, args := range [][]string{{"diff", before, after}, {"export", after}} {
		code, _, stderr := cprof(append(args, "--node", "A,B,Z")...)
		if code != 3 ||
			!strings.Contains(stderr, `"cprof analyze `+after+`" with the same flags names them`) {
			t.Errorf("%s with a node that is not there: exit code %d, %s", args[0], code, stderr)
		}
	}
	otlp := filepath.Join(t.TempDir(), "traces")
	for _, args := range [][]string{{"diff", before, after}, {"export", after}, {"report", after},
		{"export", after, "--otlp", otlp}, {"serve", after, "--listen", "127.0.0.1:0"}} {
		for _, none := range [][]string{{"--id", "999999"}, {"--node", "Z"}} {
			code, out, stderr := cprof(append(args, none...)...)
			if code != 1 || out != "" || !strings.Contains(stderr, strings.TrimLeft(none[0], "-")) {
				t.Errorf("%s %s: exit code %d, %s%s", args[0], none, code, out, stderr)
			}
		}
	}
	// diff shows no single tuples
	if code, _, stderr := cprof("diff", before, after, "--slowest", "3"); code != 2 {
		t.Errorf("--slowest: exit code %d, %s", code, stderr)
	}
	if code, _, _ := cprof("diff", before); code != 2 {
		t.Errorf("of one run: exit code %d", code)
	}
}

func TestExport(t *testing.T) {
	run := aRun(t, "exported")
	code, out, stderr := cprof("export", run, "--as", "parquet,csv,perfetto")
	if code != 0 || !strings.Contains(out, "7992 events of 2000 tuples") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, out)
	}
	for _, name := range []string{"events", "durations", "origins.parquet",
		"edges.parquet", "about.parquet", "duckdb.sql", "spark.sql", "clickhouse.sql", "join.sql",
		"percentiles.sql", "events.csv", "durations.csv", "origins.csv", "edges.csv", "about.csv",
		"trace.perfetto-trace"} {
		if info, err := os.Stat(filepath.Join(run, "exports", name)); err != nil ||
			info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(out, name) {
			t.Errorf("%s is not listed", name)
		}
	}
	for _, as := range []string{"excel", ""} {
		if code, _, stderr := cprof("export", run, "--as", as); code != 2 ||
			!strings.Contains(stderr, "use parquet, csv or perfetto") {
			t.Errorf("as %q: exit code %d, %s", as, code, stderr)
		}
	}
}

// A duration that rests on a contradicted relation is an estimate, and each file and output says
// so.
func TestAnEstimateIsMarkedEverywhere(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Suspect(seed.Random(t), parent, "suspect"); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(parent, "suspect")
	column := func(text, name string) (values map[string]bool) {
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil || len(rows) < 2 {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		values = map[string]bool{}
		for _, row := range rows[1:] {
			values[row[slices.Index(rows[0], name)]] = true
		}
		return values
	}
	code, out, stderr := cprof("analyze", run)
	if code != 3 || !strings.Contains(out, "suspect: the relation of A and B is suspect") ||
		!strings.Contains(out, "suspect\n") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, out)
	}
	code, out, _ = cprof("analyze", run, "--csv")
	if suspect := column(out, "suspect"); code != 3 || !suspect["100"] {
		t.Errorf("as CSV: exit code %d, suspect %v", code, suspect)
	}
	if code, out, stderr := cprof("export", run, "--as", "csv"); code != 3 {
		t.Errorf("export: exit code %d, %s, %s", code, out, stderr)
	}
	for _, name := range []string{"events.csv", "durations.csv"} {
		text, err := os.ReadFile(filepath.Join(run, "exports", name))
		if err != nil {
			t.Fatal(err)
		}
		if verdicts := column(string(text), "verdict"); !verdicts["suspect"] {
			t.Errorf("%s: verdicts %v", name, verdicts)
		}
	}
	// The analysis uses the third nodes that --third-nodes names.
	if _, out, _ := cprof("analyze", run, "--json", "--third-nodes", "none"); !strings.Contains(out,
		`"third_nodes": "none"`) {
		t.Errorf("third nodes are not none in\n%.600s", out)
	}
}
