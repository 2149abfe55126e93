package link

import (
	"cmp"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A Link says which call caused a call.
type Link struct {
	Cause       int32   // number of the received call that caused it, or calls.NoCause
	Probability float64 // probability that Cause is right

	// RunnerUp is the second most probable cause. If there is none, RunnerUpProbability is 0.
	RunnerUp            int32
	RunnerUpProbability float64
}

// A Method finds the causes of calls. Link returns a link for each call. If the caller of a call
// was not observed, its link has no meaning.
type Method interface {
	Name() string
	Link(*calls.Seen) []Link
}

// Methods are all methods. The product's own comes first.
var Methods = []Method{
	learnt{window: 6000}, wap5{}, nesting{}, convolution{}, lastArrival{}, thread{},
}

// A request is a call as its callee sees it.
type request struct {
	call     int32
	from, to int64 // when it was received, and when it was replied to: forever if that is not known
	caller   int32
}

const forever = math.MaxInt64

// A send is a call as its caller sees it.
type send struct {
	call     int32
	from, to int64 // when it was sent, and when its response was received, which may be Unknown
	callee   int32
}

// A place has the requests and calls of one place of the data.
type place struct {
	number   int32
	requests []request // sorted by from
	sends    []send    // sorted by from
	foreign  bool      // the moments of some sends are readings of other clocks
	slack    int64     // how far such moments may be off, in ns
}

// placesOf returns the places at which calls may have causes. If a caller's moments are not known,
// the callee's moments are used instead.
func placesOf(seen *calls.Seen) []place {
	all := make([]place, len(seen.Places))
	for i := range seen.Calls {
		c := &seen.Calls[i]
		if c.Callee >= 0 && c.Received_ns != calls.Unknown {
			r := request{int32(i), c.Received_ns, c.Replied_ns, c.Caller}
			if r.to == calls.Unknown {
				r.to = forever
			}
			all[c.Callee].requests = append(all[c.Callee].requests, r)
		}
		if c.Caller >= 0 {
			s := send{int32(i), c.Sent_ns, c.Got_ns, c.Callee}
			if s.from == calls.Unknown {
				s.from, s.to = c.Received_ns, c.Replied_ns
			}
			all[c.Caller].sends = append(all[c.Caller].sends, s)
		}
	}
	for i := range all {
		all[i].number = int32(i)
		slices.SortStableFunc(all[i].requests, func(a, b request) int {
			return cmp.Compare(a.from, b.from)
		})
		slices.SortStableFunc(all[i].sends, func(a, b send) int {
			return cmp.Compare(a.from, b.from)
		})
	}
	return slices.DeleteFunc(all, func(p place) bool { return len(p.sends) == 0 })
}

// none returns links that name no cause.
func none(seen *calls.Seen) []Link {
	all := make([]Link, len(seen.Calls))
	for i := range all {
		all[i] = Link{Cause: calls.NoCause, RunnerUp: calls.NoCause}
	}
	return all
}

// programs returns the number of each place's program. Copies of a program have the same number.
func programs(seen *calls.Seen) []int32 {
	known := map[string]int32{}
	of := make([]int32, len(seen.Places))
	for i, p := range seen.Places {
		n, ok := known[p.Program]
		if !ok {
			n = int32(len(known))
			known[p.Program] = n
		}
		of[i] = n
	}
	return of
}

// best collects the weights of causes, and makes a link of the two largest.
type best struct {
	Link
	sum float64
}

func newBest() best { return best{Link: Link{Cause: calls.NoCause, RunnerUp: calls.NoCause}} }

func (b *best) add(cause int32, weight float64) {
	b.sum += weight
	if weight > b.Probability {
		b.RunnerUp, b.RunnerUpProbability = b.Cause, b.Probability
		b.Cause, b.Probability = cause, weight
	} else if weight > b.RunnerUpProbability {
		b.RunnerUp, b.RunnerUpProbability = cause, weight
	}
}

func (b *best) link() Link {
	if b.sum > 0 {
		b.Probability /= b.sum
		b.RunnerUpProbability /= b.sum
	}
	return b.Link
}

// idle returns how long no request was open between two moments, in ns.
func (p *place) idle(first, last int64) float64 {
	sum, until := 0.0, first
	for _, r := range p.requests {
		if r.from > until {
			sum += float64(min(r.from, last) - until)
		}
		if until = max(until, r.to); until >= last {
			return sum
		}
	}
	return sum + float64(max(last-until, 0))
}
