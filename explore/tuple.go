package explore

import (
	"cmp"
	"encoding/binary"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// tuple is all that is known of one tuple. If a tuple was made of others, the durations that begin
// in the others are stored as a second tuple with the same id and without events.
type tuple struct {
	id, number uint64
	body       []byte // readPath decodes it
}

func compareTuples(a, b *tuple) int {
	return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.number, b.number))
}

func appendTuple(to []byte, t, before *tuple) []byte {
	to = binary.AppendUvarint(to, t.id-before.id)
	to = binary.AppendUvarint(to, t.number)
	to = binary.AppendUvarint(to, uint64(len(t.body)))
	return append(to, t.body...)
}

func readTuple(r *reader, t *tuple) {
	t.id += r.number()
	t.number = r.number()
	t.body = r.bytes(r.number())
}

// path is the decoded body of a tuple.
type path struct {
	events    []event
	durations []duration
}

type event struct {
	channel uint32 // index in Meta.Channels
	at      tscratio.Interval
	suspect bool
	ended   bool // the tuple ended here although it could have gone on
}

type duration struct {
	span     uint32 // index in Meta.Spans
	lo, hi   int64
	scenario tscratio.Scenario
	critical analysis.Critical
	suspect  bool
}

// These are the largest numbers of events and durations that the index stores for one tuple. A
// tuple passes each point once, and a run has at most 64 points.
const (
	maxEvents    = 64
	maxDurations = 1024
)

func (p *path) append(to []byte) []byte {
	flag := func(index uint32, suspect bool) uint64 {
		if suspect {
			return uint64(index)<<1 | 1
		}
		return uint64(index) << 1
	}
	events, durations := p.events[:min(len(p.events), maxEvents)],
		p.durations[:min(len(p.durations), maxDurations)]
	to = binary.AppendUvarint(to, uint64(len(events)))
	before := uint64(0)
	for _, e := range events {
		ended := uint64(0)
		if e.ended {
			ended = 1
		}
		to = binary.AppendUvarint(to, flag(e.channel, e.suspect)<<1|ended)
		to = binary.AppendVarint(to, int64(e.at.Lo-before))
		to = binary.AppendUvarint(to, e.at.Width())
		before = e.at.Lo
	}
	for _, d := range durations {
		to = binary.AppendUvarint(to, flag(d.span, d.suspect)<<2|uint64(d.critical))
		to = binary.AppendVarint(to, d.lo)
		to = binary.AppendUvarint(to, uint64(d.hi)-uint64(d.lo))
		to = append(to, byte(d.scenario))
	}
	return to
}

// readPath decodes a tuple's body. It refuses indices of channels and spans that are not below the
// given numbers.
func readPath(body []byte, channels, spans int) (p path, ok bool) {
	r := reader{data: body}
	n := r.number()
	if n > maxEvents {
		return p, false
	}
	before := uint64(0)
	for range n {
		flags := r.number()
		lo := before + uint64(r.signed())
		at := tscratio.Interval{Lo: lo, Hi: lo + r.number()}
		e := event{channel: uint32(flags >> 2), suspect: flags&2 != 0, ended: flags&1 != 0, at: at}
		if flags>>2 >= uint64(channels) || !at.Valid() {
			return p, false
		}
		p.events = append(p.events, e)
		before = lo
	}
	for len(r.data) > 0 && len(p.durations) < maxDurations {
		flags := r.number()
		lo := r.signed()
		d := duration{span: uint32(flags >> 3), suspect: flags&4 != 0, lo: lo,
			hi: int64(uint64(lo) + r.number()), critical: analysis.Critical(flags & 3)}
		if s := r.bytes(1); s != nil {
			d.scenario = tscratio.Scenario(s[0])
		}
		if flags>>3 >= uint64(spans) || d.hi < d.lo || d.critical > analysis.SurelyCritical {
			return p, false
		}
		p.durations = append(p.durations, d)
	}
	return p, !r.bad
}
