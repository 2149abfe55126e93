package explore

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// truePause is a pause in true cycles.
type truePause struct{ begin, end uint64 }

// pausingJob is a job with three JVMs: two workers on node B, and a sink on node C. Its source is
// on node A and is no JVM. pauses contains the pauses of each JVM. passed contains the moments at
// which each tuple passed the stages.
type pausingJob struct {
	nodes  []simrun.Node
	pauses [3][]truePause
	passed map[uint64][]uint64
	worker map[uint64]int
}

// pausingRun writes a run of the job.
func pausingRun(rng *rand.Rand, parent, name string, tuples int) (*pausingJob, error) {
	p := &pausingJob{nodes: simrun.Nodes(rng, 3), passed: map[uint64][]uint64{},
		worker: map[uint64]int{}}
	const begin = 2 * uint64(simrun.Hz)
	end := begin + uint64(tuples)*120_000
	channels := []simrun.Channel{{Node: 0, Name: "source/send", Process: 9},
		{Node: 1, Name: "worker#0/start", Process: 100},
		{Node: 1, Name: "worker#0/end", Process: 100},
		{Node: 1, Name: "worker#1/start", Process: 101},
		{Node: 1, Name: "worker#1/end", Process: 101},
		{Node: 2, Name: "sink/recv", Process: 102}}
	for k, name := range []string{"jvm-100", "jvm-101", "jvm-102"} {
		c := simrun.Channel{Node: 1 + k/2, Name: name + "/jvm-pauses", Process: 100 + k}
		number := uint64(0)
		for at := begin - simrun.Hz/2 + rng.Uint64N(1e6); at < end+simrun.Hz/2; number++ {
			length := 1 + rng.Uint64N(1<<(12+rng.UintN(14)))
			p.pauses[k] = append(p.pauses[k], truePause{at, at + length})
			for moment, t := range []uint64{at, at + length/3, at + length} {
				bound := rng.Uint64N(3000)
				c.Records = append(c.Records, simrun.Record{
					Time: t + rng.Uint64N(2*bound+1)*99/100 - bound*99/100,
					ID:   number<<32 | (bound+2)<<16 | uint64(moment)<<8 | (1 + number%3)})
			}
			at += length + 1e6 + rng.Uint64N(60e6)
		}
		channels = append(channels, c)
	}
	// go_on returns the given moment or, if the moment lies in a pause of the JVM, the end of this
	// pause. If jvm is −1, the program is no JVM.
	go_on := func(jvm int, at uint64) uint64 {
		if jvm >= 0 {
			for _, pause := range p.pauses[jvm] {
				if pause.begin <= at && at < pause.end {
					return pause.end + rng.Uint64N(100)
				}
			}
		}
		return at
	}
	for i := range uint64(tuples) {
		id, at, worker := i+1, begin+i*120_000+rng.Uint64N(50_000), rng.IntN(2)
		p.worker[id] = worker
		for _, stage := range []struct{ channel, jvm int }{{0, -1}, {1 + 2*worker, worker},
			{2 + 2*worker, worker}, {5, 2}} {
			at = go_on(stage.jvm, at+8_000+rng.Uint64N(1<<rng.UintN(18)))
			c := &channels[stage.channel]
			c.Records = append(c.Records, simrun.Record{Time: at, ID: id})
			p.passed[id] = append(p.passed[id], at)
		}
	}
	for i := range channels[:6] {
		simrun.InOrder(channels[i].Records)
	}
	return p, simrun.Write(rng, parent, name, p.nodes, channels)
}

// truePaused is how much of the time between two moments lay in pauses of some JVMs.
func (p *pausingJob) truePaused(node *simrun.Node, from, to uint64, jvms ...int) (cycles int64) {
	var all []truePause
	for _, k := range jvms {
		all = append(all, p.pauses[k]...)
	}
	slices.SortFunc(all, func(a, b truePause) int { return int(int64(a.begin - b.begin)) })
	for _, pause := range all {
		if begin, end := max(pause.begin, from), min(pause.end, to); begin < end {
			cycles += int64(node.Reading(end) - node.Reading(begin))
			from = end
		}
	}
	return cycles
}

func contains(lo, hi, truth, rounding int64) bool {
	return lo-rounding <= truth && truth <= hi+rounding
}

// The answers contain the truth: the pauses of a range, the pauses on a tuple's path, and how much
// of the tuple's time lay in them.
func TestPausesHaveTheTruth(t *testing.T) {
	rng, parent := seed.Random(t), t.TempDir()
	p, err := pausingRun(rng, parent, "pausing", 3000)
	if err != nil {
		t.Fatal(err)
	}
	x := preparedIndex(t, filepath.Join(parent, "pausing"), analysis.Options{Reference: "A"})
	node := &p.nodes[0]
	since := func(true_cycles uint64) int64 { return int64(node.Reading(true_cycles) - x.zero()) }
	if off := since(p.passed[1][0]); off < 0 || off > 100_000 {
		t.Errorf("the run begins %d cycles before its first tuple", off)
	}
	if len(x.Meta.JVMs) != 3 || x.Meta.Spans[0].Pauses == "" {
		t.Fatalf("%+v, %q", x.Meta.JVMs, x.Meta.Spans[0].Pauses)
	}
	for _, l := range x.Meta.Lanes {
		want := map[string][]int{"source": {}, "worker#0": {0}, "worker#1": {1}, "sink": {2}}
		if !slices.Equal(l.JVMs, want[l.Instance]) {
			t.Errorf("%s has the JVMs %v", l.Instance, l.JVMs)
		}
	}
	for range 30 {
		r := x.randomPart(rng)
		all, err := x.Pauses([]int{0, 1, 2}, r)
		if err != nil {
			t.Fatal(err)
		}
		for k, of := range all {
			if !of.Whole {
				t.Fatalf("%d pauses are not all", len(of.Rows))
			}
			for _, pause := range p.pauses[k] {
				begin, end := since(pause.begin), since(pause.end)
				if end < int64(r.From-x.zero()) || begin > int64(r.To-x.zero()) {
					continue
				}
				if !slices.ContainsFunc(of.Rows, func(got Pause) bool {
					return contains(got.Begin.Lo_cycles, got.Begin.Hi_cycles, begin, 1) &&
						contains(got.End.Lo_cycles, got.End.Hi_cycles, end, 1) &&
						contains(got.Length.Lo_cycles, got.Length.Hi_cycles, end-begin, 1)
				}) {
					t.Errorf("no pause of JVM %d from %d to %d", k, begin, end)
				}
			}
		}
	}
	met := 0
	for id, passed := range p.passed {
		found, _, err := x.Find(id)
		if err != nil || len(found) != 1 || len(found[0].Steps) != 3 {
			t.Fatalf("tuple %d: %+v, %v", id, found, err)
		}
		got, worker := found[0], p.worker[id]
		truth := p.truePaused(node, passed[0], passed[1], worker) +
			p.truePaused(node, passed[1], passed[2], worker) +
			p.truePaused(node, passed[2], passed[3], worker, 2)
		if !got.Paused_known || !contains(got.Paused.Lo_cycles, got.Paused.Hi_cycles, truth, 6) {
			t.Errorf("tuple %d: %d cycles in pauses are not in %+v", id, truth, got.Paused)
		}
		for k, steps := range map[int][]int{worker: {0, 1, 2}, 2: {2}} {
			for _, pause := range p.pauses[k] {
				if pause.end < passed[0] || pause.begin > passed[3] {
					continue
				}
				met++
				zero := since(passed[0])
				begin, end := since(pause.begin)-zero, since(pause.end)-zero
				if !slices.ContainsFunc(got.Pauses, func(of Pause) bool {
					return contains(of.Begin.Lo_cycles, of.Begin.Hi_cycles, begin, 2) &&
						contains(of.End.Lo_cycles, of.End.Hi_cycles, end, 2) &&
						slices.Equal(of.Steps, steps)
				}) {
					t.Errorf("tuple %d lacks a pause of JVM %d: %+v", id, k, got.Pauses)
				}
			}
		}
	}
	if met < 20 {
		t.Errorf("only %d tuples met a pause: too few to test", met)
	}
}
