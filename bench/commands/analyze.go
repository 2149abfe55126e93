package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/bench"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

type benchAnalyzeFlags struct {
	json         bool
	tuples       int
	memoryTuples int
	duckTuples   int
	repetitions  int
	dir          string
}

// These are the limits of the analysis.
const (
	analyzeSpeed  = 8e6  // tuples a second and core
	analyzeMemory = 1000 // MB
	analyzeDuck   = 3.0  // × as fast as DuckDB
)

func newBenchAnalyze() *cobra.Command {
	var flags benchAnalyzeFlags
	cmd := &cobra.Command{
		Use:   "analyze",
		Short: "Measure the join of a run: how fast, in how much memory",
		Long: `Measure the join of a run: how fast, in how much memory.

The command makes a run whose tuples pass three channels on three nodes, with compressed logs. The
speed is that of one core, which decodes, joins, translates and counts, by its processor time. The
files are in the page cache. The memory is that of this process with the settings of cprof analyze.

If Python has the package duckdb, DuckDB also joins the exported events, in turns with the analysis.
Both use all cores and find the same percentiles. CLOUDPROFILER_PYTHON names another Python.`,
		Example: `  cp-bench analyze
  cp-bench analyze --tuples 20000000 --memory-tuples 100000000
  cp-bench analyze --json | jq .tuples_per_s_per_core`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runBenchAnalyze(cmd.Context(), flags, cmd.Flags().Changed,
				cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object")
	cmd.Flags().IntVar(&flags.tuples, "tuples", 5_000_000,
		"tuples of the run whose speed is measured")
	cmd.Flags().IntVar(&flags.memoryTuples, "memory-tuples", 0,
		"tuples of the run whose memory is measured (default the same run)")
	cmd.Flags().IntVar(&flags.duckTuples, "duckdb-tuples", 2_000_000,
		"tuples of the run that DuckDB joins too; 0 leaves it out")
	cmd.Flags().IntVar(&flags.repetitions, "repetitions", 5, "repetitions that count")
	cmd.Flags().StringVar(&flags.dir, "runs", "",
		"directory for the runs (default a temporary one)")
	return cmd
}

// analyzeLine is what "cp-bench analyze --json" prints. Scripts read it: append only.
type analyzeLine struct {
	Tuples       int      `json:"tuples"`
	PerSecond    float64  `json:"tuples_per_s_per_core"`
	MemoryTuples int      `json:"memory_tuples"`
	Peak_mb      float64  `json:"peak_mb"`
	Scratch_mb   float64  `json:"scratch_mb"`
	DuckRatio    *float64 `json:"duckdb_ratio,omitempty"`
	NoDuck       string   `json:"duckdb_absent,omitempty"`
}

func runBenchAnalyze(ctx context.Context, flags benchAnalyzeFlags, given func(string) bool,
	stdout, stderr io.Writer) error {
	switch {
	case flags.tuples < 100_000:
		return command.Usagef("--tuples %d: a figure needs 100000 tuples or more", flags.tuples)
	case flags.repetitions < 1:
		return command.Usagef("--repetitions %d: a figure needs 1 or more", flags.repetitions)
	case flags.duckTuples < 0:
		return command.Usagef("--duckdb-tuples %d: give 0 or more", flags.duckTuples)
	case flags.memoryTuples < 0:
		return command.Usagef("--memory-tuples %d: give 0 or more", flags.memoryTuples)
	}
	size, err := proof.Wanted()
	if err != nil {
		return err
	}
	switch {
	case size == proof.Full && !given("memory-tuples"):
		flags.memoryTuples = 100_000_000
	case size == proof.Small && !given("tuples"):
		flags.tuples, flags.memoryTuples, flags.duckTuples = 2_000_000, 500_000, 200_000
	}
	line := command.NewProgress(stderr)
	result, err := bench.Analyze(ctx, bench.AnalyzeOptions{
		Tuples: flags.tuples, MemoryTuples: flags.memoryTuples, DuckTuples: flags.duckTuples,
		Repetitions: flags.repetitions, Dir: flags.dir,
		Python:   os.Getenv("CLOUDPROFILER_PYTHON"),
		Progress: func(what string) { line.Show("%s", what) },
	})
	line.Done()
	if err != nil {
		return err
	}
	speed := proof.Bar{
		Name: "join and translate three channels", Unit: "tuples a second per core",
		Limit: analyzeSpeed, AtLeast: true, Timing: true,
	}.From(result.PerSecond)
	memory := proof.Bar{
		Name:   fmt.Sprintf("memory for %d tuples", result.MemoryTuples),
		Figure: result.Peak_mb, Limit: analyzeMemory, Unit: "MB",
	}
	// This ratio, too, depends on the machine: older machines slow the analysis more than they slow
	// DuckDB.
	duck := proof.Bar{
		Name: "against DuckDB's join of events", Unit: "× as fast",
		Limit: analyzeDuck, AtLeast: true, Timing: true,
	}.From(result.Ratios)
	if flags.duckTuples == 0 {
		result.NoDuck = "it was left out"
	}
	if result.NoDuck != "" {
		duck.Absent = result.NoDuck
	}
	bars := []proof.Bar{speed, memory, duck}
	if err := proof.Report(bars...); err != nil {
		return err
	}
	if flags.json {
		l := analyzeLine{
			Tuples: flags.tuples, PerSecond: speed.Figure, MemoryTuples: result.MemoryTuples,
			Peak_mb: result.Peak_mb, Scratch_mb: result.Scratch_mb, NoDuck: result.NoDuck,
		}
		if duck.Absent == "" {
			l.DuckRatio = &duck.Figure
		}
		return json.NewEncoder(stdout).Encode(l)
	}
	fmt.Fprintf(stdout, "%s\n\n", thisMachine())
	for _, bar := range bars {
		fmt.Fprintln(stdout, bar)
	}
	return nil
}
