package agent

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// testConfig returns the configuration of an agent with directories of its own.
func testConfig(t testing.TB) Config {
	t.Helper()
	return Config{
		Node: "node-1", Rings: testimony.Rings(t), State: filepath.Join(t.TempDir(), "state"),
		Chrony: ChronyOff,
	}
}

func startTest(t testing.TB, c Config) *Agent {
	t.Helper()
	a, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func open(t testing.TB, c Config, name string, o handlers.Options) *handlers.Channel {
	t.Helper()
	o.Dir = c.Rings
	ch, err := handlers.Open(name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ch.Close() })
	return ch
}

func logIDs(c *handlers.Channel, from, to uint64) {
	for id := from; id < to; id++ {
		c.Log(id)
	}
}

// idsIn lists the ids of a channel's events in a directory of logs.
func idsIn(t testing.TB, dir, channel string) (ids []uint64) {
	t.Helper()
	segments, err := logstore.Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	segments = slices.DeleteFunc(segments, func(s logstore.Segment) bool {
		return s.Channel.String() != channel
	})
	r := logstore.ReadLog(segments)
	defer r.Close()
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Events {
			ids = append(ids, e.ID)
		}
	}
	if report := r.Report(); !report.Whole() || report.Duplicates+report.Overlaps > 0 {
		t.Errorf("log of %s in %q: %+v", channel, dir, report)
	}
	return ids
}

func checkRange(t testing.TB, what string, ids []uint64, from, to uint64) {
	t.Helper()
	if len(ids) != int(to-from) || len(ids) > 0 && (ids[0] != from || ids[len(ids)-1] != to-1) ||
		!slices.IsSorted(ids) {
		t.Errorf("%s: %d ids, want those from %d to %d", what, len(ids), from, to)
	}
}

// Events before, in and after a run are in separate directories, even if an agent ends in the
// middle of the run and another agent continues.
func TestRunsKeepTheirOwn(t *testing.T) {
	c := testConfig(t)
	a := startTest(t, c)
	ch := open(t, c, "a/x", handlers.Options{Handler: "id"})
	open(t, c, "quiet/x", handlers.Options{})
	logIDs(ch, 0, 10)
	s, err := a.OpenRun("tuesday")
	if err != nil || s.Channels != 2 || s.Closed {
		t.Fatalf("%+v, %v", s, err)
	}
	logIDs(ch, 10, 20)
	if s, err := a.OpenRun("tuesday"); err != nil || s.Channels != 2 {
		t.Errorf("again: %+v, %v", s, err)
	}
	if _, err := a.OpenRun("wednesday"); !errors.Is(err, ErrRunOpen) {
		t.Error(err)
	}
	if _, err := a.CloseRun("wednesday"); !errors.Is(err, ErrNoRun) {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	logIDs(ch, 20, 30) // while no agent runs
	a = startTest(t, c)
	if run := a.Status().Run; run != "tuesday" {
		t.Fatalf("the next agent is in run %q", run)
	}
	logIDs(ch, 30, 40)
	unfinished := filepath.Join(c.State, a.runPath("tuesday"), runs.LogsPath(c.Node),
		"a~x.00000000000000000000000000000001.000000.cplog.new")
	// An agent that is killed while it begins a segment leaves a file with such a name.
	if err := os.WriteFile(unfinished, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = a.CloseRun("tuesday")
	if err != nil || !s.Closed || s.Channels != 2 || len(s.Missing) > 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	if s, err := a.CloseRun("tuesday"); err != nil || !s.Closed {
		t.Errorf("closed again: %+v, %v", s, err)
	}
	if _, err := a.OpenRun("tuesday"); !errors.Is(err, ErrRunClosed) {
		t.Error(err)
	}
	logIDs(ch, 40, 50)
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	checkRange(t, "before", idsIn(t, filepath.Join(c.State, "logs", "000000"), "a/x"), 0, 10)
	checkRange(t, "in the run",
		idsIn(t, filepath.Join(c.State, "runs", "tuesday", runs.LogsPath("node-1")), "a/x"), 10, 40)
	checkRange(t, "after", idsIn(t, filepath.Join(c.State, "logs", "000001"), "a/x"), 40, 50)
}

// The agent removes excess runs in the order in which they were begun, even if the clock was set
// back. Earlier versions of the agent did not note this order. The agent removes runs of such
// versions first, in the order of the clock.
func TestOldRunsAreRemoved(t *testing.T) {
	for name, offset := range map[string]int64{"the clock goes on": 1, "it stands": 0,
		"it was set back": -1} {
		c := testConfig(t)
		c.KeepRuns = 2
		a := startTest(t, c)
		date := func(run string, seconds int64) {
			t.Helper()
			at := time.Unix(seconds, 0)
			if err := os.Chtimes(filepath.Join(c.State, "runs", run), at, at); err != nil {
				t.Fatal(err)
			}
		}
		for i, before := range []string{"z", "y"} {
			if err := os.MkdirAll(filepath.Join(c.State, "runs", before), 0o700); err != nil {
				t.Fatal(err)
			}
			date(before, 2000+int64(i))
		}
		for i, step := range []struct {
			run  string
			left []string // the runs that must still exist when this run is open
		}{{"b", []string{"y"}}, {"a", []string{"b"}}, {"d", []string{"a"}}, {"c", []string{"d"}}} {
			if i == 2 { // a new agent knows the order, too
				if err := a.Close(); err != nil {
					t.Fatal(err)
				}
				a = startTest(t, c)
			}
			if _, err := a.OpenRun(step.run); err != nil {
				t.Fatal(err)
			}
			want := slices.Sorted(slices.Values(append(step.left, step.run)))
			var got []string
			entries, err := os.ReadDir(filepath.Join(c.State, "runs"))
			for _, e := range entries {
				got = append(got, e.Name())
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: runs %q are left beside %q, want %q, %v", name, got, step.run, want,
					err)
			}
			if _, err := a.CloseRun(step.run); err != nil {
				t.Fatal(err)
			}
			date(step.run, 1000+int64(i)*offset)
		}
		if _, err := os.Stat(filepath.Join(c.State, "logs", "000004")); err != nil {
			t.Error(err) // the present directory must stay
		}
		if n := len(a.now().Begun); n > 2*c.KeepRuns+2 {
			t.Errorf("%d directories are written down: %q", n, a.now().Begun)
		}
	}
}

// A server can read the files of a run, and no other files.
func TestFilesOfARun(t *testing.T) {
	c := testConfig(t)
	a := startTest(t, c)
	ch := open(t, c, "a/x", handlers.Options{Handler: "id"})
	if _, err := a.OpenRun("r"); err != nil {
		t.Fatal(err)
	}
	logIDs(ch, 0, 1000)
	files, more, err := a.Files("r")
	if err != nil || !more || len(files) != 1 {
		t.Fatalf("%+v, %v, %v", files, more, err)
	}
	if _, err := a.CloseRun("r"); err != nil {
		t.Fatal(err)
	}
	files, more, err = a.Files("r")
	if err != nil || more || len(files) != 1 ||
		!strings.HasPrefix(files[0].Path, "logs/node-1/a~x.") {
		t.Fatalf("%+v, %v, %v", files, more, err)
	}
	var got []byte
	for len(got) < int(files[0].Bytes) {
		b := make([]byte, 100)
		n, size, err := a.ReadFile("r", files[0].Path, int64(len(got)), b)
		if err != nil || size != files[0].Bytes || n == 0 {
			t.Fatalf("%d of %d, %v", n, size, err)
		}
		got = append(got, b[:n]...)
	}
	want, err := os.ReadFile(filepath.Join(c.State, "runs", "r", files[0].Path))
	if err != nil || string(got) != string(want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if n, _, err := a.ReadFile("r", files[0].Path, files[0].Bytes, make([]byte, 10)); n != 0 ||
		err != nil {
		t.Errorf("at the end: %d, %v", n, err)
	}

	secret := filepath.Join(c.State, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(c.State, "runs", "r", "link")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../../secret", "link", secret, "/etc/passwd", "logs",
		"logs/node-1/../../../../secret", ""} {
		if n, _, err := a.ReadFile("r", path, 0, make([]byte, 10)); err == nil {
			t.Errorf("%q: %d bytes", path, n)
		}
	}
	if files, _, err := a.Files("r"); err != nil || len(files) != 1 {
		t.Errorf("the link is listed: %+v, %v", files, err)
	}
	for _, run := range []string{"..", "../logs", "none", "", "a/b"} {
		if _, _, err := a.Files(run); err == nil {
			t.Errorf("run %q has files", run)
		}
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	c := testConfig(t)
	startTest(t, c)
	other := testConfig(t)
	for what, second := range map[string]Config{"rings": {Rings: c.Rings, State: other.State},
		"state": {Rings: other.Rings, State: c.State}} {
		second.Node, second.Chrony = "node-2", ChronyOff
		if a, err := Start(second); !errors.Is(err, ring.ErrLocked) {
			t.Errorf("the same %s: %v", what, err)
			if err == nil {
				a.Close()
			}
		}
	}
}

// The agent creates the directory of logs for this user only. An error about an existing directory
// names that directory, and not the directory of rings.
func TestDirectoryOfLogs(t *testing.T) {
	made := testConfig(t)
	startTest(t, made)
	if info, err := os.Stat(made.State); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for name, spoil := range map[string]func(dir string) error{
		"a link": func(dir string) error {
			return errors.Join(os.Remove(dir), os.Symlink(t.TempDir(), dir))
		},
		"open to others": func(dir string) error { return os.Chmod(dir, 0o777) },
	} {
		c := testConfig(t)
		c.State = filepath.Join(t.TempDir(), "state")
		if err := errors.Join(os.Mkdir(c.State, 0o700), spoil(c.State)); err != nil {
			t.Fatal(err)
		}
		_, err := Start(c)
		if !errors.Is(err, ring.ErrDirectory) ||
			!strings.Contains(err.Error(), "check directory of logs and runs \""+c.State) ||
			strings.Contains(err.Error(), "ring") ||
			strings.Contains(err.Error(), ring.DirectoryVariable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
