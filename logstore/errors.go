package logstore

import (
	"errors"
	"fmt"
)

var (
	// ErrNotLog is returned when a file does not begin as a log does.
	ErrNotLog = errors.New("not a log file")
	// ErrVersion is returned when a file's header is whole and of a version that this program does not know.
	ErrVersion = errors.New("unknown log version")
	// ErrHeader is returned when a file begins as a log does and its header is damaged.
	ErrHeader = errors.New("damaged log header")
	// ErrBytes is returned for bytes where neither a block nor the end of the log begins.
	ErrBytes = errors.New("bytes that are no block")
	// ErrTorn is returned for a block that the file ends in.
	ErrTorn = errors.New("torn block")
	// ErrChecksum is returned for a block whose payload does not have its checksum.
	ErrChecksum = errors.New("bad checksum of a block")
	// ErrPayload is returned for a block whose payload has its checksum and still is none.
	ErrPayload = errors.New("senseless payload of a block")
	// ErrForeign is returned for a whole block of another ring than the file's.
	ErrForeign = errors.New("block of a foreign incarnation")
	// ErrIndex is returned when the index at the end of a file contradicts the blocks.
	ErrIndex = errors.New("index contradicts the blocks")
	// ErrSegment is returned for a file that bears the name of another segment of its log.
	ErrSegment = errors.New("segment of another number")
	// ErrSequence is returned when a block is appended that repeats or goes behind the rows before it.
	ErrSequence = errors.New("block out of sequence")
	// ErrBlock is returned when a block is appended that no file can hold.
	ErrBlock = errors.New("bad block")
	// ErrSealed is returned when a sealed file is to be written on.
	ErrSealed = errors.New("log file is sealed")
	// ErrRemoved is returned when the file that a Writer appends to is no longer at its path.
	ErrRemoved = errors.New("log file was removed")
)

// CorruptionError says that a stretch of a file is damaged, where, and in which way: it wraps one
// of ErrHeader, ErrBytes, ErrTorn, ErrChecksum, ErrPayload, ErrForeign, ErrIndex and ErrSegment.
// Reading can go on behind it.
type CorruptionError struct {
	File   string
	Offset int64 // of the first damaged byte
	Length int64 // of the damage; behind it lies a whole block, or the end
	Err    error
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("read log %q: %d bytes at offset %d: %v", e.File, e.Length, e.Offset, e.Err)
}

func (e *CorruptionError) Unwrap() error { return e.Err }
