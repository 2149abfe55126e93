package link

import (
	"math"
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
		p.combine(all, []Link{{c.again, 0.9, calls.NoCause, 0}}, c.difference)
		if l := all[0]; l.Cause != c.cause || math.Abs(l.Probability-c.probability) > 1e-9 {
			t.Errorf("%s: %+v, want cause %d with probability %g", c.name, l, c.cause,
				c.probability)
		}
	}
}
