package link

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// The links of a long stream are as good as the links of all calls at once, and its memory stays
// bounded.
func TestStream(t *testing.T) {
	const window = 200
	parts := 12
	if proof.WantsFull() {
		parts = 400
	}
	set := made("hotel", 120, 100)
	length := set.Calls[len(set.Calls)-1].Began_ns() - set.Calls[0].Began_ns() + 50_000_000
	var truth []int64 // true cause of the call with each number, since the first that is not linked
	links, right, said, wrong, most, first := 0, 0, 0, 0, 0, int64(0)
	s := NewStream(set.Quantum_ns, window, func(l Streamed) {
		links++
		is := l.Cause == truth[l.Call-first]
		if is {
			right++
		}
		if l.Probability >= Sure {
			said++
			wrong += count(!is)
		}
	})
	for _, p := range set.Places {
		s.Place(p)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	want, early := 0, uint64(0)
	for part := range parts {
		at := s.next
		for i, c := range set.Calls {
			for _, m := range []*int64{&c.Sent_ns, &c.Received_ns, &c.Replied_ns, &c.Got_ns} {
				if *m != calls.Unknown {
					*m += int64(part) * length
				}
			}
			cause := int64(set.Cause[i])
			if cause >= 0 {
				cause += at
			}
			truth = append(truth, cause)
			if c.Caller >= 0 {
				want++
			}
			if n := s.Push(c); n != at+int64(i) {
				t.Fatalf("call %d has the number %d", at+int64(i), n)
			}
			most = max(most, s.Kept())
		}
		if keep := 3 * len(set.Calls); len(truth) > keep { // later links are of later calls
			first += int64(len(truth) - keep)
			truth = append([]int64(nil), truth[len(truth)-keep:]...)
		}
		if part == parts/3 {
			early = heap()
		}
	}
	late := heap()
	s.Flush()
	if links != want || float64(right) < 0.98*float64(want) || wrong*100 > said ||
		said < want*8/10 {
		t.Errorf("%d of %d calls are linked, %d right; %d sure, of which %d are wrong", links, want,
			right, said, wrong)
	}
	if most > 4*window || s.Kept() != 0 {
		t.Errorf("%d calls were kept, with a window of %d, and %d in the end", most, window,
			s.Kept())
	}
	if late > early+1<<20 {
		t.Errorf("the memory grew from %d to %d bytes", early, late)
	}
}

// A request that stays open for many windows is kept, because it may cause later calls. But even if
// many requests never end, the memory stays bounded.
func TestStreamKeepsOpenRequests(t *testing.T) {
	s := NewStream(1, 50, func(Streamed) {})
	a, b := s.Place(calls.Place{Program: "a"}), s.Place(calls.Place{Program: "b"})
	push := func(callee int32, from, to int64) int64 {
		return s.Push(calls.Call{Caller: calls.Outside, Callee: callee, Sent_ns: calls.Unknown,
			Received_ns: from, Replied_ns: to, Got_ns: calls.Unknown})
	}
	long := push(a, 0, 1e9)
	for i := range int64(1000) {
		push(b, 1000+i*1000, 1500+i*1000)
	}
	if !slices.Contains(s.id, long) {
		t.Errorf("of the kept calls %v, none is call %d", s.id, long)
	}
	for i := range int64(1000) {
		push(b, 2_000_000+i*1000, 2e9)
	}
	if s.Kept() > 4*50 {
		t.Errorf("%d calls are kept", s.Kept())
	}
}

// streamed links calls as a stream.
func streamed(set *calls.Set, window int) []Link {
	links := noLinks(&set.Seen)
	s := NewStream(set.Quantum_ns, window, func(l Streamed) {
		links[l.Call] = Link{Cause: int32(l.Cause), Probability: l.Probability}
	})
	for _, p := range set.Places {
		s.Place(p)
	}
	for _, c := range set.Calls {
		s.Push(c)
	}
	s.Flush()
	return links
}

// A stream gives nearly the same links as the method gives with all calls at once. The model of a
// window has learnt from fewer calls, so links of doubtful calls may differ.
func TestStreamIsLikeTheWhole(t *testing.T) {
	for app, rate := range map[string]float64{"hotel": 300, "media": 20} {
		set := made(app, map[string]int{"hotel": 2000, "media": 200}[app], rate)
		whole := learntMethod{window: 1e6}.Link(&set.Seen)
		links, said, differ, saidDiffer := 0, 0, 0, 0
		for i, l := range streamed(set, len(set.Calls)/12) {
			if set.Calls[i].Caller < 0 {
				continue
			}
			links++
			differ += count(l.Cause != whole[i].Cause)
			if l.Probability >= Said && whole[i].Probability >= Said {
				said++
				saidDiffer += count(l.Cause != whole[i].Cause)
			}
		}
		if differ*100 > 2*links || saidDiffer*200 > said || said < links*9/10 {
			t.Errorf("%s: %d of %d links differ, and %d of %d that both call sure", app, differ,
				links, saidDiffer, said)
		}
	}
}

// If the cause of a call is known from other sources, the stream keeps to it, even if another
// request is as probable. It forgets known causes together with their calls.
func TestStreamKnown(t *testing.T) {
	const window, pairs = 60, 200
	random := rand.New(rand.NewPCG(1, 22))
	truth, right, links := map[int64]int64{}, 0, 0
	s := NewStream(1, window, func(l Streamed) {
		links++
		right += count(l.Cause == truth[l.Call] && l.Probability >= Sure)
	})
	a, b := s.Place(calls.Place{Program: "a"}), s.Place(calls.Place{Program: "b"})
	for i := range int64(pairs) {
		at := i * 100_000_000
		outer := func() int64 {
			return s.Push(calls.Call{Caller: calls.Outside, Callee: a, Sent_ns: calls.Unknown,
				Received_ns: at, Replied_ns: at + 9_000_000, Got_ns: calls.Unknown})
		}
		both := [2]int64{outer(), outer()}
		cause := both[random.IntN(2)]
		call := s.PushKnown(calls.Call{Caller: a, Callee: b, Sent_ns: at + 3_000_000,
			Received_ns: at + 3_100_000, Replied_ns: at + 4_000_000, Got_ns: at + 4_100_000}, cause)
		truth[call] = cause
		if len(s.known) > s.Kept() {
			t.Fatalf("%d known causes of %d kept calls", len(s.known), s.Kept())
		}
	}
	s.Flush()
	if links != pairs || right != pairs || len(s.known) != 0 {
		t.Errorf("of %d links, %d are the known ones; %d causes are kept", links, right,
			len(s.known))
	}
}
