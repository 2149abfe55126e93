package replay

import (
	"cmp"
	"slices"
	"sort"
)

// arrowFinder finds the messages between the events of a history.
type arrowFinder struct {
	of    *Run
	h     *History
	last  map[passedPoint]int // of each tuple at each point
	lanes [][]int             // the events of each node
}

type passedPoint struct {
	tuple uint64
	point uint16
}

func (r *Run) arrows(h *History) *arrowFinder {
	return &arrowFinder{r, h, map[passedPoint]int{}, make([][]int, len(h.Nodes))}
}

// add adds the messages that lead to an event. Their senders are events that were added before it.
func (a *arrowFinder) add(at int) {
	e := &a.h.Events[at]
	point, tuple := a.of.Channels[e.Channel].point, a.of.links.tuple(e.ID)
	from := func(tuple uint64, points []uint16) {
		for _, s := range points {
			if s, ok := a.last[passedPoint{tuple, s}]; ok && a.h.Events[s].Node != e.Node {
				a.h.Messages = append(a.h.Messages, [2]int{s, at})
			}
		}
	}
	from(tuple, a.of.senders[point])
	if makers := a.of.makers[point]; len(makers) > 0 {
		for _, maker := range a.of.links.makerTuples(tuple) {
			from(maker, makers)
		}
	}
	a.last[passedPoint{tuple, point}] = at
	a.lanes[e.Node] = append(a.lanes[e.Node], at)
}

// deliver adds an arrow for each captured message. The arrow begins at the last event before the
// message was sent, and ends at the first event after the message was received. If several messages
// lead from one node to one event, only the last of them is added.
func (a *arrowFinder) deliver() {
	h := a.h
	after := func(lane []int, reading uint64) int { // the place of the first event at it or later
		return sort.Search(len(lane), func(i int) bool {
			return h.Events[lane[i]].Reading >= reading
		})
	}
	for _, l := range a.of.lanes {
		latest := map[[2]int]int{} // by the sending node and the receiving event
		for _, d := range l.messages {
			from, to := a.lanes[d.from.node], a.lanes[l.node]
			s, r := after(from, d.sent)-1, after(to, d.received+1)
			if s < 0 || r == len(to) {
				continue
			}
			key := [2]int{int(d.from.node), to[r]}
			if known, ok := latest[key]; !ok || known < from[s] {
				latest[key] = from[s]
			}
		}
		for key, s := range latest {
			h.Messages = append(h.Messages, [2]int{s, key[1]})
		}
	}
	slices.SortFunc(h.Messages, func(x, y [2]int) int {
		return cmp.Or(cmp.Compare(x[1], y[1]), cmp.Compare(x[0], y[0]))
	})
	h.Messages = slices.Compact(h.Messages)
}
