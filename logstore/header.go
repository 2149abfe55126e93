package logstore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// Version is the version of the files that this package writes. The package also reads version 1.
// Files of version 1 do not show whether a log is complete.
const Version = 2

// Header is the header of a log file, before the first block.
type Header struct {
	Node       string // name of the node
	NodeNumber int    // the node's number in the tuple ids that it makes; channel.MaxNode + 1: none
	Epoch      string // name of the counter's epoch

	Channel     channel.Name
	Settings    channel.Settings // settings when the file was begun; Transitions report changes
	Policy      channel.Policy
	Stamp       channel.Stamp
	Incarnation Incarnation
	ProcessID   int    // id of the program's process, for display
	Place       string // where it ran, such as its pod and container, for display; "": not known

	Quantum_cycles   uint64 // step in which the counter moves; 0: unknown
	CoreSlack_cycles uint64 // the most by which the counters of two of the node's cores may differ

	// At some moment between UTCLo_ns and UTCHi_ns, the counter's value was Counter. These two
	// times are in ns since 1970 UTC, by the node's clock.
	Counter  uint64
	UTCLo_ns int64
	UTCHi_ns int64

	Segment  int         // number of the file among the ring's files, from 0
	Part     int         // first segment of the log in this directory, or UnknownPart
	Previous Fingerprint // fingerprint of the previous segment; zero if unknown or none
	// Rewritten is true if the file was made from another file. In this case, Previous of the next
	// segment is the fingerprint of that other file.
	Rewritten bool

	// Continues lists the sequence numbers at which this file begins, after the rows of earlier
	// segments. Kinds and shards that it does not list begin at 0.
	Continues []Place

	version      int   // version of the file from which the header was read
	headerLength int64 // length of the header in that file
}

// UnknownPart is the Part of a file of version 1, and of a file that lost its header.
const UnknownPart = -1

// Place is a position in the rows of a kind in a shard. Next is the sequence number of the next
// row.
type Place struct {
	Kind  Kind
	Shard int
	Next  uint64
}

// stampSlack_cycles returns by how many cycles the stamps in the file may be early or late. The
// field Stamp determines this number; the file contains it only for people who read the header.
func (h *Header) stampSlack_cycles() uint64 { return h.Stamp.OrderingSlack_cycles() }

const (
	headerMagic  = "cloudprofiler-log "
	headerFormat = "compressed" // the word after the version; FORMAT.md lists former words
	headerLimit  = 1 << 16      // in bytes
)

// appendHeader appends the header as lines of text. The last line is the checksum of the lines
// before it.
func appendHeader(dst []byte, h *Header) []byte {
	start := len(dst)
	line := func(key string, format string, args ...any) {
		dst = append(dst, key...)
		dst = append(dst, ' ')
		dst = fmt.Appendf(dst, format, args...)
		dst = append(dst, '\n')
	}
	dst = fmt.Appendf(dst, "%s%d %s\n", headerMagic, Version, headerFormat)
	line("node", "%q", h.Node)
	line("node_number", "%d", h.NodeNumber)
	line("epoch", "%q", h.Epoch)
	line("channel", "%s", h.Channel)
	line("handler", "%d %d %d", h.Settings.Kind, h.Settings.A, h.Settings.B)
	line("policy", "%d", h.Policy)
	line("stamp", "%d", h.Stamp)
	line("incarnation", "%x", h.Incarnation)
	line("process", "%d", h.ProcessID)
	if h.Place != "" {
		line("place", "%q", h.Place)
	}
	line("quantum_cycles", "%d", h.Quantum_cycles)
	line("core_slack_cycles", "%d", h.CoreSlack_cycles)
	line("counter", "%d", h.Counter)
	line("utc_ns", "%d %d", h.UTCLo_ns, h.UTCHi_ns)
	line("segment", "%d", h.Segment)
	if h.Part != UnknownPart {
		line("part", "%d", h.Part)
	}
	if h.Previous != (Fingerprint{}) {
		line("previous", "%s", h.Previous)
	}
	if h.Rewritten {
		line("rewritten", "1")
	}
	for _, p := range h.Continues {
		line("continues", "%s %d %d", p.Kind, p.Shard, p.Next)
	}
	line("#", "handler: %s; full ring: %s; stamp: %s, within %d cycles", h.Settings, h.Policy,
		h.Stamp, h.stampSlack_cycles())
	line("#", "counters are in cycles; row of each kind:")
	for _, info := range kindTable {
		if info.name != "" {
			line("#", "%s: %s", info.name, strings.Join(info.columns, " "))
		}
	}
	return append(append(dst, checksumLine(dst[start:])...), '\n')
}

func checksumLine(text []byte) string { return fmt.Sprintf("crc32c %08x\n", checksum(text)) }

// check returns nil if the header can be written and read back.
func (h *Header) check() error {
	name, err := channel.ParseName(h.Channel.String())
	switch {
	case err != nil:
		return err
	case name != h.Channel:
		return fmt.Errorf("channel name %q does not read back as itself: use channel.ParseName: %w",
			h.Channel, channel.ErrName)
	case h.UTCLo_ns > h.UTCHi_ns:
		return fmt.Errorf("counter read between %d and %d ns of UTC: put the earlier first",
			h.UTCLo_ns, h.UTCHi_ns)
	case h.Segment < 0 || h.ProcessID < 0 || h.NodeNumber < 0 || h.NodeNumber > channel.MaxNode+1:
		return fmt.Errorf("segment %d, process %d, node number %d: out of range", h.Segment,
			h.ProcessID, h.NodeNumber)
	case h.Part < UnknownPart || h.Part > h.Segment:
		return fmt.Errorf("part from segment %d on, in segment %d: out of range", h.Part, h.Segment)
	case !h.Policy.Known() || !h.Stamp.Known():
		return fmt.Errorf("%s and %s: use known ones", h.Policy, h.Stamp)
	case len(appendHeader(nil, h)) > headerLimit:
		return fmt.Errorf("header of %d bytes: shorten the node's or the epoch's name to fit %d",
			len(appendHeader(nil, h)), headerLimit)
	}
	return h.Settings.Validate()
}

// parseHeader parses a header at the front of b. Errors wrap ErrNotLog, ErrVersion, ErrFormat or
// ErrHeader.
func parseHeader(b []byte) (Header, error) {
	b = b[:min(len(b), headerLimit)]
	if len(b) == 0 {
		return Header{}, fmt.Errorf("file is empty: %w", ErrNotLog)
	}
	if !bytes.HasPrefix(b, []byte(headerMagic)) {
		return Header{}, fmt.Errorf("file begins with %q, a log with %q: %w",
			b[:min(len(b), len(headerMagic))], headerMagic, ErrNotLog)
	}
	end := bytes.Index(b, []byte("\n\n"))
	const sumLine = len("crc32c 12345678\n")
	if end < 0 || end+1 < sumLine {
		return Header{}, fmt.Errorf("it has no end within %d bytes: %w", len(b), ErrHeader)
	}
	end++
	text := b[:end-sumLine]
	// In every version, the last line of the header is its checksum, and the first line contains
	// the version. So a header of a newer version can be distinguished from a damaged header.
	if want := checksumLine(text); want != string(b[end-sumLine:end]) {
		return Header{}, fmt.Errorf("it ends with %q, want %q: %w",
			b[end-sumLine:end], want, ErrHeader)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	version, format, _ := strings.Cut(strings.TrimPrefix(lines[0], headerMagic), " ")
	h := Header{Part: UnknownPart, headerLength: int64(end + 1)}
	for h.version = 1; version != strconv.Itoa(h.version); h.version++ {
		if h.version == Version {
			return Header{}, fmt.Errorf("file has version %q, this program reads 1 to %d: %w",
				version, Version, ErrVersion)
		}
	}
	if format != headerFormat {
		return Header{}, fmt.Errorf("file has format %q, this program reads only %q: "+
			"use the cprof that wrote it: %w", format, headerFormat, ErrFormat)
	}
	p := headerParser{}
	for _, line := range lines[1:] {
		p.line(&h, line)
	}
	if p.err == nil {
		p.err = h.check()
	}
	if p.err != nil {
		return Header{}, fmt.Errorf("%w: %w", p.err, ErrHeader)
	}
	return h, nil
}

// headerParser reads values and keeps the first error.
type headerParser struct {
	key   string
	words []string
	err   error
}

// line sets the field of the header that a line describes.
func (p *headerParser) line(h *Header, line string) {
	key, value, _ := strings.Cut(line, " ")
	p.key, p.words = key, strings.Fields(value)
	switch key {
	case "node":
		h.Node = p.quoted(value)
	case "node_number":
		h.NodeNumber = int(p.number(0, math.MaxInt32))
	case "epoch":
		h.Epoch = p.quoted(value)
	case "channel":
		name, err := channel.ParseName(value)
		if h.Channel = name; err != nil {
			p.fail(err)
		}
	case "handler":
		h.Settings = channel.Settings{
			Kind: channel.Kind(p.number(0, math.MaxUint8)), A: p.number(1, math.MaxUint64),
			B: p.number(2, math.MaxUint64),
		}
	case "policy":
		h.Policy = channel.Policy(p.number(0, math.MaxUint8))
	case "stamp":
		h.Stamp = channel.Stamp(p.number(0, math.MaxUint8))
	case "incarnation":
		n, err := hex.Decode(h.Incarnation[:], []byte(value[:min(len(value), 32)]))
		if err != nil || n != 16 {
			p.fail(fmt.Errorf("incarnation %q is not 32 hexadecimal digits", value))
		}
	case "process":
		h.ProcessID = int(p.number(0, math.MaxInt32))
	case "place":
		h.Place = p.quoted(value)
	case "quantum_cycles":
		h.Quantum_cycles = p.number(0, math.MaxUint64)
	case "core_slack_cycles":
		h.CoreSlack_cycles = p.number(0, math.MaxUint64)
	case "counter":
		h.Counter = p.number(0, math.MaxUint64)
	case "utc_ns":
		h.UTCLo_ns, h.UTCHi_ns = p.signed(0), p.signed(1)
	case "segment":
		h.Segment = int(p.number(0, math.MaxInt32))
	case "part":
		h.Part = int(p.number(0, math.MaxInt32))
	case "previous":
		h.Previous = p.fingerprint(value)
	case "rewritten":
		h.Rewritten = p.number(0, 1) == 1
	case "continues":
		if len(p.words) == 0 {
			p.fail(errors.New("continues has no kind"))
			break
		}
		kind, known := parseKind(p.words[0])
		if !known {
			p.fail(fmt.Errorf("continues has an unknown kind %q", p.words[0]))
		}
		h.Continues = append(h.Continues, Place{
			Kind: kind, Shard: int(p.number(1, maxShard)), Next: p.number(2, math.MaxUint64),
		})
	}
	// Lines with other keys are from later programs of the same version. Lines with # are for
	// people.
}

func (p *headerParser) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

func (p *headerParser) number(i int, limit uint64) uint64 {
	if i >= len(p.words) {
		p.fail(fmt.Errorf("%s has %d words", p.key, len(p.words)))
		return 0
	}
	v, err := strconv.ParseUint(p.words[i], 10, 64)
	if err != nil || v > limit {
		p.fail(fmt.Errorf("%s %q is not a number up to %d", p.key, p.words[i], limit))
	}
	return v
}

func (p *headerParser) signed(i int) int64 {
	if i >= len(p.words) {
		p.fail(fmt.Errorf("%s has %d words", p.key, len(p.words)))
		return 0
	}
	v, err := strconv.ParseInt(p.words[i], 10, 64)
	if err != nil {
		p.fail(fmt.Errorf("%s %q is not a number", p.key, p.words[i]))
	}
	return v
}

func (p *headerParser) fingerprint(value string) Fingerprint {
	f, err := parseFingerprint(value)
	if err != nil {
		p.fail(err)
	}
	return f
}

func (p *headerParser) quoted(value string) string {
	s, err := strconv.Unquote(value)
	if err != nil {
		p.fail(fmt.Errorf("%s %s is not in quotes", p.key, value))
	}
	return s
}
