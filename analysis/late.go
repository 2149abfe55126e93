package analysis

import (
	"math/bits"
	"slices"
)

// lateEvents notes the events that tuples of one id still lack when the id begins again, and that
// may yet come. Such an event would look like an event of a later tuple.
type lateEvents struct{ lacked []lackedEvents }

type lackedEvents struct {
	mask uint64 // ranks of the events that are lacking
	age  int    // how often the id has begun again since this tuple
}

// doubt has the ranks at which a tuple's event may be another tuple's, or may be the wrong one of
// several. Durations from or to such an event are withheld.
type doubt uint64

// touchesSpan reports whether one of a span's two ranks is in doubt.
func (d doubt) touchesSpan(from, to int) bool { return (d>>from|d>>to)&1 != 0 }

// withheldWhy says why a duration is withheld.
type withheldWhy int

const (
	beganAgain withheldWhy = iota
	lacksBranch
	fitsNoBranches
	beganUnseen
	withheldReasons
)

var withheldWords = [withheldReasons]string{
	beganAgain:     "the tuple's id began again before its events were complete",
	lacksBranch:    "the logs may lack a branch of the tuple",
	fitsNoBranches: "the tuple's events do not fit its branches",
	beganUnseen:    "the tuple's begin is not in the logs, and its id came again",
}

// branchesOf returns why the events of branches at a rank are in doubt.
func branchesOf(p *plan, r uint8) withheldWhy {
	if p.unsureRanks>>r&1 != 0 {
		return lacksBranch
	}
	return fitsNoBranches
}

// doubts are the ranks in doubt, by reason.
type doubts [withheldReasons]doubt

func (d *doubts) all() (in doubt) {
	for _, of := range d {
		in |= of
	}
	return in
}

// The method withhold counts a withheld duration between two ranks, under the first reason that
// applies.
func (p *spanPart) withhold(d *doubts, from, to int) {
	for why, of := range d {
		if of.touchesSpan(from, to) {
			p.withheld[why]++
			return
		}
	}
}

// withheldAll is the number of durations that are withheld.
func (p *spanPart) withheldAll() (n uint64) {
	for _, of := range p.withheld {
		n += of
	}
	return n
}

// longestLate is how many times an id may begin again before an event of a tuple is no longer
// expected. Counters that wrap around use the same ids again without end. Without a limit, one lost
// tuple would put all later tuples with its id in doubt.
const longestLate = 3

// nextTuple begins the id's next tuple. It returns the ranks where an event may belong to an
// earlier tuple.
func (l *lateEvents) nextTuple() (late doubt) {
	l.lacked = slices.DeleteFunc(l.lacked,
		func(k lackedEvents) bool { return k.age == longestLate })
	for i := range l.lacked {
		l.lacked[i].age++
		late |= doubt(l.lacked[i].mask)
	}
	return late
}

// The method add notes the ranks at which a tuple lacks an event.
func (l *lateEvents) add(mask uint64) {
	if mask != 0 {
		l.lacked = append(l.lacked, lackedEvents{mask: mask})
	}
}

// lackedRanks returns the ranks that follow the tuple's points and at which it has no event. If the
// tuple did not come to an end, it may also lack events where branches meet.
func (p *plan) lackedRanks(g *graph) (mask uint64) {
	for rest := p.mask; rest != 0; rest &= rest - 1 {
		mask |= g.ranksAfter[bits.TrailingZeros64(rest)]
	}
	has := p.mask
	if len(p.ends) > 0 {
		has &^= g.merges
	}
	return mask &^ has
}

// takenRanks returns the ranks at which a tuple's event may have been mistaken for the event of a
// later tuple with the same id. later has the beginnings of those later tuples. A rank is left out
// if the tuple passed a later rank, unless branches arrive one by one at that later rank: there,
// one branch may have arrived while events of another branch are yet to come.
func (p *plan) takenRanks(g *graph, later []beginning) (mask uint64) {
	for _, b := range later[:min(len(later), longestLate)] {
		mask |= b.mask
	}
	for rest := p.mask &^ g.gradualRanks(); rest != 0; rest &= rest - 1 {
		// Events at these ranks happened before the later tuples began.
		mask &^= g.ranksBefore[bits.TrailingZeros64(rest)]
	}
	return mask & p.lackedRanks(g)
}
