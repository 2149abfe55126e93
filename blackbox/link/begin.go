package link

import (
	"cmp"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A lag compares two kinds of moments. For each delay, it counts how often a moment of the second
// kind follows a moment of the first kind after this delay. It subtracts how often a moment of the
// second kind precedes a moment of the first kind by the same delay. By chance, both happen equally
// often. So at any load, the difference shows how often the first kind causes the second.
type lag struct {
	after, before delays
	calls         float64 // number of calls whose lags were counted
}

const (
	nearestMoments = 200     // how many moments on each side of a moment count
	enoughLags     = 200_000 // about how many lags are counted for two kinds
)

// rates returns, for each delay, the logarithm of the rate at which a moment causes calls. The
// rates come from the delays that are more frequent than chance would make them. The parameter
// calls is the mean number of calls for each moment.
func (l *lag) rates(calls float64) (f [delaySteps]float64) {
	a, b := l.after.density(&broadDensity, 1), l.before.density(&broadDensity, 1)
	for i := range f {
		f[i] = math.Log(calls * (max(a[i]*l.after.n-b[i]*l.before.n, 0)/max(l.calls, 1) +
			0.05*broadDensity[i]))
	}
	return f
}

// firstRates has the rates by which calls are first assigned to requests, for each kind of request
// and each kind of call.
type firstRates struct {
	starts [][delaySteps]float64 // of delays from the request to the call
	ends   [][delaySteps]float64 // of delays from the response to the reply
}

func (p *program) first() *firstRates {
	m := p.m
	starts, ends := make([]lag, m.requests*m.kinds), make([]lag, m.requests*m.kinds)
	requests, sent := make([]float64, m.requests), make([]float64, m.kinds)
	for _, s := range p.sharers {
		s.lags(starts, ends)
		for i := range s.requests {
			requests[s.requests[i].kind]++
		}
		for i := range s.calls {
			sent[s.calls[i].kind]++
		}
	}
	f := &firstRates{}
	for i := range starts {
		calls := sent[i%m.kinds] / max(requests[i/m.kinds], 1)
		f.starts = append(f.starts, starts[i].rates(calls))
		f.ends = append(f.ends, ends[i].rates(calls))
	}
	return f
}

// lags counts the lags from requests to calls, and from the responses of calls to the replies that
// answer requests.
func (s *sharing) lags(starts, ends []lag) {
	m := s.m
	begins, replies := make([][]int64, m.requests), make([][]int64, m.requests)
	for _, r := range s.requests {
		begins[r.kind] = append(begins[r.kind], r.from)
		if r.to != farFuture {
			replies[r.kind] = append(replies[r.kind], r.to)
		}
	}
	for k := range replies {
		slices.Sort(replies[k])
	}
	for _, c := range s.calls {
		for q := range begins {
			n := q*m.kinds + int(c.kind)
			starts[n].countLags(begins[q], c.from, 1, m.unit)
			if c.to != calls.Unknown {
				ends[n].countLags(replies[q], c.to, -1, m.unit)
			}
		}
	}
}

// countLags counts the lags from all moments to a given one. If sign is -1, it counts the lags from
// the given moment to all others.
func (l *lag) countLags(all []int64, t, sign, unit int64) {
	if l.after.n+l.before.n > enoughLags {
		return
	}
	l.calls++
	n, _ := slices.BinarySearch(all, t)
	for _, other := range all[max(0, n-nearestMoments):min(len(all), n+nearestMoments)] {
		if d := sign * (t - other); d >= 0 {
			l.after.add(d/unit, 1)
		} else {
			l.before.add(-d/unit, 1)
		}
	}
}

const tooLate = -10 // is added to a score if a response comes after the reply

// giveOwners gives each call its first owner, before a model is learnt.
func (p *program) giveOwners() {
	firsts := p.first()
	for _, s := range p.sharers {
		s.begin(firsts)
	}
}

func (s *sharing) begin(f *firstRates) {
	const again = -4 // for each other call of the kind
	// In a place with one thread, only the order of calls says to which request a call belongs: see
	// the type order.
	same, inTurn := 6.0, 2.0 // for the same thread, and if the request is the next one
	if s.order != nil && s.order.threads == 1 {
		same, inTurn = 0, 8
	}
	m := s.m
	type event struct {
		act
		kind int // if a message was received; -1: a call was sent
	}
	last := make([]event, len(s.requests))
	for r := range s.requests {
		last[r] = event{s.requests[r].begin, int(s.requests[r].kind)}
	}
	answered := s.answeredCalls()
	for c, open := range s.candidates {
		k, of := s.calls[c].kind, &s.calls[c]
		for len(answered) > 0 && s.calls[answered[0]].to <= of.from {
			a := answered[0]
			answered = answered[1:]
			if r := s.owner[a]; r >= 0 {
				last[r] = event{s.calls[a].got, m.requests + int(s.calls[a].kind)}
			}
		}
		best, at := int32(-1), math.Inf(-1)
		for _, r := range open {
			q := &s.requests[r]
			score := f.starts[int(q.kind)*m.kinds+int(k)][stepOf((of.from-q.from)/m.unit)]
			if q.to != farFuture && of.to != calls.Unknown && of.to <= q.to {
				score += f.ends[int(q.kind)*m.kinds+int(k)][stepOf((q.to-of.to)/m.unit)]
			} else {
				score += tooLate
			}
			if of.sent.by != 0 {
				if of.sent.by == q.reply.by || of.sent.directlyAfter(last[r].act) ||
					of.sent.woken == last[r].step && last[r].by != 0 {
					score += same
				}
				if h := last[r]; h.by != 0 && h.kind >= 0 &&
					s.order.keepsOrder(h.kind, h.index, int(k), of.sent.index) {
					score += inTurn
				}
			}
			for _, other := range s.scripts[r] {
				if s.calls[other].kind == k {
					score += again
				}
			}
			if score > at {
				best, at = r, score
			}
		}
		if s.owner[c] = best; best >= 0 {
			s.scripts[best] = append(s.scripts[best], int32(c))
			last[best] = event{of.sent, -1}
		}
	}
}

// answeredCalls returns the calls that have responses, in the order of the responses.
func (s *sharing) answeredCalls() (all []int32) {
	for c := range s.calls {
		if s.calls[c].to != calls.Unknown {
			all = append(all, int32(c))
		}
	}
	slices.SortStableFunc(all, func(a, b int32) int {
		return cmp.Compare(s.calls[a].to, s.calls[b].to)
	})
	return all
}

// follow goes through the calls in the order in which they were sent. By the model of earlier
// windows, it gives each call to the request whose script, as far as it is known then, the call
// continues best.
func (s *sharing) follow() {
	var events []event
	n, kinds := int32(s.m.nexts()), int32(s.m.kinds)
	for c, open := range s.candidates {
		best, at := int32(-1), s.aloneScore(int32(c))
		if s.pinned[c] {
			at = math.Inf(-1)
		}
		for _, r := range open {
			s.script, events = append(append(s.script[:0], s.scripts[r]...), int32(c)), events[:0]
			s.m.walkEvents(&s.requests[r], s.script, s.calls, s.order, math.Inf(-1), &events)
			last := len(events) - 1
			for events[last].number%n >= kinds {
				last-- // to the call c
			}
			score := s.m.addScore(0, events[last])
			if s.calls[c].to > s.requests[r].to {
				score += tooLate
			}
			if score > at {
				best, at = r, score
			}
		}
		if s.owner[c] = best; best >= 0 {
			s.scripts[best] = append(s.scripts[best], int32(c))
		}
	}
}
