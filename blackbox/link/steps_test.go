package link

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
)

// stepped returns the calls of an application of which only the callees' moments are known. In the
// middle of the data, the clock of a place steps.
func stepped(app string, place int32, step_ns int64) *calls.Set {
	a := callgen.Apps[app]
	a.Clients = false
	set := callgen.Make(a, callgen.Options{Requests: 250, PerSecond: 150, Seed: 22})
	middle := set.Calls[len(set.Calls)/2].Received_ns
	for i := range set.Calls {
		c := &set.Calls[i]
		for _, t := range [2]*int64{&c.Received_ns, &c.Replied_ns} {
			if c.Callee == place && *t > middle {
				*t += step_ns
			}
		}
	}
	set.Arrange()
	return set
}

// If a callee's clock steps, nearly all links are as right as if it did not, and few that are
// called sure are wrong.
func TestStepsOfCalleesClocks(t *testing.T) {
	for app, step_ns := range map[string]int64{"hotel": 70_000_000, "node": -50_000_000} {
		without := stepped(app, 0, 0)
		want := Judge(without, Methods[0].Link(&without.Seen)).Right * len(without.Places)
		var right, sure, wrong int
		for place := range without.Places {
			set := stepped(app, int32(place), step_ns)
			s := Judge(set, Methods[0].Link(&set.Seen))
			right, sure, wrong = right+s.Right, sure+s.Sure, wrong+s.SureWrong
		}
		if right < want*95/100 || wrong*100 > sure {
			t.Errorf("%s: %d links are right, without steps %d; of %d sure links, %d are wrong",
				app, right, want, sure, wrong)
		}
	}
}

// Where no clock steps, no step is found, also if many calls lie within no request because nobody
// waits for their responses (random-4).
func TestNoSteps(t *testing.T) {
	for name, app := range map[string]callgen.App{"media": callgen.Apps["media"],
		"node": callgen.Apps["node"], "random-4": callgen.Random(4)} {
		for _, rate := range []float64{20, 150, 1500} {
			set := callgen.Make(app, callgen.Options{Requests: 400, PerSecond: rate, Seed: 22})
			for _, p := range placesOf(&set.Seen) {
				p.subtractOffsets(&set.Seen, p.alignAll(&set.Seen), slack_ns)
				if p.mendStep(&set.Seen) || len(p.unsure) > 0 {
					t.Errorf("%s at %g: a step in %s", name, rate, set.Places[p.number].Program)
				}
			}
		}
	}
}
