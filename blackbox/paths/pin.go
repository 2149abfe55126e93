package paths

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// Programs may log tuples while they serve requests: a program in which the tuple's id is logged
// received the tuple by some request. This request is the carrier of the tuple to the place.
// Suppose that the same tuple was logged in places A and B, and that A sent the carrier to B. Then
// the carrier to A caused the carrier to B. Such a link is pinned: it need not be inferred.
//
// Events do not name threads or messages. So a carrier is known only if exactly one request was
// open when the tuple was logged, not counting requests that carry other tuples. Otherwise nothing
// is pinned.

// A pin is the cause of a call, as logged tuples show it.
type pin struct {
	cause       int32
	probability float64
}

const (
	// A place is used only if at most this share of the place's tuples contradict the assumptions.
	// A pair of places is used only if at most this share of the links between them contradict the
	// assumptions.
	mostWrong = 0.01
	leastPins = 20 // fewer are no evidence that the assumptions hold
	mostReach = 64 // how many requests may be open at once
)

// carriedTuples says which requests to one place carried which tuples.
type carriedTuples struct {
	by          map[uint64][]int32 // carriers of each tuple
	probability float64            // that a carrier is right
}

// findPins returns the links that logged tuples pin, by call. It also notes in s which tuple each
// carrier carried.
func (s *Seen) findPins(all []entry) map[int32]pin {
	places := map[int32]*carriedTuples{}
	requests := s.requestsByPlace()
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].place == all[0].place {
			n++
		}
		if c := s.findCarriers(all[:n], requests[all[0].place]); c != nil {
			places[all[0].place] = c
		}
		all = all[n:]
	}
	type pair struct{ from, to int32 }
	found, wrong := map[pair]map[int32]pin{}, map[pair]int{}
	for to, c := range places {
		for id, list := range c.by {
			for _, call := range list {
				s.tuples[call] = id
				way := pair{s.Calls[call].Caller, to}
				from := places[way.from]
				if from == nil || len(from.by[id]) == 0 {
					continue
				}
				cause, several := s.openAt(from.by[id], s.Calls[call].Sent_ns)
				switch {
				case several:
				case cause < 0:
					wrong[way]++
				default:
					if found[way] == nil {
						found[way] = map[int32]pin{}
					}
					found[way][call] = pin{cause, c.probability * from.probability}
				}
			}
		}
	}
	result := map[int32]pin{}
	for way, links := range found {
		if n := len(links); n >= leastPins && float64(wrong[way]) <= mostWrong*float64(n) {
			maps.Copy(result, links)
		}
	}
	return result
}

// openAt returns the request that was open at a moment, or -1, and whether there were several.
func (s *Seen) openAt(requests []int32, t int64) (found int32, several bool) {
	found = -1
	for _, r := range requests {
		if t != calls.Unknown && s.Calls[r].Received_ns <= t && s.repliedAfter(r, t) {
			if found >= 0 {
				return -1, true
			}
			found = r
		}
	}
	return found, false
}

// requestsByPlace returns the requests to each place, sorted by when they were received.
func (s *Seen) requestsByPlace() map[int32][]int32 {
	all := map[int32][]int32{}
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Callee >= 0 && c.Received_ns != calls.Unknown && !c.Answers {
			all[c.Callee] = append(all[c.Callee], int32(i))
		}
	}
	for _, list := range all {
		slices.SortStableFunc(list, func(a, b int32) int {
			return cmp.Compare(s.Calls[a].Received_ns, s.Calls[b].Received_ns)
		})
	}
	return all
}

// A visit is the time in which a tuple certainly was in a place, as logged events show.
type visit struct {
	id          uint64
	first, last int64
}

// findCarriers finds the carriers of tuples to one place. It knows three kinds of places. In most
// places, one request carries a tuple, and the tuple's first and last event are logged while this
// request is open. In the second kind, the last event is logged after the reply. In the third kind,
// several requests carry one tuple, and a carrier is found for each event. findCarriers returns nil
// if the events fit none of the three kinds.
func (s *Seen) findCarriers(all []entry, requests []int32) *carriedTuples {
	var whole, each []visit
	index := map[uint64]int{}
	for _, e := range all {
		i, known := index[e.id]
		if !known {
			i = len(whole)
			index[e.id] = i
			whole = append(whole, visit{e.id, e.at, e.at})
		}
		whole[i].last = e.at
		each = append(each, visit{e.id, e.at, e.at})
	}
	begins := slices.Clone(whole)
	for i := range begins {
		begins[i].last = begins[i].first
	}
	for _, visits := range [][]visit{whole, each, begins} {
		if c := s.carriersOf(visits, requests); c != nil {
			return c
		}
	}
	return nil
}

func (s *Seen) carriersOf(all []visit, requests []int32) *carriedTuples {
	open := make([][]int32, len(all)) // the requests that may have carried each tuple
	taken := map[int32]uint64{}       // the tuple that each request certainly carried
	bad := 0
	latest := s.latestReplies(requests)
	for i, v := range all {
		n, _ := slices.BinarySearchFunc(requests, v.first+1, func(r int32, t int64) int {
			return cmp.Compare(s.Calls[r].Received_ns, t)
		})
		lowest := max(0, n-mostReach)
		for k := n - 1; k >= lowest; k-- {
			if s.repliedAfter(requests[k], v.last) {
				open[i] = append(open[i], requests[k])
			}
		}
		switch {
		case lowest > 0 && latest[lowest-1] >= v.last:
			open[i] = nil // too many requests were open
		case len(open[i]) == 0:
			bad++
		case len(open[i]) == 1:
			if id, ok := taken[open[i][0]]; ok && id != v.id {
				bad++
			}
			taken[open[i][0]] = v.id
		}
	}
	if float64(bad) > mostWrong*float64(len(all)) {
		return nil
	}
	excludeRequests(all, open, taken)
	c := &carriedTuples{map[uint64][]int32{}, 1 - float64(bad+1)/float64(len(all)+2)}
	for i, left := range open {
		if id := all[i].id; len(left) == 1 && taken[left[0]] == id &&
			!slices.Contains(c.by[id], left[0]) {
			c.by[id] = append(c.by[id], left[0])
		}
	}
	return c
}

// excludeRequests removes, from the candidates of each visit, the requests that carry other tuples.
// If a visit is left with one candidate, that request carries the visit's tuple. So excludeRequests
// then removes this request from other visits, too.
func excludeRequests(all []visit, open [][]int32, taken map[int32]uint64) {
	of := map[int32][]int{} // visits that a request may have carried
	for i, left := range open {
		for _, r := range left {
			of[r] = append(of[r], i)
		}
	}
	work := slices.Sorted(maps.Keys(taken))
	for len(work) > 0 {
		r := work[len(work)-1]
		work = work[:len(work)-1]
		for _, i := range of[r] {
			at := slices.Index(open[i], r)
			if at < 0 || len(open[i]) < 2 || all[i].id == taken[r] {
				continue
			}
			if open[i] = slices.Delete(open[i], at, at+1); len(open[i]) == 1 {
				last := open[i][0]
				if _, known := taken[last]; !known {
					taken[last] = all[i].id
					work = append(work, last)
				}
			}
		}
	}
}

// repliedAfter reports whether a request was still open at a given moment. The program must have
// received the request before that moment.
func (s *Seen) repliedAfter(r int32, t int64) bool {
	replied := s.Calls[r].Replied_ns
	return replied == calls.Unknown || replied >= t
}

// latestReplies returns, for each request, the latest reply to it or to any earlier request.
func (s *Seen) latestReplies(requests []int32) []int64 {
	latest, most := make([]int64, len(requests)), int64(calls.Unknown)
	for i, r := range requests {
		replied := s.Calls[r].Replied_ns
		if replied == calls.Unknown {
			replied = calls.Latest_ns
		}
		most = max(most, replied)
		latest[i] = most
	}
	return latest
}
