package analysis

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

var update = flag.Bool("update", false, "write the golden files")

// shownSeconds is an interval of cycles, and how the text output and the report page print it.
type shownSeconds struct {
	Lo_hz   float64 `json:"lo_hz"`
	Hi_hz   float64 `json:"hi_hz"`
	Lo      int64   `json:"lo_cycles"`
	Hi      int64   `json:"hi_cycles"`
	Seconds string  `json:"seconds"`
	Bound   string  `json:"bound"` // Hi cycles as a half-width; empty if Hi is negative
}

// secondsShown has cases that are easy to get wrong, and random ones.
func secondsShown() (all []shownSeconds) {
	add := func(lo_hz, hi_hz float64, lo, hi int64) {
		r := Reference{FrequencyLo_hz: lo_hz, FrequencyHi_hz: hi_hz}
		s := shownSeconds{lo_hz, hi_hz, lo, hi, r.Seconds(Interval{lo, hi}), ""}
		if hi >= 0 {
			s.Bound = r.Bound(hi)
		}
		all = append(all, s)
	}
	const hz = 2_596_117_000.123
	for _, elapsed := range [][2]int64{
		{0, 0}, {0, 1}, {1, 1}, {-1, 1}, {-1, 0}, {-700, 700}, {-500, 900}, {-900, 500},
		{39_390, 40_650}, {1_265_430, 1_265_534}, {999, 1000}, {999_999, 1_000_001},
		{998_000_000, 999_999_999}, {94_999, 104_999}, {2_454_239_000, 2_454_241_600},
		{-1<<53 + 1, 1<<53 - 1}, {1<<53 - 2, 1<<53 - 1}, {4, 5}, {-5, -4}, {125, 125}, {-125, -125},
	} {
		add(1e9, 1e9, elapsed[0], elapsed[1])
		add(hz, hz, elapsed[0], elapsed[1])
		add(hz, hz+0.002, elapsed[0], elapsed[1])
		add(0.1, 1e15-1, elapsed[0], elapsed[1])
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 250 {
		// The conversions round each product to a float64. Without them, some processors would
		// compute product and sum in one step, which rounds differently.
		least := rng.Float64() * 4e9
		middle := rng.Int64N(1<<rng.UintN(52)+1) - rng.Int64N(1<<rng.UintN(52)+1)
		half := rng.Int64N(1<<rng.UintN(40) + 1)
		wider := 1 + float64(rng.Float64()*1e-6)
		add(1e6+float64(least), 1e6+float64(least*wider), middle-half, middle+half)
	}
	return all
}

// Go and the report page print the same digits. This test writes or checks testdata/seconds.json,
// and the tests of the page check that its TypeScript prints what this file says.
func TestSecondsAreShownOneWay(t *testing.T) {
	const path = "testdata/seconds.json"
	var text bytes.Buffer
	for i, s := range secondsShown() {
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s%s", []string{"[\n", ",\n"}[min(i, 1)], line)
	}
	text.WriteString("\n]\n")
	if *update {
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text.Bytes(), want) {
		t.Errorf("seconds are not shown as in %s: run this with -update, then make test-web", path)
	}
}

// parseShown parses what was printed, exactly.
func parseShown(t *testing.T, text string) (lo, hi *big.Rat) {
	t.Helper()
	units := map[string]string{"s": "1", "ms": "1/1000", "µs": "1/1000000", "ns": "1/1000000000"}
	number := func(text, unit string) *big.Rat {
		v, ok := new(big.Rat).SetString(text)
		scale, ok2 := new(big.Rat).SetString(units[unit])
		if !ok || !ok2 {
			t.Fatalf("%q %q is no number of a unit", text, unit)
		}
		return v.Mul(v, scale)
	}
	value, bound, found := strings.Cut(text, " ± ")
	bound, unit, found2 := strings.Cut(bound, " ")
	if !found || !found2 {
		t.Fatalf("%q has no value and bound", text)
	}
	value, unitOfValue, own := strings.Cut(value, " ")
	if !own {
		unitOfValue = unit
	}
	v, b := number(value, unitOfValue), number(bound, unit)
	return new(big.Rat).Sub(v, b), new(big.Rat).Add(v, b)
}

// Whatever the true frequency is, the printed interval contains the true seconds, and is not much
// wider.
func TestSecondsContainWhatTheFrequencyLeavesOpen(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	rng := seed.Random(t)
	for range 20_000 {
		lo_mhz := 1e9 + rng.Int64N(5e12)
		hi_mhz := lo_mhz + rng.Int64N(1<<rng.UintN(40)+1)
		r := Reference{
			FrequencyLo_hz: float64(lo_mhz) / 1000, FrequencyHi_hz: float64(hi_mhz) / 1000,
		}
		middle := rng.Int64N(1<<rng.UintN(62)+1) - rng.Int64N(1<<rng.UintN(62)+1)
		half := rng.Int64N(1<<rng.UintN(50) + 1)
		i := Interval{middle - half, middle + half}
		text := r.Seconds(i)
		lo, hi := parseShown(t, text)
		for _, cycles := range []int64{i.Lo_cycles, i.Hi_cycles} {
			for _, mhz := range []int64{lo_mhz, hi_mhz} {
				truth := new(big.Rat).SetFrac64(cycles, mhz)
				truth.Mul(truth, big.NewRat(1000, 1))
				if truth.Cmp(lo) < 0 || truth.Cmp(hi) > 0 {
					t.Fatalf("%q does not contain %d cycles at %d mHz: %s s", text, cycles, mhz,
						truth.FloatString(15))
				}
			}
		}
		least, most := r.picoseconds(i.Lo_cycles, false), r.picoseconds(i.Hi_cycles, true)
		width, _ := new(big.Rat).Sub(hi, lo).Float64()
		needed, _ := new(big.Rat).SetInt(new(big.Int).Sub(most, least)).Float64()
		if width > needed*1e-12*1.25+4e-12 {
			t.Fatalf("%q is %g s wide, and what it is of %g s", text, width, needed*1e-12)
		}
	}
}

func TestSecondsOfAFrequency(t *testing.T) {
	unknown := Reference{Node: "A"}
	if got := unknown.Seconds(Interval{1, 2}) + unknown.Bound(3); got != "" {
		t.Errorf("of an unknown frequency: %q", got)
	}
	const measured = "measured against a clock; their bounds include its error"
	for want, r := range map[string]Reference{
		"the frequency of A is not known: there are no seconds": unknown,
		"seconds are cycles divided by 2.6 GHz, which is nominal: nobody measured its error": {
			FrequencyLo_hz: 2.6e9, FrequencyHi_hz: 2.6e9, Source: "nominal"},
		"seconds are cycles divided by 2.596117025 GHz ± 25 Hz, " + measured: {
			FrequencyLo_hz: 2_596_117_000, FrequencyHi_hz: 2_596_117_050, Source: "a clock"},
		"seconds are cycles divided by 2.6000 GHz ± 2.6 MHz, " + measured: {
			FrequencyLo_hz: 2.6e9 * 0.999, FrequencyHi_hz: 2.6e9 * 1.001, Source: "a clock"},
	} {
		if got := r.SecondsMean(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
