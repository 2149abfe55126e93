package link

import (
	"math"
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// convolution is the convolution algorithm of Project 5. It correlates the times at which requests
// come with the times at which calls are sent. A spike in the correlation is the delay between
// cause and effect. Project 5 does not link single messages. Here the cause of a call is the open
// request at whose delay the correlation is highest. Project 5 does not find patterns that are too
// rare for a spike. This method also links rare calls, because it needs no spike.
type convolution struct{}

func (convolution) Name() string { return "convolution" }

// A correlation counts, for each range of delays, how often a call follows a request after such a
// delay, and how often a request follows a call. By chance, both happen equally often.
type correlation [64]struct{ after, before float64 }

// An edge is a calling program and a called one, by their numbers.
type edge struct{ caller, callee int32 }

// correlate counts the delays between requests and calls, for each edge.
func correlate(places []place, program []int32) map[edge]*correlation {
	found := map[edge]*correlation{}
	for i := range places {
		p := &places[i]
		for _, s := range p.sends {
			e := edge{program[p.number], program[s.callee]}
			if found[e] == nil {
				found[e] = &correlation{}
			}
			at := p.firstAfter(s.from)
			for k := at - 1; k >= 0 && k > at-100; k-- {
				found[e][bits.Len64(uint64(s.from-p.requests[k].from))].after++
			}
			for k := at; k < len(p.requests) && k < at+100; k++ {
				found[e][bits.Len64(uint64(p.requests[k].from-s.from))].before++
			}
		}
	}
	return found
}

func (convolution) Link(seen *calls.Seen) []Link {
	all := noLinks(seen)
	program := programNumbers(seen)
	places := placesOf(seen)
	found := correlate(places, program)
	for i := range places {
		p := &places[i]
		p.eachCandidates(0, func(s send, open []int32) {
			c := found[edge{program[p.number], program[s.callee]}]
			b := newBest()
			for k := len(open) - 1; k >= 0; k-- {
				r := p.requests[open[k]]
				n := bits.Len64(uint64(s.from - r.from))
				b.add(r.call, max(c[n].after-c[n].before, 0)/math.Ldexp(1, n))
			}
			all[s.call] = b.link()
		})
	}
	return all
}

// firstAfter returns the number of the first request that was received after t.
func (p *place) firstAfter(t int64) int {
	lo, hi := 0, len(p.requests)
	for lo < hi {
		if mid := (lo + hi) / 2; p.requests[mid].from <= t {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
