package link

import (
	"cmp"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A clock may step in the middle of the data. Then one offset cannot fit both parts: in one of
// them, fewer calls to the callee lie within a request. So the data are cut about there, and the
// clocks are aligned again in each part. If each part then has an offset that fits, the clock
// stepped.

const (
	mostSteps   = 4   // of the clocks of a place
	leastCalls  = 16  // to a callee, in each part
	perhapsStep = 1.5 // a Brownian bridge goes this far once in 45 times
	mostOutside = 0.5 // part of the calls outside of requests that may still be so afterwards
	leastChange = 0.1 // of the share of calls within requests
)

// mendSteps finds steps of clocks, and removes them from the moments of calls.
func (p *place) mendSteps(seen *calls.Seen) {
	for range mostSteps {
		if !p.foreign || !p.mendStep(seen) {
			return
		}
	}
}

// mendStep removes at most one step of each clock, and reports whether it removed any. If something
// changed, but no two offsets explain it, the calls are doubted.
func (p *place) mendStep(seen *calls.Seen) (mended bool) {
	for _, callee := range p.clocks(seen).callees {
		at, ok := p.findStep(callee)
		inside, then, fit := 0.0, 0.0, true
		parts := p.cut(at)
		for i := range parts {
			inside += parts[i].containedShare(callee, 0)
		}
		if inside > 2-leastChange {
			continue
		}
		var offsets [2]int64
		for i := range parts {
			offsets[i] = parts[i].alignAll(seen)[callee]
			then += parts[i].containedShare(callee, offsets[i])
			fit = fit && parts[i].sharp[callee]
		}
		apart := max(offsets[0]-offsets[1], offsets[1]-offsets[0])
		if apart > slack_ns && 2-then < mostOutside*(2-inside) && (ok || fit) {
			p.sharp[callee], mended = fit, true
			p.removeStep(seen, callee, offsets)
		} else if ok {
			p.doubtCalls(callee, -calls.Latest_ns, calls.Latest_ns)
		}
	}
	return mended
}

// doubtCalls doubts the calls to a callee that were sent between two moments.
func (p *place) doubtCalls(callee int32, from, to int64) {
	for i := range p.sends {
		if s := &p.sends[i]; s.callee == callee && s.from > from && s.from < to {
			p.unsure = append(p.unsure, s.call)
		}
	}
}

// findStep finds the moment after which more calls to a callee, or fewer, lie within a request. If
// there is no such moment, it returns the middle one.
func (p *place) findStep(callee int32) (at int64, ok bool) {
	var inside []float64 // 1 or 0 for each call
	var sent []int64
	for i := range p.sends {
		if s := &p.sends[i]; s.callee == callee && s.to != calls.Unknown {
			in := float64(count(p.isContained(s, 0)))
			inside, sent = append(inside, in), append(sent, s.from)
		}
	}
	if len(sent) < 2*leastCalls {
		return 0, false
	}
	n, all := float64(len(sent)), 0.0
	for _, in := range inside {
		all += in
	}
	sum, most, first := 0.0, 0.0, 0
	for i, in := range inside[:len(sent)-leastCalls] {
		sum += in - all/n
		if i+1 >= leastCalls && math.Abs(sum) > most {
			most, first = math.Abs(sum), i+1
		}
	}
	// The difference of the shares in both parts follows from the sum.
	part := float64(first) / n
	if most > perhapsStep*math.Sqrt(all*(n-all)/n) && most/n > leastChange*part*(1-part) {
		return sent[first], true
	}
	return sent[len(sent)/2], false
}

// cut returns the parts of a place before and after a moment.
func (p *place) cut(at int64) (parts [2]place) {
	parts[0], parts[1] = *p, *p
	n, _ := slices.BinarySearchFunc(p.sends, at, compareSent)
	parts[0].sends, parts[1].sends = p.sends[:n], p.sends[n:]
	n = p.firstAfter(at)
	parts[0].requests, parts[1].requests = p.requests[:n], p.requests[n:]
	return parts
}

// removeStep subtracts one offset from the moments of a callee's calls before its clock stepped,
// and another one from those afterwards. It puts the step where most calls then lie within a
// request. There may be several such moments: then the calls between them are doubted.
func (p *place) removeStep(seen *calls.Seen, callee int32, offsets [2]int64) {
	sum, most := 0, math.MinInt
	first, last := int64(calls.Unknown), int64(calls.Unknown)
	for i := range p.sends {
		s := &p.sends[i]
		if s.callee != callee || s.to == calls.Unknown {
			continue
		}
		if sum > most {
			most, first = sum, s.from
		}
		if sum == most {
			last = s.from
		}
		sum += count(p.isContained(s, offsets[0])) - count(p.isContained(s, offsets[1]))
	}
	far := max(offsets[0]-offsets[1], offsets[1]-offsets[0]) + slack_ns
	p.doubtCalls(callee, first-far, last+far)
	at := first + (last-first)/2
	for i := range p.sends {
		s := &p.sends[i]
		if s.callee != callee || seen.Calls[s.call].Sent_ns != calls.Unknown {
			continue
		}
		by := offsets[count(s.from >= at)]
		s.from -= by
		if s.to != calls.Unknown {
			s.to -= by
		}
	}
	p.moved[callee] += offsets[1]
	p.sortSends()
}

func (p *place) sortSends() {
	slices.SortStableFunc(p.sends, func(a, b send) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.callee, b.callee),
			cmp.Compare(a.to, b.to))
	})
}
