package logs

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func newLogConvert() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "convert PATH FILE",
		Short: "Write a log again in another format: compressed, plain or ascii",
		Long: `Write a log again, as one file, in another format: compressed (near its entropy),
plain (8 bytes a word) or ascii (lines of text). PATH is a file, or a directory that holds the
segments of one log. FILE must not exist. Damaged parts are skipped, and what is missing is printed.

Exit code 3: the log was damaged or lacks rows; what is whole was written.`,
		Example: "  cprof log convert --format ascii " +
			"./logs/parser~start.0001.000000.cplog parser.txt",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := logstore.ParseFormat(format)
			if err != nil {
				return command.UsageError{Err: err}
			}
			return convertLog(cmd.OutOrStdout(), args[0], args[1], to)
		},
	}
	cmd.Flags().StringVar(&format, "format", "ascii", "compressed, plain or ascii")
	return cmd
}

func convertLog(w io.Writer, from, to string, format logstore.Format) error {
	logs, err := findLogs([]string{from})
	if err != nil {
		return err
	}
	if len(logs) != 1 {
		return fmt.Errorf("convert %q: it holds %d logs: name the files of one", from, len(logs))
	}
	r, closer, err := logs[0].open()
	if err != nil {
		return err
	}
	defer closer.Close()
	var writer *logstore.Writer
	rows := uint64(0)
	err = eachBlock(r, func(b *logstore.Block) error {
		if writer == nil {
			h := r.Header()
			h.Format, h.Rewritten = format, true
			if writer, err = logstore.Create(nil, to, h); err != nil {
				return err
			}
		}
		rows += uint64(b.Len())
		return writer.Append(b)
	})
	if err == nil && writer == nil {
		return fmt.Errorf("convert %q: it holds no whole block", from)
	}
	if err == nil {
		err = writer.SealAs(r.Report().Then)
	}
	if err != nil {
		if writer != nil {
			writer.Close()
			os.Remove(to)
		}
		return fmt.Errorf("convert %q to %q: %w", from, to, err)
	}
	fmt.Fprintf(w, "%s rows to %s\n", command.Thousands(rows), to)
	if report := r.Report(); !logs[0].whole(report) {
		logs[0].printLacks(w, "  ")
		printDamage(w, "  ", report)
		return fmt.Errorf("the log is not whole: %w", command.ErrPartial)
	}
	return nil
}
