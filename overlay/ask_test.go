package overlay

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// TestRecentRemembers compares what a node remembers with a plain list of its requests: the node
// must remember the last MaxRecent requests of the last RecentLife. Older requests may be
// forgotten.
func TestRecentRemembers(t *testing.T) {
	r := seed.Random(t)
	var kept recentRequests
	var all []answeredRequest
	now, most := uint32(0), 0
	for id := range uint64(40_000) {
		if r.IntN(5000) == 0 {
			now += 2 * uint32(RecentLife/AskRetry) // a pause, after which nothing is needed
			kept.forgetAll(now)
			if len(kept.all) > 0 {
				t.Fatalf("%d requests are remembered after a pause", len(kept.all))
			}
		} else if r.IntN(1+int(id>>8)%20) == 0 {
			now++
		}
		kept.forgetAll(now)
		a := answeredRequest{from: "a", id: id, came: now, ready: true}
		kept.rememberRequest(a)
		all = append(all, a)
		all = all[max(0, len(all)-MaxRecent):]
		most = max(most, len(kept.all))
		if len(kept.all) > MaxRecent {
			t.Fatalf("%d requests are remembered", len(kept.all))
		}
		one := all[r.IntN(len(all))]
		if got := kept.find("a", one.id); !one.isOver(now) && (got == nil || *got != one) {
			t.Fatalf("request %d of %d is forgotten", one.id, id)
		}
		if kept.find("b", one.id) != nil || kept.find("a", id+1) != nil {
			t.Fatal("a request is remembered that never came")
		}
	}
	if most != MaxRecent {
		t.Errorf("at most %d requests were remembered at a time: the test is too easy", most)
	}
}
