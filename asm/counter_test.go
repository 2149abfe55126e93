package asm

import (
	"runtime"
	"testing"
	"time"
)

func TestEveryReadingMovesForwardOnOneCore(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	readings := map[string]func() uint64{
		"Counter":              Counter,
		"CounterUnordered":     CounterUnordered,
		"EdgeOpen":             EdgeOpen,
		"EdgeClose":            EdgeClose,
		"LoopCounter":          func() uint64 { return LoopCounter(3) },
		"LoopCounterUnordered": func() uint64 { return LoopCounterUnordered(3) },
	}
	for name, read := range readings {
		t.Run(name, func(t *testing.T) {
			low := Counter()
			got := read()
			time.Sleep(time.Millisecond)
			high := Counter()
			// The CPU may execute an unordered reading some hundred instructions early.
			const window = 10_000
			if got+window < low || got > high {
				t.Fatalf("%s() = %d, want within [%d, %d]", name, got, low, high)
			}
			if high == low {
				t.Fatalf("counter stood still at %d for a millisecond", low)
			}
		})
	}
}

func TestReadingsKeepAll64Bits(t *testing.T) {
	if c := Counter(); runtime.GOARCH == "amd64" && c>>32 == 0 {
		t.Skipf("counter %d is younger than 2^32 cycles", c)
	}
	a, b := Counter(), CounterUnordered()
	if d := int64(b - a); d > 1<<40 || d < -1<<40 {
		t.Fatalf("Counter() = %d and CounterUnordered() = %d disagree", a, b)
	}
}

func TestLoopOfZeroReadsNothing(t *testing.T) {
	if got := LoopCounter(0); got != 0 {
		t.Fatalf("LoopCounter(0) = %d", got)
	}
	if got := LoopCounterUnordered(0); got != 0 {
		t.Fatalf("LoopCounterUnordered(0) = %d", got)
	}
}

func BenchmarkCounter(b *testing.B) {
	for b.Loop() {
		Counter()
	}
}

func BenchmarkCounterUnordered(b *testing.B) {
	for b.Loop() {
		CounterUnordered()
	}
}

func BenchmarkLoopCounter(b *testing.B)          { LoopCounter(uint64(b.N)) }
func BenchmarkLoopCounterUnordered(b *testing.B) { LoopCounterUnordered(uint64(b.N)) }
