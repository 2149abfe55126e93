package question

import (
	"container/heap"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/cloudprofiler/cloudprofiler/replay"
)

// MaxPlaces is the largest number of places that a search looks at. A place is a set of events that
// are done, with the values of the states.
const MaxPlaces = 1_000_000

// Found is the result of a search.
type Found struct {
	// Order is the shortest order after which the condition holds, or nil if none was found.
	Order []int
	Holds bool // an order was found
	// Places is the number of places that the search looked at: see MaxPlaces.
	Places int
	// Cut is true if the search stopped because it had looked at MaxPlaces places. In this case an
	// order may exist although none was found.
	Cut bool
	// Visible is the number of events that the search permuted.
	Visible int
	// nodes lists the nodes for which a per-node state has a value.
	nodes []string
}

// Search looks for the shortest order after which the condition holds. The events must have the
// same numbers as in the orders.
func (q *Question) Search(ctx context.Context, events []Event, o *replay.Orders) (*Found, error) {
	s := &search{q: q, events: events, full: o, nodes: nodesOf(events), seen: map[string]bool{}}
	if err := s.chooseVisible(); err != nil {
		return nil, err
	}
	begin := &step{done: s.orders.Begin(), closed: o.Begin(), states: q.begin(s.nodes)}
	if err := s.considerStep(begin, nil); err != nil {
		return nil, err
	}
	f := &Found{Visible: len(s.visible), nodes: s.nodes}
	for len(s.queue) > 0 {
		at := heap.Pop(&s.queue).(*step)
		if f.Places++; f.Places&1023 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if at.holds {
			f.Order, f.Holds = s.eventOrder(at), true
			return f, nil
		}
		if f.Places > MaxPlaces {
			f.Cut = true
			return f, nil
		}
		for _, i := range s.orders.Front(at.done) {
			if err := s.followEvent(at, i); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}

func nodesOf(events []Event) (nodes []string) {
	for i := range events {
		nodes = append(nodes, events[i].Node)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

type search struct {
	q       *Question
	events  []Event
	full    *replay.Orders
	nodes   []string
	visible []int          // the events that are permuted
	orders  *replay.Orders // the orders of visible
	queue   queue
	seen    map[string]bool
}

// step is a place, and how the search reached it.
type step struct {
	done   replay.Done // the visible events that are done
	closed replay.Done // all events that are done, including those before the visible ones
	length int         // number of all events
	states []ref.Val
	holds  bool
	before *step
	event  int // index in visible
}

// queue has the shortest step first.
type queue []*step

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].length < q[j].length }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*step)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// chooseVisible finds the visible events: those that may change a state, or make the condition
// true.
func (s *search) chooseVisible() error {
	is := s.q.visible
	var lanes []int
	numbers := map[string]int{}
	for i, e := range s.events {
		visible, known := is[e]
		if !known {
			var err error
			if visible, err = s.q.isVisible(&e); err != nil {
				return err
			}
			is[e] = visible
		}
		if !visible {
			continue
		}
		if _, known := numbers[e.Node]; !known {
			numbers[e.Node] = len(numbers)
		}
		s.visible = append(s.visible, i)
		lanes = append(lanes, numbers[e.Node])
	}
	s.orders = replay.NewOrders(lanes, func(i, j int) bool {
		return s.full.Before(s.visible[i], s.visible[j])
	})
	return nil
}

// isVisible reports whether an event may change a state, or make the condition true by itself.
func (q *Question) isVisible(e *Event) (bool, error) {
	for i := range q.states {
		st := &q.states[i]
		left, err := st.next.remainingText(q, e, false)
		if err != nil {
			return false, err
		}
		same := left == st.name
		if st.byNode {
			same = left == st.name+"[event.node]" || left == fmt.Sprintf("%s[%q]", st.name, e.Node)
		}
		if !same {
			return true, nil
		}
	}
	with, err := q.find.remainingText(q, e, true)
	if err != nil {
		return false, err
	}
	without, err := q.find.remainingText(q, &Event{}, true)
	return with != without && with != "false", err
}

func (q *Question) begin(nodes []string) (all []ref.Val) {
	for i := range q.states {
		st := &q.states[i]
		if !st.byNode {
			all = append(all, st.init)
			continue
		}
		byNode := map[ref.Val]ref.Val{}
		for _, n := range nodes {
			byNode[types.String(n)] = st.init
		}
		all = append(all, types.NewRefValMap(types.DefaultTypeAdapter, byNode))
	}
	return all
}

// nextValues returns the values of the states after an event. All expressions see the values that
// the states had before the event.
func (q *Question) nextValues(states []ref.Val, e *Event, nodes []string) ([]ref.Val, error) {
	v := &values{question: q, states: states, event: e}
	after := slices.Clone(states)
	for i := range q.states {
		st := &q.states[i]
		value, _, err := st.next.program.Eval(v)
		if err != nil {
			return nil, fmt.Errorf("state %s at id %d of %s on %s: %v: %w", st.name, e.ID,
				e.Channel, e.Node, err, ErrExpression)
		}
		if !st.byNode {
			after[i] = value
			continue
		}
		byNode := map[ref.Val]ref.Val{}
		for _, n := range nodes {
			byNode[types.String(n)] = valueAt(states[i], n)
		}
		byNode[types.String(e.Node)] = value
		after[i] = types.NewRefValMap(types.DefaultTypeAdapter, byNode)
	}
	return after, nil
}

// valueAt returns the value that a state has for one node, if the state has a value for each node.
func valueAt(v ref.Val, node string) ref.Val {
	return v.(interface{ Get(ref.Val) ref.Val }).Get(types.String(node))
}

// writeValues writes the values of the states. Equal values give equal texts.
func (q *Question) writeValues(states []ref.Val, nodes []string) (all []string) {
	for i := range q.states {
		if !q.states[i].byNode {
			all = append(all, fmt.Sprint(states[i].Value()))
			continue
		}
		line := ""
		for k, n := range nodes {
			if k > 0 {
				line += ", "
			}
			line += fmt.Sprintf("%s: %v", n, valueAt(states[i], n).Value())
		}
		all = append(all, line)
	}
	return all
}

// followEvent continues from a step, by taking a visible event.
func (s *search) followEvent(from *step, i int) error {
	to := &step{done: slices.Clone(from.done), closed: slices.Clone(from.closed), before: from,
		event: i}
	s.orders.Take(to.done, i)
	to.length = s.full.Close(to.closed, s.visible[i])
	e := &s.events[s.visible[i]]
	var err error
	if to.states, err = s.q.nextValues(from.states, e, s.nodes); err != nil {
		return err
	}
	return s.considerStep(to, e)
}

// considerStep evaluates the condition at a step, and puts the step into the queue if it is new.
func (s *search) considerStep(to *step, e *Event) error {
	var key []byte
	for _, n := range to.done {
		key = binary.LittleEndian.AppendUint32(key, uint32(n))
	}
	for _, t := range s.q.writeValues(to.states, s.nodes) {
		key = append(binary.LittleEndian.AppendUint32(key, uint32(len(t))), t...)
	}
	v := &values{question: s.q, states: to.states, event: e}
	holds, err := s.q.holds(v)
	if err != nil {
		return err
	}
	all := sum(to.done) == len(s.visible)
	if !holds && all && s.q.end {
		v.end = true
		if holds, err = s.q.holds(v); err != nil {
			return err
		}
		if holds { // the order needs all events
			to.closed, to.length = s.full.End(), s.full.Len()
		}
	}
	// The condition may depend on the last event, which the key does not contain. So a step where
	// the condition holds is kept even if its key was seen before.
	if to.holds = holds; !holds {
		if s.seen[string(key)] {
			return nil
		}
		s.seen[string(key)] = true
	}
	heap.Push(&s.queue, to)
	return nil
}

func sum(d replay.Done) (n int) {
	for _, k := range d {
		n += int(k)
	}
	return n
}

func (q *Question) holds(v *values) (bool, error) {
	value, _, err := q.find.program.Eval(v)
	if err != nil {
		return false, fmt.Errorf("condition: %v: %w", err, ErrExpression)
	}
	return value == types.True, nil
}

// eventOrder returns the visible events of a step, and the events that must come before them, in a
// possible order.
func (s *search) eventOrder(to *step) (order []int) {
	var visible []int
	for at := to; at.before != nil; at = at.before {
		visible = append(visible, s.visible[at.event])
	}
	slices.Reverse(visible)
	done := s.full.Begin()
	add := func(until replay.Done) {
		for {
			front := s.full.Front(done)
			sort.Ints(front)
			i := slices.IndexFunc(front, func(e int) bool { return s.full.Within(e, until) })
			if i < 0 {
				return
			}
			s.full.Take(done, front[i])
			order = append(order, front[i])
		}
	}
	need := s.full.Begin()
	for _, e := range visible {
		s.full.Close(need, e)
		add(need)
	}
	add(to.closed)
	return order
}

// States returns the names of the states, and their values as texts after each event of an order.
func (q *Question) States(events []Event, order []int) (names []string, after [][]string,
	err error) {
	for i := range q.states {
		names = append(names, q.states[i].name)
	}
	nodes := nodesOf(events)
	states := q.begin(nodes)
	for _, i := range order {
		if states, err = q.nextValues(states, &events[i], nodes); err != nil {
			return nil, nil, err
		}
		after = append(after, q.writeValues(states, nodes))
	}
	return names, after, nil
}
