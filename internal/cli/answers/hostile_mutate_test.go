package answers

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumOf(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// mutator changes runs as an attacker who knows the formats would change them.
type mutator struct {
	*rand.Rand
	scratch string // a directory
}

func (m mutator) in(n int) int { return m.IntN(max(n, 1)) }

func (m mutator) once(in int) bool { return m.IntN(in) == 0 }

func choose[T any](m mutator, all []T) T { return all[m.in(len(all))] }

// wild returns a number at an end of the 64-bit range, a number near the old one, or any number.
func (m mutator) wild(was uint64) uint64 {
	switch m.IntN(8) {
	case 0:
		return choose(m, []uint64{0, 1, 2, 1<<31 - 1, 1 << 32, 1 << 53, 1<<56 + 1, 1<<62 - 1,
			1 << 62, 1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64 - 1, math.MaxUint64})
	case 1:
		return was + m.Uint64N(2000) - 1000
	case 2:
		return was + 3600*2_600_000_000 // an hour
	case 3:
		return was - 87*2_600_000_000
	case 4:
		return was ^ 1<<m.UintN(64)
	case 5:
		return -was
	case 6:
		return m.Uint64() >> m.UintN(64)
	}
	return was + 1<<m.UintN(64)
}

// logs alters some logs of one node, and of no other node.
func (m mutator) logs(f runFiles, node string) {
	for range 1 + m.IntN(3) {
		names := f.names(runs.LogsPath(node) + "/")
		if node == "A" && m.once(12) {
			names = f.names(runs.BaselinePath(node))
		}
		if len(names) == 0 {
			return
		}
		name := choose(m, names)
		if path.Base(name) == logstore.ManifestName {
			m.manifest(f, name)
			continue
		}
		switch m.IntN(12) {
		case 0, 1, 2, 3:
			f[name] = m.rows(f[name])
		case 4, 5, 6:
			f[name] = m.logBytes(f[name])
		case 7, 8:
			f[name] = m.header(f[name])
		case 9:
			f[name] = m.damage(f[name])
		default:
			m.moveLog(f, node, name)
		}
	}
	if name := runs.LogsPath(node) + "/" + logstore.ManifestName; f[name] != nil && !m.once(3) {
		f[name] = f.manifestOf(runs.LogsPath(node))
	}
}

// manifest changes what a node's manifest says about its logs.
func (m mutator) manifest(f runFiles, name string) {
	switch m.IntN(6) {
	case 0:
		delete(f, name)
	case 1:
		f[name] = m.damage(f[name])
	case 2: // the manifest of another node
		f[name] = f[choose(m, []string{"logs/A/", "logs/B/", "logs/C/"})+logstore.ManifestName]
	default: // a manifest that fits the changed logs
		f[name] = f.manifestOf(path.Dir(name))
	}
}

// manifestOf returns the right manifest of the logs in a directory.
func (f runFiles) manifestOf(dir string) []byte {
	var all logstore.Manifest
	for _, name := range f.names(dir + "/") {
		if path.Base(name) == logstore.ManifestName {
			continue
		}
		data := f[name]
		print, err := logstore.TakeFingerprint(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			panic(err) // reading from memory does not fail
		}
		all = append(all, logstore.ManifestEntry{Name: path.Base(name), Print: print})
	}
	return all.Encode()
}

// rows returns a copy of a log in which some rows of each block are changed.
func (m mutator) rows(log []byte) []byte {
	all := m.once(4) // change all rows from a random one on, instead of a few
	return m.rewritten(log, !m.once(6), func(b *logstore.Block) (times int) {
		m.change(b, all)
		return 1 + m.IntN(8)/7
	})
}

// rewritten returns a log with changed blocks. Each block is written as many times as change says.
// If seal is true, the log gets its end. A log that cannot be read is returned as it is.
func (m mutator) rewritten(log []byte, seal bool, change func(*logstore.Block) (times int)) []byte {
	r, err := logstore.NewReader(bytes.NewReader(log), "log")
	if err != nil {
		return log
	}
	h := r.Header()
	h.Continues = nil
	name := filepath.Join(m.scratch, "rows")
	w, err := logstore.Create(nil, name, h)
	if err != nil {
		return log
	}
	defer os.Remove(name)
	defer w.Close()
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		for range change(b) { // keep the row numbers consecutive
			b.First = w.Next(b.Kind(), b.Shard)
			if err := w.Append(b); err != nil {
				return log
			}
		}
	}
	if seal && w.Seal() != nil {
		return log
	}
	written, err := os.ReadFile(name)
	if err != nil {
		return log
	}
	return written
}

// change changes rows of a block.
func (m mutator) change(b *logstore.Block, all bool) {
	n := b.Len()
	chosen := func() []int {
		if all {
			from := m.in(n)
			var rows []int
			for i := from; i < n; i++ {
				rows = append(rows, i)
			}
			return rows
		}
		rows := make([]int, 1+m.IntN(3))
		for i := range rows {
			rows[i] = m.in(n)
		}
		return rows
	}
	offset := m.wild(0)
	set := func(v *uint64) {
		if all {
			*v += offset
		} else {
			*v = m.wild(*v)
		}
	}
	if n == 0 {
		return
	}
	which := m.IntN(4)
	for _, i := range chosen() {
		switch {
		case len(b.Events) > 0 && which == 0:
			set(&b.Events[i].ID)
		case len(b.Events) > 0 && which == 1:
			b.Events[i].ID = b.Events[m.in(n)].ID
		case len(b.Events) > 0:
			set(&b.Events[i].Counter)
		case len(b.Links) > 0 && which < 2:
			set(&b.Links[i].Parent)
		case len(b.Links) > 0:
			b.Links[i].Child = b.Links[m.in(n)].Parent
		case len(b.Samples) > 0 && which < 2:
			set(&b.Samples[i].Counter)
		case len(b.Samples) > 0:
			set(&b.Samples[i].Count)
		case len(b.FirstLasts) > 0:
			l := &b.FirstLasts[i]
			set(choose(m, []*uint64{&l.Count, &l.FirstCounter, &l.FirstID, &l.LastCounter,
				&l.LastID, &l.Poison}))
		case len(b.NTPs) > 0:
			row := &b.NTPs[i]
			if which == 0 {
				row.Offset_ns = int64(m.wild(uint64(row.Offset_ns)))
			}
			set(choose(m, []*uint64{&row.CounterLo, &row.CounterHi, &row.RootDelay_ns,
				&row.RootDispersion_ns}))
		case len(b.Drops) > 0:
			d := &b.Drops[i]
			set(choose(m, []*uint64{&d.Of, &d.Reason, &d.At, &d.Count, &d.FirstCounter,
				&d.LastCounter}))
		}
	}
	if m.once(10) && len(b.Events) > 0 { // what a full ring records about itself
		*b = logstore.Block{Incarnation: b.Incarnation, Shard: b.Shard, Drops: []logstore.Drop{{
			Of: m.wild(1), Reason: m.Uint64N(9), At: m.wild(3), Count: m.wild(5),
			FirstCounter: m.wild(b.Events[0].Counter), LastCounter: m.wild(0),
		}}}
	}
}

// A block of a log has a header of blockBytes bytes, which begins with blockMagic. The offsets
// blockLength, blockPayload and blockCheck say where the header has the payload's length, the
// payload's checksum and its own checksum. The end of a log has endBytes bytes and begins with
// endMagic: see logstore/FORMAT.md.
const (
	blockMagic   = "\xf5CPB"
	blockBytes   = 64
	blockLength  = 52
	blockPayload = 56
	blockCheck   = 60
	endMagic     = "\xf5CPEND\r\n"
	endBytes     = 32
)

// blocksOf returns the offsets at which blocks of a log begin.
func blocksOf(log []byte) (at []int) {
	for from := 0; ; {
		i := bytes.Index(log[from:], []byte(blockMagic))
		if i < 0 || from+i+blockBytes > len(log) {
			return at
		}
		at = append(at, from+i)
		from += i + blockBytes
	}
}

// mendLog puts the right checksums into a log's blocks, header and end.
func mendLog(log []byte) []byte {
	for _, at := range blocksOf(log) {
		head := log[at : at+blockBytes]
		length := int(binary.LittleEndian.Uint32(head[blockLength:]))
		if rest := log[at+blockBytes:]; length <= len(rest) {
			binary.LittleEndian.PutUint32(head[blockPayload:], sumOf(rest[:length]))
		}
		binary.LittleEndian.PutUint32(head[blockCheck:], sumOf(head[:blockCheck]))
	}
	if i := bytes.LastIndex(log, []byte(endMagic)); i >= 0 && i+endBytes <= len(log) {
		binary.LittleEndian.PutUint32(log[i+endBytes-4:], sumOf(log[i:i+endBytes-4]))
	}
	return mendHeader(log)
}

// mendHeader puts the right checksum into a log's header.
func mendHeader(log []byte) []byte {
	i := bytes.Index(log, []byte("\ncrc32c ")) + 1
	if i == 0 || i+15 > len(log) {
		return log
	}
	return slices.Concat(log[:i], fmt.Appendf(nil, "crc32c %08x", sumOf(log[:i])), log[i+15:])
}

// logBytes changes some bytes of a block or of the end, and mends the checksums.
func (m mutator) logBytes(log []byte) []byte {
	log = slices.Clone(log)
	places := blocksOf(log)
	if len(places) == 0 {
		return m.damage(log)
	}
	for range 1 + m.IntN(4) {
		at := choose(m, places)
		length := min(int(binary.LittleEndian.Uint32(log[at+blockLength:])), len(log)-at-blockBytes)
		switch {
		case m.once(3): // a number of the header
			field := at + choose(m, []int{8, 32, 40})
			binary.LittleEndian.PutUint64(log[field:],
				m.wild(binary.LittleEndian.Uint64(log[field:])))
		case m.once(4):
			field := at + choose(m, []int{6, 48, blockLength})
			binary.LittleEndian.PutUint32(log[field:],
				uint32(m.wild(uint64(binary.LittleEndian.Uint32(log[field:])))))
		case m.once(6):
			log[at+4+m.IntN(2)] = byte(m.IntN(17)) // kind or coding
		case m.once(8):
			end := len(log) - m.IntN(min(endBytes, len(log))) - 1
			log[end] = byte(m.Uint32())
		case length >= 8 && m.once(2):
			field := at + blockBytes + m.IntN(length-7)
			binary.LittleEndian.PutUint64(log[field:],
				m.wild(binary.LittleEndian.Uint64(log[field:])))
		case length > 0:
			log[at+blockBytes+m.IntN(length)] = byte(m.Uint32())
		}
	}
	return mendLog(log)
}

// header changes a word of a log's header, and corrects the header's checksum.
func (m mutator) header(log []byte) []byte {
	end := bytes.Index(log, []byte("\ncrc32c "))
	if end < 0 {
		return log
	}
	lines := strings.Split(string(log[:end]), "\n")
	i := m.IntN(len(lines))
	if m.once(6) {
		lines = slices.Insert(lines, i,
			choose(m, []string{lines[i], "continues events 0 18446744073709551615",
				fmt.Sprintf("continues events %d %d", m.IntN(70000), m.wild(5))}))
	} else {
		lines[i] = m.word(lines[i])
	}
	return mendHeader([]byte(strings.Join(lines, "\n") + string(log[end:])))
}

// word changes one of the words of a line.
func (m mutator) word(line string) string {
	words := strings.Split(line, " ")
	i := m.IntN(len(words))
	switch {
	case words[i] != "" && strings.Trim(words[i], "-0123456789.e+") == "":
		words[i] = choose(m, []string{fmt.Sprint(m.wild(7)), fmt.Sprint(int64(m.wild(7))), "-1",
			"1e300", "5e-324", "18446744073709551616", "", "0x10", ".inf", ".nan"})
	case m.once(3):
		words[i] += choose(m, []string{"\x00", "\x1b[2J", "é", "~", strings.Repeat("x", 300), "#1",
			"/recv", " ", "\""})
	default:
		words[i] = choose(m, []string{"", "A", "B", "C", `"A"`, "events", "epoch-A",
			"epoch-C-again", "true", "null", "[]", "{}", "&a", "*a", "- x",
			words[m.IntN(len(words))]})
	}
	return strings.Join(words, " ")
}

// damage changes bytes as a bad disk does, and mends nothing.
func (m mutator) damage(data []byte) []byte {
	data = slices.Clone(data)
	for range 1 + m.IntN(3) {
		at, to := m.in(len(data)), m.in(len(data))
		at, to = min(at, to), max(at, to)
		switch m.IntN(6) {
		case 0:
			data = data[:at]
		case 1:
			data = slices.Delete(data, at, to)
		case 2:
			data = slices.Insert(data, at, slices.Clone(data[at:to])...)
		case 3:
			clear(data[at:to])
		default:
			if len(data) > 0 {
				data[at] ^= 1 << m.IntN(8)
			}
		}
	}
	return data
}

// moveLog renames a log, or moves it to the place of another log.
func (m mutator) moveLog(f runFiles, node, name string) {
	data := f[name]
	dir, base := path.Split(name)
	other := choose(m, f.names(runs.LogsPath(node)+"/"))
	parts := strings.SplitN(base, ".", 2)
	switch m.IntN(7) {
	case 0:
		delete(f, name)
	case 1:
		f[name] = nil
	case 2:
		f[name] = f[other]
	case 3: // the next segment has the same content
		f[dir+strings.Replace(base, ".000000.", ".000001.", 1)] = data
	case 4: // the log of another ring
		f[dir+strings.Replace(base, ".0000", ".00ff", 1)] = data
	case 5:
		delete(f, name)
		f[dir+choose(m, []string{"new#0~recv", "late#1~recv", "zero~link", "a~ret-sent",
			"sink#7~send"})+"."+parts[len(parts)-1]] = data
	case 6:
		f[dir+choose(m, []string{".part", "x", base + ".part", base + "~"})] = data
	}
}

// Mending an unchanged file gives the same file. This shows that the functions above that mend
// files know the formats.
func TestMendsWhatItChanges(t *testing.T) {
	all, err := hostileRuns(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, files := range all {
		for name, data := range files {
			switch {
			case path.Base(name) == logstore.ManifestName:
				if !bytes.Equal(files.manifestOf(path.Dir(name)), data) {
					t.Errorf("%s is mended to something else", name)
				}
			case strings.HasPrefix(name, "logs/") || strings.HasPrefix(name, "baselines/"):
				if len(blocksOf(data)) < 2 { // one block of rows, and the index
					t.Errorf("%s has %d blocks", name, len(blocksOf(data)))
				}
				if !bytes.Equal(mendLog(slices.Clone(data)), data) {
					t.Errorf("%s is mended to something else", name)
				}
				other := slices.Clone(data)
				other[blocksOf(data)[0]+blockBytes]++
				if bytes.Equal(mendLog(slices.Clone(other)), other) {
					t.Errorf("%s has another payload, and that is not mended", name)
				}
			case strings.HasPrefix(name, "relations/"):
				if !bytes.Equal(mendRelation(slices.Clone(data)), data) {
					t.Errorf("%s is mended to something else", name)
				}
			}
		}
	}
}
