package link

import (
	"maps"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A recorder may note only the callees' moments of calls. They are readings of other clocks than
// the caller's, and nobody knows how these clocks differ. But a program often does the same thing
// after nearly the same time. So the lags between two kinds of events crowd in a narrow range. The
// place of this range shows how the two clocks differ.
//
// The functions below compute an offset for each callee's clock, and subtract this offset from the
// moments of that clock. Afterwards hardly any event comes before its cause. alignAll uses only
// differences of moments, so the result does not depend on how a clock is set.

const (
	reach_ns  = int64(1e8) // the longest lag that is looked at, before and after 0
	lagStep   = 20_000     // ns; at least the quantum
	fewEvents = 8          // a kind with fewer calls is not aligned
	slack_ns  = int64(1e5) // how far moments may be off after they were aligned
	sharp_ns  = int64(2e7) // a wider range of lags may be there by chance
	// In short data there are fewer long lags than short ones by chance alone. So lags are looked
	// at only up to 1/shortShare of the time that the events take.
	shortShare = 4
	mostLooks  = 8 // around a place where lags crowd
)

// lagSpan is the range in which the lags between two kinds of events crowd.
type lagSpan struct {
	least, middle, width int64
}

// spanOf finds the narrowest range that contains enough lags: about a third of the number of
// events, not counting the lags that are there by chance.
//
// It looks around the usual lag of the two kinds of events first, or around 0 if there is none.
// Then it looks around what it found, until it finds the same again. So it hardly matters how
// clocks are set.
func spanOf(from, to []int64, quantum int64) (lagSpan, bool) {
	long := max(from[len(from)-1]-from[0], to[len(to)-1]-to[0])
	reach := min(reach_ns, long/shortShare)
	if reach < 4*max(lagStep, quantum) {
		return lagSpan{}, false
	}
	s, ok := spanAround(from, to, quantum, usualLag(from, to, reach/4), reach)
	for range mostLooks {
		if !ok {
			break
		}
		around := s.middle
		if s, ok = spanAround(from, to, quantum, around, reach/2); s.middle == around {
			break
		}
	}
	return s, ok
}

// usualLag compares when a quarter, a half and three quarters of two kinds of events have happened.
// If these three lags differ by no more than a limit, one kind follows the other: then usualLag
// returns the middle one. If they differ by more, it returns 0. How clocks are set does not matter
// to the differences.
func usualLag(from, to []int64, limit int64) int64 {
	var lags [3]int64
	for i := range lags {
		lags[i] = to[len(to)*(i+1)/4] - from[len(from)*(i+1)/4]
	}
	slices.Sort(lags[:])
	if lags[2]-lags[0] > limit {
		return 0
	}
	return lags[1]
}

// spanAround is like spanOf, but looks only once. It ignores lags whose difference from the
// parameter around is larger than the parameter most.
func spanAround(from, to []int64, quantum, around, most int64) (lagSpan, bool) {
	step := max(lagStep, quantum)
	steps := most / step
	reach := steps * step
	count := make([]float64, 2*steps+1)
	// The steps begin at a lag of the data, so that clocks that are set differently give the same
	// result.
	phase := around + ((to[0]-from[0]-around)%step+step)%step
	lo := 0
	for _, t := range to {
		t -= phase
		for lo < len(from) && from[lo] < t-reach {
			lo++
		}
		for k := lo; k < len(from) && from[k] <= t+reach; k++ {
			count[(t-from[k]+reach+step/2)/step]++
		}
	}
	// The lags in the first and in the last quarter of the steps are there only by chance.
	chance, quarter := 0.0, len(count)/4
	for i := range quarter {
		chance += count[i] + count[len(count)-1-i]
	}
	chance /= float64(2 * quarter)
	need := 0.3 * float64(min(len(from), len(to)))
	best, first, sum, begin := lagSpan{width: math.MaxInt64}, 0, 0.0, 0
	for end := range count {
		sum += count[end] - chance
		for begin < end && (sum-(count[begin]-chance) >= need || count[begin] <= chance) {
			sum -= count[begin] - chance
			begin++
		}
		if width := int64(end-begin+1) * step; sum >= need && width < best.width {
			best, first = lagSpan{width: width}, begin
			best.middle = int64(begin)*step - reach + width/2
		}
	}
	// The span begins where there are more lags than by chance.
	block := max(int(best.width/step)/2, 1)
	for first >= block {
		more := -chance * float64(block)
		for k := first - block; k < first; k++ {
			more += count[k]
		}
		if more < 3*math.Sqrt(chance*float64(block))+0.02*need {
			break
		}
		first -= block
	}
	best.least = int64(first)*step - reach + phase
	best.middle += phase
	return best, best.width < reach
}

// The type clocks puts the events of a place on one clock. Number 0 is the clock of its requests,
// and each callee's clock has another number.
type clocks struct {
	numbers map[int32]int
	callees []int32
	// lags finds the range of the lags between the events on two clocks. Its first parameter says
	// which events these are.
	lags func(of lagKind, from, to int) (lagSpan, bool)
	// fits reports whether a callee's clock may differ by the given offset.
	fits func(callee int32, offset int64) bool
	// loose says that the clocks left over at the end may differ by any offset.
	loose bool
	sharp map[int32]bool // callees whose clocks fit, and are known from a narrow range
}

type lagKind int

const (
	beginBegin lagKind = iota
	endBegin
	endEnd
)

func (p *place) clocks(seen *calls.Seen) *clocks {
	c := &clocks{numbers: map[int32]int{}, sharp: map[int32]bool{}}
	for _, s := range p.sends {
		if seen.Calls[s.call].Sent_ns != calls.Unknown {
			continue
		}
		if !slices.Contains(c.callees, s.callee) {
			c.callees = append(c.callees, s.callee)
		}
	}
	slices.Sort(c.callees) // the order of calls depends on their clocks
	for i, callee := range c.callees {
		c.numbers[callee] = i + 1
	}
	return c
}

// No call begins before the request that caused it. This is an upper limit for the offset of the
// callee's clock. No response comes after the reply: this is a lower limit. If two calls begin at
// about the same time, the offset is in the middle.
const (
	lower  = -1
	middle = 0
	upper  = 1
)

// findOffsets finds the offset of each callee's clock. It begins with the clock of the requests.
// Then it adds one clock at a time: the clock whose lags to a known clock have the narrowest range.
func (c *clocks) findOffsets() map[int32]int64 {
	offsets, known := map[int]int64{0: 0}, []int{0}
	type relation struct {
		of       lagKind
		from, to int
	}
	tried := map[relation]lagSpan{}
	span := func(of lagKind, from, to int) lagSpan {
		s, ok := tried[relation{of, from, to}]
		if !ok {
			if s, ok = c.lags(of, from, to); !ok {
				s.width = math.MaxInt64
			}
			tried[relation{of, from, to}] = s
		}
		return s
	}
	fits, strict := c.fits, true
	for len(known) <= len(c.callees) {
		next, base, width, offset, side := 0, 0, int64(math.MaxInt64), int64(0), middle
		try := func(of lagKind, from, to, k, way int) {
			s := span(of, from, to)
			at := offsets[from+to-k] + int64(way)*s.least
			if way == middle {
				at += s.middle
			}
			if s.width < width && fits(c.callees[k-1], at) {
				next, base, width, offset, side = k, from+to-k, s.width, at, way
			}
		}
		for k := 1; k <= len(c.callees); k++ {
			if slices.Contains(known, k) {
				continue
			}
			for _, from := range known {
				if from == 0 {
					try(beginBegin, 0, k, k, upper)
					try(endEnd, k, 0, k, lower)
					continue
				}
				try(endBegin, from, k, k, upper)
				try(endBegin, k, from, k, lower)
				try(beginBegin, from, k, k, middle)
			}
		}
		if next == 0 && c.loose {
			fits, strict, c.loose = func(int32, int64) bool { return true }, false, false
			continue
		}
		if next == 0 {
			break
		}
		// The limit may be wrong by about the width of its range of lags. So the offset moves by
		// this width towards the limit on the other side, but at most to the middle between both.
		room := int64(0)
		if s := span(endEnd, next, 0); side == upper && s.width < math.MaxInt64 {
			room = offset + s.least
		} else if s := span(beginBegin, 0, next); side == lower && s.width < math.MaxInt64 {
			room = s.least - offset
		}
		inside := offset - int64(side)*max(0, min(width, room/2))
		if fits(c.callees[next-1], inside) {
			offset = inside
		}
		offsets[next], known = offset, append(known, next)
		c.sharp[c.callees[next-1]] = strict && width <= sharp_ns &&
			(base == 0 || c.sharp[c.callees[base-1]])
	}
	result := map[int32]int64{}
	for _, k := range known[1:] {
		result[c.callees[k-1]] = offsets[k]
	}
	return result
}

// alignAll finds the offsets from the lags between all events, because it does not know which event
// caused which.
func (p *place) alignAll(seen *calls.Seen) map[int32]int64 {
	c := p.clocks(seen)
	begins, ends := make([][]int64, len(c.callees)+1), make([][]int64, len(c.callees)+1)
	for _, r := range p.requests {
		begins[0] = append(begins[0], r.from)
		if r.to != farFuture {
			ends[0] = append(ends[0], r.to)
		}
	}
	for _, s := range p.sends {
		if k, ok := c.numbers[s.callee]; ok {
			begins[k] = append(begins[k], s.from)
			if s.to != calls.Unknown {
				ends[k] = append(ends[k], s.to)
			}
		}
	}
	for i := range ends {
		slices.Sort(ends[i])
	}
	c.lags = func(of lagKind, from, to int) (lagSpan, bool) {
		a, b := begins[from], begins[to]
		if of != beginBegin {
			a = ends[from]
		}
		if of == endEnd {
			b = ends[to]
		}
		if min(len(a), len(b)) < fewEvents {
			return lagSpan{}, false
		}
		return spanOf(a, b, seen.Quantum_ns)
	}
	// If nobody waits for the response of a call, the call may last longer than the request.
	c.loose = true
	p.sharp = c.sharp
	c.fits = func(callee int32, offset int64) bool {
		return p.containedShare(callee,
			offset) >= 0.9
	}
	return c.findOffsets()
}

// alignAs moves calls by the offsets that an earlier window had at its end. It returns false if
// there is a clock for which the earlier window had no offset.
func (p *place) alignAs(seen *calls.Seen, earlier *program) bool {
	if earlier == nil {
		return false
	}
	moved := earlier.moved[p.number]
	for _, callee := range p.clocks(seen).callees {
		offset, ok := moved[callee]
		if !ok || p.containedShare(callee, offset) < 0.9 {
			return false // or the clock stepped
		}
	}
	p.subtractOffsets(seen, moved, slack_ns/5)
	p.aligned, p.sharp = true, map[int32]bool{}
	return true
}

// realign finds offsets from the lags within requests, after calls were shared out.
func (p *place) realign(seen *calls.Seen, s *sharing) map[int32]int64 {
	c := p.clocks(seen)
	c.lags = func(of lagKind, from, to int) (lagSpan, bool) {
		var lags []int64
		for r, script := range s.scripts {
			a, b := int64(calls.Unknown), int64(calls.Unknown)
			if begin := s.requests[r].from; from == 0 {
				a = begin
			} else if end := s.requests[r].to; to == 0 && end != farFuture {
				b = end
			}
			for i := len(script) - 1; i >= 0; i-- { // ends with the first call to each callee
				call := &s.sends[script[i]]
				switch c.numbers[call.callee] {
				case 0:
				case from:
					if a = call.from; of != beginBegin {
						a = call.to
					}
				case to:
					b = call.from
				}
			}
			if a != calls.Unknown && b != calls.Unknown {
				lags = append(lags, b-a)
			}
		}
		slices.Sort(lags)
		return narrowestSpan(lags)
	}
	c.fits = func(callee int32, offset int64) bool {
		return p.containedShare(callee, offset) >= p.containedShare(callee, 0)-0.01
	}
	return c.findOffsets()
}

// realign aligns the clocks again, with the help of the present sharing.
func (p *program) realign(seen *calls.Seen) {
	for i := range p.places {
		at := &p.places[i]
		at.subtractOffsets(seen, at.realign(seen, p.sharers[i]), slack_ns/5)
	}
	p.measureLinger()
}

// keep returns the program as it is now, for the method restore. Afterwards, clocks may be aligned
// again.
func (p *program) keep() *program {
	kept := *p
	kept.places = slices.Clone(p.places)
	for i := range p.places {
		at := &p.places[i]
		at.sends, at.moved = slices.Clone(at.sends), maps.Clone(at.moved)
	}
	return &kept
}

// restore makes the program what it was when it was kept.
func (p *program) restore(kept *program) {
	places := p.places
	copy(places, kept.places)
	*p = *kept
	p.places = places
}

func (p *program) aligned() bool {
	return !slices.ContainsFunc(p.places, func(at place) bool { return at.foreign && !at.aligned })
}

func (p *program) foreign() bool {
	return slices.ContainsFunc(p.sharers, func(s *sharing) bool { return s.foreign })
}

// narrowestSpan finds the narrowest span that contains a third of the lags.
func narrowestSpan(sorted []int64) (lagSpan, bool) {
	n := len(sorted)
	if n < fewEvents {
		return lagSpan{}, false
	}
	best := lagSpan{width: math.MaxInt64, least: 2*sorted[n/50] - sorted[n/5]}
	for i := 0; i+n/3 < n; i++ {
		if w := sorted[i+n/3] - sorted[i]; w < best.width {
			best.width, best.middle = w, sorted[i]+w/2
		}
	}
	return best, true
}

// containedShare returns the share of a callee's calls that lie within some request if the callee's
// clock is off by the given offset.
func (p *place) containedShare(callee int32, offset int64) float64 {
	inside, all := 0.0, 0.0
	for _, s := range p.sends {
		if s.callee != callee || s.to == calls.Unknown {
			continue
		}
		all++
		inside += float64(count(p.isContained(&s, offset)))
	}
	return inside / max(all, 1)
}

// isContained reports whether a call lies within some request if its callee's clock is off by the
// given offset.
func (p *place) isContained(s *send, offset int64) bool {
	n := p.firstAfter(s.from - offset + slack_ns)
	for k := n - 1; k >= 0 && k > n-nearestMoments; k-- {
		if p.requests[k].to >= s.to-offset-slack_ns {
			return true
		}
	}
	return false
}

// doubtClocks lowers the probabilities of links that depend on a clock of which nobody knows how it
// is set: if the callee's calls mostly begin while no request is open, the clocks differ by more
// than was found.
func (p *place) doubtClocks(seen *calls.Seen, all []Link) {
	for _, call := range p.unsure {
		all[call].lower(0.5)
	}
	if !p.foreign || p.aligned {
		return
	}
	open, sent := map[int32]float64{}, map[int32]float64{}
	p.eachCandidates(p.slack, func(s send, requests []int32) {
		sent[s.callee]++
		open[s.callee] += float64(count(len(requests) > 0))
	})
	for _, s := range p.sends {
		l := &all[s.call]
		if !p.sharp[s.callee] && seen.Calls[s.call].Sent_ns == calls.Unknown {
			l.Probability = min(l.Probability, open[s.callee]/sent[s.callee])
			l.RunnerUpProbability = min(l.RunnerUpProbability, l.Probability)
		}
	}
}

// subtractOffsets subtracts offsets from the moments of calls.
func (p *place) subtractOffsets(seen *calls.Seen, offsets map[int32]int64, slack int64) {
	for i := range p.sends {
		s := &p.sends[i]
		if seen.Calls[s.call].Sent_ns == calls.Unknown {
			s.from -= offsets[s.callee]
			if s.to != calls.Unknown {
				s.to -= offsets[s.callee]
			}
			p.foreign, p.slack = true, slack+seen.Quantum_ns
		}
	}
	if p.moved == nil {
		p.moved = map[int32]int64{}
	}
	for callee, offset := range offsets {
		p.moved[callee] += offset
	}
	p.sortSends()
}
