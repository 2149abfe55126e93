package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// In these processes of this program, which measuring starts, it is the command itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == drainerWord {
		main()
		return
	}
	os.Exit(leak.Main(m))
}

// The interval holds the effect in at least 95 of 100 cases, however skewed is what comes second in a pair suffers.
func TestIntervalCovers(t *testing.T) {
	random := seed.Random(t)
	const effect = 0.02
	for _, n := range []int{6, 20, 21, 70} {
		const trials = 1000
		inside := 0
		for range trials {
			values := make([]float64, n)
			for i := range values {
				second := math.Exp(2*random.NormFloat64()) / 10 // skewed, of median 0.1 and mean 0.74
				if i%2 == 0 {
					second = -second
				}
				values[i] = effect + second + random.NormFloat64()/100
			}
			i := intervalOf(values)
			if i.Lo <= effect && effect <= i.Hi {
				inside++
			}
			if i.Lo > i.Estimate || i.Estimate > i.Hi {
				t.Fatalf("%d values: estimate outside: %+v", n, i)
			}
		}
		if share := float64(inside) / trials; share < 0.925 {
			t.Errorf("%d values: the effect was inside in %.3f of %d trials", n, share, trials)
		}
	}
	if i := intervalOf([]float64{1, 2, 3, 4, 5}); !math.IsInf(i.Hi, 1) || !math.IsInf(i.Lo, -1) || i.Estimate != 3 {
		t.Errorf("five values: %+v, want no ends", i)
	}
	for n, critical := range map[int]int{6: 0, 10: 8, 20: 52, 50: 434} { // as in every table of the signed-rank test
		if k := outside(n); k != critical+1 {
			t.Errorf("%d values: the interval begins at the %d. smallest mean, want the %d.", n, k, critical+1)
		}
	}
}

func TestCompareFindsWhatWasPut(t *testing.T) {
	var with, without []stretch
	for range 30 {
		drift := 1 + rand.Float64() // of the machine, over pairs
		cpu := func(us, messages float64) stretch {
			return stretch{time.Duration(us * drift * messages * 1000), time.Duration(us * drift * messages * 2000), uint64(messages)}
		}
		with, without = append(with, cpu(10.2, 1000)), append(without, cpu(10, 2000))
	}
	if c := compare(with, without); math.Abs(c.CPU.Estimate-2) > 0.01 || math.Abs(c.CPU.Hi-2) > 0.01 || math.Abs(c.Wall.Lo-2) > 0.01 {
		t.Errorf("two percent more: %+v", c)
	}
}

func measureHere(t *testing.T, what plan) figures {
	t.Helper()
	argv, err := reexec.Argv(drainerWord)
	if err != nil {
		t.Fatal(err)
	}
	what.Drainer = argv
	p, err := job.ParsePlacement([]byte(placement))
	if err != nil {
		t.Fatal(err)
	}
	f, err := measure(t.Context(), p, what, func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The whole measurement, too small to say anything of cost: that it ends, counts every event and leaves nothing.
func TestMeasureSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds of a core")
	}
	t.Setenv("TMPDIR", t.TempDir())
	f := measureHere(t, plan{Pairs: minPairs, Null: minPairs, Stretch: minStretch})
	// Two events at each of source, deserialise and filter, and for a third of the tuples two at each of project, join and count, and a link: 8⅓
	// where every tuple comes to the end. The job is cut off, and up to 512 wait before each of four actors.
	if least := 8 - 8*4*512/float64(f.Tuples); f.EventsPerTuple < least || f.EventsPerTuple > 9 {
		t.Errorf("%v events a tuple of %d, want %v to 9", f.EventsPerTuple, f.Tuples, least)
	}
	if f.Tuples == 0 || f.OffCPU_us <= 0 || f.Call_ns <= 0 || f.Drainer <= 0 {
		t.Errorf("figures %+v", f)
	}
	var out bytes.Buffer
	if err := f.print(&out); err != nil || !strings.Contains(out.String(), "bar: ") {
		t.Errorf("printed %q, %v", out.String(), err)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left in %s: %v, %v", os.TempDir(), left, err)
	}
}

func TestUsage(t *testing.T) {
	var out, stderr bytes.Buffer
	if err := run(context.Background(), []string{"-h"}, &out, &stderr); err != nil || stderr.Len() == 0 {
		t.Errorf("-h: %v, %q", err, stderr.String())
	}
	for _, args := range [][]string{{"-pairs", "1"}, {"-null-pairs", "5"}, {"-stretch", "1ms"}, {"x"}, {"-what"}} {
		var out, stderr bytes.Buffer
		if err := run(context.Background(), args, &out, &stderr); !errors.Is(err, errUsage) || stderr.Len() == 0 {
			t.Errorf("%q: %v, %q", args, err, stderr.String())
		}
	}
}

// All handlers cost three percent of the job's processor time at the most. The bar is on processor time because throughput is that of the
// machine, too: of whatever else runs on it. The upper end of the measured interval is a bar at full size alone, as a small interval is wide; what
// is computed is one at any size.
func TestBarOverhead(t *testing.T) {
	what, full := plan{Pairs: minPairs, Null: minPairs, Stretch: minStretch}, false
	if proof.Begin(t) == proof.Full {
		what, full = plan{Pairs: 6000, Null: 1000, Stretch: 30 * time.Millisecond}, true // 6,000 say it to 0.3 %
	}
	f := measureHere(t, what)
	var out strings.Builder
	if err := f.print(&out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	bars := []proof.Bar{{Name: "log calls of a streaming job, computed", Figure: f.Computed, Limit: limit_percent, Unit: "% of its CPU time", Timing: true}}
	if full {
		bar := proof.Bar{Name: "instrumentation of a streaming job, upper end", Figure: f.Full.CPU.Hi, Limit: limit_percent, Unit: "% of its CPU time", Timing: true}
		if f.Full.CPU.Hi > limit_percent && f.Full.CPU.Lo < limit_percent {
			bar.Absent = fmt.Sprintf("the interval is too wide to say: %+.2f %% to %+.2f %%", f.Full.CPU.Lo, f.Full.CPU.Hi)
		}
		bars = append(bars, bar)
	}
	proof.Check(t, bars...)
}
