package demo

import (
	"fmt"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Hop is one stretch of the tuples' way.
type Hop struct {
	Name      string
	Crosses   bool            // from one node to the other
	Durations []tscratio.Span // in cycles of A, as they were measured
	Truth     []int64         // in cycles of A, as the virtual nodes know them
	Outside   int             // durations that did not contain the truth: must be 0
}

// stretches of the way, by their ends.
var stretches = []struct {
	name, from, to string
}{
	{"source A → worker B", sourceSend, workerRecv},
	{"worker on B", workerRecv, workerSend},
	{"worker B → sink A", workerSend, sinkRecv},
	{"end to end, on A", sourceSend, sinkRecv},
}

var onB = map[string]bool{workerRecv: true, workerSend: true}

// join puts the events of each tuple together and computes its durations.
func (r *Result) join(events map[string][]event) error {
	closure, err := tscratio.NewClosure([]*tscratio.Relation{r.Relation}, 1)
	if err != nil {
		return err
	}
	clocks := map[bool]*vnode.Counter{}
	truths := map[bool]*vnode.Truth{}
	for i, n := range r.Nodes {
		if clocks[i == 1], err = vnode.NewCounter(n.Clocks.Counter); err != nil {
			return err
		}
		if truths[i == 1], err = vnode.NewTruth(n.Clocks.Counter); err != nil {
			return err
		}
	}
	// What a second machine would have logged: from here on the product's part sees nothing else.
	logged := func(channel string, e event) tscratio.Event {
		b := onB[channel]
		name := r.Nodes[0].Name
		if b {
			name = r.Nodes[1].Name
		}
		return tscratio.Event{Node: name, Reading: clocks[b].Virtual(e.physical)}
	}
	byID := map[string]map[uint64]event{}
	for name, list := range events {
		byID[name] = make(map[uint64]event, len(list))
		for _, e := range list {
			byID[name][e.id] = e
		}
	}
	for _, s := range stretches {
		hop := Hop{Name: s.name, Crosses: onB[s.from] != onB[s.to]}
		for _, first := range events[s.from] {
			second, ok := byID[s.to][first.id]
			if !ok {
				continue
			}
			span, err := closure.Duration(r.Nodes[0].Name, logged(s.from, first), logged(s.to, second))
			if err != nil {
				return fmt.Errorf("tuple %d, %s: %w", first.id, s.name, err)
			}
			truth := int64(truths[false].Reading(second.physical) - truths[false].Reading(first.physical))
			hop.Durations = append(hop.Durations, span.Span)
			hop.Truth = append(hop.Truth, truth)
			if !span.Contains(truth) {
				hop.Outside++
			}
		}
		r.Hops = append(r.Hops, hop)
	}
	whole := r.Hops[len(r.Hops)-1]
	r.Lost = r.Tuples - len(whole.Durations)
	return nil
}

// HalfWidth_cycles is the median bound of the durations from one node to the other.
func (r Result) HalfWidth_cycles() float64 {
	var widths []int64
	for _, hop := range r.Hops {
		for _, d := range hop.Durations {
			if hop.Crosses {
				widths = append(widths, d.Hi-d.Lo)
			}
		}
	}
	return float64(percentile(widths, 50)) / 2
}

// Percentile is the interval of a percentile: that of all low ends, and that of all high ends.
func (h Hop) Percentile(p float64) tscratio.Span {
	los, his := make([]int64, len(h.Durations)), make([]int64, len(h.Durations))
	for i, d := range h.Durations {
		los[i], his[i] = d.Lo, d.Hi
	}
	return tscratio.Span{Lo: percentile(los, p), Hi: percentile(his, p)}
}

// TruePercentile is the percentile of the truth.
func (h Hop) TruePercentile(p float64) int64 { return percentile(slices.Clone(h.Truth), p) }

// percentile is the smallest value that at least p of 100 are not above. It sorts its argument.
func percentile(v []int64, p float64) int64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	rank := int(p/100*float64(len(v))+0.999999999) - 1
	return v[min(max(rank, 0), len(v)-1)]
}

// Checked is how many durations were held against the truth, and Outside how many of them did not contain it.
func (r Result) Checked() (durations, outside int) {
	for _, hop := range r.Hops {
		durations += len(hop.Durations)
		outside += hop.Outside
	}
	return durations, outside
}
