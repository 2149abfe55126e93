package generator

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// These numbers say how often a rate is tried again.
const (
	// generatorRetries is how often a rate is tried again if the generator itself fell behind. Such
	// a trial shows nothing about the engine.
	generatorRetries = 2
	// busyRetries is how often a rate is tried again if it failed while this machine was so busy
	// that the generator sent tuples late. Then the engine may have been delayed, too. Trials that
	// confirm a rate are not repeated: if failures had a second chance and successes did not, rates
	// would be confirmed too easily.
	busyRetries = 1
)

// runTrial tries a rate. If a trial shows too little to judge the engine, it repeats that trial.
func (s *Search) runTrial(
	ctx context.Context, phase string, rate float64,
	warmUp, length time.Duration, growth float64,
) (v Verdict, err error) {
	for tries := 1; ; tries++ {
		v, err = s.tryOnce(ctx, phase, rate, warmUp, length, growth)
		if err != nil || v.keptUp() || len(s.result.Trials) >= s.o.MaxTrials {
			return v, err
		}
		last := s.result.Trials[len(s.result.Trials)-1]
		late := slices.ContainsFunc(last.Marks, func(m Marked) bool { return m.Mark == Late })
		switch {
		case slices.Contains(v.Reasons, Generator) && tries <= generatorRetries:
		case late && !last.Cut && phase != confirmingPhase && tries <= busyRetries:
		default:
			return v, nil
		}
	}
}

// tryOnce tries a rate once, judges what it observed, and adds the trial to the search's result.
func (s *Search) tryOnce(
	ctx context.Context, phase string, rate float64,
	warmUp, length time.Duration, growth float64,
) (Verdict, error) {
	if err := ctx.Err(); err != nil {
		return Verdict{}, err
	}
	if s.o.Progress != nil {
		s.o.Progress(phase, rate, len(s.result.Trials))
	}
	o, err := s.try(ctx, rate, warmUp, length)
	if err != nil {
		return Verdict{}, fmt.Errorf("at %.0f/s: %w", rate, err)
	}
	v := judge(o, limits{growth, s.o.Latency})
	t := Trial{
		Phase: phase, Rate: rate, Length: length, Cut: o.Cut,
		Verdict: v, Sustained: v.keptUp(),
		Lateness: o.Sender.Lateness, Sent: o.Sender.Sent, Marks: o.Sender.Marks,
		Check: o.Check,
	}
	if o.Latency != nil && o.Latency.TotalCount() > 0 {
		at := func(q float64) time.Duration { return time.Duration(o.Latency.ValueAtQuantile(q)) }
		t.P50, t.P90, t.P99, t.P999 = at(50), at(90), at(99), at(99.9)
		t.Max = time.Duration(o.Latency.Max())
	}
	s.result.Trials = append(s.result.Trials, t)
	return v, nil
}

// measureOwnCeiling connects, then sends flat out to a sink that keeps nothing.
func (s *Search) measureOwnCeiling(ctx context.Context) (float64, error) {
	if err := s.connect(); err != nil {
		return 0, err
	}
	due := func(thread int, id, due uint64) { s.rings[thread].put(id, due) }
	return ceiling(ctx, s.o.Tuples, s.o.Threads, s.o.Batch, s.clock, due)
}

// Ceiling measures how many tuples a second this machine can send with the given number of threads
// to a sink that keeps nothing. With these threads, the machine can never send at a higher rate.
func Ceiling(ctx context.Context, tuples *Tuples, threads, batch int) (float64, error) {
	return ceiling(ctx, tuples, threads, batch, nil, nil)
}

func ceiling(
	ctx context.Context, tuples *Tuples, threads, batch int,
	clock Clock, due func(thread int, id, due uint64),
) (float64, error) {
	sender, err := NewSender(SenderOptions{
		FlatOut: ceilingTime, Tuples: tuples, Threads: threads, Batch: batch,
		Clock: clock, due: due,
		IDs:     func(int) (IDSource, error) { return &freeIDs{}, nil },
		Connect: func(int) (Sink, error) { return Discard{}, nil },
	})
	if err != nil {
		return 0, err
	}
	r, err := sender.Run(ctx)
	if err != nil {
		return 0, err
	}
	return r.AchievedRate, ctx.Err()
}

const ceilingTime = 300 * time.Millisecond

// freeIDs makes ids for tuples that never leave this process.
type freeIDs struct{ next uint64 }

func (f *freeIDs) Next() (uint64, bool) { f.next++; return f.next, true }

// connect makes what all trials share: the clock, the connections and the sources of ids.
func (s *Search) connect() error {
	var err error
	if s.clock, err = NewClock(); err != nil {
		return err
	}
	for i := range s.o.Threads {
		var ids IDSource
		if s.o.IDs != nil {
			ids, err = s.o.IDs(i)
		} else {
			var own *handlers.IDs
			if own, err = handlers.OpenIDs("", handlers.AnyInstance); err == nil {
				ids = own
				s.held = append(s.held, own)
			}
		}
		if err != nil {
			return err
		}
		sink, err := s.o.Connect(i)
		if err != nil {
			return fmt.Errorf("thread %d: %w", i, err)
		}
		s.sinks, s.ids = append(s.sinks, sink), append(s.ids, ids)
		s.rings = append(s.rings, newDueRing())
		s.sent = append(s.sent, End{})
		s.spare = append(s.spare, nil)
	}
	return nil
}

// close sends the end on every connection, and releases the search's resources.
func (s *Search) close() {
	s.current.Store(nil)
	for i, sink := range s.sinks {
		sink.Close(s.sent[i])
	}
	for _, h := range s.held {
		h.Close()
	}
}

// heldSink keeps a sink open after a trial: its Close does nothing.
type heldSink struct{ Sink }

func (heldSink) Close(End) error { return nil }

// heldPush keeps a Push open after a trial. A sender still recognizes it as a pacer.
type heldPush struct{ *Push }

func (heldPush) Close(End) error { return nil }

type heldRoomSink struct {
	heldSink
	RoomWaiter
}

func hold(s Sink) Sink {
	if p, ok := s.(*Push); ok {
		return heldPush{p}
	}
	if w, ok := s.(RoomWaiter); ok {
		return heldRoomSink{heldSink{s}, w}
	}
	return heldSink{s}
}

// farBehind_s says when a trial ends early: when the backlog is as large as the number of tuples
// that are due in this time.
const farBehind_s = 0.5

// tryRate sends at a rate for some time, and watches what comes out.
func (s *Search) tryRate(
	ctx context.Context, rate float64, warmUp, length time.Duration,
) (Observation, error) {
	schedule, err := Constant(rate, warmUp+length)
	if s.o.Arrivals == PoissonArrivals { // each trial has other times
		schedule, err = Poisson(rate, warmUp+length, uint64(len(s.result.Trials)))
	}
	if err != nil {
		return Observation{}, err
	}
	out := &outlet{
		rings: map[uint64]*dueRing{}, first: map[uint64]uint64{},
		hz: s.clock.Frequency_hz(), latency: newLatencies(),
	}
	o := Observation{Rate: rate, WarmUp: warmUp, Length: length}
	sender, err := NewSender(SenderOptions{
		Schedule: schedule, Tuples: s.o.Tuples, Threads: s.o.Threads, Batch: s.o.Batch,
		Clock: s.clock, Notice: s.o.Notice, GiveUp: 2 * time.Second,
		Connect: func(thread int) (Sink, error) { return hold(s.sinks[thread]), nil },
		IDs: func(thread int) (IDSource, error) {
			return &trialIDs{search: s, thread: thread, out: out}, nil
		},
		due: func(thread int, id, due uint64) { s.rings[thread].put(id, due) },
	})
	if err != nil {
		return o, err
	}
	out.start = s.clock.Now()
	out.from = out.start + uint64(warmUp.Seconds()*out.hz)
	s.current.Store(out)

	trialCtx, cut := context.WithCancel(ctx)
	defer cut()
	watched := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(watched)
		s.watchTrial(&o, sender, out, s.dueBy(schedule, rate), ended, cut)
	}()
	o.Sender, err = sender.Run(trialCtx)
	close(ended)
	<-watched
	if err != nil {
		return o, err
	}
	for i, e := range o.Sender.Ends {
		if e.Sent > 0 && s.sent[i].Sent == 0 {
			s.sent[i].First = e.First
		}
		s.sent[i].Sent += e.Sent
		s.spare[i] = append(sender.threads[i].spare, s.spare[i]...)
	}
	s.drainTrial(ctx, out, o.Sender.Sent)
	out.mu.Lock()
	defer out.mu.Unlock()
	for _, e := range o.Sender.Ends {
		out.checker.noteEnd(e)
	}
	o.Check, o.Latency = out.checker.check(), out.latency
	for i, h := range out.slices {
		if h.TotalCount() > 0 {
			o.Slices = append(o.Slices, LatencySlice{
				At:     time.Duration(i) * latencySlice,
				Median: time.Duration(h.ValueAtQuantile(50)) * time.Microsecond,
			})
		}
	}
	return o, nil
}

// A trialIDs gives a thread its ids in one trial. It begins with the ids that the previous trial
// took but did not send. It tells the outlet which id the thread uses first.
type trialIDs struct {
	search *Search
	thread int
	out    *outlet
	begun  bool
}

func (t *trialIDs) Next() (id uint64, ok bool) {
	if spare := t.search.spare[t.thread]; len(spare) > 0 {
		id, t.search.spare[t.thread] = spare[0], spare[1:]
	} else if id, ok = t.search.ids[t.thread].Next(); !ok {
		return 0, false
	}
	if !t.begun {
		t.begun = true
		t.out.beginThread(id, t.search.rings[t.thread])
	}
	return id, true
}

// watchTrial samples a trial every millisecond, and ends it early if the engine is far behind.
func (s *Search) watchTrial(
	o *Observation, sender *Sender, out *outlet, dueBy func(at_s float64) uint64,
	ended chan struct{}, cut func(),
) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		start := sender.Start()
		// Read first what came out, and then what went in. So no sample shows that more came out
		// than went in.
		done, sent, now := out.done.Load(), sender.Sent(), asm.Counter()
		if start == 0 || now < start {
			continue
		}
		at := float64(now-start) / out.hz
		sample := Sample{time.Duration(at * 1e9), dueBy(at), sent, done}
		if sample.At > o.WarmUp+o.Length {
			return
		}
		o.Samples = append(o.Samples, sample)
		farBehind := sample.backlog() > max(100, farBehind_s*o.Rate)
		if farBehind && sample.At > o.WarmUp+o.Length/6 {
			o.Cut = true
			cut()
			return
		}
	}
}

// dueBy returns a function that counts the tuples that are due until a given moment of the trial.
// The moment must not be earlier than in the previous call.
func (s *Search) dueBy(schedule Schedule, rate float64) func(at_s float64) uint64 {
	if s.o.Arrivals == EvenArrivals {
		all := uint64(schedule.Tuples())
		return func(at_s float64) uint64 { return min(all, uint64(at_s*rate)+1) }
	}
	var count uint64
	next_ns, more := make([]float64, s.o.Threads), make([]Times, s.o.Threads)
	advance := func(i int) {
		due_ns, ok := more[i]()
		if !ok {
			due_ns = math.Inf(1)
		}
		next_ns[i] = due_ns
	}
	for i := range more {
		more[i] = schedule.Thread(i, s.o.Threads)
		advance(i)
	}
	return func(at_s float64) uint64 {
		for i := range next_ns {
			for ; next_ns[i] <= at_s*1e9; advance(i) {
				count++
			}
		}
		return count
	}
}

// drainTrial waits until everything has come out, but at most for SearchOptions.Drain. It gives up
// earlier if nothing has come out for a quarter of Drain, and for at least a second.
func (s *Search) drainTrial(ctx context.Context, out *outlet, sent uint64) {
	const idle = time.Second
	seen, at := out.done.Load(), time.Now()
	begun := time.Now()
	for ; out.done.Load() < sent && ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		if now := out.done.Load(); now != seen {
			seen, at = now, time.Now()
		}
		if time.Since(begun) > s.o.Drain || time.Since(at) > max(idle, s.o.Drain/4) {
			return
		}
	}
}
