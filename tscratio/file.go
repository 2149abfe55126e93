package tscratio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
	"unicode/utf8"
)

// FORMAT.md describes the format in which pairs are stored.

var (
	// ErrNotPair is returned for data that do not begin with the magic of a stored pair.
	ErrNotPair = errors.New("not a stored pair")

	// ErrVersion is returned for a stored pair of a version that this code does not know.
	ErrVersion = errors.New("unknown version")

	// ErrTorn is returned for a stored pair if its end is missing.
	ErrTorn = errors.New("torn")

	// ErrChecksum is returned if the checksum of a block does not match its bytes.
	ErrChecksum = errors.New("checksum does not match")

	// ErrMalformed is returned for data that Encode never writes.
	ErrMalformed = errors.New("malformed")
)

const (
	fileMagic    = "CPRELATE"
	fileVersion  = 3
	packetsAlone = 2 // its trains rest on packets alone
	firstVersion = 1 // its trains lack the counts of constraints and stamps, too

	blockHeader = 1
	blockTrain  = 2
	blockEnd    = 3

	// maxBlockBytes leaves room for more than the longest useful train.
	maxBlockBytes = 1 << 26
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the pair in its stored form, which contains everything that Relate needs.
func (p *Pair) Encode() []byte {
	out := append(make([]byte, 0, p.EncodedBytes()), fileMagic...)
	version := p.version()
	out = binary.LittleEndian.AppendUint32(out, version)
	out = appendBlock(out, p.appendHeader)
	for i := range p.trains {
		out = appendBlock(out, func(b []byte) []byte { return p.trains[i].append(b, version) })
	}
	return appendBlock(out, func(b []byte) []byte {
		return binary.LittleEndian.AppendUint64(append(b, blockEnd), uint64(len(p.trains)))
	})
}

// version returns the lowest version that can store the pair. So a program that does not know
// shared clocks can still read a pair that used none.
func (p *Pair) version() uint32 {
	for i := range p.trains {
		if p.trains[i].stamps.Shared > 0 {
			return fileVersion
		}
	}
	return packetsAlone
}

// appendBlock appends a block whose payload the function appends.
func appendBlock(out []byte, payload func([]byte) []byte) []byte {
	const length = 4 // bytes
	start := len(out)
	out = payload(append(out, make([]byte, length)...))
	binary.LittleEndian.PutUint32(out[start:], uint32(len(out)-start-length))
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out[start:], castagnoli))
}

func (p *Pair) appendHeader(b []byte) []byte {
	b = append(b, blockHeader)
	for _, n := range []Node{p.A, p.B} {
		for _, s := range []string{n.Name, n.Epoch} {
			b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
			b = append(b, s...)
		}
		b = appendUint64s(b, n.Nominal_hz, n.Quantum_cycles, n.CoreSlack_cycles)
	}
	d := p.Declared
	return appendUint64s(b, uint64(d.Wander), uint64(d.Window), uint64(d.ExtrapolationLimit),
		uint64(d.MaxWander))
}

func (t *train) append(b []byte, version uint32) []byte {
	whole := byte(0)
	if t.whole {
		whole = 1
	}
	b = append(b, blockTrain, byte(t.by), whole)
	for _, n := range []uint32{t.exchanges, t.gathered, t.stamps.Kernel, t.stamps.User} {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	if version > packetsAlone {
		b = binary.LittleEndian.AppendUint32(b, t.stamps.Shared)
	}
	b = appendUint64s(b, t.b.Lo, t.b.Hi, t.a.Lo, t.a.Hi)
	if t.whole {
		for _, s := range []Interval{t.best.Sent, t.best.Received, t.best.Answered,
			t.best.Returned} {
			b = appendUint64s(b, s.Lo, s.Hi)
		}
	}
	for _, rs := range [][]reading{t.lower, t.upper} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(rs)))
		for _, r := range rs {
			b = appendUint64s(b, r.b, r.a)
		}
	}
	return b
}

func appendUint64s(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// DecodePair decodes what Encode returned. An error wraps ErrNotPair, ErrVersion, ErrTorn,
// ErrChecksum or ErrMalformed. If a block is damaged, the error gives the byte at which the block
// begins. To refuse a pair of another epoch, call CheckEpochs on the result.
func DecodePair(data []byte) (*Pair, error) {
	if !bytes.HasPrefix(data, []byte(fileMagic)) {
		if len(data) < len(fileMagic) && bytes.HasPrefix([]byte(fileMagic), data) {
			return nil, fmt.Errorf("decode pair: %d bytes: %w", len(data), ErrTorn)
		}
		return nil, fmt.Errorf("decode pair: begins with %.8q: %w", data, ErrNotPair)
	}
	d := decoder{data: data, at: len(fileMagic)}
	if len(data) < d.at+4 {
		return nil, fmt.Errorf("decode pair: %d bytes: %w", len(data), ErrTorn)
	}
	d.version = binary.LittleEndian.Uint32(data[d.at:])
	if d.version < firstVersion || d.version > fileVersion {
		return nil, fmt.Errorf("decode pair: version %d, this program knows %d to %d: %w",
			d.version, firstVersion, fileVersion, ErrVersion)
	}
	d.at += 4
	p, err := d.pair()
	if err != nil {
		return nil, fmt.Errorf("decode pair: block at byte %d of %d: %w", d.at, len(data), err)
	}
	return p, nil
}

// decoder reads the blocks of a file. The current block begins at data[at].
type decoder struct {
	data    []byte
	at      int
	version uint32
}

// block returns the payload of the block at d.at, and the offset of the next block.
func (d *decoder) block() (payload fields, next int, err error) {
	rest := d.data[d.at:]
	if len(rest) < 4 {
		return nil, 0, ErrTorn
	}
	n := binary.LittleEndian.Uint32(rest)
	if n > maxBlockBytes {
		return nil, 0, fmt.Errorf("length of %d bytes is above %d: %w",
			n, maxBlockBytes, ErrMalformed)
	}
	if uint64(len(rest)) < uint64(n)+8 {
		return nil, 0, ErrTorn
	}
	sum := crc32.Checksum(rest[:4+n], castagnoli)
	if sum != binary.LittleEndian.Uint32(rest[4+n:]) {
		return nil, 0, ErrChecksum
	}
	return fields(rest[4 : 4+n]), d.at + 8 + int(n), nil
}

func (d *decoder) pair() (*Pair, error) {
	f, next, err := d.block()
	if err != nil {
		return nil, err
	}
	p, err := decodeHeader(f)
	if err != nil {
		return nil, err
	}
	for {
		d.at = next
		if f, next, err = d.block(); err != nil {
			return nil, err
		}
		var kind uint8
		if !f.uint8(&kind) {
			return nil, fmt.Errorf("empty block: %w", ErrMalformed)
		}
		switch kind {
		case blockTrain:
			t, err := decodeTrain(f, d.version)
			if err != nil {
				return nil, err
			}
			if err := p.checkTrain(&t); err != nil {
				return nil, err
			}
			p.trains = append(p.trains, t)
		case blockEnd:
			var n uint64
			switch {
			case !f.uint64s(&n) || len(f) > 0:
				return nil, fmt.Errorf("end block of the wrong length: %w", ErrMalformed)
			case n != uint64(len(p.trains)):
				return nil, fmt.Errorf("%d trains, but the end block counts %d: %w",
					len(p.trains), n, ErrMalformed)
			case next != len(d.data):
				return nil, fmt.Errorf("%d bytes after the end block: %w",
					len(d.data)-next, ErrMalformed)
			}
			return p, nil
		default:
			return nil, fmt.Errorf("block of kind %d: %w", kind, ErrMalformed)
		}
	}
}

func decodeHeader(f fields) (*Pair, error) {
	var kind uint8
	var p Pair
	var wander, window, limit, maxWander uint64
	ok := f.uint8(&kind) &&
		f.node(&p.A) && f.node(&p.B) &&
		f.uint64s(&wander, &window, &limit, &maxWander)
	if !ok || kind != blockHeader || len(f) > 0 {
		return nil, fmt.Errorf("header: %w", ErrMalformed)
	}
	p.Declared = Assumptions{Wander(wander), time.Duration(window), time.Duration(limit),
		Wander(maxWander)}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("header: %w: %w", err, ErrMalformed)
	}
	return &p, nil
}

func decodeTrain(f fields, version uint32) (train, error) {
	var t train
	var by, whole uint8
	ok := f.uint8(&by) && f.uint8(&whole) && f.uint32(&t.exchanges)
	if version > firstVersion {
		ok = ok && f.uint32(&t.gathered) && f.uint32(&t.stamps.Kernel) && f.uint32(&t.stamps.User)
	}
	if version > packetsAlone {
		ok = ok && f.uint32(&t.stamps.Shared)
	}
	ok = ok &&
		f.uint64s(&t.b.Lo, &t.b.Hi, &t.a.Lo, &t.a.Hi) &&
		by <= uint8(StartedByB) && whole <= 1
	t.by, t.whole = Starter(by), whole == 1
	if ok && t.whole {
		e := &t.best
		ok = f.uint64s(&e.Sent.Lo, &e.Sent.Hi, &e.Received.Lo, &e.Received.Hi, &e.Answered.Lo,
			&e.Answered.Hi, &e.Returned.Lo, &e.Returned.Hi)
	}
	ok = ok && f.readings(&t.lower) && f.readings(&t.upper)
	if !ok || len(f) > 0 {
		return train{}, fmt.Errorf("train: %w", ErrMalformed)
	}
	return t, nil
}

// checkTrain returns an error for a train t that Add cannot have made, whether or not Prune was
// called afterwards.
func (p *Pair) checkTrain(t *train) error {
	if len(t.lower)+len(t.upper) == 0 {
		return fmt.Errorf("train without constraints: %w", ErrMalformed)
	}
	if w := p.B.cycles(p.Declared.Window); !t.b.Valid() || !t.a.Valid() || t.b.Width() > w/2 {
		return fmt.Errorf("train from %v to %v with a window of %d cycles: %w",
			t.b, t.a, w, ErrMalformed)
	}
	for _, rs := range [][]reading{t.lower, t.upper} {
		for i, r := range rs {
			if !t.b.Contains(r.b) || !t.a.Contains(r.a) ||
				i > 0 && compareReadings(rs[i-1], r) >= 0 {
				return fmt.Errorf("train with reading %d out of order or place: %w",
					i, ErrMalformed)
			}
		}
	}
	if t.whole {
		starter, answerer := p.A, p.B
		if t.by == StartedByB {
			starter, answerer = p.B, p.A
		}
		if err := t.best.Check(starter.CoreSlack_cycles, answerer.CoreSlack_cycles); err != nil {
			return fmt.Errorf("train: %w: %w", err, ErrMalformed)
		}
	}
	if t.gathered > 0 && uint64(t.gathered) < uint64(len(t.lower)+len(t.upper)) {
		return fmt.Errorf("train of %d constraints that had %d: %w",
			len(t.lower)+len(t.upper), t.gathered, ErrMalformed)
	}
	if t.whole != (t.exchanges > 0) {
		return fmt.Errorf("train of %d exchanges: %w", t.exchanges, ErrMalformed)
	}
	return nil
}

// fields is the part of a payload that is not yet decoded. Each method removes one field from the
// front and reports whether the field was there.
type fields []byte

func (f *fields) take(n int) []byte {
	if n > len(*f) {
		return nil
	}
	b := (*f)[:n]
	*f = (*f)[n:]
	return b
}

func (f *fields) uint8(v *uint8) bool {
	b := f.take(1)
	if b == nil {
		return false
	}
	*v = b[0]
	return true
}

func (f *fields) uint32(v *uint32) bool {
	b := f.take(4)
	if b == nil {
		return false
	}
	*v = binary.LittleEndian.Uint32(b)
	return true
}

func (f *fields) uint64s(vs ...*uint64) bool {
	for _, v := range vs {
		b := f.take(8)
		if b == nil {
			return false
		}
		*v = binary.LittleEndian.Uint64(b)
	}
	return true
}

func (f *fields) string(v *string) bool {
	b := f.take(2)
	if b == nil {
		return false
	}
	n := int(binary.LittleEndian.Uint16(b))
	if n > len(*f) {
		return false
	}
	*v = string(f.take(n))
	return utf8.ValidString(*v)
}

func (f *fields) node(n *Node) bool {
	return f.string(&n.Name) && f.string(&n.Epoch) &&
		f.uint64s(&n.Nominal_hz, &n.Quantum_cycles, &n.CoreSlack_cycles)
}

func (f *fields) readings(v *[]reading) bool {
	var n uint32
	if !f.uint32(&n) || uint64(n)*16 > uint64(len(*f)) {
		return false
	}
	for range n {
		var r reading
		f.uint64s(&r.b, &r.a)
		*v = append(*v, r)
	}
	return true
}
