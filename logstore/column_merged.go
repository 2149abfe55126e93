package logstore

import (
	"encoding/binary"
	"math"
	"slices"
)

// mergedColumn is a column of values, split by their sources. A source is a node and instance that
// makes tuple ids (sourceShift in column.go).
type mergedColumn struct {
	slots   [1024]uint16 // hash table: a source's index + 1, at its hash or the next free slot
	last    []uint64     // last value of each source
	before  []uint64     // an invented value before each source's first one: see take
	sources []byte       // index of each value's source
	counts  []uint64     // distance of each value from the previous value of its source
}

// split splits a column by source. If there is only one source, or too many, splitting is useless,
// and split returns false.
func (m *mergedColumn) split(values []uint64) bool {
	clear(m.slots[:])
	m.last, m.before = m.last[:0], m.before[:0]
	m.sources = slices.Grow(m.sources[:0], len(values))[:len(values)]
	m.counts = slices.Grow(m.counts[:0], len(values))[:len(values)]
	for i, v := range values {
		source := v >> sourceShift
		slot := source * 0x9e3779b97f4a7c15 >> 54
		at := m.slots[slot]
		for at != 0 && m.last[at-1]>>sourceShift != source {
			slot = (slot + 1) % uint64(len(m.slots))
			at = m.slots[slot]
		}
		if at == 0 {
			if len(m.last) == maxSources {
				return false
			}
			// Assume that this source's first value follows a value that is lower by one. Then, if
			// the source counts by one, all distances of the source are equal.
			before := v&^countMask | (v-1)&countMask
			m.last, m.before = append(m.last, before), append(m.before, before)
			at = uint16(len(m.last))
			m.slots[slot] = at
		}
		m.sources[i] = byte(at - 1)
		// The shifts extend the sign of the distance, which has 40 bits.
		m.counts[i] = uint64(int64((v-m.last[at-1])<<(64-sourceShift)) >> (64 - sourceShift))
		m.last[at-1] = v
	}
	return len(m.last) > 1
}

// cost_bits returns how many bits it takes on average to store which source a value comes from.
func (m *mergedColumn) cost_bits() float64 {
	var count [maxSources]float64
	for _, s := range m.sources {
		count[s]++
	}
	n, sum := float64(len(m.sources)), 0.0
	for _, c := range count[:len(m.last)] {
		sum += c * math.Log2(c)
	}
	return math.Log2(n) - sum/n + float64(64*len(m.last))/n
}

func (e *columnEncoder) appendMerged(dst []byte) []byte {
	m := &e.merged
	dst = append(dst, columnMerged, byte(len(m.before)))
	for _, b := range m.before {
		dst = binary.LittleEndian.AppendUint64(dst, b)
	}
	dst = e.appendSymbols(dst, m.sources, sourceWidth(len(m.before)))
	return e.appendNumbers(dst, m.counts, 0)
}

// sourceWidth returns the number of bits that the index of one of n sources takes.
func sourceWidth(n int) int {
	switch {
	case n <= 2:
		return 1
	case n <= 4:
		return 2
	case n <= 16:
		return 4
	}
	return 8
}
