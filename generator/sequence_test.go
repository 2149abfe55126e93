package generator

import (
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// modelCheck is a model of a checker that remembers all ids of a source.
func modelCheck(ids []uint64, end *End) Check {
	want := Check{Sources: 1, Received: uint64(len(ids))}
	seen := map[uint64]bool{}
	lowest, highest := ^uint64(0), uint64(0)
	for _, id := range ids {
		switch {
		case seen[id]:
			want.Duplicates++
		case id < highest:
			want.Reordered++
		}
		seen[id] = true
		lowest, highest = min(lowest, id), max(highest, id)
	}
	if end != nil {
		want.Ended = 1
		lowest, highest = min(lowest, end.First), max(highest, end.First+end.Sent-1)
	}
	for id := lowest; id <= highest; id++ {
		if !seen[id] {
			want.Lost++
		}
	}
	return want
}

func TestCheckerAgreesWithAModel(t *testing.T) {
	r := seed.Random(t)
	for round := range 500 {
		first := 3<<countBits + uint64(r.IntN(50))
		var ids []uint64
		for k := range uint64(1 + r.IntN(60)) {
			if r.IntN(8) > 0 {
				ids = append(ids, first+k)
			}
			if r.IntN(10) == 0 {
				ids = append(ids, first+k-uint64(r.IntN(int(min(k, 5))+1)))
			}
		}
		for range r.IntN(10) {
			if len(ids) > 1 {
				i := r.IntN(len(ids) - 1)
				ids[i], ids[i+1] = ids[i+1], ids[i]
			}
		}
		if r.IntN(5) == 0 {
			rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		}
		if len(ids) == 0 {
			continue
		}
		var c checker
		for _, id := range ids {
			c.see(id)
		}
		var end *End
		if r.IntN(2) == 0 {
			end = &End{first, 70}
			c.noteEnd(*end)
		}
		if got, want := c.check(), modelCheck(ids, end); got != want {
			t.Fatalf("round %d: ids %v, end %v: %+v, want %+v", round, ids, end, got, want)
		}
	}
}

func TestCheckerKnowsNothingLostOfWhoSentNothing(t *testing.T) {
	var c checker
	c.noteEnd(End{})
	if got := c.check(); got != (Check{}) {
		t.Errorf("%+v", got)
	}
	c.noteEnd(End{First: 1 << countBits, Sent: 5})
	if got := c.check(); got != (Check{Sources: 1, Ended: 1, Lost: 5}) || got.Whole() {
		t.Errorf("%+v, want five lost", got)
	}
}

// A checker remembers a limited number of gaps. The ids in gaps that it forgets still count as
// lost.
func TestCheckerForgetsTheOldestGaps(t *testing.T) {
	var c checker
	const n = 3 * maxGaps
	for k := range uint64(n) {
		c.see(2 * k)
	}
	if got := c.check().Lost; got != n-1 {
		t.Errorf("lost %d, want %d", got, n-1)
	}
	if gaps := len(c.of(0).gaps); gaps != maxGaps {
		t.Errorf("%d gaps remembered, want %d", gaps, maxGaps)
	}
	c.see(1) // late, from a gap that was forgotten
	if got := c.check(); got.Lost != n-2 || got.Duplicates != 0 {
		t.Errorf("%+v, want one less lost", got)
	}
}

func BenchmarkCheck(b *testing.B) {
	var c checker
	for i := range uint64(b.N) {
		c.see(i)
	}
}
