package link

import (
	"math"
	"slices"
)

// A program may go on with a request after the reply: this is background work. A call that it sends
// then is usually mistaken for a call of another request. So if the data show that the program
// sends calls of some kind after replies, a request counts as open for such calls until a little
// after its reply.
//
// The data show this in the times in which no request is open. Calls that the program sends by
// itself come at any moment of these times. Calls that it sends because of a request come soon
// after the reply.

// measureLinger finds out how long after a reply the program still sends calls of each kind.
func (p *program) measureLinger() {
	const more = 1.5 // the longest time that was seen may not be the longest that there is
	late, idle := make([][]int64, len(p.kinds)), []int64(nil)
	for i := range p.places {
		idle = p.places[i].lateness(late, idle, p.kindOf)
	}
	if p.lingers == nil {
		p.lingers = make([]int64, len(p.kinds))
	}
	slices.Sort(idle)
	for k := range late {
		if found := soonTime(late[k], idle); found > 0 {
			p.lingers[k] = int64(more * float64(found))
		}
	}
	for i := range p.places {
		at := &p.places[i]
		at.linger = 0
		for j := range at.sends {
			s := &at.sends[j]
			s.linger = p.lingers[p.kindOf(s)]
			at.linger = max(at.linger, s.linger)
		}
	}
}

// lateness looks at the calls that were sent while no request was open. For each of them, it notes
// how long after the last reply the call was sent. The list late[kind] gets this time, where kind
// is the kind of the call. The list idle gets the lengths of the times in which no request was
// open, and is returned.
func (p *place) lateness(late [][]int64, idle []int64, kindOf func(*send) int32) []int64 {
	n := 0
	until := int64(math.MinInt64)
	for i := 0; i <= len(p.requests); i++ {
		next := int64(math.MaxInt64)
		if i < len(p.requests) {
			next = p.requests[i].from - p.slack
		}
		for ; n < len(p.sends) && p.sends[n].from < next; n++ {
			s := &p.sends[n]
			if i > 0 && s.from > until && s.answers == 0 {
				k := kindOf(s)
				late[k] = append(late[k], s.from-until)
			}
		}
		if i > 0 && next > until && i < len(p.requests) {
			idle = append(idle, next-until)
		}
		if i < len(p.requests) {
			until = max(until, p.requests[i].until)
		}
	}
	return idle
}

// soonTime returns the time after a reply within which calls are surely more frequent than later.
// It returns 0 if there is no such time. The idle times are sorted.
func soonTime(late, idle []int64) (found int64) {
	const chance = 1e-3 // that calls without a request look like calls soon after a reply
	slices.Sort(late)
	all := 0.0
	for _, t := range idle {
		all += float64(t)
	}
	most, shorter, k := 0.0, 0.0, 0
	for i, t := range late {
		for ; k < len(idle) && idle[k] <= t; k++ {
			shorter += float64(idle[k])
		}
		near := (shorter + float64(t)*float64(len(idle)-k)) / all // part of the idle time
		n, of := float64(i+1), float64(len(late))
		more := n - (of-n)*near/max(1-near, 1e-9)
		if more > most && n > of*near && atLeast(n, of, near) < chance {
			most, found = more, t
		}
	}
	return found
}

// atLeast returns Chernoff's upper bound for the probability that at least n events happen. The
// parameter all is the number of possible events, and each of them happens with probability p. n
// must be larger than all·p.
func atLeast(n, all, p float64) float64 {
	e := n * math.Log(n/(all*p))
	if n < all {
		e += (all - n) * math.Log((all-n)/(all*(1-p)))
	}
	return math.Exp(-e)
}
