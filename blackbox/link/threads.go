package link

import (
	"slices"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A thread that handles a request often also sends the calls of this request. But many programs
// hand a request over to other threads, or handle several requests in one thread. So nothing is
// assumed: for each state and each next event, the model learns how probable each mark of this
// event is.

// A step is an event of a thread.
type step struct {
	by   uint32 // number of the thread; 0: not known
	turn uint32 // number of the event among those of the thread
}

// An act says who did something.
type act struct {
	step
	index int32 // number of the event among those of its kind in its place
	// If another thread woke this one, woken is the last step of that thread before the waking. It
	// is empty if this thread has done anything since, or if nothing is known.
	woken step
	free  int64 // when the thread did its event before this one; Unknown: it did none
}

func actOf(thread uint32) act { return act{step: step{by: thread}} }

// directlyAfter reports whether one thread did both acts, and nothing between them.
func (a act) directlyAfter(last act) bool { return a.by == last.by && a.turn == last.turn+1 }

// A mark says how the thread of an event is related to the earlier events of a script.
type mark uint8

const (
	noMark      mark = iota // a thread is not known
	markStayed              // the thread of the last event, which has done nothing else since
	markShared              // the thread of the last event, which has done something else since
	markEarlier             // the thread of an earlier event
	markAnother             // a thread that did nothing for this request
	markWoken               // another thread, which a thread woke directly after an earlier event
	markForeign             // another thread, which a thread woke after any other event
	markQueued              // a thread that did something else before: the request waited for it
	// These are added to the mark if the event had to choose between messages: see the type order.
	markInTurn   = markQueued     // the message came first
	markOvertook = 2 * markQueued // other messages came first
	marks        = 3*markQueued + 1
)

// plain returns a mark without what was added to it.
func (m mark) plain() mark {
	if m == noMark {
		return m
	}
	return (m-1)%markQueued + 1
}

// crew has the threads that took part in a script so far.
type crew struct {
	last  act
	known [4]uint32
	n     int
	past  [4]step // before the last one
	steps int
}

// joinEvent says how an event is related to the events so far, and adds its thread.
func (c *crew) joinEvent(a act) (m mark) {
	switch {
	case a.by == 0 || c.last.by == 0:
	case a.directlyAfter(c.last):
		m = markStayed
	case a.by == c.last.by:
		m = markShared
	case c.woke(a):
		m = markWoken
	case a.woken.by != 0:
		m = markForeign
	case slices.Contains(c.known[:min(c.n, len(c.known))], a.by):
		m = markEarlier
	default:
		m = markAnother
	}
	c.add(a)
	return m
}

func (c *crew) add(a act) {
	if a.by != 0 && a.by != c.last.by {
		c.known[c.n%len(c.known)] = a.by
		c.n++
	}
	c.past[c.steps%len(c.past)] = c.last.step
	c.steps++
	c.last = a
}

// woke reports whether a thread of the script woke the thread of an act, directly after an event of
// the script. The thread has done nothing else since.
func (c *crew) woke(a act) bool {
	return a.woken.by != 0 && (a.woken == c.last.step || slices.Contains(c.past[:], a.woken))
}

// An order says whether calls are sent in the order in which their causes came. An event loop keeps
// this order even if it receives several messages before it sends a call for the first of them. A
// queue keeps this order, too.
type order struct {
	kinds   int
	threads int // number of threads that sent something
	// least says when the queue was surely empty. The surplus is the number of messages that were
	// received, less the number of calls that were sent. For each kind of received message and each
	// kind of call, least has the smallest surplus near each call of this kind. When the surplus
	// was smallest, the queue was empty.
	least [][]int32
	// waits says whether messages were left in the queue after each of these calls.
	waits [][]bool
}

// orderReach is the number of calls before a call, and after it, that are looked at. At one of them
// at least, the queue should be empty.
const orderReach = 32

// keepsOrder reports whether a call keeps the order if a given message caused it: this message must
// then have been the next one in the queue. The message and the call are given by their kinds and
// their indices.
func (o *order) keepsOrder(e int, i int32, k int, j int32) bool {
	least := o.least[e*o.kinds+k]
	return int(j) >= len(least) || i-j == least[j]
}

// choice returns what is added to the mark of a call if a given message caused it. If several
// threads take messages from a queue, only a choice between several messages tells whether the
// program keeps an order. If no message was left in the queue, there was no choice. There was none
// either if later messages had overtaken this one: then it came late because of them.
func (o *order) choice(e int, i int32, k int, j int32) mark {
	n := e*o.kinds + k
	switch {
	case o.threads == 1:
		if o.keepsOrder(e, i, k, j) {
			return markInTurn
		}
		return markOvertook
	case int(j) >= len(o.least[n]):
	case i-j > o.least[n][j]:
		return markOvertook
	case i-j == o.least[n][j] && o.waits[n][j]:
		return markInTurn
	}
	return noMark
}

// numberEvents numbers the events of each kind. It returns the order of the place, or nil if no
// threads are known.
func (p *place) numberEvents(requests, kinds int, kindOf func(*send) int32) *order {
	if !p.knowsThreads() {
		return nil
	}
	received, sent := make([][]int64, requests+kinds), make([][]int64, kinds)
	number := func(times *[]int64, at int64, a *act) {
		a.index = int32(len(*times))
		*times = append(*times, at)
	}
	for i := range p.requests {
		r := &p.requests[i]
		number(&received[r.kind], r.from, &r.begin)
	}
	var answered []*send
	for i := range p.sends {
		s := &p.sends[i]
		number(&sent[kindOf(s)], s.from, &s.sent)
		if s.to != calls.Unknown {
			answered = append(answered, s)
		}
	}
	sort.SliceStable(answered, func(a, b int) bool { return answered[a].to < answered[b].to })
	for _, s := range answered {
		number(&received[requests+int(kindOf(s))], s.to, &s.got)
	}
	by := map[uint32]bool{}
	for i := range p.sends {
		by[p.sends[i].sent.by] = true
	}
	o := &order{kinds: kinds, threads: len(by)}
	for e := range received {
		for k := range sent {
			least, waits := leastAhead(received[e], sent[k])
			o.least, o.waits = append(o.least, least), append(o.waits, waits)
		}
	}
	return o
}

// knowsThreads reports whether the thread of any event is known.
func (p *place) knowsThreads() bool {
	return slices.ContainsFunc(p.requests, func(r request) bool { return r.begin.by != 0 }) ||
		slices.ContainsFunc(p.sends, func(s send) bool {
			return s.sent.by != 0 || s.got.by != 0 && s.to != calls.Unknown
		})
}

// leastAhead returns for each call the smallest surplus around it, and whether the surplus at the
// call itself is larger. The surplus at a call is the number of messages that were received before
// the call, less the number of calls up to it.
func leastAhead(received, sent []int64) (least []int32, waits []bool) {
	ahead, n := make([]int32, len(sent)), 0
	for j, t := range sent {
		for n < len(received) && received[n] <= t {
			n++
		}
		ahead[j] = int32(n - j - 1)
	}
	least, waits = make([]int32, len(sent)), make([]bool, len(sent))
	for j := range least {
		least[j] = slices.Min(ahead[max(0, j-orderReach):min(len(ahead), j+orderReach+1)])
		waits[j] = ahead[j] > least[j]
	}
	return least, waits
}

// numberTurns numbers the events of each thread. Messages that a thread received at the same moment
// have the same number, because one system call received them. If another thread woke the thread of
// an event just before the event, numberTurns also finds the last step of that other thread.
func (p *place) numberTurns() {
	type event struct {
		at    int64
		hears bool
		act   *act
		waker uint32 // not 0: this thread woke the thread of the act
	}
	var all []event
	addSent := func(at int64, a *act, w calls.Wake) {
		if a.by != 0 && w.By != 0 && w.At_ns <= at {
			all = append(all, event{w.At_ns, false, a, w.By})
		}
		if a.by != 0 {
			all = append(all, event{at, false, a, 0})
		}
	}
	for i := range p.requests {
		r := &p.requests[i]
		if r.begin.by != 0 {
			all = append(all, event{r.from, true, &r.begin, 0})
		}
		addSent(r.to, &r.reply, r.wake)
	}
	for i := range p.sends {
		s := &p.sends[i]
		addSent(s.from, &s.sent, s.wake)
		if s.got.by != 0 && s.to != calls.Unknown {
			all = append(all, event{s.to, true, &s.got, 0})
		}
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].at < all[b].at })
	last := map[uint32]event{}
	woken := map[uint32]step{} // threads that have done nothing since they were woken
	for _, e := range all {
		if e.waker != 0 {
			if w := last[e.waker]; w.act != nil {
				woken[e.act.by] = w.act.step
			}
			continue
		}
		e.act.woken = woken[e.act.by]
		delete(woken, e.act.by)
		before := last[e.act.by]
		e.act.free = calls.Unknown
		if before.act != nil {
			e.act.free = before.at
			isNext := !e.hears || !before.hears || e.at > before.at
			e.act.turn = before.act.turn + uint32(count(isNext))
		}
		last[e.act.by] = e
	}
}
