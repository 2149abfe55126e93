package logstore

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// File is a log that is read from where it is wanted. Where it is sealed, its index says where that is; else the
// headers of its blocks are read once at the opening. One goroutine at a time may use a File and its cursors.
type File struct {
	name    string
	from    io.ReaderAt
	size    int64
	header  Header
	sealed  bool
	indexBy indexBy
	entries []indexEntry
	indexes []indexEntry // of the blocks of the index, where the file was searched for blocks
	then    End          // what the end says
	places  []Place      // how far the streams came, as known from the index
	closer  io.Closer
}

// indexBy is where a File's index comes from, from the quickest to the surest.
type indexBy uint8

const (
	byEnd     indexBy = iota // the file's end
	byHeaders                // each block's header, and where it says the next begins
	bySearch                 // everything was read
)

// OpenFile opens a log file. Errors are those of NewReader and of the system. Close it.
func OpenFile(path string) (*File, error) {
	file, err := plainfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	st, err := file.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("open log %q: not a regular file: %w", path, ErrNotLog)
	}
	var f *File
	if err == nil {
		f, err = NewFile(file, st.Size(), path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	f.closer = file
	return f, nil
}

// NewFile is OpenFile for a log that lies in the first size bytes of from.
func NewFile(from io.ReaderAt, size int64, name string) (*File, error) {
	f, err := newFile(from, size, name)
	if err != nil {
		return nil, err
	}
	if f.readIndex() {
		f.sealed = true
		return f, nil
	}
	return f, f.scan()
}

// newFile reads the header, and knows of no block.
func newFile(from io.ReaderAt, size int64, name string) (*File, error) {
	f := &File{name: name, from: from, size: size}
	const usual = 4096 // as long as nearly all headers are
	head := newReader(io.NewSectionReader(from, 0, min(size, usual)), name)
	err := head.readHeader()
	if errors.Is(err, ErrHeader) && size > usual {
		head = newReader(io.NewSectionReader(from, 0, min(size, headerLimit)), name)
		err = head.readHeader()
	}
	if err != nil {
		return nil, err
	}
	f.header = head.header
	return f, nil
}

// Close closes the file that OpenFile opened.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Header is what the log says of itself.
func (f *File) Header() Header { return f.header }

// Then is what the file's end says of what comes after it.
func (f *File) Then() End { return f.then }

// Blocks is how many blocks of rows the file is known to have.
func (f *File) Blocks() int { return len(f.entries) }

// readIndex reads the index of a sealed file, and returns false where there is none that can be believed.
func (f *File) readIndex() bool {
	tail := make([]byte, min(f.size-f.header.headerLength, frameLimit))
	if _, err := f.from.ReadAt(tail, f.size-int64(len(tail))); err != nil && err != io.EOF {
		return false
	}
	e, at, ok := parseLastEnd(tail, f.header.Format)
	limit := uint64(f.size - int64(len(tail)) + int64(at)) // where the end begins
	if !ok || e.offset < uint64(f.header.headerLength) || e.offset > limit {
		return false
	}
	read := f.readIndexBack
	if f.header.version == 1 {
		read = f.readIndexOn
	}
	entries, ok := read(e, limit)
	if !ok {
		return false
	}
	t := tracker{}
	for _, entry := range entries {
		t.known(Kind(entry.Kind), int(entry.Shard), entry.First+entry.Count)
	}
	f.entries, f.places, f.then = entries, t.places(), e.then
	return true
}

// readIndexBack reads the index from its last block on: the first row of each is of the one before.
func (f *File) readIndexBack(e end, limit uint64) ([]indexEntry, bool) {
	if e.rows == 0 {
		return nil, e.offset == limit
	}
	var blocks [][]indexEntry
	for at, left := e.offset, e.rows; left > 0; {
		rows, to, ok := f.readIndexBlock(at, limit)
		if !ok || to != limit && len(blocks) == 0 || uint64(len(rows)) > left {
			return nil, false
		}
		left -= uint64(len(rows))
		before := rows[0]
		from := uint64(f.header.headerLength)
		if Kind(before.Kind) == index {
			if from = before.Offset + before.Length; !before.sane() || from > at {
				return nil, false
			}
			rows = rows[1:]
		}
		if (left > 0) != (Kind(before.Kind) == index) || !believable(rows, from, at) {
			return nil, false
		}
		blocks = append(blocks, rows)
		at, limit = before.Offset, from
	}
	slices.Reverse(blocks)
	return slices.Concat(blocks...), true
}

// readIndexOn reads the index of a file of version 1: all blocks of it, one behind the other.
func (f *File) readIndexOn(e end, limit uint64) (entries []indexEntry, ok bool) {
	from := uint64(f.header.headerLength)
	for at := e.offset; at < limit; {
		rows, to, ok := f.readIndexBlock(at, limit)
		if !ok || !believable(rows, from, e.offset) {
			return nil, false
		}
		last := rows[len(rows)-1]
		entries, at, from = append(entries, rows...), to, last.Offset+last.Length
	}
	return entries, uint64(len(entries)) == e.rows
}

// readIndexBlock reads a block of the index that ends before limit, and says where.
func (f *File) readIndexBlock(at, limit uint64) (rows []indexEntry, to uint64, ok bool) {
	if at >= limit {
		return nil, 0, false
	}
	head := make([]byte, min(limit-at, frameLimit))
	if _, err := f.from.ReadAt(head, int64(at)); err != nil {
		return nil, 0, false
	}
	frame := parseFrame(head, f.header.Format)
	to = at + uint64(frame.size) + uint64(frame.block.length)
	if !frame.isBlock || frame.block.kind != index || to > limit {
		return nil, 0, false
	}
	c := Cursor{file: f}
	h, payload, err := c.verify(entryOf(&frame.block, int64(at), int(to-at)))
	if err == nil {
		err = c.decoder.block(&c.block, &h, payload)
	}
	return c.block.index, to, err == nil
}

// believable tells whether entries are of blocks of rows that lie one behind the other between two
// offsets. So a file can make a reader take memory for no more of them than there is room for.
func believable(entries []indexEntry, from, to uint64) bool {
	for _, e := range entries {
		if !e.ofRows() || e.Offset < from || e.Offset+e.Length > to {
			return false
		}
		from = e.Offset + e.Length
	}
	return true
}

// scan makes the index of a file that has none. Headers alone are read as long as each leads to the next; from damage
// on, all.
func (f *File) scan() error {
	f.indexBy = byHeaders
	offset, last := f.header.headerLength, f.header.headerLength
	t := tracker{}
	buffer := make([]byte, blockHeaderSize)
	if f.header.Format == Text {
		buffer = make([]byte, blockLineLimit)
	}
	for offset < f.size {
		b := buffer[:min(int64(len(buffer)), f.size-offset)]
		if _, err := f.from.ReadAt(b, offset); err != nil && err != io.EOF {
			return fmt.Errorf("read log %q: offset %d: %w", f.name, offset, err)
		}
		at := parseFrame(b, f.header.Format)
		size := int64(at.size + at.block.length)
		if !at.isBlock || offset+size > f.size || at.block.incarnation != f.header.Incarnation {
			return f.search(last)
		}
		if h, entry := &at.block, entryOf(&at.block, offset, int(size)); h.kind == index {
			f.indexes = append(f.indexes, entry)
		} else {
			if fresh := t.accept(h.kind, h.shard, h.first, h.rows); fresh.From < fresh.To {
				f.entries = append(f.entries, entry)
			}
		}
		last = offset
		offset += size
	}
	f.places = t.places()
	return nil
}

// search makes the index from an offset on, where a block begins, by reading everything.
func (f *File) search(offset int64) error {
	f.indexBy = bySearch
	behind := func(e indexEntry) bool { return int64(e.Offset) >= offset }
	f.entries = slices.DeleteFunc(f.entries, behind)
	f.indexes = slices.DeleteFunc(f.indexes, behind)
	t := tracker{}
	for _, e := range f.entries {
		t.accept(Kind(e.Kind), int(e.Shard), e.First, int(e.Count))
	}
	r := newReader(io.NewSectionReader(f.from, offset, f.size-offset), f.name)
	r.header = f.header
	r.window.offset = offset
	r.tracker = t
	r.file = f
	for {
		_, err := r.Next()
		var damage *CorruptionError
		switch {
		case err == io.EOF:
			f.places = t.places()
			f.sealed, f.then = r.ended, r.then
			return nil
		case err != nil && !errors.As(err, &damage):
			return err
		}
	}
}

// lastEntries are those of the last block of each kind in each shard, in the order of the file.
func (f *File) lastEntries() []indexEntry {
	var last []indexEntry
	seen := map[stream]bool{}
	for _, e := range slices.Backward(f.entries) {
		if of := (stream{Kind(e.Kind), int(e.Shard)}); !seen[of] {
			seen[of] = true
			last = append(last, e)
		}
	}
	slices.Reverse(last)
	return last
}

// Between returns a cursor over the blocks that have, or whose kind cannot tell that it has not, rows with counters from lo to hi. Rows of
// these blocks that lie outside are not taken away.
func (f *File) Between(lo, hi uint64) *Cursor {
	return &Cursor{file: f, lo: lo, hi: hi, tracker: tracker{}}
}

// All returns a cursor over all blocks.
func (f *File) All() *Cursor { return f.Between(0, math.MaxUint64) }

// Of returns a cursor over the blocks of one kind.
func (f *File) Of(kind Kind) *Cursor {
	c := f.All()
	c.kind = kind
	return c
}

// Last returns a cursor over the last block of a kind in each shard.
func (f *File) Last(kind Kind) *Cursor {
	last := *f
	last.entries, last.indexBy = f.lastEntries(), bySearch // damage in one of them is no reason to search for more
	return last.Of(kind)
}

// CounterRange is the smallest and the largest counter of the file's rows; ok is false where it has none.
func (f *File) CounterRange() (lo, hi uint64, ok bool) {
	lo = math.MaxUint64
	for _, e := range f.entries {
		if e.Lo == 0 && e.Hi == math.MaxUint64 {
			continue
		}
		lo, hi, ok = min(lo, e.Lo), max(hi, e.Hi), true
	}
	return lo, hi, ok
}

// Cursor goes through a part of a File. One goroutine at a time may use it.
type Cursor struct {
	file    *File
	lo, hi  uint64
	kind    Kind // 0: all
	next    int
	buffer  []byte
	decoder decoder
	block   Block
	tracker tracker
}

// Next returns the next block, valid until the next call, a *CorruptionError that Next goes on behind, io.EOF at the end, or another
// error, which is final.
func (c *Cursor) Next() (*Block, error) {
	for c.next < len(c.file.entries) {
		e := c.file.entries[c.next]
		c.next++
		if e.Hi < c.lo || e.Lo > c.hi || c.kind != 0 && Kind(e.Kind) != c.kind {
			continue
		}
		block, err := c.read(e)
		// What the index says of this place is not so: bytes came or went, or a header lied. Only a search knows where the blocks are now.
		// Those that were returned are known by their sequences.
		from := int64(-1)
		switch {
		case c.file.indexBy == byEnd && errors.Is(err, ErrIndex):
			from = c.file.header.headerLength
		case c.file.indexBy != bySearch && err != nil:
			from = int64(e.Offset)
		}
		if from >= 0 {
			if err := c.file.search(from); err != nil {
				return nil, err
			}
			c.next = 0
			return nil, err
		}
		if block != nil || err != nil {
			return block, err
		}
	}
	return nil, io.EOF
}

// read reads the block that an entry speaks of. It returns neither a block nor an error where the rows were returned before.
func (c *Cursor) read(e indexEntry) (*Block, error) {
	h, payload, err := c.verify(e)
	if err != nil {
		return nil, err
	}
	if err := c.decoder.block(&c.block, &h, payload); err != nil {
		return nil, c.damage(e, fmt.Errorf("%w: %w", ErrPayload, err))
	}
	fresh := c.tracker.accept(h.kind, h.shard, h.first, h.rows)
	if fresh.From == fresh.To {
		return nil, nil
	}
	c.block.keep(fresh)
	return &c.block, nil
}

func (c *Cursor) damage(e indexEntry, why error) error {
	return &CorruptionError{File: c.file.name, Offset: int64(e.Offset), Length: int64(e.Length), Err: why}
}

// verify reads the block that an entry speaks of and holds its payload against its checksum.
func (c *Cursor) verify(e indexEntry) (h blockHeader, payload []byte, err error) {
	size := int(e.Length)
	if int64(e.Offset)+int64(size) > c.file.size {
		return h, nil, c.damage(e, ErrTorn)
	}
	// Lengths come from a file: the header is believed before memory is taken for the payload.
	c.buffer = slices.Grow(c.buffer[:0], frameLimit)
	head := c.buffer[:min(frameLimit, size)]
	whole, err := c.readAt(head, int64(e.Offset))
	if err != nil {
		return h, nil, err
	}
	if !whole {
		return h, nil, c.damage(e, ErrTorn)
	}
	f := parseFrame(head, c.file.header.Format)
	if !f.isBlock || entryOf(&f.block, int64(e.Offset), f.size+f.block.length) != e || f.block.incarnation != c.file.header.Incarnation {
		return h, nil, c.damage(e, ErrIndex)
	}
	c.buffer = slices.Grow(c.buffer[:len(head)], size-len(head))[:size]
	if whole, err = c.readAt(c.buffer[len(head):], int64(e.Offset)+int64(len(head))); err != nil {
		return h, nil, err
	}
	if !whole {
		return h, nil, c.damage(e, ErrTorn)
	}
	payload = c.buffer[f.size:]
	if checksum(payload) != f.block.checksum {
		return h, nil, c.damage(e, ErrChecksum)
	}
	return f.block, payload, nil
}

// readAt fills b. whole is false where the file has become shorter.
func (c *Cursor) readAt(b []byte, offset int64) (whole bool, err error) {
	n, err := c.file.from.ReadAt(b, offset)
	if n == len(b) || err == io.EOF {
		return n == len(b), nil
	}
	return false, fmt.Errorf("read log %q: offset %d: %w", c.file.name, offset, err)
}

// Continues lists how far the rows of each kind and shard have come at the end of the file. Rows of which a Drop says that they are not
// there count as come.
func (f *File) Continues() ([]Place, error) {
	t := tracker{}
	t.skipTo(f.header.Continues)
	t.skipTo(f.places)
	drops := f.Of(Drops)
	for {
		b, err := drops.Next()
		var damage *CorruptionError
		switch {
		case err == io.EOF:
			return t.places(), nil
		case b != nil:
			t.pass(b.Shard, b.Drops)
		case !errors.As(err, &damage):
			return nil, err
		}
	}
}
