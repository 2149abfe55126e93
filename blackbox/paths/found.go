package paths

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// foundCalls sorts the calls of a run by when they began. If there are too many calls for the
// memory, it sorts a part at a time, and writes each part to a temporary file. Then it reads all
// parts at once.
type foundCalls struct {
	most   int // calls in memory
	number int // of all calls
	held   []foundItem
	file   *os.File // nil: all calls are in memory
	parts  []filePart

	// These are what the calls in the file refer to.
	ends    []callEnd
	threads []*messages.Thread
	end     map[*blackbox.Connection]uint32
	thread  map[*messages.Thread]uint32
}

// mostFound is the number of calls that foundCalls holds in memory if nobody chooses another.
const mostFound = 1 << 15

type foundItem struct {
	began_ns int64
	order    uint64 // among calls that began at the same time
	foundCall
}

// filePart is a part of a file: its begin and its end.
type filePart struct{ from, to int64 }

type callEnd struct {
	log *messages.Log
	of  *blackbox.Connection
}

func newFoundCalls(most int) *foundCalls {
	return &foundCalls{most: cmp.Or(most, mostFound), end: map[*blackbox.Connection]uint32{},
		thread: map[*messages.Thread]uint32{}}
}

func (f *foundCalls) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// add adds a call. If its match was refuted, it comes after other calls that began at the same
// time.
func (f *foundCalls) add(began_ns int64, c *foundCall, isRefuted bool) error {
	const behind = 1 << 40
	order := uint64(f.number)
	if isRefuted {
		order += behind
	}
	f.held = append(f.held, foundItem{began_ns, order, *c})
	if f.number++; len(f.held) < f.most {
		return nil
	}
	return f.move()
}

func (f *foundCalls) sortHeld() {
	slices.SortFunc(f.held, func(a, b foundItem) int { return a.compare(&b) })
}

func (i *foundItem) compare(other *foundItem) int {
	return cmp.Or(cmp.Compare(i.began_ns, other.began_ns), cmp.Compare(i.order, other.order))
}

// move moves the calls in memory to the file.
func (f *foundCalls) move() (err error) {
	if f.file == nil {
		if f.file, err = messages.TemporaryFile(); err != nil {
			return fmt.Errorf("move calls out of memory: %w", err)
		}
	}
	f.sortHeld()
	at := int64(0)
	if n := len(f.parts); n > 0 {
		at = f.parts[n-1].to
	}
	part := filePart{at, at}
	w := bufio.NewWriterSize(io.NewOffsetWriter(f.file, at), 1<<18)
	var b []byte
	for i := range f.held {
		b = f.encode(b[:0], &f.held[i])
		part.to += int64(len(b))
		w.Write(b) // Flush returns the error
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("move calls to a temporary file: %w", err)
	}
	f.parts, f.held = append(f.parts, part), f.held[:0]
	clear(f.held[:cap(f.held)])
	return nil
}

// list returns pointers to the moments of a call.
func (m *moments) list() [5]**messages.Call {
	return [5]**messages.Call{&m.sent, &m.received, &m.heard, &m.replied, &m.got}
}

const (
	headSize   = 8 + 8 + 3*4 + 2 // bytes of a call in the file, without its moments
	momentSize = 4*4 + 4*8 + 1
)

// encode appends a call in the form of the file.
func (f *foundCalls) encode(b []byte, i *foundItem) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, uint64(i.began_ns))
	b = le.AppendUint64(b, i.order)
	b = le.AppendUint32(b, uint32(i.caller))
	b = le.AppendUint32(b, uint32(i.callee))
	b = le.AppendUint32(b, i.connection)
	present := byte(0)
	for k, m := range i.moments.list() {
		if *m != nil {
			present |= 1 << k
		}
	}
	b = append(b, present, bit(i.answers)|bit(i.oneWay)<<1)
	for _, m := range i.moments.list() {
		c := *m
		if c == nil {
			continue
		}
		end, known := f.end[c.Connection]
		if !known {
			end = uint32(len(f.ends))
			f.end[c.Connection], f.ends = end, append(f.ends, callEnd{c.Log, c.Connection})
		}
		thread, known := f.thread[c.By]
		if !known {
			thread = uint32(len(f.threads))
			f.thread[c.By], f.threads = thread, append(f.threads, c.By)
		}
		b = le.AppendUint32(b, end)
		b = le.AppendUint32(b, thread)
		b = le.AppendUint64(b, c.Position)
		b = le.AppendUint64(b, c.Lo_cycles)
		b = le.AppendUint64(b, c.Hi_cycles)
		b = le.AppendUint64(b, c.Woken_cycles)
		b = le.AppendUint32(b, c.Bytes)
		b = le.AppendUint32(b, c.Waker)
		b = append(b, bit(c.Early)|bit(c.Exact)<<1)
	}
	return b
}

func bit(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// partReader reads the calls of a part of the file.
type partReader struct {
	*foundCalls
	r    *bufio.Reader
	next foundItem
	done bool
}

func (p *partReader) read() error {
	var head [headSize]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		p.done = true
		if err == io.EOF {
			return nil
		}
		return fmt.Errorf("read calls from a temporary file: %w", err)
	}
	le, present := binary.LittleEndian, head[headSize-2]
	i := foundItem{began_ns: int64(le.Uint64(head[:])), order: le.Uint64(head[8:])}
	i.caller, i.callee = int32(le.Uint32(head[16:])), int32(le.Uint32(head[20:]))
	i.connection = le.Uint32(head[24:])
	i.answers, i.oneWay = head[headSize-1]&1 != 0, head[headSize-1]&2 != 0
	made := make([]messages.Call, bits.OnesCount8(present))
	for k, m := range i.moments.list() {
		if present&(1<<k) == 0 {
			continue
		}
		var b [momentSize]byte
		if _, err := io.ReadFull(p.r, b[:]); err != nil {
			return fmt.Errorf("read calls from a temporary file: %w", err)
		}
		end := p.ends[le.Uint32(b[:])]
		made[0] = messages.Call{Log: end.log, By: p.threads[le.Uint32(b[4:])],
			Cookie: end.of.Cookie, Connection: end.of, Position: le.Uint64(b[8:]),
			Lo_cycles: le.Uint64(b[16:]), Hi_cycles: le.Uint64(b[24:]),
			Woken_cycles: le.Uint64(b[32:]), Bytes: le.Uint32(b[40:]), Waker: le.Uint32(b[44:]),
			Early: b[48]&1 != 0, Exact: b[48]&2 != 0}
		*m, made = &made[0], made[1:]
	}
	p.next = i
	return nil
}

// The method each passes all calls to the function do, in the order in which they began.
func (f *foundCalls) each(do func(*foundCall) error) error {
	if f.file == nil {
		f.sortHeld()
		for i := range f.held {
			if err := do(&f.held[i].foundCall); err != nil {
				return err
			}
		}
		return nil
	}
	if len(f.held) > 0 {
		if err := f.move(); err != nil {
			return err
		}
	}
	// Together, the buffers take at most 4 MB, unless there are more than 1024 parts.
	buffer := min(1<<16, max(1<<12, 1<<22/len(f.parts)))
	var all []*partReader
	for _, part := range f.parts {
		p := &partReader{foundCalls: f, r: bufio.NewReaderSize(
			io.NewSectionReader(f.file, part.from, part.to-part.from), buffer)}
		if err := p.read(); err != nil {
			return err
		}
		all = append(all, p)
	}
	for {
		var first *partReader
		for _, p := range all {
			if !p.done && (first == nil || p.next.compare(&first.next) < 0) {
				first = p
			}
		}
		if first == nil {
			return nil
		}
		if err := do(&first.next.foundCall); err != nil {
			return err
		}
		if err := first.read(); err != nil {
			return err
		}
	}
}
