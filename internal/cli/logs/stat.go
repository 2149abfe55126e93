package logs

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func newLogStat() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stat PATH...",
		Short: "Say how much a log contains, and how small it is",
		Long: `Say how much a log contains, over how many cycles, how small it is, and how its
channel was configured.

Exit code 3: a log is damaged or lacks rows, and the figures are only about the rest.`,
		Example: "  cprof log stat ./logs\n  cprof log stat --json ./logs | jq -r '[.channel, " +
			".events, .bytes_per_row] | @tsv'",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return statLogs(cmd.OutOrStdout(), args, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

// statLine is a line of "cprof log stat --json". Scripts read it, so existing fields never change.
type statLine struct {
	Log          string  `json:"log"`
	Channel      string  `json:"channel"`
	Handler      string  `json:"handler"`
	Node         string  `json:"node"`
	Files        int     `json:"files"`
	Bytes        int64   `json:"bytes"`
	Blocks       int     `json:"blocks"`
	Rows         uint64  `json:"rows"`
	Events       uint64  `json:"events"`
	Dropped      uint64  `json:"dropped_rows"`
	BytesPerRow  float64 `json:"bytes_per_row"`
	FirstCounter uint64  `json:"first_counter,string"`
	LastCounter  uint64  `json:"last_counter,string"`
	CyclesPerRow float64 `json:"cycles_per_event"`
	Whole        bool    `json:"whole"`
	Missing      uint64  `json:"missing_rows"`
	Hurried      int     `json:"hurried_blocks"`
}

func statLogs(w io.Writer, paths []string, asJSON bool) error {
	logs, err := findLogs(paths)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(w)
	width := 32
	for _, l := range logs {
		width = max(width, utf8.RuneCountInString(l.name))
	}
	if !asJSON {
		fmt.Fprintf(w, "%-*s %-18s %6s %14s %14s %10s %10s %14s\n", width, "log", "handler",
			"files", "bytes", "events", "dropped", "bytes/row", "cycles/event")
	}
	bad := 0
	for _, l := range logs {
		s, err := statLog(l)
		if err != nil {
			return fmt.Errorf("read %s: %w", l.name, err)
		}
		if !s.Whole {
			bad++
		}
		if asJSON {
			err = encoder.Encode(s)
		} else {
			_, err = fmt.Fprintf(w, "%-*s %-18s %6d %14s %14s %10d %10.2f %14.1f\n",
				width, s.Log, s.Handler, s.Files, command.Thousands(uint64(s.Bytes)),
				command.Thousands(s.Events), s.Dropped, s.BytesPerRow, s.CyclesPerRow)
			if err == nil && s.Hurried > 0 {
				_, err = fmt.Fprintf(w, "  %s of %s blocks are packed and not compressed: events "+
					"came too fast\n", command.Thousands(uint64(s.Hurried)),
					command.Thousands(uint64(s.Blocks)))
			}
			if err == nil && !s.Whole {
				what := "see cprof log check"
				if s.Missing > 0 {
					what = command.Thousands(s.Missing) + " rows missing, and not counted above"
				}
				_, err = fmt.Fprintf(w, "  NOT WHOLE: %s\n", what)
			}
		}
		if err != nil {
			return err
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d logs are damaged or lack rows, see cprof log check: %w",
			bad, len(logs), command.ErrPartial)
	}
	return nil
}

func statLog(l aLog) (statLine, error) {
	s := statLine{Log: l.name, Files: len(l.files), Bytes: l.bytes(), FirstCounter: 1<<64 - 1}
	r, closer, err := l.open()
	if err != nil {
		return s, err
	}
	defer closer.Close()
	err = logstore.EachBlock(r.Next, func(b *logstore.Block) error {
		s.Rows += uint64(b.Len())
		if b.Hurried {
			s.Hurried++
		}
		s.Events += uint64(len(b.Events))
		for _, e := range b.Events {
			s.FirstCounter, s.LastCounter = min(s.FirstCounter, e.Counter),
				max(s.LastCounter, e.Counter)
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	h, report := r.Header(), r.Report()
	s.Channel, s.Handler, s.Node, s.Blocks = h.Channel.String(), h.Settings.String(), h.Node,
		report.Blocks
	s.Whole = l.whole(report)
	_, s.Missing, s.Dropped = totalRows(report)
	if s.Rows > 0 {
		s.BytesPerRow = float64(s.Bytes) / float64(s.Rows)
	}
	if s.Events == 0 {
		s.FirstCounter = 0
	}
	if s.Events > 1 {
		s.CyclesPerRow = float64(s.LastCounter-s.FirstCounter) / float64(s.Events-1)
	}
	return s, nil
}
