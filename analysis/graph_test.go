package analysis

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// Three things decide which of two points comes first. If the bounds prove in which order tuples
// passed the points, the bounds decide. Otherwise, the names of an actor's points decide. If the
// names do not decide, the middles of the intervals do. Between nodes that are not related, a point
// where tuples leave one actor comes before a point where tuples arrive at another actor.
func TestWhatPrecedes(t *testing.T) {
	for _, test := range []struct {
		p, q           string
		both           uint64
		surely, middle [2]uint64 // number of tuples that passed p first, and q first
		want           [2]bool   // p before q, q before p
	}{
		{"a/recv", "b/recv", 0, [2]uint64{}, [2]uint64{}, [2]bool{}},
		{"a/recv", "b/recv", 200, [2]uint64{99, 1}, [2]uint64{0, 200}, [2]bool{true, false}},
		{"a/recv", "b/recv", 200, [2]uint64{98, 2}, [2]uint64{200, 0}, [2]bool{}},
		{"a/send", "a/recv", 200, [2]uint64{100, 0}, [2]uint64{200, 0}, [2]bool{true, false}},
		{"a/recv", "b/recv", 2000, [2]uint64{0, 1}, [2]uint64{1900, 100}, [2]bool{true, false}},
		{"a/recv", "b/recv", 2000, [2]uint64{0, 20}, [2]uint64{1980, 20}, [2]bool{false, true}},
		{"a/start", "a/end", 200, [2]uint64{}, [2]uint64{0, 200}, [2]bool{true, false}},
		{"a/intended", "a/start", 200, [2]uint64{}, [2]uint64{50, 150}, [2]bool{false, true}},
		{"a/end", "b/start", 200, [2]uint64{}, [2]uint64{75, 25}, [2]bool{true, false}},
		{"a/end", "b/start", 200, [2]uint64{}, [2]uint64{74, 26}, [2]bool{}},
		{"a/end", "b/start", 200, [2]uint64{}, [2]uint64{}, [2]bool{true, false}},
		{"a/recv", "b/send", 200, [2]uint64{}, [2]uint64{}, [2]bool{false, true}},
		{"a/recv", "b/recv", 200, [2]uint64{}, [2]uint64{}, [2]bool{}},
		{"a/send", "b/end", 200, [2]uint64{}, [2]uint64{}, [2]bool{}},
	} {
		e := newEvidence(2)
		e.passedBoth[0][1], e.passedBoth[1][0] = test.both, test.both
		e.single.surelyBefore[0][1], e.single.surelyBefore[1][0] = test.surely[0], test.surely[1]
		e.single.middleBefore[0][1], e.single.middleBefore[1][0] = test.middle[0], test.middle[1]
		var points []point
		for _, name := range []string{test.p, test.q} {
			actor, at, _ := strings.Cut(name, "/")
			points = append(points, point{actor, at})
		}
		if got := [2]bool{e.precedes(0, 1, points), e.precedes(1, 0, points)}; got != test.want {
			t.Errorf("%s and %s, surely %v, by the middle %v: %v, want %v", test.p, test.q,
				test.surely, test.middle, got, test.want)
		}
	}
}

// An edge between points that the run does not have is an error: it would change nothing. An edge
// may name points whose channels were not chosen.
func TestDeclaredEdgeToNowhere(t *testing.T) {
	parent := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	channels := []simrun.Channel{{Name: "a/send"}, {Name: "b/recv", Node: 1}}
	for i := range channels {
		channels[i].Records = []simrun.Record{{Time: simrun.Hz + uint64(i)*simrun.Hz/1000, ID: 7}}
	}
	if err := simrun.Write(rng, parent, "job", simrun.Nodes(rng, 2), channels); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "job")
	for to, want := range map[string]string{
		"b/recv": "",
		"b/rcv":  `no channel is at "b/rcv": use some of a/send, b/recv`,
	} {
		_, err := Run(context.Background(), dir, Options{Edges: [][2]string{{"a/send", to}}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("an edge to %s: error %v, want %q", to, err, want)
		}
	}
	chosen := Options{Edges: [][2]string{{"a/send", "b/recv"}}}
	chosen.Filter.Channels = []string{"a/*"}
	if _, err := Run(context.Background(), dir, chosen); err != nil {
		t.Errorf("an edge to a channel that was not chosen: %v", err)
	}
}
