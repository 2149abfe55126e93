package replay

import (
	"cmp"
	"slices"
)

// A delivery is a captured message to a node.
type delivery struct {
	from     *lane
	sent     uint64 // reading of the sending node when it sent the message
	received uint64 // reading of the receiving node when it had received the message
}

// deliver notes a captured message. The parameters from and to are the names of the two nodes.
func (r *Run) deliver(from string, sent uint64, to string, received uint64) {
	find := func(name string) *lane {
		i := slices.IndexFunc(r.lanes, func(l *lane) bool { return l.name == name })
		if i < 0 {
			return nil
		}
		return r.lanes[i]
	}
	f, t := find(from), find(to)
	if f == nil || t == nil || f == t {
		return
	}
	t.messages = append(t.messages, delivery{f, sent, received})
}

// sortMessages sorts the messages that were sent to a lane by the time at which they were received.
func (l *lane) sortMessages() {
	slices.SortStableFunc(l.messages, func(a, b delivery) int {
		return cmp.Compare(a.received, b.received)
	})
	l.deliveries = l.messages
}

// receive looks at the first event of a lane. It delivers to this event the captured messages that
// the lane's node had received before the event. For each message, let s be the last event that the
// sender logged before it sent the message. The event s must have its stamp before receive can use
// it. If it has none yet, receive returns the place of s, and false.
func (p *runPass) receive(l *lane, place uint64) (at uint64, taken bool, err error) {
	for len(l.deliveries) > 0 {
		g := p.at(place)
		d := l.deliveries[0]
		if d.received >= g.Reading {
			break
		}
		if err := p.read(g.Hi_cycles + 2*p.summary.Bound_cycles); err != nil {
			return 0, false, err
		}
		if s := p.lastBefore(d.from, d.sent); s > 0 {
			if !p.at(s - 1).stamped {
				return s - 1, false, nil
			}
			g = p.at(place) // read may have moved the ring
			g.told = append(g.told, s)
		}
		l.deliveries = l.deliveries[1:]
	}
	return 0, true, nil
}

// lastBefore looks in the window for the last event of a lane before a reading. It returns the
// place of this event + 1, or 0 if there is no such event.
func (p *runPass) lastBefore(l *lane, reading uint64) uint64 {
	for i := len(l.queue) - 1; i >= 0; i-- {
		if p.at(l.queue[i]).Reading < reading {
			return l.queue[i] + 1
		}
	}
	for s := l.last; s > p.tail; s = p.at(s - 1).before {
		if p.at(s-1).Reading < reading {
			return s
		}
	}
	return 0
}
