package journal

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
)

// reader reads blocks one after the other.
type reader struct {
	from    *bufio.Reader
	content []byte
}

func newReader(from io.Reader) *reader { return &reader{from: bufio.NewReader(from)} }

// block returns the content of the next block, which is valid until the next call. It returns
// ErrTorn if no whole block follows.
func (r *reader) block() ([]byte, error) {
	var length, sum [4]byte
	if _, err := io.ReadFull(r.from, length[:]); err != nil {
		return nil, ErrTorn
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > maxBlock {
		return nil, ErrTorn
	}
	if err := r.fill(int(n)); err != nil {
		return nil, ErrTorn
	}
	if _, err := io.ReadFull(r.from, sum[:]); err != nil {
		return nil, ErrTorn
	}
	crc := crc32.Update(crc32.Checksum(length[:], castagnoli), castagnoli, r.content)
	if crc != binary.LittleEndian.Uint32(sum[:]) {
		return nil, ErrTorn
	}
	return r.content, nil
}

// fill reads n bytes into content. A damaged length must not cost much memory, so content grows
// only as bytes arrive.
func (r *reader) fill(n int) error {
	const step = 1 << 20
	r.content = r.content[:0]
	for len(r.content) < n {
		have := len(r.content)
		more := min(step, n-have)
		if cap(r.content) < have+more {
			r.content = append(make([]byte, 0, max(2*have, have+more)), r.content...)
		}
		r.content = r.content[:have+more]
		if _, err := io.ReadFull(r.from, r.content[have:]); err != nil {
			return err
		}
	}
	return nil
}
