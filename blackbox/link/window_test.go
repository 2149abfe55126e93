package link

import (
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// A window has the earlier requests that are open when its part of the data begins, however long
// ago they began. To find them, it need not look at the others.
func TestEarlierRequestsOfAWindow(t *testing.T) {
	random := seed.Random(t)
	p := place{requests: make([]request, 20*untilBlock+7)}
	for i := range p.requests {
		r := &p.requests[i]
		r.call, r.from, r.until = int32(i), int64(10*i), int64(10*i+random.IntN(100))
		if random.IntN(500) == 0 {
			r.until += random.Int64N(100_000)
		}
	}
	p.findUntils()
	w := window{margin: 50}
	for w.begin = 0; w.begin < 60_000; w.begin += 100 + random.Int64N(1000) {
		w.end = w.begin + 1000
		part := p.partWithin(w)
		begin := w.begin - w.margin // the part begins earlier if a request was open before
		for _, r := range part.requests {
			if r.from > w.begin-longMargins*w.margin && r.until >= w.begin-w.margin {
				begin = min(begin, r.from)
			}
		}
		var want []int32
		for _, r := range p.requests {
			if r.from <= w.end+w.margin && (r.from > begin-w.margin || r.until >= begin) {
				want = append(want, r.call)
			}
		}
		var got []int32
		for _, r := range part.requests {
			got = append(got, r.call)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v has the requests %v, want %v", w, got, want)
		}
	}
	for i := range p.requests {
		p.requests[i].until = p.requests[i].from
	}
	p.findUntils()
	for i := range p.requests[:10*untilBlock] {
		p.requests[i].until = farFuture // only a scan of all requests would find it
	}
	w.begin, w.end = 40_000, 41_000
	if n := len(p.partWithin(w).requests); n > 200 {
		t.Errorf("the part has %d requests: it looks at each earlier request", n)
	}
}
