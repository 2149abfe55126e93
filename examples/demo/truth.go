package demo

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Span contains the durations of all tuples from one point to another.
type Span struct {
	From, To  string             // points
	Since     bool               // From is where tuples begin, and other points are in between
	Crosses   int                // number of durations from one node to another
	Durations []tscratio.Elapsed // as they were measured, in cycles of A
	Truth     []int64            // true durations, from the virtual nodes, in cycles of A
	Outside   int                // number of durations that did not contain the truth: must be 0

	Percentiles analysis.Percentiles // percentiles of the durations, from the run's answer

	Widths []int64           // widths of the durations from one node to another
	Pairs  map[[2]string]int // number of these durations, by the two nodes' names in order
}

// Claimed_cycles returns the median bound that another method (analysis.MinRTT, …) claims for a
// pair of nodes. It chooses the pair with the most durations of the span. ok is false if the method
// claims nothing. Return trips exist only from where tuples begin to LastPoint.
func (r *Result) Claimed_cycles(h *Span, method string) (bound int64, ok bool) {
	if method == analysis.ReT && !(h.Since && h.To == LastPoint) {
		return 0, false
	}
	most := 0
	for _, c := range r.Answer.Comparisons {
		n := h.Pairs[[2]string{min(c.A, c.B), max(c.A, c.B)}]
		for _, m := range c.Methods {
			if n > most && m.Name == method && m.Absent == "" {
				bound, ok, most = m.Median_cycles, true, n
			}
		}
	}
	return bound, ok
}

// percentile returns the smallest value v of the list for which at least p percent of the list are
// not larger than v. It sorts the values.
func percentile(v []int64, p float64) int64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	rank := int(p/100*float64(len(v))+0.999999999) - 1
	return v[min(max(rank, 0), len(v)-1)]
}

// event is a record with its physical reading.
type event struct {
	id, physical uint64
}

// pointEvents contains the events of each point (such as "source/start"), in the order of their
// ids.
type pointEvents map[string][]event

// readPhysicals reads the events of the wanted ids from the logs that the nodes' agents kept. If
// want is nil, it reads all events.
func readPhysicals(want func(id uint64) bool, dirs ...string) (pointEvents, error) {
	all := pointEvents{}
	if want == nil {
		want = func(uint64) bool { return true }
	}
	err := readEvents(func(point string, e logstore.Event) {
		if want(e.ID) {
			all[point] = append(all[point], event{e.ID, e.Counter})
		}
	}, dirs...)
	if err != nil {
		return nil, err
	}
	for _, events := range all {
		slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.id, b.id) })
	}
	return all, nil
}

// readEvents reads all events of tuples from the logs in some directories.
func readEvents(take func(point string, e logstore.Event), dirs ...string) error {
	return readBlocks(func(point string, b *logstore.Block) {
		for _, e := range b.Events {
			if e.ID != channel.Poison {
				take(point, e)
			}
		}
	}, dirs...)
}

// readMade reads the logged links, which say that a tuple was made of another one. For each id, it
// returns the ids of the tuples that were made of it.
func readMade(dirs ...string) (made map[uint64][]uint64, err error) {
	made = map[uint64][]uint64{}
	err = readBlocks(func(_ string, b *logstore.Block) {
		for _, l := range b.Links {
			made[l.Parent] = append(made[l.Parent], l.Child)
		}
	}, dirs...)
	return made, err
}

// readBlocks reads the logs in some directories. It calls the function take with each block and the
// block's point.
func readBlocks(take func(point string, b *logstore.Block), dirs ...string) error {
	for _, dir := range dirs {
		segments, err := logstore.Segments(dir)
		if err != nil {
			return err
		}
		for len(segments) > 0 {
			ring := logstore.SegmentsOf(segments, segments[0].Channel, segments[0].Incarnation)
			if err := readLog(ring, take); err != nil {
				return fmt.Errorf("read log %q: %w", ring[0].Path, err)
			}
			segments = segments[len(ring):]
		}
	}
	return nil
}

func readLog(ring []logstore.Segment, take func(point string, b *logstore.Block)) error {
	r := logstore.ReadLog(ring)
	defer r.Close()
	point := ring[0].Channel.Actor + "/" + ring[0].Channel.Point
	for {
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		take(point, b)
	}
	if report := r.Report(); !report.Whole() {
		return errors.New("the log lacks rows")
	}
	return nil
}

// errTwice says that a tuple passed a point twice, so that its duration is not known.
var errTwice = errors.New("twice")

// errNowhere says that no log has an id at a point.
var errNowhere = errors.New("no log has it")

func (p pointEvents) at(point string, id uint64) (uint64, error) {
	events := p[point]
	byID := func(e event, id uint64) int { return cmp.Compare(e.id, id) }
	i, ok := slices.BinarySearchFunc(events, id, byID)
	if !ok {
		return 0, fmt.Errorf("check tuple %d against the truth: %w at %s", id, errNowhere, point)
	}
	if i+1 < len(events) && events[i+1].id == id {
		return 0, fmt.Errorf("check tuple %d against the truth: it is %w at %s",
			id, errTwice, point)
	}
	return events[i].physical, nil
}

// checker computes the true value of each duration.
type checker struct {
	physical  pointEvents
	made      map[uint64][]uint64 // by id: the ids that were made of it, as links say
	reference *vnode.Truth
	take      func(d analysis.DurationRow, truth int64)
}

func newChecker(
	physical pointEvents, made map[uint64][]uint64, reference vnode.CounterConfig,
	take func(d analysis.DurationRow, truth int64),
) (*checker, error) {
	truth, err := vnode.NewTruth(reference)
	return &checker{physical, made, truth, take}, err
}

// readingAt returns the counter reading when a tuple was at a point. If no event there has the
// tuple's id, readingAt looks for events of the tuples that were made of this tuple. Exactly one of
// these tuples must have an event at the point.
func (c *checker) readingAt(point string, id uint64) (reading uint64, err error) {
	reading, err = c.physical.at(point, id)
	if !errors.Is(err, errNowhere) {
		return reading, err
	}
	for _, made := range c.made[id] {
		at, under := c.readingAt(point, made)
		switch {
		case under == nil && err == nil:
			return 0, fmt.Errorf("check tuple %d against the truth: it is %w at %s, under "+
				"several ids", id, errTwice, point)
		case under == nil:
			reading, err = at, nil
		case !errors.Is(under, errNowhere):
			return 0, under
		}
	}
	return reading, err
}

// checkDuration computes the true value of one duration, and passes both to the function take. The
// analysis calls checkDuration for each duration (see analysis.Options.Durations).
func (c *checker) checkDuration(d analysis.DurationRow) error {
	if strings.Contains(d.Kind, ",") {
		// This duration begins with the first or the last of the tuples in a window. The events do
		// not show which of these tuples was truly the first or the last, so the duration is not
		// compared.
		return nil
	}
	first, err := c.readingAt(d.From, d.ID)
	if err != nil {
		return err
	}
	second, err := c.readingAt(d.To, d.ID)
	if err != nil {
		return err
	}
	c.take(d, int64(c.reference.Reading(second)-c.reference.Reading(first)))
	return nil
}

// spans groups durations by the two points at which they begin and end.
type spans struct {
	since  bool
	byEnds map[[2]string]*Span
	order  []*Span
}

func newSpans(since bool) *spans { return &spans{since: since, byEnds: map[[2]string]*Span{}} }

func (h *spans) take(d analysis.DurationRow, truth int64) {
	if d.Kind == "end-to-end" && !h.since {
		return // the second analysis, from where tuples begin, contains this one
	}
	key := [2]string{d.From, d.To}
	span := h.byEnds[key]
	if span == nil {
		span = &Span{From: d.From, To: d.To, Since: h.since, Pairs: map[[2]string]int{}}
		h.byEnds[key] = span
		h.order = append(h.order, span)
	}
	span.Durations, span.Truth = append(span.Durations, d.Elapsed), append(span.Truth, truth)
	if d.FromNode != d.ToNode {
		span.Crosses++
		span.Widths = append(span.Widths, d.Hi-d.Lo)
		span.Pairs[[2]string{min(d.FromNode, d.ToNode), max(d.FromNode, d.ToNode)}]++
	}
	if !d.Contains(truth) {
		span.Outside++
	}
}

// Checked returns how many durations were compared with the truth, how many of these were between
// nodes, and how many did not contain the truth.
func (r *Result) Checked() (durations, between, outside int) {
	for _, span := range r.Spans {
		durations += len(span.Durations)
		between += span.Crosses
		outside += span.Outside
	}
	return durations, between, outside
}

// HalfWidth_cycles returns the median bound of the durations from one node to another.
func (r *Result) HalfWidth_cycles() float64 {
	var widths []int64
	for _, span := range r.Spans {
		widths = append(widths, span.Widths...)
	}
	return float64(percentile(widths, 50)) / 2
}
