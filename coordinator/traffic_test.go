package coordinator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/runs"
)

// The server keeps a limited number of pairs for each node. Pairs of the newest run come first, and
// in each run the pairs with the most tuples.
func TestLearntTraffic(t *testing.T) {
	var l learntPairs
	var hub []learntPair
	for i := range 2 * maxTalks {
		hub = append(hub, learntPair{runs.Traffic{A: "a", B: fmt.Sprintf("b%02d", i),
			Tuples: 100 - i}, "monday"})
	}
	l.keep(hub)
	if len(l.Pairs) != maxTalks || !slices.Equal(l.Pairs, hub[:maxTalks]) {
		t.Fatalf("keeps %v", l.Pairs)
	}
	newer := []learntPair{
		{runs.Traffic{A: "a", B: "b03", Tuples: 1}, "tuesday"},
		{runs.Traffic{A: "a", B: "c", Tuples: 1}, "tuesday"},
	}
	l.keep(append(newer, l.Pairs...))
	want := slices.Concat(newer, hub[:3], hub[4:maxTalks-1])
	if !slices.Equal(l.Pairs, want) {
		t.Errorf("keeps %v, want %v", l.Pairs, want)
	}
	if got := l.of["c"]; !slices.Equal(got, []learntOther{{"a", "tuesday"}}) {
		t.Errorf("c shares tuples with %v", got)
	}
}
