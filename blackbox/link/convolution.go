package link

import (
	"math"
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// convolution is the convolution algorithm of Project 5. It correlates the times at which requests
// come with the times at which calls are sent. A spike in the correlation is the delay between
// cause and effect. Project 5 does not link single messages. Here the cause of a call is the open
// request at whose delay the correlation is highest.
type convolution struct{}

func (convolution) Name() string { return "convolution" }

func (convolution) Link(seen *calls.Seen) []Link {
	all := noLinks(seen)
	program := programNumbers(seen)
	type edge struct{ at, callee int32 }
	// spikes has, for each range of delays, by how much the number of delays exceeds the number
	// that chance would give. The delays in the other direction show the number that chance gives.
	const steps = 64
	spikes := map[edge]*[steps]float64{}
	places := placesOf(seen)
	for i := range places {
		p := &places[i]
		for _, s := range p.sends {
			e := edge{program[p.number], program[s.callee]}
			if spikes[e] == nil {
				spikes[e] = &[steps]float64{}
			}
			at := p.firstAfter(s.from)
			for k := at - 1; k >= 0 && k > at-100; k-- {
				spikes[e][bits.Len64(uint64(s.from-p.requests[k].from))]++
			}
			for k := at; k < len(p.requests) && k < at+100; k++ {
				spikes[e][bits.Len64(uint64(p.requests[k].from-s.from))]--
			}
		}
	}
	for i := range places {
		p := &places[i]
		p.eachCandidates(0, func(s send, open []int32) {
			e := spikes[edge{program[p.number], program[s.callee]}]
			b := newBest()
			for k := len(open) - 1; k >= 0; k-- {
				r := p.requests[open[k]]
				n := bits.Len64(uint64(s.from - r.from))
				b.add(r.call, max(e[n], 0)/math.Ldexp(1, n))
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
