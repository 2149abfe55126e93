package sim

import (
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// TestQueue compares a queue with a sorted list, while time passes.
func TestQueue(t *testing.T) {
	r := seed.Random(t)
	for range 50 {
		q := newQueue(uint8(r.IntN(12)))
		var list []Event
		now, number := Time(0), uint32(0)
		for range 200 {
			for range r.IntN(20) {
				number++
				e := Event{At: now + Time(r.Int64N(1<<uint(r.IntN(22)))), round: uint16(r.IntN(2)),
					number: number}
				q.push(e)
				list = append(list, e)
			}
			slices.SortFunc(list, func(a, b Event) int {
				if a.comesBefore(&b) {
					return -1
				}
				return 1
			})
			first := timeAndRound{at: Never}
			if len(list) > 0 {
				first = timeAndRound{list[0].At, list[0].round}
			}
			if got := q.firstMoment(); got != first {
				t.Fatalf("the next event comes at %v, want %v", got, first)
			}
			until := timeAndRound{now + Time(r.Int64N(1<<12)), uint16(r.IntN(2))}
			n := 0
			for n < len(list) && (timeAndRound{list[n].At, list[n].round}).before(until) {
				n++
			}
			got := q.takeUntil(nil, until)
			slices.SortFunc(got, func(a, b Event) int {
				if a.comesBefore(&b) {
					return -1
				}
				return 1
			})
			if !slices.Equal(got, list[:n]) {
				t.Fatalf("before %v: %d events, want %d", until, len(got), n)
			}
			list = list[n:]
			now = until.at
			q.advanceTo(now)
			if len(q.allEvents()) != len(list) || q.len() != len(list) {
				t.Fatalf("%d events are left, want %d", q.len(), len(list))
			}
		}
	}
}
