package accuracy

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// TestMain runs the tests, or Peer if a test started this binary as a peer process.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], PeerArguments) {
		if err := Peer(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(leak.Main(m))
}

// quickSession is the setting of a short session, with ten trains a second.
var quickSession = Setting{Wander: 1 * tscratio.PPM, Shape: vnode.Sine, Exchanges: 3, PerSecond: 10}

// thisMachine examines the machine only once, because the examination takes a second.
var thisMachine = sync.OnceValues(examineCounter)

func machine(t *testing.T) Machine {
	t.Helper()
	m, err := thisMachine()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func measure(t *testing.T, o Options) Result {
	t.Helper()
	o.Seed, o.Queries = seed.Of(t), 2000/seed.Share()
	result, err := probe(t.Context(), o, machine(t))
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// checkRows fails the test unless all intervals except those of the paper's method contain the
// truth.
func checkRows(t *testing.T, rows []Row, sessions int) {
	t.Helper()
	if len(rows) != 8*sessions {
		t.Errorf("%d rows, want 8 of each of %d sessions", len(rows), sessions)
	}
	for _, row := range rows {
		if row.Queries == 0 || len(row.HalfWidths_us) != row.Queries {
			t.Errorf("%s: %d queries, %d half-widths",
				row.Name(), row.Queries, len(row.HalfWidths_us))
		}
		if row.Bound != Paper && (row.Outside > 0 || row.Verdict != tscratio.Consistent) {
			t.Errorf("%s, %v: %d of %d outside, %v",
				row.Name(), row.Setting, row.Outside, row.Queries, row.Verdict)
		}
		if row.TrueWander > row.Wander/2 {
			t.Errorf("%s: the nodes wander by %v, more than half of %v",
				row.Name(), row.TrueWander, row.Wander)
		}
	}
}

func TestBoundsOverLoopback(t *testing.T) {
	result := measure(t, Options{
		Loopback: true, Lasting: 1500 * time.Millisecond, Settings: []Setting{quickSession},
		Repetitions: 1, WithPaper: !testing.Short() && seed.Share() == 1,
	})
	checkRows(t, result.Rows, 1)
	for _, p := range result.Papers {
		if p.OursBeyond > 0 || p.Outside > 0 || len(p.Ratios) != 1 {
			t.Errorf("%s: %d outside of the paper's bound, %d outside of ours, ratios %v",
				p.Name(), p.Outside, p.OursBeyond, p.Ratios)
		}
	}
	trips := result.RoundTrips
	if trips.Absent == "" && (len(trips.Ratios) != 1 || trips.Smallest_us[0] <= 0 ||
		trips.Smallest_us[0] > trips.Median_us[0]) {
		t.Errorf("round trips %+v", trips)
	}
	if len(result.Costs) != 1 || result.Costs[0].Prober <= 0 || result.Costs[0].Answerer <= 0 {
		t.Errorf("costs %+v", result.Costs)
	}
	if len(result.Series) != 2 || len(result.Series[0].Points) == 0 {
		t.Errorf("%d series", len(result.Series))
	}
}

func TestPrivilegedBoundsBetweenNamespaces(t *testing.T) {
	privileged.Need(t)
	settings := []Setting{quickSession, quickSession, quickSession}
	settings[1].Load, settings[2].Spin = true, true
	result := measure(t, Options{Lasting: 1500 * time.Millisecond, Settings: settings})
	checkRows(t, result.Rows, 3)
	for _, row := range result.Rows {
		if row.Load != (row.LoadGbit > 0.01) {
			t.Errorf("load %v: %.3f Gbit/s came through", row.Load, row.LoadGbit)
		}
	}
}

func TestLimitLeavesPartsOut(t *testing.T) {
	result := measure(t, Options{
		Loopback: true, Lasting: time.Second, Limit: time.Nanosecond,
		Settings: []Setting{quickSession, quickSession},
	})
	if len(result.Left) != 3 || len(result.Rows) != 0 {
		t.Errorf("left %q, %d rows", result.Left, len(result.Rows))
	}
}

func TestEndedByContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := Options{Loopback: true, Lasting: time.Hour, Settings: []Setting{quickSession},
		Progress: func(_, _ int, _ string, elapsed time.Duration) {
			if elapsed > 0 {
				cancel()
			}
		}}
	if _, err := probe(ctx, o, machine(t)); err == nil {
		t.Error("an hour was over soon")
	}
}

// If stamps are wrong by more than the widths of the intervals, the intervals miss the truth, and
// the rows count that. The test moves stamps by a tenth of a second, because even on a busy machine
// intervals are much narrower than that.
func TestFalseBoundsAreCounted(t *testing.T) {
	l, err := newLab(machine(t), true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	r := seed.Random(t)
	s, err := l.run(t.Context(), r, quickSession, 1200*time.Millisecond, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.trains {
		for j := range s.trains[i].Exchanges {
			e := &s.trains[i].Exchanges[j]
			for _, stamp := range []*tscratio.Interval{&e.User.Received, &e.User.Answered,
				&e.Best.Received, &e.Best.Answered} {
				stamp.Lo += l.machine.Hz / 10
				stamp.Hi += l.machine.Hz / 10
			}
		}
		s.trains[i].Arrivals = nil
		// The paper draws its line through two exchanges, and these exchanges move with the stamps.
		// No query may be for a moment before them, so the time for queries begins later, too.
		s.trains[i].after += l.machine.Hz / 5
	}
	rows, _, err := s.rows(r, 500)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.Outside != row.Queries {
			t.Errorf("%s: node B's stamps are a tenth of a second late, "+
				"and %d of %d truths are still in the bound",
				row.Name(), row.Queries-row.Outside, row.Queries)
		}
	}
}

func TestPeerRefuses(t *testing.T) {
	for _, in := range []string{"", "{", `{"do":"nothing"}`} {
		if err := Peer(t.Context(), strings.NewReader(in), os.Stdout); err == nil {
			t.Errorf("%q is taken for an order", in)
		}
	}
}
