package callgen

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/google/go-cmp/cmp"
)

func TestSameSeedSameCalls(t *testing.T) {
	for name, app := range Apps {
		o := Options{Requests: 100, PerSecond: 100, Seed: 5}
		a, b := Make(app, o), Make(app, o)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s (-first +second):\n%s", name, diff)
		}
		for i, c := range a.Calls {
			if c.Replied_ns < c.Received_ns {
				t.Errorf("%s: call %d was replied to before it was received", name, i)
			}
			if k := a.Cause[i]; k >= 0 && a.Calls[k].Callee != c.Caller {
				t.Errorf("%s: the cause of call %d is in another place", name, i)
			}
		}
	}
}

// Compress and ShiftClocks do not change how long the services are busy with calls.
func TestCompressAndShift(t *testing.T) {
	o := Options{Requests: 100, PerSecond: 100, Seed: 5}
	set := Make(Apps["hotel"], o)
	length := func(s *calls.Set) int64 {
		return s.Calls[len(s.Calls)-1].Received_ns - s.Calls[0].Received_ns
	}
	served := func(s *calls.Set) (sum int64) {
		for _, c := range s.Calls {
			sum += c.Replied_ns - c.Received_ns
		}
		return sum
	}
	long, busy := length(set), served(set)
	Compress(set, 10)
	if l := length(set); l < long/12 || l > long/8 {
		t.Errorf("compressed by 10 from %d to %d ns", long, l)
	}
	ShiftClocks(set, 10e6, 1)
	if s := served(set); s != busy {
		t.Errorf("services were busy for %d ns, before for %d", s, busy)
	}
}

// The parts that Parts yields follow each other in time. Together they have all requests.
func TestParts(t *testing.T) {
	first, end, paths, n := int64(0), int64(0), 0, 0
	for set := range Parts(Apps["hotel"], Options{Requests: 4500, PerSecond: 100, Seed: 5}, 10) {
		if n == 0 {
			first = set.Calls[0].Began_ns()
		}
		n++
		paths += set.Paths
		if begin := set.Calls[0].Began_ns(); begin <= end || set.Quantum_ns != 1000 {
			t.Errorf("part %d begins at %d, the last one ends at %d; quantum %d", n, begin, end,
				set.Quantum_ns)
		}
		for i := range set.Calls {
			end = max(end, set.Calls[i].Replied_ns, set.Calls[i].Got_ns)
		}
	}
	if took := end - first; n != 3 || paths != 4500 || took < 4e9 || took > 6e9 {
		t.Errorf("%d parts with %d paths take %d ns, want 3 with 4500 in about 4.5 s", n, paths,
			took)
	}
}

// Each random application has 6 to 10 services, and answers every request.
func TestRandom(t *testing.T) {
	for seed := range uint64(100) {
		app := Random(seed)
		if n := len(app.Services); n < 6 || n > 10 {
			t.Errorf("seed %d: %d services", seed, n)
		}
		set := Make(app, Options{Requests: 5, PerSecond: 10, Seed: seed})
		if set.Paths != 5 || len(set.Calls) < 5 {
			t.Errorf("seed %d: %d calls, %d paths", seed, len(set.Calls), set.Paths)
		}
	}
}
