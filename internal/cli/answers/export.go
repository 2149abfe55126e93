package answers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/report/export"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

var exportKinds = map[string]export.Kind{"parquet": export.Parquet | export.SQL, "csv": export.CSV,
	"perfetto": export.Perfetto}

func newExport() *cobra.Command {
	var flags analyzeFlags
	var kinds []string
	var otlp string
	var which pathFlags
	var asPaths bool
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run for other programs: Parquet with SQL, CSV, Perfetto, OpenTelemetry",
		Long: `Write a run for other programs, into the directory exports/ of the run.

  parquet   the tables events and durations in parts, small tables that explain and join them, and
            SQL for DuckDB, Spark and ClickHouse
  csv       the same as text
            both also have the table messages, if messages were captured
  perfetto  trace.perfetto-trace, for ui.perfetto.dev: the first 2,000 tuples, or the slowest, and
            the first 10,000 captured messages, or the slowest

With --otlp, a run goes to a file or to a receiver of OpenTelemetry instead, such as a collector,
Jaeger or Tempo. Each tuple is a trace, and each duration a span with its interval. Each captured
message is a trace of one span. A receiver is an address that begins with http:// or https://. A
file has one request of JSON on each line.

With --paths, the paths of requests are written instead of tuples (cprof paths): the table paths,
paths.perfetto-trace with the first 2,000 of them, or a trace for each path. Each call has the
probability of its link. The flags --program, --longer, --message and --doubtful choose paths.

The other flags choose a part of the run as they do for cprof analyze. They choose tuples. So if
they choose a part, the messages are left out.

Exit code 1: nothing was exported, or no tuple was chosen. Exit code 3: parts are suspect, missing
or undecided, or the receiver refused spans.`,
		Example: `  cprof export runs/tuesday
  cprof export runs/tuesday --as parquet,perfetto --channel 'parser*/*'
  cd runs/tuesday/exports && duckdb -c '.read duckdb.sql' -c '.read percentiles.sql'
  cprof export runs/tuesday --otlp http://collector:4318 --slowest 1000
  cprof export runs/tuesday --paths --longer 50ms --as perfetto,csv`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := kindsOf(kinds)
			if err != nil {
				return err
			}
			if err := checkExport(cmd, &flags, &which, wanted, otlp, asPaths); err != nil {
				return err
			}
			o, err := flags.options()
			if err != nil {
				return err
			}
			dir, err := command.OpenRun(args[0])
			if err != nil {
				return err
			}
			defer dir.Close()
			if err := checkChosen(dir, &o.Filter); err != nil {
				return err
			}
			if asPaths {
				return exportPaths(cmd, dir, o, &which, wanted, otlp)
			}
			if otlp != "" {
				return exportOTLP(cmd, dir, args[0], o, otlp)
			}
			return exportFiles(cmd, dir, args[0], o, wanted)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringSliceVar(&kinds, "as", []string{"parquet"}, "what to write: parquet, "+
		"csv, perfetto")
	command.CompleteFlag(cmd, "as", command.CompleteValues(slices.Sorted(maps.Keys(exportKinds))))
	cmd.Flags().StringVar(&otlp, "otlp", "", "`file` to write, or address of a receiver to send "+
		"to, such as http://collector:4318")
	cmd.Flags().IntVar(&flags.slowest, "slowest", 0, "with Perfetto and OTLP: show only this many "+
		"tuples, the slowest, and as many of those that were made of others and of messages; "+
		"with --paths: only this many paths, the slowest")
	cmd.Flags().BoolVar(&asPaths, "paths", false, "write the paths of requests instead of tuples")
	which.add(cmd)
	return cmd
}

// checkExport refuses flags of cprof export that contradict each other or have no effect.
func checkExport(cmd *cobra.Command, flags *analyzeFlags, which *pathFlags, wanted export.Kind,
	otlp string, asPaths bool) error {
	switch o := cmd.Flags(); {
	case o.Changed("otlp") && o.Changed("as"):
		return command.Usagef("--otlp and --as: choose one")
	case o.Changed("otlp") && otlp == "":
		return command.Usagef("--otlp %q: it is empty: give a file, or an address such as "+
			"http://collector:4318", otlp)
	case isHostPort(otlp):
		return command.Usagef("--otlp %q: give an address as http://%s, or a file as ./%s",
			otlp, otlp, otlp)
	case hasOtherScheme(otlp):
		return command.Usagef("--otlp %q: give the address of a receiver with http:// or "+
			"https://, or a file as ./NAME", withoutPassword(otlp))
	case o.Changed("slowest") && flags.slowest == 0:
		return command.Usagef("--slowest 0: give 1 or more")
	case !asPaths && which.changed(cmd) != "":
		return command.Usagef("--%s: it chooses paths: add --paths", which.changed(cmd))
	case o.Changed("slowest") && !asPaths && otlp == "" && wanted&export.Perfetto == 0:
		return command.Usagef("--slowest %d: it chooses tuples for Perfetto and OTLP "+
			"only: add --as perfetto or --otlp", flags.slowest)
	}
	return nil
}

func kindsOf(names []string) (wanted export.Kind, err error) {
	for _, k := range names {
		kind, known := exportKinds[k]
		if !known {
			return 0, command.Usagef("--as %q: use parquet, csv or perfetto",
				strings.Join(names, ","))
		}
		wanted |= kind
	}
	if wanted == 0 {
		return 0, command.Usagef("--as %q: it is empty: use parquet, csv or perfetto", "")
	}
	return wanted, nil
}

func exportFiles(cmd *cobra.Command, dir *runs.Directory, path string, o analysis.Options,
	wanted export.Kind) error {
	line := command.NewProgress(cmd.ErrOrStderr())
	o.Progress = line.Share()
	files, answer, err := export.Run(cmd.Context(), dir, o, wanted)
	line.Done()
	if err != nil {
		return err
	}
	err = needAnswer(answer, dir, &o.Filter)
	if err != nil && !errors.Is(err, errOnlyMessages) {
		return fmt.Errorf("%w: the files have no rows", err)
	}
	stdout := cmd.OutOrStdout()
	fmt.Fprintf(stdout, "%d events of %d tuples, in cycles of node %s\n",
		answer.Work.Events, answer.Work.Tuples, answer.Reference.Node)
	for _, f := range files {
		fmt.Fprint(stdout, filepath.Join(dir.Path, "exports", f.Name))
		if f.Note != "" {
			fmt.Fprintf(stdout, ": %s", f.Note)
		}
		fmt.Fprintln(stdout)
	}
	return partialOf(answer, path)
}

// exportOTLP writes traces to a file, or sends them to a receiver.
func exportOTLP(cmd *cobra.Command, dir *runs.Directory, path string, o analysis.Options,
	to string) error {
	line := command.NewProgress(cmd.ErrOrStderr())
	defer line.Done()
	o.Progress = line.Share()
	var spans export.Spans
	var answer *analysis.Answer
	refused, err := sendTo(cmd, line, to, func(write func([]byte) error) (err error) {
		if spans, answer, err = export.OTLP(cmd.Context(), dir, o, write); err != nil {
			return err
		}
		if err = needAnswer(answer, dir, &o.Filter); errors.Is(err, errOnlyMessages) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	of := spans.Tuples
	if spans.Messages != "" {
		of += " and of " + spans.Messages
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %d spans of %s, in cycles of node %s\n",
		withoutPassword(to), spans.Spans, of, answer.Reference.Node)
	if spans.Lacking > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "%d durations are left out: they have no place on the "+
			"counter of %s\n", spans.Lacking, answer.Reference.Node)
	}
	if refused != nil {
		return fmt.Errorf("%w: %w", refused, command.ErrPartial)
	}
	return partialOf(answer, path)
}

// sendTo writes requests of OTLP to a file or to a receiver. The first result, refused, says what
// the receiver did not accept.
func sendTo(cmd *cobra.Command, line *command.Progress, to string,
	write func(func([]byte) error) error) (refused, err error) {
	if strings.HasPrefix(to, "http://") || strings.HasPrefix(to, "https://") {
		var receiver *export.Endpoint
		receiver, err = export.NewEndpoint(cmd.Context(), to, func(what string) {
			line.Show("%.78s", what)
		})
		if err == nil {
			err = write(receiver.Send)
			refused = receiver.Close()
		}
	} else {
		err = command.Replace(to, func(w io.Writer) error {
			lines := bufio.NewWriter(w)
			return errors.Join(write(export.Lines(lines)), lines.Flush())
		})
	}
	line.Done()
	return refused, err
}

// isHostPort reports whether a name looks like an address without http://.
func isHostPort(name string) bool {
	_, port, err := net.SplitHostPort(name)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	return err == nil
}

// hasOtherScheme reports whether a name is an address that begins with neither http:// nor
// https://.
func hasOtherScheme(name string) bool {
	scheme, _, found := strings.Cut(name, "://")
	return found && !strings.Contains(scheme, "/") && scheme != "http" && scheme != "https"
}

// withoutPassword returns an address without its password.
func withoutPassword(address string) string {
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return u.Redacted()
	}
	return address
}
