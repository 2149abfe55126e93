package calls

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
)

// Traces of OpenTelemetry may also be in the binary form of protocol buffers. A file has one
// message, or several with their lengths in front, as the collector writes them.

// protoFile reads a binary file. It returns false if the file does not have the form of a protocol
// buffer.
func (b *builder) protoFile(raw []byte) bool {
	messages := [][]byte{raw}
	if n := len(raw); n > 4 && uint64(binary.BigEndian.Uint32(raw)) <= uint64(n-4) {
		var parts [][]byte
		rest := raw
		for len(rest) >= 4 {
			size := uint64(binary.BigEndian.Uint32(rest))
			if size > uint64(len(rest)-4) {
				break
			}
			parts, rest = append(parts, rest[4:4+size]), rest[4+size:]
		}
		if len(rest) == 0 {
			messages = parts
		}
	}
	var all []*span
	for _, m := range messages {
		spans, ok := b.protoMessage(m)
		if !ok {
			return false
		}
		all = append(all, spans...)
	}
	for _, s := range all {
		b.add(s)
	}
	return len(all) > 0
}

// field is one field of a message: a number, or bytes.
type field struct {
	number uint64
	value  uint64
	bytes  []byte
}

// splitFields divides a message into its fields. It returns false if the bytes are not a message.
func splitFields(raw []byte) (all []field, ok bool) {
	for len(raw) > 0 {
		key, n := binary.Uvarint(raw)
		if n <= 0 || key>>3 == 0 {
			return nil, false
		}
		raw = raw[n:]
		f := field{number: key >> 3}
		switch key & 7 {
		case 0:
			if f.value, n = binary.Uvarint(raw); n <= 0 {
				return nil, false
			}
			raw = raw[n:]
		case 1:
			if len(raw) < 8 {
				return nil, false
			}
			f.value, raw = binary.LittleEndian.Uint64(raw), raw[8:]
		case 2:
			size, n := binary.Uvarint(raw)
			if n <= 0 || size > uint64(len(raw)-n) {
				return nil, false
			}
			f.bytes, raw = raw[n:n+int(size)], raw[n+int(size):]
		case 5:
			if len(raw) < 4 {
				return nil, false
			}
			f.value, raw = uint64(binary.LittleEndian.Uint32(raw)), raw[4:]
		default:
			return nil, false
		}
		all = append(all, f)
	}
	return all, true
}

// protoMessage reads an export request: a list of resources with their spans.
func (b *builder) protoMessage(raw []byte) (all []*span, ok bool) {
	resources, ok := splitFields(raw)
	for _, r := range resources {
		parts, isMessage := splitFields(r.bytes)
		if r.number != 1 || !isMessage {
			return nil, false
		}
		var of []otlpAttribute
		for _, p := range parts {
			if p.number == 1 {
				resource, _ := splitFields(p.bytes)
				of = append(of, protoAttributes(resource, 1)...)
			}
		}
		about := otlpAttributes(of)
		place := b.placeOf(about["service.name"], about)
		scopes, isMessage := submessages(parts, 2)
		if !isMessage {
			return nil, false
		}
		for _, scope := range scopes {
			spans, isMessage := submessages(scope, 2)
			if !isMessage {
				return nil, false
			}
			for _, one := range spans {
				all = append(all, protoSpan(one).span(place))
			}
		}
	}
	return all, ok
}

// submessages returns the messages in the fields that have the given number, each divided into its
// own fields. It returns false if the bytes of such a field are not a message.
func submessages(of []field, number uint64) (all [][]field, ok bool) {
	for _, f := range of {
		if f.number != number {
			continue
		}
		one, ok := splitFields(f.bytes)
		if !ok {
			return nil, false
		}
		all = append(all, one)
	}
	return all, true
}

func protoSpan(all []field) *otlpSpan {
	s := &otlpSpan{Attributes: protoAttributes(all, 9)}
	time := func(v uint64) nanoseconds { return nanoseconds(min(v, math.MaxInt64)) }
	for _, f := range all {
		switch f.number {
		case 1:
			s.TraceID = hex.EncodeToString(f.bytes)
		case 2:
			s.SpanID = hex.EncodeToString(f.bytes)
		case 4:
			s.ParentSpanID = hex.EncodeToString(f.bytes)
		case 6:
			s.Kind = json.RawMessage(strconv.FormatUint(f.value, 10))
		case 7:
			s.Start = time(f.value)
		case 8:
			s.End = time(f.value)
		case 13:
			var l otlpLink
			link, _ := splitFields(f.bytes)
			for _, part := range link {
				switch part.number {
				case 1:
					l.TraceID = hex.EncodeToString(part.bytes)
				case 2:
					l.SpanID = hex.EncodeToString(part.bytes)
				}
			}
			s.Links = append(s.Links, l)
		}
	}
	return s
}

// protoAttributes reads the attributes of a message. Only texts and whole numbers matter.
func protoAttributes(all []field, number uint64) (list []otlpAttribute) {
	for _, f := range all {
		if f.number != number {
			continue
		}
		a := otlpAttribute{Value: map[string]any{}}
		pair, _ := splitFields(f.bytes)
		for _, part := range pair {
			if part.number == 1 {
				a.Key = string(part.bytes)
				continue
			}
			value, _ := splitFields(part.bytes)
			for _, v := range value {
				if v.number == 1 {
					a.Value["stringValue"] = string(v.bytes)
				} else if v.number == 3 {
					a.Value["intValue"] = int64(v.value)
				}
			}
		}
		list = append(list, a)
	}
	return list
}
