package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func newLog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Read, check and rescue log files",
		Long: `Read, check and rescue log files.

A log has everything that was kept of one channel, from the time when one program opened the channel
until the program closed it or ended. A log has one or more files, called segments. Each file
describes itself, so no other file is needed to read it. A PATH is a file, or a directory with any
number of logs. If a directory has no log itself, the logs in all directories below it are meant, as
of a run.`,
		Example: `  cprof log check ./logs
  cprof log dump ./logs | less
  cprof log stat ./logs`,
	}
	cmd.AddCommand(newLogDump(), newLogCheck(), newLogStat(), newLogSalvage())
	return cmd
}

// blockReader reads the blocks of a log. It is a logstore.Reader for one file, or a
// logstore.LogReader for the segments of a log.
type blockReader interface {
	Next() (*logstore.Block, error)
	Header() logstore.Header
	Report() logstore.Report
}

// aLog is a log that cprof can read: its files and its name.
type aLog struct {
	name  string // the name for people: a file, or a channel with its incarnation
	files []string
	open  func() (blockReader, io.Closer, error)
	lacks []string // files that are missing or were replaced, according to the directory's manifest
}

// whole reports whether the log is complete: it has all its rows, and all its files that the
// directory's manifest lists.
func (l aLog) whole(r logstore.Report) bool { return r.Whole() && len(l.lacks) == 0 }

// findLogs finds the logs in paths. Each path that is a file is a log of its own. In a directory,
// all segments of one ring together are a log.
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
		departed, err := listDepartures(path)
		if err != nil {
			return nil, fmt.Errorf("find logs: %w", err)
		}
		if len(segments)+len(departed) == 0 {
			below, err := logsBelow(path)
			if err != nil {
				return nil, err
			}
			logs = append(logs, below...)
			continue
		}
		for len(segments) > 0 {
			ring := logstore.SegmentsOf(segments, segments[0].Channel, segments[0].Incarnation)
			segments = segments[len(ring):]
			l := segmentsLog(ring[0], ring)
			departed = l.claim(ring[0], departed)
			logs = append(logs, l)
		}
		for len(departed) > 0 { // these logs have lost all of their files
			s, ok := logstore.ParseSegment(departed[0].Name)
			if !ok {
				d := departed[0]
				return nil, fmt.Errorf("find logs in %q: %q: %s", path, d.Name, d.Reason)
			}
			l := segmentsLog(s, nil)
			departed = l.claim(s, departed)
			logs = append(logs, l)
		}
	}
	return logs, nil
}

// logsBelow finds the logs in the directories below a directory, such as that of a run. The name of
// each log begins with the log's directory, relative to the given directory.
func logsBelow(path string) (logs []aLog, err error) {
	err = filepath.WalkDir(path, func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() || dir == path {
			return err
		}
		segments, err := logstore.Segments(dir)
		departed, err2 := listDepartures(dir)
		if err := errors.Join(err, err2); err != nil || len(segments)+len(departed) == 0 {
			return err
		}
		found, err := findLogs([]string{dir})
		if err != nil {
			return err
		}
		below, err := filepath.Rel(path, dir)
		for i := range found {
			found[i].name = below + ": " + found[i].name
		}
		logs = append(logs, found...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find logs: %w", err)
	}
	if len(logs) == 0 {
		return nil, fmt.Errorf("find logs in %q: no file in it or below it ends in %s", path,
			logstore.Suffix)
	}
	return logs, nil
}

// listDepartures lists how the files of a directory differ from its manifest. If there is no
// manifest, the function listDepartures returns nothing.
func listDepartures(dir string) ([]logstore.Departure, error) {
	manifest, err := logstore.ReadManifest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return manifest.Check(dir)
}

// claim goes through a list of departures (differences between a directory and its manifest). It
// adds those that are about the log of the given segment to l.lacks, and returns the others.
func (l *aLog) claim(of logstore.Segment, all []logstore.Departure) (others []logstore.Departure) {
	for _, d := range all {
		s, ok := logstore.ParseSegment(d.Name)
		if ok && s.Channel == of.Channel && s.Incarnation == of.Incarnation {
			l.lacks = append(l.lacks, fmt.Sprintf("%q: %s", d.Name, d.Reason))
		} else {
			others = append(others, d)
		}
	}
	return others
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

func segmentsLog(of logstore.Segment, segments []logstore.Segment) aLog {
	l := aLog{name: fmt.Sprintf("%s %x", of.Channel, of.Incarnation[:4])}
	for _, s := range segments {
		l.files = append(l.files, s.Path)
	}
	l.open = func() (blockReader, io.Closer, error) {
		r := logstore.ReadLog(segments)
		return r, r, nil
	}
	return l
}

// bytes returns the total size of the log's files.
func (l aLog) bytes() (n int64) {
	for _, file := range l.files {
		if info, err := os.Stat(file); err == nil {
			n += info.Size()
		}
	}
	return n
}

// totalRows returns how many rows of all kinds were read, how many are missing, and how many were
// dropped.
func totalRows(r logstore.Report) (rows, missing, dropped uint64) {
	for i := range r.Rows {
		rows += r.Rows[i].Rows
		missing += r.Rows[i].MissingRows()
		for _, n := range r.Rows[i].Dropped {
			dropped += n
		}
	}
	return rows, missing, dropped
}

// headerLine describes a log in one line.
func headerLine(h logstore.Header) string {
	line := fmt.Sprintf("channel %s, handler %s, stamp %s, policy %s", h.Channel, h.Settings,
		h.Stamp, h.Policy)
	if h.Node != "" {
		line += fmt.Sprintf(", node %q", h.Node)
	}
	if h.Quantum_cycles != 0 {
		line += fmt.Sprintf(", quantum %d cycles", h.Quantum_cycles)
	}
	return line
}
