package logstore

import (
	"bytes"
	"encoding/binary"
	"io"
)

// After its header a file is a sequence of frames. A frame is a block of rows, an index block, or
// the end of a sealed file.

// frameLimit is the number of bytes at the front of a frame that always suffice to identify the
// frame.
const frameLimit = blockHeaderSize

const (
	endMagic = "\xf5CPEND\r\n"
	endSize  = 32
)

// frameMagic is the beginning of every frame.
var frameMagic = []byte(blockMagic[:3])

// endFrame is the last frame of a sealed file.
type endFrame struct {
	offset uint64 // offset of the index's last block; in version 1, of its first block
	rows   uint64 // number of rows in the index
	then   End
}

func (e *endFrame) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, endMagic...)
	dst = binary.LittleEndian.AppendUint64(dst, e.offset)
	dst = binary.LittleEndian.AppendUint64(dst, e.rows)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(e.then))
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
}

// parseEnd parses an end in the first 32 bytes of b. If no end begins there, parseEnd returns
// false.
func parseEnd(b []byte) (endFrame, bool) {
	if len(b) < endSize || !bytes.HasPrefix(b, []byte(endMagic)) {
		return endFrame{}, false
	}
	then := End(min(binary.LittleEndian.Uint32(b[24:]), uint32(ends)))
	return endFrame{
		offset: binary.LittleEndian.Uint64(b[8:]), rows: binary.LittleEndian.Uint64(b[16:]),
		then: then,
	}, then < ends && checksum(b[:28]) == binary.LittleEndian.Uint32(b[28:])
}

// startsFrame reports whether a frame can begin at the first byte of b, which is the rest of a file
// and may end within the frame.
func startsFrame(b []byte) bool {
	for _, s := range []string{blockMagic, endMagic} {
		if n := min(len(b), len(s)); string(b[:n]) == s[:n] {
			return true
		}
	}
	return false
}

// fileWindow is the part of a file that is in a reader's buffer.
type fileWindow struct {
	from   io.Reader
	buffer []byte
	start  int   // index in buffer of the first byte that was not consumed
	offset int64 // offset of that byte in the file
	err    error // why from cannot be read further; io.EOF at the end of the file
}

// ahead returns the next n bytes without consuming them. If fewer are left, it returns these.
func (w *fileWindow) ahead(n int) []byte {
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
func (w *fileWindow) available() []byte { return w.buffer[w.start:] }

func (w *fileWindow) consume(n int) {
	w.start += n
	w.offset += int64(n)
}
