package link

import (
	"math"
	"slices"
)

// These are the exchanges of calls between two requests that a sharing tries: see acceptExchange.

const mostChain = 16 // calls of a chain

// swapParts tries to exchange parts of the scripts of two requests: a few calls, a chain of calls,
// all later calls, or all calls.
func (s *sharing) swapParts(c, to int32) {
	if s.owner[c] < 0 {
		s.replaceCall(c, to)
		return
	}
	ways := 7
	if s.triesChains() {
		ways++
	}
	switch way := s.random.IntN(ways); way {
	case 0:
		s.exchangeRest(c, to)
	case 1:
		s.exchangeAll(c, to)
	case 7:
		n := len(s.chainAfter(s.owner[c], c, mostChain))
		s.exchangeChain(c, to, 1+s.random.IntN(n), s.random.IntN(2) == 0)
	default:
		other := s.alikeCall(c, to)
		switch {
		case other < 0:
			s.tryMove(c, to)
		case way == 2:
			s.exchangeSteps(c, to, other)
		default:
			s.exchangeParts(c, to, other, max(1, way-4))
		}
	}
}

// exchangeParts tries to exchange parts of the scripts of two requests. One part begins at the call
// c, and the other part begins at the call other. Each part has at most the given number of calls.
func (s *sharing) exchangeParts(c, to, other int32, most int) {
	from := s.owner[c]
	mine, theirs := s.partAfter(from, c), s.partAfter(to, other)
	s.try(from, to, mine[:min(most, len(mine))], theirs[:min(most, len(theirs))])
}

// exchangeRest tries to exchange all calls of two requests from the call c on, as far as the other
// request was still open.
func (s *sharing) exchangeRest(c, to int32) {
	from := s.owner[c]
	s.try(from, to, s.possiblePart(s.partAfter(from, c), to),
		s.possiblePart(s.partAfter(to, c), from))
}

// possiblePart returns the first calls of a script that another request could have.
func (s *sharing) possiblePart(part []int32, of int32) []int32 {
	for i := range part {
		if !s.isCandidate(part[i:i+1], of) {
			return part[:i]
		}
	}
	return part
}

// exchangeSteps tries to exchange two steps (see stepWith). One contains the call c. The other
// contains the call named other, and belongs to the request whose number is in the parameter to.
func (s *sharing) exchangeSteps(c, to, other int32) {
	s.try(s.owner[c], to, s.stepWith(s.owner[c], c), s.stepWith(to, other))
}

// stepWith returns the step of a request's script that contains a given call: this call and the
// calls around it, as far as the request waited for no response between them.
func (s *sharing) stepWith(r, c int32) []int32 {
	script, first, until := s.scripts[r], 0, int64(math.MinInt64)
	for i, k := range script {
		if s.calls[k].from >= until {
			if k > c {
				return script[first:i]
			}
			first = i
		}
		until = max(until, s.calls[k].to) // the least number, if it is not known
	}
	return script[first:]
}

// exchangeChains tries to give each chain that begins with a call to another request, with and
// without calls in return.
func (s *sharing) exchangeChains(c, to int32) {
	if !s.triesChains() {
		return
	}
	from := s.owner[c]
	chain := s.chainAfter(from, c, mostChain)
	for n := range chain {
		mine := chain[:n+1]
		s.try(from, to, mine, s.partDuring(to, mine))
		if n > 0 && s.owner[c] != to { // one call alone was tried before
			s.try(from, to, mine, nil)
		}
		if s.owner[c] == to {
			return
		}
	}
}

// triesChains reports whether chains are exchanged. If threads are known, they show which calls
// follow each other. Then chains are not exchanged: two models would make more of the same mistakes
// (see doubtOfCrowds).
func (s *sharing) triesChains() bool { return s.order == nil || s.order.threads < 2 }

// exchangeChain tries to give a chain of calls to another request. If back is true, the other
// request gives the calls that it sent during the chain in return.
func (s *sharing) exchangeChain(c, to int32, most int, back bool) {
	mine, theirs := s.chainAfter(s.owner[c], c, most), []int32(nil)
	if back {
		theirs = s.partDuring(to, mine)
	}
	s.try(s.owner[c], to, mine, theirs)
}

// partDuring returns the calls that a request sent during a chain of another request.
func (s *sharing) partDuring(r int32, chain []int32) []int32 {
	part, n := s.partAfter(r, chain[0]), 0
	for until := s.calls[chain[len(chain)-1]].to; n < len(part); n++ {
		if s.calls[part[n]].from >= until {
			break
		}
	}
	return part[:n]
}

// chainAfter returns the chain that begins with a call of a request: the call, the first call that
// the request sent after the response, and so on. So calls that a request sent at the same time are
// in different chains. The chain has at most the given number of calls.
func (s *sharing) chainAfter(r, c int32, most int) []int32 {
	s.chain = s.chain[:0]
	until := int64(math.MinInt64)
	for _, k := range s.partAfter(r, c) {
		if len(s.chain) == most {
			break
		}
		if s.calls[k].from >= until {
			s.chain = append(s.chain, k)
			until = max(s.calls[k].from, s.calls[k].to) // to is the least number if it is not known
		}
	}
	return s.chain
}

// adoptChain tries to give a chain of calls without a cause to a request, in each length.
func (s *sharing) adoptChain(c, to int32) {
	chain, bonus, until := s.chain[:0], 0.0, int64(math.MinInt64)
	for k := c; k < int32(len(s.calls)) && len(chain) < mostChain; k++ {
		of := &s.calls[k]
		if of.from > s.requests[to].until {
			break
		}
		one := [1]int32{k}
		if s.owner[k] >= 0 || of.from < until || !s.isCandidate(one[:], to) {
			continue
		}
		chain, bonus = append(chain, k), bonus-s.aloneScore(k)
		until = max(of.from, of.to)
		if len(chain) > 1 && s.acceptExchange(-1, to, chain, nil, bonus) {
			for _, k := range chain {
				s.giveOwner(k, to)
			}
			break
		}
	}
	s.chain = chain
}

// exchangeAll tries to exchange all calls of two requests.
func (s *sharing) exchangeAll(c, to int32) {
	s.try(s.owner[c], to, s.scripts[s.owner[c]], s.scripts[to])
}

func (s *sharing) try(from, to int32, mine, theirs []int32) {
	if s.once && s.wasTried(mine, theirs) || !s.isCandidate(mine, to) ||
		!s.isCandidate(theirs, from) {
		return
	}
	if s.acceptExchange(from, to, mine, theirs, 0) {
		for _, m := range s.mine {
			s.giveOwner(m, to)
		}
		for _, m := range s.theirs {
			s.giveOwner(m, from)
		}
	}
}

// wasTried reports whether it was called with the same parts of two scripts before, since s.tried
// was emptied.
func (s *sharing) wasTried(mine, theirs []int32) bool {
	t := trial{-1, -1, len(mine), len(theirs)}
	if len(mine) > 0 {
		t.mine = mine[0]
	}
	if len(theirs) > 0 {
		t.theirs = theirs[0]
	}
	if slices.Contains(s.tried, t) {
		return true
	}
	s.tried = append(s.tried, t)
	return false
}

// partAfter returns the part of a request's script from the given call on, in the order of sending.
func (s *sharing) partAfter(r, c int32) []int32 {
	script := s.scripts[r]
	for i, k := range script {
		if k >= c {
			return script[i:]
		}
	}
	return nil
}

// alikeCall returns a random call of a request. This call has the same kind as the given call. If
// the request has no such call, the result is -1.
func (s *sharing) alikeCall(c, r int32) int32 {
	found, n := int32(-1), 0
	for _, k := range s.scripts[r] {
		if s.calls[k].kind == s.calls[c].kind {
			if n++; s.random.IntN(n) == 0 {
				found = k
			}
		}
	}
	return found
}

// isCandidate reports whether a request is a candidate for each of the given calls.
func (s *sharing) isCandidate(all []int32, r int32) bool {
	for _, c := range all {
		of := &s.calls[c]
		if k := uint32(r - of.first); k < nearFirst {
			if of.near>>k&1 == 0 {
				return false
			}
		} else if _, ok := slices.BinarySearch(s.candidates[c], r); !ok {
			return false
		}
	}
	return true
}

// copyExchanged copies a script to the end of a list. It leaves out some calls, and adds others
// where they belong.
func (s *sharing) copyExchanged(to, script, without, with []int32) []int32 {
	for _, c := range script {
		if len(without) > 0 && c == without[0] {
			without = without[1:]
			continue
		}
		for len(with) > 0 && with[0] < c {
			to = append(to, with[0])
			with = with[1:]
		}
		to = append(to, c)
	}
	return append(to, with...)
}

// replaceCall tries to put a call without a cause in the place of a call of the same kind. The
// replaced call then has no cause.
func (s *sharing) replaceCall(c, to int32) {
	other := s.alikeCall(c, to)
	if other < 0 || s.pinned[other] {
		s.tryMove(c, to)
		return
	}
	if s.acceptExchange(-1, to, []int32{c}, []int32{other}, 0) {
		s.giveOwner(c, to)
		s.giveOwner(other, -1)
	}
}
