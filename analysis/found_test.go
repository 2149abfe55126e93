package analysis

import (
	"cmp"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// If two programs use the same ids, a finding names the ids. It also names the two nodes or, if
// both programs are on one node, the two logs. If one program sends an id again, a note says so.
func TestIDsThatBeginTwice(t *testing.T) {
	const ms = simrun.Hz / 1000
	for name, test := range map[string]struct {
		second int    // the node of the other source
		again  string // the channel of the other source
		kind   FindingKind
		want   string
	}{
		"two nodes": {1, "client#1/start", FindUndecided,
			"20 ids begin at client/start on A and on B: two programs log"},
		"one node": {0, "client#1/start", FindUndecided, "20 ids begin at client/start both in " +
			"client#0/start and in client#1/start on A: two programs or instances log"},
		"sent again": {1, "", FindNote, "20 ids begin at client/start more than once, each in " +
			"one log: the program used them again"},
	} {
		channels := []simrun.Channel{
			{Name: "client#0/start"}, {Name: cmp.Or(test.again, "unused/start"), Node: test.second},
			{Name: "server#0/recv", Node: 2},
		}
		for id := range uint64(20) {
			at := simrun.Hz + id*10*ms
			for i := range uint64(2) {
				to := &channels[i]
				if test.again == "" {
					to = &channels[0]
				}
				to.Records = append(to.Records, simrun.Record{Time: at + i*3*ms, ID: id})
				channels[2].Records = append(channels[2].Records,
					simrun.Record{Time: at + i*3*ms + ms, ID: id})
			}
		}
		if test.again == "" { // each node has a log
			channels[1].Records = []simrun.Record{{Time: simrun.Hz, ID: 99}}
		}
		parent := t.TempDir()
		rng := rand.New(rand.NewPCG(1, 2))
		if err := simrun.Write(rng, parent, "job", simrun.Nodes(rng, 3), channels); err != nil {
			t.Fatal(err)
		}
		for _, workers := range []int{1, 3} {
			a := analyze(t, openRun(t, parent, "job"), Options{Workers: workers})
			if !hasFinding(a, test.kind, test.want) {
				t.Errorf("%s: findings %v, want %q", name, a.Findings, test.want)
			}
		}
	}
}

// Some tuples seem to end at a point only because the channel of a later point sampled other
// tuples. These tuples are not called filtered.
func TestSampledIsNotFiltered(t *testing.T) {
	const tuples = 40_000
	for handler, want := range map[string]bool{"": true, "downsample n=2": false} {
		channels := []simrun.Channel{{Name: "a/send"}, {Name: "b/recv", Node: 1, Handler: handler}}
		for id := range uint64(tuples) {
			at := simrun.Hz + id*simrun.Hz/tuples
			channels[0].Records = append(channels[0].Records, simrun.Record{Time: at, ID: id})
			if id%2 == 0 {
				channels[1].Records = append(channels[1].Records,
					simrun.Record{Time: at + simrun.Hz/tuples/10, ID: id})
			}
		}
		parent := t.TempDir()
		rng := rand.New(rand.NewPCG(1, 2))
		if err := simrun.Write(rng, parent, "job", simrun.Nodes(rng, 2), channels); err != nil {
			t.Fatal(err)
		}
		p := analyze(t, openRun(t, parent, "job"), Options{}).Points[0]
		if (p.Filtered > 0) != want || p.Filtered+p.Lost < tuples/2-1 {
			t.Errorf("handler %q: %d filtered and %d lost", handler, p.Filtered, p.Lost)
		}
	}
}
