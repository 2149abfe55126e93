package messages

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
)

// A Store holds the calls of sockets while logs are read. If there are too many calls for the
// memory, it moves them to a temporary file, and each socket's calls are read back from there. One
// goroutine at a time may use a Store.
type Store struct {
	most    int // calls in memory
	held    int
	sockets []*socket // they have calls in memory
	file    *os.File  // nil: all calls are in memory
	at      int64     // where the file ends
	threads []*Thread // by their number in the file
	numbers map[*Thread]uint32
	err     error // the first one of reading back
}

// mostHeld is the number of calls that a Store holds in memory if nobody chooses another.
const mostHeld = 1 << 17

// NewStore returns an empty store, which holds at most the given number of calls in memory. The
// number 0 means 131072. Close must be called in the end.
func NewStore(most int) *Store {
	if most == 0 {
		most = mostHeld
	}
	return &Store{most: most, numbers: map[*Thread]uint32{}}
}

// Close removes the temporary file.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// TemporaryFile makes a file that has no name, so that it is gone when it is closed.
func TemporaryFile() (*os.File, error) {
	f, err := os.CreateTemp("", "cloudprofiler-*")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// moved says where the calls of a socket are in the file of a store.
type moved struct {
	store           *Store
	sends, receives movedCalls
	first, last     uint64 // stamps
}

type movedCalls struct {
	chunks []chunk
	number int
	bytes  uint64
}

// A chunk has calls of a socket in the order of their keys (see socket.key).
type chunk struct {
	at     int64
	number int
	first  uint64 // key
}

// keep counts one more call of a socket. If too many calls are in memory, it moves all calls to the
// file.
func (s *Store) keep(of *socket) error {
	if len(of.sends)+len(of.receives) == 1 {
		s.sockets = append(s.sockets, of)
	}
	if s.held++; s.held < s.most {
		return nil
	}
	return s.move()
}

// finish moves the calls that are still in memory to the file. If no call was moved before, it
// leaves all of them in memory.
func (s *Store) finish() error {
	if s.file == nil {
		return nil
	}
	return s.move()
}

func (s *Store) move() (err error) {
	if s.file == nil {
		if s.file, err = TemporaryFile(); err != nil {
			return fmt.Errorf("move captured calls out of memory: %w", err)
		}
	}
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, s.at), 1<<18)
	for _, of := range s.sockets {
		if of.moved == nil {
			of.moved = &moved{store: s, first: ^uint64(0)}
		}
		m := of.moved
		first, last := of.usedStamps()
		m.first, m.last = min(m.first, first), max(m.last, last)
		s.write(w, &m.sends, of, of.sends)
		s.write(w, &m.receives, of, of.receives)
		of.sends, of.receives = nil, nil
	}
	s.sockets, s.held = s.sockets[:0], 0
	if err := w.Flush(); err != nil {
		return fmt.Errorf("move captured calls to a temporary file: %w", err)
	}
	return nil
}

// These are flags of a call in the file.
const (
	flagEarly = 1 << iota
	flagSure
	flagPlaced
)

const endSize = 5*8 + 3*4 + 2 // bytes of a call in the file

func (s *Store) write(w *bufio.Writer, to *movedCalls, of *socket, all []end) {
	if len(all) == 0 {
		return
	}
	of.sortEnds(all)
	to.chunks = append(to.chunks, chunk{s.at, len(all), of.key(&all[0])})
	to.number += len(all)
	s.at += int64(len(all) * endSize)
	for i := range all {
		e := &all[i]
		to.bytes += uint64(e.bytes)
		n, known := s.numbers[e.by]
		if !known {
			n = uint32(len(s.threads))
			s.numbers[e.by], s.threads = n, append(s.threads, e.by)
		}
		flags := byte(0)
		for bit, is := range [...]bool{e.early, e.sure, e.placed} {
			if is {
				flags |= 1 << bit
			}
		}
		b := w.AvailableBuffer()
		for _, v := range [...]uint64{e.began, e.ended, e.position, e.from, e.woken} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		b = binary.LittleEndian.AppendUint32(b, n)
		b = binary.LittleEndian.AppendUint32(b, e.bytes)
		b = binary.LittleEndian.AppendUint32(b, e.waker)
		w.Write(append(b, e.class, flags)) // Flush returns the error
	}
}

// decode reads a call back. The arrivals of messages are not in the file.
func (s *Store) decode(b []byte) end {
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	half := func(i int) uint32 { return binary.LittleEndian.Uint32(b[5*8+4*i:]) }
	flags := b[endSize-1]
	return end{began: word(0), ended: word(1), position: word(2), from: word(3),
		woken: word(4), by: s.threads[half(0)], bytes: half(1), waker: half(2),
		class: b[endSize-2],
		early: flags&flagEarly != 0, sure: flags&flagSure != 0, placed: flags&flagPlaced != 0}
}

// key is what calls of a socket are sorted by: where they end in the stream or, if the log does not
// have their places, when they began.
func (s *socket) key(e *end) uint64 {
	if s.isTCP() {
		return e.after()
	}
	return e.began
}

func (s *socket) sortEnds(all []end) {
	slices.SortStableFunc(all, func(a, b end) int { return cmp.Compare(s.key(&a), s.key(&b)) })
}

// An endReader reads the calls of a socket in the order of their keys. A chunk of the file is
// opened when its first call may be the next one.
type endReader struct {
	of     *socket
	chunks []*chunkReader // not open yet, in the order of their first calls
	open   []*chunkReader // in the order in which the calls were logged
	last   end            // that was read
}

// A chunkReader reads the calls of a chunk, or calls that are in memory.
type chunkReader struct {
	chunk
	place int // among the socket's chunks
	r     *bufio.Reader
	held  []end
	next  end
}

// readEnds returns a reader of the calls that a socket sent or received.
func (s *socket) readEnds(receives bool) *endReader {
	r, held := &endReader{of: s}, s.sends
	if receives {
		held = s.receives
	}
	if s.moved != nil {
		from := &s.moved.sends
		if receives {
			from = &s.moved.receives
		}
		for i, c := range from.chunks {
			r.chunks = append(r.chunks, &chunkReader{chunk: c, place: i})
		}
		slices.SortStableFunc(r.chunks, func(a, b *chunkReader) int {
			return cmp.Compare(a.first, b.first)
		})
	}
	if len(held) > 0 {
		s.sortEnds(held)
		c := &chunkReader{place: len(r.chunks), held: held}
		c.number = len(held)
		r.start(c)
	}
	return r
}

// next returns the next call, or nil. The result is valid until the next call of the method.
func (r *endReader) next() *end {
	for {
		var first *chunkReader
		for _, c := range r.open {
			if first == nil || r.of.key(&c.next) < r.of.key(&first.next) {
				first = c
			}
		}
		if len(r.chunks) > 0 && (first == nil || r.chunks[0].first <= r.of.key(&first.next)) {
			c := r.chunks[0]
			r.chunks[0], r.chunks = nil, r.chunks[1:]
			const most = 1 << 14
			c.r = bufio.NewReaderSize(io.NewSectionReader(r.of.moved.store.file, c.at,
				int64(c.number*endSize)), min(c.number*endSize, most))
			r.start(c)
			continue
		}
		if first == nil {
			return nil
		}
		r.last = first.next
		if !r.advance(first) {
			r.open = slices.DeleteFunc(r.open, func(c *chunkReader) bool { return c == first })
		}
		return &r.last
	}
}

// start opens a chunk.
func (r *endReader) start(c *chunkReader) {
	if !r.advance(c) {
		return
	}
	at, _ := slices.BinarySearchFunc(r.open, c.place, func(o *chunkReader, place int) int {
		return cmp.Compare(o.place, place)
	})
	r.open = slices.Insert(r.open, at, c)
}

// advance goes to the next call of a chunk. It returns false if there is none.
func (r *endReader) advance(c *chunkReader) bool {
	if c.number == 0 {
		return false
	}
	c.number--
	if c.r == nil {
		c.next, c.held = c.held[0], c.held[1:]
		return true
	}
	s := r.of.moved.store
	b, err := c.r.Peek(endSize)
	if err != nil {
		s.err = cmp.Or(s.err, fmt.Errorf("read captured calls from a temporary file: %w", err))
		return false
	}
	c.next = s.decode(b)
	c.r.Discard(endSize) // Peek has returned the errors
	return true
}

// join adds the calls that another log has of the same socket.
func (s *socket) join(other *socket) {
	s.sends = append(s.sends, other.sends...)
	s.receives = append(s.receives, other.receives...)
	if o := other.moved; o != nil {
		if s.moved == nil {
			s.moved = &moved{store: o.store, first: ^uint64(0)}
		}
		m := s.moved
		m.first, m.last = min(m.first, o.first), max(m.last, o.last)
		m.sends.join(&o.sends)
		m.receives.join(&o.receives)
	}
}

func (c *movedCalls) join(other *movedCalls) {
	c.chunks = append(c.chunks, other.chunks...)
	c.number += other.number
	c.bytes += other.bytes
}

// counts returns how many calls the socket has.
func (s *socket) counts() (sends, receives int) {
	sends, receives = len(s.sends), len(s.receives)
	if s.moved != nil {
		sends, receives = sends+s.moved.sends.number, receives+s.moved.receives.number
	}
	return sends, receives
}

// sizes returns how many bytes the socket sent and received.
func (s *socket) sizes() (sent, received uint64) {
	sent, received = bytesOf(s.sends), bytesOf(s.receives)
	if s.moved != nil {
		sent, received = sent+s.moved.sends.bytes, received+s.moved.receives.bytes
	}
	return sent, received
}
