package link

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// On a mixed connection, nobody knows how long a request is open, so limitOpen restricts the time.
// A response that comes later is linked to no request. But it surely belongs to one: to a request
// that got no other response. If such a request waited for a call, its response comes soon after
// the response of the call.

// lateSays is the probability of a link to the only request without a response, or to the only one
// of them that may soon be replied to.
const lateSays = 0.95

// mostLeft is how many requests without a response are looked at. They are the latest ones.
const mostLeft = 256

// An end is one end of a mixed connection: the place that receives requests.
type end struct {
	connection uint32
	place      int32
}

// late has the requests of mixed connections.
type late struct {
	left map[end][]int32   // requests without a response, so far
	sent map[int32][]int32 // the calls of a request that were answered
	soon map[int32]int64   // how long after its last event a request is mostly replied to, by place
	most map[int32]float64 // limits of the probabilities of links, by request
	// claims has limits of the probabilities of links, by response: see oneEach.
	claims map[int32]float64
}

// linkLate links responses that are linked to no request. If several requests are left, it looks at
// those of which a call was answered just before. The first of these requests is the most probable
// one. If none is left, the probability is 0.
func linkLate(seen *calls.Seen, links []Link) {
	l := late{left: map[end][]int32{}, most: map[int32]float64{}, claims: map[int32]float64{}}
	answered := l.findSoon(seen, links)
	for i := range seen.Calls {
		c := &seen.Calls[i]
		switch {
		case c.Connection == 0:
		case !c.Answers:
			if e := (end{c.Connection, c.Callee}); !answered[int32(i)] {
				l.left[e] = append(l.left[e], int32(i))
			}
		case links[i].Cause < 0:
			links[i] = l.link(seen, c)
			if most, ok := l.claims[int32(i)]; ok {
				links[i].lower(most)
			}
		}
	}
}

// oneEach leaves at most one response to each request. A response may belong to a request that no
// longer counts as open. Then it may seem to be the second response to another request. If this
// request waited for a call at that moment, the response is surely not its own. If several
// responses are left, nobody knows which of them is.
func (l *late) oneEach(seen *calls.Seen, links []Link) {
	const likely = 0.5 // two responses that are more probable exclude each other
	claims := map[int32][]int32{}
	for i := range links {
		if k := &links[i]; seen.Calls[i].Answers && seen.Calls[i].Caller >= 0 && k.Cause >= 0 &&
			k.Probability > likely {
			claims[k.Cause] = append(claims[k.Cause], int32(i))
		}
	}
	for r, all := range claims {
		if len(all) < 2 {
			continue
		}
		able := slices.DeleteFunc(slices.Clone(all), func(i int32) bool {
			return l.since(seen, r, seen.Calls[i].Sent_ns) == farFuture
		})
		if len(able) == 0 {
			able = all
		}
		most := 1 / float64(len(able))
		for _, i := range all {
			switch {
			case i == able[0]:
				links[i].lower(most)
			default:
				links[i] = Link{Cause: calls.NoCause, RunnerUp: calls.NoCause}
				if slices.Contains(able, i) {
					l.claims[i] = most
				}
			}
		}
	}
}

// findSoon finds out how soon requests are replied to. It returns the requests that have responses.
func (l *late) findSoon(seen *calls.Seen, links []Link) (answered map[int32]bool) {
	answered, l.sent, l.soon = map[int32]bool{}, map[int32][]int32{}, map[int32]int64{}
	for i := range links {
		if c, r := &seen.Calls[i], links[i].Cause; r >= 0 && c.Caller >= 0 &&
			seen.Calls[r].Connection != 0 && !c.Answers && c.Got_ns != calls.Unknown {
			l.sent[r] = append(l.sent[r], int32(i))
		}
	}
	l.oneEach(seen, links)
	delays := map[int32][]int64{}
	for i := range links {
		if c := &seen.Calls[i]; c.Answers && c.Caller >= 0 && links[i].Cause >= 0 {
			answered[links[i].Cause] = true
			delays[c.Caller] = append(delays[c.Caller], l.since(seen, links[i].Cause, c.Sent_ns))
		}
	}
	for place, all := range delays {
		slices.Sort(all)
		l.soon[place] = all[len(all)*99/100]
	}
	return answered
}

// since returns how much time passed between the last event of a request and a moment. If the
// request waited for a response at that moment, the result is farFuture.
func (l *late) since(seen *calls.Seen, request int32, t int64) int64 {
	last := seen.Calls[request].Received_ns
	for _, i := range l.sent[request] {
		switch c := &seen.Calls[i]; {
		case c.Got_ns <= t:
			last = max(last, c.Got_ns)
		case c.Sent_ns < t:
			return farFuture
		}
	}
	return t - last
}

// link links a response to a request without a response.
func (l *late) link(seen *calls.Seen, c *calls.Call) Link {
	e := end{c.Connection, c.Caller}
	all := l.left[e]
	all = all[max(0, len(all)-mostLeft):]
	if len(all) == 0 {
		return Link{Cause: calls.NoCause, RunnerUp: calls.NoCause}
	}
	var near []int32
	for _, r := range all {
		if l.since(seen, r, c.Sent_ns) <= l.soon[e.place] {
			near = append(near, r)
		}
	}
	if len(near) == 0 {
		near = all
	}
	slices.SortStableFunc(near, func(a, b int32) int {
		return -cmp.Compare(l.since(seen, a, c.Sent_ns), l.since(seen, b, c.Sent_ns))
	})
	first := near[0]
	p := lateSays / float64(len(near))
	if limit, ok := l.most[first]; ok {
		p = min(p, limit) // an earlier link may be wrong
	}
	if len(near) > 1 {
		for _, r := range near {
			l.most[r] = p
		}
	}
	l.left[e] = slices.DeleteFunc(slices.Clone(all), func(r int32) bool { return r == first })
	return Link{Cause: first, Probability: p, RunnerUp: calls.NoCause}
}
