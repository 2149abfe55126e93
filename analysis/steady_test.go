package analysis

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// An operator that drops the same share of tuples all the time seems to filter them. Bursts, and a
// few tuples now and then, are losses.
func TestFiltersOrLoses(t *testing.T) {
	each := func(n uint64, bins int) (all []uint64) {
		for range bins {
			all = append(all, n)
		}
		return all
	}
	for name, test := range map[string]struct {
		passed, ended, flying []uint64
		want                  bool
	}{
		"two of three":            {each(300, 5), []uint64{200, 190, 205, 203, 196}, nil, true},
		"few in each bin":         {each(8, 250), each(4, 250), nil, true},
		"one in twenty":           {each(1000, 5), each(50, 5), nil, true},
		"fewer":                   {each(1000, 5), []uint64{49, 50, 50, 50, 50}, nil, false},
		"all":                     {each(1000, 5), each(1000, 5), nil, true},
		"a burst":                 {each(300, 10), []uint64{0, 300}, nil, false},
		"a burst behind a filter": {each(300, 10), append(each(150, 9), 300), nil, false},
		"none at the end":         {each(300, 10), each(100, 8), nil, false},
		"some in flight": {each(300, 10), append(each(100, 8), 250, 300),
			[]uint64{8: 230, 9: 300}, true},
		"more than twice as many": {each(300, 5), []uint64{30, 30, 30, 30, 150}, nil, false},
		"too few to tell":         {each(190, 5), each(60, 5), nil, false},
		"too short to tell":       {each(1000, 4), each(500, 4), nil, false},
		"few at the ends": {append([]uint64{5}, each(300, 5)...),
			append([]uint64{0}, each(100, 5)...), nil, true},
		"nothing passed": {nil, nil, nil, false},
	} {
		f := pointFound{endedBins: test.ended, flyingBins: test.flying}
		if got := f.actsAsFilter(test.passed); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// dropSome makes tuples pass a point, evenly over the run's bins or in some of the bins only. The
// function drop gives the probability that a tuple ends at the point. Its argument is the tuple's
// place in the run, from 0 to 1.
func dropSome(rng *rand.Rand, tuples int, drop func(at float64) float64) (*pointFound, []uint64) {
	f, passed := &pointFound{endedBins: make([]uint64, maxBins)}, make([]uint64, maxBins)
	width := 1.0
	if rng.IntN(2) == 0 {
		width = 0.2 + 0.8*rng.Float64()
	}
	for i := range tuples {
		at := float64(i) / float64(tuples)
		bin := int(at * width * maxBins)
		passed[bin]++
		if rng.Float64() < drop(at) {
			f.endedBins[bin]++
		}
	}
	return f, passed
}

// If each tuple is dropped with the same probability, the point seems to filter. falseAlarm is the
// largest probability that it does not.
func TestSteadySharesAreFiltered(t *testing.T) {
	rng := seed.Random(t)
	trials, alarms := 2000/seed.Share(), 0
	for i := range trials {
		tuples := 2000 + rng.IntN(8000)
		if i%100 == 0 {
			tuples = 1_000_000
		}
		p := 0.05 + 0.85*rng.Float64()
		f, passed := dropSome(rng, tuples, func(float64) float64 { return p })
		var all flow
		for bin := range passed {
			all.add(flow{passed[bin], f.endedBins[bin]})
		}
		if got := f.actsAsFilter(passed); !got && all.share() >= leastShare {
			alarms++
			t.Logf("%d of %d tuples, with probability %.3f", all.ended, tuples, p)
		}
	}
	// With 2000 trials, falseAlarm allows 2 alarms on average. The probability of more than 9
	// alarms is 1 in 20,000.
	if alarms > 9 {
		t.Errorf("%d of %d steady shares were found to change", alarms, trials)
	}
}

// If tuples are lost in only a part of the run, they are called lost, whether or not a filter comes
// before.
func TestBurstsAreLost(t *testing.T) {
	rng := seed.Random(t)
	for i := range 500 / seed.Share() {
		tuples := 2000 + rng.IntN(8000)
		if i%100 == 0 {
			tuples = 1_000_000
		}
		long := 0.1 + 0.5*rng.Float64()
		begin := (1 - long) * rng.Float64()
		filter := 0.0
		if rng.IntN(2) == 0 {
			filter = 0.05 + 0.45*rng.Float64()
		}
		// A dead node loses all tuples, and an overflow loses some. A burst must be large enough to
		// be found: a twentieth of all tuples of the run or, behind a filter, four fifths of the
		// tuples in the burst.
		least := min(1, 0.055/long)
		if filter > 0 {
			least = max(least, 0.8)
		}
		lose := 1.0
		if rng.IntN(2) == 0 {
			lose = least + (1-least)*rng.Float64()
		}
		f, passed := dropSome(rng, tuples, func(at float64) float64 {
			if at >= begin && at < begin+long {
				return filter + (1-filter)*lose
			}
			return filter
		})
		if f.actsAsFilter(passed) {
			t.Errorf("%d tuples, filter %.2f: a burst of %.2f from %.2f to %.2f is filtered",
				tuples, filter, lose, begin, begin+long)
		}
	}
}

// If the same share of the tuples ends at a point during the whole run, the analysis of the run
// counts them as filtered. If tuples end there in a burst, it counts them as lost.
func TestSteadySharesOfRuns(t *testing.T) {
	rng := seed.Random(t)
	for _, test := range []struct {
		tuples, drop, flying int
		burst, want          bool
	}{
		{5000, 10, 0, false, true}, {20_000, 50, 0, false, true}, {20_000, 10, 0, false, true},
		{20_000, 6, 0, false, true}, {5000, 30, 500, false, true}, {5000, 10, 0, true, false},
		{20_000, 30, 0, true, false},
	} {
		channels := []simrun.Channel{{Name: "a/send"}, {Name: "b/recv", Node: 1}}
		for id := range uint64(test.tuples) {
			at := simrun.Hz + id*simrun.Hz/uint64(test.tuples)
			channels[0].Records = append(channels[0].Records, simrun.Record{Time: at, ID: id})
			dropped := rng.IntN(100) < test.drop
			if test.burst {
				part := int(id) * 100 / test.tuples
				dropped = part >= 40 && part < 40+test.drop
			}
			if !dropped && int(id) < test.tuples-test.flying {
				channels[1].Records = append(channels[1].Records,
					simrun.Record{Time: at + simrun.Hz/10_000, ID: id})
			}
		}
		parent, name := t.TempDir(), fmt.Sprint(test)
		if err := simrun.Write(rng, parent, "job", simrun.Nodes(rng, 2), channels); err != nil {
			t.Fatal(err)
		}
		p := analyze(t, openRun(t, parent, "job"), Options{}).Points[0]
		if p.Lost+p.Filtered == 0 || (p.Filtered > 0) != test.want ||
			test.want && p.Lost > 0 {
			t.Errorf("%s: %d filtered and %d lost", name, p.Filtered, p.Lost)
		}
	}
}
