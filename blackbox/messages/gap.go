package messages

import (
	"cmp"
	"math"
	"slices"
)

// If the call that sent a datagram is not in the logs, another datagram with the same content could
// be taken for it. So a received datagram is not matched if the call that sent it may be lost: if
// calls were lost at any time in the last mostOnTheWay_cycles before the datagram was received.

// mostOnTheWay_cycles is the longest time from the call that sends a datagram to the call that
// receives it. It is more than 6 s, because no counter has more than 5 GHz.
const mostOnTheWay_cycles = 1 << 35

// A gap is a time in which calls of a log were lost.
type gap struct{ first, last uint64 }

// addGap notes that records were lost between two readings. A reading is 0 if it is not known.
func (l *Log) addGap(first, last uint64) {
	if last == 0 {
		last = math.MaxUint64
	}
	l.gaps = append(l.gaps, gap{first, last})
}

// gaps has the gaps of each log, ordered by their first reading. Gaps that are close together are
// joined into one.
type gaps map[*Log][]gap

func findGaps(logs []*Log) gaps {
	all := gaps{}
	for _, l := range logs {
		of := slices.Clone(l.gaps)
		if l.Bad > 0 || l.Missing != "" { // nobody knows when
			of = append(of, gap{0, math.MaxUint64})
		}
		slices.SortFunc(of, func(a, b gap) int { return cmp.Compare(a.first, b.first) })
		for _, g := range of {
			joined := all[l]
			if n := len(joined); n > 0 && g.first <= afterGap(joined[n-1].last) {
				joined[n-1].last = max(joined[n-1].last, g.last)
			} else {
				all[l] = append(joined, g)
			}
		}
	}
	return all
}

// afterGap returns the reading until which datagrams that were sent in a gap may be received.
func afterGap(last uint64) uint64 {
	return last + min(mostOnTheWay_cycles, math.MaxUint64-last)
}

// mayLackSender reports whether the call that sent a received datagram may be lost.
func (all gaps) mayLackSender(received datagram, possible possibleFunc) bool {
	got := received.call(received.of, true)
	for l, of := range all {
		for _, g := range of {
			lost := Call{Log: l, Lo_cycles: g.first, Hi_cycles: g.last}
			earlier := got
			earlier.Lo_cycles -= min(mostOnTheWay_cycles, got.Lo_cycles)
			if possible(&lost, &got) && possible(&earlier, &lost) {
				return true
			}
		}
	}
	return false
}

// A log begins in the middle of what programs do. A datagram that was sent before may be received
// after the beginning, and another datagram with the same content could be taken for it. Programs
// send some contents again and again. A received datagram with such a content is not matched if it
// may have been sent before one of the logs began. If the logs have a content only once, it counts
// as a content that is never sent twice.

// beginnings knows when logs began.
type beginnings struct {
	gaps     gaps
	possible possibleFunc
	over     map[*Log]uint64 // what a log has from this reading on was sent after all beginnings
}

func findBeginnings(logs []*Log, possible possibleFunc) *beginnings {
	b := &beginnings{gaps: gaps{}, possible: possible, over: map[*Log]uint64{}}
	for _, l := range logs {
		if l.begun != 0 && !l.complete {
			b.gaps[l] = []gap{{0, l.begun}}
		}
	}
	return b
}

// mayBeOlder reports whether a received datagram may have been sent before a log began.
func (b *beginnings) mayBeOlder(received datagram) bool {
	l := received.of.log
	if over, known := b.over[l]; known && received.began >= over {
		return false
	}
	if b.gaps.mayLackSender(received, b.possible) {
		return true
	}
	b.over[l] = received.began
	return false
}
