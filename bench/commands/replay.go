package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/replay"
)

type benchReplayFlags struct {
	json   bool
	events int
	run    string
	plots  string
}

const (
	replayBudget = 8     // a stamp may hold this many offsets, as in the thesis
	replayFewer  = 100.0 // least ratio of free pairs: an epsilon of 1 ms to our bounds
	oursSkew_us  = 40.0  // as in the digest of the thesis, § 7
)

func newBenchReplay() *cobra.Command {
	var flags benchReplayFlags
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Simulate replay clocks, and count free pairs of a run",
		Long: `Simulate replay clocks: how many processes their stamps hold, for the skew of clocks,
the length of epochs, the least delay, the rate of messages and the number of processes. A setting
is feasible if stamps hold at most 8 processes on average. The skew is that of clocks under NTP (1
and 2 ms) and that of a proven bound (40 µs). docs/replay.md explains replay clocks.

--plots draws the offsets, and the regions in which clocks are feasible.

--run counts the free pairs of a run: with what is proven, and if clocks could differ by 1 ms.`,
		Example: `  cp-bench replay
  cp-bench replay --plots docs
  cp-bench replay --run bin/demo --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchReplay(cmd.Context(), flags, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object")
	cmd.Flags().IntVar(&flags.events, "events", 20_000, "events of each simulation")
	cmd.Flags().StringVar(&flags.run, "run", "", "count the free pairs of this run")
	cmd.Flags().StringVar(&flags.plots, "plots", "", "write images into this directory")
	return cmd
}

// replayLine is what "cp-bench replay --json" prints. Scripts read it: append only.
type replayLine struct {
	Varied  []bench.ClockSize `json:"varied"`
	Regions []region          `json:"regions"`
	Free    *freePairs        `json:"free_pairs,omitempty"`
}

// region says how many offsets a stamp of a replay clock contains on average, for several delays
// and rates of messages. A stamp contains one offset for each process about which it says
// something.
type region struct {
	Skew_us   float64     `json:"skew_us"`
	Processes int         `json:"processes"`
	Rates_hz  []float64   `json:"rates_hz"`
	Delays_us []float64   `json:"delays_us"`
	Offsets   [][]float64 `json:"offsets"` // by delay, then by rate
}

type freePairs struct {
	Run         string  `json:"run"`
	Events      uint64  `json:"events,string"`
	Bound_ns    float64 `json:"bound_ns"` // the largest half-width
	Ours        uint64  `json:"ours,string"`
	Millisecond uint64  `json:"epsilon_1ms,string"`
}

func runBenchReplay(ctx context.Context, flags benchReplayFlags, stdout io.Writer) error {
	if flags.events < 1 {
		return command.Usagef("--events %d: give 1 or more", flags.events)
	}
	var line replayLine
	for _, vary := range variations {
		for _, v := range vary.values {
			s := replayBase
			vary.set(&s, v)
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			line.Varied = append(line.Varied, bench.SimulateClocks(s, flags.events, 1))
		}
	}
	for _, n := range []int{32, 64} {
		for _, skew := range []float64{oursSkew_us, 1000, 2000} {
			line.Regions = append(line.Regions, regionOf(skew, n, flags.events))
		}
	}
	if flags.run != "" {
		free, err := countFree(ctx, flags.run)
		if err != nil {
			return err
		}
		line.Free = free
		if err := proof.Report(proof.Bar{
			Name:   "free pairs with an epsilon of 1 ms, as a multiple of those with our bounds",
			Figure: float64(free.Millisecond) / float64(max(free.Ours, 1)), Limit: replayFewer,
			AtLeast: true, Unit: "×", Timing: true, // as wide as the bounds of this machine
		}); err != nil {
			return err
		}
	}
	if flags.plots != "" {
		if err := writeReplayPlots(flags.plots, &line); err != nil {
			return err
		}
	}
	if flags.json {
		return json.NewEncoder(stdout).Encode(line)
	}
	return printReplay(stdout, &line)
}

var replayBase = bench.ClockSetting{Processes: 32, Skew_us: 2000, Epoch_us: 20, Delay_us: 8,
	Rate_hz: 40}

var variations = []struct {
	label, unit string
	values      []float64
	set         func(*bench.ClockSetting, float64)
	of          func(*bench.ClockSetting) float64
}{
	{"skew", "µs", []float64{40, 1000, 2000, 4000, 6000},
		func(s *bench.ClockSetting, v float64) { s.Skew_us = v },
		func(s *bench.ClockSetting) float64 { return s.Skew_us }},
	{"epoch", "µs", []float64{4, 20, 100, 500},
		func(s *bench.ClockSetting, v float64) { s.Epoch_us = v },
		func(s *bench.ClockSetting) float64 { return s.Epoch_us }},
	{"least delay", "µs", []float64{1, 8, 2000, 5000},
		func(s *bench.ClockSetting, v float64) { s.Delay_us = v },
		func(s *bench.ClockSetting) float64 { return s.Delay_us }},
	{"messages from each process", "1/s", []float64{10, 20, 40, 80, 160},
		func(s *bench.ClockSetting, v float64) { s.Rate_hz = v },
		func(s *bench.ClockSetting) float64 { return s.Rate_hz }},
	{"processes", "", []float64{16, 32, 64},
		func(s *bench.ClockSetting, v float64) { s.Processes = int(v) },
		func(s *bench.ClockSetting) float64 { return float64(s.Processes) }},
}

func regionOf(skew_us float64, processes, events int) region {
	r := region{Skew_us: skew_us, Processes: processes,
		Rates_hz:  []float64{40, 160, 320, 640, 1280, 2560, 5120, 10240},
		Delays_us: []float64{1, 8, 64, 512}}
	for _, d := range r.Delays_us {
		var row []float64
		for _, rate := range r.Rates_hz {
			row = append(row, bench.SimulateClocks(bench.ClockSetting{Processes: processes,
				Skew_us: skew_us, Epoch_us: skew_us / 10, Delay_us: d, Rate_hz: rate}, events,
				1).Offsets)
		}
		r.Offsets = append(r.Offsets, row)
	}
	return r
}

// countFree counts the pairs of a run's events whose order is not known. It does so twice: with the
// bounds that are proven, and with clocks that may differ by 1 ms.
func countFree(ctx context.Context, path string) (*freePairs, error) {
	dir, err := command.OpenRun(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	answer, err := analysis.Run(ctx, dir, analysis.Options{Slowest: -1})
	if err != nil {
		return nil, err
	}
	hz := answer.Reference.FrequencyLo_hz
	if hz == 0 {
		return nil, fmt.Errorf("count free pairs: the frequency of %s is not known",
			answer.Reference.Node)
	}
	f := &freePairs{Run: path}
	for _, epsilon := range []uint64{0, uint64(hz / 1000)} {
		r, err := replay.Open(dir, replay.Options{Reference: answer.Reference.Node,
			Edges: answer.Follows(), Renames: answer.Causes.Renames, Made: answer.Made(),
			Epsilon_cycles: epsilon})
		if err != nil {
			return nil, err
		}
		s, err := r.Each(ctx, nil)
		r.Close()
		if err != nil {
			return nil, err
		}
		if epsilon > 0 {
			f.Millisecond = s.Free
			continue
		}
		f.Events, f.Ours, f.Bound_ns = s.Events, s.Free, float64(s.Bound_cycles)/hz*1e9
	}
	return f, nil
}

func printReplay(w io.Writer, line *replayLine) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "processes\tskew\tepoch\tdelay\trate\toffsets held\tmost\tcounting\tbytes")
	for _, v := range line.Varied {
		fmt.Fprintf(t, "%d\t%g us\t%g us\t%g us\t%g/s\t%.2f\t%d\t%.2f %%\t%.0f\n", v.Processes,
			v.Skew_us, v.Epoch_us, v.Delay_us, v.Rate_hz, v.Offsets, v.Most, 100*v.Counting,
			v.Bytes)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range line.Regions {
		fmt.Fprintf(w, "\nfeasible (#: at most %d offsets held), %d processes, skew %g us\n",
			replayBudget, r.Processes, r.Skew_us)
		for i, d := range r.Delays_us {
			fmt.Fprintf(w, "  delay %4g us  ", d)
			for _, held := range r.Offsets[i] {
				mark := "."
				if held <= replayBudget {
					mark = "#"
				}
				fmt.Fprintf(w, " %s %5.2f ", mark, held)
			}
			fmt.Fprintln(w)
		}
		fmt.Fprint(w, "  messages/s     ")
		for _, rate := range r.Rates_hz {
			fmt.Fprintf(w, " %7g ", rate)
		}
		fmt.Fprintln(w)
	}
	if f := line.Free; f != nil {
		fmt.Fprintf(w, "\nrun %s: %s events, at most %.0f ns from the truth\nfree pairs: %s with "+
			"our bounds, %s with an epsilon of 1 ms: %.0f × as many\n", f.Run,
			command.Thousands(f.Events), f.Bound_ns, command.Thousands(f.Ours),
			command.Thousands(f.Millisecond), float64(f.Millisecond)/float64(max(f.Ours, 1)))
	}
	return nil
}
