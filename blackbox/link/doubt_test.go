package link

import (
	"math"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// If calls have many candidates, and two models disagree, the model that explains the data much
// better decides. If neither does, a link is no more probable than any other candidate.
func TestDoubt(t *testing.T) {
	for _, c := range []struct {
		name        string
		candidates  int
		again       int32
		difference  float64
		cause       int32
		probability float64
	}{
		{"agree", 10, 1, 0, 1, 0.9},
		{"the first is better", 10, 2, 1000, 1, 0.9 * mostSays},
		{"the second is better", 10, 2, -1000, 2, 0.9 * mostSays},
		{"none is better", 10, 2, 0, 1, 0.1},
		{"few candidates", 2, 2, -1000, 2, 0.9 * firstSays},
	} {
		p := &program{places: []place{{sends: make([]send, 1)}},
			sharers: []*sharing{{candidates: [][]int32{make([]int32, c.candidates)}}}}
		all := []Link{{1, 0.9, calls.NoCause, 0}}
		p.combine(all, []Link{{c.again, 0.9, calls.NoCause, 0}}, c.difference,
			[]window{{end: 1}})
		if l := all[0]; l.Cause != c.cause || math.Abs(l.Probability-c.probability) > 1e-9 {
			t.Errorf("%s: %+v, want cause %d with probability %g", c.name, l, c.cause,
				c.probability)
		}
	}
}

// Where two models nearly agree, the second one leaves out windows. Where they do not, it leaves
// out none.
func TestSecondModelRests(t *testing.T) {
	const size = 500
	for _, c := range []struct {
		app, program string
		least, most  float64 // part of the windows that the second model links
	}{{"hotel", "frontend", 0.1, 0.4}, {"shop", "web", 0.9, 1}} {
		set := made(c.app, 2500, 1500)
		of := programNumbers(&set.Seen)
		places := slices.DeleteFunc(placesOf(&set.Seen), func(p place) bool {
			return set.Places[p.number].Program != c.program
		})
		first := newProgram(places, of, set.Quantum_ns, nil)
		all, windows := noLinks(&set.Seen), first.windows(size)
		for _, w := range windows {
			first.linkWindow(&set.Seen, w, all)
		}
		second := first.compare(nil, &set.Seen, windows, all)
		part := float64(len(second.scores)) / float64(len(windows))
		if len(first.scores) != len(windows) || part < c.least || part > c.most {
			t.Errorf("%s: of %d windows, the models linked %d and %d", c.app, len(windows),
				len(first.scores), len(second.scores))
		}
	}
}
