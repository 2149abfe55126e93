package link

import "github.com/cloudprofiler/cloudprofiler/blackbox/calls"

// On a mixed connection, requests are open for an unknown time: see limitOpen. If a response comes
// later, it is linked to no request. But it surely has one: a request that got no other response.

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
	left := map[uint32][]int32{}  // requests without a response, by connection
	least := map[uint32]float64{} // the least probability of a link to one of them, so far
	for i := range seen.Calls {
		c := &seen.Calls[i]
		switch {
		case c.Connection == 0:
		case !c.Answers:
			if !answered[int32(i)] {
				left[c.Connection] = append(left[c.Connection], int32(i))
			}
		case links[i].Cause < 0:
			l := Link{Cause: calls.NoCause, RunnerUp: calls.NoCause}
			if all := left[c.Connection]; len(all) > 0 {
				l.Cause, l.Probability = all[0], lateSays/float64(len(all))
				if p, ok := least[c.Connection]; ok {
					l.Probability = min(l.Probability, p) // an earlier link may be wrong
				}
				least[c.Connection], left[c.Connection] = l.Probability, all[1:]
				if len(all) == 1 {
					delete(least, c.Connection)
				}
			}
			links[i] = l
		}
	}
}
