package link

import (
	"math"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A remembered score is the score of the same script with the present model, or it was below the
// limit. Every second limit is low, so that many walks end.
func TestRememberedScores(t *testing.T) {
	random := seed.Random(t)
	set := made("hotel", 60, 300)
	at := placesOf(&set.Seen)[0]
	p := newProgram([]place{at}, programNumbers(&set.Seen), set.Quantum_ns, nil)
	p.openWindow(p.windows(1e6)[0])
	p.learn(3, 1)
	s, known := p.sharers[0], 0
	for i := range 20_000 {
		if i%5000 == 0 {
			p.m.next[random.IntN(len(p.m.next))] -= 1 // another model
			s.rescore()
		}
		r := int32(random.IntN(min(len(s.requests), 60)))
		if len(s.scripts[r]) == 0 {
			continue
		}
		without := s.scripts[r][random.IntN(len(s.scripts[r])):][:1]
		with := []int32{int32(random.IntN(len(s.calls)))}
		if random.IntN(2) == 0 {
			with = nil
		}
		if with != nil && s.calls[with[0]].from < s.requests[r].from || s.owner[without[0]] != r {
			continue
		}
		script := s.copyExchanged(nil, s.scripts[r], without, with)
		want, least := s.scoreOf(r, script, math.Inf(-1)), -40*random.Float64()
		if i%2 == 0 {
			least = -1000
		}
		s.script = nil
		got := s.scoreWith(r, saltsOf(with)-saltsOf(without), without, with, least)
		if got != want && (got >= least || want >= least) {
			t.Fatalf("script %v of request %d: score %g, or %g with the limit %g", script, r, want,
				got, least)
		}
		known += count(s.script == nil) // no walk was needed
		if i%50 == 0 {
			s.replaceScript(r, saltsOf(with)-saltsOf(without), without, with, want)
			for _, c := range without {
				s.owner[c] = -1
			}
			for _, c := range with {
				s.owner[c] = r
			}
		}
	}
	if known < 1000 {
		t.Errorf("%d scores were remembered", known)
	}
}
