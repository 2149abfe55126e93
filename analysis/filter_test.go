package analysis

import (
	"context"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func TestFilters(t *testing.T) {
	_, dir := smallRun(t)
	all := analyze(t, dir, Options{})
	first := all.Slowest[0].Passed[0]
	for name, test := range map[string]struct {
		filter Filter
		tuples uint64
		spans  int
	}{
		"ids": {Filter{
			IDs: [][2]uint64{{1<<50 | 10, 1<<50 | 19}, {1<<50 | 30, 1<<50 | 30}}}, 11, 1},
		"node":      {Filter{Nodes: []string{"B"}}, 1000, 0},
		"channel":   {Filter{Channels: []string{"stage0/*"}}, 1000, 0},
		"both":      {Filter{Nodes: []string{"B"}, Channels: []string{"stage0/*"}}, 0, 0},
		"time":      {Filter{From_cycles: 1, To_cycles: 2}, 0, 0},
		"open time": {Filter{To_cycles: ^uint64(0)}, 1000, 1},
		"one instant": {Filter{From_cycles: uint64(first.Reading),
			To_cycles: uint64(first.Reading)}, 1, 1},
	} {
		a := analyze(t, dir, Options{Filter: test.filter, Reference: first.Node})
		if a.Work.Tuples != test.tuples || len(a.Spans) != test.spans {
			t.Errorf("%s: %d tuples and %d spans, want %d and %d", name, a.Work.Tuples,
				len(a.Spans), test.tuples, test.spans)
		}
	}
	for name, o := range map[string]Options{
		"reference": {Reference: "nobody"}, "pattern": {Filter: Filter{Channels: []string{"["}}},
		"ids":  {Filter: Filter{IDs: [][2]uint64{{2, 1}}}},
		"edge": {Edges: [][2]string{{"a", "b"}}},
		"circle": {Edges: [][2]string{{"stage0/recv", "stage1/recv"},
			{"stage1/recv", "stage0/recv"}}}, "memory": {Memory_bytes: 1},
	} {
		if _, err := Run(context.Background(), dir, o); err == nil {
			t.Errorf("bad %s was taken", name)
		}
	}
}

// The poison that ends a stream is counted, no matter which of the stream's tuples are chosen.
func TestPoisonIsCountedWhateverIsChosen(t *testing.T) {
	dir := write(t, channelsOf([]uint64{1, 2, 3, poison}, []uint64{1, poison - 1, poison, 2, 3})...)
	for name, test := range map[string]struct {
		filter Filter
		events uint64
	}{
		"all": {Filter{}, 7}, "one": {Filter{IDs: [][2]uint64{{2, 2}}}, 2},
		"none":             {Filter{IDs: [][2]uint64{{7, 7}}}, 0},
		"the id before it": {Filter{IDs: [][2]uint64{{poison - 1, poison}}}, 1},
	} {
		var poisons, events uint64
		a := analyze(t, dir, Options{Filter: test.filter})
		for _, c := range a.Channels {
			poisons += c.Poison
		}
		for _, p := range a.Points {
			events += p.Tuples
		}
		if poisons != 2 || events != test.events {
			t.Errorf("%s: %d poisons and %d events, want 2 and %d", name, poisons, events,
				test.events)
		}
	}
}

// A filter by UTC converts its times by the stamp of UTC in the reference's own logs, and rounds
// outward.
func TestFilterByUTC(t *testing.T) {
	_, dir := smallRun(t)
	const s = 1_000_000_000 // the simulation's counters begin in 1970; its tuples at 2 s
	for name, test := range map[string]struct{ from, to, least, most int64 }{
		"all": {0, 100 * s, 1000, 1000}, "none": {50 * s, 100 * s, 0, 0},
		"the first half": {0, 2*s + s/20, 400, 600},
	} {
		a := analyze(t, dir, Options{Filter: Filter{From_utc_ns: test.from, To_utc_ns: test.to}})
		if n := int64(a.Work.Tuples); n < test.least || n > test.most {
			t.Errorf("%s: %d tuples", name, n)
		}
		// The reference's stamp of UTC is read even if the filter chooses nothing of that node.
		other := analyze(t, dir, Options{
			Reference: "A",
			Filter:    Filter{Nodes: []string{"B"}, From_utc_ns: test.from, To_utc_ns: test.to},
		})
		if n := int64(other.Work.Tuples); n < test.least || n > test.most {
			t.Errorf("%s, of the other node: %d tuples", name, n)
		}
	}
}

// Times in UTC are converted to the widest possible range of cycles. Three things widen the range:
// the ends of the stamp, the ends of the frequency, and how far a reading may be off.
func TestUTCIsWidenedOutward(t *testing.T) {
	const counter = 1_000_000
	for name, test := range map[string]struct {
		from_ns, to_ns int64
		lo, hi         int64 // expected ends, relative to the counter
	}{
		"after the stamp": {1000, 3000, 1000 - 200, 2 * (3000 - 100)},
		"around it":       {0, 300, -2 * 200, 2 * (300 - 100)},
		"before it":       {0, 50, -2 * 200, -(100 - 50)},
	} {
		for _, stamp := range []channel.Stamp{channel.Ordered, channel.Unordered} {
			in := &input{
				run: &runs.Directory{},
				nodes: []nodeInput{
					{
						Node:      runs.Node{FrequencyLo_hz: 1e9, FrequencyHi_hz: 2e9},
						described: tscratio.Node{Quantum_cycles: 26, CoreSlack_cycles: 4},
					},
				},
				sources: []source{
					{
						header: logstore.Header{
							Counter: counter, UTCLo_ns: 100, UTCHi_ns: 200, Stamp: stamp,
						},
					},
				},
				options: Options{Filter: Filter{From_utc_ns: test.from_ns, To_utc_ns: test.to_ns}},
			}
			if err := in.resolveFilter(); err != nil {
				t.Fatal(err)
			}
			f, e := in.options.Filter, 26+4+int64(stamp.OrderingSlack_cycles())
			if lo, hi := int64(f.From_cycles)-counter,
				int64(f.To_cycles)-counter; lo != test.lo-e || hi != test.hi+e {
				t.Errorf("%s: from %d to %d cycles after the stamp, want %d to %d", name, lo, hi,
					test.lo-e, test.hi+e)
			}
		}
	}
}
