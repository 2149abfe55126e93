package logstore

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// File reads chosen parts of a log file. In a sealed file, the index shows where the parts are. In
// a file that is not sealed, opening reads the headers of all blocks once. One goroutine at a time
// may use a File and its cursors.
type File struct {
	name    string
	from    io.ReaderAt
	size    int64
	header  Header
	sealed  bool
	indexBy indexBy
	entries []indexEntry
	indexes []indexEntry // the index blocks, unless the entries were read from the index
	then    End          // what the file's end says about what follows
	places  []Place      // where each kind in each shard ends, according to the entries
	closer  io.Closer
}

// indexBy says how a File's index was made. A higher value is slower, but more reliable.
type indexBy uint8

const (
	byEnd     indexBy = iota // read from the file's end
	byHeaders                // from the headers of the blocks: each leads to the next
	bySearch                 // by reading all bytes
)

// OpenFile opens a log file. It returns the errors of NewReader and of the system. The caller
// closes the file.
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

// NewFile does what OpenFile does, for a log in the first size bytes of from.
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

// newFile reads the header, but no blocks.
func newFile(from io.ReaderAt, size int64, name string) (*File, error) {
	f := &File{name: name, from: from, size: size}
	const usual = 4096 // in bytes; nearly all headers are shorter
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

// Header returns the header of the log file.
func (f *File) Header() Header { return f.header }

// Then returns what the last frame of the file says about what follows the file.
func (f *File) Then() End { return f.then }

// Blocks returns the number of blocks of rows in the index.
func (f *File) Blocks() int { return len(f.entries) }

// readIndex reads the index of a sealed file. If there is no believable index, it returns false.
func (f *File) readIndex() bool {
	tail := make([]byte, endSize)
	if _, err := f.from.ReadAt(tail, f.size-endSize); err != nil && err != io.EOF {
		return false
	}
	e, ok := parseEnd(tail)
	limit := uint64(f.size - endSize) // the offset at which the end begins
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
	t := streamTracker{}
	for _, entry := range entries {
		t.noteKnown(Kind(entry.Kind), int(entry.Shard), entry.First+entry.Count)
	}
	f.entries, f.places, f.then = entries, t.nextNumbers(), e.then
	return true
}

// readIndexBack reads the index backwards from its last block. The first row of each index block
// gives the place of the previous index block.
func (f *File) readIndexBack(e endFrame, limit uint64) ([]indexEntry, bool) {
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
		if (left > 0) != (Kind(before.Kind) == index) || !areBelievable(rows, from, at) {
			return nil, false
		}
		blocks = append(blocks, rows)
		at, limit = before.Offset, from
	}
	slices.Reverse(blocks)
	return slices.Concat(blocks...), true
}

// readIndexOn reads the index of a file of version 1, in which the index blocks follow each other.
func (f *File) readIndexOn(e endFrame, limit uint64) (entries []indexEntry, ok bool) {
	from := uint64(f.header.headerLength)
	for at := e.offset; at < limit; {
		rows, to, ok := f.readIndexBlock(at, limit)
		if !ok || !areBelievable(rows, from, e.offset) {
			return nil, false
		}
		last := rows[len(rows)-1]
		entries, at, from = append(entries, rows...), to, last.Offset+last.Length
	}
	return entries, uint64(len(entries)) == e.rows
}

// readIndexBlock reads a block of the index, and returns the offset at which the block ends. The
// block must end at or before limit.
func (f *File) readIndexBlock(at, limit uint64) (rows []indexEntry, to uint64, ok bool) {
	if at >= limit {
		return nil, 0, false
	}
	head := make([]byte, min(limit-at, frameLimit))
	if _, err := f.from.ReadAt(head, int64(at)); err != nil {
		return nil, 0, false
	}
	h, ok := parseBlockHeader(head)
	to = at + uint64(h.size())
	if !ok || h.kind != index || to > limit {
		return nil, 0, false
	}
	c := Cursor{file: f}
	h, payload, err := c.verify(entryOf(&h, int64(at)))
	if err == nil {
		err = c.decoder.block(&c.block, &h, payload)
	}
	return c.block.index, to, err == nil
}

// areBelievable reports whether the entries describe blocks of rows that follow each other between
// two offsets. So a false index cannot make a reader take memory for more blocks than fit into the
// file.
func areBelievable(entries []indexEntry, from, to uint64) bool {
	for _, e := range entries {
		if !e.ofRows() || e.Offset < from || e.Offset+e.Length > to {
			return false
		}
		from = e.Offset + e.Length
	}
	return true
}

// scan makes the index of a file that has none. While each block header leads to the next, the
// method scan reads only headers. After the first damage it reads everything.
func (f *File) scan() error {
	f.indexBy = byHeaders
	offset, last := f.header.headerLength, f.header.headerLength
	t := streamTracker{}
	buffer := make([]byte, blockHeaderSize)
	for offset < f.size {
		b := buffer[:min(int64(len(buffer)), f.size-offset)]
		if _, err := f.from.ReadAt(b, offset); err != nil && err != io.EOF {
			return fmt.Errorf("read log %q: offset %d: %w", f.name, offset, err)
		}
		h, ok := parseBlockHeader(b)
		next := offset + int64(h.size())
		if !ok || next > f.size || h.incarnation != f.header.Incarnation {
			return f.search(last)
		}
		if entry := entryOf(&h, offset); h.kind == index {
			f.indexes = append(f.indexes, entry)
		} else if fresh := t.noteBlock(h.kind, h.shard, h.first, h.rows); fresh.From < fresh.To {
			f.entries = append(f.entries, entry)
		}
		last, offset = offset, next
	}
	f.places = t.nextNumbers()
	return nil
}

// search makes the index of all blocks from an offset on, by reading everything. A block must begin
// at the offset.
func (f *File) search(offset int64) error {
	f.indexBy = bySearch
	behind := func(e indexEntry) bool { return int64(e.Offset) >= offset }
	f.entries = slices.DeleteFunc(f.entries, behind)
	f.indexes = slices.DeleteFunc(f.indexes, behind)
	t := streamTracker{}
	for _, e := range f.entries {
		t.noteBlock(Kind(e.Kind), int(e.Shard), e.First, int(e.Count))
	}
	r := newReader(io.NewSectionReader(f.from, offset, f.size-offset), f.name)
	r.header = f.header
	r.window.offset = offset
	r.tracker = t
	r.file = f
	if err := EachBlock(r.Next, nil); err != nil {
		return err
	}
	f.places = t.nextNumbers()
	f.sealed, f.then = r.ended, r.then
	return nil
}

// lastEntries returns the entries of the last block of each kind in each shard, in the order of the
// file.
func (f *File) lastEntries() []indexEntry {
	var last []indexEntry
	seen := map[rowStream]bool{}
	for _, e := range slices.Backward(f.entries) {
		if of := (rowStream{Kind(e.Kind), int(e.Shard)}); !seen[of] {
			seen[of] = true
			last = append(last, e)
		}
	}
	slices.Reverse(last)
	return last
}

// Between returns a cursor over the blocks that have rows with counters from lo to hi, and over all
// blocks of kinds without counters. The blocks may also contain rows outside the range.
func (f *File) Between(lo, hi uint64) *Cursor {
	return &Cursor{file: f, lo: lo, hi: hi, tracker: streamTracker{}}
}

// All returns a cursor over all blocks.
func (f *File) All() *Cursor { return f.Between(0, math.MaxUint64) }

// Of returns a cursor over the blocks of one kind.
func (f *File) Of(kind Kind) *Cursor {
	c := f.All()
	c.kind = kind
	return c
}

// In returns a cursor over the blocks of a kind in one shard.
func (f *File) In(kind Kind, shard int) *Cursor {
	c := f.Of(kind)
	c.inShard, c.shard = true, uint64(shard)
	return c
}

// Last returns a cursor over the last block of a kind in each shard.
func (f *File) Last(kind Kind) *Cursor {
	last := *f
	// If one of these blocks is damaged, the cursor must not start a search, which would find all
	// blocks.
	last.entries, last.indexBy = f.lastEntries(), bySearch
	return last.Of(kind)
}

// CounterRange returns the smallest and the largest counter reading in the file's rows. If the rows
// contain no readings, ok is false.
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

// Cursor iterates over blocks of a File. One goroutine at a time may use it.
type Cursor struct {
	file    *File
	lo, hi  uint64
	kind    Kind // 0: all kinds
	inShard bool // only blocks of this shard
	shard   uint64
	next    int
	buffer  []byte
	decoder decoder
	block   Block
	tracker streamTracker
}

// Next returns the next block, which is valid until the next call. A *CorruptionError reports
// damage, and the next call continues after the damage. At the end Next returns io.EOF. Any other
// error is final.
func (c *Cursor) Next() (*Block, error) {
	for c.next < len(c.file.entries) {
		e := c.file.entries[c.next]
		c.next++
		if e.Hi < c.lo || e.Lo > c.hi || c.kind != 0 && Kind(e.Kind) != c.kind ||
			c.inShard && e.Shard != c.shard {
			continue
		}
		block, err := c.read(e)
		// The index may be wrong here, because bytes were inserted or removed, or because a header
		// was false. In this case only a search can find where the blocks are now. After the
		// search, the loop begins again; sequence numbers show which rows were returned already.
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

// read reads the block that an entry describes. If all rows of the block were returned before, the
// method read returns neither a block nor an error.
func (c *Cursor) read(e indexEntry) (*Block, error) {
	h, payload, err := c.verify(e)
	if err != nil {
		return nil, err
	}
	if err := c.decoder.block(&c.block, &h, payload); err != nil {
		return nil, c.damage(e, fmt.Errorf("%w: %w", ErrPayload, err))
	}
	fresh := c.tracker.noteBlock(h.kind, h.shard, h.first, h.rows)
	if fresh.From == fresh.To {
		return nil, nil
	}
	c.block.keep(fresh)
	return &c.block, nil
}

func (c *Cursor) damage(e indexEntry, why error) error {
	return &CorruptionError{
		File: c.file.name, Offset: int64(e.Offset), Length: int64(e.Length), Err: why,
	}
}

// verify reads the block that an entry describes, and checks its payload against its checksum.
func (c *Cursor) verify(e indexEntry) (h blockHeader, payload []byte, err error) {
	size := int(e.Length)
	if int64(e.Offset)+int64(size) > c.file.size {
		return h, nil, c.damage(e, ErrTorn)
	}
	// The length is from a file, so verify the header before taking memory for the payload.
	c.buffer = slices.Grow(c.buffer[:0], frameLimit)
	head := c.buffer[:min(frameLimit, size)]
	whole, err := c.readAt(head, int64(e.Offset))
	if err != nil {
		return h, nil, err
	}
	if !whole {
		return h, nil, c.damage(e, ErrTorn)
	}
	h, ok := parseBlockHeader(head)
	if !ok || entryOf(&h, int64(e.Offset)) != e || h.incarnation != c.file.header.Incarnation {
		return h, nil, c.damage(e, ErrIndex)
	}
	c.buffer = slices.Grow(c.buffer[:len(head)], size-len(head))[:size]
	if whole, err = c.readAt(c.buffer[len(head):], int64(e.Offset)+int64(len(head))); err != nil {
		return h, nil, err
	}
	if !whole {
		return h, nil, c.damage(e, ErrTorn)
	}
	payload = c.buffer[blockHeaderSize:]
	if checksum(payload) != h.checksum {
		return h, nil, c.damage(e, ErrChecksum)
	}
	return h, payload, nil
}

// readAt fills b. If the file has become shorter, whole is false.
func (c *Cursor) readAt(b []byte, offset int64) (whole bool, err error) {
	n, err := c.file.from.ReadAt(b, offset)
	if n == len(b) || err == io.EOF {
		return n == len(b), nil
	}
	return false, fmt.Errorf("read log %q: offset %d: %w", c.file.name, offset, err)
}

// Continues lists, for each kind and shard, the sequence number that follows the file's last row.
// Here, a row that a Drop declares missing counts as a row of the file, too.
func (f *File) Continues() ([]Place, error) {
	t := streamTracker{}
	t.skipTo(f.header.Continues)
	t.skipTo(f.places)
	err := EachBlock(f.Of(Drops).Next, func(b *Block) error {
		t.pass(b.Shard, b.Drops)
		return nil
	})
	return t.nextNumbers(), err
}
