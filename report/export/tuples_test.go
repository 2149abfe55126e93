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
		for _, t := range append(c.sortedTuples(), first.sortedTuples()...) {
			ids = append(ids, t.id)
		}
		if want := []uint64{2, 3, 4, 6, 5}; !slices.Equal(ids, want) {
			t.Errorf("kept %d, want %d", ids, want)
		}
		slices.Reverse(tuples)
	}
}

// Here, tuples that were made of others take longer than all other tuples. Nevertheless they do not
// displace the slowest of the other tuples.
func TestSlowestTuplesAndWindows(t *testing.T) {
	c := choice{most: 2, slowest: true}
	for id := range uint64(10) {
		row := analysis.DurationRow{Kind: endToEnd, Whole: true}
		row.Lo, row.Hi = int64(id), int64(id)
		one := &tuple{id: id, durations: []analysis.DurationRow{row}}
		if id > 5 {
			one.parents = []uint64{1, 2}
		}
		c.add(one)
	}
	var ids []uint64
	for _, t := range c.sortedTuples() {
		ids = append(ids, t.id)
	}
	if want := []uint64{5, 4, 9, 8}; !slices.Equal(ids, want) {
		t.Errorf("kept %d, want %d", ids, want)
	}
	if got, want := c.describeChoice(10),
		"of 10 tuples, the 2 slowest, and the 2 slowest of those that were "+
			"made of others"; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
}
