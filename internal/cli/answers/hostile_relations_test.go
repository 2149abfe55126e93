package answers

import (
	"encoding/binary"
	"slices"
	"strings"
)

// relations changes some relations.
func (m mutator) relations(f runFiles) {
	for range 1 + m.IntN(3) {
		names := f.names("relations/")
		if len(names) == 0 {
			return
		}
		name := choose(m, names)
		switch m.IntN(10) {
		case 0:
			f[name] = m.damage(f[name])
		case 1:
			delete(f, name)
		case 2:
			f[choose(m, []string{"relations/A--A.rel", "relations/C--A.rel",
				"relations/A--B@1-2.rel", "relations/B--C@2-1.rel", choose(m, names)})] = f[name]
		default:
			f[name] = m.relationBytes(f[name])
		}
	}
}

// relationBytes changes numbers of a stored pair, and mends the checksums.
func (m mutator) relationBytes(rel []byte) []byte {
	rel = slices.Clone(rel)
	type block struct{ at, length int }
	var blocks []block
	for at := 12; at+8 <= len(rel); {
		n := int(binary.LittleEndian.Uint32(rel[at:]))
		if n > len(rel)-at-8 {
			break
		}
		blocks = append(blocks, block{at + 4, n})
		at += n + 8
	}
	if len(blocks) == 0 {
		return m.damage(rel)
	}
	if m.once(8) { // trains repeated, or in another order
		i, j := m.IntN(len(blocks)), m.IntN(len(blocks))
		a, b := rel[blocks[i].at-4:blocks[i].at+blocks[i].length+4],
			rel[blocks[j].at-4:blocks[j].at+blocks[j].length+4]
		if len(a) == len(b) {
			copy(a, slices.Clone(b))
		}
	}
	// Either add the same offset to all extents and readings of a train, or change single numbers.
	offset, all := m.wild(0), m.once(6)
	for range 1 + m.IntN(4) {
		b := choose(m, blocks)
		if m.once(4) {
			b = blocks[0] // nodes and assumptions
		}
		payload := rel[b.at : b.at+b.length]
		switch {
		case all && len(payload) >= 51+16: // the extents and readings of a train
			for at := 19; at+8 <= len(payload); at += 8 {
				binary.LittleEndian.PutUint64(payload[at:],
					binary.LittleEndian.Uint64(payload[at:])+offset)
			}
		case len(payload) >= 8 && !m.once(4):
			at := 19 + 8*m.IntN(max((len(payload)-19)/8, 1))
			if b == blocks[0] || at+8 > len(payload) {
				at = len(payload) - 8*(1+m.IntN(min(len(payload)/8, 10)))
			}
			binary.LittleEndian.PutUint64(payload[at:],
				m.wild(binary.LittleEndian.Uint64(payload[at:])))
		case len(payload) > 0:
			payload[m.IntN(len(payload))] = byte(m.Uint32())
		}
	}
	return mendRelation(rel)
}

// mendRelation puts the right checksums into a stored pair: see tscratio/FORMAT.md.
func mendRelation(rel []byte) []byte {
	for at := 12; at+8 <= len(rel); {
		n := int(binary.LittleEndian.Uint32(rel[at:]))
		if n > len(rel)-at-8 {
			break
		}
		binary.LittleEndian.PutUint32(rel[at+4+n:], sumOf(rel[at:at+4+n]))
		at += n + 8
	}
	return rel
}

// runYAML changes run.yaml, which has no checksum.
func (m mutator) runYAML(f runFiles) {
	const name = "run.yaml"
	for range 1 + m.IntN(3) {
		lines := strings.Split(string(f[name]), "\n")
		i, j := m.IntN(len(lines)), m.IntN(len(lines))
		switch m.IntN(10) {
		case 0:
			f[name] = m.damage(f[name])
			continue
		case 1:
			lines = slices.Delete(lines, i, i+1)
		case 2:
			lines = slices.Insert(lines, i, lines[j])
		case 3:
			lines[i], lines[j] = lines[j], lines[i]
		default:
			lines[i] = m.word(lines[i])
		}
		f[name] = []byte(strings.Join(lines, "\n"))
	}
}
