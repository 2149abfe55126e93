package minrtt

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
)

// This file encodes and decodes the packets that FORMAT.md describes. The number of a kind of
// packet never changes its meaning.

const (
	magic   = "MRTT"
	version = 2

	macSize    = 16
	headerSize = 20
	bodySize   = 56 // bytes of every packet's body; a close has a clock report in addition
	keyOffset  = 58 // where the numbers of secret and prober begin in every packet
	shortSize  = headerSize + bodySize + macSize

	maxBrackets = 4 // number of brackets at each end of a train
	bracketSize = 24
	clockHeader = 12
	clockSize   = clockHeader + 2*maxBrackets*bracketSize
	longSize    = headerSize + bodySize + clockSize + macSize

	nameSize    = 16 // of a shared clock
	longestSize = longSize + nameSize + clockSize

	offersOffset = 74 // of the byte that says whether the answerer reads a shared clock
)

// packetKind is the kind of a packet. An answer has the kind of its probe with the bit answerBit
// set.
type packetKind uint8

const (
	kindOpen  packetKind = 1 // the first packet of a train; its exchange is the warm-up
	kindProbe packetKind = 2
	kindClose packetKind = 3 // fetches the last transmit stamp, and the answerer's clock report

	// kindCloseShared also fetches the answerer's report about a shared clock. It is sent only to
	// an answerer whose answer to an open said that the answerer reads a shared clock.
	kindCloseShared packetKind = 4

	answerBit packetKind = 0x80
)

func (k packetKind) valid() bool {
	probe := k &^ answerBit
	return kindOpen <= probe && probe <= kindCloseShared
}

func (k packetKind) size() int {
	switch k &^ answerBit {
	case kindClose:
		return longSize
	case kindCloseShared:
		return longestSize
	}
	return shortSize
}

// closesTrain reports whether a packet ends a train.
func (k packetKind) closesTrain() bool {
	probe := k &^ answerBit
	return probe == kindClose || probe == kindCloseShared
}

// These errors say why a packet is refused.
var (
	errShort   = errors.New("packet is shorter than its kind demands")
	errLong    = errors.New("packet is longer than its kind demands")
	errForeign = errors.New("packet does not start with the magic")
	errVersion = errors.New("packet is of another version")
	errKind    = errors.New("packet is of an unknown kind")
	errMAC     = errors.New("packet's authentication code does not match")
	errContent = errors.New("packet's content is out of range")
)

// noSequence is the sequence number that means "no packet yet".
const noSequence = 1<<32 - 1

// header contains the fields that packets of all kinds have. A packet begins with them, except for
// the numbers in key, which are stored at keyOffset.
type header struct {
	kind     packetKind
	session  uint64
	sequence uint32
	key      keyID
}

// keyID identifies the key that authenticates a packet.
type keyID struct {
	secret uint64 // number of the answerer's secret
	prober uint64
}

// body contains the fields that only an answer has. In a probe, zeros take their place, so that a
// probe is as long as its answer.
type body struct {
	received stamp // receive stamp of the probe that this packet answers

	// An answer cannot carry its own transmit stamp, so it carries that of the session's previous
	// answer. The field previous is the sequence number of that answer, and the field answered is
	// the stamp of that answer.
	previous uint32
	answered stamp

	offersShared bool // the answerer reads a shared clock
}

// stamp contains one node's readings for one packet.
type stamp struct {
	// counter_cycles is the user stamp: the counter, read before the packet went to the kernel, or
	// after it came from the kernel.
	counter_cycles uint64

	// realtime_ns is the kernel's stamp, a reading of CLOCK_REALTIME. It is 0 if source is not
	// Kernel.
	realtime_ns int64

	source Source
}

// setKernel adds the kernel's stamp to s. A realtime_ns of 0 means that there is none.
func (s *stamp) setKernel(c *Clock, realtime_ns int64) {
	s.source = Missing
	switch {
	case realtime_ns == 0:
	case !c.relates():
		s.source = NoClock
	default:
		if s.realtime_ns = c.kernelStamp(realtime_ns); s.realtime_ns != 0 {
			s.source = Kernel
		}
	}
}

// clockReport is what the answer to a close contains in addition to its body. It suffices to
// convert the session's kernel stamps into readings of the answerer's counter.
type clockReport struct {
	status        clockStatus
	wander_ppb    uint32
	step_ns       uint32 // a reading t means that the clock's exact value was in [t, t + step_ns]
	opening       [maxBrackets]bracket
	closing       [maxBrackets]bracket
	openingLength uint8
	closingLength uint8
}

// packet is a decoded packet of any kind.
type packet struct {
	header
	body
	clock  clockReport
	shared sharedReport
}

// codec writes and reads packets under one key. Only one goroutine at a time may use it.
type codec struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

func newCodec(key []byte) *codec { return &codec{mac: hmac.New(sha256.New, key)} }

// append appends the packet. Only an answer has the fields of body, and only the answer to a close
// has a clock report. In a probe, zeros take their place.
func (c *codec) append(b []byte, p *packet) []byte {
	start := len(b)
	be := binary.BigEndian
	b = append(b, magic...)
	b = append(b, version, byte(p.kind), 0, 0)
	b = be.AppendUint64(b, p.session)
	b = be.AppendUint32(b, p.sequence)
	if p.kind&answerBit == 0 {
		b = append(b, zeros[:keyOffset-headerSize]...)
	} else {
		b = be.AppendUint64(b, p.received.counter_cycles)
		b = be.AppendUint64(b, uint64(p.received.realtime_ns))
		b = be.AppendUint64(b, p.answered.counter_cycles)
		b = be.AppendUint64(b, uint64(p.answered.realtime_ns))
		b = be.AppendUint32(b, p.previous)
		b = append(b, byte(p.received.source), byte(p.answered.source))
	}
	b = be.AppendUint64(b, p.key.secret)
	b = be.AppendUint64(b, p.key.prober)
	b = append(b, flag(p.offersShared), 0)
	switch size := p.kind.size(); {
	case size == shortSize:
	case p.kind&answerBit == 0:
		b = append(b, zeros[:size-shortSize]...)
	default:
		b = appendClock(b, &p.clock)
		if size == longestSize {
			b = append(b, p.shared.name[:]...)
			b = appendClock(b, &p.shared.clock)
		}
	}
	c.authenticate(b[start:])
	return append(b, c.sum[:macSize]...)
}

var zeros [longestSize]byte

func flag(set bool) byte {
	if set {
		return 1
	}
	return 0
}

func appendClock(b []byte, r *clockReport) []byte {
	be := binary.BigEndian
	b = append(b, byte(r.status), r.openingLength, r.closingLength, 0)
	b = be.AppendUint32(b, r.wander_ppb)
	b = be.AppendUint32(b, r.step_ns)
	for _, bs := range [...]*[maxBrackets]bracket{&r.opening, &r.closing} {
		for _, x := range bs {
			b = be.AppendUint64(b, x.before_cycles)
			b = be.AppendUint64(b, uint64(x.realtime_ns))
			b = be.AppendUint64(b, x.after_cycles)
		}
	}
	return b
}

func (c *codec) authenticate(message []byte) {
	c.mac.Reset()
	c.mac.Write(message)
	c.mac.Sum(c.sum[:0])
}

// parse decodes a packet and checks its authentication code.
func (c *codec) parse(b []byte, p *packet) error {
	if err := parseHeader(b, &p.header); err != nil {
		return err
	}
	return c.parseBody(b, p)
}

// parseBody checks the authentication code of a packet and decodes its body. The caller must have
// decoded the header.
func (c *codec) parseBody(b []byte, p *packet) error {
	end := len(b) - macSize
	c.authenticate(b[:end])
	if !hmac.Equal(c.sum[:macSize], b[end:]) {
		return errMAC
	}
	p.body, p.clock, p.shared = body{}, clockReport{}, sharedReport{}
	if p.kind&answerBit == 0 {
		return nil
	}
	be := binary.BigEndian
	m := b[headerSize:end]
	p.received.counter_cycles = be.Uint64(m)
	p.received.realtime_ns = int64(be.Uint64(m[8:]))
	p.answered.counter_cycles = be.Uint64(m[16:])
	p.answered.realtime_ns = int64(be.Uint64(m[24:]))
	p.previous = be.Uint32(m[32:])
	p.received.source = Source(m[36])
	p.answered.source = Source(m[37])
	if !p.received.valid() || !p.answered.valid() {
		return errContent
	}
	p.offersShared = b[offersOffset] == 1
	if len(b) == shortSize {
		return nil
	}
	if err := parseClock(m[bodySize:], &p.clock); err != nil || len(b) == longSize {
		return err
	}
	m = m[bodySize+clockSize:]
	copy(p.shared.name[:], m)
	return parseClock(m[nameSize:], &p.shared.clock)
}

func (s stamp) valid() bool {
	return s.source < sources && (s.source == Kernel) == (s.realtime_ns != 0)
}

func parseClock(m []byte, r *clockReport) error {
	be := binary.BigEndian
	r.status, r.openingLength, r.closingLength = clockStatus(m[0]), m[1], m[2]
	r.wander_ppb, r.step_ns = be.Uint32(m[4:]), be.Uint32(m[8:])
	if r.openingLength > maxBrackets || r.closingLength > maxBrackets || r.status >= clockStatuses {
		return errContent
	}
	m = m[clockHeader:]
	for _, bs := range [...]*[maxBrackets]bracket{&r.opening, &r.closing} {
		for i := range bs {
			bs[i] = bracket{be.Uint64(m), int64(be.Uint64(m[8:])), be.Uint64(m[16:])}
			m = m[bracketSize:]
		}
	}
	return nil
}

// parseHeader decodes the header and checks that the packet has the length of its kind. It does not
// check the authentication code.
func parseHeader(b []byte, h *header) error {
	switch {
	case len(b) < len(magic) || string(b[:len(magic)]) != magic:
		return errForeign
	case len(b) < headerSize:
		return errShort
	case b[4] != version:
		return errVersion
	}
	h.kind = packetKind(b[5])
	h.session = binary.BigEndian.Uint64(b[8:])
	h.sequence = binary.BigEndian.Uint32(b[16:])
	switch {
	case !h.kind.valid():
		return errKind
	case len(b) < h.kind.size():
		return errShort
	case len(b) > h.kind.size():
		return errLong
	}
	h.key.secret = binary.BigEndian.Uint64(b[keyOffset:])
	h.key.prober = binary.BigEndian.Uint64(b[keyOffset+8:])
	return nil
}

// sentHeader decodes the header of a packet that this end sent. The packet is the end of b; other
// bytes may precede it.
func sentHeader(b []byte, h *header) bool {
	for _, size := range [...]int{shortSize, longSize, longestSize} {
		if len(b) >= size && parseHeader(b[len(b)-size:], h) == nil {
			return true
		}
	}
	return false
}
