package logstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"sync"
)

const (
	// MaxRows is the largest number of rows in a block.
	MaxRows = 1 << 16

	// BlockOverhead says by how many bytes a block may be longer than its uncompressed rows.
	// Uncompressed rows take 8 bytes for each word.
	BlockOverhead = blockHeaderSize

	// maxShard is the highest shard number.
	maxShard = math.MaxUint16
)

// Incarnation identifies one ring: one open of a channel by one process. It is random.
type Incarnation [16]byte

// Block contains consecutive rows of one kind. Of the slices (the field Events and the fields after
// it), exactly one has elements: it determines the kind of the rows.
type Block struct {
	Incarnation Incarnation
	Shard       int    // shard of the ring; 0 for kinds that do not come from a ring
	First       uint64 // sequence number of the first row; each kind in each shard begins at 0
	// Plain makes a writer write the rows uncompressed. Readers leave it false.
	Plain bool
	// Hurried makes a writer pack the rows without compressing them, which is quick. A reader sets
	// Hurried if the writer packed the rows in this way.
	Hurried bool

	Events      []Event
	Links       []Link
	Samples     []Sample
	FirstLasts  []FirstLast
	Transitions []Transition
	Drops       []Drop
	ReturnTrips []ReturnTrip
	NTPs        []NTP

	index []indexEntry
}

// Kind returns the kind of the rows. If there are no rows, Kind returns 0.
func (b *Block) Kind() Kind {
	k, _ := b.rows()
	return k
}

// Len returns the number of rows.
func (b *Block) Len() int {
	k, w := b.rows()
	if k == 0 {
		return 0
	}
	return len(w) / k.columns()
}

// byKind returns the block's slices, indexed by their kinds.
func (b *Block) byKind() [kinds]rowsOfKind {
	return [kinds]rowsOfKind{
		Events: (*rowSlice[Event])(&b.Events), Links: (*rowSlice[Link])(&b.Links),
		Samples: (*rowSlice[Sample])(&b.Samples), FirstLasts: (*rowSlice[FirstLast])(&b.FirstLasts),
		Transitions: (*rowSlice[Transition])(&b.Transitions), Drops: (*rowSlice[Drop])(&b.Drops),
		ReturnTrips: (*rowSlice[ReturnTrip])(&b.ReturnTrips), NTPs: (*rowSlice[NTP])(&b.NTPs),
		index: (*rowSlice[indexEntry])(&b.index),
	}
}

// rows returns the kind of the rows, and their words.
func (b *Block) rows() (Kind, []uint64) {
	for k, rows := range b.byKind() {
		if rows != nil && len(rows.words()) > 0 {
			return Kind(k), rows.words()
		}
	}
	return 0, nil
}

// clear empties all slices but keeps their memory.
func (b *Block) clear() {
	for _, rows := range b.byKind() {
		if rows != nil {
			rows.resize(0)
		}
	}
}

// makeRows empties the block, gives it n rows of a known kind, and returns their words.
func (b *Block) makeRows(k Kind, n int) []uint64 {
	b.clear()
	rows := b.byKind()[k]
	rows.resize(n)
	return rows.words()
}

// keep removes the rows outside the range.
func (b *Block) keep(r Range) {
	b.byKind()[b.Kind()].cut(int(r.From-b.First), int(r.To-b.First))
	b.First = r.From
}

// check returns an error if the block cannot be written.
func (b *Block) check() error {
	n := b.Len()
	filled := 0
	for _, rows := range b.byKind() {
		if rows != nil && len(rows.words()) > 0 {
			filled++
		}
	}
	switch {
	case filled != 1:
		return fmt.Errorf("rows of %d kinds, want one: %w", filled, ErrBlock)
	case n > MaxRows:
		return fmt.Errorf("%d rows, at most %d: %w", n, MaxRows, ErrBlock)
	case b.Shard < 0 || b.Shard > maxShard:
		return fmt.Errorf("shard %d, want 0 to %d: %w", b.Shard, maxShard, ErrBlock)
	case b.First+uint64(n) < b.First:
		return fmt.Errorf("sequence %d of %d rows wraps: %w", b.First, n, ErrBlock)
	}
	return nil
}

// These are the codings of a payload. The numbers are in files: never change one.
const (
	payloadPlain      = 0 // the words of each row, 8 bytes each, little-endian
	payloadCompressed = 1 // one column after another
	payloadHurried    = 3 // like payloadCompressed, but the symbols are only packed
)

// blockHeader precedes a block's payload. FORMAT.md describes its bytes.
type blockHeader struct {
	kind        Kind
	coding      uint8
	shard       int
	first       uint64
	incarnation Incarnation
	lo, hi      uint64 // smallest and largest counter; 0 and 2^64-1 for kinds without counters
	rows        int
	length      int    // length of the payload in bytes
	checksum    uint32 // checksum of the payload
}

const (
	blockHeaderSize = 64
	blockMagic      = "\xf5CPB"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// put writes the header into the 64 bytes of b.
func (h *blockHeader) put(b []byte) {
	b = b[:blockHeaderSize]
	copy(b, blockMagic)
	b[4] = byte(h.kind)
	b[5] = h.coding
	binary.LittleEndian.PutUint16(b[6:], uint16(h.shard))
	binary.LittleEndian.PutUint64(b[8:], h.first)
	copy(b[16:32], h.incarnation[:])
	binary.LittleEndian.PutUint64(b[32:], h.lo)
	binary.LittleEndian.PutUint64(b[40:], h.hi)
	binary.LittleEndian.PutUint32(b[48:], uint32(h.rows))
	binary.LittleEndian.PutUint32(b[52:], uint32(h.length))
	binary.LittleEndian.PutUint32(b[56:], h.checksum)
	binary.LittleEndian.PutUint32(b[60:], checksum(b[:60]))
}

// parseBlockHeader parses the first 64 bytes of b. If no block begins there, it returns false.
func parseBlockHeader(b []byte) (blockHeader, bool) {
	if len(b) < blockHeaderSize || string(b[:4]) != blockMagic ||
		checksum(b[:60]) != binary.LittleEndian.Uint32(b[60:]) {
		return blockHeader{}, false
	}
	h := blockHeader{
		kind: Kind(b[4]), coding: b[5], shard: int(binary.LittleEndian.Uint16(b[6:])),
		first: binary.LittleEndian.Uint64(b[8:]), incarnation: Incarnation(b[16:32]),
		lo: binary.LittleEndian.Uint64(b[32:]), hi: binary.LittleEndian.Uint64(b[40:]),
		checksum: binary.LittleEndian.Uint32(b[56:]),
	}
	rows, length := binary.LittleEndian.Uint32(b[48:]), binary.LittleEndian.Uint32(b[52:])
	if rows > MaxRows || length > math.MaxInt32 {
		return blockHeader{}, false
	}
	h.rows, h.length = int(rows), int(length)
	return h, h.sane()
}

// size returns the length of the whole block.
func (h *blockHeader) size() int { return blockHeaderSize + h.length }

// sane reports whether the numbers in the header agree with each other. So a false header cannot
// make a reader take much time or memory for the payload.
func (h *blockHeader) sane() bool {
	if !h.kind.known() || h.rows < 1 || h.rows > MaxRows || h.length < 1 ||
		h.first+uint64(h.rows) < h.first {
		return false
	}
	words := h.rows * h.kind.columns()
	switch h.coding {
	case payloadPlain:
		return h.length == 8*words
	case payloadCompressed, payloadHurried:
		return h.length < 8*words
	}
	return false
}

// counterRange returns the smallest and the largest counter reading in the rows.
func counterRange(k Kind, words []uint64) (lo, hi uint64) {
	counters := kindTable[k].counters
	if len(counters) == 0 {
		return 0, math.MaxUint64
	}
	lo, hi = math.MaxUint64, 0
	for _, c := range counters {
		for i := c; i < len(words); i += k.columns() {
			lo, hi = min(lo, words[i]), max(hi, words[i])
		}
	}
	return lo, hi
}

// encoder turns blocks into bytes. Its zero value is ready for use. One goroutine at a time may use
// it.
type encoder struct {
	columns columnEncoder
	buffer  []byte // buffer that the user of the encoder may use
}

// encoders is a pool that all writers share. An encoder takes some megabytes, and a drainer may
// have hundreds of logs open.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// appendBlock appends a block. The caller must have checked the block.
func (e *encoder) appendBlock(dst []byte, b *Block, quantum_cycles uint64) []byte {
	kind, words := b.rows()
	h := blockHeader{
		kind: kind, shard: b.Shard, first: b.First, incarnation: b.Incarnation,
		rows: len(words) / kind.columns(), coding: payloadCompressed,
	}
	e.columns.hurried = b.Hurried
	if b.Hurried {
		h.coding = payloadHurried
	}
	start := len(dst)
	dst = extendBytes(dst, blockHeaderSize)
	payload := len(dst)
	if b.Plain {
		h.lo, h.hi = counterRange(kind, words)
	} else {
		dst, h.lo, h.hi = e.appendColumns(dst, kind, words, quantum_cycles)
	}
	if b.Plain || len(dst)-payload >= 8*len(words) {
		h.coding = payloadPlain
		dst = extendBytes(dst[:payload], 8*len(words))
		out := dst[payload:]
		for i, w := range words {
			binary.LittleEndian.PutUint64(out[8*i:], w)
		}
	}
	h.length, h.checksum = len(dst)-payload, checksum(dst[payload:])
	h.put(dst[start:])
	return dst
}

// appendColumns appends the rows as columns. It returns the smallest and the largest counter.
func (e *encoder) appendColumns(dst []byte, kind Kind, words []uint64,
	quantum_cycles uint64) (out []byte, lo, hi uint64) {
	lo, hi = math.MaxUint64, 0
	for c := range kind.columns() {
		column := viewColumn(words, c, kind.columns())
		if !slices.Contains(kindTable[kind].counters, c) {
			dst = e.columns.appendValues(dst, column)
			continue
		}
		var least, most uint64
		dst, least, most = e.columns.appendCounters(dst, column, quantum_cycles)
		lo, hi = min(lo, least), max(hi, most)
	}
	if lo > hi {
		return dst, 0, math.MaxUint64
	}
	return dst, lo, hi
}

// decoder turns bytes into blocks. Its zero value is ready for use. One goroutine at a time may use
// it.
type decoder struct {
	columns columnDecoder
}

// block decodes a payload. The caller must have verified the payload's checksum.
func (d *decoder) block(b *Block, h *blockHeader, payload []byte) error {
	b.Incarnation, b.Shard, b.First = h.incarnation, h.shard, h.first
	b.Hurried = h.coding == payloadHurried
	words := b.makeRows(h.kind, h.rows)
	if h.coding == payloadPlain {
		for i := range words {
			words[i] = binary.LittleEndian.Uint64(payload[8*i:])
		}
		return nil
	}
	width := h.kind.columns()
	for c := range width {
		var err error
		if payload, err = d.columns.column(viewColumn(words, c, width), payload); err != nil {
			return err
		}
	}
	if len(payload) > 0 {
		return columnError("%d bytes after the last column", len(payload))
	}
	return nil
}
