package paths

import (
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// Programs that log tuples pin the links between them, even if so many requests are open at once
// that messages alone do not decide. If only one program logs, or if the logs are wrong, nothing is
// pinned.
func TestPins(t *testing.T) {
	random := seed.Random(t)
	app := callgen.Apps["media"]
	app.Clients = true
	set := callgen.Make(app, callgen.Options{Requests: 80, PerSecond: 1500,
		Seed: random.Uint64()})
	const nodes = 3
	from, to := placeOf(t, set, "movie-id"), placeOf(t, set, "rating")
	for name, c := range map[string]struct {
		logging []int32
		change  func([]simrun.Channel)
		pinned  float64 // least share of the calls from movie-id to rating
	}{
		"nobody logs": {},
		"both log":    {logging: []int32{from, to}, pinned: 0.9},
		"one logs":    {logging: []int32{from}},
		// Here the log has ids that do not fit the program's requests, as if another program had
		// written it.
		"ids of other requests": {
			logging: []int32{from, to},
			change: func(all []simrun.Channel) {
				for i := range all[1].Records {
					all[1].Records[i].ID++
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			logs := callgen.Tuples(set, nodes, c.logging...)
			if c.change != nil {
				c.change(logs)
			}
			seen, logged := capturedWith(t, set, nodes, logs)
			pins := seen.findPins(logged)
			truth := trueCauses{set, seen}.Link(nil)
			by, all, right := link.Methods[0], 0, 0
			if len(pins) == 0 {
				by = link.Methods[1] // it is quick
			}
			links := seen.link(by, pins)
			for i := range seen.Calls {
				k := &seen.Calls[i]
				if k.Caller < 0 || seen.Places[k.Caller].Program != "movie-id:80" ||
					seen.Places[k.Callee].Program != "rating:80" {
					continue
				}
				all++
				right += b2i(links[i].Cause == truth[i].Cause)
			}
			t.Logf("%d pins; %d of %d links right", len(pins), right, all)
			for i, p := range pins {
				if l := links[i]; p.cause != truth[i].Cause || l.Cause != p.cause ||
					l.Probability != p.probability || p.probability < link.Said {
					t.Errorf("call %d is pinned to %+v, link %+v, truth %d", i, p, l,
						truth[i].Cause)
				}
			}
			if float64(len(pins)) < c.pinned*float64(all) || c.pinned == 0 && len(pins) > 0 {
				t.Errorf("%d of %d calls are pinned", len(pins), all)
			}
		})
	}
}

// Tuples whose requests were not captured pin no wrong link.
func TestPinsOfLostRequests(t *testing.T) {
	random := seed.Random(t)
	pinned := 0
	// The number 2000 means that one call in 2,000 is lost. With this number, 3 of 100 sets pin
	// nothing. So three such sets are made.
	for _, lost := range []int{2000, 2000, 2000, 200, 20, 5} {
		set := callgen.Make(callgen.Apps["hotel"], callgen.Options{Requests: 400, PerSecond: 4000,
			Seed: random.Uint64()})
		frontend, search := placeOf(t, set, "frontend"), placeOf(t, set, "search")
		logs := callgen.Tuples(set, 3, frontend, search)
		seen, logged := capturedWith(t, set, 3, logs)
		truth := trueCauses{set, seen}.Link(nil)
		wrong, all := 0, 0
		for i := range seen.Calls {
			if c := &seen.Calls[i]; random.IntN(lost) == 0 {
				c.Callee, c.Caller = calls.Outside, calls.Outside // nobody sees it
			}
		}
		for i, p := range seen.findPins(logged) {
			all++
			wrong += b2i(p.cause != truth[i].Cause && p.probability >= link.Sure)
		}
		if wrong > (all+99)/100 { // a sure pin is wrong in at most 1 % of cases
			t.Errorf("one of %d requests is lost: %d of %d pins are sure and wrong", lost, wrong,
				all)
		}
		pinned += all
	}
	if pinned == 0 {
		t.Error("nothing is pinned")
	}
}

func placeOf(t *testing.T, set *calls.Set, program string) int32 {
	t.Helper()
	for i, p := range set.Places {
		if p.Program == program {
			return int32(i)
		}
	}
	t.Fatalf("no program %q", program)
	return -1
}

// capturedWith captures calls together with what programs logged, and returns what both show.
func capturedWith(t *testing.T, set *calls.Set, nodes int, logs []simrun.Channel) (*Seen,
	[]entry) {
	t.Helper()
	parent := t.TempDir()
	if err := callgen.Capture(seed.Random(t), parent, "run", set, nodes, logs...); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "run"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	seen, to, _ := lookAt(t, dir)
	logged, err := readEntries(dir, seen, to)
	if err != nil {
		t.Fatal(err)
	}
	return seen, logged
}

func b2i(is bool) int {
	if is {
		return 1
	}
	return 0
}
