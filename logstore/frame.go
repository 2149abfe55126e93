package logstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// After its header a file is a sequence of frames: blocks, and in a sealed file the blocks of the
// index and one end.

// frameLimit is how many bytes suffice to identify a frame.
const frameLimit = blockLineLimit

const (
	endMagic    = "\xf5CPEND\r\n"
	endSize     = 32
	endTextSize = len("end 00000000000000000000 00000000000000000000 next 00000000\n")
)

// end closes a sealed file.
type end struct {
	offset uint64 // of the index's last block; in version 1 of its first
	rows   uint64 // of the index
	then   End
}

// append writes an end of version 2, or of version 1 if nothing is said about what follows.
func (e *end) append(dst []byte, format Format) []byte {
	start := len(dst)
	if format == Text {
		dst = fmt.Appendf(dst, "end %020d %020d ", e.offset, e.rows)
		if e.then != Unsaid {
			dst = fmt.Appendf(dst, "%s ", e.then)
		}
		return fmt.Appendf(dst, "%08x\n", checksum(dst[start:]))
	}
	dst = append(dst, endMagic...)
	dst = binary.LittleEndian.AppendUint64(dst, e.offset)
	dst = binary.LittleEndian.AppendUint64(dst, e.rows)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(e.then))
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
}

// parseEnd parses an end at the front of b, and returns its size.
func parseEnd(b []byte, format Format) (e end, size int, ok bool) {
	if format == Text {
		size = bytes.IndexByte(b[:min(len(b), endTextSize)], '\n') + 1
		words := strings.Fields(string(b[:size]))
		if len(words) < 4 {
			return e, 0, false
		}
		fmt.Sscanf(string(b[:size]), "end %d %d ", &e.offset, &e.rows)
		if len(words) == 5 {
			e.then = parseEndName(words[3])
		}
		return e, size, bytes.Equal(e.append(nil, Text), b[:size])
	}
	if len(b) < endSize {
		return e, 0, false
	}
	e = end{offset: binary.LittleEndian.Uint64(b[8:]), rows: binary.LittleEndian.Uint64(b[16:])}
	e.then = End(min(binary.LittleEndian.Uint32(b[24:]), uint32(ends)))
	return e, endSize, e.then < ends && bytes.Equal(e.append(nil, Plain), b[:endSize])
}

// parseLastEnd parses the end with which b ends, and returns where in b it begins.
func parseLastEnd(b []byte, format Format) (e end, at int, ok bool) {
	at = len(b) - endSize
	if format == Text {
		at = bytes.LastIndex(b, []byte("end "))
	}
	if at < 0 {
		return e, 0, false
	}
	e, size, ok := parseEnd(b[at:], format)
	return e, at, ok && at+size == len(b)
}

// frame is what begins at an offset of a file.
type frame struct {
	isBlock bool
	isEnd   bool
	block   blockHeader
	end     end
	size    int // of the block's header, or of the end
}

// parseFrame parses the bytes at an offset. b must have frameLimit bytes, or all that are left.
func parseFrame(b []byte, format Format) frame {
	var f frame
	if format == Text {
		switch {
		case bytes.HasPrefix(b, []byte("block ")):
			line := bytes.IndexByte(b[:min(len(b), blockLineLimit)], '\n')
			if line > 0 {
				f.block, f.isBlock = parseBlockLine(b[:line])
				f.size = line + 1
			}
		case bytes.HasPrefix(b, []byte("end ")):
			f.end, f.size, f.isEnd = parseEnd(b, format)
		}
		return f
	}
	switch {
	case bytes.HasPrefix(b, []byte(blockMagic)) && len(b) >= blockHeaderSize:
		f.block, f.isBlock = parseBlockHeader(b)
		f.size = blockHeaderSize
	case bytes.HasPrefix(b, []byte(endMagic)):
		f.end, f.size, f.isEnd = parseEnd(b, format)
	}
	return f
}

// startsFrame tells whether the rest of a file is the front part of a frame.
func startsFrame(b []byte, format Format) bool {
	starts := []string{blockMagic, endMagic}
	if format == Text {
		starts = []string{"block ", "end "}
	}
	for _, s := range starts {
		if n := min(len(b), len(s)); string(b[:n]) == s[:n] {
			return true
		}
	}
	return false
}

// nextCandidate returns the index of the next place in b where a frame may begin, or len(b).
func nextCandidate(b []byte, format Format) int {
	starts := []string{blockMagic[:3]} // blocks and the end begin with these
	if format == Text {
		starts = []string{"block ", "end "}
	}
	at := len(b)
	for _, s := range starts {
		if i := bytes.Index(b[:min(len(b), at+len(s))], []byte(s)); i >= 0 {
			at = min(at, i)
		}
	}
	return at
}

// window is the part of a file that a reader sees.
type window struct {
	from   io.Reader
	buffer []byte
	start  int   // of what is not yet consumed
	offset int64 // of start in the file
	err    error // why from returns no more; io.EOF at the end of the file
}

// ahead returns the next n bytes, or all that are left.
func (w *window) ahead(n int) []byte {
	for len(w.buffer)-w.start < n && w.err == nil {
		if w.start > 0 && cap(w.buffer)-w.start < n {
			w.buffer = w.buffer[:copy(w.buffer, w.buffer[w.start:])]
			w.start = 0
		}
		if cap(w.buffer)-w.start < n {
			bigger := make([]byte, len(w.buffer), max(n+n/4, 256<<10))
			copy(bigger, w.buffer)
			w.buffer = bigger
		}
		var got int
		got, w.err = w.from.Read(w.buffer[len(w.buffer):cap(w.buffer)])
		w.buffer = w.buffer[:len(w.buffer)+got]
	}
	return w.buffer[w.start:min(len(w.buffer), w.start+n)]
}

// available returns all bytes that were read but not consumed.
func (w *window) available() []byte { return w.buffer[w.start:] }

func (w *window) consume(n int) {
	w.start += n
	w.offset += int64(n)
}
