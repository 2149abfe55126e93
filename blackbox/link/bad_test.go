package link

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// withoutCalls returns a set without some calls. If the cause of a call is left out, the call has
// no cause in the data.
func withoutCalls(set *calls.Set, lost func(i int32, c *calls.Call) bool) *calls.Set {
	kept := &calls.Set{Seen: calls.Seen{Places: set.Places, Quantum_ns: set.Quantum_ns},
		Truth: calls.Truth{Paths: set.Paths}}
	number := make([]int32, len(set.Calls))
	for i := range set.Calls {
		if number[i] = calls.NoCause; lost(int32(i), &set.Calls[i]) {
			continue
		}
		number[i] = int32(len(kept.Calls))
		kept.Calls = append(kept.Calls, set.Calls[i])
		kept.Path = append(kept.Path, set.Path[i])
		kept.Cause = append(kept.Cause, set.Cause[i])
	}
	for i, cause := range kept.Cause {
		if cause >= 0 {
			kept.Cause[i] = number[cause]
		}
	}
	return kept
}

// Whatever is missing or wrong in the data, links that are called sure are right.
func TestBadData(t *testing.T) {
	random := seed.Random(t)
	cases := map[string]struct {
		change func(*calls.Set) *calls.Set
		sure   float64 // least share of links that are sure
	}{
		"nothing": {func(s *calls.Set) *calls.Set { return s }, 0.9},
		// One call of ten is lost, at random. The calls that the lost calls caused have no cause.
		"lost calls": {func(s *calls.Set) *calls.Set {
			return withoutCalls(s, func(int32, *calls.Call) bool { return random.IntN(10) == 0 })
		}, 0.3},
		// The program "search" was not captured. To its callers it is an unknown peer, and its own
		// calls seem to come from outside.
		"missing program": {func(s *calls.Set) *calls.Set {
			for i := range s.Calls {
				c := &s.Calls[i]
				if s.Places[max(c.Caller, 0)].Program == "search" {
					c.Caller, c.Sent_ns, c.Got_ns = calls.Outside, calls.Unknown, calls.Unknown
				}
				if s.Places[c.Callee].Program == "search" {
					c.Received_ns, c.Replied_ns = calls.Unknown, calls.Unknown
				}
			}
			return s
		}, 0.8},
		// One call of four is a message that nobody answers.
		"one-way messages": {func(s *calls.Set) *calls.Set {
			for i := range s.Calls {
				if random.IntN(4) == 0 {
					s.Calls[i].Replied_ns, s.Calls[i].Got_ns = calls.Unknown, calls.Unknown
				}
			}
			return s
		}, 0.3},
		// One call of twenty is there twice.
		"duplicates": {func(s *calls.Set) *calls.Set {
			for i := range s.Calls {
				if random.IntN(20) == 0 && s.Calls[i].Caller >= 0 {
					s.Calls = append(s.Calls, s.Calls[i])
					s.Cause = append(s.Cause, s.Cause[i])
					s.Path = append(s.Path, s.Path[i])
				}
			}
			s.Arrange()
			return s
		}, 0.3},
		// In the middle, one clock goes back by 50 ms, and another jumps ahead.
		"steps of clocks": {func(s *calls.Set) *calls.Set {
			middle := s.Calls[len(s.Calls)/2].Began_ns()
			step := func(place int32, moments ...*int64) {
				for _, t := range moments {
					if place >= 0 && *t > middle {
						*t += map[int32]int64{0: -50_000_000, 2: 70_000_000}[place]
					}
				}
			}
			for i := range s.Calls {
				c := &s.Calls[i]
				step(c.Caller, &c.Sent_ns, &c.Got_ns)
				step(c.Callee, &c.Received_ns, &c.Replied_ns)
			}
			s.Arrange()
			return s
		}, 0.6},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) { // so a seed gives the same numbers again
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			// Wrong links come in groups. So with few sets, chance alone may make more than one
			// sure link of a hundred wrong.
			var sureWrong, sure, links float64
			for range 12 {
				set := c.change(made("hotel", 500, 100))
				s := Judge(set, Methods[0].Link(&set.Seen))
				sureWrong += float64(s.SureWrong)
				sure += float64(s.Sure)
				links += float64(s.Links)
			}
			if sureWrong > 0.01*sure || sure < c.sure*links {
				t.Errorf("%v of %v sure links are wrong, of %v links", sureWrong, sure, links)
			}
		})
	}
}

// Every method ends, whatever the data are: calls at any moments, between any places, caused in
// circles.
func TestAnyCalls(t *testing.T) {
	random := seed.Random(t)
	for range 15 {
		s := anyCalls(random)
		for _, m := range Methods {
			for i, l := range m.Link(s) {
				const most = 1 + 1e-9 // sums are rounded
				if l.Cause >= int32(len(s.Calls)) ||
					!(l.Probability >= 0 && l.Probability <= most) ||
					!(l.RunnerUpProbability >= 0 && l.RunnerUpProbability <= most) {
					t.Fatalf("%s: call %d of %+v: %+v", m.Name(), i, s, l)
				}
				if l.Cause >= 0 && s.Calls[i].Caller >= 0 &&
					s.Calls[l.Cause].Callee != s.Calls[i].Caller {
					t.Fatalf("%s: call %d comes from place %d, its cause went to %d", m.Name(), i,
						s.Calls[i].Caller, s.Calls[l.Cause].Callee)
				}
			}
		}
	}
}

func anyCalls(random *rand.Rand) *calls.Seen {
	s := &calls.Seen{Quantum_ns: 1}
	for range 1 + random.IntN(4) {
		s.Places = append(s.Places, calls.Place{Program: string(rune('a' + random.IntN(3)))})
	}
	moment := func() int64 {
		switch random.IntN(12) {
		case 0:
			return calls.Unknown
		case 1:
			return random.Int64N(2*calls.Latest_ns) - calls.Latest_ns
		case 2:
			return []int64{0, -calls.Latest_ns + 1, calls.Latest_ns - 1}[random.IntN(3)]
		}
		return random.Int64N(5000)
	}
	for range random.IntN(40) {
		c := calls.Call{Caller: int32(random.IntN(len(s.Places)+1)) - 1,
			Callee: int32(random.IntN(len(s.Places))), Sent_ns: moment(), Received_ns: moment(),
			Replied_ns: moment(), Got_ns: moment(), SentBy: uint32(random.IntN(3)),
			ReceivedBy: uint32(random.IntN(3)), RepliedBy: uint32(random.IntN(3)),
			GotBy: uint32(random.IntN(3))}
		if random.IntN(8) == 0 {
			c.Connection, c.Answers = uint32(random.IntN(3)), random.IntN(2) == 0
		}
		s.Calls = append(s.Calls, c)
	}
	return s
}
