package link

import "github.com/cloudprofiler/cloudprofiler/blackbox/calls"

// On a mixed connection, nobody knows how long a request is open, so limitOpen restricts the time.
// A response that comes later is linked to no request. But it surely belongs to one: to a request
// that got no other response.

// lateSays is the probability of a link to the only request without a response.
const lateSays = 0.95

// linkLate links responses that are linked to no request. If several requests are left, the one
// that was sent first is the most probable one. If none is left, the probability is 0.
func linkLate(seen *calls.Seen, links []Link) {
	answered := map[int32]bool{}
	for i := range links {
		if seen.Calls[i].Answers && links[i].Cause >= 0 {
			answered[links[i].Cause] = true
		}
	}
	type end struct { // one end of a connection: the place that receives requests
		connection uint32
		place      int32
	}
	left := map[end][]int32{}  // requests without a response
	least := map[end]float64{} // the least probability of a link to one of them, so far
	for i := range seen.Calls {
		c := &seen.Calls[i]
		switch {
		case c.Connection == 0:
		case !c.Answers:
			if e := (end{c.Connection, c.Callee}); !answered[int32(i)] {
				left[e] = append(left[e], int32(i))
			}
		case links[i].Cause < 0:
			e := end{c.Connection, c.Caller}
			l := Link{Cause: calls.NoCause, RunnerUp: calls.NoCause}
			if all := left[e]; len(all) > 0 {
				l.Cause, l.Probability = all[0], lateSays/float64(len(all))
				if p, ok := least[e]; ok {
					l.Probability = min(l.Probability, p) // an earlier link may be wrong
				}
				least[e], left[e] = l.Probability, all[1:]
				if len(all) == 1 {
					delete(least, e)
				}
			}
			links[i] = l
		}
	}
}
