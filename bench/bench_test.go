package bench

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

func TestBusyTime(t *testing.T) {
	// The columns are: user nice system idle iowait irq softirq steal guest guest_nice.
	got, err := busyTime([]byte("cpu  100 20 3 1000000 5000 4 5 6 7 8\ncpu0 1 1 1 1 1 1 1 1 1 1\n"))
	if want := (100 + 20 + 3 + 4 + 5 + 6) * tick; err != nil || got != want {
		t.Errorf("busyTime = %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "cpu", "cpu0 1 2 3 4 5 6 7 8 9", "cpu  1 2 3 4 5 6 7 x 9 10"} {
		if got, err := busyTime([]byte(bad)); err == nil {
			t.Errorf("busyTime(%q) = %v", bad, got)
		}
	}
}

func TestOthersSince(t *testing.T) {
	start := time.Unix(0, 0)
	before := usage{at: start, busy: time.Second, own: 300 * time.Millisecond}
	after := usage{at: start.Add(2 * time.Second), busy: 3 * time.Second,
		own: 1800 * time.Millisecond}
	if got := after.othersSince(before); got != 0.25 {
		t.Errorf("othersSince = %v, want 0.25: half a second of two", got)
	}
	after.busy = time.Second // the kernel has not yet counted the busy time
	if got := after.othersSince(before); got != 0 {
		t.Errorf("othersSince = %v, want 0", got)
	}
}

func TestSamplesLeaveOutDisturbedRepetitions(t *testing.T) {
	var s samples
	for _, repetition := range []struct {
		turns  []float64
		counts bool
	}{{[]float64{1, 9, 2}, true}, {[]float64{100, 100}, false}, {[]float64{4, 6}, true}} {
		for _, v := range repetition.turns {
			s.add(v)
		}
		s.endRepetition(repetition.counts)
	}
	if len(s.counted) != 2 || s.counted[0] != 2 || s.counted[1] != 5 || s.figure() != 3.5 {
		t.Errorf("counted %v, figure %v, want [2 5] and 3.5", s.counted, s.figure())
	}
}

// Log gives a figure for each of its rows, and no channel drops an event.
func TestLogMeasuresEveryRow(t *testing.T) {
	if seed.Race {
		t.Skip("under the race detector the figures mean nothing")
	}
	result, err := Log(context.Background(), LogOptions{Repetitions: 1, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	want := "null counter counter-multi counter-multi-2 xoy-2-of-1024 downsample-1-of-1000 " +
		"id buffered first-last id-rdtsc buffered-rdtsc shared-1 shared-2"
	var names []string
	for _, row := range result.Rows {
		names = append(names, row.Name)
		if row.Dropped != 0 {
			t.Errorf("%s: %d dropped", row.Name, row.Dropped)
		}
		if row.Absent == "" && result.Counted > 0 && (len(row.Ratios) != 1 || row.Ratios[0] <= 0) {
			t.Errorf("%s: ratios %v", row.Name, row.Ratios)
		}
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
	if len(result.Cold) != 2 || result.Cold[1].P99_ns < result.Cold[1].P50_ns {
		t.Errorf("cold rows: %+v", result.Cold)
	}
}

func TestLogEndsWhenItIsTold(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Log(ctx, LogOptions{Repetitions: 5, Limit: time.Hour, Dir: t.TempDir()})
	if err != context.Canceled {
		t.Errorf("Log = %v, want context.Canceled", err)
	}
}
