package export

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// sentSpan is a span with its resource, as a receiver sees it.
type sentSpan struct {
	otlpSpan
	resource map[string]string
	about    map[string]string
}

// exportRequests exports a run, and returns the requests and their spans by id.
func exportRequests(t *testing.T, dir *runs.Directory, o analysis.Options) ([]string, Spans,
	map[string]*sentSpan) {
	t.Helper()
	var all []string
	told, _, err := OTLP(t.Context(), dir, o, func(request []byte) error {
		all = append(all, string(request))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	values := func(attributes []otlpAttribute) map[string]string {
		m := map[string]string{}
		for _, a := range attributes {
			if _, again := m[a.Key]; again || (a.Value.String == nil) == (a.Value.Int == "") {
				t.Fatalf("attribute %q is there twice, or has not one value: %+v", a.Key, a)
			}
			if a.Value.String != nil {
				m[a.Key] = *a.Value.String
			} else {
				m[a.Key] = a.Value.Int
			}
		}
		return m
	}
	spans := map[string]*sentSpan{}
	for _, text := range all {
		if len(text) > batch_bytes*5/4 || strings.Contains(text, "\n") {
			t.Errorf("a request has %d bytes, or several lines", len(text))
		}
		var r otlpRequest
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		for _, group := range r.ResourceSpans {
			for _, sent := range group.ScopeSpans[0].Spans {
				s := &sentSpan{otlpSpan: *sent, resource: values(group.Resource.Attributes)}
				s.about = values(s.Attributes)
				if spans[s.TraceID+s.SpanID] != nil {
					t.Fatalf("two spans have the id %s of %s", s.SpanID, s.TraceID)
				}
				spans[s.TraceID+s.SpanID] = s
			}
		}
	}
	if told.Spans != uint64(len(spans)) {
		t.Errorf("it tells of %d spans, and wrote %d", told.Spans, len(spans))
	}
	return all, told, spans
}

// Every duration is a span of exactly its length. Its parent is the span of the tuple's duration
// from end to end, and its links lead to the spans that it follows.
func TestOTLPHasEachDuration(t *testing.T) {
	dir, told := forkedRun(t, 300, analysis.Options{Reference: "B"})
	_, says, spans := exportRequests(t, dir, analysis.Options{Reference: "B"})
	if want := fmt.Sprintf("%d tuples", told.answer.Work.Tuples); says.Tuples != want ||
		says.Lacking > 0 {
		t.Errorf("it says %+v, want %s", says, want)
	}
	instance := func(e analysis.EventRow) string {
		return strings.TrimSuffix(e.Channel, e.Point[strings.Index(e.Point, "/"):])
	}
	line := func(d *analysis.DurationRow) string {
		return fmt.Sprintf("%s from %s to %s of %d: %d to %d", d.Kind, d.From, d.To, d.ID, d.Lo,
			d.Hi)
	}
	spanLine := func(s *sentSpan) string {
		if s == nil {
			return "none"
		}
		from, to, _ := strings.Cut(s.Name, " → ")
		return fmt.Sprintf("%s from %s to %s of %s: %s to %s", s.about["cloudprofiler.kind"], from,
			to, s.about["cloudprofiler.tuple_id"], s.about["cloudprofiler.lo_cycles"],
			s.about["cloudprofiler.hi_cycles"])
	}
	u := func(v uint64) string { return strconv.FormatUint(v, 10) }
	byTuple, byID := map[uint64][]*analysis.DurationRow{}, map[uint64]map[uint64]bool{}
	for _, d := range told.allDurations() {
		byTuple[d.Tuple] = append(byTuple[d.Tuple], &d)
		if byID[d.ID] == nil {
			byID[d.ID] = map[uint64]bool{}
		}
		byID[d.ID][d.Tuple] = true
	}
	got, want := map[string]int{}, map[string]int{}
	for _, s := range spans {
		text := spanLine(s) + fmt.Sprintf("\n kind %d, %d ns, below %s\n", s.Kind,
			s.End_ns-s.Begin_ns, spanLine(spans[s.TraceID+s.ParentSpanID]))
		var links []string
		for _, l := range s.Links {
			links = append(links, " after "+spanLine(spans[l.TraceID+l.SpanID])+"\n")
		}
		slices.Sort(links)
		text += strings.Join(links, "")
		for _, name := range []string{"service.name", "service.namespace", "service.instance.id",
			"host.name"} {
			text += " " + name + " " + s.resource[name]
		}
		for _, name := range []string{"from_node", "to_node", "scenario", "verdict", "bound_cycles",
			"from_lo_cycles", "from_hi_cycles", "to_lo_cycles", "to_hi_cycles", "from_channel",
			"to_channel", "seconds", "utc_bound_ns"} {
			text += "\n " + name + " " + s.about["cloudprofiler."+name]
		}
		got[text+"\n peer "+s.about["peer.service"]]++
		if kept := s.resource["cloudprofiler.kept"]; kept != "all" {
			t.Fatalf("the resource says that %q is kept, and the run is whole", kept)
		}
		if s.resource["cloudprofiler.run"] != "forked" ||
			s.resource["cloudprofiler.reference_node"] != "B" {
			t.Fatalf("resource %v", s.resource)
		}
	}
	joins := 0
	for _, d := range told.allDurations() {
		var root *analysis.DurationRow
		var links []string
		follow := func(e *analysis.DurationRow) { links = append(links, " after "+line(e)+"\n") }
		if d.Tuple != 0 {
			for _, e := range byTuple[d.Tuple] {
				if e.Kind == "end-to-end" && e.Whole {
					root = e
				} else if e.Kind != "end-to-end" && e.To == d.From && d.Kind != "end-to-end" {
					follow(e)
				}
			}
		}
		if len(links) > 1 {
			joins++
		}
		// If the tuple was made of others, its root has links to their roots. Without a root, the
		// spans that follow no other span have these links.
		if d.Tuple != 0 && (d.Kind == "end-to-end" && d.Whole || root == nil && len(links) == 0) {
			for _, id := range told.parents[d.ID] {
				links = append(links, " after "+rootOf(told, byTuple, id, line)+"\n")
			}
		}
		below, kind, peer := "none", 1, ""
		if root != nil && !(d.Kind == "end-to-end" && d.Whole) {
			below = line(root)
		}
		from, to := told.events[d.Tuple][d.From], told.events[d.Tuple][d.To]
		resource := " service.name forked service.namespace  service.instance.id  host.name "
		if d.Tuple == 0 {
			from.At, to.At, from.Channel, to.Channel = d.Ends[0], d.Ends[1], d.From, d.To
		} else if d.Kind != "end-to-end" {
			operator, _, _ := strings.Cut(d.From, "/")
			resource = fmt.Sprintf(" service.name %s service.namespace forked service.instance.id "+
				"%s host.name %s", operator, instance(from), from.Node)
			if from.Node != to.Node || instance(from) != instance(to) {
				kind = 4
				peer, _, _ = strings.Cut(d.To, "/")
			}
		}
		slices.Sort(links)
		earliest, latest, _ := told.clock.UTC(from.At)
		begun := told.clock.At_ns(from.At)
		text := line(&d) + fmt.Sprintf("\n kind %d, %d ns, below %s\n", kind,
			max(nsOf(d.Lo, d.Hi, told.answer.Reference), 0), below) + strings.Join(links, "") +
			resource
		for _, pair := range [][2]string{{"from_node", d.FromNode}, {"to_node", d.ToNode},
			{"scenario", d.Scenario.String()}, {"verdict", d.Verdict.String()},
			{"bound_cycles", fmt.Sprint((d.Hi - d.Lo + 1) / 2)},
			{"from_lo_cycles", u(from.At.Lo)}, {"from_hi_cycles", u(from.At.Hi)},
			{"to_lo_cycles", u(to.At.Lo)}, {"to_hi_cycles", u(to.At.Hi)},
			{"from_channel", from.Channel}, {"to_channel", to.Channel},
			{"seconds", told.answer.Reference.Seconds(analysis.Interval{Lo_cycles: d.Lo,
				Hi_cycles: d.Hi})},
			{"utc_bound_ns", fmt.Sprint(max(begun-earliest, latest-begun))}} {
			text += "\n " + pair[0] + " " + pair[1]
		}
		want[text+"\n peer "+peer]++
	}
	wrong := 0
	for k, n := range want {
		if got[k] != n {
			if wrong++; wrong < 4 {
				t.Errorf("%d spans, want %d:\n%s", got[k], n, k)
			}
		}
	}
	if len(got) != len(want) || wrong > 0 || joins == 0 || len(told.parents) == 0 {
		t.Errorf("%d of %d spans are wrong, %d are there; %d joins", wrong, len(want), len(got),
			joins)
	}
}

// rootOf takes the tuple that has an event with the id. If there are several such tuples, it takes
// the one with the lowest number. It calls the function line with the end-to-end duration of this
// tuple, and returns the result. If there is no such duration, it returns "none".
func rootOf(told *toldRows, byTuple map[uint64][]*analysis.DurationRow, id uint64,
	line func(*analysis.DurationRow) string) string {
	first, found := uint64(0), "none"
	for tuple, events := range told.events {
		for _, e := range events {
			if e.ID == id && (first == 0 || tuple < first) {
				first = tuple
			}
		}
	}
	for _, d := range byTuple[first] {
		if d.Kind == "end-to-end" && d.Whole {
			found = line(d)
		}
	}
	return found
}

// Times are UTC to within the stated bound. The simulation's clock shows 0 at time 0.
func TestOTLPTimes(t *testing.T) {
	rng := seed.Random(t)
	nodes := simrun.Nodes(rng, 3)
	channels := []simrun.Channel{{Node: 0, Name: "a/send"}, {Node: 2, Name: "b/recv"}}
	begun := map[string]uint64{} // true cycles
	for id := range uint64(50) {
		at := simrun.Hz + rng.Uint64N(5*simrun.Hz)
		begun[fmt.Sprint(id)] = at
		for i := range channels {
			channels[i].Records = append(channels[i].Records, simrun.Record{
				Time: at + uint64(i)*(100_000+rng.Uint64N(1000)), ID: id})
		}
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(parent + "/r")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, reference := range []string{"A", "C", "B"} {
		_, _, spans := exportRequests(t, dir, analysis.Options{Reference: reference})
		if len(spans) != 2*len(begun) {
			t.Fatalf("%d spans", len(spans))
		}
		least := int64(1) << 60
		for _, s := range spans {
			true_ns := int64(float64(begun[s.about["cloudprofiler.tuple_id"]]) / simrun.Hz * 1e9)
			bound, err := strconv.ParseInt(s.about["cloudprofiler.utc_bound_ns"], 10, 64)
			least = min(least, s.Begin_ns)
			if reference == "B" { // B has no log: nothing relates its counter to UTC
				if err == nil || !strings.Contains(s.resource["cloudprofiler.utc"], "not known") {
					t.Fatalf("it claims to know UTC: %v, %v", s.about, s.resource)
				}
				continue
			}
			if err != nil || s.Begin_ns-bound > true_ns || true_ns > s.Begin_ns+bound ||
				bound > true_ns/500 {
				t.Errorf("reference %s: %d ± %d ns, the truth is %d", reference, s.Begin_ns, bound,
					true_ns)
			}
		}
		if reference == "B" && (least < 0 || least > 10_000_000) {
			t.Errorf("without UTC the first span begins %d ns after the run", least)
		}
	}
}

// A trace has the same ids in every export.
func TestOTLPIsTheSameAgain(t *testing.T) {
	dir, told := forkedRun(t, 400, analysis.Options{Reference: "B", Slowest: 20})
	requested, _, all := exportRequests(t, dir, analysis.Options{Reference: "B"})
	again, _, _ := exportRequests(t, dir, analysis.Options{Reference: "B"})
	if !slices.Equal(requested, again) || len(again) < 3 {
		t.Errorf("two exports differ, or have few requests: %d, %d", len(requested), len(again))
	}
	shown := 0
	_, says, some := exportRequests(t, dir, analysis.Options{Reference: "B", Slowest: 20,
		Progress: func(_ float64, what string) {
			if what == "writing spans" {
				shown++
			}
		}})
	roots := map[string]bool{}
	for id, s := range some {
		if same := all[id]; same == nil || cmp.Or(cmp.Compare(same.Name, s.Name),
			cmp.Compare(same.Begin_ns, s.Begin_ns), cmp.Compare(same.End_ns, s.End_ns)) != 0 {
			t.Fatalf("span %+v was %+v", s, all[id])
		}
		if s.about["cloudprofiler.kind"] == "end-to-end" && s.ParentSpanID == "" {
			roots[s.about["cloudprofiler.tuple_id"]+" "+s.about["cloudprofiler.lo_cycles"]] = true
		}
	}
	for _, s := range told.answer.Slowest {
		if !roots[fmt.Sprint(uint64(s.ID), " ", s.Total.Lo_cycles)] {
			t.Errorf("tuple %d is missing from the slowest", s.ID)
		}
	}
	for _, s := range some {
		if id := s.about["cloudprofiler.tuple_id"]; !strings.Contains(
			strings.Join(slices.Collect(maps.Keys(roots)), "\n"), id+" ") {
			t.Errorf("a span is of tuple %s, which is not among the slowest", id)
		}
	}
	want := fmt.Sprintf("of %d tuples, the 20 slowest, and the 20 slowest of those that were made "+
		"of others", told.answer.Work.Tuples)
	if len(roots) != 40 || says.Tuples != want || shown != 40 {
		t.Errorf("%d roots, %q; want %q; progress of %d", len(roots), says.Tuples, want, shown)
	}
}

// If a tuple was made of many tuples, the number of its links to them is limited. An error of the
// writer ends the export.
func TestOTLPLimits(t *testing.T) {
	rng := seed.Random(t)
	channels := []simrun.Channel{{Name: "a/send"}, {Name: "b/recv"}, {Name: "c/send"},
		{Name: "d/recv"}, {Name: "c/link", Handler: "link"}}
	at := uint64(simrun.Hz)
	for id := range uint64(mostLinks + 5) {
		for i := range 2 {
			at += 1000
			channels[i].Records = append(channels[i].Records, simrun.Record{Time: at, ID: id + 1})
		}
		channels[4].Records = append(channels[4].Records,
			simrun.Record{ID: id + 1, Child: 1 << 40, IsLink: true})
	}
	for i := 2; i < 4; i++ {
		at += 1000
		channels[i].Records = append(channels[i].Records, simrun.Record{Time: at, ID: 1 << 40})
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "r", simrun.Nodes(rng, 1), channels); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(parent + "/r")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_, _, spans := exportRequests(t, dir, analysis.Options{})
	found, origins := 0, 0
	for _, s := range spans {
		if s.about["cloudprofiler.tuple_id"] != fmt.Sprint(1<<40) {
			continue
		}
		switch s.about["cloudprofiler.kind"] {
		case "end-to-end":
			found++
			if len(s.Links) != mostLinks || s.DroppedLinks != 5 {
				t.Errorf("%d links, and %d too many", len(s.Links), s.DroppedLinks)
			}
		case "end-to-end, earliest", "end-to-end, latest":
			origins++
		}
	}
	if found != 1 || origins != 2 {
		t.Errorf("%d roots and %d origins of the tuple made of others", found, origins)
	}
	full := errors.New("the disk is full")
	if _, _, err := OTLP(t.Context(), dir, analysis.Options{},
		func([]byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("the writer's error became %v", err)
	}
}
