package explore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/runs"
)

// errDamaged is the error for an index, or a part of an index, that differs from what was written.
var errDamaged = errors.New("the index is damaged")

// These are the largest parts of an index, in bytes, that this program reads at once. The limits
// are needed because an index may come from a stranger.
const (
	maxContents  = 256 << 20
	maxDirectory = 512 << 20
	maxBlock     = 1 << 20
	maxCounts    = 64 << 20
)

// file is the source from which an index is read.
type file interface {
	io.ReaderAt
	io.Closer
}

// Index is an open index. Any number of goroutines may use it.
type Index struct {
	Meta Meta

	file     file
	size     int64
	contents contents
	tracks   []track // lanes, then spans, then JVMs
	tuples   []tuplesAt
}

// track has the nodes of the index that describe the items of one lane, span or JVM, by level.
type track struct{ levels [][]node }

// tuplesAt says where a block of tuples is, and the first id in the block.
type tuplesAt struct{ first, offset, length uint64 }

func openIndex(dir *runs.Directory) (*Index, error) {
	f, size, err := dir.OpenExport(IndexName)
	if err != nil {
		return nil, err
	}
	index, err := readIndex(f, size)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return index, nil
}

// readIndex reads the contents of an index, the nodes of all tracks and the directory of tuples. It
// does not read the blocks.
func readIndex(f file, size int64) (*Index, error) {
	x := &Index{file: f, size: size}
	footer := make([]byte, footerSize)
	if size < footerSize {
		return nil, fmt.Errorf("%d bytes long: %w", size, errDamaged)
	}
	if _, err := f.ReadAt(footer, size-footerSize); err != nil {
		return nil, err
	}
	if string(footer[:8]) != magic {
		return nil, fmt.Errorf("it ends with %q: %w", footer[:8], errDamaged)
	}
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	if v := u32(footer[8:]); v != Version {
		return nil, fmt.Errorf("version %d, this program reads %d", v, Version)
	}
	s := section{u64(footer[16:]), u64(footer[24:]), u32(footer[12:])}
	if s.Length > maxContents {
		return nil, fmt.Errorf("contents of %d bytes: %w", s.Length, errDamaged)
	}
	text, err := readSection(f, s, size)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &x.contents); err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	x.Meta = x.contents.Meta
	if x.Meta.Spans == nil {
		x.Meta.Spans = []Span{} // the page needs a list, even of a run with one point
	}
	if err := x.check(); err != nil {
		return nil, err
	}
	for _, l := range x.contents.Tracks {
		t, err := x.readTrack(l)
		if err != nil {
			return nil, err
		}
		x.tracks = append(x.tracks, t)
	}
	return x, x.readTuples()
}

// check refuses contents with numbers that refer to lanes, points or tracks that do not exist.
func (x *Index) check() error {
	m := &x.Meta
	bad := len(x.contents.Tracks) != len(m.Lanes)+len(m.Spans)+len(m.JVMs) ||
		len(m.Lanes) > maxLanes || len(m.Spans) > maxLanes
	for _, c := range m.Channels {
		bad = bad || c.Lane < 0 || c.Lane >= len(m.Lanes) || c.Point < 0 ||
			c.Point >= len(m.Points)
	}
	for _, l := range m.Lanes {
		for _, j := range l.JVMs {
			bad = bad || j < 0 || j >= len(m.JVMs)
		}
	}
	for _, i := range m.Order {
		bad = bad || i < 0 || i >= len(m.Points)
	}
	if bad {
		return fmt.Errorf("its lanes, spans and channels do not fit together: %w", errDamaged)
	}
	return nil
}

func (x *Index) readTrack(l level) (t track, err error) {
	total := uint64(0)
	for i, n := range l.Sizes {
		total += n
		if n > l.Nodes.Length || i > 0 && n != (l.Sizes[i-1]+fanOut-1)/fanOut {
			return t, fmt.Errorf("a level of %d nodes: %w", n, errDamaged)
		}
	}
	if l.Nodes.Length > maxDirectory || total*nodeSize != l.Nodes.Length {
		return t, fmt.Errorf("%d nodes in %d bytes: %w", total, l.Nodes.Length, errDamaged)
	}
	b, err := readSection(x.file, l.Nodes, x.size)
	if err != nil {
		return t, err
	}
	for _, n := range l.Sizes {
		nodes := make([]node, n)
		for i := range nodes {
			nodes[i] = readNode(b)
			b = b[nodeSize:]
			if nodes[i].first > nodes[i].last || i > 0 && nodes[i].first < nodes[i-1].last {
				return t, fmt.Errorf("its blocks are not in order: %w", errDamaged)
			}
		}
		t.levels = append(t.levels, nodes)
	}
	return t, nil
}

func (x *Index) readTuples() error {
	s := x.contents.Tuples
	if s.Length > maxDirectory || s.Length%24 != 0 {
		return fmt.Errorf("a directory of tuples of %d bytes: %w", s.Length, errDamaged)
	}
	b, err := readSection(x.file, s, x.size)
	if err != nil {
		return err
	}
	x.tuples = make([]tuplesAt, len(b)/24)
	for i := range x.tuples {
		u := func(k int) uint64 { return binary.LittleEndian.Uint64(b[24*i+8*k:]) }
		x.tuples[i] = tuplesAt{u(0), u(1), u(2)}
	}
	return nil
}

// Close closes the index.
func (x *Index) Close() error { return x.file.Close() }

// Page returns the report's page.
func (x *Index) Page() ([]byte, error) {
	if x.contents.Page.Length > maxContents {
		return nil, fmt.Errorf("read the report: %w", errDamaged)
	}
	return readSection(x.file, x.contents.Page, x.size)
}

func sum(b []byte, want uint32, offset uint64) error {
	if got := crc32.Checksum(b, castagnoli); got != want {
		return fmt.Errorf("checksum of %d bytes at %d is wrong: %w", len(b), offset, errDamaged)
	}
	return nil
}

// readSealed reads a block, and checks it against the checksum that follows it.
func (x *Index) readSealed(offset, length, most uint64) ([]byte, error) {
	if length > most || offset > uint64(x.size) || length+4 > uint64(x.size)-offset {
		return nil, fmt.Errorf("a block of %d bytes at %d: %w", length, offset, errDamaged)
	}
	b := make([]byte, length+4)
	if _, err := x.file.ReadAt(b, int64(offset)); err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	return b[:length], sum(b[:length], binary.LittleEndian.Uint32(b[length:]), offset)
}

// eachItem calls the function tell for each item of a block.
func (x *Index) eachItem(n *node, tell func(*item)) error {
	b, err := x.readSealed(n.offset, n.length, maxBlock)
	if err != nil {
		return err
	}
	if n.items > blockItems {
		return fmt.Errorf("a block of %d rows at %d: %w", n.items, n.offset, errDamaged)
	}
	r, i := reader{data: b}, item{}
	for range n.items {
		if readItem(&r, &i); r.bad {
			return fmt.Errorf("block at %d: %w", n.offset, errDamaged)
		}
		tell(&i)
	}
	return nil
}

// tupleRow is a stored tuple.
type tupleRow struct {
	id, number uint64
	path
}

// mostSame is the largest number of tuples that a search for one id returns.
const mostSame = 64

// findTuples returns the tuples that have the given id. If there are more than mostSame, more is
// true.
func (x *Index) findTuples(id uint64) (found []tupleRow, more bool, err error) {
	i := sort.Search(len(x.tuples), func(i int) bool { return x.tuples[i].first >= id })
	for i = max(i-1, 0); i < len(x.tuples) && x.tuples[i].first <= id; i++ {
		b, err := x.readSealed(x.tuples[i].offset, x.tuples[i].length, maxBlock)
		if err != nil {
			return nil, false, err
		}
		r, t := reader{data: b}, tuple{}
		for len(r.data) > 0 && !r.bad && t.id <= id {
			if readTuple(&r, &t); t.id != id || r.bad {
				continue
			}
			if len(found) == mostSame {
				return found, true, nil
			}
			p, ok := readPath(t.body, len(x.Meta.Channels), len(x.Meta.Spans))
			if !ok {
				return nil, false, fmt.Errorf("tuple %d: %w", id, errDamaged)
			}
			found = append(found, tupleRow{t.id, t.number, p})
		}
		if r.bad {
			return nil, false, fmt.Errorf("block at %d: %w", x.tuples[i].offset, errDamaged)
		}
	}
	return found, false, nil
}
