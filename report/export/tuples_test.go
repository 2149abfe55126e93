package export

import (
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// The slowest tuples are those that surely took longest. Of equally slow tuples, those with the
// lowest ids are kept, in whatever order the tuples come.
func TestSlowestTuples(t *testing.T) {
	tuples := []*tuple{}
	for _, d := range []struct {
		id, begun uint64
		lo, hi    int64
		kind      string
	}{
		{1, 10, 5, 99, endToEnd}, {2, 9, 20, 21, endToEnd}, {3, 8, 10, 40, endToEnd},
		{4, 7, 10, 11, endToEnd}, {5, 6, 30, 31, "transfer"}, {6, 5, 10, 10, endToEnd},
	} {
		row := analysis.DurationRow{Kind: d.kind, Whole: true}
		row.Lo, row.Hi = d.lo, d.hi
		tuples = append(tuples, &tuple{id: d.id, durations: []analysis.DurationRow{row},
			events: []analysis.EventRow{{At: tscratio.At(d.begun)}}})
	}
	for range 2 {
		c := choice{most: 3, slowest: true}
		first := choice{most: 2}
		for _, t := range tuples {
			c.add(t)
			first.add(t)
		}
		var ids []uint64
		for _, t := range append(c.sorted(), first.sorted()...) {
			ids = append(ids, t.id)
		}
		if want := []uint64{2, 3, 4, 6, 5}; !slices.Equal(ids, want) {
			t.Errorf("kept %d, want %d", ids, want)
		}
		slices.Reverse(tuples)
	}
}
