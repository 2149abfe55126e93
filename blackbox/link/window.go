package link

import (
	"cmp"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A window is a part of the data. It has the links of the calls that were sent between its begin
// and its end. To find these links, the method also looks at calls that were sent a little earlier
// or later, by at most the margin.
type window struct {
	begin, end, margin int64
}

// windows divides the data of a program into windows. It looks only at calls whose links are
// wanted. If the program has no such call, there is no window.
func (p *program) windows(size int) []window {
	var sent, lengths []int64
	for i := range p.places {
		for _, s := range p.places[i].sends {
			if p.wants(s.call) {
				sent = append(sent, s.from)
			}
		}
		for _, r := range p.places[i].requests {
			if r.to != farFuture {
				lengths = append(lengths, r.to-r.from)
			}
		}
	}
	slices.Sort(sent)
	slices.Sort(lengths)
	w := window{begin: -calls.Latest_ns, end: calls.Latest_ns}
	if n := len(lengths); n > 0 {
		w.margin = 2*max(0, min(lengths[n*99/100], longest_ns)) + slices.Max(append(p.lingers, 0))
	}
	if len(sent) == 0 {
		return nil
	}
	if p.wanted != nil {
		w.begin, w.end = sent[0], sent[len(sent)-1]+1
	}
	var all []window
	first := size
	if p.x == nil {
		first = size / firstPart // a window of which nothing was learnt before takes long
	}
	for i := first; i+size/2 < len(sent); i += size {
		all = append(all, window{w.begin, sent[i], w.margin})
		w.begin = sent[i]
	}
	return append(all, w)
}

// wants reports whether the link of a call is wanted.
func (p *program) wants(call int32) bool { return p.wanted == nil || p.wanted[call] }

// openWindow makes a window the present window.
func (p *program) openWindow(w window) {
	kinds := p.m.kinds
	p.sharers, p.m.slack_ns = nil, 0
	numbers, idleCalls, idle := make([]float64, kinds), make([]float64, kinds), 0.0
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, at := range p.places {
		p.m.slack_ns = max(p.m.slack_ns, at.slack)
		at = at.partWithin(w)
		s := &sharing{m: p.m, memo: p.memo, foreign: at.foreign, order: at.ordered,
			requests: at.requests, sends: at.sends,
			random: dice(uint64(1+count(p.isSecond))<<32 + uint64(at.number))}
		s.calls = make([]call, 0, len(at.sends))
		for i := range at.sends {
			c := &at.sends[i]
			k := p.kindOf(c)
			s.calls = append(s.calls, call{from: c.from, to: c.to, kind: k, acts: &c.acts})
			numbers[k]++
			first, last = min(first, c.from), max(last, c.from)
		}
		s.owner = make([]int32, len(s.calls))
		for i := range s.owner {
			s.owner[i] = -1
		}
		s.pinned = make([]bool, len(s.calls))
		s.active = make([][]int32, len(s.calls))
		giveRoom(s.active, 2)
		s.makeScripts()
		s.candidates = make([][]int32, len(s.calls))
		n, all := 0, []int32(nil)
		at.eachCandidates(at.slack, func(of send, open []int32) {
			begin := len(all)
			all = append(all, open[max(0, len(open)-mostOpen):]...)
			s.setCandidates(int32(n), all[begin:])
			if of.known != calls.UnknownCause {
				s.pinCause(int32(n), of.known)
			}
			if len(open) == 0 {
				idleCalls[s.calls[n].kind]++
			}
			n++
		})
		if len(at.sends) > 0 {
			idle += at.idleTime(at.sends[0].from, at.sends[len(at.sends)-1].from)
		}
		p.sharers = append(p.sharers, s)
	}
	p.m.rivals = float32(math.Log(max(1, p.load())))
	p.findStrays(numbers, idleCalls)
	idle /= float64(p.m.unit)
	all := float64(last-first)/float64(p.m.unit) + 1
	p.noteIdle(idleCalls, idle, all)
	for k := range numbers {
		p.m.spontaneous[k] = math.Log((idleCalls[k] + 0.002*numbers[k] + 0.02) / (idle + 0.2*all))
	}
}

// longMargins limits how much earlier than its margin a window's part of a place may begin.
const longMargins = 16

// untilBlock is the number of requests in a block: see place.untils. If no request of a block is
// open, partWithin does not look at its requests.
const untilBlock = 256

func (p *place) findUntils() {
	p.untils = nil
	for block := range slices.Chunk(p.requests, untilBlock) {
		until := block[0].until
		for _, r := range block {
			until = max(until, r.until)
		}
		p.untils = append(p.untils, until)
	}
}

// partWithin returns the part of a place that a window needs. If requests have been open for longer
// than usual when the window begins, the part has all their calls.
func (p *place) partWithin(w window) place {
	part, begin := *p, w.begin-w.margin
	for _, r := range p.requests[p.firstAfter(w.begin-longMargins*w.margin):] {
		if r.from >= begin {
			break
		}
		if r.until >= begin {
			begin = r.from
			break
		}
	}
	from, _ := slices.BinarySearchFunc(p.sends, begin, compareSent)
	to, _ := slices.BinarySearchFunc(p.sends, w.end+w.margin, compareSent)
	part.sends, part.requests = p.sends[from:to], nil
	first := p.firstAfter(begin - w.margin)
	for block, until := range p.untils[:(first+untilBlock-1)/untilBlock] {
		if until < begin {
			continue
		}
		for i := block * untilBlock; i < min((block+1)*untilBlock, first); i++ {
			if p.requests[i].until >= begin {
				part.requests = append(part.requests, p.requests[i])
			}
		}
	}
	part.requests = append(part.requests, p.requests[first:p.firstAfter(w.end+w.margin)]...)
	return part
}

func compareSent(s send, t int64) int { return cmp.Compare(s.from, t) }
