package paths

import (
	"cmp"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// parts are the durations of a call.
type parts struct {
	whole    amount // as its caller saw it; if its caller was not captured, as the callee saw it
	network  amount // of the request and of the response
	own      amount // time of the callee, without the time in which it waited for other calls
	critical part   // what the request waited for
}

func (p *parts) suspect() bool { return p.whole.suspect || p.network.suspect || p.own.suspect }

// A part is time that a request waited for a call: for the callee, and for the network.
type part struct{ own, network Interval }

type amount struct {
	Interval
	known   bool
	suspect bool // it rests on a relation that the data contradict
}

// meter measures trees.
type meter struct {
	*forest
	times *messages.Times
	parts []parts
}

func (m *meter) between(a, b *messages.Call) amount {
	if a == nil || b == nil {
		return amount{}
	}
	d, err := m.times.Between(a, b)
	return amount{Interval{Lo_cycles: d.Lo, Hi_cycles: d.Hi}, err == nil,
		d.Verdict == tscratio.Suspect}
}

func plus(a, b Interval) Interval {
	return Interval{Lo_cycles: a.Lo_cycles + b.Lo_cycles, Hi_cycles: a.Hi_cycles + b.Hi_cycles}
}

func both(a, b amount) amount {
	return amount{plus(a.Interval, b.Interval), a.known && b.known, a.suspect || b.suspect}
}

// measure measures a tree.
func (m *meter) measure(root int32) {
	all, _ := m.tree(root)
	for _, c := range all {
		p, at := &m.parts[c], &m.seen.moments[c]
		p.whole = m.between(at.sent, at.got)
		if at.sent == nil {
			p.whole = m.between(at.received, at.replied)
		}
		p.network = both(m.between(at.sent, at.received), m.between(at.replied, at.got))
		p.own = m.ownTime(c)
	}
	m.divideTime(root)
}

// ownTime is the time that the callee spent on a call while it did not wait for calls of its own.
func (m *meter) ownTime(c int32) amount {
	at := &m.seen.moments[c]
	own := amount{known: true}
	waited := at.received
	waits := slices.Clone(m.children[c])
	slices.SortFunc(waits, func(a, b int32) int {
		return cmp.Compare(m.seen.Calls[a].Sent_ns, m.seen.Calls[b].Sent_ns)
	})
	if at.received == nil || at.replied == nil {
		return amount{}
	}
	until, end := m.seen.Calls[c].Received_ns, m.seen.Calls[c].Replied_ns
	for _, w := range waits {
		k := &m.seen.Calls[w]
		if k.Got_ns == calls.Unknown || k.Sent_ns == calls.Unknown || k.Got_ns <= until ||
			k.Got_ns > end {
			continue
		}
		if k.Sent_ns > until {
			own = both(own, m.between(waited, m.seen.moments[w].sent))
		}
		waited, until = m.seen.moments[w].got, k.Got_ns
	}
	return both(own, m.between(waited, at.replied))
}

// divideTime divides the time of a request among the calls of its tree. Each moment counts for the
// call that the request waited for: among those that ran at the same time, the one that ended last.
func (m *meter) divideTime(root int32) {
	stack := []int32{root}
	for len(stack) > 0 {
		c := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		p, at := &m.parts[c], &m.seen.moments[c]
		if !m.between(at.received, at.replied).known {
			// The callee was not captured, or its node is not related to the reference.
			p.critical.own = p.whole.Interval
			continue
		}
		if at.sent != nil && at.got != nil {
			p.critical.network = p.network.Interval
		}
		waits := slices.Clone(m.children[c])
		slices.SortFunc(waits, func(a, b int32) int {
			return -cmp.Compare(m.seen.Calls[a].Got_ns, m.seen.Calls[b].Got_ns)
		})
		to, until := at.replied, m.seen.Calls[c].Replied_ns
		for _, w := range waits {
			k := &m.seen.Calls[w]
			if k.Got_ns == calls.Unknown || k.Sent_ns == calls.Unknown || k.Got_ns > until ||
				k.Sent_ns < m.seen.Calls[c].Received_ns {
				continue
			}
			p.critical.own = plus(p.critical.own, m.between(m.seen.moments[w].got, to).Interval)
			stack = append(stack, w)
			to, until = m.seen.moments[w].sent, k.Sent_ns
		}
		p.critical.own = plus(p.critical.own, m.between(at.received, to).Interval)
	}
}
