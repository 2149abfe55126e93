package link

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// Two requests exchange one step each, and keep their other calls. A step is a run of successive
// calls: between them, the request waited for no response.
func TestExchangeSteps(t *testing.T) {
	m := newModel(1, 2, 1)
	m.learn(m.newExperience())
	m.temper = 0 // accepts everything
	s := &sharing{m: m, memo: &memo{}, owner: []int32{0, 0, 1, 1, 0, 1},
		requests: []request{{from: 0, to: 100}, {from: 1, to: 100}}, candidates: make([][]int32, 6),
		calls: []call{{from: 10, to: 20}, {from: 11, to: 30}, {from: 12, to: 20, kind: 1},
			{from: 13, to: 21}, {from: 40, to: 50}, {from: 41, to: 50}}}
	for c := range int32(len(s.calls)) {
		s.setCandidates(c, []int32{0, 1})
	}
	s.makeScripts()
	s.scripts[0], s.scripts[1] = []int32{0, 1, 4}, []int32{2, 3, 5}
	s.rescore()
	s.exchangeSteps(0, 1, 3)
	if diff := cmp.Diff([][]int32{{2, 3, 4}, {0, 1, 5}}, s.scripts); diff != "" {
		t.Errorf("scripts (-want +got):\n%s", diff)
	}
	if want := []int32{1, 1, 0, 0, 0, 1}; !slices.Equal(s.owner, want) {
		t.Errorf("owners %v, want %v", s.owner, want)
	}
}

// The rest of a script goes to another request only as far as this request was open. So a request
// that has the calls of two can give the other one its own, and take them back.
func TestExchangeRest(t *testing.T) {
	m := newModel(1, 1, 1)
	m.learn(m.newExperience())
	m.temper = 0 // accepts everything
	both, last := []int32{0, 1}, []int32{1}
	s := &sharing{m: m, memo: &memo{}, owner: []int32{1, 1, 1, 1},
		requests: []request{{from: 0, to: 50}, {from: 10, to: 100}}, candidates: make([][]int32, 4),
		calls: []call{{from: 20, to: 30}, {from: 40, to: 45}, {from: 60}, {from: 70}}}
	for c, all := range [][]int32{both, both, last, last} {
		s.setCandidates(int32(c), all)
	}
	s.makeScripts()
	s.scripts[1] = []int32{0, 1, 2, 3}
	s.rescore()
	for to, want := range [][][]int32{{{0, 1}, {2, 3}}, {{}, {0, 1, 2, 3}}} {
		s.exchangeRest(0, int32(to))
		if diff := cmp.Diff(want, s.scripts); diff != "" {
			t.Errorf("scripts after giving calls to request %d (-want +got):\n%s", to, diff)
		}
	}
}

// A step is a run of successive calls: between them, the request waited for no response.
func TestStep(t *testing.T) {
	s := &sharing{scripts: [][]int32{{0, 1, 3, 4, 5}}, calls: []call{
		{from: 10, to: 30}, {from: 12, to: 20}, {from: 13, to: 14}, {from: 40, to: calls.Unknown},
		{from: 41, to: 60}, {from: 42, to: 45},
	}}
	for c, want := range map[int32][]int32{0: {0, 1}, 1: {0, 1}, 3: {3}, 4: {4, 5}, 5: {4, 5}} {
		if got := s.stepWith(0, c); !slices.Equal(got, want) {
			t.Errorf("step of call %d is %v, want %v", c, got, want)
		}
	}
}

// A walk that may stop early either returns the score of the whole script, or stops because this
// score is below the limit. No score is above 0, if no event comes before the one that it follows.
func TestScoreStopsEarly(t *testing.T) {
	random := seed.Random(t)
	set := made("hotel", 60, 300)
	stopped, whole := 0, 0
	for _, at := range placesOf(&set.Seen) {
		p := newProgram([]place{at}, programNumbers(&set.Seen), set.Quantum_ns, nil)
		p.openWindow(p.windows(1e6)[0])
		p.learn(3, 1)
		s := p.sharers[0]
		for range 2000 {
			r := int32(random.IntN(len(s.requests)))
			script := s.scripts[random.IntN(len(s.scripts))]
			if len(script) > 0 && s.calls[script[0]].from < s.requests[r].from {
				continue
			}
			want, least := s.scoreOf(r, script, math.Inf(-1)), -40*random.Float64()
			got := s.scoreOf(r, script, least)
			if want > 1e-9 || got != want && (got >= least || want >= least) {
				t.Fatalf("score %g, or %g with the limit %g", want, got, least)
			}
			stopped, whole = stopped+count(got != want), whole+count(got == want)
		}
	}
	if stopped < 50 || whole < 50 {
		t.Errorf("%d walks stopped, %d did not", stopped, whole)
	}
}

func TestQuickLog(t *testing.T) {
	random := seed.Random(t)
	for range 100_000 {
		x := math.Exp(600 * (random.Float64() - 0.5))
		got, want := float64(quickLog(x)), math.Log(x)
		if math.Abs(got-want) > 1e-7*(1+math.Abs(want)) {
			t.Fatalf("log %g is %g, want %g", x, got, want)
		}
	}
}

// A request is a candidate for calls if it is in the list of each of them, also where the list has
// gaps, and where it is longer than the bits of a call.
func TestIsCandidate(t *testing.T) {
	lists := [][]int32{{2, 3, 5, 65, 66, 90}, {}, {70}, {0, 5}}
	s := &sharing{calls: make([]call, len(lists)), candidates: make([][]int32, len(lists))}
	for c, all := range lists {
		s.setCandidates(int32(c), all)
	}
	for r := int32(-1); r < 200; r++ {
		for c, all := range lists {
			want := slices.Contains(all, r)
			if got := s.isCandidate([]int32{int32(c)}, r); got != want {
				t.Errorf("request %d, call %d: %v, want %v", r, c, got, want)
			}
		}
		if got := s.isCandidate([]int32{0, 3}, r); got != (r == 5) {
			t.Errorf("request %d, two calls: %v", r, got)
		}
	}
}
