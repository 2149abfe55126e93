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
//
// How trees and patterns follow from the links is in trees.go.
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

// departure is a message that a place sent.
type departure struct {
	at   int64
	call int32
	to   int32 // the place that receives it
}

// wap5Cause is a message that may have caused another one.
type wap5Cause struct {
	arrival
	probability float64
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
	sortArrivals(all)
	return all
}

func sortArrivals(all []arrival) {
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
}

// eachWAP5Cause calls a function (do) with each arrival that may have caused a message, the latest
// one first, until the function returns false. The arrivals are sorted by time.
func eachWAP5Cause(arrivals []arrival, d departure, may func(arrival, departure) bool,
	do func(arrival) bool) {
	n, _ := slices.BinarySearchFunc(arrivals, d.at+1, func(a arrival, t int64) int {
		return cmp.Compare(a.at, t)
	})
	for n--; n >= 0 && d.at-arrivals[n].at <= wap5Horizon_ns; n-- {
		if may(arrivals[n], d) && !do(arrivals[n]) {
			return
		}
	}
}

// wap5Means returns the mean delay of the messages to each place. The delay of a message is counted
// from the latest message that may have caused it.
func wap5Means(arrivals []arrival, sent []departure,
	may func(arrival, departure) bool) map[int32]float64 {
	sums, n, means := map[int32]float64{}, map[int32]float64{}, map[int32]float64{}
	for _, d := range sent {
		eachWAP5Cause(arrivals, d, may, func(a arrival) bool {
			sums[d.to] += float64(d.at - a.at)
			n[d.to]++
			return false
		})
	}
	for _, d := range sent {
		means[d.to] = max(sums[d.to]/max(n[d.to], 1), 1)
	}
	return means
}

// wap5Causes calls a function (each) for every message that a place sent: with the causes that the
// message may have, the latest one first, and with the probability of no cause. Another function
// (may) says which arrivals may cause a message.
func wap5Causes(arrivals []arrival, sent []departure, may func(arrival, departure) bool,
	each func(d departure, causes []wap5Cause, none float64)) {
	means := wap5Means(arrivals, sent, may)
	for _, d := range sent {
		var causes []wap5Cause
		var delays []float64
		eachWAP5Cause(arrivals, d, may, func(a arrival) bool {
			causes = append(causes, wap5Cause{arrival: a})
			delays = append(delays, float64(d.at-a.at))
			return len(causes) < wap5Most
		})
		w := wap5Weights(delays, means[d.to], wap5Y)
		for i := range causes {
			causes[i].probability = w[i]
		}
		each(d, causes, w[len(causes)])
	}
}

func (p *place) departures() (all []departure) {
	for _, s := range p.sends {
		all = append(all, departure{s.from, s.call, s.callee})
	}
	return all
}

func isOtherCall(a arrival, d departure) bool { return a.call != d.call }

func (wap5) Link(seen *calls.Seen) []Link {
	all := noLinks(seen)
	for _, p := range placesOf(seen) {
		wap5Causes(p.arrivals(), p.departures(), isOtherCall, func(d departure, causes []wap5Cause,
			none float64) {
			weights := map[int32]float64{calls.NoCause: none}
			for _, a := range causes {
				if !a.response {
					weights[a.call] += a.probability
				} else { // the call was sent before this one, so its link is known
					weights[all[a.call].Cause] += a.probability * all[a.call].Probability
				}
			}
			b := newBest()
			for _, cause := range slices.Sorted(maps.Keys(weights)) {
				b.add(cause, weights[cause])
			}
			b.sum = 1
			all[d.call] = b.link()
		})
	}
	return all
}
