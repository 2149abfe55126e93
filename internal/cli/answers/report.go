package answers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/report"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

func newReport() *cobra.Command {
	var flags analyzeFlags
	var output string
	var withPaths bool
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Analyze a run and write the answer as a page, report.html",
		Long: `Analyze a run and write the answer as a page. RUN is a run, as for cprof analyze. The
page is report.html in its directory, unless --output names another file.

The page is one file that loads nothing from the network: open it in any browser, send it to
somebody, print it. It shows what cprof analyze prints, and more: the graph of operators, durations
and their bounds as distributions and over time, single tuples, all pairs of nodes, the assumptions
under which the bounds are true and, if messages were captured, who talks to whom, and which calls
requests led to. docs/report.md says how to read it.

Exit code 1: nothing could be answered. Exit code 3: the page was written, and parts of it are
suspect, missing or undecided.`,
		Example: `  cprof report runs/tuesday
  cprof report runs/tuesday --reference node-b --output /tmp/tuesday.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := flags.options()
			if err != nil {
				return err
			}
			run, err := command.OpenRun(args[0])
			if err != nil {
				return err
			}
			defer run.Close()
			answer, err := analyzeOpen(cmd.Context(), run, o, cmd.ErrOrStderr())
			if err != nil && !errors.Is(err, errOnlyMessages) {
				return err
			}
			var found *paths.Answer
			if withPaths {
				found, err = paths.Of(run, paths.Options{Reference: answer.Reference,
					Wander: o.Wander, ThirdNodes: o.ThirdNodes, Slowest: report.MaxTraces})
				if err != nil {
					return err
				}
			}
			page, err := pageOf(run, answer, &o, found)
			if err != nil {
				return err
			}
			if output == "-" {
				_, err = page.WriteTo(cmd.OutOrStdout())
				return errors.Join(err, partial(answer))
			}
			if output == "" {
				err = run.WriteReport(page.Bytes())
			} else {
				err = command.WriteWhole(output, page.Bytes())
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), cmp.Or(output, filepath.Join(run.Path, "report.html")))
			return partial(answer)
		},
	}
	flags.add(cmd)
	flags.addSlowest(cmd)
	flags.slowest = 10 // a page has more space than a screen
	cmd.Flags().Lookup("slowest").DefValue = "10"
	cmd.Flags().StringVarP(&output, "output", "o", "",
		"file to write instead of report.html in the run's directory; - is the standard output")
	cmd.Flags().BoolVar(&withPaths, "paths", true, "if messages were captured: infer which calls "+
		"requests led to, which may take minutes for millions of messages")
	return cmd
}

// pageOf returns the page of a run, with the paths of requests that were found. The page is
// complete before any file is touched.
func pageOf(run *runs.Directory, answer *analysis.Answer, o *analysis.Options,
	found *paths.Answer) (*bytes.Buffer, error) {
	data := report.From(answer, run, daemon.Version("cprof"))
	captured, err := messagesIn(run, answer, o)
	if err != nil {
		return nil, err
	}
	data.AddMessages(captured)
	data.AddRequests(found)
	var page bytes.Buffer
	return &page, report.Write(&page, data)
}
