package explore

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// Every tuple is found by its id, and the answer says what became of it. Each duration contains the
// true duration, and each event's interval contains the true moment.
func TestFindsEveryTuple(t *testing.T) {
	j := aJob(t, seed.Random(t), 20_000)
	at := func(time uint64) int64 { return int64(j.node.Reading(time) - j.zero()) }
	fates := map[string]int{}
	for _, truth := range j.all {
		found, more, err := j.Find(truth.id)
		if err != nil || more || len(found) != 1 {
			t.Fatalf("tuple %d is found %d times, %v", truth.id, len(found), err)
		}
		p := found[0]
		times := []uint64{truth.sent, truth.start, truth.end, truth.received}
		fate := "it came to the end, sink/recv"
		if truth.received == 0 {
			times, fate = times[:3], "it ended at worker/end"
		}
		if truth.start == 0 {
			times, fate = times[:1], "it ended at source/send"
		}
		fates[fate]++
		if !strings.HasPrefix(p.Why, fate) || len(p.Events) != len(times) ||
			len(p.Steps) != len(times)-1 {
			t.Fatalf("tuple %d: %q, %d events, %d steps, want %q and %d events", truth.id, p.Why,
				len(p.Events), len(p.Steps), fate, len(times))
		}
		for i, time := range times {
			e := p.Events[i]
			if e.At.Lo_cycles > at(time)+1 || e.At.Hi_cycles < at(time) {
				t.Fatalf("tuple %d passed %s at %d, not in %v", truth.id, e.Point, at(time), e.At)
			}
			if i == 0 {
				continue
			}
			took := at(time) - at(times[i-1])
			if d := p.Steps[i-1].Duration; d.Lo_cycles > took+1 || d.Hi_cycles < took-1 {
				t.Fatalf("tuple %d took %d for %s, not in %v", truth.id, took,
					p.Steps[i-1].Name, d)
			}
		}
		if took := at(times[len(times)-1]) - at(times[0]); p.Total.Lo_cycles > took+1 ||
			p.Total.Hi_cycles < took-1 {
			t.Fatalf("tuple %d took %d, not in %v", truth.id, took, p.Total)
		}
	}
	if len(fates) != 3 {
		t.Errorf("the tuples ended as %v: want three ways", fates)
	}
	for _, id := range []uint64{0, 1<<40 - 1, j.all[len(j.all)-1].id + 1, math.MaxUint64} {
		if found, _, err := j.Find(id); len(found) > 0 || err != nil {
			t.Errorf("id %d is found: %v, %v", id, found, err)
		}
	}
}

// A bucket counts exactly the rows between its ends, whichever level of the index the count comes
// from.
func TestBucketsCountTheirRows(t *testing.T) {
	seed.NotUnderRace(t, "TestIndexIsMadeOnce makes an index too")
	rng := seed.Random(t)
	j := aJob(t, rng, 60_000)
	for k := range j.tracks {
		track := &j.tracks[k]
		all := j.allItems(t, track)
		if !slices.IsSortedFunc(all, func(a, b item) int { return compareItems(&a, &b) }) {
			t.Fatalf("track %d is not in order", k)
		}
		for n := range max(3, 25/seed.Share()) {
			r, raw := j.randomPart(rng), rng.IntN(40)
			if n == 0 {
				r = j.whole()
			}
			var withCounts uint64
			s, err := j.series(track, r, 1+rng.IntN(maxBuckets), 0, raw, func(b *Bucket) {
				withCounts += b.counts.n
			})
			if err != nil {
				t.Fatal(err)
			}
			var counted, durations uint64
			for i, b := range s.buckets {
				want := Bucket{From_cycles: b.From_cycles, To_cycles: b.To_cycles,
					Longest: math.MinInt64}
				for _, x := range all {
					if x.mid < b.From_cycles || x.mid > b.To_cycles {
						continue
					}
					want.Count++
					want.Unsure_cycles = max(want.Unsure_cycles, half(x.width))
					want.Longest = max(want.Longest, x.hi)
					if x.ended > 0 {
						want.Ended++
					}
					if x.suspect {
						want.Suspect++
					}
					if !x.instant {
						durations++
					}
				}
				if diff := gocmp.Diff(want, b, gocmp.AllowUnexported(Bucket{})); diff != "" {
					t.Fatalf("track %d, %v, bucket %d (-want +got):\n%s", k, r, i, diff)
				}
				counted += b.Count
			}
			var inside uint64
			for _, x := range all {
				if x.mid >= r.From && x.mid <= r.To {
					inside++
				}
			}
			if counted < inside || withCounts != durations {
				t.Fatalf("track %d, %v: %d of %d rows in buckets, %d of %d durations", k, r,
					counted, inside, withCounts, durations)
			}
		}
	}
}

// If a range has few rows, all rows that reach into it are shown one by one, even those that began
// before it.
func TestSingleRows(t *testing.T) {
	seed.NotUnderRace(t, "TestIndexIsMadeOnce makes an index too")
	rng := seed.Random(t)
	j := aJob(t, rng, 20_000)
	seen := 0
	for lane := range j.Meta.Lanes {
		all := j.allItems(t, &j.tracks[lane])
		for range 100 {
			from := j.zero() + rng.Uint64N(j.Meta.Length_cycles)
			if blocks := len(j.tracks[lane].levels[0]); blocks > 1 && rng.IntN(2) == 0 {
				// The range begins where the last row of a block ends.
				from = all[(1+rng.IntN(blocks-1))*blockItems-1].end().Hi
			}
			r := Range{from, from + 1_000_000}
			shown, err := j.Lanes([]int{lane}, r, 100)
			if err != nil {
				t.Fatal(err)
			}
			var want []Row
			for i := range all {
				at := all[i].begin()
				if max(at.Hi, all[i].end().Hi) >= r.From && at.Lo <= r.To {
					want = append(want, j.row(&all[i]))
				}
			}
			seen += len(want)
			if diff := gocmp.Diff(want, shown[0].Rows); diff != "" && len(want) > 0 {
				t.Fatalf("lane %d, %v (-want +got):\n%s", lane, r, diff)
			}
		}
	}
	if seen < 1000 {
		t.Errorf("only %d rows were seen", seen)
	}
}

func TestLongestAndEnded(t *testing.T) {
	seed.NotUnderRace(t, "TestIndexIsMadeOnce makes an index too")
	rng := seed.Random(t)
	j := aJob(t, rng, 30_000)
	span := j.spanOf(t, "source/send", "sink/recv")
	all := j.allItems(t, j.span(span))
	for range 100 {
		r := j.randomPart(rng)
		lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
		if rng.IntN(2) == 0 {
			lo = 100_000 + rng.Int64N(100_000)
			hi = lo + rng.Int64N(1<<rng.UintN(30))
		}
		var want []item
		for _, i := range all {
			if i.mid >= r.From && i.mid <= r.To && i.hi >= lo && i.lo <= hi {
				want = append(want, i)
			}
		}
		slices.SortFunc(want, func(a, b item) int {
			return cmp.Or(-cmp.Compare(a.hi, b.hi), cmp.Compare(a.id, b.id))
		})
		got, err := j.Longest(span, r, lo, hi)
		if diff := gocmp.Diff(j.rows(want[:min(len(want), maxListed)]), got.Rows); diff != "" ||
			err != nil || !got.Whole {
			t.Fatalf("%v, %d to %d: %v, %v (-want +got):\n%s", r, lo, hi, got.Whole, err, diff)
		}
	}
	for lane, l := range j.Meta.Lanes {
		var truly uint64
		for _, tuple := range j.all {
			worker := "worker#" + string(rune('0'+tuple.worker))
			if l.Instance == "source" && tuple.start == 0 || l.Instance == worker &&
				tuple.start > 0 && tuple.received == 0 {
				truly++
			}
		}
		if l.Ended != truly {
			t.Errorf("%d tuples ended in %s, and %d are counted", truly, l.Instance, l.Ended)
		}
		var want []item
		for _, i := range j.allItems(t, &j.tracks[lane]) {
			if i.ended > 0 {
				want = append(want, i)
			}
		}
		got, err := j.Ended(lane, j.whole())
		if uint64(len(want)) != l.Ended || len(got.Rows) != min(len(want), maxListed) ||
			got.Whole != (len(want) <= maxListed) || err != nil {
			t.Errorf("%s: %d ended, %d are counted, %d listed, %v", l.Instance, len(want), l.Ended,
				len(got.Rows), err)
		}
		for _, row := range got.Rows {
			if row.Ended == "" {
				t.Errorf("%s: tuple %d is listed and does not say where it ended", l.Instance,
					row.ID)
			}
		}
	}
}

// The interval of a queue contains the true number of tuples between two points, even if few nodes
// and blocks are read.
func TestQueueContainsTheTruth(t *testing.T) {
	seed.NotUnderRace(t, "TestIndexIsMadeOnce makes an index too")
	rng := seed.Random(t)
	j := aJob(t, rng, 40_000)
	track := j.span(j.spanOf(t, "source/send", "sink/recv"))
	most, widest := 0, map[[2]int]uint64{}
	for range 60 {
		at := j.zero() + rng.Uint64N(j.Meta.Length_cycles)
		n := 0
		for _, tuple := range j.all {
			if tuple.received > 0 && j.node.Reading(tuple.sent) <= at &&
				at < j.node.Reading(tuple.received) {
				n++
			}
		}
		most = max(most, n)
		for _, limits := range [][2]int{{0, 0}, {2, 0}, {queueNodes, queueBlocks},
			{1000, 1000}} {
			q := queueReader{index: j.Index, track: track, cache: map[[2]int]*durations{},
				nodes: limits[0], blocks: limits[1]}
			lo, hi, err := q.countAt(at)
			if err != nil || lo > uint64(n) || hi < uint64(n) {
				t.Fatalf("%d tuples were between the points at %d, not %d to %d (limits %v), %v",
					n, at, lo, hi, limits, err)
			}
			widest[limits] = max(widest[limits], hi-lo)
		}
	}
	if most < 20 {
		t.Errorf("at most %d tuples were between the points: too few to test", most)
	}
	if w := widest[[2]int{queueNodes, queueBlocks}]; w > 3 {
		t.Errorf("the queue is known to %d only: want 3 or fewer (%v)", w, widest)
	}
}

// The interval that a node adds to a queue contains the interval that its rows add, on each level.
func TestSharesContainTheirRows(t *testing.T) {
	seed.NotUnderRace(t, "TestIndexIsMadeOnce makes an index too")
	rng := seed.Random(t)
	j := aJob(t, rng, 40_000)
	track := j.span(j.spanOf(t, "source/send", "sink/recv"))
	all := j.allItems(t, track)
	q := queueReader{index: j.Index, track: track, cache: map[[2]int]*durations{}}
	for level, nodes := range track.levels {
		rows := 0
		for k, n := range nodes {
			own := all[rows : rows+int(n.items)]
			rows += int(n.items)
			for i := range 60 {
				x := &own[rng.IntN(len(own))]
				at := []uint64{x.begin().Lo, x.begin().Hi, x.end().Lo, x.end().Hi,
					n.first + rng.Uint64N(n.maxEnd-n.first)}[i%5] - 1 + rng.Uint64N(3)
				var surely, perhaps uint64
				for _, x := range own {
					begin, end := x.begin(), x.end()
					if begin.Lo <= at && at <= end.Hi {
						perhaps++
						if begin.Hi <= at && at < end.Lo {
							surely++
						}
					}
				}
				s, exact := q.shareOfItems(at, level, k)
				c, err := q.shareOfCounts(at, level, k)
				if err != nil || s.lo > surely || s.hi < perhaps || c.lo > surely ||
					c.hi < perhaps || exact && (s.lo != surely || s.hi != perhaps) {
					t.Fatalf("level %d, node %d at %d: %+v (exact %v), by its counts %+v, and the "+
						"rows say %d to %d, %v", level, k, at, s, exact, c, surely, perhaps, err)
				}
			}
		}
	}
}

// The percentiles of a range contain the exact percentiles of its durations. Each instance has the
// right count.
func TestSpreadContainsTheTruth(t *testing.T) {
	seed.NotUnderRace(t, "TestIndexIsMadeOnce makes an index too")
	rng := seed.Random(t)
	j := aJob(t, rng, 60_000)
	span := j.spanOf(t, "source/send", "worker/start")
	all := j.allItems(t, j.span(span))
	for n := range 40 {
		r := j.randomPart(rng)
		if n == 0 {
			r = j.whole()
		}
		s, err := j.Spread(span, r)
		if err != nil {
			t.Fatal(err)
		}
		var los, his []int64
		byLane := map[int]uint64{}
		for _, i := range all {
			if at := int64(i.mid - j.zero()); at >= s.Range.Lo_cycles && at <= s.Range.Hi_cycles {
				los, his = append(los, i.lo), append(his, i.hi)
				byLane[int(i.instance)]++
			}
		}
		slices.Sort(los)
		slices.Sort(his)
		if s.All.Count != uint64(len(los)) || s.Range.Lo_cycles > int64(r.From-j.zero()) {
			t.Fatalf("%v: %d durations in %v, want %d", r, s.All.Count, s.Range, len(los))
		}
		for _, shape := range s.Instances {
			if lane := j.Meta.Lanes[shape.Lane]; shape.Count != byLane[shape.Lane] ||
				lane.Actor != "worker" {
				t.Errorf("%+v has %d durations, want %d", lane, shape.Count, byLane[shape.Lane])
			}
		}
		for _, p := range s.All.Percentiles {
			if len(los) == 0 {
				continue
			}
			rank := max(int(math.Ceil(p.Percent*float64(len(los))/100-1e-9)), 1) - 1
			if p.Lo_cycles > los[rank] || p.Hi_cycles < his[rank] || p.Lo_cycles > p.Hi_cycles {
				t.Errorf("p%v is %v, and the durations' [%d, %d]", p.Percent, p.Interval,
					los[rank], his[rank])
			}
		}
	}
}

// Each bucket of a latency counts its own rows, and its percentiles come from those rows.
func TestLatencyColumns(t *testing.T) {
	seed.NotUnderRace(t, "TestIndexIsMadeOnce makes an index too")
	rng := seed.Random(t)
	j := aJob(t, rng, 30_000)
	span := j.spanOf(t, "source/send", "sink/recv")
	all := j.allItems(t, j.span(span))
	for range 30 {
		l, err := j.Latency(span, j.randomPart(rng), 1+rng.IntN(200))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range l.Buckets {
			var his []int64
			for _, i := range all {
				at := int64(i.mid - j.zero())
				if at >= b.From_cycles && at <= b.To_cycles {
					his = append(his, i.hi)
				}
			}
			var cells float64
			for _, c := range b.Heat {
				cells += c[1]
			}
			if cells != float64(b.Count) || len(his) != int(b.Count) {
				t.Fatalf("%d rows, %d counted, %v in the heat map", len(his), b.Count, cells)
			}
			if top := b.Percentiles[3]; top.Hi_cycles < slices.Max(his) {
				t.Fatalf("the longest takes %d, and the column says %v", slices.Max(his), top)
			}
		}
	}
}

// A tuple that was made of other tuples is found with durations that begin in those tuples.
func TestTuplesMadeOfOthers(t *testing.T) {
	j := windowRun(t, rand.New(rand.NewPCG(1, 1)))
	for i, s := range j.Meta.Spans {
		if !strings.Contains(s.Kind, ", ") {
			continue
		}
		items := j.allItems(t, j.span(i))
		if len(items) != 40 || s.Count != 40 {
			t.Errorf("%s has %d rows and counts %d, want 40", s.Kind, len(items), s.Count)
		}
		for _, x := range items {
			found, _, err := j.Find(x.id)
			if err != nil || !slices.ContainsFunc(found, func(p Path) bool {
				return strings.Contains(p.Why, "of which it was made") && p.Total.Lo_cycles == x.lo
			}) {
				t.Errorf("%s: tuple %d is found as %+v, %v", s.Kind, x.id, found, err)
			}
		}
		return
	}
	t.Errorf("no span begins in other tuples: %+v", j.Meta.Spans)
}

// If the path of a tuple may go on after the point that saw the tuple last, this point is not
// called the tuple's end.
func TestFateOfATupleThatMayGoOn(t *testing.T) {
	x := &Index{Meta: Meta{Channels: []Channel{{Point: 0}, {Point: 1}},
		Points: []Point{{Name: "sink/recv", Sink: true},
			{Name: "sink/recv", Sink: true, Undecided: "a log is gone"}}}}
	for i, want := range []string{"it came to the end, sink/recv", "it was last seen at " +
		"sink/recv; whether it ended there is not known: a log is gone"} {
		if got := x.fateOf([]event{{channel: uint32(i)}}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
