package analysis

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// makeTripRun makes a run in which B acknowledges to A each tuple that arrives. It returns the
// run's parent directory, the nodes, and two lists for the tuples whose acknowledgement was
// answered. The lists say how long each tuple took, and the round trip that was measured where it
// arrived, both in true cycles. Some tuples or packets are lost or come twice.
func makeTripRun(t *testing.T, tuples uint64,
	more ...func(add func(channel int, time, id uint64))) (string, []simrun.Node, []int64,
	[]int64) {
	t.Helper()
	rng := seed.Random(t)
	nodes := simrun.Nodes(rng, 3)
	names := []string{
		"source#0/send", "count#0/recv", "source#0/ret-sent", "count#0/ret-arrived",
		"source#0/ret-acknowledged", "count#0/ret-echoed", "count#1/ret-arrived",
	}
	var channels []simrun.Channel
	for i, name := range names {
		channels = append(channels, simrun.Channel{Node: []int{0, 1, 0, 1, 0, 1, 2}[i], Name: name})
	}
	add := func(channel int, time, id uint64) {
		channels[channel].Records = append(channels[channel].Records, simrun.Record{
			Time: time, ID: id,
		})
	}
	var took, back []int64
	for id := range tuples {
		at := simrun.Hz + id*300_000
		add(0, at, id)
		add(2, at+100, id)
		if id%10 == 1 {
			continue // filtered
		}
		arrives := at + 20_000 + rng.Uint64N(100_000)
		add(1, arrives, id)
		add(3, arrives+100, id)
		acknowledged := arrives + 10_000 + rng.Uint64N(1<<rng.UintN(17))
		if id%10 == 2 {
			continue // the acknowledgement is lost
		}
		add(4, acknowledged, id)
		echoed := acknowledged + 10_000 + rng.Uint64N(20_000)
		switch id % 10 {
		case 3:
			continue // the echo is lost
		case 4: // both are received twice
			add(4, acknowledged+500, id)
			add(5, echoed+500, id)
		case 5: // the tuple is delivered again
			add(3, arrives+5_000, id)
		case 6:
			add(6, arrives+5_000, id) // to another node
		case 7:
			add(2, at+150, id) // its id leaves twice
		}
		add(5, echoed, id)
		if id%10 != 6 && id%10 != 7 {
			took, back = append(took, int64(arrives-at)), append(back, int64(echoed-arrives-100))
		}
	}
	add(3, simrun.Hz, 1<<40) // nobody sent it
	for _, f := range more {
		f(add)
	}
	for i := range channels {
		simrun.InOrder(channels[i].Records)
	}
	parent := t.TempDir()
	if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
		t.Fatal(err)
	}
	return parent, nodes, took, back
}

// The durations of return trips contain the truth, and are in the answer next to those of the
// related counters. The channels of return trips are not points of the program.
func TestReturnTrips(t *testing.T) {
	parent, _, took, back := makeTripRun(t, 2000)
	dir := openRun(t, parent, "r")
	a := analyze(t, dir, Options{Reference: "A"})
	if len(a.Points) != 2 || len(a.Spans) != 1 || len(a.Channels) != 7 || a.Partial ||
		a.Work.Events != 3800 {
		t.Errorf("%d points, %d spans, %d channels, %d events, partial %v: %v", len(a.Points),
			len(a.Spans), len(a.Channels), a.Work.Events, a.Partial, a.Findings)
	}
	if len(a.Findings) != 2 || a.Findings[0].Kind != FindNote ||
		!strings.Contains(a.Findings[0].Text, "of 1 tuples") ||
		!strings.Contains(a.Findings[1].Text, "of 400 tuples") {
		t.Errorf("findings %v, want notes that one tuple was not sent, and 400 not counted",
			a.Findings)
	}
	if len(a.ReturnTrips) != 1 {
		t.Fatalf("%d kinds of return trips, want one", len(a.ReturnTrips))
	}
	r := a.ReturnTrips[0]
	if r.From != "source" || r.To != "count" || r.FromNode != "A" || r.ToNode != "B" {
		t.Errorf("%s on %s to %s on %s", r.From, r.FromNode, r.To, r.ToNode)
	}
	if n := uint64(len(took)); n != 1000 || r.ByReturnTrip.Count != n || r.ByCounters.Count != n ||
		r.Unanswered != 400 || r.Disagree != 0 {
		t.Errorf("%d and %d durations, %d unanswered, %d disagree", r.ByReturnTrip.Count,
			r.ByCounters.Count, r.Unanswered, r.Disagree)
	}
	slices.Sort(took)
	slices.Sort(back)
	for _, percent := range []float64{1, 50, 99} {
		rank := rankOf(uint64(percent*1000), uint64(len(took)))
		// A duration may be off its true value by this much: counters run at up to 50 ppm off the
		// true clock, and the channels do not log at the same moment.
		truth, off := took[rank], took[rank]/10_000+1
		for name, d := range map[string]*Durations{"return trip": &r.ByReturnTrip,
			"counters": &r.ByCounters} {
			if i := percentile(d, percent); truth+off < i.Lo_cycles || truth-off > i.Hi_cycles {
				t.Errorf("p%g by %s is %v, and the truth %d", percent, name, i, truth)
			}
		}
		claim := int64(
			r.ByReturnTrip.Bounds[slices.IndexFunc(r.ByReturnTrip.Bounds,
				func(b BoundPercentile) bool { return b.Percent == percent })].Bound_cycles)
		if half := back[rank] / 2; claim < half-half/10_000-1 || claim > half+half/1000+10 {
			t.Errorf("p%g of claims is %d, half of the round trip %d", percent, claim, half)
		}
	}
	var n uint64
	for _, b := range r.OverTime {
		n += b.Count
		if b.BoundByReturnTrip_cycles < 5_000 || b.BoundByCounters_cycles <= 0 ||
			b.ByReturnTrip.Lo_cycles > b.ByCounters.Hi_cycles ||
			b.ByReturnTrip.Hi_cycles < b.ByCounters.Lo_cycles {
			t.Errorf("bin %+v", b)
		}
	}
	if n != r.ByReturnTrip.Count {
		t.Errorf("%d durations over time, %d in all", n, r.ByReturnTrip.Count)
	}
	for _, c := range a.Comparisons {
		m := c.Methods[2]
		switch related := c.A == "A" && c.B == "B"; {
		case m.Name != ReT, related == (m.Absent != ""):
			t.Errorf("%s and %s: %s absent for %q", c.A, c.B, m.Name, m.Absent)
		case related && (m.Median_cycles < back[0]/2 ||
			m.Median_cycles > back[len(back)-1]/2+back[len(back)-1]/16):
			t.Errorf("median claim %d of round trips from %d to %d", m.Median_cycles, back[0],
				back[len(back)-1])
		}
	}
	// With a scratch file and many partitions, the answer is the same.
	if again := analyze(t, dir, Options{Reference: "A", Memory_bytes: 1 << 20, Workers: 1,
		partitions: 9}); !cmp.Equal(a, again, cmpopts.IgnoreFields(Answer{}, "Work")) {
		t.Errorf("with less memory (-with more +with less):\n%s",
			cmp.Diff(a.ReturnTrips, again.ReturnTrips))
	}
	if none := analyze(t, dir, Options{Reference: "A",
		Filter: Filter{IDs: [][2]uint64{{20, 29}}}}); none.ReturnTrips[0].ByReturnTrip.Count != 5 {
		t.Errorf("of ten ids %d return trips are whole, want 5",
			none.ReturnTrips[0].ByReturnTrip.Count)
	}
	if some := analyze(t, dir, Options{Reference: "A",
		Filter: Filter{To_cycles: uint64(a.Bins.From_cycles) +
			a.Bins.Width_cycles*uint64(
				a.Bins.Count)/2}}); some.ReturnTrips[0].ByReturnTrip.Count < 400 ||
		some.ReturnTrips[0].ByReturnTrip.Count > 600 {
		t.Errorf("of half of the time %d return trips, want about 500",
			some.ReturnTrips[0].ByReturnTrip.Count)
	}
}

// If a return trip contradicts the related counters, a finding says so.
func TestReturnTripsThatDisagree(t *testing.T) {
	parent, _, _, _ := makeTripRun(t, 100, func(add func(channel int, time, id uint64)) {
		const begin = 2 * simrun.Hz
		// The acknowledgement is much earlier than the arrival.
		for i, at := range []uint64{begin, begin + 50_000_000, begin + 10_000, begin + 50_010_000} {
			add(2+i, at, 1<<41)
		}
	})
	a := analyze(t, openRun(t, parent, "r"), Options{})
	if r := a.ReturnTrips[0]; r.Disagree != 1 ||
		!slices.ContainsFunc(a.Findings, func(f Finding) bool {
			return f.Kind == FindImpossible
		}) || !a.Partial {
		t.Errorf("%d disagree, findings %v", r.Disagree, a.Findings)
	}
}

// A run may have only return trips.
func TestReturnTripsAlone(t *testing.T) {
	parent, _, took, _ := makeTripRun(t, 100)
	a := analyze(t, openRun(t, parent, "r"), Options{Filter: Filter{Channels: []string{"*/ret-*"}}})
	if len(a.Points) != 0 || len(a.Spans) != 0 ||
		a.ReturnTrips[0].ByReturnTrip.Count != uint64(len(took)) {
		t.Errorf("%d points, %d spans, %d kinds of return trips", len(a.Points), len(a.Spans),
			len(a.ReturnTrips))
	}
}

func percentile(d *Durations, percent float64) Interval {
	return d.Percentiles[slices.IndexFunc(d.Percentiles, func(p Percentile) bool {
		return p.Percent == percent
	})].Interval
}
