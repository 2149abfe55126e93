package analysis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/returntrip"
)

func TestReceivedBeforeSentIsFound(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3, 4}, []uint64{1, 2, 3, 4})
	channels[1].Records[2].Time = simrun.Hz / 2 // tuple 3 arrives long before it is sent
	a := analyze(t, write(t, channels...), Options{Edges: [][2]string{{"a/recv", "b/recv"}}})
	if l := a.Spans[0].All; l.After != 1 || l.Before != 3 ||
		!mentions(a, "tuple 3 was at a/recv on A surely after it was at b/recv") || !a.Partial {
		t.Errorf("%+v, findings %v", l, a.Findings)
	}
}

// If many tuples were received before they were sent, the answer always names the same ones. It
// matters neither which worker finds them, nor in what order.
func TestBackwardsAreTheSame(t *testing.T) {
	const tuples = 40
	ids := make([]uint64, tuples)
	for i := range ids {
		ids[i] = uint64(tuples-i) << pageBits
	}
	channels := channelsOf(ids, ids)
	for i := range channels[1].Records {
		channels[1].Records[i].Time -= simrun.Hz / 2
	}
	dir := write(t, channels...)
	for _, o := range []Options{{Workers: 1}, {Workers: 3}, {Durations: func(DurationRow) error {
		return nil
	}}, {Workers: 2, partitions: 1}} {
		o.Edges, o.OnlyEdges = [][2]string{{"a/recv", "b/recv"}}, true
		a := analyze(t, dir, o)
		for id := range uint64(maxBackwards + 1) {
			named := fmt.Sprintf("tuple %d was at a/recv on A surely after", (id+1)<<pageBits)
			if mentions(a, named) != (id < maxBackwards) {
				t.Errorf("%d workers: findings %v", o.Workers, a.Findings)
			}
		}
	}
}

func TestDisorderAsRFC4737(t *testing.T) {
	// The variable other is an id of another origin than the ids 1 to 6. The ids other and other+1
	// are in order. A copy has the same id as its original, and is late only if a greater id came
	// before it.
	other := uint64(7) << originShift
	a := analyze(t, write(t,
		channelsOf([]uint64{1, 2, 3, 4, 5, 6},
			[]uint64{1, 1, 4, other, 2, 3, other + 1, 5, 5, 6})...), Options{})
	for _, p := range a.Points {
		want := map[string]uint64{"a/recv": 0, "b/recv": 2}[p.Name]
		if p.Disordered != want {
			t.Errorf("%d late at %s, want %d", p.Disordered, p.Name, want)
		}
	}
}

// Several writers may log events of one channel. The order of the ids is checked separately for
// each writer. If ids have very many origins, a finding says that their order was not checked.
func TestDisorderOfManyWritersAndOrigins(t *testing.T) {
	rng := seed.Random(t)
	nodes, parent := simrun.Nodes(rng, 2), t.TempDir()
	d, err := simrun.Begin(rng, parent, "many", nodes, simrun.Hz, 3*simrun.Hz)
	if err != nil {
		t.Fatal(err)
	}
	l, err := simrun.OpenLog(d, &nodes[0], "a/recv", "", 0)
	if err != nil {
		t.Fatal(err)
	}
	at := nodes[0].Reading(2 * simrun.Hz)
	for shard, ids := range [][]uint64{{5, 6, 7}, {1, 3, 2}} {
		b := logstore.Block{Shard: shard}
		for _, id := range ids {
			b.Events = append(b.Events, logstore.Event{Counter: at, ID: id})
		}
		if err := l.Append(b); err != nil {
			t.Fatal(err)
		}
	}
	m, err := simrun.OpenLog(d, &nodes[1], "b/recv", "", 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(maxOrigins + 10) {
		if err := m.Event(2*simrun.Hz+i, i<<originShift); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.Seal(), m.Seal()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	a := analyze(t, openRun(t, parent, "many"), Options{})
	if a.Points[0].Disordered != 1 || a.Points[1].Disordered != 0 {
		t.Errorf("%d late of two writers, %d of many origins", a.Points[0].Disordered,
			a.Points[1].Disordered)
	}
	if !mentions(a, "the ids at b/recv are of more than") ||
		mentions(a, "the ids at a/recv are of more than") {
		t.Errorf("findings %v", a.Findings)
	}
}

// Events that do not fit into memory go to the scratch file. If they need more than the file's
// limit, an error says so. The file is deleted in any case.
func TestScratchIsBounded(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(5, parent, "big", 2, 200_000, 1_000_000); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "big")
	scratch := t.TempDir()
	a := analyze(t, dir, Options{Memory_bytes: 1 << 20, Scratch: scratch})
	if a.Work.Scratch_bytes < 200_000*2*16/2 || a.Spans[0].All.Count != 200_000 {
		t.Errorf("%d bytes of scratch, %d durations", a.Work.Scratch_bytes, a.Spans[0].All.Count)
	}
	_, err := Run(context.Background(), dir, Options{
		Memory_bytes: 1 << 20, Scratch: scratch, Scratch_bytes: 1 << 20,
	})
	if !errors.Is(err, ErrScratch) || !strings.Contains(err.Error(), "1048576 bytes") {
		t.Error(err)
	}
	if left, _ := os.ReadDir(scratch); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	stopped := errors.New("stopped by a signal")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(stopped)
	// The error appears once, although it ended several workers.
	if _, err := Run(cancelled, dir, Options{Workers: 2}); !errors.Is(err, stopped) ||
		strings.Count(err.Error(), stopped.Error()) != 1 {
		t.Error(err)
	}
}

func TestRunLengthAndCounters(t *testing.T) {
	rng := seed.Random(t)
	nodes := simrun.Nodes(rng, 2)
	parent := t.TempDir()
	d, err := simrun.Begin(rng, parent, "length", nodes, simrun.Hz, 12*simrun.Hz)
	if err != nil {
		t.Fatal(err)
	}
	// Two sources and a sink: the first tuple is at 2 s, and the last poison (the end of a stream)
	// is at 10 s.
	for i, c := range []struct {
		node                int
		name                string
		first, last, poison uint64
	}{{0, "s#0/send", 2, 8, 0}, {1, "s#1/send", 3, 9, 0}, {0, "t#0/recv", 4, 9, 9},
		{1, "t#1/recv", 4, 9, 10}} {
		l, err := simrun.OpenLog(d, &nodes[c.node], c.name, "first-last", i)
		if err != nil {
			t.Fatal(err)
		}
		at := func(s uint64) uint64 {
			if s == 0 {
				return 0
			}
			return nodes[c.node].Reading(s * simrun.Hz)
		}
		row := logstore.FirstLast{
			Count: 5, FirstCounter: at(c.first), FirstID: 1, LastCounter: at(c.last), LastID: 5,
			Poison: at(c.poison),
		}
		early := row // while the run lasts, the log keeps what is known so far
		early.Count, early.LastCounter, early.Poison = 1, row.FirstCounter, 0
		if err := errors.Join(l.Append(logstore.Block{FirstLasts: []logstore.FirstLast{early}}),
			l.Append(logstore.Block{FirstLasts: []logstore.FirstLast{row}}), l.Seal()); err != nil {
			t.Fatal(err)
		}
	}
	l, err := simrun.OpenLog(d, &nodes[1], "n/recv", "counter", 9)
	if err != nil {
		t.Fatal(err)
	}
	samples := []logstore.Sample{
		{Counter: nodes[1].Reading(2 * simrun.Hz), Count: 10},
		{Counter: nodes[1].Reading(3 * simrun.Hz), Count: 110},
		{Counter: nodes[1].Reading(5 * simrun.Hz), Count: 120},
	}
	if err := errors.Join(l.Append(logstore.Block{Samples: samples[:2]}),
		l.Append(logstore.Block{Samples: samples[2:]}), l.Seal()); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	a := analyze(t, openRun(t, parent, "length"), Options{Reference: "A"})
	truth := func(from, to uint64) int64 {
		return int64(nodes[0].Reading(to*simrun.Hz) - nodes[0].Reading(from*simrun.Hz))
	}
	holds := func(i Interval, truth int64) bool {
		return i.Lo_cycles <= truth+1 && truth-1 <= i.Hi_cycles && i.Hi_cycles-i.Lo_cycles < 200_000
	}
	if a.Length == nil || !holds(a.Length.Interval, truth(2, 10)) || !a.Length.Poison ||
		a.Length.Tuples != 10 || a.Length.To != "t#1/recv on B" {
		t.Errorf("run length %+v, want %d cycles", a.Length, truth(2, 10))
	}
	if len(a.Counters) != 1 || a.Counters[0].Total != 120 || len(a.Counters[0].Periods) != 2 {
		t.Fatalf("counters %+v", a.Counters)
	}
	for i, want := range []Period{{Count: 100}, {Count: 10}} {
		p := a.Counters[0].Periods[i]
		if p.Count != want.Count || !holds(p.Length, []int64{truth(2, 3), truth(3, 5)}[i]) {
			t.Errorf("period %d: %+v", i, p)
		}
		if off := int64(uint64(p.From_cycles) - nodes[0].Reading(uint64(2+i)*simrun.Hz)); max(off,
			-off) > 100_000 {
			t.Errorf("period %d begins %d cycles from where it does", i, off)
		}
	}
}

func TestPointsAreThoseOfChannels(t *testing.T) {
	for i, p := range []string{channel.PointRecv, channel.PointStart, channel.PointEnd,
		channel.PointSend} {
		if pointOrder[p] != i+1 {
			t.Errorf("point %q is number %d", p, pointOrder[p])
		}
	}
	if len(pointOrder) != 4 || poison != channel.Poison {
		t.Error("the analysis has points, or a poison, of its own")
	}
	for e, p := range []string{tripSent: returntrip.PointSent, tripArrived: returntrip.PointArrived,
		tripAcknowledged: returntrip.PointAcknowledged, tripEchoed: returntrip.PointEchoed} {
		if tripPoints[p] != tripEvent(e) {
			t.Errorf("return trips have a point %q", p)
		}
	}
}

func TestAnswerAsJSON(t *testing.T) {
	_, dir := smallRun(t)
	a := analyze(t, dir, Options{})
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var back Answer
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("it is not read back as it was, %v", err)
	}
	if !bytes.Contains(text, []byte(`"reading":"`)) ||
		!bytes.Contains(text, []byte(`"id":"1125899`)) {
		t.Error("readings and ids are not strings")
	}
	if !bytes.Contains(text, []byte(`"percent":99.999,`)) ||
		!bytes.Contains(text, []byte(`"percent":1,`)) {
		t.Error("percentiles do not go from 1 to 99.999")
	}
}
