package rings

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

func openChannel(t *testing.T, dir, name string, o handlers.Options) *handlers.Channel {
	t.Helper()
	o.Dir = dir
	c, err := handlers.Open(name, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// orphan makes a ring in dir that looks as if a killed program had left it: the ring was not
// closed, but no process has it open.
func orphan(t *testing.T, dir, name string, o handlers.Options,
	log func(*handlers.Channel)) (path string) {
	t.Helper()
	c := openChannel(t, t.TempDir(), name, o)
	log(c)
	image, err := os.ReadFile(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, filepath.Base(c.Path()))
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Root may look for rings while programs run as another user. Then the command says where the rings
// of these programs are, even if root has rings, too.
func TestRingListNamesOtherDirectories(t *testing.T) {
	parent := t.TempDir()
	own, other := filepath.Join(parent, "cloudprofiler-0"), filepath.Join(parent, "cloudprofiler-7")
	for _, dir := range []string{own, other, filepath.Join(parent, "cloudprofiler-8")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	openChannel(t, other, "a/start", handlers.Options{})
	code, out, _ := cprof("ring", "list", "--rings", own)
	if code != 0 || !strings.Contains(out, "no rings in "+own) ||
		!strings.Contains(out, "cprof ring list --rings "+other+"\n") ||
		strings.Contains(out, "cloudprofiler-8") {
		t.Errorf("%d %q", code, out)
	}
	openChannel(t, own, "b/start", handlers.Options{})
	_, out, _ = cprof("ring", "list", "--rings", own)
	if !strings.Contains(out, "b/start") ||
		!strings.Contains(out, "cprof ring list --rings "+other+"\n") {
		t.Errorf("with rings of its own: %q", out)
	}
	if _, out, _ = cprof("ring", "list", "--rings", own, "--json"); strings.Count(out, "\n") != 1 {
		t.Errorf("as JSON: %q", out)
	}
}

func TestRingList(t *testing.T) {
	dir := t.TempDir()
	code, out, _ := cprof("ring", "list", "--rings", dir)
	if code != 0 || out != "no rings in "+dir+"\n" {
		t.Errorf("empty: %d %q", code, out)
	}
	live := openChannel(t, dir, "live/start",
		handlers.Options{Handler: "xoy", Params: map[string]any{"x": 1, "y": 2}})
	for id := range uint64(10) {
		live.Log(id)
	}
	closed := openChannel(t, dir, "closed/start", handlers.Options{})
	closed.Close()
	orphan(t, dir, "orphan#7/end", handlers.Options{Policy: "drop", Buffer: "256"},
		func(c *handlers.Channel) {
			for id := range uint64(20) {
				c.Log(id)
			}
		})
	code, out, _ = cprof("ring", "list", "--rings", dir, "--json")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	got := map[string]ringState{}
	for line := range strings.Lines(out) {
		var s ringState
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		got[s.Channel] = s
	}
	if s := got["live/start"]; s.State != "live" || s.Handler != "xoy x=1 y=2" || s.Waiting != 5 ||
		s.Process != os.Getpid() {
		t.Errorf("live: %+v", s)
	}
	if s := got["closed/start"]; s.State != "closed" || s.Waiting != 0 {
		t.Errorf("closed: %+v", s)
	}
	if s := got["orphan#7/end"]; s.State != "orphan" || s.Waiting != 16 || s.Dropped != 4 ||
		s.Capacity != 16 {
		t.Errorf("orphan: %+v", s)
	}

	if err := os.WriteFile(filepath.Join(dir, "x~start.00.ring"), []byte("no ring"),
		0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := cprof("ring", "list", "--rings", dir)
	if code != 3 || !strings.Contains(out, "orphan#7/end") ||
		!strings.Contains(errs, "cannot read: open ring") ||
		!strings.Contains(errs, "1 of 4 files") {
		t.Errorf("with a broken file: %d\n%s\n%s", code, out, errs)
	}
	code, out, errs = cprof("ring", "list", "--rings", dir, "--json")
	if code != 3 || strings.Count(out, "\n") != 3 ||
		!strings.Contains(errs, "cannot read: open ring") {
		t.Errorf("with a broken file, as JSON: %d\n%s\n%s", code, out, errs)
	}
	for line := range strings.Lines(out) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}

func TestRingDump(t *testing.T) {
	dir := t.TempDir()
	c := openChannel(t, dir, "parser#1/start", handlers.Options{Policy: "drop", Buffer: "256"})
	openChannel(t, dir, "parser#2/start", handlers.Options{})
	for id := range uint64(18) {
		c.Log(1000 + id)
	}
	code, out, errs := cprof("ring", "dump", "--rings", dir, "parser#1")
	if code != 0 || !strings.Contains(out, "2 events dropped before sequence 16") ||
		!strings.Contains(out, "handler buffered from sequence 0 on") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	var events []string
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "#") {
			events = append(events, line)
		}
	}
	if len(events) != 16 || !strings.HasPrefix(events[0], "0 0 ") ||
		!strings.HasSuffix(events[15], " 1015\n") {
		t.Errorf("events:\n%s", strings.Join(events, ""))
	}
	if code, _, errs := cprof("ring", "dump", "--rings", dir, "parser"); code != 1 ||
		!strings.Contains(errs, "could be any of 2") {
		t.Errorf("ambiguous: %d %s", code, errs)
	}
	if code, _, errs := cprof("ring", "dump", "--rings", dir, "joiner"); code != 1 ||
		!strings.Contains(errs, "cprof ring list") {
		t.Errorf("unknown: %d %s", code, errs)
	}
	if code, out, errs := cprof("ring", "dump", c.Path()); code != 0 ||
		!strings.Contains(out, " 1000\n") {
		t.Errorf("by path: %d %s", code, errs)
	}
}

func TestRingSalvage(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "rescued")
	live := openChannel(t, dir, "live/start", handlers.Options{})
	live.Log(1)
	path := orphan(t, dir, "dead/start", handlers.Options{Policy: "drop", Buffer: "256"},
		func(c *handlers.Channel) {
			for id := range uint64(20) {
				c.Log(40 + id)
			}
		})
	orphan(t, dir, "dead/count", handlers.Options{Handler: "counter"},
		func(c *handlers.Channel) { c.Log(1); c.Log(1) })
	if err := os.WriteFile(filepath.Join(dir, "x~start.00.ring"), []byte("no ring"),
		0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := cprof("ring", "salvage", "--rings", dir, "--to", to, "--node", "node-7")
	if code != 3 || !strings.Contains(out, "dead/start: 16 events to "+to+"\n") ||
		!strings.Contains(out, "1 live rings left alone") ||
		!strings.Contains(errs, "1 of 4 rings") {
		t.Errorf("salvage: %d\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the rescued ring is still there: %v", err)
	}
	if _, err := os.Stat(live.Path()); err != nil {
		t.Errorf("the live ring is gone: %v", err)
	}
	logs, err := filepath.Glob(filepath.Join(to, "*.cplog"))
	if err != nil || len(logs) != 2 {
		t.Fatal(logs, err)
	}
	if code, out, errs := cprof("log", "check", to); code != 0 {
		t.Errorf("check: %d\n%s%s", code, out, errs)
	}
	code, out, errs = cprof("log", "dump", logs[1])
	if code != 0 || !strings.Contains(out, "node-7") || !strings.Contains(out, "ring full") {
		t.Errorf("dump: %d\n%s%s", code, out, errs)
	}
	for id := 40; id < 56; id++ {
		if !strings.Contains(out, fmt.Sprint(id)) {
			t.Errorf("no event %d in\n%s", id, out)
		}
	}
	// If another process drains the directory, salvage does nothing.
	lock, err := ring.LockDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if code, _, errs := cprof("ring", "salvage", "--rings", dir, "--to", to); code != 1 ||
		!strings.Contains(errs, "drain") {
		t.Errorf("beside a drainer: %d %s", code, errs)
	}
}
