package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// MaxEvents is the largest number of events in a History. With this number of events on 64 nodes,
// Orders takes 30 MB.
const MaxEvents = 100_000

// ErrTooMany is returned for a part of a run with more than MaxEvents events.
var ErrTooMany = errors.New("too many events")

// Part chooses a part of a run. Its zero value chooses everything.
type Part struct {
	From_cycles, To_cycles uint64      // of the reference; if To is 0, neither has an effect
	Nodes                  []string    // names without epochs; empty: all nodes
	Channels               []string    // patterns of channel.MatchName; empty: all
	IDs                    [][2]uint64 // pairs of ids, ends included; empty: all ids
	First                  int         // at most how many events, the first ones; 0: all
}

func (p *Part) has(e *Event, name, node string) bool {
	if len(p.Nodes) > 0 && !slices.Contains(p.Nodes, node) {
		return false
	}
	if p.To_cycles > 0 && (e.Hi_cycles < p.From_cycles || e.Lo_cycles > p.To_cycles) {
		return false
	}
	if len(p.Channels) > 0 && !slices.ContainsFunc(p.Channels, func(pattern string) bool {
		return channel.MatchName(pattern, name)
	}) {
		return false
	}
	return len(p.IDs) == 0 || slices.ContainsFunc(p.IDs, func(of [2]uint64) bool {
		return of[0] <= e.ID && e.ID <= of[1]
	})
}

// History is a part of a run, or a trace of another program. Its events are listed in an order in
// which they may have happened.
type History struct {
	Nodes    []string
	Channels []Channel
	Events   []Event
	Messages [][2]int // indexes of Events: before sending, after receiving; sorted by the second
	More     bool     // Part.First cut off more events of the part

	before func(i, j int) bool // order of another program's trace; nil: the events have stamps
}

// Timed reports whether the events have times, and not only an order.
func (h *History) Timed() bool { return h.before == nil }

// Before reports whether event i is before event j in every replay.
func (h *History) Before(i, j int) bool {
	if h.before != nil {
		return h.before(i, j)
	}
	return h.Events[i].Before(&h.Events[j])
}

// Gather makes a history of a part of a run. Events outside the part are not in the history, but
// orders that follow from them are kept.
func (r *Run) Gather(ctx context.Context, part Part) (*History, *Summary, error) {
	h := &History{Nodes: r.Nodes, Channels: r.Channels}
	arrows := r.arrows(h)
	s, err := r.Each(ctx, func(e *Event) error {
		if !part.has(e, r.Channels[e.Channel].Name, r.lanes[e.Node].host) {
			return nil
		}
		if part.First > 0 && len(h.Events) == part.First {
			h.More = true
			return nil
		}
		if len(h.Events) == MaxEvents {
			return fmt.Errorf("replay: more than %d events: choose a shorter time, or fewer "+
				"channels or ids: %w", MaxEvents, ErrTooMany)
		}
		at := len(h.Events)
		f := *e
		f.known = slices.Clone(e.known)
		h.Events = append(h.Events, f)
		arrows.add(at)
		return nil
	})
	arrows.deliver()
	return h, s, err
}

// Orders returns the orders of a history.
func (h *History) Orders() *Orders {
	lanes := make([]int, len(h.Events))
	for i := range h.Events {
		lanes[i] = int(h.Events[i].Node)
	}
	return NewOrders(lanes, h.Before)
}
