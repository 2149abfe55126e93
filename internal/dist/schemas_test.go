package dist

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"
)

// The schema of the Java agent's configuration allows what the agent accepts: the same keys, the
// same sets of joinpoints, and the same names of points.
func TestSchemaOfTheJavaAgent(t *testing.T) {
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Items      *object                    `json:"items"`
		Defs       map[string]object          `json:"$defs"`
		Enum       []string                   `json:"enum"`
		Pattern    string                     `json:"pattern"`
	}
	of := func(text []byte) (o object) {
		if err := json.Unmarshal(text, &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	const folder = "../../sdk/java/cloudprofiler-javaagent/src/main/java/io/github/cloudprofiler/" +
		"agent"
	code := read(t, folder, "Settings.java")
	all := of([]byte(read(t, "../../packaging/schemas/java-agent.json")))
	point := of(all.Properties["joinpoints"]).Items
	word := regexp.MustCompile(`"([^"]+)"`)
	seen := 0
	for _, call := range regexp.MustCompile(
		`Keys\.check\(m, "([^"]+)",\s*([^)]*)\)`).FindAllStringSubmatch(code, -1) {
		keys := map[string]map[string]json.RawMessage{"the configuration": all.Properties,
			"sample": all.Defs["sample"].Properties, "a joinpoint": point.Properties}[call[1]]
		var known []string
		for _, w := range word.FindAllStringSubmatch(call[2], -1) {
			known = append(known, w[1])
		}
		slices.Sort(known)
		if got := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, known) {
			t.Errorf("%s has the keys %q, its schema %q", call[1], known, got)
		}
		seen++
	}
	if seen != 3 {
		t.Errorf("%d kinds of keys are checked, want 3: the test does not see them", seen)
	}
	ready := regexp.MustCompile(`READY\s*=\s*List\.of\(([^)]*)\)`).FindStringSubmatch(
		read(t, folder, "JoinpointSet.java"))
	var sets []string
	for _, w := range word.FindAllStringSubmatch(ready[1], -1) {
		sets = append(sets, w[1])
	}
	if got := of(all.Properties["sets"]).Items.Enum; !slices.Equal(got, sets) {
		t.Errorf("there are the sets %q, the schema has %q", sets, got)
	}
	matches := regexp.MustCompile(`point\.matches\("([^"]+)"\)`).FindStringSubmatch(code)
	if got := of(point.Properties["point"]).Pattern; got != "^"+matches[1]+"$" {
		t.Errorf("a point matches %q, in the schema %q", matches[1], got)
	}
}
