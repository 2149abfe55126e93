package paths

import (
	"cmp"

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
}

func newCauses(s *Seen, links []link.Link) *causes {
	c := &causes{s, links, make([][]int32, len(links)), make([][]int32, len(links)),
		map[int32]int32{}}
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
	return c
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
	return received, p
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
