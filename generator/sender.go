package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// ErrOptions is wrapped by errors about impossible options.
var ErrOptions = errors.New("bad options")

// An IDSource makes the ids of one thread. Each id is one more than the previous one.
type IDSource interface {
	Next() (id uint64, ok bool)
}

// SenderOptions say what to send, where to and when.
type SenderOptions struct {
	Schedule Schedule // when each tuple is due; nil with FlatOut
	Tuples   *Tuples  // what is sent, again and again
	Threads  int      // each with a sink of its own; 0 means 1
	Connect  func(thread int) (Sink, error)

	// FlatOut is the time for which the sender sends as fast as the sinks take tuples. It replaces
	// the schedule. Every tuple is then due when it is sent.
	FlatOut time.Duration
	// Limit ends a thread of a flat-out run after this number of tuples. 0 means no limit.
	Limit uint64

	// Batch is the largest number of tuples that are handed to a sink at a time; 0 means 1. No
	// tuple waits for others: only tuples that are already due are handed over together.
	Batch int

	// Cores pins thread T to core Cores[T % len(Cores)]. A thread should have its core for itself.
	// If Cores is empty, the kernel chooses.
	Cores []int
	// Realtime gives the threads priority over all others on their cores, with SCHED_FIFO. It needs
	// root or CAP_SYS_NICE.
	Realtime bool

	// LateAfter is how long after its due time a tuple is regarded as late. 0 means 10 µs.
	LateAfter time.Duration
	// CatchUp limits how fast late tuples are sent. If a thread is late, it begins with a burst of
	// at most as many tuples as the schedule has in CatchUp milliseconds. After that it sends at
	// most CatchUp times as fast as the schedule says. CatchUp must be at least 1; 0 means 4.
	CatchUp float64
	// GiveUp is how late a tuple may be and still be sent. Later tuples are skipped and counted.
	// GiveUp is also how long the sender waits, at the end of the schedule, for an engine that does
	// not take the remaining tuples. 0 means 1 s.
	GiveUp time.Duration

	// Log contains the options for the channels generator#T/intended and generator#T/send of each
	// thread T. nil opens no channel.
	Log *handlers.Options

	// IDs returns the source of a thread's ids. If IDs is nil, the ids come from handlers.OpenIDs,
	// in the directory of Log.
	IDs func(thread int) (IDSource, error)

	// Notice is called as soon as a mark is first made, from any goroutine. It may be nil.
	Notice func(Notice)
	Clock  Clock // nil means this machine's counter

	// due is called for each tuple just before it is sent. It may be nil.
	due func(thread int, id, due_counter uint64)
}

// Lateness counts late tuples by cause. A late tuple's cause is what put its thread behind the
// schedule. Every late tuple has one cause: Late = Blocked + Stalled + Busy.
type Lateness struct {
	Late uint64 `json:"late"` // sent more than LateAfter after they were due

	// Blocked counts late tuples whose thread fell behind because the engine took nothing.
	Blocked uint64 `json:"blocked"`
	// Stalled counts late tuples whose thread fell behind because it was not running: the kernel,
	// the hypervisor or the garbage collector had taken the processor.
	Stalled uint64 `json:"stalled"`
	// Busy counts late tuples whose thread fell behind because it was still sending earlier ones.
	Busy uint64 `json:"busy"`

	// CatchingUp counts late tuples that were due after the cause of the delay had ended, and were
	// late only because the thread was still catching up. Blocked, Stalled or Busy counts them too.
	CatchingUp uint64 `json:"catching_up"`
}

func (l Lateness) String() string {
	return fmt.Sprintf("%d refused by the engine, %d not running, %d busy; %d of them caught up",
		l.Blocked, l.Stalled, l.Busy, l.CatchingUp)
}

func (l *Lateness) add(o Lateness) {
	l.Late += o.Late
	l.Blocked += o.Blocked
	l.Stalled += o.Stalled
	l.Busy += o.Busy
	l.CatchingUp += o.CatchingUp
}

// SenderResult counts what became of a schedule's tuples. Scheduled = Sent + Skipped + Unsent.
type SenderResult struct {
	Scheduled uint64
	Sent      uint64
	Skipped   uint64 // not sent because they were too late
	Unsent    uint64 // not sent by the end of the run, or before it was interrupted
	Lateness

	BlockedSends uint64        // offers of which the engine did not take all tuples
	Blocked      time.Duration // the total time that threads waited for the engine
	Elapsed      time.Duration // from the start until the last tuple was sent

	IntendedRate float64 // tuples a second that the schedule asked for; 0 if flat out
	AchievedRate float64

	SendLag *hdrhistogram.Histogram // in ns, from due to sent, of every tuple sent
	Ends    []End                   // what each thread sent
	Marks   []Marked
	Drops   string // why a channel could not be opened; "" if all were
}

// A Sender sends a schedule once.
type Sender struct {
	o       SenderOptions
	clock   Clock
	threads []*sendThread
	start   atomic.Uint64 // counter at the schedule's beginning; 0 before Run
	marks   Marks
	drops   string
}

// NewSender checks the options, connects every thread and opens its channels.
func NewSender(o SenderOptions) (*Sender, error) {
	bad := func(format string, args ...any) (*Sender, error) {
		return nil, fmt.Errorf("send: %w: %s", ErrOptions, fmt.Sprintf(format, args...))
	}
	o.Threads, o.Batch, o.CatchUp = cmp.Or(o.Threads, 1), cmp.Or(o.Batch, 1), cmp.Or(o.CatchUp, 4)
	o.LateAfter = cmp.Or(o.LateAfter, 10*time.Microsecond)
	o.GiveUp = cmp.Or(o.GiveUp, time.Second)
	switch {
	case (o.Schedule == nil) == (o.FlatOut == 0):
		return bad("give a Schedule or FlatOut, and not both")
	case o.FlatOut < 0 || o.LateAfter < 0 || o.GiveUp < 0:
		return bad("FlatOut %s, LateAfter %s, GiveUp %s: none may be negative",
			o.FlatOut, o.LateAfter, o.GiveUp)
	case o.Threads < 1 || o.Threads > 256:
		return bad("Threads %d: give 1 to 256", o.Threads)
	case o.Batch < 1 || o.Batch > maxPerMessage:
		return bad("Batch %d: give 1 to %d", o.Batch, maxPerMessage)
	case !(o.CatchUp >= 1):
		return bad("CatchUp %g: give 1 or more, or a late sender stays late", o.CatchUp)
	case o.Tuples == nil || o.Tuples.Len() == 0:
		return bad("no Tuples are loaded")
	case o.Connect == nil:
		return bad("no Connect is given")
	}
	if err := o.checkFavour(); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	s := &Sender{o: o, clock: o.Clock}
	s.marks.notice = o.Notice
	if s.clock == nil {
		var err error
		if s.clock, err = NewClock(); err != nil {
			return nil, err
		}
	}
	for i := range o.Threads {
		t, err := newSendThread(s, i)
		if err != nil {
			s.abandon()
			return nil, fmt.Errorf("send: thread %d: %w", i, err)
		}
		s.threads = append(s.threads, t)
	}
	return s, nil
}

// abandon releases the resources of a sender that will not run.
func (s *Sender) abandon() {
	for _, t := range s.threads {
		t.sink.Close(End{})
		t.release()
	}
}

// Sent returns how many tuples the sender has sent so far. Any goroutine may call it.
func (s *Sender) Sent() uint64 {
	n := uint64(0)
	for _, t := range s.threads {
		n += t.sent.Load()
	}
	return n
}

// Start returns the counter at the schedule's beginning, and 0 before Run is called. Any goroutine
// may call it.
func (s *Sender) Start() uint64 { return s.start.Load() }

// Mark records a mark that a sink found. Any goroutine may call it.
func (s *Sender) Mark(mark Mark, text string) { s.marks.addMark(mark, 1, "%s", text) }

// leadTime_s is the time from the call of Run to the first due time. Threads prepare in this time.
const leadTime_s = 2e-3

// Run sends the tuples of the schedule. Then it closes each sink, which sends the end of the
// stream, and returns what became of the tuples. If ctx is cancelled, Run ends early and returns
// the numbers so far with the mark Interrupted. If a sink fails, Run returns the sink's error, and
// the numbers are still true.
func (s *Sender) Run(ctx context.Context) (SenderResult, error) {
	start := s.clock.Now() + uint64(leadTime_s*s.clock.Frequency_hz())
	s.start.Store(start)
	stop := context.AfterFunc(ctx, func() {
		for _, t := range s.threads {
			t.stopped.Store(true)
		}
	})
	defer stop()
	var wait sync.WaitGroup
	errs := make([]error, len(s.threads))
	for i, t := range s.threads {
		wait.Go(func() { errs[i] = t.run(start) })
	}
	wait.Wait()
	r := s.result(start, ctx.Err() != nil)
	return r, errors.Join(errs...)
}

func (s *Sender) result(start uint64, interrupted bool) SenderResult {
	hz := s.clock.Frequency_hz()
	r := SenderResult{SendLag: newLatencies(), Drops: s.drops}
	last := start
	for _, t := range s.threads {
		r.Scheduled += t.scheduled
		r.Sent += t.sent.Load()
		r.Skipped += t.skipped
		// The thread made the mark for its first skipped tuple at once. Add its other skipped
		// tuples to the mark now.
		s.marks.addMark(Behind, t.skipped-min(t.skipped, 1), "tuples were skipped")
		r.Unsent += t.unsent
		r.Lateness.add(t.late)
		r.BlockedSends += t.blockedSends
		r.Blocked += time.Duration(float64(t.blocked) / hz * 1e9)
		r.SendLag.Merge(t.lag)
		r.Ends = append(r.Ends, t.end())
		last = max(last, t.lastSent)
		s.marks.notLogged(t.notLogged)
	}
	r.Elapsed = time.Duration(float64(last-start) / hz * 1e9)
	span := r.Elapsed
	if s.o.Schedule != nil {
		r.IntendedRate = s.o.Schedule.Tuples() / s.o.Schedule.Duration().Seconds()
		span = max(span, s.o.Schedule.Duration())
	}
	if span > 0 {
		r.AchievedRate = float64(r.Sent) / span.Seconds()
	}
	if own := r.Stalled + r.Busy; own*100 > r.Sent && r.Sent > 0 && s.o.Schedule != nil {
		s.marks.addMark(Late, own,
			"%d of %d tuples were sent more than %s late by this machine itself: "+
				"the rate is too high for it, or it is busy with something else",
			own, r.Sent, s.o.LateAfter)
	}
	s.marks.addMark(Unsent, r.Unsent, "%d tuples were not sent at all", r.Unsent)
	if interrupted {
		s.marks.addMark(Interrupted, 1, "the run was interrupted")
	}
	r.Marks = s.marks.list()
	return r
}

// newLatencies makes a histogram of nanoseconds, up to ten minutes, with three significant digits.
func newLatencies() *hdrhistogram.Histogram { return hdrhistogram.New(1, longestLatency_ns, 3) }

const longestLatency_ns = int64(10 * time.Minute)

func record(h *hdrhistogram.Histogram, ns int64) {
	h.RecordValue(min(max(ns, 1), longestLatency_ns))
}
