package generator

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Sample is the state of a trial at one moment after its start.
type Sample struct {
	At   time.Duration
	Due  uint64 // tuples that were due
	Sent uint64
	Done uint64 // tuples that came out of the engine
}

func (s Sample) backlog() float64 { return float64(s.Due) - float64(s.Done) }

// A LatencySlice is the median latency of the tuples that came out in one slice of a trial's time.
type LatencySlice struct {
	At     time.Duration
	Median time.Duration
}

// An Observation is what was observed in a trial. The verdict depends only on it and on the limits.
type Observation struct {
	Rate    float64       // tuples a second that were due
	WarmUp  time.Duration // time at the beginning that is not judged
	Length  time.Duration // judged time, after the warm-up
	Samples []Sample      // taken about a millisecond apart
	Slices  []LatencySlice
	Latency *hdrhistogram.Histogram // in ns, from due to out, of tuples due after the warm-up
	Check   Check                   // made after the engine had time to let everything out
	Sender  SenderResult
	Cut     bool // the trial was ended early because the engine was far behind
}

// A Stall is a time in which nothing came out of the engine although tuples were sent and waited in
// the engine.
type Stall struct {
	At  time.Duration
	For time.Duration
}

// Stalls sums up the stalls of a trial.
type Stalls struct {
	Count   int           `json:"count"`
	Typical time.Duration `json:"typical_ns"` // the median length
	Every   time.Duration `json:"every_ns"`   // the median time from stall to stall; 0 if irregular
}

// A Reason says why a rate is not sustained.
type Reason string

// This is the complete list of reasons. Scripts read the reasons, so new ones may only be appended.
const (
	BacklogGrows   Reason = "backlog-grows"
	LatencyGrows   Reason = "latency-grows"
	TuplesLost     Reason = "tuples-lost"
	TuplesDoubled  Reason = "tuples-doubled"
	LatencyTooHigh Reason = "latency-too-high"
	Generator      Reason = "generator" // the generator fell behind, so the engine is not judged
	NothingSeen    Reason = "nothing-came-out"
)

// A Verdict is what a trial shows.
type Verdict struct {
	Reasons   []Reason `json:"reasons,omitempty"` // why the rate is not sustained; empty: it is
	Achieved  float64  `json:"achieved"`          // tuples a second sent in the judged time
	Delivered float64  `json:"delivered"`         // tuples a second that came out in that time

	// BacklogGrowth is how fast the backlog grows, in tuples a second: from the smallest backlog in
	// the first third of the judged time to the smallest in the last third.
	BacklogGrowth float64 `json:"backlog_growth"`
	// LatencyGrowth is how fast the latency grows, in seconds per second: from the smallest median
	// latency in the first third of the judged time to the smallest in the last third.
	LatencyGrowth float64 `json:"latency_growth"`
	Backlog       float64 `json:"backlog"` // largest backlog in the judged time
	Stalls        Stalls  `json:"stalls"`
}

// keptUp reports whether the engine kept up.
func (v Verdict) keptUp() bool { return len(v.Reasons) == 0 }

// limits are the values with which judge compares a trial.
type limits struct {
	growth  float64       // the share of the rate by which the backlog may grow
	latency time.Duration // the highest 99th percentile; 0 means no limit
}

// judge compares a trial with the limits.
//
// The backlog is the number of tuples that were due and have not come out. It includes tuples that
// the engine has refused to take. If an engine pauses now and then, its backlog rises in each pause
// and falls after it. If the backlog always falls back to the same level, the engine sustains the
// rate. So judge compares the smallest backlog in the first third of the judged time with the
// smallest backlog in the last third. If a third is longer than one pause together with the time in
// which the engine catches up after it, the pauses have no influence.
func judge(o Observation, l limits) Verdict {
	var v Verdict
	window := o.Samples
	for len(window) > 0 && window[0].At < o.WarmUp {
		window = window[1:]
	}
	if o.Check.Lost > 0 && !o.Cut {
		v.Reasons = append(v.Reasons, TuplesLost)
	}
	if o.Check.Duplicates > 0 {
		v.Reasons = append(v.Reasons, TuplesDoubled)
	}
	if len(window) < 6 || window[len(window)-1].Done == 0 {
		v.Reasons = append(v.Reasons, NothingSeen)
		return v
	}
	first, last := window[0], window[len(window)-1]
	span := last.At - first.At
	v.Achieved = float64(last.Sent-first.Sent) / span.Seconds()
	v.Delivered = float64(last.Done-first.Done) / span.Seconds()
	for _, s := range window {
		v.Backlog = max(v.Backlog, s.backlog())
	}
	growth := func(of func(Sample) float64) float64 {
		begin, end := of(first), of(last)
		for _, s := range window {
			if s.At-first.At < span/3 {
				begin = min(begin, of(s))
			}
			if last.At-s.At < span/3 {
				end = min(end, of(s))
			}
		}
		return (end - begin) / (span.Seconds() * 2 / 3)
	}
	v.BacklogGrowth = growth(Sample.backlog)
	// If the backlog grows by no more than the tuples of one millisecond, that is noise: a sample,
	// or the engine, may have been delayed for a millisecond.
	noise := max(10, o.Rate*1e-3) / (span.Seconds() * 2 / 3)
	allowed := max(l.growth*o.Rate, noise)
	unsent := growth(func(s Sample) float64 { return float64(s.Due) - float64(s.Sent) })
	own := unsent > allowed && o.Sender.Blocked < span/50
	if o.Cut || v.BacklogGrowth > allowed {
		if own {
			v.Reasons = append(v.Reasons, Generator)
		} else {
			v.Reasons = append(v.Reasons, BacklogGrows)
		}
	} else if own {
		v.Reasons = append(v.Reasons, Generator)
	}
	v.LatencyGrowth = latencyGrowth(o.Slices, first.At, last.At)
	if v.LatencyGrowth > max(l.growth, 1.5e-3/span.Seconds()) && !own {
		v.Reasons = append(v.Reasons, LatencyGrows)
	}
	if l.latency > 0 && o.Latency != nil {
		if p99 := time.Duration(o.Latency.ValueAtQuantile(99)); p99 > l.latency {
			v.Reasons = append(v.Reasons, LatencyTooHigh)
		}
	}
	v.Stalls = sumUp(findStalls(window))
	return v
}

// latencyGrowth returns how fast the latency grows, in seconds per second: from the smallest median
// in the first third of the time to the smallest median in the last third.
func latencyGrowth(list []LatencySlice, from, to time.Duration) float64 {
	span := to - from
	begin, end := time.Duration(-1), time.Duration(-1)
	for _, s := range list {
		if s.At < from || s.At+latencySlice > to {
			continue
		}
		if s.At-from < span/3 && (begin < 0 || s.Median < begin) {
			begin = s.Median
		}
		if to-s.At <= span/3 && (end < 0 || s.Median < end) {
			end = s.Median
		}
	}
	if begin < 0 || end < 0 {
		return 0
	}
	return (end - begin).Seconds() / (span.Seconds() * 2 / 3)
}

// A stall lasts at least shortestStall, and at least stallTuples are due in that time. If fewer
// tuples are due, then a time in which no tuple comes out proves nothing.
const (
	shortestStall = 5 * time.Millisecond
	stallTuples   = 10
)

// findStalls looks for times in which nothing came out although tuples went in and waited. A stall
// must contain at least four samples. If this machine did not run for a time, there are no samples
// of that time, so findStalls does not regard that time as a stall.
func findStalls(samples []Sample) []Stall {
	var found []Stall
	for i := 0; i < len(samples); {
		j := i
		for j+1 < len(samples) && samples[j+1].Done == samples[i].Done {
			j++
		}
		a, b := samples[i], samples[j]
		long := j-i >= 3 && b.At-a.At >= shortestStall
		waiting := b.Sent > a.Done && b.backlog() > 1
		if long && b.Due-a.Due >= stallTuples && waiting {
			found = append(found, Stall{a.At, b.At - a.At})
		}
		i = j + 1
	}
	return found
}

// sumUp sums up stalls, and finds their period if they have one. Stalls have a period if there are
// three or more, and if most gaps between them differ from the median gap by at most a fifth. When
// sumUp looks for the period, it ignores stalls of less than half the typical length: on a busy
// machine any engine has short stalls.
func sumUp(found []Stall) Stalls {
	if len(found) == 0 {
		return Stalls{}
	}
	var lengths, gaps []time.Duration
	for _, s := range found {
		lengths = append(lengths, s.For)
	}
	slices.Sort(lengths)
	sum := Stalls{Count: len(found), Typical: lengths[len(lengths)/2]}
	last := time.Duration(-1)
	for _, s := range found {
		if s.For < sum.Typical/2 {
			continue
		}
		if last >= 0 {
			gaps = append(gaps, s.At-last)
		}
		last = s.At
	}
	if len(gaps) < 2 {
		return sum
	}
	slices.Sort(gaps)
	middle, near := gaps[len(gaps)/2], 0
	for _, g := range gaps {
		if g > middle*4/5 && g < middle*6/5 {
			near++
		}
	}
	if near*4 >= len(gaps)*3 {
		sum.Every = middle
	}
	return sum
}
