package logstore

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// shapes are kinds of columns. Each function fills a column with new random values.
var shapes = map[string]func(rng *rand.Rand, v []uint64){
	"zero": func(rng *rand.Rand, v []uint64) {},
	"constant": func(rng *rand.Rand, v []uint64) {
		fill(v, func(int) uint64 { return math.MaxUint64 - 3 })
	},
	"steady": func(rng *rand.Rand, v []uint64) {
		s := rng.Uint64()
		fill(v, func(i int) uint64 { return s * uint64(i) })
	},
	"random": func(rng *rand.Rand, v []uint64) {
		fill(v, func(int) uint64 { return rng.Uint64() })
	},
	"few bits": func(rng *rand.Rand, v []uint64) {
		n := 1 + rng.Uint64N(20)
		fill(v, func(int) uint64 { return rng.Uint64N(n) })
	},
	"any width": func(rng *rand.Rand, v []uint64) {
		w := rng.IntN(65)
		fill(v, func(int) uint64 { return rng.Uint64() >> w })
	},
	"all widths": func(rng *rand.Rand, v []uint64) {
		fill(v, func(int) uint64 { return rng.Uint64() >> rng.IntN(64) })
	},
	"rising": func(rng *rand.Rand, v []uint64) {
		c, mean := rng.Uint64(), math.Exp(rng.Float64()*30)
		fill(v, func(int) uint64 { c += uint64(rng.ExpFloat64() * mean); return c })
	},
	"wrapping": func(rng *rand.Rand, v []uint64) {
		c := -rng.Uint64N(1000)
		fill(v, func(int) uint64 { c += rng.Uint64N(5); return c })
	},
	"falling": func(rng *rand.Rand, v []uint64) {
		c := rng.Uint64()
		fill(v, func(int) uint64 { c -= rng.Uint64N(1000); return c })
	},
	"wandering": func(rng *rand.Rand, v []uint64) {
		c, w := rng.Uint64(), rng.IntN(64)
		fill(v, func(int) uint64 { c += uint64(int64(rng.Uint64()) >> w); return c })
	},
	"rare leaps": func(rng *rand.Rand, v []uint64) {
		c := uint64(0)
		fill(v, func(int) uint64 {
			c++
			if rng.IntN(100) == 0 {
				c += rng.Uint64() >> rng.IntN(64)
			}
			return c
		})
	},
	"shuffled": func(rng *rand.Rand, v []uint64) {
		c, phase := rng.Uint64(), rng.IntN(64)
		fill(v, func(i int) uint64 { return c + uint64(i) })
		for from := phase; from < len(v); from += 64 {
			g := v[from:min(from+64, len(v))]
			rng.Shuffle(len(g), func(i, j int) { g[i], g[j] = g[j], g[i] })
		}
	},
	"nearly shuffled": func(rng *rand.Rand, v []uint64) {
		c, wrong := rng.Uint64(), rng.IntN(len(v))
		fill(v, func(i int) uint64 { return c + uint64(i) })
		for from := 0; from < len(v); from += 64 {
			g := v[from:min(from+64, len(v))]
			rng.Shuffle(len(g), func(i, j int) { g[i], g[j] = g[j], g[i] })
		}
		if rng.IntN(2) == 0 {
			v[wrong] += 64
		} else {
			v[wrong] = v[max(wrong, 1)-1]
		}
	},
	"merged": func(rng *rand.Rand, v []uint64) {
		var last [300]uint64
		n := 1 + rng.IntN(300)
		for i := range last {
			last[i] = rng.Uint64()
		}
		fill(v, func(int) uint64 {
			s := rng.IntN(n)
			last[s] += 1 + rng.Uint64N(2)
			return last[s]
		})
	},
	"exceptions of exceptions": func(rng *rand.Rand, v []uint64) {
		fill(v, func(i int) uint64 {
			switch {
			case i%1000 == 0:
				return rng.Uint64()
			case i%30 == 0:
				return 1<<40 + rng.Uint64N(1<<20)
			}
			return rng.Uint64N(3)
		})
	},
	"extremes": func(rng *rand.Rand, v []uint64) {
		ends := []uint64{0, 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64}
		fill(v, func(int) uint64 { return ends[rng.IntN(len(ends))] })
	},
}

func fill(v []uint64, f func(i int) uint64) {
	for i := range v {
		v[i] = f(i)
	}
}

func TestColumnsComeBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 0))
	var e columnEncoder
	var d columnDecoder
	for name, draw := range shapes {
		for round := 0; round < 120; round += seed.Share() {
			n := 1 + rng.IntN(1+min(round*round, 20_000))
			values := make([]uint64, n)
			draw(rng, values)
			quantum := uint64(1)
			switch round % 6 {
			case 1:
				quantum = 26
			case 2:
				quantum = 1 + rng.Uint64N(1000)
			case 3:
				quantum = rng.Uint64() // this is not the quantum of the columns
			case 4:
				quantum = 0
			}
			if round%6 < 3 {
				for i := range values {
					values[i] *= quantum
				}
			}
			e.hurried = rng.IntN(2) == 0
			// The column lies in rows with other columns, which must stay untouched.
			width := 1 + rng.IntN(3)
			c := rng.IntN(width)
			words, got := make([]uint64, n*width), make([]uint64, n*width)
			for i, v := range values {
				words[i*width+c] = v
			}
			column := viewColumn(words, c, width)
			for _, counters := range []bool{true, false} {
				var coded []byte
				if counters {
					var lo, hi uint64
					coded, lo, hi = e.appendCounters(nil, column, quantum)
					if lo != slices.Min(values) || hi != slices.Max(values) {
						t.Fatalf("%s: range %d to %d, want %d to %d", name, lo, hi,
							slices.Min(values), slices.Max(values))
					}
				} else {
					coded = e.appendValues(nil, column)
				}
				if limit := 8*n + 40; len(coded) > limit {
					t.Errorf("%s: %d bytes for %d values", name, len(coded), n)
				}
				rest, err := d.column(viewColumn(got, c, width), append(coded, "rest"...))
				if err != nil || string(rest) != "rest" {
					t.Fatalf("%s, %d values: %d bytes left, error %v", name, n, len(rest), err)
				}
				if !slices.Equal(got, words) {
					t.Fatalf("%s, %d values, quantum %d, counters %v: they differ", name, n,
						quantum, counters)
				}
			}
		}
	}
}

// A block takes at most 64 bytes more than its rows, whatever the rows contain.
func TestBlockIsNeverMuchLargerThanItsRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 1))
	var e encoder
	for name, drawCounters := range shapes {
		for _, drawIDs := range shapes {
			n := 1 + rng.IntN(3000)
			counters, ids := make([]uint64, n), make([]uint64, n)
			drawCounters(rng, counters)
			drawIDs(rng, ids)
			b := Block{}
			for i := range counters {
				b.Events = append(b.Events, Event{counters[i], ids[i]})
			}
			if got, limit := len(e.appendBlock(nil, &b, 26)), 16*n+64; got > limit {
				t.Errorf("%s: %d bytes for %d records, at most %d", name, got, n, limit)
			}
		}
	}
}

// In one channel, ids of several nodes and instances are mixed. Each instance counts its own ids,
// so an id takes only the bits that name its source.
func TestMergedIDsStayNearEntropy(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 5))
	for _, sources := range []int{2, 3, 5, 16, 60, 255} {
		next := make([]uint64, sources)
		for i := range next {
			next[i] = rng.Uint64N(1<<24)<<40 | rng.Uint64N(1<<30)
		}
		values := make([]uint64, MaxRows)
		fill(values, func(int) uint64 {
			s := rng.IntN(sources)
			next[s]++
			return next[s]
		})
		coded := new(columnEncoder).appendValues(nil, columnView{
			words: values, width: 1, rows: len(values),
		})
		got, entropy := 8*float64(len(coded))/MaxRows, math.Log2(float64(sources))
		if limit := 1.05*entropy + 0.3; got > limit {
			t.Errorf("%d sources: %.3f bits an id, entropy %.3f, limit %.3f", sources, got, entropy,
				limit)
		}
	}
}

// The encoder recognizes groups of 64 shuffled ids, at whatever index of a block the groups begin.
func TestShuffledGroupsAreFoundAtAnyPhase(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 6))
	for phase := range 64 {
		values := make([]uint64, 5000)
		fill(values, func(i int) uint64 { return 1000 + uint64(i) })
		for from := phase; from < len(values); from += 64 {
			g := values[from:min(from+64, len(values))]
			rng.Shuffle(len(g), func(i, j int) { g[i], g[j] = g[j], g[i] })
		}
		coded := new(columnEncoder).appendValues(nil, columnView{
			words: values, width: 1, rows: len(values),
		})
		if got := 8 * float64(len(coded)) / float64(len(values)); got > 5.2 {
			t.Errorf("phase %d: %.2f bits a value, 5 and a little are enough", phase, got)
		}
	}
}

// The decoder refuses columns that no encoder writes. Its error says what is wrong, and the decoder
// does not panic.
func TestSenselessColumnsAreRefused(t *testing.T) {
	eight := "12345678"
	split := func(low, width, exceptions byte, rest string) string {
		return string([]byte{columnPlain, numbersSplit}) + eight +
			string([]byte{low, width, exceptions}) + rest
	}
	nested := "\x00"
	for range exceptionDepth + 2 {
		nested += string([]byte{numbersSplit}) + eight + string([]byte{
			0, 8, 20, symbolsConstant, 255,
		})
	}
	zeros := string(make([]byte, 400))
	for name, coded := range map[string]string{
		"nothing":               "",
		"unknown kind":          "\x05",
		"plain without numbers": "\x00",
		"unknown numbers":       "\x00\x03",
		"short constant":        "\x00\x001234567",
		"short whole":           "\x00\x02" + zeros[:159],
		"short first value":     "\x011234567",
		"no quantum":            "\x01" + eight,
		"quantum 0":             "\x01" + eight + "\x00",
		"quantum of 11 bytes": "\x01" + eight +
			"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"delta without numbers":        "\x01" + eight + "\x01",
		"frames without phase":         "\x02",
		"phase 64":                     "\x02\x40\x00" + eight,
		"frames without bases":         "\x02\x00\x00" + eight,
		"bases of another kind":        "\x02\x00\x00" + eight + "\x00\x00" + eight,
		"shuffled without phase":       "\x04",
		"shuffled with phase 64":       "\x04\x40" + zeros,
		"short choices":                "\x04\x00" + zeros[:21],
		"place 64":                     "\x04\x00\xc0\x0f" + zeros[:20] + "\x01" + eight + "\x01",
		"shuffled without bases":       "\x04\x00" + zeros[:22],
		"short split":                  "\x00\x01" + eight + "\x00",
		"low 57":                       split(57, 0, 0, zeros),
		"low 255":                      split(255, 0, 0, zeros),
		"short low parts":              split(8, 0, 0, zeros[:26]),
		"width 3":                      split(0, 3, 0, zeros),
		"width 16":                     split(0, 16, 0, zeros),
		"exceptions without symbols":   split(0, 0, 1, zeros),
		"more exceptions than values":  split(0, 8, 21, "\x02\xff"+zeros),
		"fewer exceptions than marked": split(0, 8, 19, "\x02\xff"+zeros),
		"more exceptions than marked":  split(0, 8, 1, "\x02\x00"+zeros),
		"no symbols":                   split(0, 8, 0, ""),
		"unknown symbols":              split(0, 8, 0, "\x03"),
		"short symbols":                split(0, 8, 0, "\x00"+zeros[:19]),
		"no constant symbol":           split(0, 8, 0, "\x02"),
		"long huffman":                 split(0, 8, 0, "\x01\x05abcd"),
		"empty huffman":                split(0, 8, 0, "\x01\x00"),
		"senseless huffman":            split(0, 8, 0, "\x01\x14abcdefghijklmnopqrst"),
		"exceptions nested too deep":   nested + "\x00" + eight,
		"no sources":                   "\x03",
		"0 sources":                    "\x03\x00\x02\x00\x00" + eight,
		"short sources":                "\x03\x02" + eight,
		"unknown source":               "\x03\x03" + eight + eight + eight + "\x02\xff\x00" + eight,
	} {
		values := make([]uint64, 20)
		rest,
			err := new(columnDecoder).column(columnView{words: values, width: 1, rows: len(values)},
			[]byte(coded))
		if !errors.Is(err, errColumn) {
			t.Errorf("%s: %d bytes left, error %v", name, len(rest), err)
		}
	}
}

func TestExactDivision(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 2))
	for range 100_000 / seed.Share() {
		divisor := 2 + rng.Uint64()>>(1+rng.IntN(62))
		value := rng.Uint64() >> rng.IntN(64)
		if rng.IntN(2) == 0 {
			value -= value % divisor
		}
		column := columnView{words: []uint64{0, value}, width: 1, rows: 2}
		d, _, _ := new(columnEncoder).deltas(column, divisor)
		whole := int64(value)%int64(divisor) == 0
		if whole != (d != nil) || whole && d[0]*divisor != value {
			t.Fatalf("%d by %d: got %d", int64(value), divisor, d)
		}
	}
}

func TestAnyAtLeast(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 3))
	for range 100_000 / seed.Share() {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], rng.Uint64()&rng.Uint64()&rng.Uint64())
		limit := byte(1 + rng.IntN(255))
		if got, want := anyAtLeast(binary.LittleEndian.Uint64(b[:]), limit),
			slices.Max(b[:]) >= limit; got != want {
			t.Fatalf("%v has one of at least %d: %v", b, limit, got)
		}
	}
}

func TestSymbolsComeBack(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 4))
	for _, width := range []int{1, 2, 4, 8} {
		for n := range 70 {
			symbols, got := make([]byte, n), make([]byte, n)
			for i := range symbols {
				symbols[i] = byte(rng.Uint64N(1 << width))
			}
			packed := packSymbols(nil, symbols, width)
			if len(packed) != (n*width+7)/8 {
				t.Fatalf("%d symbols of %d bits: %d bytes", n, width, len(packed))
			}
			unpackSymbols(got, packed, width)
			if !slices.Equal(got, symbols) {
				t.Fatalf("width %d: %v came back as %v", width, symbols, got)
			}
		}
	}
}

func FuzzColumnDecoder(f *testing.F) {
	var e columnEncoder
	rng := rand.New(rand.NewPCG(1, 1))
	for _, draw := range shapes {
		values := make([]uint64, 300)
		draw(rng, values)
		column := columnView{words: values, width: 1, rows: len(values)}
		coded, _, _ := e.appendCounters(nil, column, 1)
		f.Add(uint16(300), coded)
		f.Add(uint16(300), e.appendValues(nil, column))
	}
	var d columnDecoder
	f.Fuzz(func(t *testing.T, n uint16, coded []byte) {
		values := make([]uint64, int(n)+1)
		column := columnView{words: values, width: 1, rows: len(values)}
		rest, err := d.column(column, coded)
		if err != nil {
			return
		}
		if len(rest) > len(coded) {
			t.Fatal("more is left than there was")
		}
		// The decoded values can be encoded and decoded again.
		again := make([]uint64, len(values))
		if _, err := d.column(columnView{words: again, width: 1, rows: len(again)},
			e.appendValues(nil, column)); err != nil || !slices.Equal(again, values) {
			t.Fatalf("values do not come back: %v", err)
		}
	})
}

func FuzzColumnRoundTrip(f *testing.F) {
	f.Add(uint64(26), []byte("12345678abcdefgh"))
	for _, draw := range shapes {
		values := make([]uint64, 300)
		draw(rand.New(rand.NewPCG(1, 1)), values)
		var data []byte
		for _, v := range values {
			data = binary.LittleEndian.AppendUint64(data, v)
		}
		f.Add(uint64(26), data)
	}
	var e columnEncoder
	var d columnDecoder
	f.Fuzz(func(t *testing.T, quantum uint64, data []byte) {
		var values []uint64
		for ; len(data) >= 8 && len(values) < MaxRows; data = data[8:] {
			values = append(values, binary.LittleEndian.Uint64(data))
		}
		if len(values) == 0 {
			return
		}
		column := columnView{words: values, width: 1, rows: len(values)}
		got := make([]uint64, len(values))
		to := columnView{words: got, width: 1, rows: len(got)}
		coded, _, _ := e.appendCounters(nil, column, quantum)
		if rest, err := d.column(to, coded); err != nil || len(rest) > 0 ||
			!slices.Equal(got, values) {
			t.Fatalf("counters: %d bytes left, error %v", len(rest), err)
		}
		if rest, err := d.column(to, e.appendValues(nil, column)); err != nil || len(rest) > 0 ||
			!slices.Equal(got, values) {
			t.Fatalf("values: %d bytes left, error %v", len(rest), err)
		}
	})
}
