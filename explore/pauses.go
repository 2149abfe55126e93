package explore

import (
	"cmp"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// JVM is a JVM that logged its pauses. Its track has a row for each pause.
type JVM struct {
	Name   string `json:"name"` // such as jvm-4711
	Node   string `json:"node"`
	Count  uint64 `json:"count"`
	Absent uint64 `json:"absent"` // number of further pauses, of which something is not known
}

// Pauses are the pauses of a JVM in a range.
type Pauses struct {
	JVM   int     `json:"jvm"`
	Rows  []Pause `json:"rows"`
	Whole bool    `json:"whole"` // false: only the longest
}

// Pause is a time in which a JVM let no thread run. In a Path, Begin and End are counted from the
// middle of the tuple's first event.
type Pause struct {
	JVM    string            `json:"jvm"`
	Node   string            `json:"node"`
	Kind   string            `json:"kind"` // what the JVM did
	Begin  Moment            `json:"begin"`
	End    Moment            `json:"end"`
	Length analysis.Interval `json:"length"`
	Steps  []int             `json:"steps"` // in a Path: the steps that begin or end in the JVM
}

// These are the largest numbers of pauses of a JVM that an answer lists.
const (
	maxPauses     = 300
	maxPathPauses = 100
)

// addPause adds a row for a pause of a JVM.
func (c *collector) addPause(p *analysis.PauseRow) {
	for p.JVM >= len(c.jvmTrack) {
		c.jvmTrack = append(c.jvmTrack, c.track())
	}
	kind := slices.Index(c.kinds, p.Kind)
	if kind < 0 {
		kind = len(c.kinds)
		c.kinds = append(c.kinds, p.Kind)
	}
	i := item{track: c.jvmTrack[p.JVM], id: uint64(kind),
		lo: limitedDifference(p.End.Lo, p.Begin.Hi),
		hi: limitedDifference(p.End.Hi, p.Begin.Lo)}
	i.hi = max(i.lo, i.hi)
	i.setMoment(p.Begin)
	c.items.add(i, itemSize)
}

// pauseEnd is the interval of the moment at which a pause ended. The interval that item.end returns
// is wider: it treats the errors of the pause's beginning and of its length as independent,
// although they are not.
func pauseEnd(i *item) tscratio.Interval {
	b := i.begin()
	return tscratio.Interval{Lo: moveReading(b.Hi, i.lo), Hi: moveReading(b.Lo, i.hi)}
}

// describeJVMs describes the JVMs of a run, and says for each lane which JVMs ran the lane's
// instance.
func (b *builder) describeJVMs(m *Meta) {
	m.JVMs, m.PauseKinds = []JVM{}, append([]string{}, b.kinds...)
	for i := range m.Lanes {
		m.Lanes[i].JVMs = []int{}
	}
	for k, j := range b.answer.JVMs {
		m.JVMs = append(m.JVMs, JVM{Name: j.Name, Node: j.Node, Count: j.Pauses, Absent: j.Absent})
		for _, name := range j.Channels {
			at, known := b.channelOf[[2]string{j.Node, name}]
			if !known {
				continue // no tuple passed the channel
			}
			l := &m.Lanes[b.channels[at].Lane]
			if !slices.Contains(l.JVMs, k) {
				l.JVMs = append(l.JVMs, k)
			}
		}
	}
}

func (x *Index) jvm(jvm int) *track { return &x.tracks[len(x.Meta.Lanes)+len(x.Meta.Spans)+jvm] }

// pausesIn returns the pauses of a JVM that may reach into a range. If there are too many of them
// to read, whole is false, and pausesIn returns only the longest of the pauses that begin in the
// range.
func (x *Index) pausesIn(jvm int, r Range) (all []item, whole bool, err error) {
	t := x.jvm(jvm)
	if len(t.levels) == 0 {
		return nil, true, nil
	}
	if len(nodesIn(t.levels[0], r)) > rawBlocks {
		all, _, err = x.longestItems(t, r, math.MinInt64, math.MaxInt64)
		return all, false, err
	}
	blocks := reachingBlocks(t.levels[0], r)
	for k := range blocks {
		if err := x.eachItem(&blocks[k], func(i *item) {
			if i.begin().Lo <= r.To && pauseEnd(i).Hi >= r.From {
				all = append(all, *i)
			}
		}); err != nil {
			return nil, false, err
		}
	}
	return all, true, nil
}

// longestPauses returns the longest of some pauses, in the order of time.
func longestPauses(all []item, most int) []item {
	if len(all) > most {
		slices.SortStableFunc(all, func(a, b item) int { return -cmp.Compare(a.hi, b.hi) })
		all = all[:most]
	}
	slices.SortStableFunc(all, func(a, b item) int { return cmp.Compare(a.mid, b.mid) })
	return all
}

// pauseOf describes a pause. The moments of the pause are counted from the reading that the
// parameter zero contains.
func (x *Index) pauseOf(jvm int, i *item, zero uint64) Pause {
	j := &x.Meta.JVMs[jvm]
	p := Pause{JVM: j.Name, Node: j.Node, Kind: "other", Steps: []int{},
		Begin: momentFrom(zero, i.begin()), End: momentFrom(zero, pauseEnd(i)),
		Length: analysis.Interval{Lo_cycles: max(i.lo, 0), Hi_cycles: max(i.hi, 0)}}
	if i.id < uint64(len(x.Meta.PauseKinds)) {
		p.Kind = x.Meta.PauseKinds[i.id]
	}
	return p
}

// Pauses returns the pauses of JVMs in a range.
func (x *Index) Pauses(jvms []int, r Range) ([]Pauses, error) {
	all := []Pauses{}
	for _, jvm := range jvms {
		items, whole, err := x.pausesIn(jvm, r)
		if err != nil {
			return nil, err
		}
		p := Pauses{JVM: jvm, Rows: []Pause{}, Whole: whole && len(items) <= maxPauses}
		for _, i := range longestPauses(items, maxPauses) {
			p.Rows = append(p.Rows, x.pauseOf(jvm, &i, x.zero()))
		}
		all = append(all, p)
	}
	return all, nil
}

// stepEnds are the events at the two ends of a step.
type stepEnds struct {
	from, to *event
	critical analysis.Critical
}

// pausesOf adds two things to a path: the pauses of the JVMs that logged the tuple, and how much of
// the path's time lay in these pauses. steps has the ends of the path's steps.
func (x *Index) pausesOf(p *Path, events []event, steps []stepEnds) error {
	r := Range{From: math.MaxUint64}
	of := map[int][]item{} // by JVM
	for i := range events {
		e := &events[i]
		r.From, r.To = min(r.From, e.at.Lo), max(r.To, e.at.Hi)
		for _, jvm := range x.jvmsOf(e) {
			of[jvm] = nil
		}
	}
	p.Paused_known = len(of) > 0 && slices.ContainsFunc(steps, func(s stepEnds) bool {
		return s.critical != analysis.NotCritical
	})
	zero := events[0].at.Mid()
	for jvm := range x.Meta.JVMs {
		if _, part := of[jvm]; !part {
			continue
		}
		items, whole, err := x.pausesIn(jvm, r)
		if err != nil {
			return err
		}
		of[jvm], p.Paused_known = items, p.Paused_known && whole
		for _, i := range longestPauses(slices.Clone(items), maxPathPauses) {
			pause := x.pauseOf(jvm, &i, zero)
			for k, s := range steps {
				if slices.Contains(x.jvmsOf(s.from), jvm) || slices.Contains(x.jvmsOf(s.to), jvm) {
					pause.Steps = append(pause.Steps, k)
				}
			}
			p.Pauses = append(p.Pauses, pause)
		}
	}
	var total tscratio.Elapsed
	for k, s := range steps {
		in := x.timeInPauses(of, &s)
		in.Hi = max(min(in.Hi, p.Steps[k].Duration.Hi_cycles), in.Lo)
		switch s.critical {
		case analysis.SurelyCritical:
			total.Lo, total.Hi = total.Lo+in.Lo, total.Hi+in.Hi
		case analysis.PerhapsCritical:
			total.Hi += in.Hi
		}
	}
	if p.Paused_known {
		p.Paused = analysis.Interval{Lo_cycles: total.Lo,
			Hi_cycles: max(min(total.Hi, p.Total.Hi_cycles), total.Lo)}
	}
	return nil
}

func (x *Index) jvmsOf(e *event) []int { return x.Meta.Lanes[x.Meta.Channels[e.channel].Lane].JVMs }

// timeInPauses returns how much of a step lay in pauses. Two JVMs may pause at the same time, so
// the low end is the largest of the JVMs' low ends, and the high end is the sum of their high ends.
// If a lane has several JVMs, it is not known which of them worked on the tuple, so none of them
// counts for the low end.
func (x *Index) timeInPauses(of map[int][]item, s *stepEnds) (all tscratio.Elapsed) {
	for jvm, items := range of {
		a, b := x.jvmsOf(s.from), x.jvmsOf(s.to)
		if !slices.Contains(a, jvm) && !slices.Contains(b, jvm) {
			continue
		}
		var in tscratio.Elapsed
		for i := range items {
			begin, end := items[i].begin(), pauseEnd(&items[i])
			in.Lo += overlap(max(s.from.at.Hi, begin.Hi), min(s.to.at.Lo, end.Lo))
			in.Hi += overlap(max(s.from.at.Lo, begin.Lo), min(s.to.at.Hi, end.Hi))
		}
		if slices.Equal(a, []int{jvm}) || slices.Equal(b, []int{jvm}) {
			all.Lo = max(all.Lo, in.Lo)
		}
		all.Hi += in.Hi
	}
	return all
}

func overlap(from, to uint64) int64 { return int64(min(to-min(from, to), farthestReading)) }
