package analysis

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// Unless a reference is named, it is the node that is related to the most other nodes. If there are
// several such nodes, it is the one with the smallest median bound to the other nodes.
func TestReferenceIsTheNodeOfSmallestBounds(t *testing.T) {
	rng := seed.Random(t)
	for _, near := range []int{0, 1, 2} { // number of the node that is near to both others
		nodes := simrun.Nodes(rng, 3)
		var channels []simrun.Channel
		for i := range nodes {
			channels = append(channels, simrun.Channel{
				Node: i, Name: strings.ToLower(nodes[i].Name) + "/recv",
				Records: []simrun.Record{{Time: simrun.Hz, ID: 1}},
			})
		}
		parent := t.TempDir()
		if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
			t.Fatal(err)
		}
		x, y := min((near+1)%3, (near+2)%3), max((near+1)%3, (near+2)%3)
		moveApart(t, filepath.Join(parent, "r"), &nodes[x], &nodes[y])
		dir := openRun(t, parent, "r")
		if a := analyze(t, dir, Options{}); a.Reference.Node != nodes[near].Name ||
			!a.Reference.Chosen {
			t.Errorf("%s is near to both others, and the reference is %+v", nodes[near].Name,
				a.Reference)
		}
		if a := analyze(
			t, dir, Options{Reference: nodes[x].Name}); a.Reference.Node != nodes[x].Name ||
			a.Reference.Chosen {
			t.Errorf("%s was named, and the reference is %+v", nodes[x].Name, a.Reference)
		}
		dir.Run.Reference = nodes[y].Name
		if a := analyze(t, dir, Options{}); a.Reference.Node != nodes[y].Name ||
			a.Reference.Chosen {
			t.Errorf("the run names %s, and the reference is %+v", nodes[y].Name, a.Reference)
		}
	}
}

// An unordered stamp (channel.Unordered) may be early or late. So each interval that depends on
// such a stamp is wider: the duration on one node or between two, and the place of an event.
func TestStampsThatOrderNothing(t *testing.T) {
	_, dir := smallRun(t)
	in, err := openInput(dir, Options{Reference: "A"})
	if err != nil {
		t.Fatal(err)
	}
	ordered := newTimer(in)
	if in.newGatherer(&graph{}, nil).single {
		t.Error("stamps that are ordered are measured one by one")
	}
	in.sources[0].header.Stamp, in.sources[1].header.Stamp = channel.Unordered, channel.Unordered
	unordered := newTimer(in)
	if !in.newGatherer(&graph{}, nil).single {
		t.Error("stamps with a slack are measured together, which knows no slack")
	}
	const slack = channel.UnorderedSlack_cycles
	widened := func(by, stamps int64) bool {
		return by >= stamps*slack && by <= stamps*(slack*102/100+2)
	}
	for second := range in.sources {
		x, y := in.sources[0].lo, in.sources[second].lo
		a, errA := ordered.durationBetween(0, second, x, y)
		b, errB := unordered.durationBetween(0, second, x, y)
		if errA != nil || errB != nil || !widened(a.Lo-b.Lo, 2) || !widened(b.Hi-a.Hi, 2) {
			t.Errorf("a duration of %v is %v where stamps order nothing, %v, %v", a.Elapsed,
				b.Elapsed, errA, errB)
		}
		p, _, errA := ordered.placeEvent(second, y)
		q, _, errB := unordered.placeEvent(second, y)
		if errA != nil || errB != nil || !widened(int64(p.Lo-q.Lo), 1) ||
			!widened(int64(q.Hi-p.Hi), 1) {
			t.Errorf("what is at %v is at %v where stamps order nothing, %v, %v", p, q, errA, errB)
		}
	}
}
