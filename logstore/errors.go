package logstore

import (
	"errors"
	"fmt"
)

var (
	// ErrNotLog is returned for a file that does not begin like a log.
	ErrNotLog = errors.New("not a log file")
	// ErrVersion is returned for a file with an undamaged header of a version that this program
	// does not know.
	ErrVersion = errors.New("unknown log version")
	// ErrFormat is returned for a file with an undamaged header of a format that this program does
	// not read.
	ErrFormat = errors.New("unknown log format")
	// ErrHeader is returned for a file that begins like a log but has a damaged header.
	ErrHeader = errors.New("damaged log header")
	// ErrBytes is returned for bytes at which neither a block nor the end of the log begins.
	ErrBytes = errors.New("bytes that are no block")
	// ErrTorn is returned if the file ends within a block.
	ErrTorn = errors.New("torn block")
	// ErrChecksum is returned for a block if its payload does not match its checksum.
	ErrChecksum = errors.New("bad checksum of a block")
	// ErrPayload is returned for a block if its payload matches its checksum but cannot be decoded.
	ErrPayload = errors.New("block whose payload cannot be decoded")
	// ErrForeign is returned for an undamaged block that belongs to another ring than the file.
	ErrForeign = errors.New("block of another incarnation")
	// ErrIndex is returned if the index at the end of a file contradicts the blocks.
	ErrIndex = errors.New("index contradicts the blocks")
	// ErrSegment is returned for a segment that has the file name of another segment of its log.
	ErrSegment = errors.New("segment of another number")
	// ErrSequence is returned if a caller appends a block that begins before the row that
	// Writer.Next gives.
	ErrSequence = errors.New("block out of sequence")
	// ErrBlock is returned if a caller appends a block that no file can contain.
	ErrBlock = errors.New("bad block")
	// ErrSealed is returned for a write to a sealed file.
	ErrSealed = errors.New("log file is sealed")
	// ErrRemoved is returned if the file to which a Writer appends is no longer at its path.
	ErrRemoved = errors.New("log file was removed")
)

// CorruptionError says which part of a file is damaged, and how. It wraps one of ErrHeader,
// ErrBytes, ErrTorn, ErrChecksum, ErrPayload, ErrForeign, ErrIndex and ErrSegment. The reader can
// continue after the damage.
type CorruptionError struct {
	File   string
	Offset int64 // offset of the first damaged byte
	Length int64 // length of the damage; then comes an undamaged block or the end of the file
	Err    error
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("read log %q: %d bytes at offset %d: %v", e.File, e.Length, e.Offset, e.Err)
}

func (e *CorruptionError) Unwrap() error { return e.Err }
