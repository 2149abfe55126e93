package paths

import (
	"cmp"
	"slices"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// A Cause names the received message because of which a program sent a message.
type Cause struct {
	Program  string
	Sent     *messages.Call
	Received *messages.Call // nil: no received message caused it, or the cause is not known
	// Probability is the probability that Received is the cause.
	Probability float64
}

// Causes finds the causes of all messages that began a request or ended a response. For every such
// message, it makes one call of the function each.
func Causes(dir *runs.Directory, o Options, each func(Cause)) error {
	k, err := o.look(dir, nil)
	if k == nil || err != nil {
		return err
	}
	defer k.close()
	seen, links, err := o.linkWhole(k)
	if err == nil {
		newCauses(seen, links).each(each)
	}
	return err
}

// causes finds the causes of messages. The cause is the last message that the program had received
// for the same request.
type causes struct {
	*Seen
	links   []link.Link
	owned   [][]int32       // the calls that each call led to
	perhaps [][]int32       // the calls of which each call is the runner-up
	answer  map[int32]int32 // the response of each request of a mixed connection
	heard   [][]heard       // the ends of responses at each place, in the order of receiving
	// others has, for each call, the probability that it belongs to a given open request which its
	// link does not name. For a response of a mixed connection, this is the probability that it
	// answers a call of a given open request, and not the call that its link names.
	others []float64
}

// A heard is a received message that ended a response.
type heard struct {
	at   uint64 // when it was received, on the counter of its node
	call int32  // the response, if it is a call of its own, or else its call
}

func newCauses(s *Seen, links []link.Link) *causes {
	c := &causes{s, links, make([][]int32, len(links)), make([][]int32, len(links)),
		map[int32]int32{}, make([][]heard, len(s.Places)), make([]float64, len(links))}
	for i := range links {
		l := &links[i]
		if s.Calls[i].Caller < 0 {
			continue
		}
		if l.RunnerUp >= 0 && l.RunnerUpProbability > 0 {
			c.perhaps[l.RunnerUp] = append(c.perhaps[l.RunnerUp], int32(i))
		}
		if l.Cause < 0 {
			continue
		}
		if !s.Calls[i].Answers {
			c.owned[l.Cause] = append(c.owned[l.Cause], int32(i))
		} else if known, ok := c.answer[l.Cause]; !ok ||
			l.Probability > links[known].Probability {
			c.answer[l.Cause] = int32(i)
		}
	}
	c.findHeard()
	c.findOthers()
	return c
}

// findHeard finds the responses that each place received.
func (c *causes) findHeard() {
	for i := range c.links {
		at, got := c.Calls[i].Caller, c.moments[i].got
		if c.Calls[i].Answers {
			at, got = c.Calls[i].Callee, c.moments[i].received
		}
		if at >= 0 && got != nil {
			c.heard[at] = append(c.heard[at], heard{momentOf(got), int32(i)})
		}
	}
	for _, all := range c.heard {
		slices.SortStableFunc(all, func(a, b heard) int { return cmp.Compare(a.at, b.at) })
	}
}

// findOthers divides what links leave to requests that they do not name: each request that was open
// gets an equal part.
func (c *causes) findOthers() {
	const always = 0.005 // each link leaves so much
	begins, ends := make([][]int64, len(c.Places)), make([][]int64, len(c.Places))
	for i := range c.Calls {
		of := &c.Calls[i]
		until := of.Replied_ns
		if a, ok := c.answer[int32(i)]; ok {
			until = c.Calls[a].Sent_ns
		}
		if of.Callee >= 0 && !of.Answers && until != calls.Unknown {
			begins[of.Callee] = append(begins[of.Callee], of.Received_ns)
			ends[of.Callee] = append(ends[of.Callee], until)
		}
	}
	for i := range c.Places {
		slices.Sort(begins[i])
		slices.Sort(ends[i])
	}
	for i := range c.links {
		l, of := &c.links[i], &c.Calls[i]
		at, when, named := of.Caller, of.Sent_ns, count(l.Cause >= 0)+count(l.RunnerUp >= 0)
		rest := 1 - l.Probability - l.RunnerUpProbability
		if of.Answers {
			at, when, named, rest = of.Callee, of.Received_ns, 1, 1-l.Probability
		}
		if of.Caller < 0 || at < 0 || rest < always {
			continue
		}
		began, _ := slices.BinarySearch(begins[at], when)
		ended, _ := slices.BinarySearch(ends[at], when)
		c.others[i] = rest / float64(max(began-ended-named, 1))
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (c *causes) each(do func(Cause)) {
	name := func(place int32) string {
		if place < 0 {
			return ""
		}
		return c.Places[place].Program
	}
	for i := range c.links {
		m, l, of := &c.moments[i], &c.links[i], &c.Calls[i]
		if m.replied != nil && of.Connection == 0 {
			received, p := c.lastReceived(int32(i), momentOf(m.replied))
			do(Cause{name(of.Callee), m.replied, received, p})
		}
		switch {
		case m.sent == nil || of.Caller < 0:
		case l.Cause < 0:
			do(Cause{name(of.Caller), m.sent, nil, l.Probability})
		default:
			received, p := c.lastReceived(l.Cause, momentOf(m.sent))
			do(Cause{name(of.Caller), m.sent, received, p * l.Probability})
		}
	}
}

// lastReceived returns the last message that was received for a request before a moment, and the
// probability that it really was the last.
func (c *causes) lastReceived(request int32, until uint64) (received *messages.Call, p float64) {
	received, p = cmp.Or(c.moments[request].heard, c.moments[request].received), 1
	later := func(got *messages.Call) bool {
		return got != nil && momentOf(got) < until &&
			(received == nil || momentOf(got) > momentOf(received))
	}
	unknown := 1.0
	for _, k := range c.owned[request] {
		got, sure := c.endOfResponse(k)
		if later(got) {
			received, p = got, c.links[k].Probability*sure
		} else if got == nil {
			unknown *= sure
		}
	}
	p *= unknown
	for _, k := range c.perhaps[request] {
		if got, _ := c.endOfResponse(k); got == nil || later(got) {
			p *= 1 - c.links[k].RunnerUpProbability
		}
	}
	return received, p * c.noneOfOthers(request, received, until)
}

// noneOfOthers returns the probability that no response between two moments belongs to a request
// that the response's call does not name.
func (c *causes) noneOfOthers(request int32, after *messages.Call, until uint64) float64 {
	r, p := &c.Calls[request], 1.0
	if after == nil || r.Callee < 0 {
		return p
	}
	all := c.heard[r.Callee]
	first := sort.Search(len(all), func(i int) bool { return all[i].at > momentOf(after) })
	for _, h := range all[first:] {
		if h.at >= until {
			break
		}
		k := h.call
		if c.Calls[k].Answers {
			p *= 1 - c.others[k]
			k = c.links[k].Cause
		}
		if k >= 0 && c.Calls[k].Sent_ns > r.Received_ns && c.links[k].Cause != request &&
			c.links[k].RunnerUp != request {
			p *= 1 - c.others[k]
		}
	}
	return p
}

// endOfResponse returns the message that ended the response of a call, and how sure that is.
func (c *causes) endOfResponse(call int32) (*messages.Call, float64) {
	const even = 0.5
	if c.Calls[call].Connection == 0 {
		return c.moments[call].got, 1
	}
	if a, ok := c.answer[call]; ok {
		return c.moments[a].received, c.links[a].Probability
	}
	return nil, even
}
