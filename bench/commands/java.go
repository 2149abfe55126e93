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

// The bars are for these releases of Java.
var javaReleases = []int{17, 21, 25}

// These are the limits of the bars. Java 17 has limits of its own, because it calls C through JNI.
const (
	javaLogLimit   = 1.15 // × a log call in C
	java17LogLimit = 1.7
	javaOffLimit   = 2 // ns

	agentStartLimit = 300       // ms
	agentSizeLimit  = 2_000_000 // bytes
)

// recordLimits are the limits of the time that the agent adds to a record, in ns. For Flink with
// all records kept, the limit is 3 % of the 2 µs of work for a record. For Flink with 2 of 1,024
// records kept, it is 2 % of the 278 ns of CPU time for a record of a trivial job. For Storm, it is
// 2 % of the 11 µs of CPU time for a tuple. The 11 µs follow from the rate that Storm sustains
// according to docs/engines.md: two cores were busy with 35,013 events a second, and each event was
// handed over five times.
var recordLimits = map[string]float64{"flink": 60, "flink-sampled": 5.5, "storm": 220}

type benchJavaFlags struct {
	json        bool
	repetitions int
	limit       time.Duration
}

func newBenchJava() *cobra.Command {
	var flags benchJavaFlags
	cmd := &cobra.Command{
		Use:   "java",
		Short: "Measure what a log call and the agent cost in Java",
		Long: `Measure what a log call costs in Java, as a ratio to C, and what the agent costs.

One thread logs to a ring that overwrites old events. The row off has log calls on a channel with
the handler null, and the row unsampled has log calls with ids that the handler xoy does not keep.
Programs in C and in each Java that scripts/jdks finds take turns of a few milliseconds on one core.
A repetition is the median of many turns. As in cp-bench log, a turn does not count if another guest
used the core.

The rows flink and storm show how many ns the agent takes for a record that a task or a bolt
receives, works on and sends. In the row flink-sampled, 2 of 1,024 records are kept. The row start
shows how much longer a JVM with the agent takes to start and end: medians of 11 pairs of starts.
The agent's rows start and size need the jar that make java-sdk builds.

The command builds the programs, so it runs in a checkout of the repository and needs make, gcc and
a JDK.

Exit code 3: fewer than 5 repetitions counted, or a Java is missing.`,
		Example: `  cp-bench java
  cp-bench java --json | jq -r '[.name, .ratio_to_c] | @tsv'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchJava(cmd.Context(), flags, cmd.Flags().Changed, cmd.OutOrStdout(),
				cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object a line")
	cmd.Flags().IntVar(&flags.repetitions, "repetitions", 7, "repetitions that must count")
	cmd.Flags().DurationVar(&flags.limit, "limit", time.Minute,
		"begin no repetition after this time")
	return cmd
}

func runBenchJava(ctx context.Context, flags benchJavaFlags, given func(string) bool,
	stdout, stderr io.Writer) error {
	if err := checkSize(&flags.repetitions, &flags.limit, given); err != nil {
		return err
	}
	line := command.NewProgress(stderr)
	result, err := bench.Java(ctx, bench.JavaOptions{
		Repetitions: flags.repetitions, Limit: flags.limit,
		Progress: func(counted int) {
			line.Show("repetition %d of %d", counted+1, flags.repetitions)
		},
	})
	line.Done()
	if err != nil {
		return err
	}
	bars := javaBars(result)
	return answer(bars, func() error {
		if flags.json {
			return printJavaJSON(stdout, result)
		}
		return printJavaTable(stdout, result, bars)
	})
}

func javaName(release int, call string) string { return fmt.Sprintf("Java %d, %s", release, call) }

func javaBars(result bench.JavaResult) (bars []proof.Bar) {
	for _, release := range javaReleases {
		absent := "no such Java is here"
		for _, row := range result.Rows {
			if row.Release != release {
				continue
			}
			absent = ""
			bar := proof.Bar{Name: javaName(release, row.Call), Timing: true}
			if limit := recordLimits[row.Call]; limit > 0 {
				bar.Limit, bar.Unit = limit, "ns a record"
				bars = append(bars, barOf(bar, row.NS, 0, ""))
				continue
			}
			if row.Call != "log" {
				bar.Limit, bar.Unit = javaOffLimit, "ns"
				bars = append(bars, barOf(bar, row.NS, 0, ""))
				continue
			}
			bar.Limit, bar.Unit = javaLogLimit, "× C"
			if release == 17 {
				bar.Limit = java17LogLimit
			}
			bars = append(bars, barOf(bar, row.Ratios, 0, ""), proof.Bar{
				Name:   javaName(release, "allocated"),
				Figure: row.AllocatedPerLog, Unit: "bytes a call"})
		}
		if absent != "" {
			bars = append(bars, proof.Bar{Name: javaName(release, "log"), Absent: absent})
		}
	}
	return append(bars, javaAgentBars(result)...)
}

func javaAgentBars(result bench.JavaResult) (bars []proof.Bar) {
	size := proof.Bar{Name: "agent, size", Figure: float64(result.Agent_bytes),
		Limit: agentSizeLimit, Unit: "bytes"}
	if result.Agent_bytes == 0 {
		size.Absent = "no cloudprofiler.jar is here: type make java-sdk"
		// The bar counts as a timing, so that only a full run treats the missing figure as a
		// failure. During make test, make java-sdk may not have built the jar yet. The part of make
		// test that judges the size of the jar is make test-dist.
		size.Timing = true
	}
	for _, s := range result.Starts {
		bars = append(bars, barOf(proof.Bar{Name: javaName(s.Release, "agent start"),
			Limit: agentStartLimit, Unit: "ms", Timing: true}, s.Added_ms, 0, ""))
	}
	return append(bars, size)
}

func printJavaTable(w io.Writer, result bench.JavaResult, bars []proof.Bar) error {
	fmt.Fprintln(w, thisMachine())
	if result.Missing != "" {
		fmt.Fprintln(w, result.Missing)
	}
	fmt.Fprintf(w, "\na log call in C %.1f ns\n\n", result.C_ns)
	for _, bar := range bars {
		fmt.Fprintln(w, bar)
	}
	return nil
}

// javaLine is a row of "cp-bench java --json". Scripts read it: append only.
type javaLine struct {
	Name            string   `json:"name"`
	Release         int      `json:"release"`
	Call            string   `json:"call"`
	NSPerOp         float64  `json:"ns_per_op"`
	NSLow           float64  `json:"ns_low"`
	NSHigh          float64  `json:"ns_high"`
	RatioToC        float64  `json:"ratio_to_c"`
	RatioLow        float64  `json:"ratio_low"`
	RatioHigh       float64  `json:"ratio_high"`
	Reps            int      `json:"reps"`
	AllocatedPerLog *float64 `json:"allocated_bytes_per_call,omitempty"`
	C_ns            float64  `json:"c_ns_per_op"`

	// Only two kinds of row have these fields: rows that say how much longer a JVM takes with the
	// Java agent, and the row with the size of the agent's jar. In these rows, the times and ratios
	// above are 0.
	Added_ms float64 `json:"added_ms,omitempty"`
	Low_ms   float64 `json:"added_ms_low,omitempty"`
	High_ms  float64 `json:"added_ms_high,omitempty"`
	Bytes    int64   `json:"bytes,omitempty"`
}

func printJavaJSON(w io.Writer, result bench.JavaResult) error {
	encoder := json.NewEncoder(w)
	for _, row := range result.Rows {
		if len(row.Ratios) == 0 {
			continue
		}
		line := javaLine{Name: javaName(row.Release, row.Call), Release: row.Release,
			Call: row.Call, NSPerOp: median(row.NS), NSLow: slices.Min(row.NS),
			NSHigh: slices.Max(row.NS), RatioToC: median(row.Ratios),
			RatioLow: slices.Min(row.Ratios), RatioHigh: slices.Max(row.Ratios),
			Reps: len(row.Ratios), C_ns: result.C_ns}
		if row.Call == "log" {
			line.AllocatedPerLog = &row.AllocatedPerLog
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	for _, s := range result.Starts {
		err := encoder.Encode(javaLine{Name: javaName(s.Release, "agent start"),
			Release: s.Release, Call: "start", Added_ms: median(s.Added_ms),
			Low_ms: slices.Min(s.Added_ms), High_ms: slices.Max(s.Added_ms),
			Reps: len(s.Added_ms)})
		if err != nil {
			return err
		}
	}
	if result.Agent_bytes == 0 {
		return nil
	}
	return encoder.Encode(javaLine{Name: "agent, size", Call: "size", Bytes: result.Agent_bytes})
}
