package link

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A thread that handles a request often also sends the calls of this request. But many programs
// hand a request over to other threads, or handle several requests in one thread. So nothing is
// assumed: for each state and each next event, the model learns how often it is the same thread.

// An act says who did something.
type act struct {
	by    uint32 // number of the thread; 0: not known
	heard uint32 // how many messages the thread had received so far
}

// A mark says how the thread of an event is related to the earlier events of a script.
type mark uint8

const (
	noMark  mark = iota // a thread is not known
	stayed              // the thread of the last event, which has received nothing since
	shared              // the thread of the last event, which has received other messages since
	earlier             // the thread of an earlier event
	another             // a thread that did nothing for this request
	marks
)

// crew has the threads of a script so far.
type crew struct {
	last  act
	known [4]uint32
	n     int
}

// join says how an event is related to the events so far, and adds its thread.
func (c *crew) join(a act) (m mark) {
	switch {
	case a.by == 0 || c.last.by == 0:
	case a.by == c.last.by && a.heard == c.last.heard:
		m = stayed
	case a.by == c.last.by:
		m = shared
	case slices.Contains(c.known[:min(c.n, len(c.known))], a.by):
		m = earlier
	default:
		m = another
	}
	c.add(a)
	return m
}

func (c *crew) add(a act) {
	if a.by != 0 && a.by != c.last.by {
		c.known[c.n%len(c.known)] = a.by
		c.n++
	}
	c.last = a
}

// count counts what each thread of the place had received at each event.
func (p *place) count() {
	type event struct {
		at    int64
		hears bool
		act   *act
	}
	var all []event
	for i := range p.requests {
		r := &p.requests[i]
		if r.begin.by != 0 {
			all = append(all, event{r.from, true, &r.begin})
		}
		if r.reply.by != 0 {
			all = append(all, event{r.to, false, &r.reply})
		}
	}
	for i := range p.sends {
		s := &p.sends[i]
		if s.sent.by != 0 {
			all = append(all, event{s.from, false, &s.sent})
		}
		if s.got.by != 0 && s.to != calls.Unknown {
			all = append(all, event{s.to, true, &s.got})
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	heard := map[uint32]uint32{}
	for _, e := range all {
		if e.hears {
			heard[e.act.by]++
		}
		e.act.heard = heard[e.act.by]
	}
}
