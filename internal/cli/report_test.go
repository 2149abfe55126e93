package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func TestReport(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(3, parent, "chain", 2, 2000, 10000); err != nil {
		t.Fatal(err)
	}
	run, elsewhere := filepath.Join(parent, "chain"), filepath.Join(parent, "elsewhere.html")
	for name, c := range map[string]struct {
		args   []string
		code   int
		page   string // file; empty: standard output
		output string // in what is printed
	}{
		"into the run":       {[]string{run}, 0, filepath.Join(run, "report.html"), "report.html\n"},
		"into another file":  {[]string{run, "--output", elsewhere}, 0, elsewhere, elsewhere + "\n"},
		"onto the output":    {[]string{run, "--output", "-"}, 0, "", "</html>"},
		"with an assumption": {[]string{run, "--wander", "0.5ppm", "--output", "-"}, 0, "", `"wander_ppb":500`},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := Run(context.Background(), append([]string{"report"}, c.args...), &out, &errs); code != c.code {
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
			if !bytes.Contains(page, []byte("<!DOCTYPE html>")) || !bytes.Contains(page, []byte(`"name":"chain"`)) {
				t.Errorf("no page of the run: %.200q", page)
			}
		})
	}
}

// What is missing does not keep the rest from being shown.
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
	if code := Run(context.Background(), []string{"report", run}, &out, &errs); code != 3 {
		t.Errorf("exit code %d, want 3: %s", code, &errs)
	}
	page, err := os.ReadFile(filepath.Join(run, "report.html"))
	if err != nil || !bytes.Contains(page, []byte(`"part":"logs/A"`)) {
		t.Errorf("the page does not name what is missing: %v", err)
	}
}

// An analysis that is stopped leaves the page of the one before it.
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
	if code := Run(ctx, []string{"report", filepath.Join(parent, "chain")}, &out, &errs); code != 1 {
		t.Errorf("exit code %d, want 1: %s", code, &out)
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "old" {
		t.Errorf("the page before is %.40q, %v", text, err)
	}
}

// A page that cannot be written whole leaves the file that was named as it was. What a link leads to is written, and what is no file is written to.
func TestReportIntoAFileIsWhole(t *testing.T) {
	dir := t.TempDir()
	page, link := filepath.Join(dir, "page.html"), filepath.Join(dir, "link.html")
	if err := os.Symlink("page.html", link); err != nil {
		t.Fatal(err)
	}
	holds := func(want string, mode os.FileMode) {
		t.Helper()
		info, err := os.Stat(page)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(page); err != nil || string(text) != want || info.Mode() != mode {
			t.Errorf("it holds %q, mode %v, %v; want %q, %v", text, info.Mode(), err, want, mode)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 2 || entries[0].Type() != os.ModeSymlink {
			t.Errorf("in the directory are %v, want a link and the page; %v", entries, err)
		}
	}
	if err := command.WriteWhole(page, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(page, 0o640); err != nil {
		t.Fatal(err)
	}
	holds("first", 0o640)
	if err := os.WriteFile(page+".part", []byte("left by one that was killed, and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := command.WriteWhole(link, []byte("second")); err != nil {
		t.Fatal(err)
	}
	holds("second", 0o640)
	if err := os.MkdirAll(filepath.Join(page+".part", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := command.WriteWhole(page, []byte("third")); err == nil {
		t.Error("nothing was in the way")
	}
	if err := os.RemoveAll(page + ".part"); err != nil {
		t.Fatal(err)
	}
	holds("second", 0o640)

	limit := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	const room = 16 << 20                                                                              // the go command's own log of this test has room all the same
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: room, Max: limit.Max}); err != nil { // as a disk on which no more has room
		t.Fatal(err)
	}
	tooMuch := command.WriteWhole(page, make([]byte, room+1))
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(tooMuch, unix.EFBIG) {
		t.Errorf("more than has room: %v", tooMuch)
	}
	holds("second", 0o640)

	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := command.WriteWhole(pipe, []byte("third")); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(pipe)
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 10)
	if info.Mode().IsRegular() {
		t.Error("the pipe is a file now")
	} else if n, err := reader.Read(text); err != nil || string(text[:n]) != "third" {
		t.Errorf("out of a pipe come %q, %v", text[:n], err)
	}
	if err := command.WriteWhole(filepath.Join(dir, "none", "page.html"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("into no directory: %v", err)
	}
}

// One counter far away, under a tuple's own id, is on the page as what it is: a duration of decades. The rest is as ever.
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
		if err := os.WriteFile(filepath.Join(run, filepath.FromSlash(name)), changed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page := filepath.Join(dir, "page.html")
	if code, _, stderr := cprof("report", run, "--reference", "B", "--output", page); code != command.Partial {
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
