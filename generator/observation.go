package generator

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Sample is where a trial was at one moment after its start.
type Sample struct {
	At   time.Duration
	Due  uint64 // tuples that were due
	Sent uint64
	Done uint64 // that came out of the engine
}

func (s Sample) backlog() float64 { return float64(s.Due) - float64(s.Done) }

// A LatencySlice is the median latency of the tuples that came out in a stretch of a trial.
type LatencySlice struct {
	At     time.Duration
	Median time.Duration
}

// An Observation is what was seen in a trial. The verdict is computed from it alone.
type Observation struct {
	Rate    float64       // that was to be sent
	WarmUp  time.Duration // which is not judged
	Length  time.Duration // that is
	Samples []Sample      // a millisecond or so apart
	Slices  []LatencySlice
	Latency *hdrhistogram.Histogram // ns from due to out, of tuples due after the warm-up
	Check   Check                   // after the engine had time to let everything out
	Sender  SenderResult
	Cut     bool // the trial was ended early, as the engine was far behind
}

// A Stall is a time in which nothing came out of the engine although tuples were sent and waited in it.
type Stall struct {
	At  time.Duration
	For time.Duration
}

// Stalls sums up the stalls of a trial.
type Stalls struct {
	Count   int           `json:"count"`
	Typical time.Duration `json:"typical_ns"` // the median length
	Every   time.Duration `json:"every_ns"`   // the median time from one to the next; 0 where they keep no beat
}

// A Reason says why a rate is not sustained.
type Reason string

// The reasons. Scripts read them: append only.
const (
	BacklogGrows   Reason = "backlog-grows"
	LatencyGrows   Reason = "latency-grows"
	TuplesLost     Reason = "tuples-lost"
	TuplesDoubled  Reason = "tuples-doubled"
	LatencyTooHigh Reason = "latency-too-high"
	Generator      Reason = "generator" // it was the generator that fell behind: says nothing about the engine
	NothingSeen    Reason = "nothing-came-out"
)

// A Verdict is what a trial shows.
type Verdict struct {
	Reasons       []Reason `json:"reasons,omitempty"` // empty: sustained
	Achieved      float64  `json:"achieved"`          // tuples a second sent in the judged time
	Delivered     float64  `json:"delivered"`         // tuples a second that came out in it
	BacklogGrowth float64  `json:"backlog_growth"`    // tuples a second, by the smallest backlogs of its first and last third
	LatencyGrowth float64  `json:"latency_growth"`    // seconds a second, by the smallest medians of these
	Backlog       float64  `json:"backlog"`           // the largest
	Stalls        Stalls   `json:"stalls"`
}

// kept says whether the engine kept up.
func (v Verdict) kept() bool { return len(v.Reasons) == 0 }

// limits are what a verdict goes by.
type limits struct {
	growth  float64       // the share of the rate by which the backlog may grow
	latency time.Duration // the 99th percentile may not be above; 0 is no limit
}

// judge holds a trial against the limits.
//
// An engine that pauses now and then has a backlog like the teeth of a saw; it sustains a rate when it gets rid of it again. So growth is told by
// the smallest backlog in the first third of the judged time and in the last: the teeth have no part in it, if a third is longer than one.
// Backlog is what was due and has not come out: tuples that the engine refused to take wait in it as well.
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
	// What a millisecond brings is noise: the time in which a sample, or the engine, may have been held up.
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
	if v.LatencyGrowth = latencyGrowth(o.Slices, first.At, last.At); v.LatencyGrowth > max(l.growth, 1.5e-3/span.Seconds()) && !own {
		v.Reasons = append(v.Reasons, LatencyGrows)
	}
	if l.latency > 0 && o.Latency != nil && time.Duration(o.Latency.ValueAtQuantile(99)) > l.latency {
		v.Reasons = append(v.Reasons, LatencyTooHigh)
	}
	v.Stalls = sumUp(findStalls(window))
	return v
}

// latencyGrowth is how much the latency grows in a second, in seconds, by the smallest medians of the first and last third.
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

// A stall is at least this long, and the engine had at least so many tuples due in it: at a low rate a pause is nothing.
const (
	shortestStall = 5 * time.Millisecond
	stallTuples   = 10
)

// findStalls looks for times in which nothing came out although tuples went in and waited. It needs three samples within one: a time in which this
// machine did not run has none.
func findStalls(samples []Sample) []Stall {
	var found []Stall
	for i := 0; i < len(samples); {
		j := i
		for j+1 < len(samples) && samples[j+1].Done == samples[i].Done {
			j++
		}
		a, b := samples[i], samples[j]
		if j-i >= 3 && b.At-a.At >= shortestStall && b.Due-a.Due >= stallTuples && b.Sent > a.Done && b.backlog() > 1 {
			found = append(found, Stall{a.At, b.At - a.At})
		}
		i = j + 1
	}
	return found
}

// sumUp names the beat of stalls that keep one: of three or more, when most gaps are within a fifth of their median. Stalls of less than half the
// typical length are between beats: on a busy machine any engine has such.
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
