//go:build !race

package asm_test

import (
	"runtime"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestBarStampByCall limits the cost of a stamp in a Go program. For each stamp the program calls
// an assembly function, so a stamp costs more than the bare instruction.
func TestBarStampByCall(t *testing.T) {
	size := proof.Begin(t)
	if runtime.GOARCH != "amd64" {
		t.Skip("the speed of stamps is quoted for amd64 only")
	}
	reps := 15
	if size == proof.Full {
		reps = 101
	}
	stamps := func(n uint64) {
		for range n {
			asm.Counter()
		}
	}
	stampsUnordered := func(n uint64) {
		for range n {
			asm.CounterUnordered()
		}
	}
	ratio := func(ours func(uint64), bare func(uint64) uint64) (ratios []float64) {
		const n = 200_000
		cycles := func(run func(uint64)) float64 {
			open := asm.EdgeOpen()
			run(n)
			return float64(asm.EdgeClose() - open)
		}
		for range reps {
			ratios = append(ratios, cycles(ours)/cycles(func(n uint64) { bare(n) }))
		}
		return ratios
	}
	proof.Check(t,
		proof.Bar{Name: "Counter", Limit: 1.12, Unit: "× bare rdtscp", Timing: true}.
			From(ratio(stamps, asm.LoopCounter)),
		proof.Bar{Name: "CounterUnordered", Limit: 1.12, Unit: "× bare rdtsc", Timing: true}.
			From(ratio(stampsUnordered, asm.LoopCounterUnordered)),
	)
}
