package generator

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// Each trial of this engine succeeds by chance, with a fixed probability. A search claims, with 95
// % confidence, that at least SureShare of all trials succeed. So in at most one search of twenty,
// SureShare may exceed the probability. This must hold although a search may try to confirm several
// rates, and although every trial here has a mark that says that this machine was disturbed.
func TestConfidenceIsKept(t *testing.T) {
	seed.NotUnderRace(t, "nothing runs side by side")
	const searches = 1500
	rng := seed.Random(t)
	for _, succeeds := range []float64{0.25, 0.6} {
		wrong, reported := 0, 0
		for range searches {
			s, err := NewSearch(SearchOptions{Connect: intoNothing, Tuples: testTuples(t),
				NoCurve: true, Start: 1000, MaxTrials: 200})
			if err != nil {
				t.Fatal(err)
			}
			s.measureCeiling = func(context.Context) (float64, error) { return 10e6, nil }
			s.try = func(_ context.Context, rate float64, _, length time.Duration) (
				Observation, error,
			) {
				o := Observation{Rate: rate, Length: length}
				for i := range 10 {
					n := uint64(i+1) * 100
					o.Samples = append(o.Samples,
						Sample{time.Duration(i) * time.Second, n, n, n})
				}
				o.Check = Check{Received: 1000, Sources: 1, Ended: 1}
				o.Sender.Marks = []Marked{{Mark: Late}}
				if rng.Float64() > succeeds || rate > 1e6 {
					o.Check.Duplicates = 1
				}
				return o, nil
			}
			r, err := s.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r.SureShare > 0 {
				reported++
			}
			if r.SureShare > succeeds {
				wrong++
			}
		}
		// On average, at most one search in twenty is wrong. By chance it may be more, so the test
		// allows 25 more. Fewer than one run of this test in a hundred exceeds that.
		if reported < searches/10 || wrong > searches/20+25 {
			t.Errorf("of trials of which %.0f %% succeed: %d of %d searches say more, %d say "+
				"something", succeeds*100, wrong, searches, reported)
		}
	}
}

func TestSureShare(t *testing.T) {
	for _, test := range []struct {
		confirmed, attempts int
		want                float64
	}{{0, 3, 0}, {1, 1, 0.025}, {3, 1, 0.2924}, {3, 2, 0.2027}, {20, 1, 0.8316}} {
		got := sureShare(test.confirmed, test.attempts)
		if math.Abs(got-test.want) > 1e-4 {
			t.Errorf("%d trials in attempt %d: %.4f, want %.4f", test.confirmed, test.attempts, got,
				test.want)
		}
	}
}

func TestAnswerSaysHowSureItIs(t *testing.T) {
	r := SearchResult{Sustained: 100, Failed: 102, LimitedBy: ByEngine,
		Why: []Reason{BacklogGrows}, Confirmed: 3, Wanted: 3, Attempts: 2, SureShare: 0.2029,
		Arrivals: PoissonArrivals}
	const want = "sustained: 100 tuples a second; the engine is the limit: at 102 the backlog " +
		"grows\nconfirmed 3 of 3 times, after 1 higher rate that could not be confirmed\nwith " +
		"95 % confidence, at least 20 in 100 such trials succeed\ntuples were due at random " +
		"times (Poisson)"
	if got := r.Answer(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	r.Confirmed, r.SureShare, r.Arrivals = 0, 0, EvenArrivals
	if got := r.Answer(); !strings.HasSuffix(got, "confirmed only 0 of 3 times, after 1 higher "+
		"rate that could not be confirmed") {
		t.Error(got)
	}
}

// dueBy counts due tuples by the schedule, and not by the rate, because random arrivals come in
// clusters.
func TestDueBy(t *testing.T) {
	const rate, span = 5000.0, 2 * time.Second
	for _, arrivals := range []Arrivals{EvenArrivals, PoissonArrivals} {
		s := &Search{o: SearchOptions{Threads: 3, Arrivals: arrivals}}
		schedule, err := Constant(rate, span)
		if arrivals == PoissonArrivals {
			schedule, err = Poisson(rate, span, 7)
		}
		if err != nil {
			t.Fatal(err)
		}
		var due_ns []float64
		for i := range 3 {
			next := schedule.Thread(i, 3)
			for at, ok := next(); ok; at, ok = next() {
				due_ns = append(due_ns, at)
			}
		}
		dueBy := s.dueBy(schedule, rate)
		off := 0.0 // largest difference between a count and rate × time
		for at := time.Duration(0); at <= span+time.Second; at += 7013 * time.Microsecond {
			var want uint64
			for _, d := range due_ns {
				if d <= float64(at) {
					want++
				}
			}
			got := dueBy(at.Seconds())
			if got != want {
				t.Fatalf("%s: by %s %d are due, want %d", arrivals, at, got, want)
			}
			if at < span {
				off = max(off, math.Abs(float64(got)-rate*at.Seconds()))
			}
		}
		if random := off > 5; random != (arrivals == PoissonArrivals) {
			t.Errorf("%s: at most %.0f off the rate", arrivals, off)
		}
	}
}
