package paths

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// A pipe is a connection on which several requests are open at the same time.
type pipe struct {
	calls    []int32         // its calls, in the order of the requests
	replies  []messages.Call // that the server sent
	receives []messages.Call // of the client
}

// pair finds the responses of the requests on such connections, once the causes of calls are known.
// A request is ready when it is received, and then again when the last call that it led to is
// answered. A response belongs to the request that was ready first, of those that still wait: many
// servers send responses in the order in which their work ended.
func (s *Seen) pair(links []link.Link, time func(*messages.Call) int64) {
	if len(s.pipes) == 0 {
		return
	}
	ready := make([]int64, len(s.Calls)) // when the last call that a request led to was answered
	for i := range ready {
		ready[i] = s.Calls[i].Received_ns
	}
	for i := range s.Calls {
		if cause := links[i].Cause; cause >= 0 && s.Calls[i].Caller >= 0 {
			if got := s.Calls[i].Got_ns; got <= s.Calls[cause].Replied_ns {
				ready[cause] = max(ready[cause], got)
			}
		}
	}
	for _, p := range s.pipes {
		s.pairOne(p, ready, time)
	}
}

func (s *Seen) pairOne(p pipe, ready []int64, time func(*messages.Call) int64) {
	var waiting []int32
	for _, c := range p.calls {
		m := &s.moments[c]
		m.replied, m.got = nil, nil
		s.Calls[c].Replied_ns, s.Calls[c].Got_ns = calls.Unknown, calls.Unknown
		if m.received != nil {
			waiting = append(waiting, c)
		}
	}
	slices.SortStableFunc(waiting, func(a, b int32) int { return cmp.Compare(ready[a], ready[b]) })
	usual := p.usualDelay(waiting, ready, time)
	for i := range p.replies {
		r := &p.replies[i]
		now := time(r)
		// The latest request that was ready, or the first of several that were ready lately.
		n, _ := slices.BinarySearchFunc(waiting, now+1, func(c int32, t int64) int {
			return cmp.Compare(ready[c], t)
		})
		for n--; n > 0 && ready[waiting[n-1]] >= now-usual; n-- {
		}
		if n < 0 {
			continue
		}
		c := waiting[n]
		m := &s.moments[c]
		m.replied, m.got = r, containing(p.receives, r, last)
		s.Calls[c].Replied_ns = now
		if m.got != nil {
			s.Calls[c].Got_ns = time(m.got)
		}
		waiting = slices.Delete(waiting, n, n+1)
	}
}

// usualDelay is four times the median delay from the last request that was ready to a response.
func (p *pipe) usualDelay(waiting []int32, ready []int64, time func(*messages.Call) int64) int64 {
	var delays []int64
	for i := range p.replies {
		now := time(&p.replies[i])
		n, _ := slices.BinarySearchFunc(waiting, now+1, func(c int32, t int64) int {
			return cmp.Compare(ready[c], t)
		})
		if n > 0 {
			delays = append(delays, now-ready[waiting[n-1]])
		}
	}
	if len(delays) == 0 {
		return 0
	}
	slices.Sort(delays)
	return 4 * delays[len(delays)/2]
}
