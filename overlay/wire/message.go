package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/overlay"
)

// A Question asks a node to describe itself, and an Answer contains the description. Both are sent
// in addition to the messages of the graph. This package does not interpret answers.
type (
	Question struct{}
	Answer   struct{ Body []byte }
)

// A Fetch asks a node for a part of one of its files of a run. File is the number of the file; file
// 0 is the list of the other files. Offset is where the part begins, and Bytes its length; the part
// may be shorter if the file ends. The node answers with several messages of type Part, each with
// at most MaxPart bytes. If the node refuses the file, it answers with a Part in which OK is false
// and Data says why.
type (
	Fetch struct {
		ID     uint64 // chosen by the sender; the parts have the same
		Run    string
		File   int
		Offset uint64
		Bytes  int
	}
	Part struct {
		ID, Offset uint64
		Size       uint64 // of the whole file
		OK         bool
		Data       []byte
	}
)

const (
	// MaxPart is the largest number of bytes in a Part. MaxFetch is the largest number of bytes in
	// all answers to one Fetch. These answers fit into a socket's usual buffer, even if several
	// nodes send them at once.
	MaxPart  = 1024
	MaxFetch = 16 << 10
)

// ErrMessage is wrapped by the errors of Decode.
var ErrMessage = errors.New("not a message of the graph")

// kind is the number of a message's kind. ONLY APPEND: never reuse a number.
type kind uint8

const (
	kindPing     kind = 1
	kindPong     kind = 2
	kindDrop     kind = 3
	kindProbe    kind = 4
	kindAlive    kind = 5
	kindAck      kind = 6
	kindHop      kind = 7
	kindGrant    kind = 8
	kindRevoke   kind = 9
	kindHandover kind = 10
	kindLeaving  kind = 11
	kindEnded    kind = 12
	kindHint     kind = 13
	kindVerify   kind = 14
	kindFound    kind = 15
	kindConfirm  kind = 16
	kindWarm     kind = 17
	kindFelt     kind = 18
	kindQuestion kind = 20
	kindAnswer   kind = 21
	kindTake     kind = 22
	kindGiven    kind = 23
	kindKeep     kind = 24
	kindFetch    kind = 25
	kindPart     kind = 26
)

// These are the numbers of the kinds of walk that a hop carries. ONLY APPEND, too.
const (
	walkSeek   = 1
	walkSearch = 2
	walkClimb  = 3
)

// MaxAnswer is the largest number of bytes of an answer's body.
const MaxAnswer = 1024

// writer appends the fields of a message.
type writer struct{ b []byte }

func (w *writer) byte(v uint8)    { w.b = append(w.b, v) }
func (w *writer) short(v int)     { w.b = binary.BigEndian.AppendUint16(w.b, uint16(clamp(v))) }
func (w *writer) number(v uint64) { w.b = binary.BigEndian.AppendUint64(w.b, v) }
func (w *writer) flags(all ...bool) {
	var b uint8
	for i, v := range all {
		if v {
			b |= 1 << i
		}
	}
	w.byte(b)
}

func (w *writer) name(n overlay.Name) { w.text(string(n)) }

func (w *writer) text(s string) {
	w.byte(uint8(len(s)))
	w.b = append(w.b, s...)
}

func (w *writer) names(all []overlay.Name) {
	w.byte(uint8(len(all)))
	for _, n := range all {
		w.name(n)
	}
}

func clamp(v int) int { return min(max(v, 0), 1<<16-1) }

// Encode appends the bytes of a message: one of package overlay or of this package. If the
// message's names, lists or body are too long, Encode returns an error.
func Encode(b []byte, m any) ([]byte, error) {
	w := writer{b}
	written, err := w.writeEdge(m)
	if err != nil {
		return b, err
	}
	return written, nil
}

// writeEdge writes a message about edges. It passes a message of another kind on to the method
// writeWalking.
func (w *writer) writeEdge(m any) ([]byte, error) {
	switch m := m.(type) {
	case overlay.Ping:
		w.byte(uint8(kindPing))
		w.number(m.Seq)
		w.number(m.Walk)
	case overlay.Pong:
		w.byte(uint8(kindPong))
		w.number(m.Seq)
		w.flags(m.OK)
	case overlay.Drop:
		w.byte(uint8(kindDrop))
	case overlay.Probe:
		w.byte(uint8(kindProbe))
	case overlay.Alive:
		w.byte(uint8(kindAlive))
	case overlay.Ack:
		w.byte(uint8(kindAck))
		w.number(m.ID)
		w.flags(m.OK)
	case overlay.Grant:
		if tooLong(m.Out) {
			return w.b, fmt.Errorf("encode a grant: %w", ErrMessage)
		}
		w.byte(uint8(kindGrant))
		w.number(m.ID)
		w.number(m.Walk)
		w.name(m.Out)
		w.flags(m.Take, m.Give)
	case overlay.Revoke:
		return w.writeRequest(kindRevoke, m.ID, string(m.Out), overlay.MaxName)
	case overlay.Handover:
		return w.writeRequest(kindHandover, m.ID, string(m.To), overlay.MaxName)
	case overlay.Leaving:
		return w.writeRequest(kindLeaving, m.ID, string(m.Instead), overlay.MaxName)
	default:
		return w.writeWalking(m)
	}
	return w.b, nil
}

// writeWalking writes a message about walks, facts, heat or queues. It passes a message of another
// kind on to the method writeOwn.
func (w *writer) writeWalking(m any) ([]byte, error) {
	switch m := m.(type) {
	case overlay.Hop:
		w.byte(uint8(kindHop))
		w.number(m.ID)
		if !w.writeWalk(m.Walk) {
			return w.b, fmt.Errorf("encode a walk: %w", ErrMessage)
		}
	case overlay.Ended:
		w.byte(uint8(kindEnded))
		w.number(m.ID)
		w.number(m.Walk)
		w.flags(m.Few)
	case overlay.Hint:
		if !w.writeHint(m) {
			return w.b, fmt.Errorf("encode a hint of %d facts: %w", len(m.Facts), ErrMessage)
		}
	case overlay.Verify:
		return w.writeRequest(kindVerify, m.ID, m.Pattern, overlay.MaxFact)
	case overlay.Confirm:
		return w.writeRequest(kindConfirm, m.ID, string(m.Fact), overlay.MaxFact)
	case overlay.Found:
		if tooLong(m.Name) {
			return w.b, fmt.Errorf("encode a found name: %w", ErrMessage)
		}
		w.byte(uint8(kindFound))
		w.number(m.ID)
		w.number(m.Search)
		w.name(m.Name)
		w.short(m.Visited)
		w.short(m.Meetings)
	case overlay.Warm:
		if !w.writeHeats(m) {
			return w.b, fmt.Errorf("encode %d heats: %w", len(m.Heats), ErrMessage)
		}
	case overlay.Felt:
		w.byte(uint8(kindFelt))
		w.number(m.ID)
		w.number(m.Climb)
		w.number(m.Value)
		w.short(m.Visited)
	case overlay.Take:
		return w.writeRequest(kindTake, m.ID, m.Queue, overlay.MaxFact)
	case overlay.Given:
		return w.writeRequest(kindGiven, m.ID, m.Item, overlay.MaxFact)
	case overlay.Keep:
		w.byte(uint8(kindKeep))
		w.number(m.ID)
		w.number(m.Take)
		w.flags(m.Done)
	default:
		return w.writeOwn(m)
	}
	return w.b, nil
}

// writeOwn writes a message whose type is in this package. Package overlay, which has all other
// messages, knows nothing of it.
func (w *writer) writeOwn(m any) ([]byte, error) {
	switch m := m.(type) {
	case Fetch:
		if len(m.Run) > overlay.MaxFact || m.Bytes > MaxFetch {
			return w.b, fmt.Errorf("encode a fetch of %d bytes: %w", m.Bytes, ErrMessage)
		}
		w.byte(uint8(kindFetch))
		w.number(m.ID)
		w.text(m.Run)
		w.short(m.File)
		w.number(m.Offset)
		w.short(m.Bytes)
	case Part:
		if len(m.Data) > MaxPart {
			return w.b, fmt.Errorf("encode a part of %d bytes, more than %d: %w", len(m.Data),
				MaxPart, ErrMessage)
		}
		w.byte(uint8(kindPart))
		w.number(m.ID)
		w.number(m.Offset)
		w.number(m.Size)
		w.flags(m.OK)
		w.b = append(w.b, m.Data...)
	case Question:
		w.byte(uint8(kindQuestion))
	case Answer:
		if len(m.Body) > MaxAnswer {
			return w.b, fmt.Errorf("encode an answer of %d bytes, more than %d: %w", len(m.Body),
				MaxAnswer, ErrMessage)
		}
		w.byte(uint8(kindAnswer))
		w.b = append(w.b, m.Body...)
	default:
		return w.b, fmt.Errorf("encode %T: %w", m, ErrMessage)
	}
	return w.b, nil
}

func tooLong(names ...overlay.Name) bool {
	for _, n := range names {
		if len(n) > overlay.MaxName {
			return true
		}
	}
	return false
}

// writeRequest writes a message that consists of a request's number and a text of at most limit
// bytes.
func (w *writer) writeRequest(k kind, id uint64, text string, limit int) ([]byte, error) {
	if len(text) > limit {
		return w.b, fmt.Errorf("encode a text of %d bytes, more than %d: %w", len(text), limit,
			ErrMessage)
	}
	w.byte(uint8(k))
	w.number(id)
	w.text(text)
	return w.b, nil
}

// writeHint writes a hint. If the hint's name or a list is too long, it returns false, and its
// output must not be used.
func (w *writer) writeHint(m overlay.Hint) bool {
	w.byte(uint8(kindHint))
	w.name(m.Owner)
	w.byte(uint8(min(max(m.Levels, 0), 1<<8-1)))
	w.byte(uint8(len(m.Facts)))
	for _, f := range m.Facts {
		if len(f) > overlay.MaxFact {
			return false
		}
		w.text(string(f))
	}
	return !tooLong(m.Owner) && len(m.Facts) <= overlay.MaxFacts
}

// writeHeats writes heats. If these are too many, or their names are too long, it returns false,
// and its output must not be used.
func (w *writer) writeHeats(m overlay.Warm) bool {
	w.byte(uint8(kindWarm))
	w.byte(uint8(len(m.Heats)))
	for _, h := range m.Heats {
		if len(h.By) > overlay.MaxFact {
			return false
		}
		w.text(h.By)
		w.number(h.Value)
	}
	return len(m.Heats) <= overlay.MaxHeats
}

// writeWalk writes a walk. If the walk is of an unknown kind, or a text or list in it is too long,
// it returns false, and its output must not be used.
func (w *writer) writeWalk(walk overlay.Walk) bool {
	switch s := walk.(type) {
	case overlay.Seek:
		w.byte(walkSeek)
		w.seek(s)
		return len(s.Outs) <= overlay.MaxDegree && !tooLong(s.Origin, s.Give) && !tooLong(s.Outs...)
	case overlay.Search:
		w.byte(walkSearch)
		w.search(s)
		return len(s.Known) <= maxKnown && len(s.Denied) <= overlay.MaxDenied &&
			len(s.Pattern) <= overlay.MaxFact && !tooLong(s.Origin) && !tooLong(s.Known...) &&
			!tooLong(s.Denied...)
	case overlay.Climb:
		w.byte(walkClimb)
		w.name(s.Origin)
		w.number(s.ID)
		w.text(s.By)
		w.short(s.Visited)
		w.short(s.Mix)
		w.short(s.Scan)
		return len(s.By) <= overlay.MaxFact && !tooLong(s.Origin)
	}
	return false
}

func (w *writer) search(s overlay.Search) {
	w.name(s.Origin)
	w.number(s.ID)
	w.text(s.Pattern)
	w.names(s.Known)
	w.names(s.Denied)
	w.short(s.Visited)
	w.short(s.Meetings)
	w.short(s.Mix)
	w.short(s.Scan)
}

// maxKnown is the largest number of nodes whose hints a search counts.
const maxKnown = overlay.MaxDegree + 1

func (w *writer) seek(s overlay.Seek) {
	w.name(s.Origin)
	w.number(s.ID)
	w.flags(s.Out, s.In, s.Apart)
	w.name(s.Give)
	w.short(s.Mix)
	w.short(s.Scan)
	w.short(s.Revisits)
	w.names(s.Outs)
}
