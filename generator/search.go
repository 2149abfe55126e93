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
	// Connect connects a thread to the engine, once for the whole search. The caller passes every
	// tuple that comes out of the engine to Search.Done.
	Connect func(thread int) (Sink, error)
	Tuples  *Tuples
	Threads int // 0 means 1
	Batch   int // as in SenderOptions

	// Start is the first rate that is tried, in tuples a second. 0 means 10,000.
	Start float64
	// Highest is the highest rate that may be tried. 0 means that only the generator's own ceiling
	// limits the rate.
	Highest float64
	// Resolution is a share of the rate. The search ends when a sustained and an unsustained rate
	// differ by no more than this share. 0 means 0.01.
	Resolution float64
	// Growth is a share of the tuples that become due. If the backlog grows by no more than this
	// share of them, the growth is regarded as noise. 0 means 0.005.
	Growth float64
	// Latency is the highest 99th percentile of latency that a sustained rate may have. 0 means no
	// limit.
	Latency time.Duration
	// WarmUp is the time at the beginning of each trial that is not judged. 0 means 1 s.
	WarmUp time.Duration
	// Trial is the judged time of a long trial. Trial should be at least three times the engine's
	// longest regular pause. 0 means 5 s. Short trials take a third of it, but at least 1 s.
	Trial time.Duration
	// Confirm is how often the found rate is tried again. 0 means 3.
	Confirm int
	// Arrivals says when tuples are due. "" means EvenArrivals.
	Arrivals Arrivals
	// Drain is the time in which an engine must let out its remaining tuples after a trial. 0 means
	// 10 s.
	Drain time.Duration
	// MaxTrials is the largest number of trials. It does not include the trials for the curve (see
	// NoCurve). 0 means 50.
	MaxTrials int
	// NoCurve leaves out the short trials below the found rate. These trials show the curve of
	// latency over load.
	NoCurve bool

	// IDs makes the ids of a thread. If it is nil, the ids come from handlers.OpenIDs.
	IDs func(thread int) (IDSource, error)

	Progress func(phase string, rate float64, trials int) // called before each trial; may be nil
	// Notice is called for each mark of a trial or of Search.Mark. It may be nil.
	Notice func(Notice)
}

// Arrivals say when the tuples of a trial are due.
type Arrivals string

const (
	EvenArrivals Arrivals = "even" // at equal distances
	// PoissonArrivals are like the load of many independent users: tuples come in clusters. So
	// tuples wait for each other even at low rates, at which evenly spaced tuples would not.
	PoissonArrivals Arrivals = "poisson"
)

// A Trial is one attempt at a rate, and its result.
type Trial struct {
	Phase string  `json:"phase"` // bracket, bisect, confirm or curve
	Rate  float64 `json:"rate"`
	Verdict
	Sustained bool `json:"sustained"`
	// The latency of a tuple begins when the tuple was due, and ends when it came out.
	P50      time.Duration `json:"p50_ns"`
	P90      time.Duration `json:"p90_ns"`
	P99      time.Duration `json:"p99_ns"`
	P999     time.Duration `json:"p999_ns"`
	Max      time.Duration `json:"max_ns"`
	Lateness Lateness      `json:"sent_late"`
	Sent     uint64        `json:"sent"`
	Check    Check         `json:"check"`
	Marks    []Marked      `json:"marks,omitempty"`
	Length   time.Duration `json:"length_ns"`
	Cut      bool          `json:"cut"` // ended early because the engine was far behind
}

// These are the values of SearchResult.LimitedBy. They say why a search found no higher rate.
const (
	ByEngine    = "engine"    // a higher rate is not sustained
	ByGenerator = "generator" // the generator could send no more: the engine may sustain more
	ByHighest   = "highest"   // the options allow no higher rate: the engine may sustain more
	ByNothing   = "nothing"   // no rate was sustained
)

// A SearchResult is what a search found.
type SearchResult struct {
	// Sustained is the highest rate that was sustained, in tuples a second. 0 means none.
	Sustained float64 `json:"sustained"`
	// Failed is the lowest rate above Sustained that was not sustained. 0 means that no such rate
	// failed.
	Failed    float64  `json:"failed"`
	LimitedBy string   `json:"limited_by"` // ByEngine and so on
	Why       []Reason `json:"why"`        // why Failed was not sustained
	Stalls    Stalls   `json:"stalls"`     // the engine's stalls at the sustained rate
	Ceiling   float64  `json:"ceiling"`    // the rate at which the generator can send into nothing
	Confirmed int      `json:"confirmed"`  // how many times in a row the rate was confirmed
	Wanted    int      `json:"wanted"`     // SearchOptions.Confirm
	// Attempts is the number of rates that the search began to confirm. Each of these rates except
	// the last one failed a trial.
	Attempts int `json:"confirm_attempts"`
	// SureShare is a share of trials, from 0 to 1. With 95 % confidence, at least this share of all
	// trials at the sustained rate would succeed.
	SureShare float64  `json:"sure_share"`
	Arrivals  Arrivals `json:"arrivals"`
	Trials    []Trial  `json:"trials"` // in the order in which they were made
	// Marks are the marks that were made by Search.Mark. The marks of a trial's sender are in the
	// Trial.
	Marks []Marked `json:"marks,omitempty"`
}

// A Search finds the highest rate that an engine sustains. It can run once.
type Search struct {
	o       SearchOptions
	clock   Clock
	sinks   []Sink
	ids     []IDSource
	held    []io.Closer
	rings   []*dueRing
	sent    []End      // what each thread sent in all trials
	spare   [][]uint64 // for each thread, ids that a trial did not use
	current atomic.Pointer[outlet]
	marks   Marks
	result  SearchResult

	// Tests that simulate engines replace measureCeiling and try.
	measureCeiling func(ctx context.Context) (float64, error)
	try            func(
		ctx context.Context, rate float64, warmUp, length time.Duration,
	) (Observation, error)
}

// ceilingShare is the highest rate that a search tries, as a share of the generator's own ceiling.
// At higher rates the generator cannot catch up after a stall of this machine.
const ceilingShare = 0.8

// NewSearch checks the options.
func NewSearch(o SearchOptions) (*Search, error) {
	o.Threads, o.Batch = cmp.Or(o.Threads, 1), cmp.Or(o.Batch, 1)
	o.Confirm, o.MaxTrials = cmp.Or(o.Confirm, 3), cmp.Or(o.MaxTrials, 50)
	o.Start, o.Highest = cmp.Or(o.Start, 10_000), cmp.Or(o.Highest, maxRate)
	o.Resolution, o.Growth = cmp.Or(o.Resolution, 0.01), cmp.Or(o.Growth, 0.005)
	o.WarmUp, o.Trial = cmp.Or(o.WarmUp, time.Second), cmp.Or(o.Trial, 5*time.Second)
	o.Drain = cmp.Or(o.Drain, 10*time.Second)
	o.Arrivals = cmp.Or(o.Arrivals, EvenArrivals)
	bad := func(format string, args ...any) (*Search, error) {
		return nil, fmt.Errorf("search: %w: %s", ErrOptions, fmt.Sprintf(format, args...))
	}
	switch {
	case o.Connect == nil:
		return bad("no Connect is given")
	case o.Tuples == nil || o.Tuples.Len() == 0:
		return bad("no Tuples are loaded")
	case !(o.Start > 0) || !(o.Highest >= o.Start) || o.Highest > maxRate:
		return bad("Start %g, Highest %g: want 0 < Start ≤ Highest ≤ %g",
			o.Start, o.Highest, maxRate)
	case !(o.Resolution >= 0.001 && o.Resolution <= 0.5):
		return bad("Resolution %g: want 0.001 to 0.5", o.Resolution)
	case !(o.Growth > 0 && o.Growth <= 0.1):
		return bad("Growth %g: want more than 0 and at most 0.1", o.Growth)
	case o.WarmUp < 0 || o.Trial < time.Second || o.Drain < 0 || o.Latency < 0:
		return bad("WarmUp %s, Trial %s, Drain %s, Latency %s: "+
			"want a Trial of 1 s or more, and no negative time",
			o.WarmUp, o.Trial, o.Drain, o.Latency)
	case o.Arrivals != EvenArrivals && o.Arrivals != PoissonArrivals:
		return bad("Arrivals %q: want %q or %q", o.Arrivals, EvenArrivals, PoissonArrivals)
	case o.Threads < 1 || o.Threads > 256 || o.Batch < 1 || o.Confirm < 1 || o.MaxTrials < 3:
		return bad("Threads %d, Batch %d, Confirm %d, MaxTrials %d: "+
			"want 1 to 256 Threads, 3 MaxTrials or more, and 1 or more of the others",
			o.Threads, o.Batch, o.Confirm, o.MaxTrials)
	}
	s := &Search{o: o}
	s.result.Wanted, s.result.Arrivals = o.Confirm, o.Arrivals
	s.marks.notice = o.Notice
	s.measureCeiling, s.try = s.measureOwnCeiling, s.tryRate
	return s, nil
}

// Done informs the search that tuples came out of the engine. Any goroutine may call it, at any
// time. One call with many ids is cheaper than many calls.
func (s *Search) Done(ids ...uint64) {
	if o := s.current.Load(); o != nil {
		o.recordTuples(ids)
	}
}

// Mark records an event in the search, such as a broken connection or a malformed reply. It is for
// sinks and for callers of Done. Any goroutine may call it.
func (s *Search) Mark(mark Mark, text string) { s.marks.addMark(mark, 1, "%s", text) }

// Run first measures the generator's ceiling. Then it brackets the engine's limit, narrows the
// bracket, and confirms the rate that it found. At the end it makes short trials at lower rates,
// which show how latency grows with load. If the generator or a sink fails, Run returns the error
// and what was found before it.
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
	if err := s.narrowBracket(ctx, top, by); err != nil {
		return err
	}
	for _, share := range curveShares {
		rate := share * s.result.Sustained
		if rate < leastRate || s.o.NoCurve {
			break
		}
		_, err := s.tryOnce(ctx, "curve", rate, s.o.WarmUp/2, s.quickTrial(), quickGrowth)
		if err != nil {
			return err
		}
	}
	return nil
}

// curveShares are shares of the found rate. After the search, short trials at these rates follow.
// The search itself climbs so fast that it shows little about how latency grows with load.
var curveShares = []float64{0.9, 0.8, 0.65, 0.5, 0.35, 0.2}

// quickTrial is the length of a trial that decides nothing by itself.
func (s *Search) quickTrial() time.Duration { return max(time.Second, s.o.Trial/3) }

// A bracket contains the limit: lo was sustained, and hi was not. If lo is 0, no sustained rate is
// known. If hi is infinite, no unsustained rate is known.
type bracket struct {
	lo, hi float64
	hint   float64 // the rate that came out when more went in, so perhaps the limit; 0: unknown
	by     string  // what limits the rate to hi: ByEngine and so on
	why    []Reason
}

// bracketFactor is the factor from one rate to the next while a search climbs.
const bracketFactor = 4

// quickGrowth replaces SearchOptions.Growth in short trials. It may be coarse, because only longer
// trials decide which rate is sustained.
const quickGrowth = 0.05

// narrowBracket looks for the engine's limit up to the rate top. The parameter topBy says why no
// rate above top is tried.
func (s *Search) narrowBracket(ctx context.Context, top float64, topBy string) error {
	b := bracket{hi: math.Inf(1), by: topBy}
	for rate := min(s.o.Start, top); math.IsInf(b.hi, 1) || b.lo == 0; {
		v, err := s.runTrial(ctx, "bracket", rate, s.o.WarmUp/2, s.quickTrial(), quickGrowth)
		if err != nil {
			return err
		}
		b.learnResult(rate, v)
		switch {
		case v.keptUp() && rate >= top:
			b.hi, b.by, b.why = rate, topBy, nil
		case v.keptUp():
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
			if phase, rate = confirmingPhase, b.lo; confirmed == 0 {
				s.result.Attempts++
			}
		} else {
			rate = b.nextRate(s.o.Resolution, s.o.Growth)
			confirmed = 0
		}
		v, err := s.runTrial(ctx, phase, rate, s.o.WarmUp, s.o.Trial, s.o.Growth)
		if err != nil {
			return err
		}
		if phase == confirmingPhase && v.keptUp() {
			confirmed++
			s.result.Stalls = v.Stalls
			continue
		}
		confirmed = 0
		b.learnResult(rate, v)
		if b.lo == 0 {
			// Each rate that was sustained in a short trial has failed in a long trial. So the
			// search continues below the lowest rate that failed.
			b.lo = b.hi / (1 + 4*s.o.Resolution)
			for b.lo > 0 {
				v, err := s.runTrial(ctx, "bisect", b.lo, s.o.WarmUp, s.o.Trial, s.o.Growth)
				if err != nil {
					return err
				}
				if v.keptUp() {
					break
				}
				rate := b.lo
				b.lo = 0
				b.learnResult(rate, v)
				if rate < leastRate || len(s.result.Trials) >= s.o.MaxTrials {
					s.result.LimitedBy, s.result.Failed, s.result.Why = ByNothing, b.hi, b.why
					return nil
				}
				b.lo = rate / 1.25
			}
		}
	}
	s.result.Sustained, s.result.Confirmed = b.lo, confirmed
	s.result.SureShare = sureShare(confirmed, s.result.Attempts)
	s.result.LimitedBy, s.result.Why = b.by, b.why
	if b.hi > b.lo {
		s.result.Failed = b.hi
	}
	return nil
}

// confirmingPhase is the phase whose trials decide. The search counts all of them, whatever their
// results.
const confirmingPhase = "confirm"

// sureShare returns a share of trials: with 95 % confidence, at least this share succeeds at the
// confirmed rate. The argument confirmed is the number of trials that were made at that rate, all
// with success. The argument attempts is the number of rates that the search began to confirm. Each
// attempt is another chance to succeed by luck. So the probability that attempt m is wrong must be
// at most 1/(20·m·(m+1)). The sum of these probabilities over all m is 1/20.
func sureShare(confirmed, attempts int) float64 {
	if confirmed == 0 {
		return 0
	}
	m := float64(attempts)
	return math.Pow(0.05/(m*(m+1)), 1/float64(confirmed))
}

// leastRate is the lowest rate that a search tries, in tuples a second.
const leastRate = 1

// learnResult narrows the bracket, using the result of a trial.
func (b *bracket) learnResult(rate float64, v Verdict) {
	if v.keptUp() {
		b.lo = max(b.lo, rate)
		return
	}
	if rate <= b.lo {
		b.lo = 0 // an earlier trial sustained this rate: forget that
	}
	if rate < b.hi || rate == b.hi && b.why == nil {
		b.hi, b.why, b.by = rate, v.Reasons, ByEngine
		if slices.Contains(v.Reasons, Generator) {
			b.by = ByGenerator
		}
		// If tuples come out as fast as they go in, the trial shows nothing about the engine's
		// limit.
		if v.Delivered < rate*0.98 {
			b.hint = v.Delivered
		}
	}
}

// nextRate returns the rate to try within the bracket. If b.hint is 0, the method returns the
// middle of the bracket. Otherwise b.hint is the rate at which tuples came out of the overloaded
// engine, and the engine's limit is near it. A rate that exceeds the limit by at most the share
// named growth still counts as sustained. So the sustained rates probably end at hint·(1+growth),
// which is called the edge here. The method first tries one rate on each side of the edge. These
// two rates are so close that the search ends if one is sustained and the other is not. After that,
// it moves away from the edge in steps that double, but never beyond the middle of the bracket.
func (b *bracket) nextRate(resolution, growth float64) float64 {
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
