package analysis

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// UTC is rounded outward: the conversion uses the end of the frequency that gives the wider result.
func TestClockUTC(t *testing.T) {
	c := Clock{
		Reference: Reference{Node: "n", FrequencyLo_hz: 1e9, FrequencyHi_hz: 2e9}, Known: true,
		Counter: 1000, UTCLo_ns: 50, UTCHi_ns: 60, slack_cycles: 10,
	}
	for _, w := range []struct {
		lo, hi     uint64
		from, to   int64
		at, length int64
	}{
		{1101, 1200, 50 + 45, 60 + 210, 55 + 100, 66}, // a reading after Counter
		{801, 901, 50 - 209, 60 - 44, 55 - 99, 67},    // a reading before Counter
		{1000, 1000, 50 - 10, 60 + 10, 55, 0},
	} {
		at := tscratio.Interval{Lo: w.lo, Hi: w.hi}
		lo, hi, ok := c.UTC(at)
		if !ok || lo != w.from || hi != w.to || c.At_ns(at) != w.at {
			t.Errorf("UTC of %v is %d to %d, %v, drawn at %d; want %+v", at, lo, hi, ok,
				c.At_ns(at), w)
		}
		cycles := int64(w.hi - w.lo)
		if got := c.Reference.Length_ns(Interval{cycles, cycles}); got != w.length {
			t.Errorf("%d cycles are %d ns, want %d", cycles, got, w.length)
		}
	}
	c.Known = false
	if _, _, ok := c.UTC(tscratio.At(1)); ok {
		t.Error("UTC is known")
	}
	c.Reference.FrequencyLo_hz, c.Reference.FrequencyHi_hz = 0, 0
	if got := c.Reference.Length_ns(Interval{-8, -4}); got != -6 {
		t.Errorf("without a frequency -6 cycles are %d ns", got)
	}
}

// Rows come in the order that Options describes. The rows of a tuple come together. Tuples that
// share an id come one after another in the order of time. A link says that a tuple was made of
// another tuple. It comes before the rows of the tuple that was made. If a tuple's whole path is
// known, exactly one of its rows has Whole set.
func TestRowsComeTogether(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Forked(seed.Random(t), parent, "forked", 700); err != nil {
		t.Fatal(err)
	}
	dir, err := runs.Open(filepath.Join(parent, "forked"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	type copy struct {
		id    uint64
		begun uint64
	}
	done, tuples, links := map[uint64]bool{}, map[uint64]*copy{}, map[string]int{}
	var order []*copy
	roots, others := map[uint64]int{}, 0
	last, whole, origins, clocks := uint64(0), uint64(0), 0, 0
	placed := map[string][]tscratio.Interval{} // where rows place the events of an id at a point
	seen := func(tuple, id uint64) {
		if clocks == 0 {
			t.Fatal("a row comes before the clock")
		}
		if tuple == last {
			return
		}
		if done[tuple] || tuple == 0 {
			t.Fatalf("rows of tuple %d come apart", tuple)
		}
		done[last], last = true, tuple
		tuples[tuple] = &copy{id, math.MaxUint64}
		order = append(order, tuples[tuple])
	}
	answer, err := Run(t.Context(), dir, Options{
		Reference: "B",
		Begin:     func(Basis) error { clocks++; return nil },
		Links: func(parent, child uint64) {
			links[fmt.Sprint(parent, " ", child)]++
			if slices.ContainsFunc(order, func(c *copy) bool { return c.id == child }) {
				t.Fatalf("a link of %d comes after its rows", child)
			}
		},
		Events: func(e EventRow) error {
			seen(e.Tuple, e.ID)
			tuples[e.Tuple].begun = min(tuples[e.Tuple].begun, e.At.Mid())
			key := fmt.Sprint(e.ID, e.Point)
			placed[key] = append(placed[key], e.At)
			return nil
		},
		Durations: func(d DurationRow) error {
			if d.Tuple == 0 {
				origins++
				// The interval in the event's row may be wider: see tellEvents.
				at := placed[fmt.Sprint(d.ID, d.To)]
				told := slices.ContainsFunc(at, func(i tscratio.Interval) bool {
					return i.Lo <= d.Ends[1].Lo && d.Ends[1].Hi <= i.Hi
				})
				if d.Whole || !told || d.Ends[0].Hi > d.Ends[1].Hi ||
					d.Lo > int64(d.Ends[1].Hi-d.Ends[0].Lo) ||
					d.Hi < int64(d.Ends[1].Lo-d.Ends[0].Hi) {
					t.Errorf("row %+v from %s to %s ends at %v; its events are at %v", d.Duration,
						d.From, d.To, d.Ends, at)
				}
				return nil
			}
			seen(d.Tuple, d.ID)
			if d.Kind == "end-to-end" || d.Whole {
				whole++
			}
			if d.Whole {
				roots[d.Tuple]++
			} else if d.Kind == "end-to-end" {
				others++
			}
			if d.Ends != [2]tscratio.Interval{} {
				t.Errorf("row %+v has ends", d)
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := uint64(0)
	for _, l := range answer.EndToEnd {
		if l.Origin == "" {
			want += l.All.Count
		}
	}
	alone := uint64(0)
	for _, l := range answer.Spans {
		alone += l.Whole
	}
	if whole != want+alone || alone == 0 || want == 0 {
		t.Errorf("%d rows are whole paths, want %d and %d", whole, want, alone)
	}
	for tuple, n := range roots {
		if n != 1 {
			t.Errorf("tuple %d has %d durations to the point that it passed last", tuple, n)
		}
	}
	if others == 0 || len(roots) < 300 {
		t.Errorf("%d tuples, %d earlier ends", len(roots), others)
	}
	byID := map[uint64]int{} // the position of the id's last row
	for i, c := range order {
		if before, again := byID[c.id]; again && (before != i-1 ||
			order[before].begun > c.begun) {
			t.Errorf("tuples with id %d are at %d and %d, begun at %d and %d", c.id, before, i,
				order[before].begun, c.begun)
		}
		byID[c.id] = i
	}
	if len(byID) == len(order) || origins == 0 || clocks != 1 {
		t.Errorf("%d tuples have %d ids; %d rows of origins, %d clocks", len(order), len(byID),
			origins, clocks)
	}
	n := 0
	for _, times := range links {
		n += times
	}
	if n != 700 {
		t.Errorf("%d links, want 700", n)
	}
}
