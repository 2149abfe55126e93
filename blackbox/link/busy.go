package link

import (
	"math"
	"slices"
)

// Where few requests are open at the same time, the first sharing is mostly right. Where requests
// pile up, it is mostly wrong, and a model that learns from it is wrong, too. So if the data of a
// program with several threads have quiet times, a model learns from them first. Then it learns
// from busier and busier times.

// findBusy finds, for each request, how busy the program was while the request was open. It looks
// at the calls that this request may have caused, and takes the largest number of candidates of
// such a call.
func (s *sharing) findBusy() {
	s.busy = make([]int32, len(s.requests))
	for _, open := range s.candidates {
		for _, r := range open {
			s.busy[r] = max(s.busy[r], int32(len(open)))
		}
	}
}

const (
	quietPart  = 1. / 3 // the quietest part of the requests, from which a model learns first
	quieter    = 0.5    // how much less busy they must be than others are on average
	quietLeast = 100    // from fewer requests, a model learns at once
	busyRounds = 2. / 3 // the part of the rounds after which a model learns from all requests
)

// busyRequests returns a sorted list of what findBusy found for the requests that may have caused
// calls. It returns nil if there are no quiet times.
func (p *program) busyRequests() (all []int32) {
	sum := 0.0
	for _, s := range p.sharers {
		s.findBusy()
		for _, n := range s.busy {
			if n > 0 {
				all = append(all, n)
				sum += float64(n)
			}
		}
	}
	slices.Sort(all)
	n := float64(len(all))
	if n < quietLeast || float64(all[int(n*quietPart)]) > quieter*sum/n {
		return nil
	}
	return all
}

// busyLimit returns a limit for learning: from requests of busier times, the model does not learn
// yet. The limit rises with the part of the rounds that is done.
func busyLimit(all []int32, done float64) int32 {
	n := float64(len(all))
	if at := int(n * (quietPart + (1-quietPart)*done/busyRounds)); at < len(all) {
		return all[at]
	}
	return math.MaxInt32
}

// teach adds the scripts of requests to the experience, except those of requests that were open at
// busier times than the limit.
func (s *sharing) teach(x *experience, weight float64, limit int32) {
	s.findStarts()
	for r := range s.requests {
		if limit == math.MaxInt32 || s.busy[r] <= limit {
			x.add(s.eventsOf(r), weight)
			if s.starts != nil {
				s.teachQueue(&x.queue, int32(r), weight)
			}
		}
	}
}
