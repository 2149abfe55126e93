package analysis

import (
	"cmp"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// After a page has been cleared and filled again several times, it has, for each id, exactly the
// events that were last put into it. It reports adjacent rows as alike if and only if they are.
func TestPageHasWhatIsPutIntoIt(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	r := seed.Random(t)
	rankOf := []uint8{0, 0, 0, 5, 5, 63} // by source
	p := new(page)
	for range 50 {
		want := make([][]passage, pageRows)
		row := 0
		for range r.IntN(20) {
			source := r.IntN(len(rankOf))
			var events []logstore.Event
			if r.IntN(2) == 0 { // if not, the ids go on where the last events ended
				row = r.IntN(pageRows)
			}
			for range 1 + r.IntN(500) {
				events = append(events, logstore.Event{
					Counter: r.Uint64(), ID: 77<<pageBits | uint64(row),
				})
				want[row] = append(want[row], passage{events[len(events)-1].Counter, int32(source)})
				if r.IntN(200) > 0 {
					row = min(row+1, pageRows-1)
				}
			}
			p.fill(events, uint16(source), rankOf[source])
		}
		p.sortRepeats()
		kind := func(row int) []int { // the sources by rank; none if one rank has several events
			var sources, ranks []int
			for _, e := range want[row] {
				sources, ranks = append(sources, int(e.source)),
					append(ranks, int(rankOf[e.source]))
			}
			slices.Sort(sources)
			slices.Sort(ranks)
			if len(slices.Compact(ranks)) < len(sources) {
				return nil
			}
			return sources
		}
		for row := range want {
			got := p.appendEvents(row, nil)
			order := func(a, b passage) int {
				return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.reading, b.reading))
			}
			slices.SortFunc(got, order)
			slices.SortFunc(want[row], order)
			if !slices.Equal(got, want[row]) {
				t.Fatalf("row %d has %v, want %v", row, got, want[row])
			}
			if len(got) == 0 {
				continue
			}
			alike := 0
			for sources := kind(row); sources != nil && row+alike < pageRows &&
				slices.Equal(kind(row+alike), sources); alike++ {
			}
			if n := p.countAlike(row); n != alike {
				t.Fatalf("from row %d on %d are alike, want %d", row, n, alike)
			}
		}
		p.clear()
	}
}
