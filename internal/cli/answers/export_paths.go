package answers

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/report/export"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// exportPaths writes the paths of requests to files, or sends them to a receiver of OTLP.
func exportPaths(cmd *cobra.Command, dir *runs.Directory, o analysis.Options, which *pathFlags,
	wanted export.Kind, otlp string) error {
	if err := which.check(); err != nil {
		return err
	}
	var basis analysis.Basis
	o.Begin = func(b analysis.Basis) error {
		basis = b
		return nil
	}
	slowest := max(o.Slowest, 0)
	o.Slowest = -1
	answer, want, err := which.analyze(cmd, dir, o)
	if err != nil {
		return err
	}
	want.Slowest = slowest
	stdout := cmd.OutOrStdout()
	if otlp == "" {
		files, found, err := export.Paths(dir, basis, want, wanted)
		if err := which.chosen(dir, found, err); err != nil {
			return err
		}
		for _, f := range files {
			fmt.Fprintf(stdout, "%s: %s\n", filepath.Join(dir.Path, "exports", f.Name), f.Note)
		}
		return lacking(answer, found)
	}
	line := command.NewProgress(cmd.ErrOrStderr())
	defer line.Done()
	var spans export.Spans
	var found *paths.Answer
	refused, err := sendTo(cmd, line, otlp, func(write func([]byte) error) (err error) {
		spans, found, err = export.PathsOTLP(dir, basis, want, write)
		return which.chosen(dir, found, err)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %d spans of %s, in cycles of node %s\n", withoutPassword(otlp),
		spans.Spans, spans.Tuples, answer.Reference.Node)
	if spans.Lacking > 0 {
		fmt.Fprintf(stdout, "%d calls are left out: they have no place on the counter of %s\n",
			spans.Lacking, answer.Reference.Node)
	}
	if refused != nil {
		return fmt.Errorf("%w: %w", refused, command.ErrPartial)
	}
	return lacking(answer, found)
}
