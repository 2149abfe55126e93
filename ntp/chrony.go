package ntp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"
)

// DefaultAddress is the address at which chronyd answers programs on the same machine, unless its
// configuration contains "cmdport 0".
const DefaultAddress = "127.0.0.1:323"

var (
	// ErrNoDaemon is returned if no daemon answers.
	ErrNoDaemon = errors.New("no chrony daemon answers")
	// ErrReply is returned for an answer that violates chrony's protocol.
	ErrReply = errors.New("not a chrony reply")
	// ErrRefused is returned if the daemon refuses to answer.
	ErrRefused = errors.New("chrony refuses")
)

// These are constants of chrony's command protocol, version 6, as in candm.h of chrony's source.
// The protocol's numbers are in network byte order. The only command used is "tracking", which any
// user of the machine may send.
const (
	protocolVersion = 6
	packetRequest   = 1
	packetReply     = 2
	commandTracking = 33
	replyTracking   = 5

	replyHeader   = 28
	trackingBytes = 76
	// Requests and replies have the same length. If requests were shorter, somebody could send them
	// in the name of a victim, and the daemon would send the victim more bytes than it had
	// received.
	packetBytes = replyHeader + trackingBytes
)

const (
	maxAttempts = 3
	maxWait     = time.Second // time for all attempts together, unless the context ends sooner
)

// Ask asks the chrony daemon at an address for its present claim. An empty address means
// DefaultAddress. Errors wrap ErrNoDaemon, ErrReply, ErrRefused or the context's error.
func Ask(ctx context.Context, address string) (Claim, error) {
	if address == "" {
		address = DefaultAddress
	}
	claim, err := ask(ctx, address)
	if err != nil {
		return Claim{}, fmt.Errorf("ask chrony at %q: %w", address, err)
	}
	return claim, nil
}

func ask(ctx context.Context, address string) (Claim, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "udp", address)
	if err != nil {
		return Claim{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(0, 1)) })
	defer stop()
	sequence := rand.Uint32()
	var reason error
	for attempt := range maxAttempts {
		if err := ctx.Err(); err != nil {
			break
		}
		if _, err := conn.Write(request(sequence, attempt)); err != nil {
			reason = err // no daemon is there: this error came back for an earlier packet
			continue
		}
		conn.SetReadDeadline(time.Now().Add(maxWait / maxAttempts))
		if ctx.Err() != nil { // SetReadDeadline may have replaced the deadline that ctx set
			break
		}
		var b [2 * packetBytes]byte
		n, err := conn.Read(b[:])
		if err != nil {
			reason = err
			continue
		}
		return decode(b[:n], sequence)
	}
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return Claim{}, err
	}
	return Claim{}, fmt.Errorf("%w: %w: start chronyd, or let it answer (cmdport)",
		reason, ErrNoDaemon)
}

func request(sequence uint32, attempt int) []byte {
	b := make([]byte, packetBytes)
	b[0], b[1] = protocolVersion, packetRequest
	binary.BigEndian.PutUint16(b[4:], commandTracking)
	binary.BigEndian.PutUint16(b[6:], uint16(attempt))
	binary.BigEndian.PutUint32(b[8:], sequence)
	return b
}

// decode decodes a reply to the command "tracking".
func decode(b []byte, sequence uint32) (Claim, error) {
	if len(b) < replyHeader || b[1] != packetReply {
		return Claim{}, fmt.Errorf("%d bytes: %w", len(b), ErrReply)
	}
	if b[0] != protocolVersion {
		return Claim{}, fmt.Errorf("protocol version %d, this program knows %d: %w",
			b[0], protocolVersion, ErrReply)
	}
	command, got := binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint32(b[16:])
	if command != commandTracking || got != sequence {
		return Claim{}, fmt.Errorf("command %d, sequence %d: it answers another request: %w",
			command, got, ErrReply)
	}
	if status := binary.BigEndian.Uint16(b[8:]); status != 0 {
		return Claim{}, fmt.Errorf("status %d: %w", status, ErrRefused)
	}
	if reply := binary.BigEndian.Uint16(b[6:]); reply != replyTracking || len(b) < packetBytes {
		return Claim{}, fmt.Errorf("reply %d of %d bytes: %w", reply, len(b), ErrReply)
	}
	b = b[replyHeader:]
	word := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	c := Claim{
		ReferenceID: uint64(word(0)),
		Source:      decodeAddress(b[4:24]),
		Stratum:     uint64(binary.BigEndian.Uint16(b[24:])),
		Leap:        Leap(binary.BigEndian.Uint16(b[26:])),
		Updated:     decodeTime(word(28), word(32), word(36)),
	}
	var err error
	number := func(at int, scale float64, round func(float64) float64) float64 {
		v := round(decodeFloat(word(at)) * scale)
		if math.Abs(v) >= 1<<63 && err == nil {
			err = fmt.Errorf("number %g at byte %d: %w", v, at, ErrReply)
		}
		return v
	}
	positive := func(at int, scale float64) uint64 {
		v := number(at, scale, math.Ceil)
		if v < 0 && err == nil {
			err = fmt.Errorf("number %g at byte %d is negative: %w", v, at, ErrReply)
		}
		return uint64(max(v, 0))
	}
	// The offset is rounded away from zero, and the other values are rounded up. So a bound may
	// become wider, but never narrower.
	outward := func(v float64) float64 { return math.Copysign(math.Ceil(math.Abs(v)), v) }
	c.Offset_ns = int64(number(40, 1e9, outward))
	c.Frequency_ppt = int64(number(52, 1e6, math.Round))
	c.Skew_ppt = positive(60, 1e6)
	c.RootDelay_ns = positive(64, 1e9)
	c.RootDispersion_ns = positive(68, 1e9)
	if err != nil {
		return Claim{}, err
	}
	return c, nil
}

// decodeFloat decodes a 32-bit number of chrony's: 7 bits of exponent above 25 bits of coefficient,
// both signed.
func decodeFloat(w uint32) float64 {
	exponent := int(int32(w) >> 25)
	coefficient := int32(w<<7) >> 7
	return math.Ldexp(float64(coefficient), exponent-25)
}

// decodeAddress decodes an address of chrony's: 16 bytes, and then the address family. IPv4 uses
// the first 4 bytes.
func decodeAddress(b []byte) netip.Addr {
	switch binary.BigEndian.Uint16(b[16:]) {
	case 1:
		return netip.AddrFrom4([4]byte(b[:4]))
	case 2:
		return netip.AddrFrom16([16]byte(b[:16]))
	}
	return netip.Addr{}
}

// decodeTime decodes a time of chrony's: seconds in two words, and nanoseconds. The value
// 0x7fffffff of the upper word means that only the lower word is used.
func decodeTime(high, low, nsec uint32) time.Time {
	if high == 0x7fffffff {
		high = 0 // the daemon's seconds have only 32 bits
	}
	if high == 0 && low == 0 || nsec >= 1e9 {
		return time.Time{}
	}
	return time.Unix(int64(uint64(high)<<32|uint64(low)), int64(nsec)).UTC()
}
