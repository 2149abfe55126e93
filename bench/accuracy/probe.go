package accuracy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Options say what to measure.
type Options struct {
	Seed        uint64
	Lasting     time.Duration // length of each session
	Limit       time.Duration // after this time, no further part begins; 0: no limit
	Queries     int           // number of queries for each row
	Loopback    bool          // put both ends on the loopback interface: no namespaces, no root
	Settings    []Setting     // each is measured in a session of its own
	Repetitions int           // number of measurements of round trips, and of the paper's method
	WithPaper   bool

	// Progress may be nil. It is called now and then with the number of the part, the number of
	// parts, what the part does, and how long it has run.
	Progress func(part, parts int, what string, elapsed time.Duration)
}

// Result is what was measured.
type Result struct {
	Machine    Machine
	Loopback   bool
	Rows       []Row
	Costs      []Cost
	Papers     []PaperRow
	RoundTrips RoundTrips
	Left       []string // parts that were not begun before the limit
	Series     []Series
	Declared   []Declared
}

// Declared says how wide the bounds from the same trains are if more wander is declared than there
// is.
type Declared struct {
	Setting
	Stamps       Stamps
	Wanders      []tscratio.Wander
	HalfWidth_us []float64 // median half-width under each of Wanders
}

// Cost is the processor time of a session's two ends, as a share of one core.
type Cost struct {
	Setting
	Prober, Answerer float64
	Lasted           time.Duration
}

// Settings returns the settings to measure: the usual settings and, if all is true, then also all
// other settings.
func Settings(all bool) []Setting {
	var out []Setting
	add := func(s Setting) {
		for _, load := range []bool{false, true} {
			for _, w := range []tscratio.Wander{100 * tscratio.PPB, 1 * tscratio.PPM} {
				s.Load, s.Wander = load, w
				out = append(out, s)
			}
		}
	}
	usual := Setting{Shape: vnode.Sine, Exchanges: 5, PerSecond: 2}
	add(usual)
	if all {
		walk, spinning, singles := usual, usual, usual
		walk.Shape = vnode.Walk
		add(walk)
		spinning.Spin = true
		add(spinning)
		singles.Exchanges, singles.PerSecond = 1, 6
		add(singles)
	}
	return out
}

func (s Setting) String() string {
	mode, load, kind := "blocking", "idle", "trains"
	if s.Spin {
		mode = "spinning"
	}
	if s.Load {
		load = "under TCP load"
	}
	if s.Exchanges == 1 {
		kind = "singles"
	}
	return fmt.Sprintf("%s, %s, %s, w = %v, %s", kind, mode, load, s.Wander, s.Shape)
}

// Probe measures what the options ask for. If a measurement fails, the result contains what was
// measured before.
func Probe(ctx context.Context, o Options) (result Result, err error) {
	machine, err := examineCounter()
	if err != nil {
		return result, err
	}
	return probe(ctx, o, machine)
}

func probe(ctx context.Context, o Options, machine Machine) (result Result, err error) {
	l, err := newLab(machine, o.Loopback)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	result.Machine, result.Loopback = l.machine, o.Loopback
	r := rand.New(rand.NewPCG(o.Seed, 0))
	if o.WithPaper {
		for _, load := range []bool{false, true} {
			result.Papers = append(result.Papers,
				PaperRow{Transport: "udp", Spin: true, Load: load},
				PaperRow{Transport: "udp", Load: load}, PaperRow{Transport: "zmq", Load: load})
		}
	}

	type part struct {
		what string
		run  func(progress func(time.Duration)) error
	}
	var parts []part
	parts = append(parts, part{"round trips", func(func(time.Duration)) error {
		for range o.Repetitions {
			if err := l.roundTrips(ctx, &result.RoundTrips); err != nil {
				return err
			}
		}
		return nil
	}})
	for _, s := range o.Settings {
		parts = append(parts, part{s.String(), func(progress func(time.Duration)) error {
			return l.session(ctx, r, s, o, &result, progress)
		}})
	}
	for i := range result.Papers {
		row := &result.Papers[i]
		what := "the paper's method, " + row.Name()
		parts = append(parts, part{what, func(func(time.Duration)) error {
			for range o.Repetitions {
				if err := l.paper(ctx, r, row, 1000); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	begun := time.Now()
	for i, p := range parts {
		if o.Limit > 0 && time.Since(begun) > o.Limit {
			result.Left = append(result.Left, p.what)
			continue
		}
		progress := func(elapsed time.Duration) {
			if o.Progress != nil {
				o.Progress(i, len(parts), p.what, elapsed)
			}
		}
		progress(0)
		if err := p.run(progress); err != nil {
			return result, fmt.Errorf("%s: %w", p.what, err)
		}
	}
	result.Papers = slices.DeleteFunc(result.Papers,
		func(r PaperRow) bool { return len(r.Ratios) == 0 })
	return result, nil
}

// session runs a session and adds its measurements to the result.
func (l *twoEnds) session(ctx context.Context, r *rand.Rand, setting Setting, o Options,
	result *Result, progress func(time.Duration)) error {
	s, err := l.run(ctx, r, setting, o.Lasting, progress)
	if err != nil {
		return err
	}
	rows, series, err := s.rows(r, o.Queries)
	if err != nil {
		return err
	}
	declared, err := s.declared(r)
	if err != nil {
		return err
	}
	result.Declared = append(result.Declared, declared...)
	result.Rows = append(result.Rows, rows...)
	result.Series = append(result.Series, series...)
	result.Costs = append(result.Costs, Cost{
		Setting: setting, Lasted: s.lasted,
		Prober:   s.cpu[0].Seconds() / s.lasted.Seconds(),
		Answerer: s.cpu[1].Seconds() / s.lasted.Seconds(),
	})
	return nil
}

// Median returns the middle of the values. It sorts v, and returns 0 if there are no values.
func Median(v []float64) float64 { return Quantile(v, 0.5) }

// Quantile returns the value below which a share of the values lies. It sorts v.
func Quantile(v []float64, share float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[min(int(share*float64(len(v))), len(v)-1)]
}
