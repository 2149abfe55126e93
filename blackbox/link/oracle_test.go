package link

import (
	"math"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
)

// oracleLinks finds links with models that were learnt from the true causes. The draws also begin
// with the true sharing. So hardly any method can be better.
func oracleLinks(set *calls.Set) []Link {
	all := noLinks(&set.Seen)
	of := programNumbers(&set.Seen)
	groups := map[int32][]place{}
	for _, at := range placesOf(&set.Seen) {
		at.subtractOffsets(&set.Seen, nil, slack_ns) // the clocks of made calls are equal
		groups[of[at.number]] = append(groups[of[at.number]], at)
	}
	for g := range int32(len(of)) { // programs without calls have no group
		if groups[g] == nil {
			continue
		}
		p := newProgram(groups[g], of, set.Quantum_ns, nil)
		w := p.windows(1e9)[0]
		p.openWindow(w)
		x := p.m.newExperience()
		for _, s := range p.sharers {
			s.shareTruly(set.Cause)
			s.teach(x, 1, math.MaxInt32)
		}
		p.m.learn(x)
		p.answer(w, all)
	}
	return all
}

// shareTruly gives each call to the request that caused it.
func (s *sharing) shareTruly(causes []int32) {
	requests := map[int32]int32{}
	for r := range s.requests {
		requests[s.requests[r].call] = int32(r)
	}
	for c := range s.calls {
		if r, ok := requests[causes[s.sends[c].call]]; ok {
			s.owner[c] = r
			s.scripts[r] = append(s.scripts[r], int32(c))
		}
	}
}

// At 1,500 requests a second, even a model of the true causes has few paths right. docs/paths.md
// gives these figures.
func TestOracle(t *testing.T) {
	for app, most := range map[string]float64{"media": 0.6, "node": 0.05} {
		set := callgen.Make(callgen.Apps[app],
			callgen.Options{Requests: 700, PerSecond: 150, Seed: 1})
		callgen.Compress(set, 10)
		s := Judge(set, oracleLinks(set))
		right := float64(s.Right) / float64(s.Links)
		t.Logf("%s: %.1f %% of links, %.1f %% of paths", app, 100*right, 100*pathsRight(s))
		if pathsRight(s) > most || right < 0.3 {
			t.Errorf("%s: the true model has %+v", app, s)
		}
	}
}
