package job

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// testPlacement has three nodes. Some of its operators have one instance, and some have several.
// Between any two consecutive operators, some tuples go from one node to another.
const testPlacement = `
version: 1
nodes:
  - {name: a, address: 127.0.0.1}
  - {name: b, address: 127.0.0.1}
  - {name: c, address: 127.0.0.1}
actors:
  source: [a, b]
  deserialise: [b, c, a]
  filter: [c, a]
  project: [b]
  join: [a, c]
  count: [b, c]
  store: [a]
stream:
  tuples: 3000
  per_second: 0
  campaigns: 7
  ads_per_campaign: 3
  window: 20ms
  in_flight: 32
  begin_us: 1234567890123
`

func place(t *testing.T, text string) *Placement {
	t.Helper()
	p, err := ParsePlacement([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p.OnLoopback()
	return p
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// logged is the content of a channel's log.
type logged struct {
	events []logstore.Event
	links  []logstore.Link
	whole  bool
}

func readLogs(t *testing.T, dir string) map[string]*logged {
	t.Helper()
	logs := map[string]*logged{}
	nodes, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		segments, err := logstore.Segments(filepath.Join(dir, node.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range segments {
			l := &logged{}
			r := logstore.ReadLog([]logstore.Segment{s})
			for {
				b, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				l.events = append(l.events, b.Events...)
				l.links = append(l.links, b.Links...)
			}
			report := r.Report()
			l.whole = report.Whole()
			r.Close()
			logs[s.Channel.String()] = l
		}
	}
	return logs
}

// The job's counts are the same as those of a loop over the stream. Every event is in the logs.
// Each view's link leads to a window that was stored. Nothing is left behind.
func TestCountsAreRight(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p := place(t, testPlacement)
	p.Stream.Seed = seed.Of(t)
	ctx := within(t, 2*time.Minute)
	cluster, err := StartCluster(p, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rings, logs := filepath.Join(dir, "rings"), filepath.Join(dir, "logs")
	result, err := cluster.Run(ctx, Options{Rings: rings, Logs: logs})
	if err != nil {
		t.Fatal(err)
	}
	want := p.Stream.Expect(p.Stream.Begin_us)
	got, err := cluster.Counted(ctx, "ads")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts differ, -want +got:\n%s", diff)
	}
	if result.Dropped != 0 {
		t.Errorf("%d events dropped", result.Dropped)
	}
	if err := cluster.Close(); err != nil {
		t.Error(err)
	}
	checkLogs(t, readLogs(t, logs), p, result, want)

	for _, node := range p.Nodes {
		left, err := filepath.Glob(filepath.Join(rings, node.Name, "*.ring*"))
		if err != nil || len(left) != 0 {
			t.Errorf("rings left: %v, %v", left, err)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left in %s: %v, %v", os.TempDir(), left, err)
	}
}

func checkLogs(
	t *testing.T, logs map[string]*logged, p *Placement, result Result, want map[Window]int,
) {
	t.Helper()
	views := 0
	for _, n := range want {
		views += n
	}
	expected := map[string]int{
		"source": p.Stream.Tuples, "deserialise": p.Stream.Tuples, "filter": p.Stream.Tuples,
		"project": views, "join": views, "count": views, "window": len(want), "store": len(want),
	}
	ids := map[string]map[uint64]int{} // by "stage/point", then by id
	for name, l := range logs {
		if !l.whole {
			t.Errorf("log of %s lacks rows", name)
		}
		stage, _, _ := strings.Cut(name, "#")
		_, point, _ := strings.Cut(name, "/")
		if point == "link" {
			continue
		}
		of := stage + "/" + point
		if ids[of] == nil {
			ids[of] = map[uint64]int{}
		}
		if n := len(l.events); n == 0 || l.events[n-1].ID != channel.Poison {
			t.Errorf("%s does not end with the poison", name)
		}
		for _, e := range l.events {
			if e.ID != channel.Poison {
				ids[of][e.ID]++
			}
		}
	}
	for stage, n := range expected {
		for _, point := range []string{"start", "end"} {
			of := ids[stage+"/"+point]
			if len(of) != n {
				t.Errorf("%s/%s has %d ids, want %d", stage, point, len(of), n)
			}
			for id, times := range of {
				if times != 1 {
					t.Fatalf("%s/%s has tuple %d %d times", stage, point, id, times)
				}
			}
		}
	}
	linked := map[uint64]int{}
	links := 0
	for name, l := range logs {
		if !strings.HasSuffix(name, "/link") {
			continue
		}
		for _, link := range l.links {
			links++
			linked[link.Child]++
			if ids["count/start"][link.Parent] != 1 || ids["source/end"][link.Parent] != 1 {
				t.Fatalf("link from tuple %d, which source and count did not log", link.Parent)
			}
			if ids["store/end"][link.Child] != 1 {
				t.Fatalf("link to window %d, which store did not log", link.Child)
			}
		}
	}
	if links != views || len(linked) != len(want) {
		t.Errorf("%d links to %d windows, want %d to %d", links, len(linked), views, len(want))
	}
	sumOfSquares := func(n map[uint64]int) (sum int) {
		for _, v := range n {
			sum += v * v
		}
		return sum
	}
	wanted := 0
	for _, n := range want {
		wanted += n * n
	}
	if sumOfSquares(linked) != wanted {
		t.Error("the numbers of links to the windows are not their counts")
	}
	allViews := Counts{Taken: uint64(views), Sent: uint64(views)}
	if got := result.Actors["project#0"]; got != allViews {
		t.Errorf("project#0 counts %+v, want %+v", got, allViews)
	}
}

// A source that cannot keep its rate still logs when its tuples were due. These times are evenly
// spaced, and each is before the tuple was sent.
func TestSourceLogsWhenTuplesWereDue(t *testing.T) {
	p := place(t, testPlacement)
	p.Actors["source"] = []string{"a"}
	p.Stream.PerSecond = 1e6 // beyond any machine
	ctx := within(t, 2*time.Minute)
	cluster, err := StartCluster(p, "")
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	dir := t.TempDir()
	o := Options{Rings: filepath.Join(dir, "rings"), Logs: filepath.Join(dir, "logs")}
	if _, err := cluster.Run(ctx, o); err != nil {
		t.Fatal(err)
	}
	logs := readLogs(t, filepath.Join(dir, "logs"))
	intended, start := logs["source#0/intended"], logs["source#0/start"]
	n := p.Stream.Tuples
	if intended == nil || len(intended.events) != n+1 || len(start.events) != n+1 {
		t.Fatalf("%+v: want %d tuples and the poison", intended, n)
	}
	span := func(l *logged) float64 { return float64(l.events[n-1].Counter - l.events[0].Counter) }
	step := span(intended) / float64(n-1)
	for i, due := range intended.events[:n] {
		if sent := start.events[i]; due.ID != sent.ID || due.Counter > sent.Counter {
			t.Fatalf("tuple %d was due at %d and sent at %d, under id %d",
				due.ID, due.Counter, sent.Counter, sent.ID)
		}
		off := float64(due.Counter-intended.events[0].Counter) - float64(i)*step
		if math.Abs(off) > span(intended)/3 {
			t.Errorf("tuple %d is due %.0f cycles from its place in an even schedule", i, off)
		}
	}
	if 2*span(intended) > span(start) {
		t.Errorf("3000 tuples were due within %.0f cycles and sent within %.0f: "+
			"want due times that do not follow the sender", span(intended), span(start))
	}
}

func TestCounterAtGoesBackAtTheCountersRate(t *testing.T) {
	begun := time.Now()
	m := moment{1000, begun}
	at := moment{1000 + 2_500_000_000, begun.Add(time.Second)}
	if got := m.counterAt(begun.Add(900*time.Millisecond), at); got != at.counter-250_000_000 {
		t.Errorf("100 ms before %d the counter was %d, want 250,000,000 less", at.counter, got)
	}
}

func TestInterruptedJobLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p := place(t, testPlacement)
	p.Stream.Tuples, p.Stream.PerSecond = 1_000_000, 1000
	cluster, err := StartCluster(p, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(within(t, 2*time.Minute))
	why := errors.New("enough")
	rings := filepath.Join(t.TempDir(), "rings")
	_, err = cluster.Run(ctx, Options{
		Rings: rings, Logs: filepath.Join(t.TempDir(), "logs"),
		Begin: func() { cancel(why) },
	})
	if !errors.Is(err, why) {
		t.Errorf("interrupted job ended with %v", err)
	}
	if err := cluster.Close(); err != nil {
		t.Error(err)
	}
	for _, node := range p.Nodes {
		if left, _ := filepath.Glob(filepath.Join(rings, node.Name, "*.ring*")); len(left) != 0 {
			t.Errorf("rings left: %v", left)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left in %s: %v, %v", os.TempDir(), left, err)
	}
}
