package minrtt

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// systemBracket calls the kernel's own function without help from the runtime. Between two readings
// of the counter, it reads the same clock as time.Now. This must work while stacks grow and the
// garbage collector runs.
func TestSystemBracketReadsTheClock(t *testing.T) {
	read := systemBracket()
	if read == nil {
		if runtime.GOARCH == "amd64" {
			t.Fatal("no bracket: the vDSO was not found")
		}
		t.Skip("brackets are made of single readings here")
	}
	var deep func(depth int) (widths []uint64)
	deep = func(depth int) []uint64 {
		first_ns, first_cycles := time.Now().UnixNano(), asm.Counter()
		before, at_ns, after := read()
		last_cycles, last_ns := asm.Counter(), time.Now().UnixNano()
		if !(first_cycles <= before && before < after && after <= last_cycles &&
			first_ns <= at_ns && at_ns <= last_ns) {
			t.Errorf("counter %d, clock %d, counter %d: outside of counter %d to %d, clock %d to "+
				"%d", before, at_ns, after, first_cycles, last_cycles, first_ns, last_ns)
		}
		if depth == 0 {
			return []uint64{after - before}
		}
		return append(deep(depth-1), after-before)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				runtime.GC()
				runtime.Gosched()
				deep(20) // make the runtime start with small stacks and grow them
			}
		})
	}
	all.Wait()
	t.Logf("narrowest bracket: %d cycles", slices.Min(deep(1000)))
}

// A bracket is not used if readings of the counter do not confirm it. Such a bracket is from
// another counter, or reading it failed.
func TestBracketOfAnotherCounterIsNotUsed(t *testing.T) {
	const step = 10 // cycles from one reading of the counter to the next; the first reading is 1010
	instead := bracket{1030, 71, 1040}
	for _, tc := range []struct {
		name       string
		from, want bracket
	}{
		{"within", bracket{1012, 70, 1018}, bracket{1012, 70, 1018}},
		{"as wide as may be", bracket{1010, 70, 1020}, bracket{1010, 70, 1020}},
		{"early", bracket{1009, 70, 1018}, instead},
		{"late", bracket{1012, 70, 1021}, instead},
		{"backwards", bracket{1018, 70, 1012}, instead},
		{"nothing", bracket{}, instead},
	} {
		now := uint64(1000)
		c := Clock{
			Counter:  func() uint64 { now += step; return now },
			Realtime: func() int64 { return instead.realtime_ns },
			Bracket: func() (uint64, int64, uint64) {
				return tc.from.before_cycles, tc.from.realtime_ns, tc.from.after_cycles
			},
		}
		if got := c.bracket(); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}
