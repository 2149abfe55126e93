package link

import (
	"math"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A model learns how often requests overtake others that wait: never, by chance, or in between.
func TestOvertaking(t *testing.T) {
	count := func(n, began, overtook float64) *queueCount {
		c := &queueCount{overtook: overtook}
		c.began[int(n)] = began
		return c
	}
	rare := 1000 * math.Exp(-2) / (1 + math.Exp(-2))
	for _, c := range []struct {
		name      string
		count     *queueCount
		low, high float64
	}{
		{"nothing was learnt", &queueCount{}, 0, 0},
		{"two wait, never", count(2, 1e5, 0), 3.9, 4},
		{"two wait, sometimes", count(2, 1000, rare), 1.8, 2},
		{"two wait, at random", count(2, 100, 50), 0, 0.01},
		{"eight wait, at random", count(8, 100, 350), 0, 0.01},
		{"the last is first", count(8, 100, 700), 0, 0},
	} {
		if x := c.count.overtaking(); x < c.low || x > c.high+1e-4 {
			t.Errorf("%s: %.3f, want %g to %g", c.name, x, c.low, c.high)
		}
	}
}

// The gain of an exchange is the change of the number of requests that are overtaken.
func TestQueueGain(t *testing.T) {
	random := seed.Random(t)
	m := newModel(1, 1, 1)
	m.overtaking = 1
	s := &sharing{m: m, order: &order{threads: 2}}
	const requests, calls = 80, 200
	for r := range requests {
		from := int64(10 * r)
		s.requests = append(s.requests, request{from: from, to: from + 400})
	}
	for c := range calls {
		s.calls = append(s.calls, call{from: int64(5*c + 3), acts: &acts{}})
		s.owner = append(s.owner, -1)
	}
	s.makeScripts()
	for c := range int32(calls) {
		if r := max(0, c/2-1-int32(random.IntN(12))); r < requests && random.IntN(4) > 0 {
			s.scripts[r] = append(s.scripts[r], c)
		}
	}
	s.findStarts()
	all := func() (n int) {
		for r := range s.starts {
			n += s.overtakes(int32(r))
		}
		return n
	}
	gains := map[int]int{}
	for range 2000 {
		from, to := int32(random.IntN(requests+1))-1, int32(random.IntN(requests+1))-1
		if from == to || from < 0 && to < 0 {
			continue
		}
		part := func(r int32) []int32 {
			if r < 0 {
				return nil
			}
			script := s.scripts[r]
			n := random.IntN(len(script) + 1)
			return script[n:min(n+random.IntN(3), len(script))]
		}
		mine, theirs := slices.Clone(part(from)), slices.Clone(part(to))
		early := func(all []int32, r int32) bool {
			return len(all) > 0 && r >= 0 && s.calls[all[0]].from < s.requests[r].from
		}
		if early(mine, to) || early(theirs, from) {
			continue
		}
		before, gain := all(), s.queueGain(from, to, mine, theirs)
		if all() != before {
			t.Fatal("queueGain changed a start")
		}
		for i, r := range []int32{from, to} {
			parts := [][]int32{mine, theirs, mine}
			if r >= 0 {
				s.replaceScript(r, 0, parts[i], parts[i+1], 0)
			}
		}
		if after := all(); gain != float64(before-after) {
			t.Fatalf("gain %g, but %d and then %d requests are overtaken", gain, before, after)
		}
		gains[int(gain)]++
	}
	if len(gains) < 5 {
		t.Errorf("gains %v: too few different ones", gains)
	}
}

// A request that its own thread begins at once waits in no queue. Nobody knows when a request
// begins whose calls may be missing from the window.
func TestStarts(t *testing.T) {
	turn := func(by, n uint32) act { return act{step: step{by, n}} }
	s := &sharing{
		requests: []request{{from: 10, to: 50, begin: turn(1, 4), reply: turn(2, 1)},
			{from: 1, to: 60}, {from: 11, to: 90}, {from: 12, to: 20, begin: turn(1, 6),
				reply: turn(1, 7)}},
		calls: []call{{from: 5, acts: &acts{sent: turn(1, 5)}},
			{from: 70, acts: &acts{sent: turn(1, 6)}}}}
	for _, c := range []struct {
		request int32
		script  []int32
		want    int64
	}{
		{0, []int32{0}, farFuture}, {0, []int32{1}, 70}, {0, nil, 50}, {1, nil, farFuture},
		{2, nil, farFuture}, {3, nil, farFuture}, {1, []int32{0}, 5},
	} {
		if got := s.startOf(c.request, c.script); got != c.want {
			t.Errorf("request %d with calls %v begins at %d, want %d", c.request, c.script, got,
				c.want)
		}
	}
}
