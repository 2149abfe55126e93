package link

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// Two requests exchange one step each, and keep their other calls. A step has the calls between
// which the request waited for no response.
func TestExchangeSteps(t *testing.T) {
	m := newModel(1, 2, 1)
	m.learn(m.newExperience())
	m.temper = 0 // accepts everything
	both := []int32{0, 1}
	s := &sharing{m: m, owner: []int32{0, 0, 1, 1, 0, 1},
		requests:   []request{{from: 0, to: 100}, {from: 1, to: 100}},
		candidates: [][]int32{both, both, both, both, both, both},
		calls: []call{{from: 10, to: 20}, {from: 11, to: 30}, {from: 12, to: 20, kind: 1},
			{from: 13, to: 21}, {from: 40, to: 50}, {from: 41, to: 50}}}
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

// A step has the calls between which the request waited for no response.
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
