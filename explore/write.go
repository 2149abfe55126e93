package explore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
)

// Constants of the index file, which FORMAT.md describes.
const (
	magic      = "CPEXPLOR"
	footerSize = 32
	blockItems = 2048
	fanOut     = 4
	nodeSize   = 12 * 8

	tupleBlock = 8 << 10 // bytes of tuples in a block
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// node describes a block of items, or fanOut nodes of the level below. Level 0 describes blocks.
type node struct {
	first, last uint64 // smallest and largest middle of the moments of the items
	items       uint64
	offset      uint64 // offset of the block; unused above level 0
	length      uint64
	counts      uint64 // offset of the counts
	countsSize  uint64
	width       uint64 // largest width of the interval of a moment
	longest     int64  // largest hi of a duration
	minEnd      uint64 // smallest low end of a moment at which an item ends
	maxEnd      uint64 // largest high end of a moment at which an item ends
	ended       uint32 // rows in which a tuple ended although it could have gone on
	suspect     uint32 // rows that are estimates; limited to 32 bits
}

func (n *node) append(to []byte) []byte {
	for _, v := range []uint64{n.first, n.last, n.items, n.offset, n.length, n.counts, n.countsSize,
		n.width, uint64(n.longest), n.minEnd, n.maxEnd, uint64(n.ended)<<32 | uint64(n.suspect)} {
		to = binary.LittleEndian.AppendUint64(to, v)
	}
	return to
}

func readNode(b []byte) node {
	u := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	return node{u(0), u(1), u(2), u(3), u(4), u(5), u(6), u(7), int64(u(8)), u(9), u(10),
		uint32(u(11) >> 32), uint32(u(11))}
}

// merge adds the rows of another node.
func (n *node) merge(m *node) {
	if n.items == 0 {
		n.first, n.minEnd, n.longest = m.first, m.minEnd, m.longest
	}
	n.last = m.last
	n.items += m.items
	n.width, n.longest = max(n.width, m.width), max(n.longest, m.longest)
	n.minEnd, n.maxEnd = min(n.minEnd, m.minEnd), max(n.maxEnd, m.maxEnd)
	n.ended += m.ended
	n.suspect = uint32(min(uint64(n.suspect)+uint64(m.suspect), 1<<32-1))
}

// section is a piece of the file, with its checksum.
type section struct {
	Offset uint64 `json:"offset"`
	Length uint64 `json:"length"`
	Sum    uint32 `json:"sum"` // CRC-32C
}

// contents is the last section of the file. It says where all other sections are.
type contents struct {
	Meta        Meta      `json:"meta"`
	Fingerprint string    `json:"fingerprint"`
	Tracks      []level   `json:"tracks"` // lanes, then spans, then JVMs
	Tuples      section   `json:"tuples"` // the directory of the blocks of tuples
	Page        section   `json:"page"`   // the report's page
	_           [0]func() // makes contents not comparable
}

// level says where the nodes of one track are, on all levels. The nodes of level 0 come first.
type level struct {
	Nodes section  `json:"nodes"`
	Sizes []uint64 `json:"sizes"` // number of nodes on each level
}

// writer writes an index.
type writer struct {
	w   io.Writer
	at  uint64
	err error
}

func (w *writer) write(b []byte) section {
	s := section{w.at, uint64(len(b)), crc32.Checksum(b, castagnoli)}
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
	w.at += uint64(len(b))
	return s
}

// sealed writes a block and then its checksum, and returns its offset.
func (w *writer) sealed(b []byte) uint64 {
	return w.write(binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))).Offset
}

// trackWriter writes the items of one track. The caller adds them in the order of compareItems.
type trackWriter struct {
	w      *writer
	node   node
	before item
	block  []byte
	counts counts

	nodes  [][]node // the nodes of each level
	pieces [][]byte // encoded counts of the blocks, in order
}

func (t *trackWriter) add(i *item) {
	if t.node.items == 0 {
		t.node.first, t.node.minEnd, t.node.longest = i.mid, ^uint64(0), i.hi
		t.before = item{track: i.track}
	}
	t.block = appendItem(t.block, i, &t.before)
	t.before = *i
	n := &t.node
	end := i.end()
	n.last = i.mid
	n.items++
	n.width, n.longest = max(n.width, i.width), max(n.longest, i.hi)
	n.minEnd, n.maxEnd = min(n.minEnd, end.Lo), max(n.maxEnd, end.Hi)
	if i.ended > 0 {
		n.ended++
	}
	if i.suspect {
		n.suspect++
	}
	if !i.instant {
		t.counts.add(i)
	}
	if n.items == blockItems {
		t.flush()
	}
}

func (t *trackWriter) flush() {
	if t.node.items == 0 {
		return
	}
	t.node.length = uint64(len(t.block))
	t.node.offset = t.w.sealed(t.block)
	if t.nodes == nil {
		t.nodes = [][]node{nil}
	}
	t.nodes[0] = append(t.nodes[0], t.node)
	t.pieces = append(t.pieces, t.counts.append(nil))
	t.counts.clear()
	t.node, t.block = node{}, t.block[:0]
}

// finish writes the counts and the nodes of all levels.
func (t *trackWriter) finish() level {
	t.flush()
	var found level
	var all []byte
	pieces := t.pieces
	for depth := 0; depth < len(t.nodes); depth++ {
		nodes := t.nodes[depth]
		for i := range nodes {
			nodes[i].countsSize = uint64(len(pieces[i]))
			nodes[i].counts = t.w.sealed(pieces[i])
			all = nodes[i].append(all)
		}
		found.Sizes = append(found.Sizes, uint64(len(nodes)))
		if len(nodes) <= fanOut {
			break
		}
		var above []node
		var merged [][]byte
		for i := 0; i < len(nodes); i += fanOut {
			var n node
			for j := i; j < min(i+fanOut, len(nodes)); j++ {
				n.merge(&nodes[j])
				readCounts(pieces[j], func(instance uint32, high bool, bucket int, c uint64) {
					t.counts.of(instance).count(high, bucket, c)
				})
			}
			above = append(above, n)
			merged = append(merged, t.counts.append(nil))
			t.counts.clear()
		}
		t.nodes, pieces = append(t.nodes, above), merged
	}
	found.Nodes = t.w.write(all)
	return found
}

// tupleWriter writes tuples. The caller adds them in the order of compareTuples.
type tupleWriter struct {
	w         *writer
	block     []byte
	first     uint64
	before    tuple
	directory []byte
}

func (t *tupleWriter) add(row *tuple) error {
	if len(t.block) >= tupleBlock {
		t.flush()
	}
	if len(t.block) == 0 {
		t.first, t.before = row.id, tuple{}
	}
	t.block = appendTuple(t.block, row, &t.before)
	t.before.id = row.id
	return t.w.err
}

func (t *tupleWriter) flush() {
	if len(t.block) == 0 {
		return
	}
	for _, v := range []uint64{t.first, t.w.at, uint64(len(t.block))} {
		t.directory = binary.LittleEndian.AppendUint64(t.directory, v)
	}
	t.w.sealed(t.block)
	t.block = t.block[:0]
}

func (t *tupleWriter) finish() section {
	t.flush()
	return t.w.write(t.directory)
}

// finish writes the contents and the footer.
func (w *writer) finish(c *contents) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	s := w.write(text)
	footer := []byte(magic)
	footer = binary.LittleEndian.AppendUint32(footer, Version)
	footer = binary.LittleEndian.AppendUint32(footer, s.Sum)
	footer = binary.LittleEndian.AppendUint64(footer, s.Offset)
	footer = binary.LittleEndian.AppendUint64(footer, s.Length)
	w.write(footer)
	if w.err != nil {
		return fmt.Errorf("write index: %w", w.err)
	}
	return nil
}
