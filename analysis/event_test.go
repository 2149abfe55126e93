package analysis

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// An event's interval contains the moment at which the event truly happened. The difference of two
// events' intervals contains the duration between the events, even if their two nodes are related
// less precisely to each other than to the reference.
func TestEventsHoldDurations(t *testing.T) {
	seed.For(t, 3, func(t *testing.T, rng *rand.Rand) {
		nodes := simrun.Nodes(rng, 3)
		channels := []simrun.Channel{
			{Node: 0, Name: "a/send"}, {Node: 1, Name: "b/recv"}, {Node: 1, Name: "b/send"},
			{Node: 2, Name: "c/recv"}, {Node: 0, Name: "d/recv"},
		}
		times := map[string][]uint64{}
		for id := range uint64(50) {
			at := simrun.Hz + id*10_000_000
			for i := range channels {
				at += 100 + rng.Uint64N(1<<rng.UintN(22))
				channels[i].Records = append(channels[i].Records, simrun.Record{Time: at, ID: id})
				times[channels[i].Name] = append(times[channels[i].Name], at)
			}
		}
		for i := range channels {
			simrun.InOrder(channels[i].Records)
		}
		parent := t.TempDir()
		if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
			t.Fatal(err)
		}
		moveApart(t, filepath.Join(parent, "r"), &nodes[0], &nodes[2])
		dir := openRun(t, parent, "r")
		for _, third := range []tscratio.ThirdNodes{tscratio.ThirdAgreed, tscratio.ThirdAny} {
			type place struct {
				way   uint64
				point string
			}
			events := map[place]tscratio.Interval{}
			var durations []DurationRow
			a := analyze(t, dir, Options{Reference: "B", ThirdNodes: third,
				Events: func(e EventRow) error {
					events[place{e.Tuple, e.Point}] = e.At
					if truth := nodes[1].Reading(times[e.Point][e.ID]); !e.At.Contains(truth) {
						t.Errorf("third nodes %v: tuple %d was at %s at %d, outside of %v", third,
							e.ID, e.Point, truth, e.At)
					}
					if e.At.HalfWidth() > 2*far_cycles {
						t.Errorf("third nodes %v: tuple %d was at %s in %v, more than is needed",
							third, e.ID, e.Point, e.At)
					}
					return nil
				},
				Durations: func(d DurationRow) error {
					durations = append(durations, d)
					return nil
				},
			})
			if len(events) != 250 || len(durations) != 250 || a.Partial {
				t.Fatalf("%d events, %d durations, partial %v", len(events), len(durations),
					a.Partial)
			}
			for _, d := range durations {
				from, to := events[place{d.Tuple, d.From}], events[place{d.Tuple, d.To}]
				elapsed, err := to.Minus(from)
				if err != nil || elapsed.Lo > d.Lo || elapsed.Hi < d.Hi {
					t.Errorf("third nodes %v, tuple %d, %s on %s to %s on %s: events are %v "+
						"apart, and the duration is %v; %v", third, d.ID, d.From, d.FromNode, d.To,
						d.ToNode, elapsed, d.Elapsed, err)
				}
			}
		}
	})
}

// far_cycles is how long packets take between two nodes that are far apart.
const far_cycles = 200_000

// moveApart replaces the relation of two nodes in a run by a relation of nodes that are far apart.
func moveApart(t *testing.T, run string, a, b *simrun.Node) {
	t.Helper()
	describe := func(n *simrun.Node) tscratio.Node {
		return tscratio.Node{
			Name: n.Name, Epoch: "epoch-" + n.Name, Nominal_hz: simrun.Hz, Quantum_cycles: 1,
		}
	}
	pair, err := tscratio.NewPair(describe(a), describe(b), tscratio.DefaultAssumptions())
	if err != nil {
		t.Fatal(err)
	}
	for at := uint64(0); at < 3*simrun.Hz; at += simrun.Hz / 10 {
		stamp := func(n *simrun.Node, after uint64) tscratio.Interval {
			return tscratio.At(n.Reading(at + after*far_cycles))
		}
		x := tscratio.Exchange{
			Sent: stamp(a, 0), Received: stamp(b, 1), Answered: stamp(b, 2), Returned: stamp(a, 3),
		}
		if err := pair.Add(tscratio.Train{By: tscratio.StartedByA,
			Exchanges: []tscratio.Exchange{x, x}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(run, "relations", a.Name+"--"+b.Name+".rel"),
		pair.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
}
