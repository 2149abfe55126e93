package link

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// chainCalls makes the calls of a program that calls the same service again and again for one kind
// of request, and a few services in turn for the other kind. It waits for each response.
func chainCalls(seed uint64) *calls.Set {
	random := rand.New(rand.NewPCG(22, seed))
	set := &calls.Set{Seen: calls.Seen{Quantum_ns: 1, Places: []calls.Place{{Program: "front"},
		{Program: "currency"}, {Program: "cart"}, {Program: "products"}}}}
	at := int64(0)
	for range 600 {
		at += int64(random.ExpFloat64() * 6e6)
		callees := []int32{3, 1, 2, 1, 3}
		if random.IntN(3) == 0 {
			callees = []int32{1, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1}
		}
		request := int32(len(set.Calls))
		set.Calls = append(set.Calls, calls.Call{Caller: calls.Outside, Callee: 0,
			Sent_ns: calls.Unknown, Received_ns: at, Got_ns: calls.Unknown})
		set.Cause = append(set.Cause, calls.NoCause)
		t := at + 300_000 + random.Int64N(400_000)
		for _, callee := range callees {
			c := calls.Call{Caller: 0, Callee: callee, Sent_ns: t, Received_ns: t + 150_000}
			c.Replied_ns = c.Received_ns + 100_000 + int64(random.ExpFloat64()*300_000)
			c.Got_ns = c.Replied_ns + 150_000
			t = c.Got_ns + 10_000 + random.Int64N(15_000)
			set.Calls, set.Cause = append(set.Calls, c), append(set.Cause, request)
		}
		set.Calls[request].Replied_ns = t + 300_000 + random.Int64N(400_000)
		for len(set.Path) < len(set.Calls) {
			set.Path = append(set.Path, int32(set.Paths))
		}
		set.Paths++
	}
	set.Arrange()
	return set
}

// If a long chain of calls was given to a wrong request, it is given back as a whole: each of its
// calls alone would fit the right request even less.
func TestChains(t *testing.T) {
	checkPaths(t, 3, chainCalls, 0.985, 200)
}

// checkPaths checks sets of several seeds: at least a share of the paths must be right, and at most
// one of so many sure links may be wrong.
func checkPaths(t *testing.T, seeds uint64, draw func(uint64) *calls.Set, least float64, sure int) {
	t.Helper()
	for seed := range seeds {
		set := draw(seed)
		s := Judge(set, Methods[0].Link(&set.Seen))
		t.Logf("%+v", s)
		if pathsRight(s) < least || s.SureWrong > s.Sure/sure {
			t.Errorf("seed %d: %.1f %% of paths are right, and %d of %d sure links are wrong",
				seed, 100*pathsRight(s), s.SureWrong, s.Sure)
		}
	}
}

// If all calls of some requests were taken for calls without a cause, and the model learnt this,
// they are given back as a whole: a request with only one of its calls would be less probable.
func TestAdoptChain(t *testing.T) {
	set := chainCalls(7)
	places := placesOf(&set.Seen)
	p := newProgram(places, programNumbers(&set.Seen), set.Quantum_ns, nil)
	p.openWindow(p.windows(math.MaxInt32)[0])
	s, x := p.sharers[0], p.m.newExperience()
	s.shareTruly(set.Cause)
	truth := slices.Clone(s.owner)
	for r := 0; r < len(s.requests); r += 20 {
		for _, c := range s.scripts[r] {
			s.owner[c] = -1
		}
		s.scripts[r] = nil
	}
	s.teach(x, 1, math.MaxInt32)
	p.m.learn(x)
	p.m.temper = 1
	s.rescore()
	s.surveyOwners(true)
	lost := 0
	for c := range truth {
		lost += count(s.owner[c] != truth[c])
	}
	if lost > len(truth)/100 {
		t.Errorf("%d of %d calls were not given back", lost, len(truth))
	}
}

// searchCalls makes the calls of a program that asks three shards at once for each request. When a
// shard has answered, the program at once fetches documents. Only the callees' moments are known.
func searchCalls(seed uint64) *calls.Set {
	random := rand.New(rand.NewPCG(23, seed))
	around := func(ns, spread float64) int64 {
		return int64(ns * math.Exp(spread*random.NormFloat64()))
	}
	set := &calls.Set{Seen: calls.Seen{Quantum_ns: 1, Places: []calls.Place{{Program: "mixer"},
		{Program: "shard-a"}, {Program: "shard-b"}, {Program: "shard-c"}, {Program: "docs"}}}}
	at := int64(0)
	for range 400 {
		at += int64(random.ExpFloat64() * 12e6)
		request := int32(len(set.Calls))
		add := func(caller, callee int32, from, to int64) {
			set.Calls = append(set.Calls, calls.Call{Caller: caller, Callee: callee,
				Sent_ns: calls.Unknown, Received_ns: from, Replied_ns: to, Got_ns: calls.Unknown})
			set.Cause = append(set.Cause, request)
			set.Path = append(set.Path, int32(set.Paths))
		}
		add(calls.Outside, 0, at, at)
		set.Cause[request] = calls.NoCause
		latest := at
		for shard := int32(1); shard <= 3; shard++ {
			from := at + around(200_000, 0.3)
			to := from + around(3e6, 1.1)
			if random.IntN(3) == 0 { // from a cache
				to = from + around(200_000, 0.4)
			}
			add(0, shard, from, to)
			from = to + around(250_000, 0.3)
			to = from + around(300_000, 0.9)
			add(0, 4, from, to)
			latest = max(latest, to)
		}
		set.Calls[request].Replied_ns = latest + around(300_000, 0.3)
		set.Paths++
	}
	set.Arrange()
	return set
}

// Calls that each follow one of several calls at once mislead the alignment of clocks that comes
// after the first learning. Then the first alignment is kept, because it explains the data better.
func TestParallelChains(t *testing.T) {
	checkPaths(t, 2, searchCalls, 0.8, 100)
}
