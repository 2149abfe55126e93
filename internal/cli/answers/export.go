package answers

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/report/export"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

var exportKinds = map[string]export.Kind{"parquet": export.Parquet | export.SQL, "csv": export.CSV,
	"perfetto": export.Perfetto}

func newExport() *cobra.Command {
	var flags analyzeFlags
	var kinds []string
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run for other programs: Parquet with SQL, CSV, a Perfetto trace",
		Long: `Write a run for other programs, into the directory exports/ of the run.

  parquet   events.parquet and durations.parquet, for Spark, ClickHouse, DuckDB, Trino and others,
            and SQL for DuckDB that joins them
  csv       the same as text
  perfetto  trace.perfetto-trace, up to 2,000 tuples for ui.perfetto.dev

The flags select as they do for cprof analyze.

Exit code 1: nothing was exported. Exit code 3: parts are suspect, missing or undecided.`,
		Example: "  cprof export runs/tuesday\n  cprof export runs/tuesday --as parquet,perfetto " +
			"--channel 'parser*/*'\n  cd runs/tuesday/exports && duckdb -c '.read percentiles.sql'",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runExport(cmd.Context(), args[0], flags, kinds, cmd.OutOrStdout(),
				cmd.ErrOrStderr())
		},
	}
	flags.add(cmd)
	cmd.Flags().StringSliceVar(&kinds, "as", []string{"parquet"}, "what to write: parquet, "+
		"csv, perfetto")
	return cmd
}

func runExport(ctx context.Context, path string, flags analyzeFlags, kinds []string, stdout,
	stderr io.Writer) error {
	var wanted export.Kind
	for _, k := range kinds {
		kind, known := exportKinds[k]
		if !known {
			return command.Usagef("--as %q: use parquet, csv or perfetto", strings.Join(kinds, ","))
		}
		wanted |= kind
	}
	if wanted == 0 {
		return command.Usagef("--as %q: it is empty: use parquet, csv or perfetto", "")
	}
	o, err := flags.options()
	if err != nil {
		return err
	}
	dir, err := runs.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	line := command.NewProgress(stderr)
	o.Progress = line.Share()
	files, answer, err := export.Run(ctx, dir, o, wanted)
	line.Done()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d events of %d tuples, in cycles of node %s\n",
		answer.Work.Events, answer.Work.Tuples, answer.Reference.Node)
	for _, f := range files {
		fmt.Fprintln(stdout, filepath.Join(path, "exports", f))
	}
	return partialOf(answer, path)
}
