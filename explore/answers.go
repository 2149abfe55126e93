package explore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// These are the answers to the page's questions. Moments are counted from Meta.Start_cycles. So in
// a run of up to a month, they are exact numbers in JSON. An answer never gives only the middle of
// an interval: it gives both ends, or says how far the truth may be from the middle.

// Moment is the interval that contains a moment, in cycles since the beginning of the run.
type Moment struct {
	Lo_cycles int64 `json:"lo_cycles"`
	Hi_cycles int64 `json:"hi_cycles"`
}

// Row is one stay of a tuple in a lane (see Lane), or one duration of a tuple.
type Row struct {
	ID       analysis.Reading  `json:"id"`
	At       Moment            `json:"at"`
	Duration analysis.Interval `json:"duration"`
	Suspect  bool              `json:"suspect,omitempty"`
	Instant  bool              `json:"instant,omitempty"`
	Ended    string            `json:"ended,omitempty"` // the point at which the tuple ended
	Lane     int               `json:"lane"`            // the lane in which the duration ended
}

// Sum counts the rows of one bucket. The middles of the rows' moments lie between From_cycles and
// To_cycles. The true moment of a row may be up to Unsure_cycles earlier or later.
type Sum struct {
	From_cycles   int64  `json:"from_cycles"`
	To_cycles     int64  `json:"to_cycles"`
	Unsure_cycles uint64 `json:"unsure_cycles"`
	Count         uint64 `json:"count"`
	Ended         uint64 `json:"ended,omitempty"`
	Suspect       uint64 `json:"suspect,omitempty"`
}

// LaneRows is what the page shows of one lane in a range. If there are few rows, they are shown one
// by one. If there are many, sums of rows are shown.
type LaneRows struct {
	Lane int   `json:"lane"`
	Rows []Row `json:"rows,omitempty"`
	Sums []Sum `json:"sums,omitempty"`
}

// Latency describes one bucket of a span's durations.
type Latency struct {
	Sum
	Percentiles analysis.Percentiles `json:"percentiles"`
	// Heat has pairs: the number of a band, and how many durations fall into the band. Each
	// duration counts as one half in the band of its low end, and as one half in the band of its
	// high end.
	Heat [][2]float64 `json:"heat"`
}

// Latencies are the durations of a span over a range.
type Latencies struct {
	Buckets []Latency `json:"buckets"`
	Bands   []Band    `json:"bands"` // the bands that occur, in rising order
}

// Band is a range of durations. A band is a row of a heat map.
type Band struct {
	Band      int   `json:"band"`
	Lo_cycles int64 `json:"lo_cycles"`
	Hi_cycles int64 `json:"hi_cycles"`
}

// Spread is the distribution of a span's durations in a range, for all instances together and for
// each instance.
type Spread struct {
	Range     Moment  `json:"range"` // the counted range, perhaps wider than the request
	All       Shape   `json:"all"`
	Instances []Shape `json:"instances"`
	Left      int     `json:"left"` // number of further instances, which only All contains
	// Suspect is the number of estimates among the durations of all blocks in the range. The
	// first and the last block may lie partly outside.
	Suspect uint64 `json:"suspect"`
}

// Shape is the distribution of a set of durations.
type Shape struct {
	Lane        int                  `json:"lane"` // −1: the durations of all lanes
	Count       uint64               `json:"count"`
	Percentiles analysis.Percentiles `json:"percentiles"`
	Heat        [][2]float64         `json:"heat"`
	Bands       []Band               `json:"bands"`
}

// Listed is a list of tuples: the answer to a search.
type Listed struct {
	Rows  []Row `json:"rows"`
	Whole bool  `json:"whole"` // false: there may be more such tuples
}

// Path is all that the index knows of one tuple.
type Path struct {
	ID      analysis.Reading  `json:"id"`
	Why     string            `json:"why"` // what became of the tuple
	At      Moment            `json:"at"`
	Total   analysis.Interval `json:"total"`
	Verdict string            `json:"verdict"`
	Steps   []Step            `json:"steps"`
	Events  []Passed          `json:"events"`
	// Pauses are the longest pauses of the JVMs that logged the tuple, during the tuple's time.
	// Paused is how much of the time on the critical path lay in pauses. A step may begin in one
	// JVM and end in another. Then it lies in a pause while either of the two JVMs pauses.
	Pauses       []Pause           `json:"pauses"`
	Paused       analysis.Interval `json:"paused"`
	Paused_known bool              `json:"paused_known"`
}

// Step is a duration of a tuple. Start and End are counted from the middle of the tuple's first
// event.
type Step struct {
	Name      string            `json:"name"`
	Kind      string            `json:"kind"`
	From      string            `json:"from"` // node
	To        string            `json:"to"`   // node
	Start     Moment            `json:"start"`
	End       Moment            `json:"end"`
	Duration  analysis.Interval `json:"duration"`
	Scenario  string            `json:"scenario"`
	Verdict   string            `json:"verdict"`
	Undecided bool              `json:"undecided"`
}

// Passed is an event of a tuple.
type Passed struct {
	Point   string `json:"point"`
	Lane    int    `json:"lane"`
	At      Moment `json:"at"`
	Verdict string `json:"verdict"`
}

func verdictOf(suspect bool) string {
	if suspect {
		return tscratio.Suspect.String()
	}
	return tscratio.Consistent.String()
}

// momentFrom returns a moment in cycles since the reading that the parameter zero contains.
func momentFrom(zero uint64, at tscratio.Interval) Moment {
	return Moment{limitedDifference(at.Lo, zero), limitedDifference(at.Hi, zero)}
}

func (x *Index) zero() uint64 { return uint64(x.Meta.Start_cycles) }

func (x *Index) row(i *item) Row {
	r := Row{ID: analysis.Reading(i.id), At: momentFrom(x.zero(), i.begin()), Suspect: i.suspect,
		Duration: analysis.Interval{Lo_cycles: i.lo, Hi_cycles: i.hi}, Instant: i.instant,
		Lane: int(i.instance)}
	if n := int(i.ended); n > 0 && n <= len(x.Meta.Points) {
		r.Ended = x.Meta.Points[n-1].Name
	}
	return r
}

func (x *Index) rows(items []item) []Row {
	all := make([]Row, 0, len(items))
	for i := range items {
		all = append(all, x.row(&items[i]))
	}
	return all
}

func (x *Index) sum(b *Bucket) Sum {
	return Sum{limitedDifference(b.From_cycles, x.zero()), limitedDifference(b.To_cycles, x.zero()),
		b.Unsure_cycles, b.Count, b.Ended, b.Suspect}
}

// Lanes returns what the page shows of lanes in a range.
func (x *Index) Lanes(lanes []int, r Range, buckets int) ([]LaneRows, error) {
	all := []LaneRows{}
	n := max(len(lanes), 1)
	for _, lane := range lanes {
		s, err := x.series(&x.tracks[lane], r, buckets, maxSingles/n, rawBlocks/n, nil)
		if err != nil {
			return nil, err
		}
		shown := LaneRows{Lane: lane, Rows: x.rows(s.singles)}
		if len(s.singles) == 0 {
			for i := range s.buckets {
				shown.Sums = append(shown.Sums, x.sum(&s.buckets[i]))
			}
		}
		all = append(all, shown)
	}
	return all, nil
}

func (x *Index) span(span int) *track { return &x.tracks[len(x.Meta.Lanes)+span] }

// heatOf returns how many durations of a histogram fall into each band, as in Latency.Heat.
func heatOf(h *histogram) (cells [][2]float64) {
	byBand := map[int]float64{}
	for _, b := range h.used {
		byBand[int(b)>>coarseShift] += float64(h.lo[b]+h.hi[b]) / 2
	}
	for band, n := range byBand {
		cells = append(cells, [2]float64{float64(band), n})
	}
	slices.SortFunc(cells, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	return cells
}

// bandsOf returns bands with their ends, by rising number.
func bandsOf(of map[int]bool) []Band {
	bands := []Band{}
	for b := range of {
		lo, _ := bucketEdges(b << coarseShift)
		_, hi := bucketEdges(b<<coarseShift + 1<<coarseShift - 1)
		bands = append(bands, Band{b, lo, hi})
	}
	slices.SortFunc(bands, func(a, b Band) int { return cmp.Compare(a.Band, b.Band) })
	return bands
}

// Latency returns the durations of a span in a range, as buckets.
func (x *Index) Latency(span int, r Range, buckets int) (Latencies, error) {
	all, seen := Latencies{Buckets: []Latency{}}, map[int]bool{}
	_, err := x.series(x.span(span), r, buckets, 0, rawBlocks, func(b *Bucket) {
		l := Latency{Sum: x.sum(b), Percentiles: percentilesOf(b.counts, 50, 99, 99.9, 100),
			Heat: heatOf(b.counts)}
		for _, cell := range l.Heat {
			seen[int(cell[0])] = true
		}
		all.Buckets = append(all.Buckets, l)
	})
	all.Bands = bandsOf(seen)
	return all, err
}

func shapeOf(lane int, h *histogram) Shape {
	s := Shape{Lane: lane, Count: h.n, Heat: heatOf(h)}
	s.Percentiles = percentilesOf(h, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99, 99.999, 100)
	seen := map[int]bool{}
	for _, cell := range s.Heat {
		seen[int(cell[0])] = true
	}
	s.Bands = bandsOf(seen)
	return s
}

// maxInstances is the largest number of instances that a Spread contains one by one.
const maxInstances = 64

// Spread returns the distribution of a span's durations in a range.
func (x *Index) Spread(span int, r Range) (Spread, error) {
	by, grown, err := x.byInstance(x.span(span), r)
	if err != nil {
		return Spread{}, err
	}
	all := new(histogram)
	s := Spread{Suspect: x.countSuspects(x.span(span), grown),
		Range:     momentFrom(x.zero(), tscratio.Interval{Lo: grown.From, Hi: grown.To}),
		Instances: []Shape{}}
	for lane := range x.Meta.Lanes {
		h := by[uint32(lane)]
		if h == nil || h.n == 0 {
			continue
		}
		for _, b := range h.used {
			all.count(false, int(b), h.lo[b])
			all.count(true, int(b), h.hi[b])
		}
		if len(s.Instances) == maxInstances {
			s.Left++
			continue
		}
		s.Instances = append(s.Instances, shapeOf(lane, h))
	}
	s.All = shapeOf(-1, all)
	return s, nil
}

// Depths is how many tuples were between two points, at several moments.
type Depths struct {
	Moments []Depth `json:"moments"`
	Suspect uint64  `json:"suspect"` // as in Spread
}

// Depth is how many tuples were between two points at one moment: at least Lo, at most Hi.
type Depth struct {
	At_cycles int64  `json:"at_cycles"`
	Lo        uint64 `json:"lo"`
	Hi        uint64 `json:"hi"`
}

// Queue counts how many tuples were between a span's two points, at moments of a range.
func (x *Index) Queue(span int, r Range) (Depths, error) {
	queues, err := x.queueAt(x.span(span), r)
	all := Depths{Moments: []Depth{}, Suspect: x.countSuspects(x.span(span), r)}
	for _, q := range queues {
		all.Moments = append(all.Moments, Depth{limitedDifference(q.at, x.zero()), q.lo, q.hi})
	}
	return all, err
}

// Longest lists the tuples with the longest durations in a range. It considers only durations that
// may lie between two limits.
func (x *Index) Longest(span int, r Range, lo, hi int64) (Listed, error) {
	items, whole, err := x.longestItems(x.span(span), r, lo, hi)
	return Listed{x.rows(items), whole}, err
}

// Ended lists tuples that ended in a lane although they could have gone on.
func (x *Index) Ended(lane int, r Range) (Listed, error) {
	items, whole, err := x.endedTuples(&x.tracks[lane], r)
	return Listed{x.rows(items), whole}, err
}

// Find returns the tuples that have the given id. If there are further tuples with the id, more is
// true.
func (x *Index) Find(id uint64) (all []Path, more bool, err error) {
	rows, more, err := x.findTuples(id)
	all = []Path{}
	for i := range rows {
		p, failed := x.answerPath(&rows[i])
		all, err = append(all, p), errors.Join(err, failed)
	}
	return all, more, err
}

// answerPath makes the answer about a stored tuple.
func (x *Index) answerPath(t *tupleRow) (Path, error) {
	m := &x.Meta
	p := Path{ID: analysis.Reading(t.id), Verdict: verdictOf(false), Steps: []Step{},
		Events: []Passed{}, Pauses: []Pause{}}
	events := map[int]*event{} // by point
	suspect := false
	var first, last *event // in the order of the path, which may differ from that of time
	for i := range t.events {
		e := &t.events[i]
		c := m.Channels[e.channel]
		events[c.Point] = e
		suspect = suspect || e.suspect
		p.Events = append(p.Events, Passed{m.Points[c.Point].Name, c.Lane,
			momentFrom(x.zero(), e.at), verdictOf(e.suspect)})
		if first == nil {
			first = e
		}
		if of := x.rankOfEnd(last); last == nil || x.rankOfEnd(e) > of ||
			x.rankOfEnd(e) == of && e.at.Mid() >= last.at.Mid() {
			last = e
		}
	}
	if first == nil {
		return x.madeOf(t, p), nil
	}
	p.At = momentFrom(x.zero(), first.at)
	p.Total = analysis.Interval{Lo_cycles: limitedDifference(last.at.Lo, first.at.Hi),
		Hi_cycles: limitedDifference(last.at.Hi, first.at.Lo)}
	if first == last {
		p.Total = analysis.Interval{}
	}
	zero := first.at.Mid()
	var steps []placedStep
	for _, d := range t.durations {
		s := &m.Spans[d.span]
		suspect = suspect || d.suspect
		from, to := x.pointOf(s.From), x.pointOf(s.To)
		a, b := events[from], events[to]
		length := analysis.Interval{Lo_cycles: d.lo, Hi_cycles: d.hi}
		if a == first && b == last {
			p.Total = length
		}
		if a == nil || b == nil || s.Kind == "end-to-end" {
			continue
		}
		steps = append(steps, placedStep{Step{Name: stepName(s), Kind: kindOf(s.Kind),
			From: m.Lanes[m.Channels[a.channel].Lane].Node,
			To:   m.Lanes[m.Channels[b.channel].Lane].Node, Start: momentFrom(zero, a.at),
			End: momentFrom(zero, b.at), Duration: length, Scenario: d.scenario.String(),
			Verdict:   verdictOf(d.suspect || a.suspect || b.suspect),
			Undecided: d.lo <= 0 && d.hi >= 0}, stepEnds{a, b, d.critical}})
	}
	slices.SortStableFunc(steps, func(a, b placedStep) int {
		return cmp.Or(cmp.Compare(a.Start.Lo_cycles+a.Start.Hi_cycles,
			b.Start.Lo_cycles+b.Start.Hi_cycles), cmp.Compare(a.End.Lo_cycles, b.End.Lo_cycles))
	})
	ends := make([]stepEnds, 0, len(steps))
	for _, s := range steps {
		p.Steps, ends = append(p.Steps, s.Step), append(ends, s.stepEnds)
	}
	p.Verdict = verdictOf(suspect)
	p.Why = x.fateOf(t.events)
	return p, x.pausesOf(&p, t.events, ends)
}

// placedStep is a step with the events at its ends.
type placedStep struct {
	Step
	stepEnds
}

// madeOf completes the answer about a tuple that was made of other tuples. Each of its durations
// begins at an event of one of those other tuples.
func (x *Index) madeOf(t *tupleRow, p Path) Path {
	for _, d := range t.durations {
		s := &x.Meta.Spans[d.span]
		p.Total = analysis.Interval{Lo_cycles: d.lo, Hi_cycles: d.hi}
		p.Verdict = verdictOf(d.suspect)
		_, origin, _ := strings.Cut(s.Kind, ", ")
		p.Why = fmt.Sprintf("from the %s of the tuples of which it was made, at %s, to %s",
			origin, s.From, s.To)
	}
	return p
}

// rankOfEnd ranks an event by how surely the path ends there. A path surely ends at a sink, and at
// an event where the tuple ended early. After any other event, either the tuple went on, or other
// tuples were made of it.
func (x *Index) rankOfEnd(e *event) int {
	switch {
	case e == nil:
		return 0
	case e.ended, x.Meta.Points[x.Meta.Channels[e.channel].Point].Sink:
		return 2
	}
	return 1
}

// fateOf says what became of a tuple. It gets the events of the tuple's path. A tuple that forks
// may have come to the end on one branch and not on another.
func (x *Index) fateOf(events []event) string {
	var fates []string
	last := ""
	for i := range events {
		p := &x.Meta.Points[x.Meta.Channels[events[i].channel].Point]
		switch last = p.Name; {
		case p.Sink && p.Undecided != "":
			fates = append(fates, fmt.Sprintf("it was last seen at %s; whether it ended there is "+
				"not known: %s", p.Name, p.Undecided))
		case p.Sink:
			fates = append(fates, "it came to the end, "+p.Name)
		case events[i].ended:
			fates = append(fates, endedAt(p))
		}
	}
	if len(fates) == 0 {
		return "its last event is at " + last + ": links say that other tuples were made of a " +
			"tuple with its id"
	}
	return strings.Join(fates, "; ")
}

// endedAt says what may have become of a tuple that ended at a point although it could have gone
// on.
func endedAt(p *Point) string {
	text := fmt.Sprintf("it ended at %s, which is not the end of the path", p.Name)
	if p.Undecided != "" {
		return text + "; whether it is lost is not known: " + p.Undecided
	}
	kinds := []string{}
	for _, k := range []struct {
		n    uint64
		what string
	}{{p.Lost, "lost"}, {p.Filtered, "filtered"}, {p.InFlight, "in flight when the run ended"}} {
		if k.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", k.n, k.what))
		}
	}
	text += "; of all that ended there: " + cmp.Or(strings.Join(kinds, ", "), "none counted")
	if p.Perhaps > 0 {
		text += fmt.Sprintf("; up to %d more may have ended there", p.Perhaps)
	}
	return text
}

func (x *Index) pointOf(name string) int {
	return slices.IndexFunc(x.Meta.Points, func(p Point) bool { return p.Name == name })
}

func kindOf(kind string) string {
	kind, _, _ = strings.Cut(kind, ",")
	return strings.ReplaceAll(kind, "-", "_")
}

// stepName names a step. A computation within one operator has only the operator's name.
func stepName(s *Span) string {
	a, from, _ := strings.Cut(s.From, "/")
	b, to, _ := strings.Cut(s.To, "/")
	switch {
	case a != b:
		return a + " → " + b
	case s.Kind == "computation":
		return a
	}
	return a + ": " + from + " → " + to
}
