package explore

import (
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// collidedRun writes a run in which tuples fork, and one of the branches ends at a sink of its own.
// One id in 15 begins again while the first tuple with this id is still on its way. Some events are
// lost, and some are repeated.
func collidedRun(rng *rand.Rand, parent, name string, tuples int) error {
	channels := []simrun.Channel{{Node: 0, Name: "source/send"}, {Node: 1, Name: "split/recv"},
		{Node: 1, Name: "split/send"}, {Node: 2, Name: "left/recv"}, {Node: 3, Name: "right/recv"},
		{Node: 2, Name: "left/send"}, {Node: 0, Name: "sink/recv"}, {Node: 3, Name: "audit/recv"}}
	log := func(channel int, at, id uint64) {
		copies := 1
		if n := rng.IntN(60); n < 2 {
			copies = 2 * n // the event is lost, or repeated
		}
		for k := range copies {
			channels[channel].Records = append(channels[channel].Records,
				simrun.Record{Time: at + uint64(k)*rng.Uint64N(1<<19), ID: id})
		}
	}
	now := uint64(simrun.Hz)
	for i := range tuples {
		id := uint64(i + 1)
		if rng.IntN(15) == 0 {
			id = max(id, 9) - rng.Uint64N(8)
		}
		now += rng.Uint64N(50_000)
		at := now
		step := func() uint64 {
			at += 20_000 + rng.Uint64N(1<<(4+rng.UintN(14)))
			return at
		}
		log(0, at, id)
		log(1, step(), id)
		log(2, step(), id)
		forked := at
		log(3, step(), id)
		log(5, step(), id)
		log(6, step(), id)
		at = forked
		log(4, step(), id)
		log(7, step(), id)
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	return simrun.Write(rng, parent, name, simrun.Nodes(rng, 4), channels)
}

// The lanes, the lists and the search agree with the analysis about how many tuples ended at a
// point. This holds even if ids collide, events are repeated, and paths fork.
func TestEndedAsInTheAnalysis(t *testing.T) {
	ended := regexp.MustCompile(`it ended at (\S+), which`)
	rng, parent, tuples := seed.Random(t), t.TempDir(), 4000
	if err := collidedRun(rng, parent, "collided", tuples); err != nil {
		t.Fatal(err)
	}
	x := preparedIndex(t, filepath.Join(parent, "collided"), analysis.Options{})
	lanes, listed, found := map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	for _, c := range x.Meta.Channels {
		lanes[x.Meta.Points[c.Point].Name] += c.Ended
	}
	for lane := range x.Meta.Lanes {
		for _, i := range x.allItems(t, &x.tracks[lane]) {
			if r := x.row(&i); r.Ended != "" {
				listed[r.Ended]++
			}
		}
	}
	for id := range uint64(tuples) + 1 {
		paths, more, err := x.Find(id)
		if err != nil || more {
			t.Fatalf("id %d: more %v, %v", id, more, err)
		}
		for _, p := range paths {
			for _, at := range ended.FindAllStringSubmatch(p.Why, -1) {
				found[at[1]]++
			}
		}
	}
	sum, perhaps := uint64(0), uint64(0)
	for _, p := range x.Meta.Points {
		want := p.Lost + p.Filtered + p.InFlight
		perhaps += p.Perhaps
		if lanes[p.Name] != want || listed[p.Name] != want || found[p.Name] != want {
			t.Errorf("the analysis says that %d tuples ended at %s, the lanes say %d, their rows "+
				"%d, and the search %d", want, p.Name, lanes[p.Name],
				listed[p.Name], found[p.Name])
		}
		sum += want
	}
	if perhaps == 0 {
		t.Error("no tuple perhaps ended: nothing to test")
	}
	if sum < uint64(tuples)/100 {
		t.Errorf("only %d tuples ended early: too few to test", sum)
	}
}

func TestPerhapsEndedIsNamed(t *testing.T) {
	p := Point{Name: "worker/end", Lost: 2, Perhaps: 7}
	if got, want := endedAt(&p), "it ended at worker/end, which is not the end of the path; of "+
		"all that ended there: 2 lost; up to 7 more may have ended there"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
