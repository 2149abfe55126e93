package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// eventBytes is the size of an encoded event, without its value.
const eventBytes = 32

// appendEvent encodes an event. If the event carries a value, its word is the index of the value in
// the given list.
func (w *World) appendEvent(to []byte, e *Event, values []any) ([]byte, error) {
	word := e.Word
	if e.Kind&bulkyBit != 0 {
		word = 0
	}
	to = binary.LittleEndian.AppendUint64(to, uint64(e.At))
	to = binary.LittleEndian.AppendUint64(to, word)
	to = binary.LittleEndian.AppendUint32(to, uint32(e.To))
	to = binary.LittleEndian.AppendUint32(to, uint32(e.From))
	to = binary.LittleEndian.AppendUint32(to, e.number)
	to = binary.LittleEndian.AppendUint16(to, e.round)
	to = append(to, e.Protocol, e.Kind)
	if e.Kind&bulkyBit == 0 {
		return to, nil
	}
	codec, ok := w.protocols[e.Protocol].(Codec)
	if !ok {
		return nil, fmt.Errorf("encode event: the values of protocol %d cannot be encoded",
			e.Protocol)
	}
	at := len(to)
	to, err := codec.EncodeValue(append(to, 0, 0, 0, 0), values[e.Word])
	if err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	binary.LittleEndian.PutUint32(to[at:], uint32(len(to)-at-4))
	return to, nil
}

// readEvent decodes an event and its value, and returns the bytes that follow.
func (w *World) readEvent(from []byte) (e Event, value any, rest []byte, err error) {
	if len(from) < eventBytes {
		return e, nil, nil, errShort
	}
	e = Event{At: Time(binary.LittleEndian.Uint64(from)),
		Word:   binary.LittleEndian.Uint64(from[8:]),
		To:     Node(binary.LittleEndian.Uint32(from[16:])),
		From:   Node(binary.LittleEndian.Uint32(from[20:])),
		number: binary.LittleEndian.Uint32(from[24:]),
		round:  binary.LittleEndian.Uint16(from[28:]), Protocol: from[30], Kind: from[31]}
	from = from[eventBytes:]
	if int(e.Protocol) >= len(w.protocols) {
		return e, nil, nil, fmt.Errorf("decode event: there is no protocol %d", e.Protocol)
	}
	if int(e.To) >= w.joined {
		return e, nil, nil, fmt.Errorf("decode event: there is no node %d", e.To)
	}
	if _, cycled := w.protocols[e.Protocol].(Cycled); e.Kind == TimerKind && !cycled {
		return e, nil, nil, fmt.Errorf("decode event: protocol %d has no cycles", e.Protocol)
	}
	if e.Kind&bulkyBit == 0 {
		return e, nil, from, nil
	}
	codec, ok := w.protocols[e.Protocol].(Codec)
	if !ok {
		return e, nil, nil, fmt.Errorf("decode event: protocol %d carries no values", e.Protocol)
	}
	if len(from) < 4 {
		return e, nil, nil, errShort
	}
	n := binary.LittleEndian.Uint32(from)
	if uint64(n) > uint64(len(from)-4) {
		return e, nil, nil, errShort
	}
	value, err = codec.DecodeValue(from[4 : 4+n])
	return e, value, from[4+n:], err
}

// EncodeShard returns the state and the events of a shard. Equal shards give equal bytes.
func (w *World) EncodeShard(i int) ([]byte, error) {
	var to []byte
	for _, p := range w.parts {
		to = p.Encode(i, to)
	}
	s := w.shards[i]
	events := s.queue.allEvents()
	slices.SortFunc(events, func(a, b Event) int {
		if a.comesBefore(&b) {
			return -1
		}
		return 1
	})
	to = binary.LittleEndian.AppendUint64(to, s.events)
	to = binary.LittleEndian.AppendUint64(to, uint64(len(events)))
	for j := range events {
		var err error
		if to, err = w.appendEvent(to, &events[j], s.values); err != nil {
			return nil, err
		}
	}
	return to, nil
}

// DecodeShard adds a shard to this process, from the bytes of EncodeShard.
func (w *World) DecodeShard(i int, from []byte) (err error) {
	w.allocate(i)
	for _, p := range w.parts {
		if from, err = p.Decode(i, from); err != nil {
			return fmt.Errorf("decode shard %d: %w", i, err)
		}
	}
	if len(from) < 16 {
		return fmt.Errorf("decode shard %d: %w", i, errShort)
	}
	s := w.shards[i]
	s.events = binary.LittleEndian.Uint64(from)
	n := binary.LittleEndian.Uint64(from[8:])
	from = from[16:]
	if n > uint64(len(from)/eventBytes) {
		return fmt.Errorf("decode shard %d: %w", i, errShort)
	}
	for range n {
		var e Event
		var value any
		if e, value, from, err = w.readEvent(from); err != nil {
			return fmt.Errorf("decode shard %d: %w", i, err)
		}
		if shardOf(e.To) != i {
			return fmt.Errorf("decode shard %d: it has an event of node %d", i, e.To)
		}
		if value != nil {
			e.Word = s.keepValue(value)
		}
		s.queue.push(e)
	}
	if len(from) > 0 {
		return fmt.Errorf("decode shard %d: %d bytes too many", i, len(from))
	}
	return nil
}
