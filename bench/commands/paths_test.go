package commands

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
)

func TestPathsOfFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "trace.json")
	trace := `{"data":[{"traceID":"t","spans":[
	{"traceID":"t","spanID":"a","references":[],"startTime":100,"duration":900,"processID":"p1"},
	{"traceID":"t","spanID":"b","references":[{"refType":"CHILD_OF","traceID":"t","spanID":"a"}],
	 "startTime":200,"duration":500,"processID":"p2"}],
	"processes":{"p1":{"serviceName":"front"},"p2":{"serviceName":"back"}}}]}`
	if err := os.WriteFile(name, []byte(trace), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"paths", "--json", name}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != len(link.Methods) {
		t.Fatalf("%d lines, want one for each of %d methods", len(lines), len(link.Methods))
	}
	var first pathsLine
	if err := json.Unmarshal(lines[0], &first); err != nil {
		t.Fatal(err)
	}
	if first.Method != "learnt" || first.Links != 1 || first.Paths != 1 ||
		first.Oddities.Spans != 2 {
		t.Errorf("line %s", lines[0])
	}
}

// A stream of several parts is judged as a whole.
func TestPathsStream(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"paths", "--stream", "--window", "1000", "--json", "--app", "hotel",
		"--requests", "4500", "--rate", "20"}
	if code := Run(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	var line streamLine
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line.Paths != 4500 || line.PathsRight < 4400 || line.Kept > 4000 || line.Kept < 2000 ||
		line.Memory_MB <= 0 || line.Messages < 2*(4500+int64(line.Links)) {
		t.Errorf("line %s", &out)
	}
}

// A random application has a number. Different numbers stand for different applications.
func TestPathsRandom(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"paths", "--json", "--methods", "last", "--app", "random-1,random-2",
		"--requests", "20"}
	if code := Run(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	var lines [2]pathsLine
	d := json.NewDecoder(&out)
	for i := range lines {
		if err := d.Decode(&lines[i]); err != nil {
			t.Fatal(err)
		}
	}
	if lines[0].Data != "random-1" || lines[0].Paths != 20 || lines[1].Data != "random-2" ||
		lines[0].Calls == lines[1].Calls {
		t.Errorf("lines %+v", lines)
	}
}

func TestPathsUsage(t *testing.T) {
	for _, args := range [][]string{
		{"paths", "--app", "none"}, {"paths", "--app", "random-x"},
		{"paths", "--methods", "none"}, {"paths", "--speed", "0"},
		{"paths", "--window", "5"},
	} {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), args, &out, &errs); code != 2 {
			t.Errorf("%q: exit %d, want 2: %s", args, code, &errs)
		}
	}
}
