package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// logLimits has the bar of each row: the largest cost of a log call, divided by the cost of a bare
// reading of the counter. AMD's rdtscp takes longer than Intel's, so the same additional work gives
// a smaller ratio. Therefore AMD's bars are no higher than Intel's, except for id-cold. For CPUs of
// other makers, Intel's bars apply.
var logLimits = map[string]struct{ intel, amd float64 }{
	"id-cold":              {2, 2.5}, // the ratio of the typical times
	"null":                 {0.1, 0.1},
	"counter":              {0.2, 0.2},
	"counter-multi":        {0.4, 0.3},
	"counter-multi-2":      {0.4, 0.3},
	"xoy-2-of-1024":        {0.25, 0.25},
	"downsample-1-of-1000": {0.25, 0.25},
	"id":                   {1.25, 1.06},
	"buffered":             {1.25, 1.06},
	"first-last":           {1.25, 1.06},
	"id-rdtsc":             {1.25, 1.06},
	"buffered-rdtsc":       {1.25, 1.06},
	"shared-1":             {1.6, 1.3},
	"shared-2":             {2.2, 1.7},
}

func logLimit(row string) float64 {
	if proof.ThisMachine().Core.Vendor == proof.AMD {
		return logLimits[row].amd
	}
	return logLimits[row].intel
}

type benchLogFlags struct {
	json        bool
	repetitions int
	limit       time.Duration
	dir         string
}

func newBenchLog() *cobra.Command {
	var flags benchLogFlags
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Measure what a log call costs, as a ratio to a bare counter reading",
		Long: `Measure what a log call costs, as a ratio to a bare counter reading.

Each row is one handler. The base is the bare instruction in one loop without calls: rdtscp, or
rdtsc for the rows with that stamp. Nobody drains the rings: one writer overwrites old events, and
several writers stay below the ring's size. Rows and base take turns every few milliseconds. A
repetition is the median of many turns.

A repetition does not count if other processes took more than a tenth of a core. A turn does not
count if additions beside it took a quarter longer than beside the quietest turns: the hypervisor
then let another guest run on the same core. A figure is the median of the repetitions that count.

The first rows make one call every 10 µs, after the program has used the caches for something else.
This is the cost that users see. The limits differ between AMD and Intel.

Exit code 3: fewer than 5 repetitions counted, or a row could not be measured here.`,
		Example: `  cp-bench log
  cp-bench log --repetitions 15
  cp-bench log --json | jq -r '[.name, .ratio_to_counter] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchLog(cmd.Context(), flags, cmd.Flags().Changed,
				cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object a line")
	cmd.Flags().IntVar(&flags.repetitions, "repetitions", 7,
		"repetitions that must count, about a second each")
	cmd.Flags().DurationVar(&flags.limit, "limit", time.Minute,
		"begin no repetition after this time")
	cmd.Flags().StringVar(&flags.dir, "rings", "",
		"directory in which to make one for the rings (default /dev/shm)")
	return cmd
}

func runBenchLog(ctx context.Context, flags benchLogFlags, given func(string) bool,
	stdout, stderr io.Writer) error {
	if err := checkSize(&flags.repetitions, &flags.limit, given); err != nil {
		return err
	}
	line := command.NewProgress(stderr)
	result, err := bench.Log(ctx, bench.LogOptions{
		Repetitions: flags.repetitions, Limit: flags.limit, Dir: flags.dir,
		Progress: func(counted, disturbed int) {
			line.Show("repetition %d of %d, %d disturbed by other processes",
				counted+1, flags.repetitions, disturbed)
		},
	})
	line.Done()
	if err != nil {
		return err
	}
	bars := logBars(result)
	return answer(bars, func() error {
		if flags.json {
			return printLogJSON(stdout, result)
		}
		return printLogTable(stdout, result, bars)
	})
}

// coldBar compares a log call after other work with a bare reading of the counter after the same
// work. This is what users pay, because their programs work between two calls.
func coldBar(rows []bench.ColdRow) (bars []proof.Bar) {
	for _, row := range rows[:max(0, len(rows)-1)] {
		if call := rows[len(rows)-1]; row.Name == "rdtscp-cold" {
			bars = append(bars, proof.Bar{Name: call.Name, Figure: call.Middle_ns / row.Middle_ns,
				Limit: logLimit(call.Name), Unit: "× " + row.Name, Timing: true})
		}
	}
	return bars
}

func logBars(result bench.LogResult) []proof.Bar {
	bars := coldBar(result.Cold)
	for _, row := range result.Rows {
		bar := proof.Bar{
			Name: row.Name, Limit: logLimit(row.Name), Unit: "× bare " + row.Base, Timing: true,
		}
		bars = append(bars, barOf(bar, row.Ratios, result.Disturbed, row.Absent))
		if row.Dropped > 0 {
			bars = append(bars, proof.Bar{
				Name:   row.Name + " dropped",
				Figure: float64(row.Dropped), Unit: "events", Timing: true,
			})
		}
	}
	return bars
}

func printLogTable(w io.Writer, result bench.LogResult, bars []proof.Bar) error {
	fmt.Fprintln(w, thisMachine())
	printCold(w, result.Cold, bars)
	fmt.Fprintf(w, "\none call after the other: bare rdtscp %.1f ns, bare rdtsc %.1f ns;\n"+
		"medians of %d repetitions, %d disturbed ones left out\n\n",
		result.Counter_ns, result.CounterUnordered_ns, result.Counted, result.Disturbed)
	byName := map[string]proof.Bar{}
	for _, bar := range bars {
		byName[bar.Name] = bar
	}
	fmt.Fprintf(w, "%-21s %6s  %-13s %9s %10s %8s  %s\n",
		"handler", "ratio", "from – to", "ns a call", "million/s", "dropped", "limit")
	for _, row := range result.Rows {
		bar := byName[row.Name]
		if bar.Absent != "" {
			fmt.Fprintf(w, "%-21s %6s  not measured: %s\n", row.Name, "–", bar.Absent)
			continue
		}
		ns := median(row.NS)
		fmt.Fprintf(w, "%-21s %6.3f  %5.3f – %5.3f %9.2f %10.1f %8d  ≤ %-4g %s\n",
			row.Name, bar.Figure, bar.Spread[0], bar.Spread[1],
			ns, 1e3/ns*float64(row.Writers), row.Dropped, bar.Limit, bar.Verdict())
	}
	fmt.Fprintf(w, "\nratio: to bare rdtscp, or to bare rdtsc for the rows with that stamp; "+
		"rows with -2: of each of two writers\n")
	return nil
}

// printCold prints the cost of a log call after other work.
func printCold(w io.Writer, rows []bench.ColdRow, bars []proof.Bar) {
	fmt.Fprintf(w, "one call every 10 µs, after 64 MiB of other work, in ns:\n\n")
	fmt.Fprintf(w, "%-21s %6s  %6s  %6s\n", "", "middle", "p50", "p99")
	for _, row := range rows {
		fmt.Fprintf(w, "%-21s %6.1f  %6.1f  %6.1f", row.Name, row.Middle_ns, row.P50_ns, row.P99_ns)
		for _, bar := range bars {
			if bar.Name == row.Name {
				fmt.Fprintf(w, "  %.2f × the bare reading  ≤ %g %s", bar.Figure, bar.Limit,
					bar.Verdict())
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "\nmiddle: the mean of the middle half, because some counters move in steps "+
		"of 10 ns")
}

// logLine is a row of "cp-bench log --json". Scripts read it: append only.
type logLine struct {
	Name           string   `json:"name"`
	Base           string   `json:"base,omitempty"` // the row to which the ratio relates
	NSPerOp        *float64 `json:"ns_per_op,omitempty"`
	RatioToCounter *float64 `json:"ratio_to_counter,omitempty"`
	RatioLow       *float64 `json:"ratio_low,omitempty"`
	RatioHigh      *float64 `json:"ratio_high,omitempty"`
	EventsPerS     *float64 `json:"events_per_s,omitempty"`
	Dropped        *uint64  `json:"dropped,omitempty"`
	Reps           int      `json:"reps"`
	Disturbed      int      `json:"disturbed"`
	P50_ns         *float64 `json:"p50_ns,omitempty"`
	P99_ns         *float64 `json:"p99_ns,omitempty"`
	Absent         string   `json:"absent,omitempty"`
	Middle_ns      *float64 `json:"middle_ns,omitempty"`
}

func printLogJSON(w io.Writer, result bench.LogResult) error {
	encoder := json.NewEncoder(w)
	for _, row := range result.Cold {
		line := logLine{Name: row.Name, Reps: row.Calls, P50_ns: &row.P50_ns, P99_ns: &row.P99_ns,
			Middle_ns: &row.Middle_ns}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	for _, row := range result.Rows {
		line := logLine{
			Name: row.Name, Base: row.Base, Absent: row.Absent,
			Reps: len(row.Ratios), Disturbed: result.Disturbed,
		}
		if len(row.Ratios) > 0 {
			ns, ratio := median(row.NS), median(row.Ratios)
			low, high := slices.Min(row.Ratios), slices.Max(row.Ratios)
			events := 1e9 / ns * float64(row.Writers)
			line.NSPerOp, line.RatioToCounter = &ns, &ratio
			line.RatioLow, line.RatioHigh = &low, &high
			line.EventsPerS, line.Dropped = &events, &row.Dropped
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
