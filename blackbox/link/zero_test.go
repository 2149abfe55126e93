package link

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// If the recorder wrote the duration 0 for requests whose end it did not know, the calls of these
// requests are not linked to others.
func TestUnknownDurations(t *testing.T) {
	random := dice(3)
	set := made("shop", 250, 150)
	for i := range set.Calls {
		if c := &set.Calls[i]; random.IntN(5) == 0 {
			c.Replied_ns = c.Received_ns
		}
	}
	s := Judge(set, Methods[0].Link(&set.Seen))
	if s.Right < s.Links*98/100 || s.SureWrong*100 > s.Sure || s.Sure < s.Links*9/10 {
		t.Errorf("%+v", s)
	}
}

// A coarse clock makes many durations 0. Such durations are known.
func TestZeroCounts(t *testing.T) {
	for _, c := range []struct {
		durations []int64
		unknown   bool
	}{
		{[]int64{0, 900, 800, 950}, true},
		{[]int64{0, 0, 1, 2, 1, 0, 3}, false},
		{[]int64{0, 0, 1, 0, 0}, false},
		{[]int64{9, 8, 1}, false},
		{[]int64{0, -1, -1, -1}, false}, // -1: the end is missing
	} {
		var n zeroCount
		for _, d := range c.durations {
			if d < 0 {
				n.add(0, calls.Unknown, 1)
			} else {
				n.add(0, d, 1)
			}
		}
		if n.unknown() != c.unknown {
			t.Errorf("%v: unknown is %v", c.durations, n.unknown())
		}
	}
}
