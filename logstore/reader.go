package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"
)

// Reader reads a log file from beginning to end, whatever the state of the file. After damage it
// continues with the next undamaged block. A Reader takes memory for one block. One goroutine at a
// time may use it.
type Reader struct {
	name    string
	header  Header
	guess   bool // the header could not be read, so the first block gives the incarnation
	window  fileWindow
	decoder decoder
	block   Block
	tracker streamTracker
	report  Report

	indexed   uint64     // number of rows of the index read so far
	firstAt   int64      // offset of the index's first block
	lastIndex indexEntry // entry of the index's last block
	listed    uint64     // sum of the hashes of the index's rows
	seen      uint64     // sum of the hashes of all blocks; equal to listed if the index is correct
	ended     bool       // the end of a sealed file was read
	then      End        // what the end says about what follows the file
	searched  int64      // number of bytes of damaged payloads that were searched for blocks

	// If file is not nil, the Reader adds the blocks to the entries of file, and decodes only drops
	// and the index.
	file *File
}

// NewReader reads the header of a log. Next reads the blocks. The name appears in errors. Errors
// wrap ErrNotLog, ErrVersion, ErrFormat, ErrHeader or an error of the underlying reader. Salvage
// can read even a log without a readable header.
func NewReader(from io.Reader, name string) (*Reader, error) {
	r := newReader(from, name)
	if err := r.readHeader(); err != nil {
		return nil, err
	}
	r.tracker.skipTo(r.header.Continues)
	return r, nil
}

func newReader(from io.Reader, name string) *Reader {
	return &Reader{name: name, window: fileWindow{from: from}, tracker: streamTracker{}}
}

// readHeader reads the header and consumes it.
func (r *Reader) readHeader() error {
	b := r.window.ahead(headerLimit)
	if err := r.window.err; err != nil && err != io.EOF {
		return fmt.Errorf("read log %q: %w", r.name, err)
	}
	h, err := parseHeader(b)
	if err != nil {
		return fmt.Errorf("read log %q: header: %w", r.name, err)
	}
	r.header = h
	r.window.consume(int(h.headerLength))
	return nil
}

// Header returns the header of the log file.
func (r *Reader) Header() Header { return r.header }

// Report returns the account of what was read so far. After Next has returned io.EOF, the report
// covers the whole file. It does not cover earlier segments.
func (r *Reader) Report() Report {
	report := r.report
	report.Damage = slices.Clone(report.Damage)
	report.Sealed, report.Then = r.ended, r.then
	report.Rows = r.tracker.report()
	return report
}

// Next returns the next block of rows, without rows that were in an earlier block. The block is
// valid until the next call. A *CorruptionError reports damage, and the next call continues after
// the damage. At the end Next returns io.EOF. Any other error comes from the underlying reader and
// is final.
func (r *Reader) Next() (*Block, error) {
	for {
		b := r.window.ahead(frameLimit)
		if len(b) == 0 {
			if r.window.err != io.EOF {
				return nil, fmt.Errorf("read log %q: offset %d: %w",
					r.name, r.window.offset, r.window.err)
			}
			return nil, io.EOF
		}
		h, isBlock := parseBlockHeader(b)
		e, isEnd := parseEnd(b)
		switch {
		case isBlock && !r.ended:
			if block, err := r.readBlock(&h); block != nil || err != nil {
				return block, err
			}
		case isEnd && !r.ended:
			if err := r.readEnd(&e); err != nil {
				return nil, err
			}
		case isBlock || isEnd:
			r.ended, r.then = false, Unsaid // something was written after the end of a sealed file
		default:
			why := ErrBytes
			if len(b) < frameLimit && startsFrame(b) {
				why = ErrTorn
			}
			return nil, r.damage(r.search(1), why)
		}
	}
}

// readBlock reads the block at the present position. If the block has nothing for the caller, such
// as an index block, readBlock returns neither a block nor an error.
func (r *Reader) readBlock(h *blockHeader) (*Block, error) {
	size := h.size()
	b := r.window.ahead(size)
	short := len(b) < size
	if short || checksum(b[blockHeaderSize:]) != h.checksum {
		why := ErrChecksum
		if short {
			why = ErrTorn
		}
		if h.kind != index && (r.guess || h.incarnation == r.header.Incarnation) {
			r.tracker.noteKnown(h.kind, h.shard, h.first+uint64(h.rows))
		}
		return nil, r.damage(r.skipDamaged(size, short), why)
	}
	offset := r.window.offset
	defer r.window.consume(size)
	if r.guess {
		r.guess = false
		r.header.Incarnation = h.incarnation
	}
	if h.incarnation != r.header.Incarnation {
		r.report.Foreign++
		return nil, r.damageAt(offset, int64(size), ErrForeign)
	}
	skim := r.file != nil && h.kind != index && h.kind != Drops
	if r.block.clear(); skim {
		r.block.Incarnation, r.block.Shard, r.block.First = h.incarnation, h.shard, h.first
	} else if err := r.decoder.block(&r.block, h, b[blockHeaderSize:]); err != nil {
		r.tracker.noteKnown(h.kind, h.shard, h.first+uint64(h.rows))
		return nil, r.damageAt(offset, int64(size), fmt.Errorf("%w: %w", ErrPayload, err))
	}
	entry := entryOf(h, offset)
	if h.kind == index {
		r.readIndex(entry, r.block.index)
		return nil, nil
	}
	fresh := r.tracker.noteBlock(h.kind, h.shard, h.first, h.rows)
	if fresh.From == fresh.To {
		r.report.Duplicates++
		return nil, nil
	}
	if r.file != nil {
		r.file.entries = append(r.file.entries, entry)
	}
	r.seen += entry.hash()
	if fresh.To-fresh.From < uint64(h.rows) {
		r.report.Overlaps++
	}
	if !skim {
		r.block.keep(fresh)
	}
	r.report.Blocks++
	r.tracker.noteMissing(h.shard, r.block.Drops)
	return &r.block, nil
}

// readIndex notes the blocks that one block of the index lists.
func (r *Reader) readIndex(block indexEntry, rows []indexEntry) {
	if r.indexed == 0 {
		r.firstAt = int64(block.Offset)
	}
	r.indexed += block.Count
	r.lastIndex = block
	if r.header.version > 1 {
		r.seen += block.hash() // the next index block lists this one
	}
	if r.file != nil {
		r.file.indexes = append(r.file.indexes, block)
	}
	for _, e := range rows {
		r.listed += e.hash()
		if e.ofRows() {
			r.tracker.noteKnown(Kind(e.Kind), int(e.Shard), e.First+e.Count)
		}
	}
}

// readEnd reads the end of a sealed file, and compares the index with the blocks.
func (r *Reader) readEnd(e *endFrame) error {
	offset := r.window.offset
	r.window.consume(endSize)
	r.ended, r.then = true, e.then
	if len(r.report.Damage)+r.report.Duplicates+r.report.Overlaps > 0 {
		return nil // the reported damage already explains why index and blocks differ
	}
	seen, at := r.seen, r.firstAt
	if r.header.version > 1 && r.indexed > 0 {
		seen, at = seen-r.lastIndex.hash(), int64(r.lastIndex.Offset)
	}
	if r.listed != seen || e.rows != r.indexed || r.indexed > 0 && e.offset != uint64(at) {
		return r.damageAt(offset, endSize, ErrIndex)
	}
	return nil
}

// skipDamaged skips a block with an undamaged header and a damaged payload. It returns the offset
// of the block. Even an undamaged header may give a wrong length, so skipDamaged searches the
// payload for other blocks.
func (r *Reader) skipDamaged(size int, short bool) (from int64) {
	// For each header in the payload, the search computes the checksum of another payload. The next
	// lines limit this work in a file with many false headers.
	const floor = 64 << 20
	if r.searched > floor+2*r.window.offset && !short {
		from = r.window.offset
		r.window.consume(size)
		return from
	}
	r.searched += int64(size)
	return r.search(1)
}

// search advances by n bytes, and then to the next place at which a frame begins. It returns the
// offset at which the search began.
func (r *Reader) search(n int) (from int64) {
	from = r.window.offset
	r.window.consume(n)
	for {
		r.window.ahead(frameLimit)
		b := r.window.available()
		at := bytes.Index(b, frameMagic)
		if at < 0 {
			if r.window.err != nil {
				r.window.consume(len(b))
				return from
			}
			// Do not consume the last bytes, which may be the beginning of a frame.
			r.window.consume(len(b) - min(len(b), len(endMagic)))
			continue
		}
		r.window.consume(at)
		b = r.window.ahead(frameLimit)
		_, isBlock := parseBlockHeader(b)
		_, isEnd := parseEnd(b)
		if isBlock || isEnd {
			return from
		}
		r.window.consume(1)
	}
}

func (r *Reader) damage(from int64, why error) error {
	return r.damageAt(from, r.window.offset-from, why)
}

func (r *Reader) damageAt(offset, length int64, why error) error {
	e := &CorruptionError{File: r.name, Offset: offset, Length: length, Err: why}
	r.report.damage(e)
	return e
}

func entryOf(h *blockHeader, offset int64) indexEntry {
	return indexEntry{
		Offset: uint64(offset), Length: uint64(h.size()),
		Kind: uint64(h.kind), Shard: uint64(h.shard),
		First: h.first, Count: uint64(h.rows), Lo: h.lo, Hi: h.hi,
	}
}

// ofRows reports whether an entry can describe a block of rows.
func (e indexEntry) ofRows() bool {
	return e.Kind < kinds && Kind(e.Kind).known() && Kind(e.Kind) != index && e.sane()
}

// sane reports whether the numbers in an entry agree with each other.
func (e indexEntry) sane() bool {
	return e.Shard <= maxShard && e.Count >= 1 && e.Count <= MaxRows &&
		e.First+e.Count >= e.First &&
		e.Length >= blockHeaderSize && e.Length <= math.MaxInt32 && e.Offset+e.Length >= e.Offset
}

var hashSeed = maphash.MakeSeed()

func (e indexEntry) hash() uint64 { return maphash.Comparable(hashSeed, e) }

// Check reads a log file to its end and returns the report. The report lists damage; damage is not
// an error.
func Check(from io.Reader, name string) (Report, error) {
	r, err := NewReader(from, name)
	if err != nil {
		return Report{}, err
	}
	err = EachBlock(r.Next, nil)
	return r.Report(), err
}

// EachBlock calls the function do for each block that the function next returns, until next returns
// io.EOF or another final error. It continues after damage. If do is nil, EachBlock only reads.
func EachBlock(next func() (*Block, error), do func(*Block) error) error {
	for {
		b, err := next()
		var damage *CorruptionError
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &damage):
			continue
		case err == nil && do != nil:
			err = do(b)
		}
		if err != nil {
			return err
		}
	}
}
