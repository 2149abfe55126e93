package link

import (
	"math"
	"slices"
)

// A lag counts how often two kinds of moments follow each other after each delay, minus how often
// they do so in the other order. Chance is the same in both orders, so what remains shows causes,
// at any load.
type lag struct {
	after, before delays
}

// nearest is how many moments on each side of a moment count.
const nearest = 200

// enoughLags is about how many lags are counted for each kind of calls.
const enoughLags = 200_000

// density returns the logarithm of the density of those delays that exceed chance.
func (l *lag) density() (f [delaySteps]float64) {
	a, b := l.after.density(&broad, 1), l.before.density(&broad, 1)
	sum := 0.0
	for i := range f {
		f[i] = max(a[i]*l.after.n-b[i]*l.before.n, 0)
		sum += f[i] * stepWidths[i]
	}
	for i := range f {
		f[i] = math.Log(0.95*f[i]/max(sum, 1e-9) + 0.05*broad[i])
	}
	return f
}

// begin gives each call its first owner. It compares the delay from the request to the call, and
// the delay from the call's response to the reply.
func (p *program) begin() {
	if p.starts == nil {
		starts, ends := make([]lag, p.m.kinds), make([]lag, p.m.kinds)
		for _, s := range p.sharers {
			s.lags(starts, ends)
		}
		for k := range starts {
			p.starts = append(p.starts, starts[k].density())
			p.ends = append(p.ends, ends[k].density())
		}
	}
	from, to := p.starts, p.ends
	for _, s := range p.sharers {
		for c, open := range s.candidates {
			k, of := s.calls[c].kind, &s.calls[c]
			best, at := int32(-1), math.Inf(-1)
			for _, r := range open {
				score := from[k][stepOf((of.from-s.requests[r].from)/p.m.unit)]
				if e := s.requests[r].to; e != forever && of.to >= 0 && of.to <= e {
					score += to[k][stepOf((e-of.to)/p.m.unit)]
				} else {
					score -= 10
				}
				for _, other := range s.scripts[r] {
					if s.calls[other].kind == k {
						score -= 4
					}
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
}

func (s *sharing) lags(starts, ends []lag) {
	begins, replies := make([]int64, 0, len(s.requests)), make([]int64, 0, len(s.requests))
	for _, r := range s.requests {
		begins = append(begins, r.from)
		if r.to != forever {
			replies = append(replies, r.to)
		}
	}
	slices.Sort(replies)
	for _, c := range s.calls {
		l := &starts[c.kind]
		if l.after.n+l.before.n > enoughLags {
			continue
		}
		around(begins, c.from, func(t int64) {
			if t <= c.from {
				l.after.add((c.from-t)/s.m.unit, 1)
			} else {
				l.before.add((t-c.from)/s.m.unit, 1)
			}
		})
		l = &ends[c.kind]
		around(replies, c.to, func(t int64) {
			if t >= c.to {
				l.after.add((t-c.to)/s.m.unit, 1)
			} else {
				l.before.add((c.to-t)/s.m.unit, 1)
			}
		})
	}
}

// around calls each with the moments of all that are nearest to t.
func around(all []int64, t int64, each func(int64)) {
	n, _ := slices.BinarySearch(all, t)
	for _, m := range all[max(0, n-nearest):min(len(all), n+nearest)] {
		each(m)
	}
}
