package link

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A model learns from quiet times first, and in the end from all. If no times are quieter than
// others, it learns from all at once.
func TestQuietTimes(t *testing.T) {
	s := &sharing{}
	for r := range int32(200) {
		s.requests = append(s.requests, request{})
		if r < 100 {
			s.candidates = append(s.candidates, []int32{r})
		} else if r%10 == 0 {
			s.candidates = append(s.candidates,
				[]int32{r, r + 1, r + 2, r + 3, r + 4, r + 5, r + 6})
		}
	}
	p := &program{sharers: []*sharing{s}}
	busy := p.busyRequests()
	got := []int32{busyLimit(busy, 0), busyLimit(busy, 0.6), busyLimit(busy, 0.7)}
	if diff := cmp.Diff([]int32{1, 7, math.MaxInt32}, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if s.busy[99] != 1 || s.busy[101] != 7 || s.busy[107] != 0 {
		t.Errorf("busy: %v", s.busy)
	}
	s.candidates = s.candidates[:100] // only quiet times
	if busy := p.busyRequests(); busy != nil || busyLimit(busy, 0) != math.MaxInt32 {
		t.Errorf("%v is quieter than the rest", busy)
	}
}

// A thread goes on with what it did last, unless it did something else since.
func TestDirectlyAfter(t *testing.T) {
	p := &place{requests: []request{{from: 10, to: 60, begin: actOf(1), reply: actOf(1)},
		{from: 10, to: 80, begin: actOf(1), reply: actOf(2)}},
		sends: []send{{from: 20, to: 40, acts: acts{actOf(1), actOf(2)}},
			{from: 30, to: 50, acts: acts{actOf(1), actOf(1)}}}}
	p.numberTurns()
	r, s := p.requests, p.sends
	for i, c := range []struct {
		last, next act
		direct     bool
	}{
		{r[0].begin, s[0].sent, true}, // one call received both requests
		{r[1].begin, s[0].sent, true},
		{r[0].begin, s[1].sent, false},
		{s[1].got, r[0].reply, true},
		{s[0].sent, r[0].reply, false},
		{s[1].got, r[1].reply, false}, // another thread
		{s[0].got, r[1].reply, true},
	} {
		if c.next.directlyAfter(c.last) != c.direct {
			t.Errorf("case %d: %+v after %+v, want %t", i, c.next, c.last, c.direct)
		}
	}
}
