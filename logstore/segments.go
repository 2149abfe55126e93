package logstore

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// Suffix ends the names of log files.
const Suffix = ".cplog"

// SegmentName returns the name of a segment's file: channel, incarnation and number.
func SegmentName(name channel.Name, incarnation Incarnation, segment int) string {
	return fmt.Sprintf("%s.%x.%06d%s", name.FileStem(), incarnation, segment, Suffix)
}

// Segment is a log file, described by its name alone.
type Segment struct {
	Path        string
	Channel     channel.Name
	Incarnation Incarnation
	Number      int
}

// ParseSegment parses a name that SegmentName made. Directories may stand before the name.
func ParseSegment(path string) (Segment, bool) {
	base, found := strings.CutSuffix(filepath.Base(path), Suffix)
	if !found {
		return Segment{}, false
	}
	base, number, found := cutLast(base, '.')
	if !found {
		return Segment{}, false
	}
	stem, incarnation, found := cutLast(base, '.')
	if !found || len(incarnation) != 32 {
		return Segment{}, false
	}
	s := Segment{Path: path}
	var err error
	if s.Channel, err = channel.ParseFileStem(stem); err != nil {
		return Segment{}, false
	}
	if _, err := hex.Decode(s.Incarnation[:], []byte(incarnation)); err != nil {
		return Segment{}, false
	}
	if s.Number, err = strconv.Atoi(number); err != nil || s.Number < 0 {
		return Segment{}, false
	}
	return s, SegmentName(s.Channel, s.Incarnation, s.Number) == filepath.Base(path)
}

// sibling returns the path of another segment of the same log.
func (s Segment) sibling(number int) string {
	return filepath.Join(filepath.Dir(s.Path), SegmentName(s.Channel, s.Incarnation, number))
}

func cutLast(s string, separator byte) (before, after string, found bool) {
	i := strings.LastIndexByte(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// Segments lists the log files of a directory. Those of one ring stand together, in their order.
func Segments(dir string) ([]Segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	var all []Segment
	for _, e := range entries {
		if s, ok := ParseSegment(filepath.Join(dir, e.Name())); ok && e.Type().IsRegular() {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Segment) int {
		return cmp.Or(strings.Compare(a.Channel.String(), b.Channel.String()),
			slices.Compare(a.Incarnation[:], b.Incarnation[:]), cmp.Compare(a.Number, b.Number))
	})
	return all, nil
}

// SegmentsOf returns those of the listed segments that belong to one ring. Segments made the list.
func SegmentsOf(all []Segment, name channel.Name, incarnation Incarnation) []Segment {
	order := func(s Segment, _ int) int {
		return cmp.Or(strings.Compare(s.Channel.String(), name.String()),
			bytes.Compare(s.Incarnation[:], incarnation[:]))
	}
	from, _ := slices.BinarySearchFunc(all, 0, order)
	to := from
	for to < len(all) && order(all[to], 0) == 0 {
		to++
	}
	return all[from:to:to]
}

// SegmentLimit is the default length, in bytes, at which a segment is full.
const SegmentLimit = 256 << 20

// Log is the log of one ring, in as many segments as it takes. One goroutine at a time may use it.
type Log struct {
	fs     FileSystem
	dir    string
	limit  int64
	header Header
	writer *Writer
	places []Place // where the next segment begins; set while there is no writer
	then   End     // what the last segment says about the next; set while there is no writer

	removed int
}

// OpenLog begins the log of a ring. If the log has segments, OpenLog continues it where the last
// one ends, in that segment's epoch. The Log sets the header's Segment and Continues. A limit of 0
// means SegmentLimit, and a nil file system means the operating system's.
func OpenLog(fsys FileSystem, dir string, h Header, limit int64) (*Log, error) {
	segments, err := Segments(dir)
	if err != nil {
		return nil, err
	}
	return OpenSegments(fsys, dir, segments, h, limit)
}

// OpenSegments is OpenLog for a directory whose segments are already listed. One list can serve
// many logs.
func OpenSegments(fsys FileSystem, dir string, segments []Segment, h Header,
	limit int64) (*Log, error) {
	if fsys == nil {
		fsys = OS{}
	}
	if limit <= 0 {
		limit = SegmentLimit
	}
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("open log in %q: %w", dir, err)
	}
	h.Segment, h.Part, h.Previous, h.Rewritten, h.Continues = 0, 0, Fingerprint{}, false, nil
	l := &Log{fs: fsys, dir: dir, limit: limit, header: h}
	segments = SegmentsOf(segments, h.Channel, h.Incarnation)
	if len(segments) == 0 {
		return l, nil
	}
	if l.header.Part = UnknownPart; segments[0].Number == 0 {
		l.header.Part = 0
	}
	last := segments[len(segments)-1]
	l.header.Segment = last.Number
	w, err := Resume(fsys, last.Path)
	switch {
	case err == nil:
		l.writer = w
		l.places = w.Continues()
		l.header.goOn(&w.header)
		return l, nil
	case errors.Is(err, ErrSealed), errors.Is(err, ErrHeader), errors.Is(err, ErrNotLog):
		l.header.Segment++
		if err = l.goOnBehind(segments); err == nil {
			l.header.Previous, err = fingerprintOf(fsys, last.Path)
		}
	}
	return l, err
}

func fingerprintOf(fsys FileSystem, path string) (Fingerprint, error) {
	file, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return Fingerprint{}, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return Fingerprint{}, err
	}
	return TakeFingerprint(file, st.Size())
}

// goOn takes over the epoch and the relation of counter and UTC from the segment before. Only the
// writer can know that the counter has entered another epoch since.
func (h *Header) goOn(before *Header) {
	h.Epoch, h.Counter, h.UTCLo_ns, h.UTCHi_ns = before.Epoch, before.Counter, before.UTCLo_ns,
		before.UTCHi_ns
	if before.Part != UnknownPart {
		h.Part = before.Part
	}
}

// goOnBehind finds where a log ends if none of its segments can be written to. It reads the last
// readable header, and how far that segment came. The rows of a damaged segment are not counted, so
// they are missing where the next segment begins.
func (l *Log) goOnBehind(segments []Segment) error {
	for i := len(segments) - 1; i >= 0; i-- {
		f, err := OpenFile(segments[i].Path)
		if errors.Is(err, ErrHeader) || errors.Is(err, ErrNotLog) {
			continue
		}
		if err != nil {
			return err
		}
		defer f.Close()
		l.header.goOn(&f.header)
		if i == len(segments)-1 {
			l.then = f.then
		}
		l.places, err = f.Continues()
		return err
	}
	return nil
}

// Next returns the sequence of the next row of a kind in a shard.
func (l *Log) Next(kind Kind, shard int) uint64 {
	if l.writer != nil {
		return l.writer.Next(kind, shard)
	}
	for _, p := range l.places {
		if p.Kind == kind && p.Shard == shard {
			return p.Next
		}
	}
	return 0
}

// Removed returns how many segments were removed, or cut, while this Log wrote to them.
func (l *Log) Removed() int { return l.removed }

// Size returns the length of the current segment.
func (l *Log) Size() int64 {
	if l.writer == nil {
		return 0
	}
	return l.writer.Size()
}

// Append writes a block. It begins a new segment if the current one is full or was removed. It
// returns the errors of Writer.Append. After an error nothing of the block counts as written, and
// Append may be called again.
func (l *Log) Append(b *Block) error {
	for attempt := 0; ; attempt++ {
		// A segment of version 1 cannot say what comes after it.
		if l.writer != nil && (l.writer.Size() >= l.limit || l.writer.header.version < Version) {
			if err := l.rotate(GoesOn); err != nil && !errors.Is(err, ErrRemoved) {
				return err
			}
		}
		if l.writer == nil {
			if err := l.begin(); err != nil {
				return err
			}
		}
		err := l.writer.Append(b)
		if !errors.Is(err, ErrRemoved) || attempt > 0 {
			return err
		}
		// The rows of the removed segment are lost. The gap before the next segment says which.
		l.removed++
		l.leave()
	}
}

// begin creates the next segment.
func (l *Log) begin() error {
	h := l.header
	h.Continues = l.places
	if l.then == Moved {
		h.Part = h.Segment
	}
	w, err := Create(l.fs, filepath.Join(l.dir, SegmentName(h.Channel, h.Incarnation, h.Segment)),
		h)
	if err != nil {
		return err
	}
	l.writer, l.header.Part, l.then = w, h.Part, Unsaid
	return nil
}

// rotate seals the current segment. If the segment was removed, rotate only leaves it.
func (l *Log) rotate(then End) error {
	err := l.writer.SealAs(then)
	if errors.Is(err, ErrRemoved) {
		l.removed++
	}
	if err == nil || errors.Is(err, ErrRemoved) {
		l.leave()
		l.then = then
	}
	return err
}

// leave moves to the next segment.
func (l *Log) leave() {
	if l.header.Previous = l.writer.print; l.writer.file != nil { // the segment was not sealed
		l.header.Previous = l.writer.fingerprint()
	}
	l.places = l.writer.Continues()
	l.writer.Close()
	l.writer = nil
	l.header.Segment++
}

// end seals the log in its directory. If the last segment says that another follows there, end
// writes that one without rows.
func (l *Log) end(then End) error {
	if l.writer == nil && l.then == GoesOn {
		if err := l.begin(); err != nil {
			return err
		}
	}
	if l.writer == nil {
		return nil
	}
	return l.rotate(then)
}

// Change sets the settings, and the relation of counter and UTC, in the headers of segments that
// begin from now on.
func (l *Log) Change(settings channel.Settings, counter uint64, utcLo_ns, utcHi_ns int64) error {
	h := l.header
	h.Settings, h.Counter, h.UTCLo_ns, h.UTCHi_ns = settings, counter, utcLo_ns, utcHi_ns
	if err := h.check(); err != nil {
		return fmt.Errorf("change header of log in %q: %w", l.dir, err)
	}
	l.header = h
	return nil
}

// Epoch returns the epoch of the segment to which the next block goes.
func (l *Log) Epoch() string { return l.header.Epoch }

// Enter seals the current segment. From the next block on, rows go to a segment of the given epoch,
// with this relation of counter and UTC.
func (l *Log) Enter(epoch string, counter uint64, utcLo_ns, utcHi_ns int64) error {
	h := l.header
	h.Epoch, h.Counter, h.UTCLo_ns, h.UTCHi_ns = epoch, counter, utcLo_ns, utcHi_ns
	if err := h.check(); err != nil {
		return fmt.Errorf("enter epoch %q in log in %q: %w", epoch, l.dir, err)
	}
	if l.writer != nil {
		if err := l.rotate(GoesOn); err != nil && !errors.Is(err, ErrRemoved) {
			return err
		}
	}
	// Sealing changed these.
	h.Segment, h.Part, h.Previous = l.header.Segment, l.header.Part, l.header.Previous
	l.header = h
	return nil
}

// Moved tells whether the log was sealed in order to move, but did not reach the other directory.
func (l *Log) Moved() bool { return l.writer == nil && l.then == Moved }

// Move ends the log in its directory and continues it in another. It creates a segment there at
// once, which says where it continues. After an error the log may be in either directory, and Move
// may be called again.
func (l *Log) Move(dir string) error {
	if err := l.end(Moved); err != nil && !errors.Is(err, ErrRemoved) {
		return err
	}
	l.dir, l.then = dir, Moved
	return l.begin()
}

// Seal ends the log. A log without blocks has no file.
func (l *Log) Seal() error { return l.end(Ended) }

// Close leaves the log so that it can be opened again.
func (l *Log) Close() error {
	if l.writer == nil {
		return nil
	}
	w := l.writer
	l.writer, l.places = nil, w.Continues()
	return w.Close()
}

// LogReader reads the segments of one ring as one log. Its report says what is missing before,
// between and after them. One goroutine at a time may use it.
type LogReader struct {
	segments []Segment
	whole    bool // the segments are all that the directory has
	file     *os.File
	reader   *Reader
	header   Header
	tracker  tracker
	report   Report
	next     int
}

// ReadLog begins to read a log. The segments must be all that are in their directory, in order.
// Close the reader.
func ReadLog(segments []Segment) *LogReader {
	return &LogReader{segments: segments, whole: true, tracker: tracker{}}
}

// ReadSegments is ReadLog for some of a log's segments. It does not report the others as missing.
// CheckChain checks the whole log.
func ReadSegments(segments []Segment) *LogReader {
	return &LogReader{segments: segments, tracker: tracker{}}
}

// Header returns the header of the segment that held the last block.
func (l *LogReader) Header() Header { return l.header }

// Report returns the account of what was read so far. After Next has returned io.EOF it covers the
// whole log.
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

// Next is Reader.Next over all segments. A segment whose header cannot be read counts as damage as
// a whole.
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

// atEnd checks whether the segments are all that there were, and returns io.EOF.
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
		// The rows belong to the log all the same.
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
	// Sequences continue from the segment before. If this one begins later, rows are missing. The
	// rows before the first segment are in other directories, unless the log began here.
	if l.next == 1 && !(l.whole && r.header.Part == 0) {
		l.tracker.skipTo(r.header.Continues)
	}
	l.tracker.begin(r.header.Continues)
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
