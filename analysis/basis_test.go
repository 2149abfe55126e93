package analysis

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Nanoseconds.Of gives the interval that Seconds prints, rounded outward to whole ns.
func TestNanoseconds(t *testing.T) {
	seed.For(t, 3, func(t *testing.T, rng *rand.Rand) {
		thousand := big.NewInt(1000)
		for range 2000 {
			r := Reference{FrequencyLo_hz: math.Exp2(rng.Float64()*20 + 14)}
			r.FrequencyHi_hz = r.FrequencyLo_hz * (1 + rng.Float64()*1e-3)
			i := Interval{rng.Int64() >> rng.UintN(63), rng.Int64() >> rng.UintN(63)}
			if rng.IntN(2) == 0 {
				i.Lo_cycles = -i.Lo_cycles
			}
			if rng.IntN(4) == 0 {
				i.Hi_cycles = -i.Hi_cycles
			}
			lo, hi := floorDiv(r.picoseconds(i.Lo_cycles, false), thousand),
				ceilDiv(r.picoseconds(i.Hi_cycles, true), thousand)
			lo_ns, hi_ns, ok := r.Nanoseconds().Of(i)
			if fits := lo.IsInt64() && hi.IsInt64(); ok && !fits || !ok && fits &&
				lo.Int64() != math.MinInt64 && hi.Int64() != math.MinInt64 {
				t.Errorf("%v cycles at %v Hz are %v to %v ns; known: %v", i, r.FrequencyLo_hz, lo,
					hi, ok)
			}
			if ok && (lo_ns != lo.Int64() || hi_ns != hi.Int64()) {
				t.Errorf("%v cycles at %v to %v Hz are %d to %d ns, want %v to %v", i,
					r.FrequencyLo_hz, r.FrequencyHi_hz, lo_ns, hi_ns, lo, hi)
			}
		}
	})
	for name, r := range map[string]Reference{"not known": {}, "out of range": {
		FrequencyLo_hz: 1e18, FrequencyHi_hz: 1e18}} {
		if lo, hi, ok := r.Nanoseconds().Of(Interval{1, 2}); ok {
			t.Errorf("where the frequency is %s, 1 to 2 cycles are %d to %d ns", name, lo, hi)
		}
	}
}

// The function Options.Begin gets the Basis before the first row comes. The Basis says the same as
// the answer. The rows of a tuple come together, durations before events.
func TestBasis(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Suspect(seed.Random(t), parent, "suspect"); err != nil {
		t.Fatal(err)
	}
	var bases []Basis
	var rows []uint64
	var kinds strings.Builder
	o := Options{Reference: "B", ThirdNodes: tscratio.ThirdAny,
		Begin: func(b Basis) error {
			if len(rows) > 0 {
				t.Error("rows came first")
			}
			b.Clock = Clock{} // utc_test.go tests Clock
			bases = append(bases, b)
			return nil
		},
		Durations: func(d DurationRow) error {
			kinds.WriteString("d")
			rows = append(rows, d.Tuple)
			return nil
		},
		Events: func(e EventRow) error {
			kinds.WriteString("e")
			rows = append(rows, e.Tuple)
			return nil
		},
	}
	a := analyze(t, openRun(t, parent, "suspect"), o)
	want := Basis{Reference: a.Reference, ThirdNodes: tscratio.ThirdAny,
		Zero_cycles: uint64(a.Bins.From_cycles), Declared_ppm: a.Pairs[0].Declared_ppm,
		Used_ppm: a.Pairs[0].Wander_ppm, Window_s: a.Pairs[0].Window_s, Relations: 1, Suspect: 1,
		Kept: Sampled, Lacks: "sampled: sink/recv and source/send keep only first-last"}
	if len(bases) != 1 || bases[0] != want || want.Used_ppm <= want.Declared_ppm ||
		want.Window_s != 10 || want.Zero_cycles == 0 {
		t.Errorf("the basis is %+v, want %+v", bases, want)
	}
	if kinds.String() != strings.Repeat("dee", 100) {
		t.Errorf("rows came as %s", &kinds)
	}
	for i, way := range rows {
		if way != uint64(i/3+1) {
			t.Errorf("row %d is of tuple %d", i, way)
		}
	}
	o.Wander = 3 * tscratio.PPM
	bases, rows = nil, nil
	a = analyze(t, openRun(t, parent, "suspect"), o)
	if bases[0].Declared_ppm != 3 || bases[0].Used_ppm != a.Pairs[0].Wander_ppm {
		t.Errorf("with another wander the basis is %+v", bases[0])
	}
	full := errors.New("no space")
	o.Begin = func(Basis) error { return full }
	rows = nil
	if _, err := Run(t.Context(), openRun(t, parent, "suspect"), o); !errors.Is(err, full) ||
		len(rows) > 0 {
		t.Errorf("%d rows after an error, %v", len(rows), err)
	}
}

// A duration may be known although one of its events cannot be placed on the reference's counter.
// The event still has a row, without a place.
func TestEventsWithoutPlace(t *testing.T) {
	rng, parent := seed.Random(t), t.TempDir()
	nodes := simrun.Nodes(rng, 3)
	channels := []simrun.Channel{{Node: 1, Name: "b/send"}, {Node: 2, Name: "c/recv"}}
	for id := range uint64(100) {
		for i := range channels {
			channels[i].Records = append(channels[i].Records,
				simrun.Record{Time: 90*simrun.Hz + id*10_000 + uint64(i)*100_000, ID: id})
		}
	}
	if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
		t.Fatal(err)
	}
	// B was measured against A and C all the time. A and C were measured against each other only
	// until a minute before the events.
	pair, err := simrun.Relate(rng, &nodes[0], &nodes[2], simrun.Hz, 2*simrun.Hz)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, "r", "relations", "A--C.rel"), pair.Encode(),
		0o600); err != nil {
		t.Fatal(err)
	}
	placed, unplaced, durations := map[string]int{}, map[string]int{}, 0
	analyze(t, openRun(t, parent, "r"), Options{Reference: "A", ThirdNodes: tscratio.ThirdNone,
		Events: func(e EventRow) error {
			if e.Unplaced {
				unplaced[e.Point]++
			} else {
				placed[e.Point]++
			}
			return nil
		},
		Durations: func(d DurationRow) error {
			durations++
			return nil
		},
	})
	if placed["b/send"] != 100 || unplaced["c/recv"] != 100 || len(placed)+len(unplaced) != 2 ||
		durations != 100 {
		t.Errorf("events placed %v, not placed %v, %d durations", placed, unplaced, durations)
	}
}
