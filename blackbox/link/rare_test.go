package link

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// rareCalls returns the calls of a program, a, that receives requests at random moments. For each
// request, it sends a call to b. For one request in 20, it also sends a call to c. There are n
// calls to c. The delays before calls are 1 to 3 ms, and a request comes every 4 ms on average.
func rareCalls(n int) *calls.Set {
	random := rand.New(rand.NewPCG(22, 9))
	set := &calls.Set{Seen: calls.Seen{
		Places: []calls.Place{{Program: "a"}, {Program: "b"}, {Program: "c"}}}}
	add := func(c calls.Call, cause int32) {
		set.Calls, set.Cause = append(set.Calls, c), append(set.Cause, cause)
		set.Path = append(set.Path, int32(set.Paths))
	}
	now := 0.0
	for k := range 20 * n {
		now += random.ExpFloat64() * 4e6
		at, cause := int64(now), int32(len(set.Calls))
		add(calls.Call{Caller: calls.Outside, Callee: 0, Sent_ns: calls.Unknown, Received_ns: at,
			Replied_ns: at + 20_000_000, Got_ns: calls.Unknown}, calls.NoCause)
		call := func(to int32) {
			sent := at + 1_000_000 + random.Int64N(2_000_000)
			add(calls.Call{Caller: 0, Callee: to, Sent_ns: sent, Received_ns: sent + 50_000,
				Replied_ns: sent + 300_000, Got_ns: sent + 350_000}, cause)
		}
		if call(1); k%20 == 19 {
			call(2)
		}
		set.Paths++
	}
	set.Arrange()
	return set
}

// hasSpike reports whether calls follow requests after some delay more often than by chance, by
// four standard deviations, as Project 5 demands of a spike.
func (c *correlation) hasSpike() bool {
	for _, n := range c {
		if n.after-n.before > 4*math.Sqrt(n.after+n.before) {
			return true
		}
	}
	return false
}

// Convolution misses what happens fewer than about 100 times: from the correlation alone, nobody
// can tell whether 50 calls to c follow requests by chance. WAP5 links each message, so it has
// trees with a call to c, even if there are few such calls.
func TestConvolutionMissesRareCalls(t *testing.T) {
	for _, c := range []struct {
		n     int
		spike bool
	}{{10, false}, {20, false}, {50, false}, {300, true}} {
		set := rareCalls(c.n)
		program := programNumbers(&set.Seen)
		found := correlate(placesOf(&set.Seen), program)
		if got := found[edge{0, program[2]}].hasSpike(); got != c.spike {
			t.Errorf("%d calls: the correlation has a spike: %v, want %v", c.n, got, c.spike)
		}
		links, right := wap5{}.Link(&set.Seen), 0
		for i := range set.Calls {
			right += count(set.Calls[i].Callee == 2 && links[i].Cause == set.Cause[i])
		}
		trees := 0
		for _, p := range TreePatterns(set.Places, MessagesOf(&set.Seen), Ranks["expectation"]) {
			if slices.ContainsFunc(p.Steps[1:], func(s TreeStep) bool { return s.To == "c" }) {
				trees += p.Count
			}
		}
		if float64(right) < 0.4*float64(c.n) || trees < c.n/2 {
			t.Errorf("%d calls: WAP5 has the causes of %d right, and %d trees with such a call",
				c.n, right, trees)
		}
	}
}
