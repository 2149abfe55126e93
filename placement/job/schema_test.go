package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Editors use a JSON Schema to explain the keys of a job's file. The schema has the keys that Parse
// reads: the error for an unknown key lists them.
func TestSchema(t *testing.T) {
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Items      *object                    `json:"items"`
	}
	of := func(text []byte) (o object) {
		t.Helper()
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	text, err := os.ReadFile("../../packaging/schemas/job.json")
	if err != nil {
		t.Fatal(err)
	}
	all := of(text)
	for list, what := range map[string]string{"": "the job", "operators": "an operator",
		"nodes": "a node", "latencies": "a latency"} {
		job, keys := wholeFile+"unknown: 1\n", all.Properties
		if list != "" {
			job = strings.Replace(wholeFile, list+":\n  - {", list+":\n  - {unknown: 1, ", 1)
			keys = of(all.Properties[list]).Items.Properties
		}
		_, err := Parse([]byte(job), "f", noFleet)
		said := fmt.Sprint(err)
		_, after, ok := strings.Cut(said, what+` has the unknown key "unknown"`)
		_, after, ok2 := strings.Cut(after, "it takes ")
		takes, _, _ := strings.Cut(after, ": bad job file")
		if known := strings.Split(takes, ", "); !ok || !ok2 || !slices.Equal(
			slices.Sorted(slices.Values(known)), slices.Sorted(maps.Keys(keys))) {
			t.Errorf("%s takes %q, the schema has %q: %s", what, known,
				slices.Sorted(maps.Keys(keys)), said)
		}
	}
}

// Check needs no fleet. It finds what is wrong with the job in any fleet.
func TestCheck(t *testing.T) {
	noNodes, _, _ := strings.Cut(wholeFile, "nodes:\n")
	noLatencies := strings.Replace(wholeFile,
		"latencies:\n  - {from: a, into: b, time: 20us..35us}\n",
		"", 1)
	for name, text := range map[string]string{"whole": wholeFile, "no nodes": noNodes,
		"no nodes, with names of nodes": noNodes + "now: {source: x, parse: [y, z]}\n",
		"no latencies":                  noLatencies} {
		if err := Check([]byte(text), "f"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, text := range map[string]string{
		`did you mean "edges"?`: strings.Replace(wholeFile, "edges", "edgse", 1),
		`node "c"`:              strings.Replace(noLatencies, "[a, b]", "[a, c]", 1),
		"cycle": strings.Replace(noNodes, "[source, parse]", "[source, parse, source]",
			1),
		"no node where it may run": strings.Replace(noLatencies, "20000", "2000000", 1),
	} {
		if err := Check([]byte(text), "f"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check = %v, want %q", err, want)
		}
	}
}
