package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
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

// If nothing can be judged, or nothing can be read, the command says why.
func TestPathsOfBadFiles(t *testing.T) {
	orphan := `{"data":[{"traceID":"t","spans":[{"traceID":"t","spanID":"b","references":[
	{"refType":"CHILD_OF","traceID":"t","spanID":"a"}],"startTime":200,"duration":500,
	"processID":"p"}],"processes":{"p":{"serviceName":"back"}}}]}`
	root := strings.Replace(orphan, `"references"`, `"nothing"`, 1)
	for _, c := range []struct {
		text, format string
		code         int
		says         string
	}{
		{orphan, "jaeger", 0, "no link can be judged"},
		{root, "jaeger", 0, "no link can be judged"},
		{orphan, "otlp", 1, "are they traces of another format than otlp?"},
		{"", "jaeger", 1, "it is empty"},
		{"hello", "jaeger", 1, "it begins like no JSON"},
		{orphan[:60], "jaeger", 1, "unexpected EOF"},
		{`{"data":[{"spans":"none"}]}`, "jaeger", 1, "spans: a string is where an array belongs"},
		{`{"spans":[{"traceID":7}]}`, "jaeger", 1,
			`trace.json": traceID: a number is where a string belongs`},
		{`{"data":7}`, "otlp", 1, "trace: a number is where an object belongs"},
	} {
		name := filepath.Join(t.TempDir(), "trace.json")
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := Run(t.Context(), []string{"paths", "--format", c.format, name}, &out, &errs)
		all := out.String() + errs.String()
		if code != c.code || !strings.Contains(all, c.says) || strings.Contains(all, "method") {
			t.Errorf("%q as %s: exit %d: %s", c.text, c.format, code, all)
		}
	}
}

// If no file of a directory can be a trace, the command says so.
func TestPathsOfNoFiles(t *testing.T) {
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"paths", t.TempDir()}, &out, &errs)
	if want := "no file in these directories begins like a trace"; code != 1 ||
		!strings.Contains(errs.String(), want) {
		t.Errorf("exit %d, no %q in %s", code, want, &errs)
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

// With shifted clocks, a line also says how many links differ from those without the shift.
func TestPathsShift(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"paths", "--json", "--methods", "learnt,last", "--app", "media",
		"--requests", "60", "--shift", "10ms"}
	if code := Run(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	var learnt, last pathsLine
	d := json.NewDecoder(&out)
	if err := errors.Join(d.Decode(&learnt), d.Decode(&last)); err != nil {
		t.Fatal(err)
	}
	if learnt.Changed == nil || *learnt.Changed != 0 || *learnt.SaidChanged != 0 {
		t.Errorf("links that changed: %+v", learnt)
	}
	// The last arrival depends on the clocks, because media has only the callees' moments.
	if *last.Changed < last.Links/20 || *last.SaidChanged > *last.Changed {
		t.Errorf("the method last: %d and %d of %d links changed", *last.Changed,
			*last.SaidChanged, last.Links)
	}
}

// The patterns of WAP5's trees are printed by rank.
func TestPathsTrees(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"paths", "--trees", "2", "--rank", "count", "--app", "hotel", "--rate", "2",
		"--requests", "100"}
	if code := Run(t.Context(), args, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	for _, want := range []string{" of WAP5's trees, by count\n", "pattern 2: count ",
		"\n  outside > frontend ", "\n    frontend > "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "pattern 3") {
		t.Errorf("more than 2 patterns:\n%s", &out)
	}
}

func TestPathsUsage(t *testing.T) {
	for _, args := range [][]string{
		{"paths", "--app", "none"}, {"paths", "--app", "random-x"},
		{"paths", "--methods", "none"}, {"paths", "--speed", "0"},
		{"paths", "--window", "5"}, {"paths", "--rank", "none"},
		{"paths", "--trees", "2", "--json"}, {"paths", "--trees", "-1"},
	} {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), args, &out, &errs); code != 2 {
			t.Errorf("%q: exit %d, want 2: %s", args, code, &errs)
		}
	}
}
