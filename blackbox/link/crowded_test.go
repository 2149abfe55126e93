package link

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
)

// If dozens of requests could have caused each call, and clocks are coarse, the product's own
// method still has twice as many links right as any other method.
func TestCrowded(t *testing.T) {
	set := callgen.Make(callgen.Apps["node"],
		callgen.Options{Requests: 250, PerSecond: 150, Seed: 22})
	callgen.Compress(set, 10)
	own := Judge(set, Methods[0].Link(&set.Seen))
	t.Logf("%+v", own)
	for _, m := range Methods[1:] {
		if other := Judge(set, m.Link(&set.Seen)); 2*other.Right > own.Right {
			t.Errorf("%s has %d links right, %s has %d of %d", m.Name(), other.Right,
				Methods[0].Name(), own.Right, own.Links)
		}
	}
}

// An event may seem to come before the one that it follows. The earlier it seems to come, the
// smaller is the step of its delay, so that the model learns how probable this is.
func TestDelaysBelowZero(t *testing.T) {
	m := model{unit: 1000, slack_ns: 3000}
	for i, delay := range []int64{-3000, -2000, -1000, 0, 1000} {
		if got := m.stepSince(delay); got != int16(i) {
			t.Errorf("a delay of %d ns has step %d, want %d", delay, got, i)
		}
	}
}
