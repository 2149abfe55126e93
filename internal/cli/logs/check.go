package logs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func newLogCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check PATH...",
		Short: "Check that everything ever written to a log is there",
		Long: `Check that everything ever written to a log is there. If not, say what is missing and
where the damage is. The command decodes every block and compares every checksum.

A log is whole if it contains each row that was written, or counts the row as dropped. In a
directory, the command reads all segments of a log together. It notices segments that are gone from
what the other segments say about them, and from the manifest of a complete run. If a log was never
sealed, nobody can tell whether rows followed its last row. In a log of version 1, nobody can tell
whether segments before its first or after its last segment are gone.

Exit code 1: a file is not a log, or cannot be read. Exit code 3: a log is damaged or lacks rows.`,
		Example: "  cprof log check ./logs\n  cprof log check --json ./logs/*.cplog",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return checkLogs(cmd.OutOrStdout(), args, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

// checkLine is a line of "cprof log check --json". Scripts read it, so existing fields never
// change.
type checkLine struct {
	Log       string   `json:"log"`
	Files     []string `json:"files"`
	Whole     bool     `json:"whole"`
	Sealed    bool     `json:"sealed"`
	Rows      uint64   `json:"rows"`
	Missing   uint64   `json:"missing_rows"`
	Dropped   uint64   `json:"dropped_rows"`
	Damage    []string `json:"damage,omitempty"`
	Unread    string   `json:"unread,omitempty"` // why nothing of the log could be read
	Duplicate int      `json:"duplicate_blocks"`
	Foreign   int      `json:"foreign_blocks"`

	// Then is what follows the last file, as the file itself states: next (a segment here), away (a
	// segment in another directory) or done (nothing). It is "" if the file does not state this.
	Then string `json:"then"`
	// Lacks lists the segments that are missing or were replaced.
	Lacks []string `json:"lacks,omitempty"`
}

func checkLogs(w io.Writer, paths []string, asJSON bool) error {
	logs, err := findLogs(paths)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(w)
	var unread, bad int
	for _, l := range logs {
		line := checkLine{Log: l.name, Files: l.files, Lacks: l.lacks}
		report, err := checkLog(l)
		switch {
		case err != nil:
			unread++
			line.Unread = err.Error()
		case !l.whole(report):
			bad++
		}
		if asJSON {
			line.fill(l, report)
			if err := encoder.Encode(line); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			fmt.Fprintf(w, "%s\n  cannot be read: %v\n", l.name, err)
			if advice := unreadAdvice(l, err); advice != "" {
				fmt.Fprintf(w, "  %s\n", advice)
			}
			continue
		}
		printCheck(w, l, report)
	}
	switch {
	case unread > 0:
		return fmt.Errorf("%d of %d logs cannot be read", unread, len(logs))
	case bad > 0:
		return fmt.Errorf("%d of %d logs are damaged or lack rows: %w",
			bad, len(logs), command.ErrPartial)
	}
	return nil
}

// unreadAdvice returns what a person can do about a log that cannot be read at all. If the error
// already contains such advice, unreadAdvice returns "".
func unreadAdvice(l aLog, err error) string {
	switch {
	case errors.Is(err, logstore.ErrVersion):
		return "it is whole: read it with the cprof of its writer's release, or of a later one"
	case errors.Is(err, logstore.ErrHeader):
		return "what follows the header may be whole: cprof log salvage FILE NEWFILE"
	case errors.Is(err, logstore.ErrNotLog) && l.bytes() == 0:
		return "nothing was ever written to it, or all of it is lost: look for errors of the disk"
	case errors.Is(err, logstore.ErrNotLog):
		return "if it was a log that lost its beginning: cprof log salvage FILE NEWFILE"
	}
	return ""
}

func checkLog(l aLog) (logstore.Report, error) {
	r, closer, err := l.open()
	if err != nil {
		return logstore.Report{}, err
	}
	defer closer.Close()
	if err := logstore.EachBlock(r.Next, nil); err != nil {
		return logstore.Report{}, err
	}
	return r.Report(), nil
}

func (c *checkLine) fill(l aLog, r logstore.Report) {
	c.Whole, c.Sealed = l.whole(r) && c.Unread == "", r.Sealed
	c.Duplicate, c.Foreign = r.Duplicates, r.Foreign
	if r.Then != logstore.Unsaid {
		c.Then = r.Then.String()
	}
	for _, b := range r.Chain {
		c.Lacks = append(c.Lacks, b.String())
	}
	c.Rows, c.Missing, c.Dropped = totalRows(r)
	for _, d := range r.Damage {
		c.Damage = append(c.Damage, d.Error())
	}
}

func printCheck(w io.Writer, l aLog, r logstore.Report) {
	verdict := "whole"
	if !l.whole(r) {
		verdict = "NOT WHOLE"
	}
	state := "not sealed: it is being written, or its writer died"
	switch {
	case len(l.files) == 0:
		state = "nothing of it is left"
	case r.Then == logstore.Ended:
		state = "sealed, and it ends here"
	case r.Then == logstore.Moved:
		state = "sealed, and it goes on in another directory"
	case r.Then == logstore.GoesOn:
		state = "sealed, and it goes on in the next segment"
	case r.Sealed:
		state = "sealed; whether later segments are gone is not known: " +
			"it is of version 1, or was salvaged without its end"
	}
	fmt.Fprintf(w, "%s\n  %s; %d files, %d blocks, %s\n", l.name, verdict, len(l.files), r.Blocks,
		state)
	for i := range r.Rows {
		fmt.Fprintf(w, "  %s\n", &r.Rows[i])
	}
	l.printLacks(w, "  ")
	printDamage(w, "  ", r)
}

func (l aLog) printLacks(w io.Writer, indent string) {
	for _, lack := range l.lacks {
		fmt.Fprintf(w, "%smissing: %s\n", indent, lack)
	}
}

// printDamage prints which parts of a log are damaged, missing or left out.
func printDamage(w io.Writer, indent string, r logstore.Report) {
	for _, d := range r.Damage {
		fmt.Fprintf(w, "%sdamage: %v\n", indent, d)
	}
	if r.MoreDamage > 0 {
		fmt.Fprintf(w, "%sdamage: %d more places\n", indent, r.MoreDamage)
	}
	for _, b := range r.Chain {
		fmt.Fprintf(w, "%smissing: %s\n", indent, b)
	}
	for i := range r.Rows {
		for _, m := range r.Rows[i].Missing {
			fmt.Fprintf(w, "%smissing: %s of shard %d, sequences %d to %d\n",
				indent, r.Rows[i].Kind, r.Rows[i].Shard, m.From, m.To-1)
		}
	}
	if r.Duplicates > 0 {
		fmt.Fprintf(w, "%s%d blocks repeat others and were left out\n", indent, r.Duplicates)
	}
	if r.Overlaps > 0 {
		fmt.Fprintf(w, "%s%d blocks repeat rows of others, which were left out\n",
			indent, r.Overlaps)
	}
	if r.Foreign > 0 {
		fmt.Fprintf(w, "%s%d blocks belong to another ring and were left out\n", indent, r.Foreign)
	}
}
