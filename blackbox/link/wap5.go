package link

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// wap5 is the linking of WAP5 (WWW 2006). It assumes that the delay between a message and the
// message that it causes is exponential, with a mean for each pair of sender and receiver. The
// paper leaves some things open. They are decided as follows:
//
//   - A cause was received at most wap5Horizon_ns before the call, or at the same moment. The mean
//     delay is measured with the same limit.
//   - If the mean is 0, 1 ns is used instead.
//   - If it is not known when the caller sent a call, the moments of the callee are used.
//   - Requests and responses are messages, so the cause of a call may be a response. The cause is
//     then replaced by the cause of the call with this response. Probabilities are multiplied.
type wap5 struct{}

const (
	wap5Horizon_ns = 1_000_000_000
	wap5Y          = 4 // up to how many mean delays a cause is more probable than no cause
	wap5Most       = 200
)

func (wap5) Name() string { return "wap5" }

// wap5Weights returns the probabilities of causes at these delays. The last result is the
// probability of no cause, which is as high as that of a cause with a delay of y times the mean.
func wap5Weights(delays []float64, mean, y float64) []float64 {
	w := make([]float64, len(delays)+1)
	sum := 0.0
	for i, d := range delays {
		w[i] = math.Exp(-d / mean)
		sum += w[i]
	}
	w[len(delays)] = math.Exp(-y)
	sum += w[len(delays)]
	for i := range w {
		w[i] /= sum
	}
	return w
}

// arrival is a message that a place received.
type arrival struct {
	at       int64
	call     int32
	response bool
}

func (p *place) arrivals() []arrival {
	var all []arrival
	for _, r := range p.requests {
		all = append(all, arrival{r.from, r.call, false})
	}
	for _, s := range p.sends {
		if s.to != calls.Unknown {
			all = append(all, arrival{s.to, s.call, true})
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return all
}

func (wap5) Link(seen *calls.Seen) []Link {
	all := noLinks(seen)
	for _, p := range placesOf(seen) {
		arrivals := p.arrivals()
		until := func(t int64) int {
			n, _ := slices.BinarySearchFunc(arrivals, t+1, func(a arrival, t int64) int {
				return cmp.Compare(a.at, t)
			})
			return n
		}
		type mean struct{ sum, n float64 }
		means := map[int32]*mean{}
		for _, s := range p.sends {
			m := means[s.callee]
			if m == nil {
				m = &mean{}
				means[s.callee] = m
			}
			if n := until(s.from); n > 0 && s.from-arrivals[n-1].at <= wap5Horizon_ns {
				m.sum += float64(s.from - arrivals[n-1].at)
				m.n++
			}
		}
		for _, s := range p.sends {
			var delays []float64
			var causes []arrival
			for n := until(s.from) - 1; n >= 0 && len(causes) < wap5Most; n-- {
				d := s.from - arrivals[n].at
				if d > wap5Horizon_ns {
					break
				}
				if arrivals[n].call == s.call {
					continue
				}
				delays, causes = append(delays, float64(d)), append(causes, arrivals[n])
			}
			m := means[s.callee]
			w := wap5Weights(delays, max(m.sum/max(m.n, 1), 1), wap5Y)
			weights := map[int32]float64{calls.NoCause: w[len(causes)]}
			for i, a := range causes {
				if !a.response {
					weights[a.call] += w[i]
				} else { // the call was sent before this one, so its link is known
					weights[all[a.call].Cause] += w[i] * all[a.call].Probability
				}
			}
			b := newBest()
			for _, cause := range slices.Sorted(maps.Keys(weights)) {
				b.add(cause, weights[cause])
			}
			b.sum = 1
			all[s.call] = b.link()
		}
	}
	return all
}
