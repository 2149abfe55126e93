package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ntp"
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
// middle and another continues.
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
	logIDs(ch, 20, 30) // no agent is there
	a = startTest(t, c)
	if run := a.Status().Run; run != "tuesday" {
		t.Fatalf("the next agent is in run %q", run)
	}
	logIDs(ch, 30, 40)
	unfinished := filepath.Join(c.State, a.runPath("tuesday"), runs.LogsPath(c.Node),
		"a~x.00000000000000000000000000000001.000000.cplog.new")
	if err := os.WriteFile(unfinished, nil, 0o600); err != nil { // as a kill leaves it
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

// Excess runs are removed in the order in which they were begun, whatever the clock said when they
// were written. The clock decides among those that no agent has noted, and these go first.
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
			left []string // beside the present run, once it is open
		}{{"b", []string{"y"}}, {"a", []string{"b"}}, {"d", []string{"a"}}, {"c", []string{"d"}}} {
			if i == 2 { // another agent knows it as well
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
			t.Error(err) // the current one
		}
		if n := len(a.now().Begun); n > 2*c.KeepRuns+2 {
			t.Errorf("%d directories are written down: %q", n, a.now().Begun)
		}
	}
}

// A server reads what a run has, and nothing else.
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

// A server's table is in force at once. It stays in force while the server is away, even for the
// next agent.
func TestServersTable(t *testing.T) {
	c := testConfig(t)
	a := startTest(t, c)
	ch := open(t, c, "b/x", handlers.Options{})
	testimony.WaitFor(t, "the ring", func() bool { return len(a.Status().Channels) == 1 })
	handler := func(a *Agent, channel, want string) func() bool {
		return func() bool {
			return slices.ContainsFunc(a.Status().Channels, func(c RingStatus) bool {
				return c.Channel == channel && c.Handler == want
			})
		}
	}
	stale := func(a *Agent) bool {
		families, err := a.registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "cloudprofiler_agent_handler_table_stale" {
				return f.GetMetric()[0].GetGauge().GetValue() == 1
			}
		}
		t.Fatal("there is no metric for it")
		return false
	}
	table := handlertable.Table{Rules: []handlertable.Rule{{Channel: "b/*"}}}
	if stale(a) {
		t.Error("no table, and it is stale")
	}
	begin := time.Now()
	if n, err := a.SetTable(table.Text(), 7); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	testimony.WaitFor(t, "the new handler", handler(a, "b/x", "null"))
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %s", took)
	}
	if stale(a) {
		t.Error("the server's table is stale")
	}
	if _, err := a.SetTable([]byte("- nonsense"), 8); !errors.Is(err, handlertable.ErrTable) {
		t.Error(err)
	}
	if s := a.Status().Table; s.Source != "server" || s.Generation != 7 || s.Error == "" ||
		!stale(a) {
		t.Errorf("%+v, stale is %v", s, stale(a))
	}
	a.Close()
	ch.Close()

	a = startTest(t, c)
	if s := a.Status().Table; s.Source != "last of the server" || s.Generation != 7 || !stale(a) {
		t.Errorf("%+v, stale is %v", s, stale(a))
	}
	open(t, c, "b/new", handlers.Options{})
	testimony.WaitFor(t, "the kept handler", handler(a, "b/new", "null"))
	a.Close()

	// A configured file prevails over it.
	c.Table = filepath.Join(t.TempDir(), "handlers.yaml")
	table.Rules[0].Channel = "other/*"
	if err := os.WriteFile(c.Table, table.Text(), 0o600); err != nil {
		t.Fatal(err)
	}
	a = startTest(t, c)
	if s := a.Status().Table; s.Source != "file" || s.Generation != 0 || stale(a) {
		t.Errorf("%+v, stale is %v", s, stale(a))
	}
}

func TestTableIsStaleWhileTheServerIsAway(t *testing.T) {
	i := slices.IndexFunc(nodeMetrics, func(m metric) bool {
		return strings.Contains(m.desc.String(), `"cloudprofiler_agent_handler_table_stale"`)
	})
	if i < 0 {
		t.Fatal("there is no metric for it")
	}
	table := TableStatus{Source: "server", Generation: 7}
	for s, want := range map[LinkStatus]float64{{}: 0, {Server: "alpha:1"}: 1,
		{Server: "alpha:1", Connected: true}: 0} {
		if got := nodeMetrics[i].of(&Status{Table: table, Link: s}); got != want {
			t.Errorf("%+v: %v, want %v", s, got, want)
		}
	}
}

func TestSnapshotTakesAPattern(t *testing.T) {
	c := testConfig(t)
	a := startTest(t, c)
	for _, name := range []string{"a/x", "b/x"} {
		logIDs(open(t, c, name, handlers.Options{Handler: "id", Policy: "overwrite"}), 0, 10)
	}
	open(t, c, "c/x", handlers.Options{})
	for _, test := range []struct {
		pattern  string
		channels int
		records  uint64
	}{{"a/*", 1, 10}, {"none/*", 0, 0}, {"", 2, 10}, {"", 2, 0}} {
		channels, records, err := a.Snapshot(test.pattern)
		// Beside the records a log has a row for the settings, which may come with any of them.
		if err != nil || channels != test.channels || records < test.records ||
			records > test.records+2 {
			t.Errorf("%q: %d channels, %d records, %v", test.pattern, channels, records, err)
		}
	}
	if _, _, err := a.Snapshot("a b"); !errors.Is(err, handlertable.ErrTable) {
		t.Error(err)
	}
	checkRange(t, "a", idsIn(t, filepath.Join(c.State, "logs", "000000"), "a/x"), 0, 10)
}

// Every order has an answer that can be sent.
func TestOrders(t *testing.T) {
	c := testConfig(t)
	a := startTest(t, c)
	logIDs(open(t, c, "a/x", handlers.Options{Policy: "overwrite"}), 0, 10)
	do := func(m control.Message) control.Message {
		t.Helper()
		answer, err := a.Handle(t.Context(), m)
		if err != nil || answer == nil {
			t.Fatalf("%s: %v, %v", m.Kind(), answer, err)
		}
		return answer
	}
	refused := func(m control.Message, want control.Code) {
		t.Helper()
		if r, ok := do(m).(*control.Refusal); !ok || r.Code != want || r.Text == "" {
			t.Errorf("%s: %+v, want a refusal: %s", m.Kind(), r, want)
		}
	}
	if s := do(&control.Run{Name: "r"}).(*control.RunState); s.Name != "r" || s.Closed ||
		s.Channels != 1 {
		t.Errorf("%+v", s)
	}
	refused(&control.Run{Name: "s"}, control.NotNow)
	refused(&control.Run{Name: "s", Close: true}, control.NotFound)
	refused(&control.Run{Name: "../s"}, control.Failed)
	if s := do(&control.Snapshot{}).(*control.SnapshotState); s.Channels != 1 || s.Records < 10 ||
		s.Error != "" {
		t.Errorf("%+v", s)
	}
	if s := do(&control.Run{Name: "r", Close: true}).(*control.RunState); !s.Closed {
		t.Errorf("%+v", s)
	}
	files := do(&control.ListFiles{Run: "r"}).(*control.Files)
	if len(files.Files) != 1 || files.More {
		t.Fatalf("%+v", files)
	}
	f := files.Files[0]
	read := do(&control.ReadFile{Run: "r", Path: f.Path, Offset: 5, Bytes: f.Bytes})
	chunk := read.(*control.Chunk)
	if int64(len(chunk.Data)) != f.Bytes-5 || chunk.Size != f.Bytes || chunk.Offset != 5 ||
		chunk.Path != f.Path {
		t.Errorf("%d bytes of %d at %d", len(chunk.Data), chunk.Size, chunk.Offset)
	}
	refused(&control.ReadFile{Run: "r", Path: "logs/node-1/none", Bytes: 1}, control.NotFound)
	refused(&control.ReadFile{Run: "r", Path: f.Path, Offset: -1, Bytes: 1}, control.Malformed)
	refused(&control.ReadFile{Run: "r", Path: f.Path, Bytes: control.MaxChunkBytes + 1},
		control.Malformed)
	refused(&control.ListFiles{Run: "none"}, control.NotFound)
	table := (&handlertable.Table{Rules: []handlertable.Rule{{Channel: "*"}}}).Text()
	s := do(&control.Table{Generation: 3, Text: table}).(*control.TableState)
	if s.Generation != 3 || s.Channels != 1 || s.Error != "" {
		t.Errorf("%+v", s)
	}
	s = do(&control.Table{Generation: 4, Text: []byte("?")}).(*control.TableState)
	if s.Generation != 3 || s.Error == "" {
		t.Errorf("%+v", s)
	}
	if answer, err := a.Handle(t.Context(), &control.Ping{}); answer != nil || err != nil {
		t.Errorf("a ping: %v, %v", answer, err)
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

// The directory of logs is made for this user only. Errors about an existing one name that one, and
// not that of the rings.
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

func TestBadConfigurations(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"a node's name":        func(c *Config) { c.Node = "a/b" },
		"a state of another":   func(c *Config) { c.State = "/proc" },
		"a table that is none": func(c *Config) { c.Table = filepath.Join(c.State, "none.yaml") },
		"keep less than none":  func(c *Config) { c.KeepRuns = -1 },
		"an address":           func(c *Config) { c.Listen = "nonsense" },
		"all free":             func(c *Config) { c.MinFree = 1 },
	} {
		c := testConfig(t)
		change(&c)
		if a, err := Start(c); err == nil {
			t.Errorf("%s was taken", name)
			a.Close()
		}
		// Nothing is left that would keep the next one from starting.
		good := testConfig(t)
		good.Rings = c.Rings
		startTest(t, good).Close()
	}
	c := testConfig(t)
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", `{"logs": "../elsewhere"}`,
		`{"logs": "logs/000000", "before": ["/etc"]}`} {
		if err := os.WriteFile(filepath.Join(c.State, "state.json"), []byte(text),
			0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Start(c); err == nil {
			t.Errorf("state %s was taken", text)
		}
	}
}

func TestSocketAndPages(t *testing.T) {
	c := testConfig(t)
	c.Listen = "127.0.0.1:0"
	a := startTest(t, c)
	logIDs(open(t, c, "a/x", handlers.Options{Policy: "overwrite"}), 0, 10)
	testimony.WaitFor(t, "the ring", func() bool { return len(a.Status().Channels) == 1 })

	info, err := os.Stat(filepath.Join(c.Rings, SocketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	local, err := Connect(c.Rings)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := local.Status(ctx)
	if err != nil || s.Node != "node-1" || len(s.Channels) != 1 || s.Channels[0].Channel != "a/x" ||
		len(s.Processes) != 1 || s.Processes[0].Rings != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := local.Flush(ctx); err != nil {
		t.Error(err)
	}
	if s, err := local.Snapshot(ctx, ""); err != nil || s.Channels != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if r, err := local.OpenRun(ctx, "r"); err != nil ||
		r.Directory != filepath.Join(c.State, "runs", "r") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := local.OpenRun(ctx, "s"); err == nil ||
		!strings.Contains(err.Error(), "close it first") {
		t.Error(err)
	}
	if r, err := local.CloseRun(ctx, "r"); err != nil || !r.Closed {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := local.CloseRun(ctx, "none"); err == nil {
		t.Error("a run that is none was closed")
	}

	base := "http://" + a.address.String()
	get := func(method, path, accept string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if code, text := get("GET", "/status", "text/html"); code != 200 ||
		!strings.Contains(text, "cp-agent on node-1") || !strings.Contains(text, "a/x") {
		t.Errorf("%d %s", code, text)
	}
	for _, path := range []string{"/status", "/status.json"} {
		code, text := get("GET", path, "application/json")
		var s Status
		if err := json.Unmarshal([]byte(text), &s); err != nil || code != 200 ||
			s.Node != "node-1" {
			t.Errorf("%s: %d %v", path, code, err)
		}
	}
	code, text := get("GET", "/metrics", "")
	for _, want := range []string{"cloudprofiler_agent_events_total 10\n",
		"cloudprofiler_agent_rings 1\n", "cloudprofiler_agent_server_connected 0\n",
		`cloudprofiler_agent_channel_events{channel="a/x"} 10`, "process_cpu_seconds_total"} {
		if code != 200 || !strings.Contains(text, want) {
			t.Errorf("metrics: %d, no %q", code, want)
		}
	}
	if strings.Contains(text, "chrony_bound") {
		t.Error("a bound that nobody claims is in the metrics")
	}
	// Anybody who reaches the address may look, but not give orders.
	for _, path := range []string{PathSnapshot, PathFlush, PathOpenRun + "?name=x", PathCloseRun +
		"?name=x"} {
		if code, _ := get("POST", path, ""); code != http.StatusNotFound {
			t.Errorf("POST %s: %d", path, code)
		}
	}
	a.Close()
	if _, err := local.Status(ctx); !errors.Is(err, ErrNoAgent) {
		t.Error(err)
	}
	if _, err := Connect(filepath.Join(c.Rings, "none")); !errors.Is(err, ErrNoAgent) ||
		!strings.Contains(err.Error(), "start cp-agent, or name") {
		t.Errorf("a directory that is none: %v", err)
	}
}

// What chrony claims is in the run's file, one block after another, even from two agents; and in
// the status.
func TestClaimsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "baselines", "n.ntp")
	claim := ntp.Claim{
		Offset_ns: -5, RootDelay_ns: 10, RootDispersion_ns: 20, Frequency_ppt: -7, Skew_ppt: 8,
		Stratum: 2, ReferenceID: 9,
	}
	newTestPoller := func() *poller {
		p := newPoller("somewhere", "n", func() string {
			return "e7"
		}, func(err error) { t.Error(err) })
		p.ask = func(context.Context, string) (ntp.Claim, error) { return claim, nil }
		return p
	}
	p := newTestPoller()
	p.poll(t.Context()) // no run: only the status
	if s := p.Status(); !s.Bounded || s.Bound_ns != 30 {
		t.Errorf("%+v", s)
	}
	p.open(path)
	for range claimsHeld + 3 {
		p.poll(t.Context())
	}
	if err := p.leave(); err != nil {
		t.Fatal(err)
	}
	p = newTestPoller()
	p.open(path)
	p.poll(t.Context())
	p.ask = func(context.Context, string) (ntp.Claim, error) {
		return ntp.Claim{}, errors.New("gone")
	}
	p.poll(t.Context())
	if s := p.Status(); s.Bounded || s.Error != "gone" {
		t.Errorf("%+v", s)
	}
	if err := p.close(); err != nil {
		t.Fatal(err)
	}

	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := logstore.NewReader(f, path)
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Header(); h.Epoch != "e7" { // otherwise no analysis takes it for this run's
		t.Errorf("epoch %q", h.Epoch)
	}
	n := 0
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range b.NTPs {
			n++
			want := logstore.NTP{
				CounterLo: row.CounterLo, CounterHi: row.CounterHi, Offset_ns: -5, RootDelay_ns: 10,
				RootDispersion_ns: 20, Frequency_ppt: -7, Skew_ppt: 8, Stratum: 2, ReferenceID: 9,
			}
			if row != want || row.CounterLo >= row.CounterHi {
				t.Errorf("%+v", row)
			}
		}
	}
	if report := r.Report(); n != claimsHeld+4 || !report.Sealed || !report.Whole() {
		t.Errorf("%d claims, %+v", n, report)
	}
}

// During a run chrony is asked every second, from the first moment on, and rarely otherwise. Claims
// about a counter of another epoch than the file's are not kept. Claims that no disk takes are
// limited.
func TestChronyIsAskedEverySecond(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.ntp")
	synctest.Test(t, func(t *testing.T) {
		var other atomic.Bool // is the counter's epoch
		var asked, failed atomic.Int64
		epoch := func() string {
			if other.Load() {
				return "e8"
			}
			return "e7"
		}
		p := newPoller("somewhere", "n", epoch, func(error) { failed.Add(1) })
		p.ask = func(context.Context, string) (ntp.Claim, error) {
			asked.Add(1)
			return ntp.Claim{Stratum: 1}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.run(ctx)
		since := func(lasting time.Duration) int64 {
			before := asked.Load()
			time.Sleep(lasting)
			synctest.Wait()
			return asked.Load() - before
		}
		since(59 * time.Second)
		if n := asked.Load(); n != 6 { // the first may come before since is set
			t.Errorf("asked %d times in a minute without a run", n)
		}
		p.open(path)
		synctest.Wait()
		if asked.Load() != 7 {
			t.Errorf("asked %d times when a run begins, want one more than 6", asked.Load())
		}
		if n := since(20 * time.Second); n != 20 {
			t.Errorf("asked %d times in 20 s of a run", n)
		}
		other.Store(true)
		since(20 * time.Second)
		other.Store(false)
		p.mu.Lock()
		next, held := p.next, len(p.rows)
		p.mu.Unlock()
		if next != 20 || held != 1 {
			t.Errorf("%d claims in the file and %d held, want 20 and 1", next, held)
		}
		p.mu.Lock()
		err := p.writer.Close() // like a disk that takes no more
		p.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		since(time.Hour)
		p.mu.Lock()
		held = len(p.rows)
		p.mu.Unlock()
		if held > 100*claimsHeld+1 || failed.Load() != 1 {
			t.Errorf(
				"%d claims are held, and %d times it was said that they cannot be kept, want once",
				held, failed.Load())
		}
		cancel()
		synctest.Wait()
		p.writer = nil
	})
}

func TestStateMovesOn(t *testing.T) {
	s := state{Logs: "a"}
	for _, to := range []string{"b", "c", "b", "b", "d"} {
		s = s.to(to, func(string) bool { return true })
	}
	if s.Logs != "d" || !slices.Equal(s.Before, []string{"b", "c", "a"}) {
		t.Errorf("%+v", s)
	}
	for _, to := range strings.Split("efghijklmnop", "") {
		s = s.to(to, func(string) bool { return true })
	}
	// While nothing can be moved, a log may be left in any directory that is still there.
	if len(s.Before) != 15 || s.Before[0] != "o" || s.Before[14] != "a" {
		t.Errorf("%+v", s)
	}
	s = s.to("q", func(logs string) bool { return logs != "c" })
	if len(s.Before) != 15 || s.Before[0] != "p" || slices.Contains(s.Before, "c") {
		t.Errorf("%+v", s)
	}
	if s = s.moved(); len(s.Before) != keptBefore || s.Before[0] != "p" {
		t.Errorf("%+v", s)
	}
	dir := t.TempDir()
	if err := s.write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, stateFile+".part")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A logout removes the directory of rings with the agent's socket. Later callers find the agent
// again.
func TestSocketIsMadeAnew(t *testing.T) {
	c := testConfig(t)
	startTest(t, c)
	for _, path := range []string{filepath.Join(c.Rings, SocketName), c.Rings} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		var err error
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(
			10 * time.Millisecond) {
			var l *Local
			if l, err = Connect(c.Rings); err != nil {
				continue
			}
			if _, err = l.Status(t.Context()); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("without %q: %v", path, err)
		}
		if info, err := os.Lstat(filepath.Join(c.Rings, SocketName)); err != nil ||
			info.Mode().Perm() != 0o600 {
			t.Errorf("the socket is open to others: %v, %v", info, err)
		}
	}
}
