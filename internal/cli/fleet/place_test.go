package fleet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
)

// A file that has nodes and latencies needs no server.
func TestPlaceFromAFile(t *testing.T) {
	code, got, stderr := cprof("place", filepath.Join("testdata", "job.yaml"))
	if code != command.Answered || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	commandtest.Golden(t, "place.txt", got)
	var r placeResult
	_, stdout, _ := cprof("place", filepath.Join("testdata", "job.yaml"), "--json")
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if !r.Exact || len(r.Operators) != 5 || r.Operators[0].Node != "a" ||
		r.Today.Verdict != "surely better" || r.Today.Difference_ns[1] >= 0 {
		t.Errorf("%s", stdout)
	}
	code, got, _ = cprof("place", filepath.Join("testdata", "job.yaml"), "--today")
	if code != command.Answered || !strings.Contains(got, "today: end to end 167.0 to 255.0 µs") ||
		strings.Contains(got, "operator ") {
		t.Errorf("exit code %d: %s", code, got)
	}
}

// writeJob writes a job file with changes, and returns its path.
func writeJob(t *testing.T, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "job.yaml")
	changed := strings.NewReplacer(changes...).Replace(string(text))
	if changed == string(text) {
		t.Fatalf("nothing to change: %q", changes)
	}
	if err := os.WriteFile(path, []byte(changed), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPlaceBadInput(t *testing.T) {
	for _, c := range []struct {
		code   int
		want   string
		change []string
	}{
		{command.Failed, `line 4: an operator has the unknown key "instnces", did you mean ` +
			`"instances"?`, []string{"instances", "instnces"}},
		{command.Failed, "needs 45 cores", []string{"18000", "2250000"}},
		{command.Partial, "2 latencies were not measured", []string{
			"  - {from: a, into: c, time: 30us..34us}\n", ""}},
		{command.Failed, `no latency from node "a" to node "b"`, []string{
			"  - {from: a, into: b, time: 20us..35us}\n", "",
			"  - {from: a, into: c, time: 30us..34us}\n", ""}},
	} {
		code, _, stderr := cprof("place", writeJob(t, c.change...))
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("exit code %d, want %d and %q: %s", code, c.code, c.want, stderr)
		}
	}
	path := writeJob(t, "now:", "# now:")
	if code, _, stderr := cprof("place", path, "--today"); code != command.Usage {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// If a job file has no nodes and no latencies, the command asks the server for the nodes, their
// cores and the latencies between them.
func TestPlaceOnAFleet(t *testing.T) {
	f := startAFleet(t, "alpha", "beta")
	f.join("alpha")
	f.join("beta")
	f.want(command.Answered, "healthy", "nodes", "--sweep")
	var m coordinator.Matrix
	stdout := f.want(command.Answered, `"round_trip"`, "nodes", "--json")
	if err := json.Unmarshal([]byte(stdout), &m); err != nil {
		t.Fatal(err)
	}
	trip := m.Pairs[0].RoundTrip
	if trip.Trains < 2 || trip.Least_ns <= 0 || trip.Most_ns < trip.Least_ns {
		t.Fatalf("round trip %+v", trip)
	}
	path := filepath.Join(t.TempDir(), "job.yaml")
	// The operator named "in" must run on alpha. No room is left there for the operator named
	// "out".
	job := `version: 1
operators:
  - {name: in, time: 1ms, per_second: 1500, nodes: [alpha]}
  - {name: out, time: 1ms, per_second: 1500}
edges: [[in, out]]
`
	if err := os.WriteFile(path, []byte(job), 0o666); err != nil {
		t.Fatal(err)
	}
	var r placeResult
	stdout = f.want(command.Answered, `"beta"`, "place", path, "--json")
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Latency[1], 2e6+trip.Most_ns/2; got < want*0.999999 || got > want*1.000001 {
		t.Errorf("latency %v ns, want %v", got, want)
	}
	f.want(command.Answered, "half of a measured round trip", "place", path)
}
