package generator

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// SearchOptions say how to search for the highest rate that an engine sustains.
type SearchOptions struct {
	// Connect gives a thread's way into the engine, once for the whole search. What comes out of the engine is told to Search.Done.
	Connect func(thread int) (Sink, error)
	Tuples  *Tuples
	Threads int // 0 is 1
	Batch   int // as in SenderOptions

	Start      float64       // the first rate tried, tuples a second; 0 is 10,000
	Highest    float64       // never tried above; 0 is as far as the generator's own ceiling goes
	Resolution float64       // the search ends when a sustained and an unsustained rate are this close; 0 is 0.01
	Growth     float64       // the share of the rate by which the backlog may grow and still count as noise; 0 is 0.005
	Latency    time.Duration // the 99th percentile that a sustained rate may not exceed; 0 is no limit
	WarmUp     time.Duration // of each trial, which is not judged; 0 is 1 s
	Trial      time.Duration // that is judged; three times an engine's longest regular pause, or more; 0 is 5 s
	Confirm    int           // how often the found rate is tried again; 0 is 3
	Drain      time.Duration // how long an engine may take after a trial to let out what is left; 0 is 10 s
	MaxTrials  int           // 0 is 50; those for the curve come on top
	NoCurve    bool          // leaves out the short trials below what was found, which fill the curve of latency over load

	// IDs makes the ids of a thread. nil takes them from handlers.OpenIDs.
	IDs func(thread int) (IDSource, error)

	Progress func(phase string, rate float64, trials int) // before each trial; may be nil
	Notice   func(Notice)                                 // of trials, and of Search.Mark; may be nil
}

// A Trial is one rate, tried once.
type Trial struct {
	Phase string  `json:"phase"` // bracket, bisect, confirm or curve
	Rate  float64 `json:"rate"`
	Verdict
	Sustained bool          `json:"sustained"`
	P50       time.Duration `json:"p50_ns"` // from due to out
	P90       time.Duration `json:"p90_ns"`
	P99       time.Duration `json:"p99_ns"`
	P999      time.Duration `json:"p999_ns"`
	Max       time.Duration `json:"max_ns"`
	Lateness  Lateness      `json:"sent_late"`
	Sent      uint64        `json:"sent"`
	Check     Check         `json:"check"`
	Marks     []Marked      `json:"marks,omitempty"`
	Length    time.Duration `json:"length_ns"`
	Cut       bool          `json:"cut"` // ended early, as the engine was far behind
}

// What limits a search's result.
const (
	ByEngine    = "engine"    // a higher rate is not sustained
	ByGenerator = "generator" // no higher rate could be offered: the engine may sustain more
	ByHighest   = "highest"   // no higher rate was wanted: the engine may sustain more
	ByNothing   = "nothing"   // no rate was sustained
)

// A SearchResult is what a search found.
type SearchResult struct {
	Sustained float64  `json:"sustained"`       // the highest rate that was sustained, tuples a second; 0: none
	Failed    float64  `json:"failed"`          // the lowest above it that was not; 0: none was tried
	LimitedBy string   `json:"limited_by"`      // ByEngine and so on
	Why       []Reason `json:"why"`             // what was wrong at Failed
	Stalls    Stalls   `json:"stalls"`          // of the engine, at the sustained rate
	Ceiling   float64  `json:"ceiling"`         // the generator's own, into nothing
	Confirmed int      `json:"confirmed"`       // times in a row
	Wanted    int      `json:"wanted"`          // times that it was to be confirmed
	Trials    []Trial  `json:"trials"`          // in the order in which they were made
	Marks     []Marked `json:"marks,omitempty"` // of Search.Mark; those of a trial's sender are with the trial
}

// A Search finds the highest rate that an engine sustains. It is used once.
type Search struct {
	o       SearchOptions
	clock   Clock
	sinks   []Sink
	ids     []IDSource
	held    []io.Closer
	rings   []*dueRing
	sent    []End      // of each thread, in all trials
	spare   [][]uint64 // of each thread, ids that a trial did not use
	current atomic.Pointer[outlet]
	marks   Marks
	result  SearchResult

	// measureCeiling and try are replaced by tests that simulate engines.
	measureCeiling func(ctx context.Context) (float64, error)
	try            func(ctx context.Context, rate float64, warmUp, length time.Duration) (Observation, error)
}

// ceilingShare is how near to the generator's own ceiling a rate may come: above it, a stall of this machine cannot be made good.
const ceilingShare = 0.8

// NewSearch checks the options.
func NewSearch(o SearchOptions) (*Search, error) {
	o.Threads, o.Batch, o.Confirm, o.MaxTrials = cmp.Or(o.Threads, 1), cmp.Or(o.Batch, 1), cmp.Or(o.Confirm, 3), cmp.Or(o.MaxTrials, 50)
	o.Start, o.Highest = cmp.Or(o.Start, 10_000), cmp.Or(o.Highest, maxRate)
	o.Resolution, o.Growth = cmp.Or(o.Resolution, 0.01), cmp.Or(o.Growth, 0.005)
	o.WarmUp, o.Trial, o.Drain = cmp.Or(o.WarmUp, time.Second), cmp.Or(o.Trial, 5*time.Second), cmp.Or(o.Drain, 10*time.Second)
	bad := func(format string, args ...any) (*Search, error) {
		return nil, fmt.Errorf("search: %w: %s", ErrOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Connect == nil:
		return bad("no Connect is given")
	case o.Tuples == nil || o.Tuples.Len() == 0:
		return bad("no Tuples are loaded")
	case !(o.Start > 0) || !(o.Highest >= o.Start) || o.Highest > maxRate:
		return bad("Start %g, Highest %g: want 0 < Start ≤ Highest ≤ %g", o.Start, o.Highest, maxRate)
	case !(o.Resolution >= 0.001 && o.Resolution <= 0.5):
		return bad("Resolution %g: want 0.001 to 0.5", o.Resolution)
	case !(o.Growth > 0 && o.Growth <= 0.1):
		return bad("Growth %g: want more than 0 and at most 0.1", o.Growth)
	case o.WarmUp < 0 || o.Trial < time.Second || o.Drain < 0 || o.Latency < 0:
		return bad("WarmUp %s, Trial %s, Drain %s, Latency %s: a trial takes 1 s or more, and none may be negative", o.WarmUp, o.Trial, o.Drain, o.Latency)
	case o.Threads < 1 || o.Threads > 256 || o.Batch < 1 || o.Confirm < 1 || o.MaxTrials < 3:
		return bad("Threads %d, Batch %d, Confirm %d, MaxTrials %d", o.Threads, o.Batch, o.Confirm, o.MaxTrials)
	}
	s := &Search{o: o}
	s.result.Wanted = o.Confirm
	s.marks.notice = o.Notice
	s.measureCeiling, s.try = s.measureOwnCeiling, s.tryRate
	return s, nil
}

// Done tells the search that tuples came out of the engine. Any goroutine may call it, at any time; for many ids at a time it is cheaper.
func (s *Search) Done(ids ...uint64) {
	if o := s.current.Load(); o != nil {
		o.take(ids)
	}
}

// Mark has something noted with the search that a sink found out, or who calls Done: that a connection broke, or that what came back was malformed. Any
// goroutine may call it.
func (s *Search) Mark(mark Mark, text string) { s.marks.make(mark, 1, "%s", text) }

// Run measures the generator's ceiling, brackets the engine's limit, narrows it down, confirms what it found, and tries shares of it
// for the curve. An error is one of the generator or of a sink; with it comes what was found so far.
func (s *Search) Run(ctx context.Context) (SearchResult, error) {
	defer s.close()
	err := s.run(ctx)
	s.result.Marks = s.marks.list()
	if err != nil {
		return s.result, fmt.Errorf("search: %w", err)
	}
	return s.result, nil
}

func (s *Search) run(ctx context.Context) (err error) {
	if s.result.Ceiling, err = s.measureCeiling(ctx); err != nil {
		return fmt.Errorf("measure the generator's own ceiling: %w", err)
	}
	top, by := s.o.Highest, ByHighest
	if own := s.result.Ceiling * ceilingShare; own < top {
		top, by = own, ByGenerator
	}
	if err := s.narrow(ctx, top, by); err != nil {
		return err
	}
	for _, share := range curveShares {
		rate := share * s.result.Sustained
		if rate < leastRate || s.o.NoCurve {
			break
		}
		if _, err := s.tryOnce(ctx, "curve", rate, s.o.WarmUp/2, s.quick(), quickGrowth); err != nil {
			return err
		}
	}
	return nil
}

// curveShares of what was found are tried once more, in short trials: a search itself climbs so fast that it sees little of how latency grows with load.
var curveShares = []float64{0.9, 0.8, 0.65, 0.5, 0.35, 0.2}

// quick is how long a trial is that decides nothing alone.
func (s *Search) quick() time.Duration { return max(time.Second, s.o.Trial/3) }

// A bracket is what a search knows: lo was sustained, hi was not; 0 and infinity stand for not known.
type bracket struct {
	lo, hi float64
	hint   float64 // what came out when too much went in: the engine's limit, perhaps; 0 where nothing told
	by     string  // what failed at hi
	why    []Reason
}

// bracketFactor is how fast a search climbs.
const bracketFactor = 4

// quickGrowth is what may grow in the short trials of the bracket. A longer trial decides before anything is reported.
const quickGrowth = 0.05

func (s *Search) narrow(ctx context.Context, top float64, topBy string) error {
	b := bracket{hi: math.Inf(1), by: topBy}
	for rate := min(s.o.Start, top); math.IsInf(b.hi, 1) || b.lo == 0; {
		v, err := s.trial(ctx, "bracket", rate, s.o.WarmUp/2, s.quick(), quickGrowth)
		if err != nil {
			return err
		}
		b.learn(rate, v)
		switch {
		case v.kept() && rate >= top:
			b.hi, b.by, b.why = rate, topBy, nil // as far as it may go
		case v.kept():
			rate = min(top, rate*bracketFactor)
		case b.lo == 0 && rate <= leastRate:
			s.result.LimitedBy, s.result.Failed, s.result.Why = ByNothing, b.hi, b.why
			return nil
		case b.lo == 0:
			rate = max(leastRate, rate/bracketFactor)
		}
	}
	confirmed := 0
	for confirmed < s.o.Confirm && len(s.result.Trials) < s.o.MaxTrials {
		phase, rate := "bisect", 0.0
		if b.hi <= b.lo*(1+s.o.Resolution) {
			phase, rate = "confirm", b.lo
		} else {
			rate = b.next(s.o.Resolution, s.o.Growth)
			confirmed = 0
		}
		v, err := s.trial(ctx, phase, rate, s.o.WarmUp, s.o.Trial, s.o.Growth)
		if err != nil {
			return err
		}
		if phase == "confirm" && v.kept() {
			confirmed++
			s.result.Stalls = v.Stalls
			continue
		}
		confirmed = 0
		b.learn(rate, v)
		if b.lo == 0 {
			// What the short trials took for sustained was not. Go down from here.
			b.lo = b.hi / (1 + 4*s.o.Resolution)
			for b.lo > 0 {
				v, err := s.trial(ctx, "bisect", b.lo, s.o.WarmUp, s.o.Trial, s.o.Growth)
				if err != nil {
					return err
				}
				if v.kept() {
					break
				}
				rate := b.lo
				b.lo = 0
				b.learn(rate, v)
				if rate < leastRate || len(s.result.Trials) >= s.o.MaxTrials {
					s.result.LimitedBy, s.result.Failed, s.result.Why = ByNothing, b.hi, b.why
					return nil
				}
				b.lo = rate / 1.25
			}
		}
	}
	s.result.Sustained, s.result.Confirmed = b.lo, confirmed
	s.result.LimitedBy, s.result.Why = b.by, b.why
	if b.hi > b.lo {
		s.result.Failed = b.hi
	}
	return nil
}

// leastRate is where a search gives up, tuples a second.
const leastRate = 1

// learn narrows the bracket by a trial.
func (b *bracket) learn(rate float64, v Verdict) {
	if v.kept() {
		b.lo = max(b.lo, rate)
		return
	}
	if rate <= b.lo {
		b.lo = 0 // it was sustained before, and is not now: it does not count
	}
	if rate < b.hi || rate == b.hi && b.why == nil {
		b.hi, b.why, b.by = rate, v.Reasons, ByEngine
		if slices.Contains(v.Reasons, Generator) {
			b.by = ByGenerator
		}
		if v.Delivered < rate*0.98 { // what comes out as fast as it goes in tells nothing of the engine's limit
			b.hint = v.Delivered
		}
	}
}

// next is the rate to try within the bracket. Where it is known what came out under too much load, that is near the limit: first the rates at either
// side of it, so near that the search ends if the limit is between them; then away from it in steps that double; never beyond the middle. A rate above the limit
// by less than growth still counts as sustained, so that the rates are at either side of that.
func (b *bracket) next(resolution, growth float64) float64 {
	middle := math.Sqrt(b.lo * b.hi)
	if b.hint == 0 {
		return middle
	}
	edge, apart := b.hint*(1+growth), 1+0.45*resolution
	for _, rate := range []float64{edge / apart, edge * apart} {
		if rate > b.lo*(1+resolution/2) && rate < b.hi/(1+resolution/2) {
			return rate
		}
	}
	switch {
	case b.lo >= edge:
		return min(middle, b.lo*(1+max(resolution, 2*(b.lo/edge-1))))
	case b.hi <= edge:
		return max(middle, b.hi/(1+max(resolution, 2*(edge/b.hi-1))))
	}
	return middle
}
