package logstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// SegmentLimit is the default length, in bytes, at which a segment is full.
const SegmentLimit = 256 << 20

// Log is the log of one ring, in as many segments as necessary. One goroutine at a time may use it.
type Log struct {
	fs     FileSystem
	dir    string
	limit  int64
	header Header
	writer *Writer
	places []Place // where the rows of the next segment begin; set while there is no writer
	then   End     // what the last segment says about what follows; set while there is no writer

	removed int
}

// OpenLog begins the log of a ring. If the log already has segments, OpenLog continues at the end
// of the last segment, in the epoch of that segment. The Log itself sets Segment, Part, Previous,
// Rewritten and Continues in headers. A limit of 0 means SegmentLimit, and a nil file system means
// the operating system's.
func OpenLog(fsys FileSystem, dir string, h Header, limit int64) (*Log, error) {
	segments, err := Segments(dir)
	if err != nil {
		return nil, err
	}
	return OpenSegments(fsys, dir, segments, h, limit)
}

// OpenSegments does what OpenLog does, but the caller passes the list of the directory's segments.
// One list can serve many logs.
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

// goOn prepares the header of the next segment. It copies three things from the header of the
// previous one: the epoch, the pair of counter and UTC, and the part. If the counter has entered
// another epoch since then, the caller must call Log.Enter.
func (h *Header) goOn(before *Header) {
	h.Epoch, h.Counter, h.UTCLo_ns, h.UTCHi_ns = before.Epoch, before.Counter, before.UTCLo_ns,
		before.UTCHi_ns
	if before.Part != UnknownPart {
		h.Part = before.Part
	}
}

// goOnBehind finds where a log ends if no writer can append to any of its segments. It finds the
// end in the last segment with a readable header. If damaged segments follow, their rows count as
// never written: Next returns the sequence number of the first of these rows.
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

// Next returns the sequence number of the next row of a kind in a shard.
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

// Removed returns the number of segments that were removed or cut while this Log wrote to them.
func (l *Log) Removed() int { return l.removed }

// Size returns the length of the current segment.
func (l *Log) Size() int64 {
	if l.writer == nil {
		return 0
	}
	return l.writer.Size()
}

// Append writes a block. If the current segment is full or was removed, Append begins a new one. It
// returns the errors of Writer.Append. After an error no part of the block is in the log, and the
// caller may call Append again.
func (l *Log) Append(b *Block) error {
	for attempt := 0; ; attempt++ {
		// A segment of version 1 cannot say what follows it, so begin a new segment.
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
		// The rows of the removed segment are lost. The next segment begins with a later sequence
		// number, so readers notice which rows are missing.
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

// rotate seals the current segment and leaves it. If the segment was removed, the method rotate
// only leaves it, and returns ErrRemoved.
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

// leave closes the current segment, so that Append begins the next one.
func (l *Log) leave() {
	if l.header.Previous = l.writer.print; l.writer.file != nil { // the segment was not sealed
		l.header.Previous = l.writer.fingerprint()
	}
	l.places = l.writer.Continues()
	l.writer.Close()
	l.writer = nil
	l.header.Segment++
}

// end seals the log in its directory. If the last segment promises a next segment in the directory,
// the method end first writes that segment, without rows.
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

// Change sets the settings, and the pair of counter and UTC, that the headers of later segments
// contain.
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

// Enter seals the current segment. The next block begins a segment of the given epoch, with the
// given pair of counter and UTC.
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
	// Sealing the segment changed these fields of l.header.
	h.Segment, h.Part, h.Previous = l.header.Segment, l.header.Part, l.header.Previous
	l.header = h
	return nil
}

// Moved reports whether the log was sealed in order to move to another directory, but has no
// segment there yet.
func (l *Log) Moved() bool { return l.writer == nil && l.then == Moved }

// Move ends the log in its directory and continues it in another. It creates a segment in the other
// directory at once. The header of this segment says at which sequence numbers the log continues.
// After an error the log may be in either directory, and the caller may call Move again.
func (l *Log) Move(dir string) error {
	if err := l.end(Moved); err != nil && !errors.Is(err, ErrRemoved) {
		return err
	}
	l.dir, l.then = dir, Moved
	return l.begin()
}

// Seal ends the log. A log without blocks has no file.
func (l *Log) Seal() error { return l.end(Ended) }

// Close closes the log without sealing it. OpenLog can continue the log later.
func (l *Log) Close() error {
	if l.writer == nil {
		return nil
	}
	w := l.writer
	l.writer, l.places = nil, w.Continues()
	return w.Close()
}
