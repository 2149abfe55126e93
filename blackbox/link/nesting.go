package link

import (
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// nesting is the nesting algorithm of Project 5: the cause of a call is a request whose time
// contains the call's own time. If there are several, the most common delay between such calls
// decides.
type nesting struct{}

func (nesting) Name() string { return "nesting" }

func (nesting) Link(seen *calls.Seen) []Link {
	all := noLinks(seen)
	program := programNumbers(seen)
	type key struct{ caller, at, callee, delay int32 }
	score := map[key]float64{}
	keyOf := func(p *place, r request, s send) key {
		delay := int32(bits.Len64(uint64(s.from - r.from)))
		k := key{-1, program[p.number], program[s.callee], delay}
		if r.caller >= 0 {
			k.caller = program[r.caller]
		}
		return k
	}
	places := placesOf(seen)
	each := func(do func(p *place, s send, parents []request)) {
		for i := range places {
			p := &places[i]
			p.eachCandidates(0, func(s send, open []int32) {
				var parents []request
				for _, r := range open {
					if s.to == calls.Unknown || s.to <= p.requests[r].to {
						parents = append(parents, p.requests[r])
					}
				}
				do(p, s, parents)
			})
		}
	}
	each(func(p *place, s send, parents []request) {
		for _, r := range parents {
			score[keyOf(p, r, s)] += 1 / float64(len(parents))
		}
	})
	each(func(p *place, s send, parents []request) {
		b := newBest()
		for i := len(parents) - 1; i >= 0; i-- {
			b.add(parents[i].call, score[keyOf(p, parents[i], s)])
		}
		all[s.call] = b.link()
	})
	return all
}
