package analysis

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// If a program has more channels than one answer can distinguish, other nodes still keep all their
// points. The answer names what it leaves out.
func TestMorePointsThanAreToldApart(t *testing.T) {
	channels := channelsOf([]uint64{1, 2, 3}, []uint64{1, 2, 3})
	channels[0].Node, channels[1].Node = 1, 1
	few := analyze(t, write(t, channels...), Options{Reference: "B"})
	for i := range 2 * maxPoints {
		c := simrun.Channel{Node: 0, Name: fmt.Sprintf("aa%d/recv", i)}
		for id := range uint64(20) {
			c.Records = append(c.Records, simrun.Record{Time: simrun.Hz, ID: 1000 + id})
		}
		channels = append(channels, c)
	}
	a := analyze(t, write(t, channels...), Options{Reference: "B"})
	if len(a.Points) != maxPoints || !a.Partial || !mentions(a, "66 of 130 are left out") {
		t.Fatalf("%d points, missing %v", len(a.Points), a.Missing)
	}
	span := func(a *Answer) (from, to string, n uint64) {
		for _, l := range a.Spans {
			if l.Pairs[0].From == "B" {
				return l.From, l.To, l.All.Count
			}
		}
		return "", "", 0
	}
	from, to, n := span(few)
	from2, to2, n2 := span(a)
	if d := cmp.Diff([]any{from, to, n}, []any{from2, to2, n2}); d != "" || n != 3 {
		t.Errorf("what B says of itself is other beside such a node:\n%s", d)
	}
}

// inTurns chooses one item of each group in turn. An item that is in two groups is chosen once.
func TestInTurns(t *testing.T) {
	groups := [][]int{{1, 2, 3, 4, 5}, {9}, {2, 8}}
	for most, want := range map[int]map[int]bool{
		0:  {},
		1:  {1: true},
		3:  {1: true, 9: true, 2: true},
		4:  {1: true, 9: true, 2: true, 8: true},
		90: {1: true, 2: true, 3: true, 4: true, 5: true, 8: true, 9: true},
	} {
		if d := cmp.Diff(want, inTurns(groups, most)); d != "" {
			t.Errorf("at most %d:\n%s", most, d)
		}
	}
}
