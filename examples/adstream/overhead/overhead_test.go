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

// The measurement starts this program again as its drainer.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == drainerWord {
		main()
		return
	}
	os.Exit(leak.Main(m))
}

// The interval contains the effect in at least 95 of 100 cases. This holds even if the second
// stretch of each pair takes longer than the first, by a random amount with a skewed distribution.
func TestIntervalCovers(t *testing.T) {
	random := seed.Random(t)
	const effect = 0.02
	for _, n := range []int{6, 20, 21, 70} {
		const trials = 1000
		inside := 0
		for range trials {
			values := make([]float64, n)
			for i := range values {
				second := math.Exp(2*random.NormFloat64()) / 10 // median 0.1, mean 0.74
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
	five := intervalOf([]float64{1, 2, 3, 4, 5})
	if !math.IsInf(five.Hi, 1) || !math.IsInf(five.Lo, -1) || five.Estimate != 3 {
		t.Errorf("five values: %+v, want no ends", five)
	}
	// The critical values can be looked up in any table of Wilcoxon's signed-rank test.
	for n, critical := range map[int]int{6: 0, 10: 8, 20: 52, 50: 434} {
		if k := chooseEnds(n); k != critical+1 {
			t.Errorf("%d values: the interval begins at smallest mean %d, want %d",
				n, k, critical+1)
		}
	}
}

func TestCompareFindsWhatWasPut(t *testing.T) {
	var with, without []stretchWork
	for range 30 {
		drift := 1 + rand.Float64() // how the machine's speed drifts over pairs
		of := func(us, messages float64) stretchWork {
			cpu_ns := us * drift * messages * 1000
			return stretchWork{time.Duration(cpu_ns), time.Duration(2 * cpu_ns), uint64(messages)}
		}
		with, without = append(with, of(10.2, 1000)), append(without, of(10, 2000))
	}
	c := compare(with, without)
	for _, percent := range []float64{c.CPU.Estimate, c.CPU.Hi, c.Wall.Lo} {
		if math.Abs(percent-2) > 0.01 {
			t.Errorf("%+v, want two percent more", c)
		}
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

// A short measurement, from which the cost cannot be judged, still counts every event and leaves
// nothing behind.
func TestMeasureSmall(t *testing.T) {
	seed.NotUnderRace(t, "the tests of package job run the job")
	if testing.Short() {
		t.Skip("takes some seconds of a core")
	}
	t.Setenv("TMPDIR", t.TempDir())
	f := measureHere(t, plan{Pairs: minPairs, Null: minPairs, Stretch: minStretch})
	// Each tuple has two events at each of source, deserialise and filter. A third of the tuples
	// have two more at each of project, join and count, and a link. That makes 8⅓ events per tuple
	// if every tuple comes to the end. The job is cut off while up to 512 tuples wait before each
	// of four operators.
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
	err := run(context.Background(), []string{"-h"}, &out, &stderr)
	if err != nil || stderr.Len() == 0 {
		t.Errorf("-h: %v, %q", err, stderr.String())
	}
	for _, args := range [][]string{
		{"-pairs", "1"}, {"-null-pairs", "5"}, {"-stretch", "1ms"}, {"-procs", "-1"},
		{"x"}, {"-what"},
	} {
		var out, stderr bytes.Buffer
		err := run(context.Background(), args, &out, &stderr)
		if !errors.Is(err, errUsage) || stderr.Len() == 0 {
			t.Errorf("%q: %v, %q", args, err, stderr.String())
		}
	}
}

// Instrumentation costs at most three percent of the job's processor time. The bar limits processor
// time because throughput also depends on whatever else runs on the machine. The computed share
// must meet the bar at any size. The upper end of the measured interval must meet it only at full
// size, because a small measurement has a wide interval.
func TestBarOverhead(t *testing.T) {
	what, full := plan{Pairs: minPairs, Null: minPairs, Stretch: minStretch}, false
	if proof.Begin(t) == proof.Full {
		// 6000 pairs give an interval that is 0.3 % wide.
		what, full = plan{Pairs: 6000, Null: 1000, Stretch: 30 * time.Millisecond}, true
	}
	f := measureHere(t, what)
	var out strings.Builder
	if err := f.print(&out); err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	bars := []proof.Bar{{
		Name: "log calls of a streaming job, computed", Figure: f.Computed,
		Limit: limit_percent, Unit: "% of its CPU time", Timing: true,
	}}
	if full {
		cpu := f.Full.CPU
		bar := proof.Bar{
			Name: "instrumentation of a streaming job, upper end", Figure: cpu.Hi,
			Limit: limit_percent, Unit: "% of its CPU time", Timing: true,
		}
		if cpu.Hi > limit_percent && cpu.Lo < limit_percent {
			bar.Absent = fmt.Sprintf("the interval is too wide to judge: %+.2f %% to %+.2f %%",
				cpu.Lo, cpu.Hi)
		}
		bars = append(bars, bar)
	}
	proof.Check(t, bars...)
}
