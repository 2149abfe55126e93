package link

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A Link names the received call that caused a sent call.
type Link struct {
	Cause       int32   // number of the received call that caused it, or calls.NoCause
	Probability float64 // probability that Cause is right

	// RunnerUp is the second most probable cause. If there is none, RunnerUpProbability is 0.
	RunnerUp            int32
	RunnerUpProbability float64
}

// A Method finds the causes of calls. Link returns a link for each call. If the caller of a call
// was not observed, the link of this call has no meaning.
type Method interface {
	Name() string
	Link(*calls.Seen) []Link
}

// Methods are all methods. The product's own comes first.
var Methods = []Method{
	learntMethod{window: defaultWindow}, wap5{}, nesting{}, convolution{}, lastArrival{}, thread{},
}

// A request is a call as its callee sees it.
type request struct {
	call int32
	// when it was received, and when it was replied to: farFuture if that is not known
	from, to int64
	until    int64 // it cannot have caused a call after this
	caller   int32
	mixed    uint32 // number of the connection on which several requests were open; 0: none
	kind     int32  // number of the kind of request
	begin    act
	reply    act
	wake     calls.Wake // before the reply
}

const farFuture = math.MaxInt64

// A send is a call as its caller sees it.
type send struct {
	call     int32
	from, to int64 // when it was sent, and when its response was received, which may be Unknown
	callee   int32
	answers  uint32     // if the send answers a request of a mixed connection, its number
	oneWay   bool       // it awaits no response
	known    int32      // the call that caused it, as is known otherwise, or calls.UnknownCause
	linger   int64      // how long after the reply to a request it may still belong to the request
	wake     calls.Wake // before it was sent
	acts
}

// A place has the requests that one calls.Place received, and the calls that it sent.
type place struct {
	number   int32
	requests []request // sorted by from
	untils   []int64   // the latest until of each block of requests
	sends    []send    // sorted by from
	ordered  *order
	foreign  bool            // the moments of some sends are readings of other clocks
	slack    int64           // how far such moments may be off, in ns
	moved    map[int32]int64 // what was subtracted from such moments, for each callee
	linger   int64           // the longest of the sends
	aligned  bool            // an earlier window already showed how far the clocks differ
	sharp    map[int32]bool  // see clocks
	unsure   []int32         // calls sent at about the time when a clock stepped
}

// placesOf returns the places at which calls may have causes. If a caller's moments are not known,
// the callee's moments are used instead.
func placesOf(seen *calls.Seen) []place {
	all := emptyPlaces(seen)
	served, sent := zeroCounts(seen)
	for i := range seen.Calls {
		c := &seen.Calls[i]
		if c.Callee >= 0 && c.Received_ns != calls.Unknown && !c.Answers {
			r := request{call: int32(i), from: c.Received_ns, to: c.Replied_ns, caller: c.Caller,
				mixed: c.Connection, begin: actOf(c.ReceivedBy), reply: actOf(c.RepliedBy),
				wake: c.RepliedWake}
			if r.to == calls.Unknown || r.to == r.from && served[c.Callee].unknown() {
				r.to = farFuture
			}
			r.until = r.to
			all[c.Callee].requests = append(all[c.Callee].requests, r)
		}
		if c.Caller >= 0 {
			s := send{call: int32(i), from: c.Sent_ns, to: c.Got_ns, callee: c.Callee,
				acts: acts{actOf(c.SentBy), actOf(c.GotBy)}, wake: c.SentWake,
				known: calls.UnknownCause, oneWay: c.OneWay}
			if cause, ok := seen.Known[int32(i)]; ok {
				s.known = cause
			}
			if c.Answers {
				s.answers = c.Connection
			}
			if s.from == calls.Unknown {
				s.from, s.to = c.Received_ns, c.Replied_ns
				s.acts = acts{}
				if c.Callee >= 0 && s.to == s.from && served[c.Callee].unknown() {
					s.to = calls.Unknown
				}
			} else if s.to == s.from && sent[c.Caller].unknown() {
				s.to = calls.Unknown
			}
			if s.from == calls.Unknown {
				continue // nobody knows when the request was sent
			}
			all[c.Caller].sends = append(all[c.Caller].sends, s)
		}
	}
	for i := range all {
		all[i].number = int32(i)
		r := all[i].requests
		sort.SliceStable(r, func(a, b int) bool { return r[a].from < r[b].from })
		slices.SortStableFunc(all[i].sends, func(a, b send) int {
			return cmp.Compare(a.from, b.from)
		})
		all[i].limitOpen()
		all[i].findUntils()
		all[i].numberTurns()
	}
	return slices.DeleteFunc(all, func(p place) bool { return len(p.sends) == 0 })
}

// emptyPlaces returns places that have room for their requests and sends.
func emptyPlaces(seen *calls.Seen) []place {
	all := make([]place, len(seen.Places))
	requests, sends := make([]int, len(all)), make([]int, len(all))
	for i := range seen.Calls {
		c := &seen.Calls[i]
		if c.Callee >= 0 {
			requests[c.Callee]++
		}
		if c.Caller >= 0 {
			sends[c.Caller]++
		}
	}
	for i := range all {
		all[i].requests, all[i].sends = make([]request, 0, requests[i]), make([]send, 0, sends[i])
	}
	return all
}

// Some recorders write the duration 0 if they do not know when a span ended. Such a request would
// end before it could send a call, so its calls would be linked to other requests, and the links
// would be sure. Real durations may be 0, too, if the clock is coarse. But then about as many
// durations are a quantum or two. If fewer are, nobody knows when the requests of duration 0 ended.

// zeroCount counts durations of 0, those of one or two quanta, and all.
type zeroCount struct{ zero, short, all int }

func (n *zeroCount) add(from, to, quantum int64) {
	if from == calls.Unknown || to == calls.Unknown {
		return
	}
	n.all++
	n.zero += count(to == from)
	n.short += count(to > from && to-from <= 2*quantum)
}

// unknown reports whether the durations of 0 mean that the duration is not known.
func (n *zeroCount) unknown() bool { return n.zero > n.short && 2*n.zero < n.all }

// zeroCounts counts the durations of the requests that each place received, and of the calls that
// it sent.
func zeroCounts(seen *calls.Seen) (served, sent []zeroCount) {
	served, sent = make([]zeroCount, len(seen.Places)), make([]zeroCount, len(seen.Places))
	for i := range seen.Calls {
		c := &seen.Calls[i]
		if c.Callee >= 0 {
			served[c.Callee].add(c.Received_ns, c.Replied_ns, seen.Quantum_ns)
		}
		if c.Caller >= 0 {
			sent[c.Caller].add(c.Sent_ns, c.Got_ns, seen.Quantum_ns)
		}
	}
	return served, sent
}

// A mixedConnection has what was received and sent on a mixed connection.
type mixedConnection struct {
	asked    []int32 // requests
	answered []int64 // when responses were sent
	open     []int   // requests that were open just before each response
}

// overtakers says how many responses may overtake another one: so many times the number of requests
// that were open at once. Some requests wait very long, for example if a thread of a callee stalls.
const overtakers = 4

// limitOpen restricts how long the requests of mixed connections count as open. A response may
// overtake other responses, but not too many of them.
func (p *place) limitOpen() {
	all := map[uint32]*mixedConnection{}
	next := 0
	ask := func(until int64) {
		for ; next < len(p.requests) && p.requests[next].from <= until; next++ {
			if r := &p.requests[next]; r.mixed != 0 && r.to == farFuture {
				if all[r.mixed] == nil {
					all[r.mixed] = &mixedConnection{}
				}
				all[r.mixed].asked = append(all[r.mixed].asked, int32(next))
			}
		}
	}
	for _, s := range p.sends {
		ask(s.from)
		if c := all[s.answers]; c != nil && s.answers != 0 {
			c.open = append(c.open, len(c.asked)-len(c.answered))
			c.answered = append(c.answered, s.from)
		}
	}
	ask(farFuture)
	defer p.limitOneWay()
	for _, c := range all {
		if c.lacksResponses() {
			continue
		}
		// The first responses may answer requests from before the data.
		before := max(0, 1-slices.Min(c.open))
		most := slices.Max(c.open) + before
		for i, r := range c.asked {
			if last := i + before + overtakers*most; last < len(c.answered) {
				p.requests[r].until = c.answered[last]
			}
		}
	}
}

// lacksResponses reports whether the data lack responses. Requests at the end may be open still. So
// if the last requests lack responses, but the others do not, the data lack none.
func (c *mixedConnection) lacksResponses() bool {
	n, half := len(c.asked), len(c.open)/2
	switch {
	case half == 0:
		return true
	case len(c.answered) >= n-n/100:
		return false
	}
	return slices.Min(c.open[half:])-slices.Min(c.open[:half]) > n/100
}

// limitOneWay restricts how long requests without a response count as open. The limit is several
// times the time for which other requests were open.
func (p *place) limitOneWay() {
	const (
		often    = 4
		least_ns = 20_000_000
		none_ns  = 1_000_000_000 // if there are no other requests
	)
	var lengths []int64
	for _, r := range p.requests {
		if r.until != farFuture {
			lengths = append(lengths, r.until-r.from)
		}
	}
	if len(lengths) == len(p.requests) {
		return
	}
	limit := int64(none_ns)
	if n := len(lengths); n > 0 {
		slices.Sort(lengths)
		limit = max(often*min(lengths[n*99/100], longest_ns), least_ns)
	}
	for i := range p.requests {
		if r := &p.requests[i]; r.until == farFuture {
			r.until = r.from + limit
		}
	}
}

// noLinks returns links that name no cause.
func noLinks(seen *calls.Seen) []Link {
	all := make([]Link, len(seen.Calls))
	for i := range all {
		all[i] = Link{Cause: calls.NoCause, RunnerUp: calls.NoCause}
	}
	return all
}

// programNumbers returns the number of each place's program. Copies of a program have the same
// number.
func programNumbers(seen *calls.Seen) []int32 {
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

// bestTwo collects the weights of causes, and makes a link of the two largest.
type bestTwo struct {
	Link
	sum float64
}

func newBest() bestTwo { return bestTwo{Link: Link{Cause: calls.NoCause, RunnerUp: calls.NoCause}} }

func (b *bestTwo) add(cause int32, weight float64) {
	b.sum += weight
	if weight > b.Probability {
		b.RunnerUp, b.RunnerUpProbability = b.Cause, b.Probability
		b.Cause, b.Probability = cause, weight
	} else if weight > b.RunnerUpProbability {
		b.RunnerUp, b.RunnerUpProbability = cause, weight
	}
}

func (b *bestTwo) link() Link {
	if b.sum > 0 {
		b.Probability /= b.sum
		b.RunnerUpProbability /= b.sum
	}
	return b.Link
}

// idleTime returns how much of the time between two moments passed without an open request, in ns.
func (p *place) idleTime(first, last int64) float64 {
	sum, until := 0.0, first
	for _, r := range p.requests {
		if r.from > until {
			sum += float64(min(r.from, last) - until)
		}
		if until = max(until, r.until); until >= last {
			return sum
		}
	}
	return sum + float64(max(last-until, 0))
}
