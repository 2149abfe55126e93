package link

import (
	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// lastArrival chooses the open request that was received last.
type lastArrival struct{}

func (lastArrival) Name() string { return "last" }

func (lastArrival) Link(seen *calls.Seen) []Link {
	all := noLinks(seen)
	for _, p := range placesOf(seen) {
		p.eachCandidates(0, func(s send, open []int32) {
			b := newBest()
			for i := len(open) - 1; i >= 0; i-- {
				b.add(p.requests[open[i]].call, 1/float64(1+i*i))
			}
			if n := len(open); n > 0 {
				all[s.call] = Link{p.requests[open[n-1]].call, 1 / float64(n), calls.NoCause, 0}
			}
		})
	}
	return all
}

// eachCandidates goes through all sends. For every send, it calls the function that is named each,
// and passes the requests that were open at that moment, in the order in which they were received.
// A request counts as open from a little before its beginning (slack) until equally long after its
// end, and longer if the call may come after the reply (see linger.go). Of requests that stay open
// forever, only the last mostOpen count.
func (p *place) eachCandidates(slack int64, each func(s send, open []int32)) {
	var open, own []int32
	next, endless := 0, 0
	for _, s := range p.sends {
		for next < len(p.requests) && p.requests[next].from-slack <= s.from {
			if p.requests[next].until == farFuture {
				endless++
			}
			open = append(open, int32(next))
			next++
		}
		kept := open[:0]
		for _, r := range open {
			u := p.requests[r].until
			if u == farFuture && endless > mostOpen {
				endless--
			} else if u == farFuture || u+slack+p.linger >= s.from {
				kept = append(kept, r)
			}
		}
		open = kept
		if s.answers == 0 && p.linger == 0 {
			each(s, open)
			continue
		}
		own = own[:0]
		for _, r := range open {
			q := &p.requests[r]
			if (s.answers == 0 || q.mixed == s.answers) && q.until >= s.from-slack-s.linger {
				own = append(own, r)
			}
		}
		each(s, own)
	}
}

// thread chooses the request that the sending thread received last, if the request is still open.
type thread struct{}

func (thread) Name() string { return "thread" }

func (thread) Link(seen *calls.Seen) []Link {
	all := noLinks(seen)
	for _, p := range placesOf(seen) {
		p.eachCandidates(0, func(s send, open []int32) {
			by := seen.Calls[s.call].SentBy
			for i := len(open) - 1; i >= 0 && by != 0; i-- {
				r := p.requests[open[i]].call
				if seen.Calls[r].ReceivedBy == by {
					all[s.call] = Link{r, 0.999, calls.NoCause, 0}
					return
				}
			}
		})
	}
	return all
}
