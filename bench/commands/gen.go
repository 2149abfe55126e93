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
	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

type benchGenFlags struct {
	json        bool
	repetitions int
	limit       time.Duration
	tuples      int
	rows        []string
}

func newBenchGen() *cobra.Command {
	var flags benchGenFlags
	cmd := &cobra.Command{
		Use:   "gen",
		Short: "Measure the load generator and the object factory",
		Long: `Measure the load generator and the object factory.

Both ends are on this machine. Tuples of 277 bytes go over one ZeroMQ connection.

single    one tuple a message: tuples a second, as a ratio to a bare C loop on libzmq, which is
          compiled and run beside it
batched   256 tuples a message: millions of tuples a second
schedule  the percentage of tuples that were sent at most 10 µs after they were due, at half of
          the highest rate of the same setup; the sender has a core for itself and, as root,
          priority on it; each late tuple has a cause: the engine refused it, the thread was not
          running, or it was busy
factory   processor time of the consumer's thread for a JSON tuple that it takes from the object
          factory, as a ratio to the time in which it decodes the tuple itself

Every id is checked. A repetition does not count if other processes took more than a tenth of a
core. A repetition of schedule does not count either if a loop that only reads the counter, just
before and after it, was late for more than 0.25 % of its time. A figure is the median of the
repetitions that count. For all repetitions, counted or not, schedule also prints the share of late
tuples, and the share of time for which that loop was late: no sender could have used that time.

Exit code 3: fewer than 5 repetitions counted, or a row could not be measured here.`,
		Example: `  cp-bench gen
  cp-bench gen --rows schedule --repetitions 15
  cp-bench gen --json | jq -r '[.name, .figure] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchGen(cmd.Context(), flags, cmd.Flags().Changed,
				cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object a line")
	cmd.Flags().IntVar(&flags.repetitions, "repetitions", 7,
		"repetitions that must count, about a second each")
	cmd.Flags().DurationVar(&flags.limit, "limit", 20*time.Second,
		"begin no repetition of a row after this time")
	cmd.Flags().IntVar(&flags.tuples, "tuples", 500_000, "tuples in a repetition of single")
	cmd.Flags().StringSliceVar(&flags.rows, "rows", nil, "rows to measure (default all)")
	return cmd
}

func runBenchGen(ctx context.Context, flags benchGenFlags, given func(string) bool,
	stdout, stderr io.Writer) error {
	if flags.repetitions < minCounted {
		return command.Usagef("--repetitions %d: a figure needs %d or more",
			flags.repetitions, minCounted)
	}
	if flags.tuples < 10_000 || flags.tuples > 100_000_000 {
		return command.Usagef("--tuples %d: give 10000 to 100000000", flags.tuples)
	}
	for _, row := range flags.rows {
		if !slices.Contains(bench.GenRows, row) {
			return command.Usagef("--rows %q: want one or more of %q", row, bench.GenRows)
		}
	}
	size, err := proof.Wanted()
	if err != nil {
		return err
	}
	switch {
	case size == proof.Full && !given("repetitions"):
		flags.repetitions, flags.tuples = 15, 2_000_000
		if !given("limit") {
			flags.limit = 2 * time.Minute
		}
	case size == proof.Small && !given("repetitions"):
		flags.repetitions = minCounted
		if !given("rows") { // schedule requires minutes on an idle machine
			flags.rows = []string{"single", "batched", "factory"}
		}
		if !given("limit") {
			flags.limit = smallLimit / 3 // time limit of each row
		}
	}
	line := command.NewProgress(stderr)
	rows, err := bench.Gen(ctx, bench.GenOptions{
		Repetitions: flags.repetitions, Limit: flags.limit, Tuples: flags.tuples, Rows: flags.rows,
		Progress: func(row string, counted, disturbed int) {
			line.Show("%s: %d counted, %d disturbed by other processes", row, counted, disturbed)
		},
	})
	line.Done()
	if err != nil {
		return err
	}
	bars := genBars(rows)
	return answer(bars, func() error {
		if flags.json {
			return printGenJSON(stdout, rows)
		}
		return printGenTable(stdout, rows, bars)
	})
}

// genLimits are the bars of the generator, by row.
var genLimits = map[string]proof.Bar{
	"single":   {Limit: 0.7, AtLeast: true, Unit: "× a C loop", Timing: true},
	"batched":  {Limit: 4, AtLeast: true, Unit: "million tuples/s", Timing: true},
	"schedule": {Limit: 99, AtLeast: true, Unit: "% within 10 µs", Timing: true},
	"factory":  {Limit: 0.2, Unit: "× decoding inline", Timing: true},
}

func genBars(rows []bench.GenRow) []proof.Bar {
	var bars []proof.Bar
	for _, row := range rows {
		bar := genLimits[row.Name]
		bar.Name = row.Name
		bars = append(bars, barOf(bar, row.Figures, row.Disturbed, row.Absent))
		if row.Absent != "" {
			continue
		}
		bars = append(bars, proof.Bar{
			Name:   row.Name + " lost, doubled or out of order",
			Figure: float64(row.Wrong), Unit: "tuples",
		})
		if row.Name == "schedule" {
			bars = append(bars, proof.Bar{
				Name:   "late without a cause, or not accounted for",
				Figure: float64(row.Unaccount), Unit: "tuples",
			})
		}
	}
	return bars
}

func printGenTable(w io.Writer, rows []bench.GenRow, bars []proof.Bar) error {
	fmt.Fprintf(w, "%s\n\n", thisMachine())
	byName := map[string]proof.Bar{}
	for _, bar := range bars {
		byName[bar.Name] = bar
	}
	fmt.Fprintf(w, "%-9s %8s  %-17s %-18s %11s %6s %10s  %s\n",
		"row", "figure", "from – to", "", "tuples/s", "wrong", "disturbed", "limit")
	for _, row := range rows {
		bar := byName[row.Name]
		if bar.Absent != "" {
			fmt.Fprintf(w, "%-9s %8s  not measured: %s\n", row.Name, "–", bar.Absent)
			continue
		}
		sign := "≤"
		if bar.AtLeast {
			sign = "≥"
		}
		fmt.Fprintf(w, "%-9s %8.3f  %7.3f – %-7.3f %-18s %11.0f %6d %10d  %s %-4g %s\n",
			row.Name, bar.Figure, bar.Spread[0], bar.Spread[1], bar.Unit,
			median(row.Rates), row.Wrong, row.Disturbed, sign, bar.Limit, bar.Verdict())
	}
	for _, row := range rows {
		if late, loop := medianShares(row); len(row.Beside) > 0 {
			fmt.Fprintf(w, "\nschedule: in all %d repetitions, counted or not: "+
				"%.2f %% late or not sent; a loop that sends nothing would have been late for "+
				"%.2f %% on the same core beside them\n", len(row.Beside), late, loop)
		}
		switch {
		case len(row.Figures) == 0:
		case row.Name == "single":
			fmt.Fprintf(w, "\nsingle: the C loop sends %.0f a second\n", median(row.Base))
		case row.Name == "schedule":
			fmt.Fprintf(w, "schedule: %d of %d tuples later than 10 µs: %s; "+
				"%d not accounted for; p99 at most %.1f µs\n",
				row.Late.Late, row.Sent, row.Late, row.Unaccount, row.P99_ns/1e3)
		case row.Name == "factory":
			fmt.Fprintf(w, "factory: decoding takes %.0f ns a tuple, the consumer %.0f ns\n",
				median(row.Base), median(row.Base)*median(row.Figures))
		}
	}
	return nil
}

// medianShares returns two medians over all repetitions, in percent. The first is the share of
// tuples that were late. The second is the share that would have been late in a loop that sends
// nothing, and that ran on the same core right before and after the repetition.
func medianShares(row bench.GenRow) (late, loop float64) {
	var lates, loops []float64
	for _, b := range row.Beside {
		lates, loops = append(lates, b.Late_percent), append(loops, b.Loop_percent)
	}
	if len(lates) == 0 {
		return 0, 0
	}
	return median(lates), median(loops)
}

// genLine is a row of "cp-bench gen --json". Scripts read it: append only.
type genLine struct {
	Name        string              `json:"name"`
	Figure      *float64            `json:"figure,omitempty"`
	Low         *float64            `json:"low,omitempty"`
	High        *float64            `json:"high,omitempty"`
	Unit        string              `json:"unit"`
	Limit       float64             `json:"limit"`
	TuplesPerS  *float64            `json:"tuples_per_s,omitempty"`
	Base        *float64            `json:"base,omitempty"`
	Wrong       uint64              `json:"wrong"`
	Late        *generator.Lateness `json:"late,omitempty"`
	Unaccounted *uint64             `json:"unaccounted,omitempty"`
	Reps        int                 `json:"reps"`
	Disturbed   int                 `json:"disturbed"`
	Absent      string              `json:"absent,omitempty"`

	// Only the row with the name schedule has AllLate and LoopLate. They are medians of all
	// repetitions, counted or not. AllLate is the share that was late or not sent. LoopLate is the
	// share that would have been late in a loop that sends nothing, on the same core right before
	// and after.
	AllLate  *float64 `json:"all_late_percent,omitempty"`
	LoopLate *float64 `json:"loop_late_percent,omitempty"`
}

func printGenJSON(w io.Writer, rows []bench.GenRow) error {
	encoder := json.NewEncoder(w)
	for _, row := range rows {
		limit := genLimits[row.Name]
		line := genLine{
			Name: row.Name, Unit: limit.Unit, Limit: limit.Limit, Wrong: row.Wrong,
			Reps: len(row.Figures), Disturbed: row.Disturbed, Absent: row.Absent,
		}
		if late, loop := medianShares(row); len(row.Beside) > 0 {
			line.AllLate, line.LoopLate = &late, &loop
		}
		if len(row.Figures) > 0 {
			figure, rate := median(row.Figures), median(row.Rates)
			low, high := slices.Min(row.Figures), slices.Max(row.Figures)
			line.Figure, line.Low, line.High, line.TuplesPerS = &figure, &low, &high, &rate
			if len(row.Base) > 0 {
				base := median(row.Base)
				line.Base = &base
			}
		}
		if row.Name == "schedule" {
			line.Late, line.Unaccounted = &row.Late, &row.Unaccount
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
