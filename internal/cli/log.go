package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func newLog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Read, check, convert and rescue log files",
		Long: `Read, check, convert and rescue log files.

A log is what was kept of one channel, from one open by one program, in one or more segment files. Each file explains itself, so that
no other is needed to read it. Where a command takes PATH, that is a file, or a directory of which it takes every log.`,
		Example: `  cprof log check ./logs
  cprof log dump ./logs | less
  cprof log stat ./logs`,
	}
	cmd.AddCommand(newLogDump(), newLogCheck(), newLogStat(), newLogConvert(), newLogSalvage())
	return cmd
}

// blockReader is a logstore.Reader of one file or a logstore.LogReader of a log's segments.
type blockReader interface {
	Next() (*logstore.Block, error)
	Header() logstore.Header
	Report() logstore.Report
}

// aLog is a log that can be read, and where it is.
type aLog struct {
	name  string // for people: a file, or a channel with its incarnation
	files []string
	open  func() (blockReader, io.Closer, error)
}

// findLogs finds the logs of paths: a file is a log of its own, a directory has those of its segments.
func findLogs(paths []string) ([]aLog, error) {
	var logs []aLog
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("find logs: %w", err)
		}
		if !info.IsDir() {
			logs = append(logs, fileLog(path))
			continue
		}
		segments, err := logstore.Segments(path)
		if err != nil {
			return nil, fmt.Errorf("find logs: %w", err)
		}
		if len(segments) == 0 {
			return nil, fmt.Errorf("find logs in %q: no file ends in %s", path, logstore.Suffix)
		}
		for len(segments) > 0 {
			n := 1
			for n < len(segments) && segments[n].Incarnation == segments[0].Incarnation && segments[n].Channel == segments[0].Channel {
				n++
			}
			logs = append(logs, segmentsLog(segments[:n]))
			segments = segments[n:]
		}
	}
	return logs, nil
}

func fileLog(path string) aLog {
	return aLog{name: path, files: []string{path}, open: func() (blockReader, io.Closer, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, nil, err
		}
		r, err := logstore.NewReader(f, path)
		if err != nil {
			f.Close()
			return nil, nil, err
		}
		return r, f, nil
	}}
}

func segmentsLog(segments []logstore.Segment) aLog {
	l := aLog{name: fmt.Sprintf("%s %x", segments[0].Channel, segments[0].Incarnation[:4])}
	for _, s := range segments {
		l.files = append(l.files, s.Path)
	}
	l.open = func() (blockReader, io.Closer, error) {
		r := logstore.ReadLog(segments)
		return r, r, nil
	}
	return l
}

// bytes is how large the log's files are.
func (l aLog) bytes() (n int64) {
	for _, file := range l.files {
		if info, err := os.Stat(file); err == nil {
			n += info.Size()
		}
	}
	return n
}

// eachBlock reads a log to its end. Damage is in the report and is gone over.
func eachBlock(r blockReader, do func(*logstore.Block) error) error {
	for {
		b, err := r.Next()
		var damage *logstore.CorruptionError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &damage):
			continue
		case err != nil:
			return err
		}
		if err := do(b); err != nil {
			return err
		}
	}
}

// headerLine says what a log is.
func headerLine(h logstore.Header) string {
	line := fmt.Sprintf("channel %s, handler %s, stamp %s, policy %s", h.Channel, h.Settings, h.Stamp, h.Policy)
	if h.Node != "" {
		line += fmt.Sprintf(", node %q", h.Node)
	}
	if h.Quantum_cycles != 0 {
		line += fmt.Sprintf(", quantum %d cycles", h.Quantum_cycles)
	}
	return line
}
