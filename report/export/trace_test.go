package export

import (
	"bytes"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// toldRows has the rows and the answer of an analysis, for comparison with exports.
type toldRows struct {
	answer    *analysis.Answer
	clock     analysis.Clock
	events    map[uint64]map[string]analysis.EventRow // by tuple and point
	durations []analysis.DurationRow
	parents   map[uint64][]uint64 // by child
}

// forkedRun makes a run of a job that forks and joins, and analyzes it.
func forkedRun(t *testing.T, tuples int, o analysis.Options) (*runs.Directory, *toldRows) {
	t.Helper()
	parent := t.TempDir()
	if err := simrun.Forked(seed.Random(t), parent, "forked", tuples); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "forked"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir, tell(t, dir, o)
}

func tell(t *testing.T, dir *runs.Directory, o analysis.Options) *toldRows {
	t.Helper()
	told := &toldRows{events: map[uint64]map[string]analysis.EventRow{},
		parents: map[uint64][]uint64{}}
	o.Events = func(e analysis.EventRow) error {
		if told.events[e.Tuple] == nil {
			told.events[e.Tuple] = map[string]analysis.EventRow{}
		}
		told.events[e.Tuple][e.Point] = e
		return nil
	}
	o.Durations = func(d analysis.DurationRow) error {
		told.durations = append(told.durations, d)
		return nil
	}
	o.Begin = func(b analysis.Basis) error { told.clock = b.Clock; return nil }
	o.Links = func(parent, child uint64) {
		told.parents[child] = append(told.parents[child], parent)
	}
	var err error
	if told.answer, err = analysis.Run(t.Context(), dir, o); err != nil {
		t.Fatal(err)
	}
	return told
}

// allDurations returns the durations of all kinds. If a duration of another kind is marked as
// Whole, allDurations also adds it as a row of kind end-to-end.
func (w *toldRows) allDurations() (all []analysis.DurationRow) {
	for _, d := range w.durations {
		all = append(all, d)
		if d.Whole && d.Kind != "end-to-end" {
			d.Kind = "end-to-end"
			all = append(all, d)
		}
	}
	return all
}

// nsOf returns the middle of an interval of cycles, converted to ns. It uses exact arithmetic, and
// rounds the result.
func nsOf(lo, hi int64, r analysis.Reference) int64 {
	rat := func(v float64) *big.Rat { return new(big.Rat).SetFloat64(v) }
	hz := new(big.Rat).Add(rat(r.FrequencyLo_hz), rat(r.FrequencyHi_hz))
	twice := new(big.Rat).SetInt(new(big.Int).Add(big.NewInt(lo), big.NewInt(hi)))
	ns := twice.Quo(twice.Mul(twice, big.NewRat(1e9, 1)), hz)
	half := big.NewRat(1, 2)
	if ns.Sign() < 0 {
		half.Neg(half)
	}
	ns.Add(ns, half)
	return new(big.Int).Quo(ns.Num(), ns.Denom()).Int64()
}

// Every duration is a slice of exactly its length, on the track of the instance that logged it. A
// flow leads from each slice to the slice that follows it in another instance.
func TestTraceHasEachDuration(t *testing.T) {
	dir, told := forkedRun(t, 600, analysis.Options{Reference: "B"})
	if _, _, err := Run(t.Context(), dir, analysis.Options{Reference: "B"}, Perfetto); err != nil {
		t.Fatal(err)
	}
	trace, err := os.ReadFile(filepath.Join(dir.Path, "exports", traceFile))
	if err != nil {
		t.Fatal(err)
	}
	drawn := drawnOf(t, trace)
	type key struct {
		track, id, lo, hi, scenario, verdict string
		from, to                             string
		kind                                 string
		length                               int64
	}
	want, got := map[key]int{}, map[key]int{}
	instance := func(e analysis.EventRow) string {
		return e.Node + "/" + strings.TrimSuffix(e.Channel, e.Point[strings.Index(e.Point, "/"):])
	}
	of := map[uint64][]analysis.DurationRow{} // by tuple
	for _, d := range told.durations {
		of[d.Tuple] = append(of[d.Tuple], d)
	}
	// This function returns the name of a slice that lies in one instance and ends or begins at a
	// point. If there are two such slices, the parameter called ends chooses. If there is none, it
	// returns the name of the event.
	within := func(tuple uint64, point string, ends bool) string {
		for _, ends := range []bool{ends, !ends} {
			for _, d := range of[tuple] {
				from, to := told.events[tuple][d.From], told.events[tuple][d.To]
				if d.Kind != "end-to-end" && instance(from) == instance(to) &&
					(ends && d.To == point || !ends && d.From == point) {
					return d.From + " → " + d.To
				}
			}
		}
		return point
	}
	flows := map[string]int{}
	for _, d := range told.allDurations() {
		if d.Tuple == 0 {
			continue
		}
		from, to := told.events[d.Tuple][d.From], told.events[d.Tuple][d.To]
		track := instance(from)
		switch {
		case d.Kind == "end-to-end":
			track = "end to end"
		case instance(from) != instance(to):
			track = strings.Replace(instance(from), "/", " ", 1) + " → " +
				strings.Replace(instance(to), "/", " ", 1)
			flows[flowOf(fmt.Sprint(d.ID), within(d.Tuple, d.From, true),
				within(d.Tuple, d.To, false))]++
		}
		want[key{track, fmt.Sprint(d.ID), fmt.Sprint(d.Lo), fmt.Sprint(d.Hi), d.Scenario.String(),
			d.Verdict.String(), d.FromNode, d.ToNode, d.Kind,
			max(nsOf(d.Lo, d.Hi, told.answer.Reference), 0)}]++
	}
	byFlow := map[uint64][]*drawnSlice{}
	lanes := map[string]map[uint64]bool{}
	for i := range drawn.slices {
		s := &drawn.slices[i]
		for _, f := range s.flows {
			byFlow[f] = append(byFlow[f], s)
		}
		if s.instant {
			continue
		}
		if lanes[s.track] == nil {
			lanes[s.track] = map[uint64]bool{}
		}
		lanes[s.track][s.lane] = true
		got[key{s.track, s.about["tuple_id"], s.about["lo_cycles"], s.about["hi_cycles"],
			s.about["scenario"], s.about["verdict"], s.about["from_node"], s.about["to_node"],
			s.about["kind"], int64(s.length)}]++
	}
	for k, n := range want {
		if got[k] != n {
			t.Errorf("%d slices are %+v, want %d", got[k], k, n)
		}
	}
	if len(got) != len(want) || len(want) < 500 {
		t.Errorf("%d different slices, %d durations", len(got), len(want))
	}
	if len(lanes["B/split#0"]) < 3 || len(lanes["C/split#1"]) < 3 {
		t.Errorf("nothing overlaps: the lanes are %v", lanes)
	}
	for f, ends := range byFlow {
		if len(ends) != 2 || ends[0].about["tuple_id"] != ends[1].about["tuple_id"] {
			t.Fatalf("flow %d has the ends %+v", f, ends)
		}
		flows[flowOf(ends[0].about["tuple_id"], ends[0].name, ends[1].name)]--
	}
	for k, n := range flows {
		if n != 0 {
			t.Errorf("%d flows too few are %q", n, k)
		}
	}
	if want := fmt.Sprintf("run forked: all %d tuples; in cycles of B; seconds are",
		told.answer.Work.Tuples); !strings.HasPrefix(drawn.title, want) {
		t.Errorf("the trace is called %q, want %q", drawn.title, want)
	}
}

// flowOf names a flow by the slices at its two ends, in either order.
func flowOf(tuple string, names ...string) string {
	slices.Sort(names)
	return tuple + ": " + strings.Join(names, ", ")
}

// A trace has no negative slice. Slices that overlap have separate lanes, and slices that only
// touch share a lane.
func TestTraceLanes(t *testing.T) {
	var out bytes.Buffer
	trace := newTrace(&out, 0)
	event := func(way uint64, channel, point string, mid uint64) {
		if err := trace.event(&analysis.EventRow{ID: 100 + way, Tuple: way, Point: point, Node: "n",
			Channel: channel, At: tscratio.Interval{Lo: mid - 2, Hi: mid + 2}}); err != nil {
			t.Fatal(err)
		}
	}
	duration := func(way uint64, from, to string, lo, hi int64, kind string) {
		d := analysis.DurationRow{ID: 100 + way, Tuple: way, From: from, To: to, Kind: kind}
		d.Lo, d.Hi = lo, hi
		if err := trace.duration(&d); err != nil {
			t.Fatal(err)
		}
	}
	for way, begin := range []uint64{1_000_000, 1_001_000, 1_002_000} {
		way := uint64(way) + 1
		duration(way, "a/p", "a/q", 1999, 2001, "inside") // longer than from middle to middle
		duration(way, "a/q", "b/r", -500, -300, "transfer")
		duration(way, "b/r", "c/s", 1, 2, "transfer") // one event has no place
		event(way, "a#7/p", "a/p", begin)
		event(way, "a#7/q", "a/q", begin+1998)
		event(way, "b/r", "b/r", begin+1598)
	}
	if err := trace.duration(&analysis.DurationRow{ID: 9, From: "a/p", To: "b/q"}); err != nil {
		t.Fatal(err) // the tuple was made of others
	}
	if err := trace.finish(&analysis.Answer{Run: "r", Work: analysis.Work{Tuples: 5},
		Reference: analysis.Reference{Node: "n", FrequencyLo_hz: 1.9e9,
			FrequencyHi_hz: 2.1e9}}); err != nil {
		t.Fatal(err)
	}
	drawn := drawnOf(t, out.Bytes())
	var got []string
	first := map[string]uint64{}
	for _, s := range drawn.slices {
		if first[s.track] == 0 {
			first[s.track] = s.lane
		}
		got = append(got, fmt.Sprintf("%s +%d: %s of %s, %d to %d", s.track, s.lane-first[s.track],
			s.name, s.about["tuple_id"], s.begin, s.begin+s.length))
	}
	want := []string{
		"n a#7 → n b +0: a/q → b/r of 101, 999 to 999",
		"n a#7 → n b +0: a/q → b/r of 102, 1499 to 1499",
		"n a#7 → n b +0: a/q → b/r of 103, 1999 to 1999",
		"n/a#7 +0: a/p → a/q of 101, 0 to 1000",
		"n/a#7 +1: a/p → a/q of 102, 500 to 1500",
		"n/a#7 +0: a/p → a/q of 103, 1000 to 2000",
		"n/b +0: b/r of 101, 799 to 799",
		"n/b +0: b/r of 102, 1299 to 1299",
		"n/b +0: b/r of 103, 1799 to 1799",
	}
	if !slices.Equal(got, want) {
		t.Errorf("slices\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if want := "run r: the first 3 of 5 tuples; choose others by --slowest, --from, --to or " +
		"--id; 3 of their durations have no place on the counter of n; in cycles of n; seconds " +
		"are cycles divided by"; !strings.HasPrefix(drawn.title, want) {
		t.Errorf("the trace is called\n%q, want\n%q", drawn.title, want)
	}
}

// A flow shows a duration between two instances. It leaves the slice that ends where this duration
// begins, and arrives at the slice that begins where this duration ends.
func TestTraceFlows(t *testing.T) {
	var out bytes.Buffer
	trace := newTrace(&out, 0)
	for i, point := range []string{"a/p", "a/q", "a/r", "b/p", "b/q", "b/r", "c/p"} {
		at := uint64(1000 * i)
		if err := trace.event(&analysis.EventRow{ID: 1, Tuple: 1, Point: point, Node: "n",
			Channel: point, At: tscratio.Interval{Lo: at, Hi: at}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range [][2]string{{"a/p", "a/q"}, {"a/q", "a/r"}, {"a/q", "b/q"}, {"b/p", "b/q"},
		{"b/q", "b/r"}, {"b/r", "c/p"}} {
		row := analysis.DurationRow{ID: 1, Tuple: 1, From: d[0], To: d[1], Kind: "inside"}
		row.Lo, row.Hi = 1000, 1000
		if err := trace.duration(&row); err != nil {
			t.Fatal(err)
		}
	}
	if err := trace.finish(&analysis.Answer{}); err != nil {
		t.Fatal(err)
	}
	ends := map[uint64][]string{}
	for _, s := range drawnOf(t, out.Bytes()).slices {
		for _, f := range s.flows {
			ends[f] = append(ends[f], s.name)
		}
	}
	var got []string
	for _, names := range ends {
		got = append(got, flowOf("1", names...))
	}
	slices.Sort(got)
	want := []string{"1: a/p → a/q, b/q → b/r", "1: b/q → b/r, c/p"}
	if !slices.Equal(got, want) {
		t.Errorf("flows %q, want %q", got, want)
	}
	out.Reset()
	trace = newTrace(&out, 0) // a trace of a single event
	if err := trace.event(&analysis.EventRow{ID: 1, Tuple: 1, Point: "a/p", Node: "n",
		Channel: "a/p"}); err != nil {
		t.Fatal(err)
	}
	if err := trace.finish(&analysis.Answer{}); err != nil {
		t.Fatal(err)
	}
	if all := drawnOf(t, out.Bytes()).slices; len(all) != 1 || !all[0].instant {
		t.Errorf("a single event is %+v", all)
	}
}

// A trace shows the tuples that began first, or those that cprof analyze calls the slowest.
func TestTraceOfSomeTuples(t *testing.T) {
	dir, told := forkedRun(t, traceTuples+700, analysis.Options{Reference: "B", Slowest: 37})
	shown := func(slowest int) (string, map[string]bool) {
		files, _, err := Run(t.Context(), dir, analysis.Options{Reference: "B", Slowest: slowest},
			Perfetto)
		if err != nil {
			t.Fatal(err)
		}
		trace, err := os.ReadFile(filepath.Join(dir.Path, "exports", traceFile))
		if err != nil {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		for _, s := range drawnOf(t, trace).slices {
			if s.name == "tuple "+s.about["tuple_id"] {
				ids[s.about["tuple_id"]+" "+s.about["lo_cycles"]] = true
			}
		}
		return files[0].Note, ids
	}
	note, ids := shown(37)
	want := map[string]bool{}
	for _, s := range told.answer.Slowest {
		want[fmt.Sprint(uint64(s.ID), " ", s.Total.Lo_cycles)] = true
	}
	if !maps.Equal(ids, want) || len(want) != 74 {
		t.Errorf("slowest %v, want %v", ids, want)
	}
	all := told.answer.Work.Tuples
	if want := fmt.Sprintf("of %d tuples, the 37 slowest, and the 37 slowest of those that were "+
		"made of others", all); note != want {
		t.Errorf("it says %q, want %q", note, want)
	}
	note, ids = shown(0)
	begun := map[uint64]uint64{} // by tuple
	for tuple, events := range told.events {
		begun[tuple] = ^uint64(0)
		for _, e := range events {
			begun[tuple] = min(begun[tuple], e.At.Mid())
		}
	}
	last := slices.Sorted(maps.Values(begun))[traceTuples-1]
	clear(want)
	for _, d := range told.allDurations() {
		if d.Kind == "end-to-end" && d.Whole && begun[d.Tuple] <= last {
			want[fmt.Sprint(d.ID, " ", d.Lo)] = true
		}
	}
	if !maps.Equal(ids, want) || len(want) < traceTuples/3 {
		t.Errorf("%d tuples that began first, want %d", len(ids), len(want))
	}
	if want := fmt.Sprintf("the first 2000 of %d tuples; choose others by --slowest, --from, --to "+
		"or --id", all); note != want {
		t.Errorf("it says %q, want %q", note, want)
	}
}

// Each pause of a JVM is a slice on a track of the JVM's node, unless it began before the tuples.
func TestTraceHasPauses(t *testing.T) {
	var out bytes.Buffer
	trace := newTrace(&out, 0)
	if err := trace.event(&analysis.EventRow{ID: 1, Tuple: 1, Point: "a/p", Node: "n",
		Channel: "a/p", At: tscratio.Interval{Lo: 1000, Hi: 1000}}); err != nil {
		t.Fatal(err)
	}
	if err := trace.finish(&analysis.Answer{JVMs: []analysis.JVM{{Name: "jvm-7", Node: "n",
		Longest: []analysis.Pause{{Kind: "Early", At_cycles: 900},
			{Kind: "G1CollectFull", At_cycles: 1500,
				Length: analysis.Interval{Lo_cycles: 200, Hi_cycles: 300}}}}}}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range drawnOf(t, out.Bytes()).slices {
		names = append(names, s.name)
	}
	slices.Sort(names)
	if want := []string{"G1CollectFull", "a/p"}; !slices.Equal(names, want) {
		t.Errorf("slices %q, want %q", names, want)
	}
	if !bytes.Contains(out.Bytes(), []byte("pauses of jvm-7")) {
		t.Error("the pauses have no track")
	}
}
