package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
)

// A server's table applies to open channels, too. It still applies while the server is away, even
// after another agent has taken the place of this one.
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
	if n, err := a.SetTable(table.Text(), 7); err != nil || !slices.Equal(n, []int{1}) {
		t.Fatal(n, err)
	}
	// A test of package drain has a clock of its own and checks how soon the handler changes:
	// TestTableIsAppliedToRingsThatAppearAndThatAreThere.
	testimony.WaitFor(t, "the new handler", handler(a, "b/x", "null"))
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

	// A configured file takes precedence over the server's table.
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
		// The count may include up to two rows about settings, because any snapshot may write such
		// rows.
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

// Every order has an answer that fits into a message.
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
	table := (&handlertable.Table{Rules: []handlertable.Rule{
		{Channel: "nosuch/*"}, {Channel: "*"}, {Channel: "*"},
	}}).Text()
	s := do(&control.Table{Generation: 3, Text: table}).(*control.TableState)
	if s.Generation != 3 || s.Channels != 1 || !slices.Equal(s.Matched, []int{0, 1, 0}) ||
		s.Error != "" {
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
