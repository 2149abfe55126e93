package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

var (
	// ErrNotJournal is returned for a file that does not begin with the expected magic.
	ErrNotJournal = errors.New("not a journal of this kind")

	// ErrVersion is returned for a journal of another version.
	ErrVersion = errors.New("unknown version")

	// ErrTorn is returned if a block ends early, or if its checksum is wrong.
	ErrTorn = errors.New("torn block")
)

const (
	headBytes   = 12
	aroundBlock = 8 // bytes of a block's length and checksum

	// FlushMuch writes waiting bytes only if there are at least this many.
	flushBytes = 1 << 20

	// maxBlock is the greatest length of a block's content.
	maxBlock = 1 << 28
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Format is the owner's format.
type Format struct {
	Magic   string // 8 bytes
	Version uint32
}

// Journal is an open journal. Only one goroutine at a time may use it, and only one process.
type Journal struct {
	file *os.File
	size int64
	cut  int64
	open []byte // blocks that Flush writes
}

// Create makes an empty journal. If the file exists, Create empties it.
func Create(root *os.Root, name string, f Format) (*Journal, error) {
	file, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create journal: %w", err)
	}
	head := binary.LittleEndian.AppendUint32([]byte(f.Magic), f.Version)
	if _, err := file.Write(head); err != nil {
		file.Close()
		return nil, fmt.Errorf("create journal %q: %w", name, err)
	}
	return &Journal{file: file, size: headBytes}, nil
}

// Open opens a journal to read it and to append to it. It calls the function each with the offset
// and the content of every block. It cuts off the first block that is torn, with all that follows.
// The content is valid only during the call of each. If each returns an error, Open ends with this
// error.
func Open(root *os.Root, name string, f Format, each func(at int64, content []byte) error) (
	*Journal, error) {
	file, err := root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	size, whole, err := read(file, f, each)
	if err == nil && size > whole {
		err = file.Truncate(whole)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("open journal %q: %w", name, err)
	}
	return &Journal{file: file, size: whole, cut: size - whole}, nil
}

// Read calls the function each for the blocks of a journal that another process may be writing, up
// to the first torn block. It returns how many bytes it did not read.
func Read(file *os.File, f Format, each func(at int64, content []byte) error) (int64, error) {
	size, whole, err := read(file, f, each)
	return size - whole, err
}

// read returns the length of the file, and the offset of the first torn block. If no block is torn,
// this offset is the length.
func read(file *os.File, f Format, each func(int64, []byte) error) (size, whole int64, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	size = info.Size()
	from := io.NewSectionReader(file, 0, size)
	head := make([]byte, headBytes)
	if _, err := io.ReadFull(from, head); err != nil || string(head[:8]) != f.Magic {
		return size, 0, fmt.Errorf("begins with %.8q: %w", head, ErrNotJournal)
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != f.Version {
		return size, 0, fmt.Errorf("version %d, this program knows %d: %w", v, f.Version,
			ErrVersion)
	}
	buffered := newReader(from)
	for whole = headBytes; ; {
		content, err := buffered.block()
		if err != nil {
			return size, whole, nil
		}
		if err := each(whole, content); err != nil {
			return size, whole, fmt.Errorf("block at byte %d: %w", whole, err)
		}
		whole += int64(len(content)) + aroundBlock
	}
}

// Append adds a block, which Flush writes. It returns the block's offset.
func (j *Journal) Append(parts ...[]byte) (at int64) {
	at = j.Size()
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	begin := len(j.open)
	j.open = binary.LittleEndian.AppendUint32(j.open, uint32(n))
	for _, p := range parts {
		j.open = append(j.open, p...)
	}
	j.open = binary.LittleEndian.AppendUint32(j.open, crc32.Checksum(j.open[begin:], castagnoli))
	return at
}

// Flush writes the appended blocks. If it returns an error, the blocks stay for the next Flush.
func (j *Journal) Flush() error {
	if len(j.open) == 0 {
		return nil
	}
	// A part that an earlier Flush wrote before it failed is overwritten.
	if _, err := j.file.WriteAt(j.open, j.size); err != nil {
		return fmt.Errorf("append to journal %q: %w", j.file.Name(), err)
	}
	j.size += int64(len(j.open))
	if j.open = j.open[:0]; cap(j.open) > 2*flushBytes {
		j.open = nil
	}
	return nil
}

// Block reads the block at an offset that Append or Open gave. Flush must have written the block.
func (j *Journal) Block(at int64) ([]byte, error) {
	content, err := newReader(io.NewSectionReader(j.file, at, j.size-at)).block()
	if err != nil {
		return nil, fmt.Errorf("read journal %q at byte %d: %w", j.file.Name(), at, err)
	}
	return content, nil
}

// FlushMuch calls Flush if the appended blocks take much memory.
func (j *Journal) FlushMuch() error {
	if len(j.open) < flushBytes {
		return nil
	}
	return j.Flush()
}

// Size is the length of the journal, with the blocks that Flush has not written.
func (j *Journal) Size() int64 { return j.size + int64(len(j.open)) }

// Cut is how many bytes Open cut off.
func (j *Journal) Cut() int64 { return j.cut }

// Close closes the file. It does not write the blocks that Flush has not written.
func (j *Journal) Close() error { return j.file.Close() }
