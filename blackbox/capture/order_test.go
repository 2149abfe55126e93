package capture

import (
	"cmp"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// Messages of several rings come into the order of their stamps. Those with the same stamp keep
// their order.
func TestOrder(t *testing.T) {
	random := seed.Random(t)
	var o order
	for range 300 {
		var all []seenMessage
		for ring := range 1 + random.IntN(5) {
			stamp := uint64(1000 + random.IntN(50))
			for range random.IntN(40) {
				stamp += uint64(random.IntN(4))
				late := uint64(random.IntN(1 + random.IntN(30))) // a few come late
				all = append(all, seenMessage{sighting{stamp_ns: stamp - late}, ring})
				all[len(all)-1].sequence = uint32(len(all))
			}
		}
		want := slices.Clone(all)
		slices.SortStableFunc(want, func(a, b seenMessage) int {
			return cmp.Compare(a.stamp_ns, b.stamp_ns)
		})
		if got := o.sortMessages(all); !slices.Equal(got, want) {
			t.Fatalf("sorted: %v, want %v", got, want)
		}
	}
}

// BenchmarkOrder sorts messages that come from four rings at once.
func BenchmarkOrder(b *testing.B) {
	random := seed.Random(b)
	var from []seenMessage
	for ring := range 4 {
		stamp := uint64(0)
		for range 200 {
			stamp += uint64(1 + random.IntN(5000))
			from = append(from, seenMessage{sighting{stamp_ns: stamp}, ring})
		}
	}
	var o order
	all := slices.Clone(from)
	for b.Loop() {
		all = append(all[:0], from...)
		all = o.sortMessages(all)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(from)), "ns/message")
}
