package export

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// tuple has what the analysis exports about one tuple.
type tuple struct {
	id        uint64
	copy      uint64              // how many earlier tuples have the same id
	events    []analysis.EventRow // those that have a place on the reference's counter
	durations []analysis.DurationRow
	parents   []uint64 // ids of the tuples that this one was made of
}

// eventAt returns the tuple's event at a point. It returns nil if the tuple has no event there, or
// if the event has no place on the reference's counter.
func (t *tuple) eventAt(point string) *analysis.EventRow {
	i := slices.IndexFunc(t.events, func(e analysis.EventRow) bool { return e.Point == point })
	if i < 0 {
		return nil
	}
	return &t.events[i]
}

// wholeDuration returns the tuple's duration from its first point to the one that it passed
// last, or nil if the tuple has no such duration. A tuple that forks may have further durations of
// kind end-to-end, to earlier ends.
func (t *tuple) wholeDuration() *analysis.DurationRow {
	i := slices.IndexFunc(t.durations, func(d analysis.DurationRow) bool {
		return d.Kind == endToEnd && d.Whole
	})
	if i < 0 {
		return nil
	}
	return &t.durations[i]
}

const endToEnd = "end-to-end"

// beginMiddle returns the middle of the interval of the tuple's first event.
func (t *tuple) beginMiddle() uint64 {
	first := ^uint64(0)
	for _, e := range t.events {
		first = min(first, e.At.Mid())
	}
	return first
}

// joiner groups the rows of an analysis by tuple.
type joiner struct {
	tell    func(*tuple) error
	current *tuple
	number  uint64              // number of the current tuple in the analysis
	parents map[uint64][]uint64 // ids of parents by the id of a child whose rows have not come yet
}

func (j *joiner) event(e *analysis.EventRow) error {
	err := j.makeCurrent(e.ID, e.Tuple)
	if !e.Unplaced {
		j.current.events = append(j.current.events, *e)
	}
	return err
}

func (j *joiner) duration(d *analysis.DurationRow) error {
	err := j.makeCurrent(d.ID, d.Tuple)
	j.current.durations = append(j.current.durations, *d)
	if d.Whole && d.Kind != endToEnd {
		whole := *d
		whole.Kind = endToEnd
		j.current.durations = append(j.current.durations, whole)
	}
	return err
}

func (j *joiner) link(parent, child uint64) {
	if j.parents == nil {
		j.parents = map[uint64][]uint64{}
	}
	j.parents[child] = append(j.parents[child], parent)
}

// makeCurrent prepares for a row of the given tuple. If the tuple is a new one, makeCurrent passes
// on the tuple before it.
func (j *joiner) makeCurrent(id, number uint64) error {
	if j.current != nil && j.number == number {
		return nil
	}
	last := j.current
	j.current, j.number = &tuple{id: id, parents: j.parents[id]}, number
	if last == nil {
		return nil
	}
	if last.id == id {
		j.current.copy = last.copy + 1
	} else {
		delete(j.parents, last.id)
	}
	return j.tell(last)
}

// endTuples passes on the last tuple.
func (j *joiner) endTuples() error {
	last := j.current
	if j.current = nil; last == nil {
		return nil
	}
	return j.tell(last)
}

// choice collects tuples, up to a limit: the slowest, or those that began first.
type choice struct {
	most    int
	slowest bool
	kept    bestOf[*tuple]
	made    *choice // with slowest: the choice of tuples made of others; nil: none came
}

// add adds a tuple. If there are then more than c.most, it drops the one that is last in order.
func (c *choice) add(t *tuple) error {
	if c.slowest && t.wholeDuration() == nil {
		return nil
	}
	if c.slowest && len(t.parents) > 0 {
		if c.made == nil {
			c.made = &choice{most: c.most, slowest: true}
		}
		c = c.made
	}
	c.kept.order = c.compareTuples
	c.kept.add(t, c.most)
	return nil
}

// describeChoice says in words which tuples were kept, out of the given number of all tuples.
func (c *choice) describeChoice(all uint64) string {
	if n := len(c.kept.all); c.made != nil {
		made := len(c.made.kept.all)
		return fmt.Sprintf("of %d tuples, the %d slowest, and the %d slowest of those that were "+
			"made of others", all, n, made)
	}
	switch {
	case uint64(len(c.kept.all)) == all:
		return fmt.Sprintf("all %d tuples", all)
	case c.slowest:
		return fmt.Sprintf("the %d slowest of %d tuples", len(c.kept.all), all)
	}
	return fmt.Sprintf("the first %d of %d tuples; choose others by --slowest, --from, --to or "+
		"--id", len(c.kept.all), all)
}

// compareTuples compares two tuples. If there are too many, those that come last in this order are
// dropped. If the slowest tuples are wanted, the order is that of Slowest in analysis.Answer.
func (c *choice) compareTuples(a, b *tuple) int {
	if c.slowest {
		if o := cmp.Or(cmp.Compare(b.wholeDuration().Lo, a.wholeDuration().Lo),
			cmp.Compare(a.id, b.id)); o != 0 {
			return o
		}
	}
	return cmp.Or(cmp.Compare(a.beginMiddle(), b.beginMiddle()), cmp.Compare(a.id, b.id),
		cmp.Compare(a.copy, b.copy))
}

// sortedTuples returns the tuples that are kept, in order. Tuples that were made of other tuples
// come last.
func (c *choice) sortedTuples() []*tuple {
	kept := c.kept.sortedElements()
	if c.made == nil {
		return kept
	}
	return slices.Concat(kept, c.made.sortedTuples())
}

// bestOf collects the elements that come first in an order, up to a limit. It is a heap: the
// element on top is the one that is dropped next.
type bestOf[T any] struct {
	order func(a, b T) int
	all   []T
}

// add adds an element. If there are then more elements than the given limit, it drops the one that
// is last in order.
func (b *bestOf[T]) add(v T, most int) {
	if heap.Push(b, v); len(b.all) > most {
		heap.Pop(b)
	}
}

func (b *bestOf[T]) Len() int           { return len(b.all) }
func (b *bestOf[T]) Less(i, j int) bool { return b.order(b.all[i], b.all[j]) > 0 }
func (b *bestOf[T]) Swap(i, j int)      { b.all[i], b.all[j] = b.all[j], b.all[i] }
func (b *bestOf[T]) Push(v any)         { b.all = append(b.all, v.(T)) }
func (b *bestOf[T]) Pop() any {
	last := len(b.all) - 1
	v := b.all[last]
	b.all = b.all[:last]
	return v
}

// sortedElements returns the elements that are kept, in order.
func (b *bestOf[T]) sortedElements() []T {
	slices.SortFunc(b.all, b.order)
	return b.all
}

// describeDuration returns what a slice or a span says about a duration between two events.
func describeDuration(t *tuple, d *analysis.DurationRow, from, to *analysis.EventRow,
	r *analysis.Reference) []attribute {
	i := analysis.Interval{Lo_cycles: d.Lo, Hi_cycles: d.Hi}
	cycles := func(v uint64) string { return strconv.FormatUint(v, 10) }
	all := []attribute{
		text("tuple_id", cycles(t.id)), text("kind", d.Kind),
		number("lo_cycles", d.Lo), number("hi_cycles", d.Hi),
		number("bound_cycles", (d.Hi-d.Lo+1)/2),
		text("scenario", d.Scenario.String()), text("verdict", d.Verdict.String()),
		text("from_node", d.FromNode), text("to_node", d.ToNode),
		text("from_channel", from.Channel), text("to_channel", to.Channel),
		text("from_lo_cycles", cycles(from.At.Lo)), text("from_hi_cycles", cycles(from.At.Hi)),
		text("to_lo_cycles", cycles(to.At.Lo)), text("to_hi_cycles", cycles(to.At.Hi)),
	}
	if d.Kind != endToEnd {
		all = append(all, text("critical", d.Critical.String()))
	}
	if seconds := r.Seconds(i); seconds != "" {
		all = append(all, text("seconds", seconds))
	}
	return all
}

// attribute is a name with a text, an integer or a fraction.
type attribute struct {
	name       string
	text       string
	number     int64
	fraction   float64
	isText     bool
	isFraction bool
}

func text(name, value string) attribute { return attribute{name: name, text: value, isText: true} }
func fraction(name string, value float64) attribute {
	return attribute{name: name, fraction: value, isFraction: true}
}
func number(name string, value int64) attribute {
	return attribute{name: name, number: value}
}
