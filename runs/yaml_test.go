package runs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A draft remembers the texts of nodes. Whatever changes in a run, run.yaml is the same as if all
// nodes were encoded anew, and contains what the run contains.
func TestRememberedTextsOfNodes(t *testing.T) {
	r := rand.New(rand.NewPCG(seed.Of(t), 0))
	run, known := exampleRun(), nodeTexts{}
	words := []string{"", "6.1", "true", "- a", "a\n  - b\n\nnodes: []\n", "  x: y\n", "nodes: []",
		"é#"}
	word := func() string { return words[r.IntN(len(words))] }
	for range 200 {
		switch i := r.IntN(len(run.Nodes)); r.IntN(4) {
		case 0:
			run.Enter(Node{Name: fmt.Sprintf("n%d", r.IntN(20)), Epoch: word(),
				Facts: map[string]string{"a": word(), "b": word()}})
		case 1:
			run.Nodes[i].Left = word()
		case 2:
			run.Nodes[i].Quantum_cycles++
		case 3:
			run.Note = word()
		}
		got, err := run.encode(known)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := run.Encode(); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v, %s\nwant\n%s", err, got, want)
		}
		parsed, err := parseRun(got, "run.yaml")
		if err != nil {
			t.Fatalf("%v in\n%s", err, got)
		}
		if diff := cmp.Diff(run, parsed, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s in\n%s", diff, got)
		}
	}
}

func TestRunYAML(t *testing.T) {
	r := exampleRun()
	r.Nodes[1].NoLogs = true
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = "# A run of Cloudprofiler: what was measured, where, and what is missing. " +
		"See runs/FORMAT.md." + `
version: 1
name: tuesday-1.b
note: 'two nodes: one virtual'
begun:
  lo_ns: 1700000000000000001
  hi_ns: 1700000000000000002
ended:
  lo_ns: 1700000000000000003
  hi_ns: 1700000000000000004
reference: A
wander_ppt: 5
window_ns: 6
nodes:
  - id: machine-7
    name: A
    number: 8
    epoch: boot-9
    quantum_cycles: 10
    core_slack_cycles: 11
    frequency_lo_hz: 12.5
    frequency_hi_hz: 13.25
    frequency_source: CLOCK_MONOTONIC_RAW
    virtual: false
    facts:
      kernel: "6.1"
  - name: B.b_2
    number: 14
    epoch: boot-15
    quantum_cycles: 0
    core_slack_cycles: 0
    virtual: true
    no_logs: true
    left: killed
missing:
  - part: relations/A--B.b_2.rel
    reason: why not
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	for name, change := range map[string]func(string) string{
		"unknown key":   func(s string) string { return s + "colour: red\n" },
		"two documents": func(s string) string { return s + "---\nversion: 1\n" },
		"reference": func(s string) string {
			return strings.Replace(s, "reference: A", "reference: C", 1)
		},
		"node twice": func(s string) string {
			return strings.Replace(s, "B.b_2\n    number", "A\n    number", 1)
		},
		"path as name": func(s string) string {
			return strings.Replace(s, "tuesday-1.b", "../x", 1)
		},
		"path as node": func(s string) string {
			return strings.Replace(s, "name: B.b_2", "name: a/b", 1)
		},
		"interval": func(s string) string {
			return strings.Replace(s, "lo_ns: 1700000000000000003", "lo_ns: 1800000000000000003", 1)
		},
		"ends before": func(s string) string {
			return strings.ReplaceAll(s, "1700000000000000003", "3") + ""
		},
		"quantum": func(s string) string {
			return strings.Replace(s, "quantum_cycles: 10", "quantum_cycles: 18446744073709551615",
				1)
		},
		"frequency": func(s string) string { return strings.Replace(s, "12.5", ".nan", 1) },
		"frequency of almost nothing": func(s string) string {
			return strings.Replace(s, "12.5", "1e-300", 1)
		},
		"negative wander": func(s string) string {
			return strings.Replace(s, "wander_ppt: 5", "wander_ppt: -5", 1)
		},
	} {
		changed := change(want)
		if name == "ends before" {
			changed = strings.ReplaceAll(changed, "1700000000000000004", "4")
		}
		if _, err := parseRun([]byte(changed), "x"); !errors.Is(err, ErrRun) ||
			!strings.Contains(err.Error(), `"x"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If a parsed run is encoded and parsed again, the result is the same run. The name of a parsed run
// is valid, and the path of a relation with this name stays in the run.
func FuzzRunYAML(f *testing.F) {
	text, err := exampleRun().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("version: 1\nname: a\nbegun: {lo_ns: 1, hi_ns: 2}\n"))
	f.Add([]byte(strings.ReplaceAll(string(text), "tuesday-1.b", "tuesday-")))
	f.Add([]byte("version: 2\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRun(text, "fuzz")
		if err != nil {
			if !errors.Is(err, ErrRun) {
				t.Fatalf("%v does not wrap ErrRun", err)
			}
			return
		}
		if err := CheckName(r.Name); err != nil {
			t.Fatal(err)
		}
		if p := RelationPath(r.Name, r.Name); !filepath.IsLocal(p) ||
			!strings.HasPrefix(p, relationsDir+"/"+r.Name+"--"+r.Name) {
			t.Fatalf("relation of the nodes %q: path %q", r.Name, p)
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseRun(again, "again")
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if diff := cmp.Diff(r, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Changes of the table that are appended one by one are read again, in the same order.
func FuzzTableYAML(f *testing.F) {
	f.Add([]byte("- served_utc_ns: 1\n  by: me\n  table: |\n    version: 1\n- served_utc_ns: " +
		"2\n  table: \"\"\n"))
	f.Add([]byte("- 5\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		changes, err := parseTable(text, "fuzz")
		if err != nil {
			if !errors.Is(err, ErrRun) {
				t.Fatalf("%v does not wrap ErrRun", err)
			}
			return
		}
		var written []byte
		for i := range changes {
			item, err := changes[i].encode()
			if err != nil {
				t.Fatal(err)
			}
			written = append(written, item...)
			// Encode makes the same replacement.
			changes[i].Table = strings.ReplaceAll(changes[i].Table, "\r\n", "\n")
		}
		back, err := parseTable(written, "again")
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if diff := cmp.Diff(changes, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestTableYAML(t *testing.T) {
	for text, good := range map[string]bool{
		"": true, "- served_utc_ns: 1\n  table: x\n": true, "- 5\n": false,
		"served_utc_ns: 1\n": false, "- served_utc_ns: 1\n  colour: x\n": false, "[": false,
	} {
		if _, err := parseTable([]byte(text), "t"); (err == nil) != good ||
			err != nil && !errors.Is(err, ErrRun) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
