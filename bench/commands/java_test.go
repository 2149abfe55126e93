package commands

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

var sampleJava = bench.JavaResult{C_ns: 18, Missing: "jdks: no Java 21 here", Rows: []bench.JavaRow{
	{Release: 17, Call: "log", Ratios: []float64{1.4, 1.5, 1.4, 1.4, 1.3},
		NS: []float64{25, 27, 25, 25, 24}},
	{Release: 17, Call: "off", Ratios: []float64{0.1, 0.1, 0.1, 0.1, 0.1},
		NS: []float64{2.1, 2.1, 2.2, 2.1, 2.1}},
	{Release: 25, Call: "log", Ratios: []float64{1.4, 1.5, 1.4, 1.4, 1.3},
		NS: []float64{25, 27, 25, 25, 24}, AllocatedPerLog: 24},
	{Release: 25, Call: "unsampled", Ratios: []float64{0.1, 0.1, 0.1, 0.1, 0.1},
		NS: []float64{1.9, 1.9, 1.9, 1.9, 1.9}},
	{Release: 25, Call: "flink", Ratios: []float64{3, 3, 3, 3, 3},
		NS: []float64{61, 61, 61, 61, 61}},
	{Release: 25, Call: "storm", Ratios: []float64{3, 3, 3, 3, 3},
		NS: []float64{61, 61, 61, 61, 61}},
}, Agent_bytes: 2_000_001, Starts: []bench.AgentStart{
	{Release: 17, Added_ms: []float64{90, 290, 299, 800, 900}},
	{Release: 25, Added_ms: []float64{90, 290, 301, 301, 900}},
}}

func TestJavaBarsJudge(t *testing.T) {
	want := map[string]proof.Verdict{
		"Java 17, log": proof.Reached, "Java 17, allocated": proof.Reached,
		"Java 17, off": proof.Missed, "Java 21, log": proof.Absent, "Java 25, log": proof.Missed,
		"Java 25, allocated": proof.Missed, "Java 25, unsampled": proof.Reached,
		"Java 25, flink": proof.Missed, "Java 25, storm": proof.Reached,
		"Java 17, agent start": proof.Reached, "Java 25, agent start": proof.Missed,
		"agent, size": proof.Missed,
	}
	for _, bar := range javaBars(sampleJava) {
		if got := bar.Verdict(); got != want[bar.Name] {
			t.Errorf("%s: %s, want %s", bar.Name, got, want[bar.Name])
		}
		delete(want, bar.Name)
	}
	if len(want) > 0 {
		t.Errorf("no bar for %v", want)
	}
}

func TestJavaPrintsItsFields(t *testing.T) {
	var table, lines bytes.Buffer
	if err := printJavaTable(&table, sampleJava, javaBars(sampleJava)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"no Java 21 here", "in C 18.0 ns", "Java 25, log: MISSED"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	if err := printJavaJSON(&lines, sampleJava); err != nil {
		t.Fatal(err)
	}
	var first map[string]any
	if err := json.NewDecoder(&lines).Decode(&first); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]any{"name": "Java 17, log", "ratio_to_c": 1.4,
		"ratio_high": 1.5, "reps": 5.0, "allocated_bytes_per_call": 0.0, "c_ns_per_op": 18.0} {
		if first[field] != want {
			t.Errorf("%s is %v, want %v", field, first[field], want)
		}
	}
}

// In make test, the agent's jar may not have been built yet, so its size is not known. Only a full
// run treats this as a failure.
func TestOnlyAFullRunJudgesThatTheJarIsAbsent(t *testing.T) {
	bars := javaAgentBars(bench.JavaResult{})
	if len(bars) != 1 || bars[0].Verdict() != proof.Absent || !bars[0].Timing {
		t.Errorf("%+v", bars)
	}
	if bars := javaAgentBars(bench.JavaResult{Agent_bytes: 1}); bars[0].Timing {
		t.Errorf("of a jar that is there: %+v", bars)
	}
}
