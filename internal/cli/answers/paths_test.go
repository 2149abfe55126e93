package answers

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// hotelRun makes a run in which the calls of 200 requests were captured.
func hotelRun(t *testing.T) string {
	t.Helper()
	set := callgen.Make(callgen.Apps["hotel"], callgen.Options{Requests: 200, PerSecond: 20,
		Seed: 1})
	parent := t.TempDir()
	if err := callgen.Capture(seed.Random(t), parent, "hotel", set, 2); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(parent, "hotel")
}

// cprof export --paths writes all paths of requests, or only the paths that flags choose.
func TestExportPaths(t *testing.T) {
	run := hotelRun(t)
	otlp := filepath.Join(t.TempDir(), "paths.jsonl")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--as parquet,csv,perfetto", 0, "paths.csv: 200 of 200 paths\n"},
		{"--as parquet --slowest 3", 0, "paths.parquet: 3 of 200 paths\n"},
		{"--otlp " + otlp, 0, "of 200 of 200 paths, in cycles of node "},
		{"--program geo --longer 1h", 1, "none of its 200 paths"},
		{"--method guess", 2, "use one of learnt"},
	} {
		code, stdout, stderr := commandtest.Run(Commands(), append([]string{"export", run,
			"--paths"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s: exit code %d\n%s%s", c.args, code, stdout, stderr)
		}
	}
	if text, err := os.ReadFile(otlp); err != nil || !strings.Contains(string(text),
		`{"key":"service.name","value":{"stringValue":"geo:80"}}`) {
		t.Errorf("%v: %.500s", err, text)
	}
	code, _, stderr := commandtest.Run(Commands(), "export", run, "--longer", "1ms")
	if code != 2 || !strings.Contains(stderr, "--longer: it chooses paths: add --paths") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// If a number in the text is 1, the text uses the singular.
func TestOnePath(t *testing.T) {
	var text strings.Builder
	a := &paths.Answer{Chosen: 1, Requests: 2, Links: 1,
		Patterns: []paths.Pattern{{Requests: 1}, {Requests: 1}}}
	if err := printPathAnswer(&text, a, analysis.Reference{}, 2); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{" 1 requests", "\n1 requests", " 1 links", ": 1 requests"} {
		if strings.Contains("\n"+text.String(), wrong) {
			t.Errorf("%q in\n%s", wrong, &text)
		}
	}
}

// cprof paths says how many requests there were, how sure the links are, and what requests did.
func TestPaths(t *testing.T) {
	run := hotelRun(t)
	code, stdout, stderr := commandtest.Run(Commands(), "paths", run, "--most", "4")
	for _, want := range []string{
		"200 requests of ", " links, ", "pattern 1: ", "pattern 4: ", " requests from outside",
		" of the time, probability ",
		"frontend:80 on ", "    search:80 on ", "      geo:80 on ",
	} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, stdout, stderr)
		}
	}
	code, stdout, stderr = commandtest.Run(Commands(), "paths", run, "--program", "geo",
		"--longer", "1ms", "--slowest", "2")
	for _, want := range []string{"chosen: ", "\nof the run's ", "slowest path: ", "next path: ",
		" geo:80 on "} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, no %q in\n%s%s", code, want, stdout, stderr)
		}
	}
	for args, want := range map[string]string{
		"--longer 1h":                "none of its 200 paths is chosen by --longer 1h0m0s",
		"--longer 2000000h":          "none of its 200 paths",
		"--json --page x.html":       "--json and --page: choose one",
		"--longer -5ms":              "--longer -5ms: give a duration above 0, such as 50ms",
		"--message 7":                "give SOCKET:CYCLES",
		"--message 7:8":              "the message must be the first one of a request",
		"--program fronted":          `did you mean "frontend"? use one of frontend:80, geo:80`,
		"--program rofile:81":        `you mean "profile:80"? use one of profile:80, front`,
		"--program commend":          `"commend": use one of recommendation:80, frontend:80`,
		"--program geo --longer 10s": "is chosen by --program geo and --longer 10s",
	} {
		code, _, stderr := commandtest.Run(Commands(), append([]string{"paths", run},
			strings.Fields(args)...)...)
		if code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s", args, code, stderr)
		}
	}
	file := filepath.Join(t.TempDir(), "paths.html")
	code, stdout, stderr = commandtest.Run(Commands(), "paths", run, "--page", file)
	if text, err := os.ReadFile(file); code != 0 || err != nil || stdout != file+"\n" ||
		!strings.Contains(string(text), `"inferred":{"requests":200,`) {
		t.Errorf("exit code %d, %v: %s", code, err, stderr)
	}
	var answer paths.Answer
	_, stdout, _ = commandtest.Run(Commands(), "paths", run, "--json", "--method", "nesting")
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || answer.Method != "nesting" ||
		answer.Requests < 200 {
		t.Errorf("%d requests by %q: %v", answer.Requests, answer.Method, err)
	}
	code, _, stderr = commandtest.Run(Commands(), "paths", run, "--method", "guess")
	if code != 2 || !strings.Contains(stderr, `"guess": use one of learnt, wap5`) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// If no program that sent a request was captured, the answer says why it has no links.
func TestPathsWithoutLinks(t *testing.T) {
	for links, want := range []string{"so there are no links", "of 1 link, 100.0 % are"} {
		var out bytes.Buffer
		a := &paths.Answer{Requests: 2, Chosen: 2, Links: links, Said: links, Sure: links}
		if err := printPathAnswer(&out, a, analysis.Reference{}, 1); err != nil ||
			!strings.Contains(out.String(), want) {
			t.Errorf("%d links: %v, %s", links, err, &out)
		}
	}
}

// The relation of another run of the same nodes in the same epoch is true, but of another time. The
// answer says so, instead of only leaving out the times between nodes.
func TestRelationOfAnotherRun(t *testing.T) {
	run, other := hotelRun(t), hotelRun(t)
	const says = "times not known: a relation is of another time, perhaps of another run"
	for _, from := range []string{run, other} {
		relation, err := os.ReadFile(filepath.Join(from, runs.RelationPath("A", "B")))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(run, runs.RelationPath("A", "B")), relation,
			0o600); err != nil {
			t.Fatal(err)
		}
		for command, want := range map[string]int{"paths": 3, "analyze": 0} {
			code, out, err := commandtest.Run(Commands(), command, run)
			if from == run {
				want = 0
			}
			text := strings.Join(strings.Fields(out), " ")
			if code != want || strings.Contains(text, says) != (from == other) {
				t.Errorf("%s: exit code %d\n%s%s", command, code, out, err)
			}
		}
	}
}
