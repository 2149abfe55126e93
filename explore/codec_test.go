package explore

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

var compareAll = cmp.AllowUnexported(item{}, tuple{}, path{}, event{}, duration{}, node{})

func wildItem(rng *rand.Rand) item {
	wild := func() int64 { return int64(rng.Uint64()) >> rng.UintN(64) }
	lo, hi := wild(), wild()
	return item{track: rng.Uint32N(3), mid: rng.Uint64() >> rng.UintN(60),
		width: rng.Uint64() >> rng.UintN(64), lo: min(lo, hi), hi: max(lo, hi), id: rng.Uint64(),
		instance: rng.Uint32N(70_000), suspect: rng.IntN(2) == 0, instant: rng.IntN(2) == 0,
		ended: rng.Uint32N(65)}
}

func TestItemBytes(t *testing.T) {
	i := item{track: 1, mid: 300, width: 5, lo: -2, hi: 7, id: 9, instance: 3, suspect: true,
		ended: 2}
	got := hex.EncodeToString(appendItem(nil, &i, &item{mid: 200, id: 10}))
	if want := "01" + "64" + "05" + "03" + "09" + "01" + "03" + "09"; got != want {
		t.Errorf("an item is %s, want %s", got, want)
	}
}

func TestTupleBytes(t *testing.T) {
	p := path{[]event{{1, tscratio.Interval{Lo: 5, Hi: 6}, true, true}},
		[]duration{{2, -3, 4, tscratio.Direct, analysis.SurelyCritical, false}}}
	body := p.append(nil)
	got := hex.EncodeToString(appendTuple(nil, &tuple{20, 3, body}, &tuple{id: 18}))
	want := "02" + "03" + "08" + "01" + "07" + "0a" + "01" + "12" + "05" + "07" + "03"
	if got != want {
		t.Errorf("a tuple is %s, want %s", got, want)
	}
}

func TestItemsComeBack(t *testing.T) {
	rng := seed.Random(t)
	var all []item
	for range 5000 {
		all = append(all, wildItem(rng))
	}
	slices.SortFunc(all, func(a, b item) int { return compareItems(&a, &b) })
	var data []byte
	before := &item{}
	for i := range all {
		data = appendItem(data, &all[i], before)
		before = &all[i]
	}
	r, got := reader{data: data}, item{}
	for i := range all {
		if readItem(&r, &got); r.bad {
			t.Fatalf("item %d of %d is bad", i, len(all))
		}
		if diff := cmp.Diff(all[i], got, compareAll); diff != "" {
			t.Fatalf("item %d (-want +got):\n%s", i, diff)
		}
	}
	if len(r.data) > 0 {
		t.Errorf("%d bytes are left", len(r.data))
	}
}

func TestPathsComeBack(t *testing.T) {
	want := path{
		[]event{{3, tscratio.Interval{Lo: 1 << 62, Hi: 1<<62 + 9}, false, true},
			{0, tscratio.Interval{Lo: 77, Hi: 1 << 63}, true, false}},
		[]duration{
			{1, math.MinInt64, math.MaxInt64, tscratio.ByClosure, analysis.PerhapsCritical, true},
			{0, 5, 5, tscratio.SameNode, analysis.NotCritical, false}},
	}
	body := want.append(nil)
	got, ok := readPath(body, 4, 2)
	if diff := cmp.Diff(want, got, compareAll); diff != "" || !ok {
		t.Errorf("ok %v (-want +got):\n%s", ok, diff)
	}
	for n := range body {
		if p, ok := readPath(body[:n], 4, 2); ok && len(p.durations) == 2 {
			t.Errorf("%d of %d bytes are taken for the whole", n, len(body))
		}
	}
	if _, ok := readPath(body, 3, 2); ok {
		t.Error("a channel that is not there is taken")
	}
	if _, ok := readPath(body, 4, 1); ok {
		t.Error("a span that is not there is taken")
	}
}

func TestPlaceComesBack(t *testing.T) {
	rng := seed.Random(t)
	for range 1000 {
		want := tscratio.Interval{Lo: rng.Uint64() >> rng.UintN(64)}
		want.Hi = want.Lo + min(rng.Uint64()>>rng.UintN(64), math.MaxUint64-want.Lo)
		var i item
		if i.setMoment(want); i.begin() != want || i.mid != want.Mid() {
			t.Fatalf("%v comes back as %v, in the middle of which is %d", want, i.begin(), i.mid)
		}
	}
}

func TestNodeComesBack(t *testing.T) {
	want := node{1, 2, 3, 4, 5, 6, 7, 8, -9, 10, 11, 12, 13}
	if diff := cmp.Diff(want, readNode(want.append(nil)), compareAll); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Each value lies between the edges of its bucket, and larger values have higher buckets.
func TestBuckets(t *testing.T) {
	rng := seed.Random(t)
	values := []int64{math.MinInt64, -1, 0, 1, 63, 64, 65, math.MaxInt64}
	for range 10_000 {
		values = append(values, int64(rng.Uint64())>>rng.UintN(64))
	}
	slices.Sort(values)
	before := -1
	for _, v := range values {
		b := bucketOf(v)
		lo, hi := bucketEdges(b)
		if b < before || b < 0 || b >= allBuckets || v < lo || v > hi {
			t.Fatalf("%d is in bucket %d, [%d, %d], after %d", v, b, lo, hi, before)
		}
		if width := float64(hi) - float64(lo); width > math.Abs(float64(v))/32 && width > 0 {
			t.Fatalf("%d is rounded to [%d, %d]: more than 1/32", v, lo, hi)
		}
		before = b
	}
}

// A histogram's percentile contains the exact percentile of the low ends and that of the high ends,
// and is not much wider.
func TestPercentilesAreRoundedOutward(t *testing.T) {
	seed.For(t, 50, func(t *testing.T, rng *rand.Rand) {
		var los, his []int64
		h := new(histogram)
		for range 1 + rng.IntN(500) {
			i := wildItem(rng)
			los, his = append(los, i.lo), append(his, i.hi)
			h.count(false, bucketOf(i.lo), 0) // adds a count of zero
			h.add(&i)
		}
		slices.Sort(los)
		slices.Sort(his)
		for _, percent := range []float64{0.1, 1, 50, 99, 99.9, 100} {
			rank := max(int(math.Ceil(percent*float64(len(los))/100-1e-9)), 1) - 1
			lo, hi := h.percentile(percent)
			wantLo, _ := bucketEdges(bucketOf(los[rank]))
			_, wantHi := bucketEdges(bucketOf(his[rank]))
			if lo != wantLo || hi != wantHi || lo > los[rank] || hi < his[rank] {
				t.Errorf("p%v is [%d, %d], and the truth [%d, %d]", percent, lo, hi, los[rank],
					his[rank])
			}
		}
	})
}

func TestCountsComeBack(t *testing.T) {
	rng := seed.Random(t)
	c, want := counts{}, map[[3]int]uint64{}
	for range 3000 {
		i := wildItem(rng)
		i.instance %= 40
		c.add(&i)
		want[[3]int{int(i.instance), 0, bucketOf(i.lo)}]++
		want[[3]int{int(i.instance), 1, bucketOf(i.hi)}]++
	}
	got := map[[3]int]uint64{}
	if !readCounts(c.append(nil), func(instance uint32, high bool, bucket int, n uint64) {
		side := 0
		if high {
			side = 1
		}
		got[[3]int{int(instance), side, bucket}] += n
	}) {
		t.Fatal("the counts cannot be read")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The sorter returns each row once and in order, even if the rows do not fit into its buffers.
func TestSorter(t *testing.T) {
	seed.For(t, 6, func(t *testing.T, rng *rand.Rand) {
		n := rng.IntN(60_000)
		s, err := newSorter(t.TempDir(), 1+rng.IntN(40_000), compareTuples,
			func(t *tuple) [2]uint64 { return [2]uint64{t.id} }, appendTuple, readTuple)
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		var want []tuple
		for i := range n {
			row := tuple{rng.Uint64N(1 << rng.UintN(40)), rng.Uint64N(3),
				make([]byte, rng.IntN(1<<rng.UintN(9)))}
			if i == 0 {
				row.body = make([]byte, mergeBuffer/2-64)
			}
			for k := range row.body {
				row.body[k] = byte(row.id + row.number)
			}
			want = append(want, row)
			s.add(row, 40+len(row.body)/100)
		}
		if err := s.end(); err != nil {
			t.Fatal(err)
		}
		slices.SortStableFunc(want, func(a, b tuple) int { return compareTuples(&a, &b) })
		i := 0
		err = s.merge(func(row *tuple) error {
			if compareTuples(row, &want[i]) != 0 {
				t.Fatalf("row %d of %d is %d, want %d", i, n, row.id, want[i].id)
			}
			for _, b := range row.body {
				if b != byte(row.id+row.number) {
					t.Fatalf("row %d has another's body", i)
				}
			}
			i++
			return nil
		}, func(int) error { return nil })
		if err != nil || i != n {
			t.Errorf("%d of %d rows, %v", i, n, err)
		}
	})
}
