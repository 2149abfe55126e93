package link

import (
	"math/rand/v2"
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
	for seed := range uint64(3) {
		set := chainCalls(seed)
		s := Judge(set, Methods[0].Link(&set.Seen))
		t.Logf("%+v", s)
		if pathsRight(s) < 0.985 || s.SureWrong > s.Sure/200 {
			t.Errorf("seed %d: %.1f %% of paths are right, and %d of %d sure links are wrong",
				seed, 100*pathsRight(s), s.SureWrong, s.Sure)
		}
	}
}
