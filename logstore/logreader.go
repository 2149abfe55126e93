package logstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// LogReader reads the segments of one ring as one log. Its report lists what is missing before,
// between and after the segments. One goroutine at a time may use it.
type LogReader struct {
	segments []Segment
	whole    bool // the list contains all segments of the log in its directory
	file     *os.File
	reader   *Reader
	header   Header
	tracker  streamTracker
	report   Report
	next     int
}

// ReadLog begins to read a log. The list must contain all segments of the log in one directory, in
// order. The caller closes the reader.
func ReadLog(segments []Segment) *LogReader {
	return &LogReader{segments: segments, whole: true, tracker: streamTracker{}}
}

// ReadSegments begins to read some of a log's segments. Unlike ReadLog, it does not report the
// other segments as missing. CheckChain checks the whole log.
func ReadSegments(segments []Segment) *LogReader {
	return &LogReader{segments: segments, tracker: streamTracker{}}
}

// Header returns the header of the segment from which the last block came.
func (l *LogReader) Header() Header { return l.header }

// Report returns the account of what was read so far. After Next has returned io.EOF, the report
// covers the whole log.
func (l *LogReader) Report() Report {
	report := l.report
	report.Damage = slices.Clone(report.Damage)
	if l.reader != nil {
		report.add(l.reader.Report())
	}
	report.Rows = l.tracker.report()
	return report
}

func (r *Report) add(of Report) {
	r.Sealed, r.Then = of.Sealed, of.Then
	r.Blocks += of.Blocks
	r.Duplicates += of.Duplicates
	r.Overlaps += of.Overlaps
	r.Foreign += of.Foreign
	r.MoreDamage += of.MoreDamage
	for _, d := range of.Damage {
		r.damage(d)
	}
}

// Next does what Reader.Next does, for all segments in turn. If the header of a segment cannot be
// read, Next reports the whole segment as damage.
func (l *LogReader) Next() (*Block, error) {
	for {
		if l.reader == nil {
			if l.next == len(l.segments) {
				return nil, l.atEnd()
			}
			if err := l.open(); err != nil {
				return nil, err
			}
		}
		b, err := l.reader.Next()
		if err != io.EOF {
			return b, err
		}
		l.report.add(l.reader.Report())
		l.Close()
	}
}

// atEnd checks whether segments are gone, and returns io.EOF.
func (l *LogReader) atEnd() (err error) {
	if l.whole {
		l.report.Chain, err = CheckChain(l.segments)
	}
	if err != nil {
		return err
	}
	return io.EOF
}

func (l *LogReader) open() error {
	s := l.segments[l.next]
	l.next++
	file, err := plainfile.Open(s.Path)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	r, err := NewReader(file, s.Path)
	if err == nil && (r.header.Incarnation != s.Incarnation || r.header.Channel != s.Channel) {
		err = fmt.Errorf("read log %q: header of %s, incarnation %x: %w", s.Path, r.header.Channel,
			r.header.Incarnation, ErrForeign)
	}
	if err == nil && r.header.Segment != s.Number {
		// The file has a wrong name, but its rows belong to the log.
		err := fmt.Errorf("named as segment %d, written as %d: %w",
			s.Number, r.header.Segment, ErrSegment)
		l.report.damage(&CorruptionError{File: s.Path, Err: err})
	}
	if errors.Is(err, ErrNotLog) || errors.Is(err, ErrHeader) || errors.Is(err, ErrForeign) {
		damage := &CorruptionError{File: s.Path, Err: err}
		if st, err := file.Stat(); err == nil {
			damage.Length = st.Size()
		}
		l.report.damage(damage)
		err = damage
	}
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.reader, l.header = file, r, r.header
	// Sequence numbers continue from one segment to the next. If a segment begins with a later
	// number, rows are missing. There is one exception. Rows before the first segment of the list
	// are not reported as missing if earlier segments are in other directories, or if the caller
	// left them out.
	if l.next == 1 && !(l.whole && r.header.Part == 0) {
		l.tracker.skipTo(r.header.Continues)
	}
	l.tracker.noteBegin(r.header.Continues)
	r.tracker = l.tracker
	return nil
}

// Close closes the segment that is being read.
func (l *LogReader) Close() error {
	if l.file == nil {
		return nil
	}
	file := l.file
	l.file, l.reader = nil, nil
	return file.Close()
}
