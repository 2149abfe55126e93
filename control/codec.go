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

// Version is that of the messages. Ends whose minor versions are at most one apart understand each other: a field or kind
// that is new is passed over by the older one. FORMAT.md says what each version brought.
type Version struct{ Major, Minor uint8 }

// Current is what this program speaks.
var Current = Version{2, 0}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Understands says whether ends of two versions understand each other.
func (v Version) Understands(w Version) bool {
	return v.Major == w.Major && max(v.Minor, w.Minor)-min(v.Minor, w.Minor) <= 1
}

var (
	// ErrMessage is returned for frames that are no message.
	ErrMessage = errors.New("no message")

	// ErrVersion is returned for a message of a version that this program does not understand.
	ErrVersion = errors.New("version too far apart")

	// ErrKind is returned for a message of a kind that this program does not know. One of a newer minor version may.
	ErrKind = errors.New("unknown kind")

	// ErrTooLarge is returned for a message longer than MaxMessageBytes.
	ErrTooLarge = errors.New("message too large")
)

const (
	magic       = "CPCT"
	headerBytes = 16
)

// header is the first frame.
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
		return h, fmt.Errorf("%w: does not begin with a header of %d bytes and %q", ErrMessage, headerBytes, magic)
	}
	h.version = Version{b[4], b[5]}
	h.kind = Kind(binary.BigEndian.Uint16(b[6:]))
	h.request = binary.BigEndian.Uint64(b[8:])
	return h, nil
}

// Encode returns the frames of a message. The request's number is the sender's to choose; its answer repeats it. An error says why
// the message is one that nobody would take.
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
	if b, ok := m.(bulky); ok {
		frames = append(frames, b.bulk())
	}
	if n := size(frames); n > MaxMessageBytes {
		return nil, fmt.Errorf("send %s: %w: %d bytes, at most %d are taken", m.Kind(), ErrTooLarge, n, MaxMessageBytes)
	}
	return frames, nil
}

func size(frames [][]byte) (n int) {
	for _, f := range frames {
		n += len(f)
	}
	return n
}

// Decode returns the message of some frames. An error wraps ErrMessage, ErrVersion, ErrKind or ErrTooLarge; the request's number
// holds with all but the first, so that a Refusal can answer it. The message shares memory with the frames.
func Decode(frames [][]byte) (m Message, request uint64, err error) { return decode(frames, Current) }

func decode(frames [][]byte, speaks Version) (Message, uint64, error) {
	if n := size(frames); n > MaxMessageBytes {
		return nil, 0, fmt.Errorf("%w: %d bytes, at most %d are taken", ErrTooLarge, n, MaxMessageBytes)
	}
	if len(frames) < 2 {
		return nil, 0, fmt.Errorf("%w: %d frames", ErrMessage, len(frames))
	}
	h, err := decodeHeader(frames[0])
	if err != nil {
		return nil, 0, err
	}
	// A refusal is understood in every version: otherwise nobody could say that versions differ.
	if !speaks.Understands(h.version) && h.kind != KindRefusal {
		return nil, h.request, fmt.Errorf("%w: the other end speaks %s, this one %s: bring both to one version, or to neighbouring ones",
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
	if first := bytes.TrimLeft(frames[1], " \t\r\n"); first[0] != '{' { // "null" is valid JSON for a struct
		return malformed(fmt.Errorf("body begins with %q", first[0]))
	}
	if b, ok := m.(bulky); ok {
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

// MaxAnswerBytes is how long an Answer's result may be, before it is compressed.
const MaxAnswerBytes = 64 << 20

// compressors are kept because each takes a megabyte, of which most answers need a hundred bytes.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is a valid one
	return w
}}

func (m *Answer) bulk() []byte {
	var b bytes.Buffer // takes everything
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
		return errors.New("result is no JSON")
	}
	m.Result = text
	return nil
}
