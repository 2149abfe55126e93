package logstore

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// textWordBytes is the most bytes that a word takes in a text file: 20 digits and a separator.
const textWordBytes = 21

// blockLineLimit is the most bytes that the line before a block's rows takes.
const blockLineLimit = 320

// appendText appends a line for each row.
func appendText(dst []byte, kind Kind, words []uint64) []byte {
	columns := kindTable[kind].columns
	for len(words) > 0 {
		for c, info := range columns {
			if c > 0 {
				dst = append(dst, ' ')
			}
			if info.role == roleSigned {
				dst = strconv.AppendInt(dst, int64(words[c]), 10)
			} else {
				dst = strconv.AppendUint(dst, words[c], 10)
			}
		}
		dst = append(dst, '\n')
		words = words[len(columns):]
	}
	return dst
}

// parseText parses what appendText wrote, and nothing else.
func parseText(words []uint64, kind Kind, payload []byte) error {
	columns := kindTable[kind].columns
	for i := range words {
		c := i % len(columns)
		end := byte(' ')
		if c == len(columns)-1 {
			end = '\n'
		}
		at := bytes.IndexByte(payload[:min(len(payload), textWordBytes)], end)
		if at < 1 {
			return fmt.Errorf("row %d: no %s", i/len(columns), columns[c].name)
		}
		text := payload[:at]
		payload = payload[at+1:]
		var err error
		if columns[c].role == roleSigned {
			var v int64
			v, err = strconv.ParseInt(string(text), 10, 64)
			words[i] = uint64(v)
		} else {
			words[i], err = strconv.ParseUint(string(text), 10, 64)
		}
		if err != nil {
			return fmt.Errorf("row %d: %s %q is not a number",
				i/len(columns), columns[c].name, text)
		}
	}
	if len(payload) > 0 {
		return fmt.Errorf("%d bytes after the last row", len(payload))
	}
	return nil
}

// appendLine appends the header as a line. Its last word is the checksum of the bytes before it.
func (h *blockHeader) appendLine(dst []byte) []byte {
	start := len(dst)
	dst = fmt.Appendf(dst, "block %s shard %d first %d rows %d counters %d to %d incarnation %x "+
		"bytes %d crc32c %08x check ",
		h.kind, h.shard, h.first, h.rows, h.lo, h.hi, h.incarnation, h.length, h.checksum)
	return fmt.Appendf(dst, "%08x\n", checksum(dst[start:]))
}

// parseBlockLine parses a header from a line without its line end.
func parseBlockLine(line []byte) (blockHeader, bool) {
	h := blockHeader{coding: payloadText}
	f := strings.Fields(string(line))
	if len(f) != 20 || f[0] != "block" ||
		f[19] != fmt.Sprintf("%08x", checksum(line[:len(line)-8])) {
		return h, false
	}
	kind, known := parseKind(f[1])
	if !known {
		return h, false
	}
	h.kind = kind
	var bad bool
	number := func(s string, limit uint64) uint64 {
		v, err := strconv.ParseUint(s, 10, 64)
		bad = bad || err != nil || v > limit
		return v
	}
	h.shard = int(number(f[3], maxShard))
	h.first = number(f[5], math.MaxUint64)
	h.rows = int(number(f[7], MaxRows))
	h.lo, h.hi = number(f[9], math.MaxUint64), number(f[11], math.MaxUint64)
	if n, err := hex.Decode(h.incarnation[:], []byte(f[13])[:min(len(f[13]), 32)]); err != nil ||
		n != 16 {
		return h, false
	}
	h.length = int(number(f[15], math.MaxInt32))
	sum, err := strconv.ParseUint(f[17], 16, 32)
	h.checksum = uint32(sum)
	if bad || err != nil || !h.sane() {
		return h, false
	}
	// The checksum protects the bytes. This protects their form: a header can be written in one way
	// only.
	return h, string(h.appendLine(nil)) == string(line)+"\n"
}
