package analysis

import (
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// An operator that drops the same share of tuples all the time filters them. Bursts, and a few
// tuples now and then, are losses.
func TestFiltersOrLoses(t *testing.T) {
	for name, test := range map[string]struct {
		passed, ended []uint64
		want          bool
	}{
		"two of three":            {[]uint64{300, 300, 300}, []uint64{200, 190, 205}, true},
		"one in twenty":           {[]uint64{1000, 1000, 1000}, []uint64{50, 50, 50}, true},
		"fewer":                   {[]uint64{1000, 1000, 1000}, []uint64{49, 50, 50}, false},
		"a burst":                 {[]uint64{300, 300, 300, 300}, []uint64{0, 300, 0, 0}, false},
		"none at the end":         {[]uint64{300, 300, 300, 300}, []uint64{100, 100, 100}, false},
		"more than twice as many": {[]uint64{300, 300, 300, 300}, []uint64{30, 30, 30, 150}, false},
		"too short to tell":       {[]uint64{300, 300, 99}, []uint64{100, 100, 33}, false},
		"few at the ends":         {[]uint64{5, 300, 300, 300}, []uint64{0, 100, 100, 100}, true},
		"nothing passed":          {nil, nil, false},
	} {
		var f pointFound
		for bin, n := range test.ended {
			f.endedIn(bin, n)
		}
		if got := f.filters(test.passed); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// Ids that two programs have in common are named, with the nodes. Ids that one program sends again
// are noted.
func TestIDsThatBeginTwice(t *testing.T) {
	const ms = simrun.Hz / 1000
	for name, test := range map[string]struct {
		second int // the node of the other source
		want   string
	}{
		"two programs": {1, "20 ids begin at client/start on A and on B"},
		"sent again":   {0, "20 ids begin at client/start more than once"},
	} {
		channels := []simrun.Channel{
			{Name: "client#0/start"}, {Name: "client#1/start", Node: test.second},
			{Name: "server#0/recv", Node: 2},
		}
		for id := range uint64(20) {
			at := simrun.Hz + id*10*ms
			for i := range uint64(2) {
				channels[i].Records = append(channels[i].Records,
					simrun.Record{Time: at + i*3*ms, ID: id})
				channels[2].Records = append(channels[2].Records,
					simrun.Record{Time: at + i*3*ms + ms, ID: id})
			}
		}
		parent := t.TempDir()
		rng := rand.New(rand.NewPCG(1, 2))
		if err := simrun.Write(rng, parent, "job", simrun.Nodes(rng, 3), channels); err != nil {
			t.Fatal(err)
		}
		for _, workers := range []int{1, 3} {
			a := analyze(t, openRun(t, parent, "job"), Options{Workers: workers})
			if !mentions(a, test.want) {
				t.Errorf("%s: findings %v, want %q", name, a.Findings, test.want)
			}
		}
	}
}

// Tuples that a later channel did not keep are not called filtered.
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
