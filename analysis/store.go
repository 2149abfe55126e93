package analysis

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"
)

// ErrScratch is returned if a run does not fit into memory and needs more scratch space than the
// limit.
var ErrScratch = errors.New("scratch space is used up")

// A page is 2^pageBits consecutive ids. All ids of a page are in one partition. So the memory
// accesses for consecutive ids are close to each other.
const pageBits = 12

// mixBits spreads the bits of a page's number (the finaliser of MurmurHash3).
func mixBits(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// scratch is an unnamed file for the rows that do not fit into memory. It also has the budget for
// the file and the budget for memory. Any number of goroutines may use it.
type scratch struct {
	directory string
	most      int64 // largest size of the file

	memory atomic.Int64 // bytes that may still be kept in memory
	used   atomic.Int64 // bytes of the file

	open sync.Once
	file *os.File
	err  error
}

func newScratch(directory string, memory, most int64) *scratch {
	s := &scratch{directory: directory, most: most}
	s.memory.Store(memory)
	return s
}

// reserve takes bytes from the memory budget. It returns false if fewer are left.
func (s *scratch) reserve(bytes int64) bool {
	if s.memory.Add(-bytes) >= 0 {
		return true
	}
	s.memory.Add(bytes)
	return false
}

func (s *scratch) give(bytes int64) { s.memory.Add(bytes) }

// write appends to the file and returns the offset.
func (s *scratch) write(b []byte) (int64, error) {
	s.open.Do(func() {
		if s.file, s.err = os.CreateTemp(s.directory, "cprof-analyze-"); s.err == nil {
			s.err = os.Remove(s.file.Name()) // the file exists as long as it is open
		}
	})
	if s.err != nil {
		return 0, fmt.Errorf("open scratch file in %q: %w", s.directory, s.err)
	}
	end := s.used.Add(int64(len(b)))
	if end > s.most {
		return 0, fmt.Errorf(
			"write to scratch file in %q: more than %d bytes: allow more, or look at less: %w",
			s.directory, s.most, ErrScratch)
	}
	if _, err := s.file.WriteAt(b, end-int64(len(b))); err != nil {
		return 0, fmt.Errorf("write to scratch file: %w", err)
	}
	return end - int64(len(b)), nil
}

func (s *scratch) read(b []byte, at int64) error {
	if _, err := s.file.ReadAt(b, at); err != nil {
		return fmt.Errorf("read from scratch file: %w", err)
	}
	return nil
}

func (s *scratch) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// store keeps rows by partition, in memory or in the scratch file. Rows must not contain pointers,
// because the file has the same bytes as the memory. Appenders fill the store, one for each
// goroutine. After that, partitions are loaded.
type store[T any] struct {
	scratch   *scratch
	bits      uint // 2^bits partitions
	chunkRows int

	mu     sync.Mutex
	chunks [][]chunk[T] // protected by mu while appenders are at work
}

// chunk is some rows of one partition.
type chunk[T any] struct {
	rows       []T   // nil: they are in the file
	n          int   // number of rows
	fileOffset int64 // offset in the file
	sources    []stint
}

// stint says from which source some rows of a chunk are. These rows begin at the index from, and
// end where the next stint begins.
type stint struct {
	from   int32
	source int32
}

func newStore[T any](s *scratch, bits uint, chunkRows int) *store[T] {
	return &store[T]{
		scratch: s, bits: bits, chunkRows: chunkRows, chunks: make([][]chunk[T], 1<<bits),
	}
}

func (s *store[T]) partitions() int { return len(s.chunks) }

// partition is the partition of an id.
func (s *store[T]) partition(id uint64) int { return int(mixBits(id>>pageBits) >> (64 - s.bits)) }

func rowBytes[T any]() int64 {
	var row T
	return int64(unsafe.Sizeof(row))
}

// bytesOf returns the memory of rows as bytes. The order of bytes in a number does not matter,
// because only this process reads the file.
func bytesOf[T any](rows []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(rows))),
		len(rows)*int(rowBytes[T]()))
}

// eachStretch calls the function tell for every stretch of a partition's rows that comes from one
// source. Rows in memory are not copied. Rows in the file are read into a buffer, which may grow
// and is returned.
func (s *store[T]) eachStretch(partition int, buffer []T, tell func(rows []T, source int32)) ([]T,
	error) {
	inFile := 0
	for _, c := range s.chunks[partition] {
		if c.rows == nil {
			inFile += c.n
		}
	}
	buffer = extend(buffer[:0], inFile)
	read := buffer
	for i := range s.chunks[partition] {
		c := &s.chunks[partition][i]
		rows := c.rows
		if rows == nil {
			rows, read = read[:c.n], read[c.n:]
			if err := s.scratch.read(bytesOf(rows), c.fileOffset); err != nil {
				return buffer, err
			}
		}
		for k, st := range c.sources {
			to := c.n
			if k+1 < len(c.sources) {
				to = int(c.sources[k+1].from)
			}
			tell(rows[st.from:to], st.source)
		}
	}
	return buffer, nil
}

// peek appends a partition's rows to a slice. The partition still has them afterwards.
func (s *store[T]) peek(partition int, rows []T) ([]T, error) {
	for i := range s.chunks[partition] {
		c := &s.chunks[partition][i]
		if c.rows != nil {
			rows = append(rows, c.rows...)
			continue
		}
		from := len(rows)
		rows = extend(rows, c.n)
		if err := s.scratch.read(bytesOf(rows[from:]), c.fileOffset); err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// load appends a partition's rows to a slice, and empties the partition.
func (s *store[T]) load(partition int, rows []T) ([]T, error) {
	rows, err := s.peek(partition, rows)
	s.drop(partition)
	return rows, err
}

// drop empties a partition and returns its memory to the budget. Callers may still use rows that
// they got from the partition, but the budget no longer includes these rows.
func (s *store[T]) drop(partition int) {
	for _, c := range s.chunks[partition] {
		s.scratch.give(int64(cap(c.rows)) * rowBytes[T]())
	}
	s.chunks[partition] = nil
}

// extend makes a slice longer by n elements.
func extend[T any](s []T, n int) []T {
	if cap(s)-len(s) < n {
		bigger := make([]T, len(s), len(s)+max(n, len(s)/4))
		copy(bigger, s)
		s = bigger
	}
	return s[:len(s)+n]
}

// appender adds rows to a store. Only one goroutine may use it. Call flush at the end.
type appender[T any] struct {
	store *store[T]
	open  []openChunk[T]
	err   error // the first error; after it rows are dropped
}

type openChunk[T any] struct {
	rows    []T
	source  int32
	sources []stint
}

func (s *store[T]) appender() *appender[T] {
	a := &appender[T]{store: s, open: make([]openChunk[T], s.partitions())}
	for i := range a.open {
		a.open[i].source = -1
	}
	return a
}

// add adds a row of an id.
func (a *appender[T]) add(id uint64, source int32, row T) {
	p := a.store.partition(id)
	c := &a.open[p]
	if len(c.rows) == cap(c.rows) || c.source != source {
		a.prepareChunk(p, source)
	}
	c.rows = append(c.rows, row)
}

// addAll adds rows. The ids of all of them must be on the same page, so that they belong to the
// same partition.
func (a *appender[T]) addAll(page uint64, source int32, rows []T) {
	p := a.store.partition(page << pageBits)
	c := &a.open[p]
	for len(rows) > 0 {
		if len(c.rows) == cap(c.rows) || c.source != source {
			// no room: writing has failed
			if a.prepareChunk(p, source); len(c.rows) == cap(c.rows) {
				return
			}
		}
		n := min(len(rows), cap(c.rows)-len(c.rows))
		c.rows = append(c.rows, rows[:n]...)
		rows = rows[n:]
	}
}

// prepareChunk prepares a partition's open chunk for rows of a source.
func (a *appender[T]) prepareChunk(p int, source int32) {
	c := &a.open[p]
	if len(c.rows) == cap(c.rows) {
		a.putChunk(p)
	}
	if c.source != source {
		c.sources = append(c.sources, stint{int32(len(c.rows)), source})
		c.source = source
	}
}

// putChunk moves a partition's open chunk to the store.
func (a *appender[T]) putChunk(p int) {
	c := &a.open[p]
	bytes := int64(cap(c.rows)) * rowBytes[T]()
	if len(c.rows) > 0 && a.err == nil {
		full := chunk[T]{n: len(c.rows), sources: c.sources}
		if a.store.scratch.reserve(bytes) {
			full.rows = c.rows
			c.rows = nil
		} else if full.fileOffset, a.err = a.store.scratch.write(bytesOf(c.rows)); a.err != nil {
			return
		}
		a.store.mu.Lock()
		a.store.chunks[p] = append(a.store.chunks[p], full)
		a.store.mu.Unlock()
		c.sources = nil
	}
	if c.rows == nil {
		c.rows = make([]T, 0, a.store.chunkRows)
	}
	c.rows = c.rows[:0]
	c.sources, c.source = c.sources[:0], -1
}

// flush moves all open chunks to the store. The appender is then empty and uses no memory.
func (a *appender[T]) flush() error {
	for p := range a.open {
		if c := &a.open[p]; len(c.rows) > 0 {
			c.rows = append(make([]T, 0, len(c.rows)), c.rows...)
			a.putChunk(p)
		}
		a.open[p] = openChunk[T]{source: -1}
	}
	return a.err
}
