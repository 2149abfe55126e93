package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// FileSystem is the part of a file system that a Writer needs. Tests have their own
// implementations, which fail at chosen places.
type FileSystem interface {
	// OpenFile does what os.OpenFile does.
	OpenFile(path string, flag int, mode fs.FileMode) (WriterFile, error)
	Rename(from, to string) error
	Remove(path string) error
	Stat(path string) (fs.FileInfo, error)
}

// WriterFile is the part of *os.File that a Writer needs.
type WriterFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
}

// OS is the operating system's FileSystem.
type OS struct{}

func (OS) OpenFile(path string, flag int, mode fs.FileMode) (WriterFile, error) {
	f, err := os.OpenFile(path, flag, mode)
	if err != nil {
		return nil, err // a nil *os.File in an interface would not be nil
	}
	return f, nil
}
func (OS) Rename(from, to string) error          { return os.Rename(from, to) }
func (OS) Remove(path string) error              { return os.Remove(path) }
func (OS) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// Writer appends blocks to a log file. When Append has returned nil, the block is in the file, and
// every reader can return it, because a Writer buffers nothing. So the block survives the death of
// any process. A crash of the machine may destroy it, because the Writer does not sync. One
// goroutine at a time may use a Writer.
type Writer struct {
	fs      FileSystem
	path    string
	file    WriterFile
	header  Header
	offset  int64 // end of the last undamaged block
	index   []indexEntry
	indexed uint64     // number of rows of the index that are in the file
	last    indexEntry // entry of the index block that contains the last of these rows
	tracker streamTracker
	sealed  bool
	print   Fingerprint // fingerprint of the file, once it is sealed
}

// indexRows is the largest number of index rows that wait in memory, at 64 bytes each. When there
// are more, the Writer writes them to the file between the blocks.
const indexRows = 1 << 12

const fileMode = 0o600

// Create begins a log file. The file appears at its path only when it has its header. There must be
// no file at the path yet. A nil file system means the operating system's.
func Create(fsys FileSystem, path string, h Header) (*Writer, error) {
	if fsys == nil {
		fsys = OS{}
	}
	w, err := create(fsys, path, h)
	if err != nil {
		return nil, fmt.Errorf("create log %q: %w", path, err)
	}
	return w, nil
}

func create(fsys FileSystem, path string, h Header) (*Writer, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	if _, err := fsys.Stat(path); err == nil {
		return nil, fmt.Errorf("something is there: %w", fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	// A file with its final name must have a complete header. If the process dies before the header
	// is written, it leaves a file with another name.
	unfinished := path + ".new"
	file, err := fsys.OpenFile(unfinished, os.O_RDWR|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return nil, err
	}
	b := appendHeader(nil, &h)
	if _, err = file.WriteAt(b, 0); err == nil {
		err = fsys.Rename(unfinished, path)
	}
	if err != nil {
		file.Close()
		fsys.Remove(unfinished)
		return nil, err
	}
	h.version, h.headerLength = Version, int64(len(b))
	return newWriter(fsys, path, file, h), nil
}

func newWriter(fsys FileSystem, path string, file WriterFile, h Header) *Writer {
	w := &Writer{
		fs: fsys, path: path, file: file, header: h, offset: h.headerLength,
		tracker: streamTracker{},
	}
	w.tracker.skipTo(h.Continues)
	return w
}

// Resume opens a log file that was not sealed, to append blocks after the last undamaged one. It
// cuts off what follows that block: the torn block of a writer that died. It does not change
// earlier damage; readers find that damage.
func Resume(fsys FileSystem, path string) (*Writer, error) {
	if fsys == nil {
		fsys = OS{}
	}
	file, err := fsys.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("resume log: %w", err)
	}
	w, err := resume(fsys, path, file)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("resume log %q: %w", path, err)
	}
	return w, nil
}

func resume(fsys FileSystem, path string, file WriterFile) (*Writer, error) {
	st, err := file.Stat()
	if err != nil {
		return nil, err
	}
	f, err := newFile(file, st.Size(), path)
	if err != nil {
		return nil, err
	}
	if err := f.scanToResume(); err != nil {
		return nil, err
	}
	if f.sealed {
		return nil, ErrSealed
	}
	w := newWriter(fsys, path, file, f.header)
	if w.header.version > 1 {
		for _, e := range f.indexes {
			w.indexed, w.last = w.indexed+e.Count, e
			w.offset = int64(e.Offset + e.Length)
		}
	}
	for _, e := range f.entries {
		if e.Offset >= w.last.Offset {
			w.index = append(w.index, e)
		}
	}
	// The writer of a torn block never confirmed its rows, so they will be appended again. Count
	// only the rows of whole blocks.
	c := f.All()
	for _, e := range f.entries {
		var drops []Drop
		if Kind(e.Kind) == Drops {
			b, err := c.read(e)
			var damage *CorruptionError
			if err != nil && !errors.As(err, &damage) {
				return nil, err
			}
			if b != nil {
				drops = b.Drops
			}
		}
		w.tracker.noteWritten(Kind(e.Kind), int(e.Shard), e.First+e.Count, drops)
		w.offset = max(w.offset, int64(e.Offset+e.Length))
	}
	if w.offset < st.Size() {
		if err := file.Truncate(w.offset); err != nil {
			return nil, fmt.Errorf("cut off %d torn bytes: %w", st.Size()-w.offset, err)
		}
	}
	return w, nil
}

// scanToResume finds the blocks, except a torn one. It reads all headers, but only few payloads:
// for each kind in each shard, the payload of the last block. It must be quick, because programs
// wait for Resume, and a segment has up to [SegmentLimit] bytes.
//
// This is as safe as reading everything. A writer writes each block in one call, directly after the
// previous block, and only after the call for the previous block has succeeded. So if a header
// follows a payload, that payload was written completely. Only the last block can be torn: the file
// ends within it, or it is followed by older bytes that could not be removed. The last block of
// each kind in each shard determines where the log continues. Damage in these blocks, whatever
// caused it, could lose rows unnoticed, so scanToResume checks them. Other damage stays in the
// file. The index leads readers to that damage.
func (f *File) scanToResume() error {
	if err := f.scan(); err != nil {
		return err
	}
	c := f.All()
	for verified := f.size; ; {
		from := int64(-1)
		last := f.lastEntries()
		if n := len(f.indexes); n > 0 && int64(f.indexes[n-1].Offset) < verified {
			last = append(last, f.indexes[n-1])
		}
		for _, e := range last {
			if int64(e.Offset) >= verified {
				break
			}
			_, _, err := c.verify(e)
			var damage *CorruptionError
			if errors.As(err, &damage) {
				from = int64(e.Offset)
				break
			}
			if err != nil {
				return err
			}
		}
		if from < 0 {
			return nil
		}
		if err := f.search(from); err != nil {
			return err
		}
		verified = from
	}
}

// Header returns the header of the log file.
func (w *Writer) Header() Header { return w.header }

// Size returns the length of the file.
func (w *Writer) Size() int64 { return w.offset }

// Next returns the sequence number of the next row of a kind in a shard. This number is above the
// number of every row in this file and in the files before it, and of every row that a Drop
// declares missing.
func (w *Writer) Next(kind Kind, shard int) uint64 {
	if s := w.tracker[rowStream{kind, shard}]; s != nil {
		return s.next
	}
	return 0
}

// Continues lists the sequence numbers at which the next segment begins.
func (w *Writer) Continues() []Place { return w.tracker.nextNumbers() }

// Append writes a block. The block's incarnation must be the file's, and its first row must not be
// before Next. After an error no part of the block is in the log, and the caller may call Append
// again when there is space. For a block that cannot be written, the error wraps ErrBlock,
// ErrForeign or ErrSequence. If the file is no longer at its path, the error wraps ErrRemoved.
// Other errors come from the system.
func (w *Writer) Append(b *Block) error {
	err := b.check()
	switch {
	case err != nil:
	case w.sealed:
		err = ErrSealed
	case len(b.index) > 0:
		err = fmt.Errorf("rows of the index: %w", ErrBlock)
	case b.Incarnation != w.header.Incarnation:
		err = fmt.Errorf("incarnation %x, the file is of %x: %w", b.Incarnation,
			w.header.Incarnation, ErrForeign)
	case b.First < w.Next(b.Kind(), b.Shard):
		err = fmt.Errorf("%s of shard %d from row %d on, next is %d: %w", b.Kind(), b.Shard,
			b.First, w.Next(b.Kind(), b.Shard), ErrSequence)
	default:
		err = w.append(b)
	}
	if err != nil {
		return fmt.Errorf("append to log %q: %w", w.path, err)
	}
	return nil
}

// append writes a block that check has accepted, whatever its sequence numbers are.
func (w *Writer) append(b *Block) error {
	if err := w.present(); err != nil {
		return err
	}
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	if len(w.index) >= indexRows && w.header.version > 1 {
		var rows uint64
		var last indexEntry
		e.buffer, rows, last = w.appendIndex(e, e.buffer[:0])
		if err := w.write(e.buffer); err != nil {
			return err
		}
		w.indexed, w.last, w.index = rows, last, w.index[:0]
		w.offset += int64(len(e.buffer))
	}
	e.buffer = e.appendBlock(e.buffer[:0], b, w.header.Quantum_cycles)
	if err := w.write(e.buffer); err != nil {
		return err
	}
	h, _ := parseBlockHeader(e.buffer)
	w.index = append(w.index, entryOf(&h, w.offset))
	w.offset += int64(len(e.buffer))
	w.tracker.noteWritten(b.Kind(), b.Shard, b.First+uint64(b.Len()), b.Drops)
	return nil
}

// present returns an error that wraps ErrRemoved if the file is no longer at its path.
func (w *Writer) present() error {
	here, err := w.file.Stat()
	if err != nil {
		return err
	}
	there, err := w.fs.Stat(w.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrRemoved
	case err != nil:
		return err
	case !os.SameFile(here, there):
		return fmt.Errorf("another file is there: %w", ErrRemoved)
	case there.Size() < w.offset:
		return fmt.Errorf("cut from %d bytes to %d: %w", w.offset, there.Size(), ErrRemoved)
	}
	return nil
}

// write appends all bytes or none. After a failure the disk may have taken a part of the bytes. So
// the method write cuts the file to its old length. If that fails too, the next block overwrites
// these bytes.
func (w *Writer) write(b []byte) error {
	n, err := w.file.WriteAt(b, w.offset)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		err = errors.Join(err, w.file.Truncate(w.offset))
	}
	return err
}

// appendIndex appends the rows of the index that are not yet in the file. The first row of each
// index block describes the previous index block. appendIndex returns the number of rows that the
// file's index then has, and the entry of the last index block.
func (w *Writer) appendIndex(e *encoder, b []byte) (out []byte, rows uint64, last indexEntry) {
	rows, last = w.indexed, w.last
	start := len(b)
	for index := w.index; len(index) > 0; index = index[min(len(index), indexRows):] {
		part := index[:min(len(index), indexRows)]
		if last.Count > 0 {
			part = append([]indexEntry{last}, part...)
		}
		at := len(b)
		block := Block{Incarnation: w.header.Incarnation, First: rows, index: part}
		b = e.appendBlock(b, &block, 1)
		h, _ := parseBlockHeader(b[at:])
		last = entryOf(&h, w.offset+int64(at-start))
		rows += last.Count
	}
	return b, rows, last
}

// appendOldIndex appends the whole index in the form of version 1. It returns the number of rows.
func (w *Writer) appendOldIndex(e *encoder, b []byte) ([]byte, uint64) {
	for i := 0; i < len(w.index); i += MaxRows {
		rows := w.index[i:min(i+MaxRows, len(w.index))]
		block := Block{Incarnation: w.header.Incarnation, First: uint64(i), index: rows}
		b = e.appendBlock(b, &block, 1)
	}
	return b, uint64(len(w.index))
}

// Seal seals the last file of a log: it calls SealAs with Ended.
func (w *Writer) Seal() error { return w.SealAs(Ended) }

// SealAs writes the index and an end, and closes the file. The end says what follows the file. In a
// file of version 1, the end cannot say that. After an error the file is unchanged and open, and
// the caller may call SealAs or Append again.
func (w *Writer) SealAs(then End) error {
	if w.sealed {
		return fmt.Errorf("seal log %q: %w", w.path, ErrSealed)
	}
	encoder := encoders.Get().(*encoder)
	defer encoders.Put(encoder)
	b := encoder.buffer[:0]
	e := endFrame{offset: uint64(w.offset), then: then}
	if w.header.version == 1 {
		e.then = Unsaid
		b, e.rows = w.appendOldIndex(encoder, b)
	} else {
		var last indexEntry
		if b, e.rows, last = w.appendIndex(encoder, b); e.rows > 0 {
			e.offset = last.Offset
		}
	}
	b = e.append(b)
	encoder.buffer = b
	err := w.present()
	if err == nil {
		err = w.write(b)
	}
	if err != nil {
		return fmt.Errorf("seal log %q: %w", w.path, err)
	}
	w.sealed = true
	w.offset += int64(len(b))
	w.print = w.fingerprint()
	return w.Close()
}

// fingerprint returns the fingerprint of the file as written up to now. If the file can no longer
// be read, the fingerprint has no checksums.
func (w *Writer) fingerprint() Fingerprint {
	f, err := TakeFingerprint(w.file, w.offset)
	if err != nil {
		f = Fingerprint{Bytes: w.offset}
	}
	return f
}

// Close closes the file. Resume can reopen a file that was not sealed. The caller must not use a
// closed Writer.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	file := w.file
	w.file = nil
	w.sealed = true
	if err := file.Close(); err != nil {
		return fmt.Errorf("close log %q: %w", w.path, err)
	}
	return nil
}
