package answers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// runReport runs cprof report with these arguments, and returns its exit code.
func runReport(ctx context.Context, out, errs io.Writer, args ...string) (code int) {
	root := commandtest.Root(Commands())
	return command.Run(ctx, root, append([]string{"report"}, args...), out, errs)
}

func TestReport(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(3, parent, "chain", 2, 2000, 10000); err != nil {
		t.Fatal(err)
	}
	run, elsewhere := filepath.Join(parent, "chain"), filepath.Join(parent, "elsewhere.html")
	for name, c := range map[string]struct {
		args   []string
		code   int
		page   string // the page's file; empty: standard output
		output string // the command prints this
	}{
		"into the run": {[]string{run}, 0, filepath.Join(run, "report.html"),
			"report.html\n"},
		"into another file": {[]string{run, "--output", elsewhere}, 0, elsewhere,
			elsewhere + "\n"},
		"onto the output": {[]string{run, "--output", "-"}, 0, "", "</html>"},
		"with an assumption": {[]string{run, "--wander", "0.5ppm", "--output", "-"}, 0, "",
			`"wander_ppb":500`},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := runReport(context.Background(), &out, &errs, c.args...); code != c.code {
				t.Fatalf("exit code %d, want %d: %s", code, c.code, &errs)
			}
			if !strings.Contains(out.String(), c.output) {
				t.Errorf("printed %.200q, want %q in it", out.String(), c.output)
			}
			page := out.Bytes()
			if c.page != "" {
				var err error
				if page, err = os.ReadFile(c.page); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Contains(page, []byte("<!DOCTYPE html>")) ||
				!bytes.Contains(page, []byte(`"name":"chain"`)) {
				t.Errorf("no page of the run: %.200q", page)
			}
		})
	}
}

// For a run without logs, cprof report fails and writes no page.
func TestReportOfRunWithoutLogs(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(3, parent, "chain", 2, 2000, 10000); err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(parent, "chain")
	if err := os.RemoveAll(filepath.Join(run, "logs")); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := runReport(context.Background(), &out, &errs, run); code != 1 ||
		!strings.Contains(errs.String(), `run "chain": it has no log of its nodes A, B`) {
		t.Errorf("exit code %d, want 1: %s", code, &errs)
	}
	if _, err := os.Stat(filepath.Join(run, "report.html")); err == nil {
		t.Error("there is a page")
	}
}

// If an analysis is canceled, the page of the previous analysis stays.
func TestReportKeepsTheOldPage(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(3, parent, "chain", 2, 2000, 10000); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(parent, "chain", "report.html")
	if err := os.WriteFile(old, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	var out, errs bytes.Buffer
	if code := runReport(ctx, &out, &errs, filepath.Join(parent, "chain")); code != 1 {
		t.Errorf("exit code %d, want 1: %s", code, &out)
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "old" {
		t.Errorf("the page before is %.40q, %v", text, err)
	}
}

// In the log of worker#0/send, the counter reading of a tuple is far off. The report shows that as
// a duration of decades. The rest of the report does not change.
func TestReportOfAWildCounter(t *testing.T) {
	dir := t.TempDir()
	all, err := hostileRuns(dir)
	if err != nil {
		t.Fatal(err)
	}
	run := filepath.Join(dir, "whole")
	for _, name := range all[0].names("logs/B/worker#0~send") {
		changed := mutator{scratch: dir}.rewritten(all[0][name], true, func(b *logstore.Block) int {
			b.Events[7].Counter += 1<<58 + 1
			return 1
		})
		if err := os.WriteFile(filepath.Join(run, filepath.FromSlash(name)), changed,
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	page := filepath.Join(dir, "page.html")
	if code, _, stderr := cprof("report", run, "--reference", "B", "--output",
		page); code != command.Partial {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if decades := fmt.Sprint(1 << 58)[:8]; !strings.Contains(string(text), decades) {
		t.Errorf("no duration of 2^58 cycles, which begins with %s, is on the page", decades)
	}
}
