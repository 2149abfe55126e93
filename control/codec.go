package control

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"unicode/utf8"
)

// Version is the version of the messages. Two ends understand each other if their major versions
// are equal and their minor versions differ by at most one. The older end skips new fields and
// refuses new kinds. FORMAT.md lists what each version added.
type Version struct{ Major, Minor uint8 }

// Current is the version that this program speaks.
var Current = Version{2, 2}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Understands reports whether two ends with these versions understand each other.
func (v Version) Understands(w Version) bool {
	return v.Major == w.Major && max(v.Minor, w.Minor)-min(v.Minor, w.Minor) <= 1
}

var (
	// ErrMessage is returned if the received frames do not form a valid message.
	ErrMessage = errors.New("not a message")

	// ErrVersion is returned for a message of a version that this program does not understand.
	ErrVersion = errors.New("version too far apart")

	// ErrKind is returned for a message of a kind that this program does not know. A program with a
	// newer minor version may know it.
	ErrKind = errors.New("unknown kind")

	// ErrTooLarge is returned for a message longer than MaxMessageBytes.
	ErrTooLarge = errors.New("message too large")
)

const (
	magic       = "CPCT"
	headerBytes = 16
)

// header is the content of a message's first frame.
type header struct {
	version Version
	kind    Kind
	request uint64
}

func (h header) encode() []byte {
	b := make([]byte, 0, headerBytes)
	b = append(b, magic...)
	b = append(b, h.version.Major, h.version.Minor)
	b = binary.BigEndian.AppendUint16(b, uint16(h.kind))
	return binary.BigEndian.AppendUint64(b, h.request)
}

func decodeHeader(b []byte) (h header, err error) {
	if len(b) < headerBytes || string(b[:4]) != magic {
		return h, fmt.Errorf("%w: want a header of %d bytes that begins with %q",
			ErrMessage, headerBytes, magic)
	}
	h.version = Version{b[4], b[5]}
	h.kind = Kind(binary.BigEndian.Uint16(b[6:]))
	h.request = binary.BigEndian.Uint64(b[8:])
	return h, nil
}

// Encode returns the frames of a message. The parameter request is the number of the request: the
// sender of a request chooses this number, and the answer repeats it. If every receiver would
// refuse the message, Encode returns an error with the reason.
func Encode(m Message, request uint64) ([][]byte, error) { return encode(m, request, Current) }

func encode(m Message, request uint64, speaks Version) ([][]byte, error) {
	if chunk, ok := m.(*Chunk); ok {
		chunk.CRC32C = crc32.Checksum(chunk.Data, castagnoli)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("send %s: %w", m.Kind(), err)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("send %s: %w", m.Kind(), err)
	}
	frames := [][]byte{header{speaks, m.Kind(), request}.encode(), body}
	if b, ok := m.(bulkMessage); ok {
		frames = append(frames, b.bulk())
	}
	if n := size(frames); n > MaxMessageBytes {
		return nil, fmt.Errorf("send %s: %w: %d bytes, more than %d",
			m.Kind(), ErrTooLarge, n, MaxMessageBytes)
	}
	return frames, nil
}

func size(frames [][]byte) (n int) {
	for _, f := range frames {
		n += len(f)
	}
	return n
}

// Decode decodes the frames of a message. An error wraps ErrMessage, ErrVersion, ErrKind or
// ErrTooLarge. If the header is readable, Decode returns the request's number even with an error,
// so that the caller can answer with a Refusal. The message shares memory with the frames.
func Decode(frames [][]byte) (m Message, request uint64, err error) {
	return decode(frames, Current)
}

func decode(frames [][]byte, speaks Version) (Message, uint64, error) {
	if n := size(frames); n > MaxMessageBytes {
		return nil, 0, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, n, MaxMessageBytes)
	}
	if len(frames) < 2 {
		return nil, 0, fmt.Errorf("%w: %d frames, want 2 or more", ErrMessage, len(frames))
	}
	h, err := decodeHeader(frames[0])
	if err != nil {
		return nil, 0, err
	}
	// Every version understands a refusal. Otherwise neither end could tell the other that their
	// versions differ too much.
	if !speaks.Understands(h.version) && h.kind != KindRefusal {
		return nil, h.request, fmt.Errorf(
			"%w: the other end speaks %s, this one %s: "+
				"bring both to one version, or to neighbouring ones",
			ErrVersion, h.version, speaks)
	}
	known, ok := kinds[h.kind]
	if !ok {
		return nil, h.request, fmt.Errorf("%w %d", ErrKind, uint16(h.kind))
	}
	m := known.make()
	malformed := func(err error) (Message, uint64, error) {
		return nil, h.request, fmt.Errorf("%w: %s: %w", ErrMessage, h.kind, err)
	}
	if !utf8.Valid(frames[1]) {
		return malformed(errors.New("text is not UTF-8"))
	}
	if err := json.Unmarshal(frames[1], m); err != nil {
		return malformed(err)
	}
	// Go's JSON decoder would accept "null" for a struct.
	if first := bytes.TrimLeft(frames[1], " \t\r\n"); first[0] != '{' {
		return malformed(fmt.Errorf("body begins with %q", first[0]))
	}
	if b, ok := m.(bulkMessage); ok {
		if len(frames) < 3 {
			return malformed(errors.New("third frame is missing"))
		}
		if err := b.setBulk(frames[2]); err != nil {
			return malformed(err)
		}
	}
	if err := m.check(); err != nil {
		return malformed(err)
	}
	return m, h.request, nil
}

func (m *Table) bulk() []byte           { return m.Text }
func (m *Table) setBulk(b []byte) error { m.Text = b; return nil }
func (m *Chunk) bulk() []byte           { return m.Data }

func (m *Chunk) setBulk(b []byte) error {
	if len(b) > MaxChunkBytes {
		return fmt.Errorf("chunk of %d bytes, more than %d", len(b), MaxChunkBytes)
	}
	if sum := crc32.Checksum(b, castagnoli); sum != m.CRC32C {
		return fmt.Errorf("checksum of data is %08x, not %08x", sum, m.CRC32C)
	}
	m.Data = b
	return nil
}

// MaxAnswerBytes is the largest length of an Answer's result before compression.
const MaxAnswerBytes = 64 << 20

// compressors keeps compressors for reuse. A compressor uses a megabyte of memory, but most answers
// have only a hundred bytes.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // no error: the level is valid
	return w
}}

func (m *Answer) bulk() []byte {
	var b bytes.Buffer // writes to it never fail
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&b)
	w.Write(m.Result)
	w.Close()
	return b.Bytes()
}

func (m *Answer) setBulk(b []byte) error {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("result: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxAnswerBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("result: %w", err)
	case len(text) > MaxAnswerBytes:
		return fmt.Errorf("result of more than %d bytes", MaxAnswerBytes)
	case len(text) > 0 && !json.Valid(text):
		return errors.New("result is not JSON")
	}
	m.Result = text
	return nil
}
