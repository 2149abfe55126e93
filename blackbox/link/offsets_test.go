package link

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/internal/callgen"
	"github.com/google/go-cmp/cmp"
)

// After clocks are aligned, hardly any call seems to begin before the request that caused it, and
// hardly any response seems to come after the reply.
func TestAlignedClocks(t *testing.T) {
	for name, c := range map[string]struct {
		app  callgen.App
		seed uint64
	}{
		"media": {callgen.Apps["media"], 1}, "node": {callgen.Apps["node"], 3},
		"random-2": {callgen.Random(2), 1},
	} {
		set := callgen.Make(c.app, callgen.Options{Requests: 700, PerSecond: 150, Seed: c.seed})
		callgen.Compress(set, 10)
		for _, p := range placesOf(&set.Seen) {
			p.subtractOffsets(&set.Seen, p.alignAll(&set.Seen), slack_ns)
			requests := map[int32]request{}
			for _, r := range p.requests {
				requests[r.call] = r
			}
			n, early, late := map[int32]int{}, map[int32]int{}, map[int32]int{}
			for _, s := range p.sends {
				r := requests[set.Cause[s.call]]
				n[s.callee]++
				early[s.callee] += count(s.from < r.from)
				late[s.callee] += count(s.to > r.to)
			}
			for k := range n {
				if (early[k]+late[k])*50 > n[k] {
					t.Errorf("%s: of %d calls from %s to %s, %d seem to begin too early, and %d "+
						"to end too late", name, n[k], set.Places[p.number].Program,
						set.Places[k].Program, early[k], late[k])
				}
			}
		}
	}
}

// The offset of a clock moves away from the limit that it was found by, but not further than this
// limit may be wrong, and not further than to the middle between this limit and the other one. If
// the limits contradict each other, it does not move.
func TestOffsetBetweenLimits(t *testing.T) {
	for _, c := range []struct {
		begin, end lagSpan
		want       int64
	}{
		{lagSpan{least: 50, width: 10}, lagSpan{least: 30, width: 20}, 40},
		{lagSpan{least: 50, width: 60}, lagSpan{least: 30, width: 70}, 10},
		{lagSpan{least: 50, width: 20}, lagSpan{least: 30, width: 10}, -20},
		{lagSpan{least: 50, width: 10}, lagSpan{least: -60, width: 20}, 50},
	} {
		offsets := (&clocks{
			callees: []int32{7}, sharp: map[int32]bool{},
			lags: func(of lagKind, _, _ int) (lagSpan, bool) {
				return map[lagKind]lagSpan{beginBegin: c.begin, endEnd: c.end}[of], true
			},
			fits: func(int32, int64) bool { return true },
		}).findOffsets()
		if got := offsets[7]; got != c.want {
			t.Errorf("offset %d, want %d: %+v", got, c.want, c)
		}
	}
}

// If a clock is set differently, the offset that is found for it differs by exactly as much. This
// also holds for short data in which many requests are open at once.
func TestOffsetsMoveWithClocks(t *testing.T) {
	type pair struct{ caller, callee int32 }
	find := func(set *calls.Set) map[pair]int64 {
		all := map[pair]int64{}
		for _, p := range placesOf(&set.Seen) {
			for callee, offset := range p.alignAll(&set.Seen) {
				all[pair{p.number, callee}] = offset
			}
		}
		return all
	}
	for _, app := range []string{"media", "node"} {
		for seed := range uint64(20) {
			set := callgen.Make(callgen.Apps[app],
				callgen.Options{Requests: 150, PerSecond: 1500, Seed: seed})
			want := find(set)
			shifted, old := callgen.WithOtherClocks(set, 10_000_000, seed)
			moved := map[int32]int64{}
			for i, c := range shifted.Calls {
				moved[c.Callee] = c.Received_ns - set.Calls[old[i]].Received_ns
			}
			for of := range want {
				want[of] += moved[of.callee] - moved[of.caller]
			}
			if diff := cmp.Diff(want, find(shifted)); diff != "" {
				t.Errorf("%s, seed %d (-want +got):\n%s", app, seed, diff)
			}
		}
	}
}
