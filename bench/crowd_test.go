package bench

import (
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

func TestRepetitionsLeaveOutCrowdedTurns(t *testing.T) {
	r := seed.Random(t)
	const quiet, loaded = 0.03, 0.055
	for _, share := range []float64{0, 0.3, 0.8, 1} { // share of the turns that are crowded
		var all []turn
		alone := 0
		for i := range 1000 {
			one := turn{ratio: 1.05, ns: 20, crowd: quiet * (0.95 + r.Float64()*0.1)}
			switch {
			case i%100 == 50: // its base was interrupted
				one.crowd, one.ratio = quiet/3, 0.3
			case r.Float64() < share:
				one.ratio, one.ns, one.crowd = 1.4, 26, loaded*(0.95+r.Float64()*0.1)
			default:
				alone++
			}
			all = append(all, one)
		}
		ratios, ns := quietRepetitions(all, quietestTime(all))
		want, least := 1.05, (alone+10)/turnsPerRepetition
		if share == 1 { // then no quiet turn shows the difference
			want, least = 1.4, 990/turnsPerRepetition
		}
		if len(ratios) < least-1 || len(ns) != len(ratios) ||
			slices.Min(ratios) != want || slices.Max(ratios) != want {
			t.Errorf("%.0f %% crowded: %d repetitions, want %d of %v; %v",
				100*share, len(ratios), least, want, ratios)
		}
	}
	if ratios, _ := quietRepetitions(nil, quietestTime(nil)); len(ratios) > 0 {
		t.Error(ratios)
	}
}

// To decide whether a turn was crowded, judge compares it with the quietest turns of all rows with
// the same base. judge returns the number of repetitions of the row that has the fewest.
func TestJudge(t *testing.T) {
	row := func(base string, crowds ...float64) *logRun {
		r := &logRun{LogRow: LogRow{Base: base}}
		for _, c := range crowds {
			for range turnsPerRepetition {
				r.all = append(r.all, turn{ratio: c, ns: 1, crowd: c})
			}
		}
		return r
	}
	absent := row("rdtsc")
	absent.Absent = "no second core"
	rows := []*logRun{row("rdtscp", 1, 1, 2, 1), row("rdtscp", 1, 2, 1.2, 2),
		row("rdtsc", 2, 2, 2.2, 4), absent}
	if n := judge(rows); n != 2 ||
		len(rows[0].Ratios) != 3 || len(rows[1].Ratios) != 2 || len(rows[2].Ratios) != 3 {
		t.Error(n, rows[0].Ratios, rows[1].Ratios, rows[2].Ratios)
	}
	if n := judge(nil); n != 0 {
		t.Error(n)
	}
}
