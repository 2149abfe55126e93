package logs

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func newLogSalvage() *cobra.Command {
	return &cobra.Command{
		Use:   "salvage FILE NEWFILE",
		Short: "Write the undamaged parts of a log file to a new file",
		Long: `Write the undamaged parts of a log file to a new file. The new file is whole: it says
how many rows are missing because of the damage, and where. If the header is damaged, the command
writes a new header with the facts that the blocks contain. NEWFILE must not exist. The command does
not change FILE.

Exit code 3: rows are missing, or FILE was damaged.`,
		Example: "  cprof log salvage torn.cplog whole.cplog",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return salvageLog(cmd.OutOrStdout(), args[0], args[1])
		},
	}
}

func salvageLog(w io.Writer, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("salvage log: %w", err)
	}
	defer f.Close()
	// If a log has no header, its channel is unknown.
	unknown := logstore.Header{Channel: channel.Name{Actor: "unknown", Point: "unknown"},
		NodeNumber: channel.MaxNode + 1}
	report, err := logstore.Salvage(f, from, to, unknown)
	if err != nil {
		return err
	}
	rows, missing, _ := totalRows(report)
	fmt.Fprintf(w, "%s rows to %s\n", command.Thousands(rows), to)
	printDamage(w, "  ", report)
	switch {
	case missing > 0:
		return fmt.Errorf("%s rows are gone for good: %w", command.Thousands(missing),
			command.ErrPartial)
	case !report.Whole():
		return fmt.Errorf("%q is damaged, and no row of its blocks is known to be gone: %w",
			from, command.ErrPartial)
	}
	return nil
}
