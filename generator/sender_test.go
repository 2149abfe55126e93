package generator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// A fakeClock is a counter of 1 GHz that goes on by a step a look, and jumps where a thread waits. For one thread.
type fakeClock struct {
	now  uint64
	step uint64

	oversleep uint64 // by how much the next wait is too long
	pause     uint64 // how long the thread does not run, once it has looked at the clock after its next wait
	waits     bool
}

func (c *fakeClock) Now() uint64 {
	c.now += c.step
	now := c.now
	if c.waits && c.pause > 0 {
		c.now, c.pause = c.now+c.pause, 0
	}
	return now
}

func (c *fakeClock) Wait(until uint64) {
	c.now = max(c.now, until) + c.oversleep
	c.oversleep, c.waits = 0, true
}

func (c *fakeClock) Frequency_hz() float64 { return 1e9 }

// A takenTuple is when a sink was given one.
type takenTuple struct{ at, id uint64 }

// fakeSink takes what do allows, nil: everything.
type fakeSink struct {
	clock *fakeClock
	taken []takenTuple
	do    func(n int) (int, error)
	end   *End
	most  int // tuples in one offer
}

func (s *fakeSink) Send(tuples []Tuple) (int, error) {
	n, err := len(tuples), error(nil)
	s.most = max(s.most, n)
	if s.do != nil {
		n, err = s.do(n)
	}
	for _, t := range tuples[:max(n, 0)] {
		s.taken = append(s.taken, takenTuple{s.clock.now, t.ID})
	}
	return n, err
}

func (s *fakeSink) Close(e End) error { s.end = &e; return nil }

func newFakes() (*fakeClock, *fakeSink) {
	c := &fakeClock{now: 1e9, step: 20}
	return c, &fakeSink{clock: c}
}

func (o SenderOptions) run(t *testing.T, clock *fakeClock, sink Sink) (SenderResult, error) {
	t.Helper()
	o.Clock, o.IDs, o.Tuples = clock, testIDs, testTuples(t)
	o.Connect = func(int) (Sink, error) { return sink, nil }
	s, err := NewSender(o)
	if err != nil {
		t.Fatal(err)
	}
	return s.Run(t.Context())
}

func mustSchedule(t testing.TB, text string) Schedule {
	t.Helper()
	s, err := ParseSchedule(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// accounts holds a result against the rules that hold for every run.
func accounts(t *testing.T, r SenderResult, sink *fakeSink) {
	t.Helper()
	if r.Scheduled != r.Sent+r.Skipped+r.Unsent {
		t.Errorf("scheduled %d, but sent %d, skipped %d, unsent %d", r.Scheduled, r.Sent, r.Skipped, r.Unsent)
	}
	if l := r.Lateness; l.Late != l.Blocked+l.Stalled+l.Busy || l.CatchingUp > l.Late {
		t.Errorf("late tuples without one cause: %+v", l)
	}
	if r.Sent != uint64(len(sink.taken)) || sink.end == nil || sink.end.Sent != r.Sent {
		t.Errorf("sent %d, the sink has %d and the end %+v", r.Sent, len(sink.taken), sink.end)
	}
	for i, taken := range sink.taken {
		if want := sink.end.First + uint64(i); taken.id != want {
			t.Fatalf("tuple %d has id %d, want %d: ids follow each other", i, taken.id, want)
		}
	}
	if r.SendLag.TotalCount() != int64(r.Sent) {
		t.Errorf("%d lags of %d tuples", r.SendLag.TotalCount(), r.Sent)
	}
}

func TestSenderKeepsItsSchedule(t *testing.T) {
	clock, sink := newFakes()
	start := clock.now + clock.step + uint64(leadTime_s*1e9)
	// 3 million a second is a tuple each 333.33 ns: no integer of nanoseconds.
	r, err := SenderOptions{Schedule: mustSchedule(t, "constant:3000000x10ms")}.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	accounts(t, r, sink)
	if r.Sent != 30_000 || r.Late != 0 || len(r.Marks) > 0 {
		t.Errorf("sent %d, late %+v, marks %v", r.Sent, r.Lateness, r.Marks)
	}
	for k, taken := range sink.taken {
		due := float64(start) + float64(k)*1e9/3e6
		if lag := float64(taken.at) - due; lag < -0.51 || lag > 200 {
			t.Fatalf("tuple %d was sent %.1f ns after it was due", k, lag)
		}
	}
	if math.Abs(r.AchievedRate-3e6) > 1 || math.Abs(r.IntendedRate-3e6) > 1 {
		t.Errorf("rates %.1f of %.1f", r.AchievedRate, r.IntendedRate)
	}
}

// A thread that did not run for 20 ms may not throw 20 ms of tuples at the engine at once.
func TestSenderCatchesUpWithinBounds(t *testing.T) {
	clock, sink := newFakes()
	start := clock.now + clock.step + uint64(leadTime_s*1e9)
	sent := 0
	sink.do = func(n int) (int, error) {
		if sent += n; sent == 1000 {
			clock.now += 20e6 // the kernel runs something else
		}
		return n, nil
	}
	r, err := SenderOptions{Schedule: mustSchedule(t, "constant:1000000x100ms"), CatchUp: 2}.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	accounts(t, r, sink)
	if r.Sent != 100_000 || r.Skipped > 0 {
		t.Errorf("sent %d, skipped %d", r.Sent, r.Skipped)
	}
	// 20,000 tuples behind, of which 2,000 may come at once, it needs 18 ms more at twice the rate; the rest of the run is on time.
	if r.Late < 35_000 || r.Late > 40_000 || r.Lateness.Blocked > 0 {
		t.Errorf("late %+v, want about 38,000, none blocked", r.Lateness)
	}
	boundedCatchUp(t, sink, 1000, 2)
	if last := sink.taken[len(sink.taken)-1].at - start; last > 100e6+200 {
		t.Errorf("the last tuple was sent %d ns after the start: it did not catch up", last)
	}
	if own := r.Stalled + r.Busy; len(r.Marks) != 1 || r.Marks[0].Mark != Late || r.Marks[0].Count != own {
		t.Errorf("marks %v, want that %d were late by this machine's own doing", r.Marks, own)
	}
	if max := r.SendLag.Max(); max < 19.9e6 || max > 20.2e6 {
		t.Errorf("longest lag %d ns, want 20 ms: lateness is from when a tuple was due", max)
	}
}

func TestSenderCountsWhatTheEngineRefuses(t *testing.T) {
	clock, sink := newFakes()
	var notices []Notice
	refuse := uint64(0)
	sink.do = func(n int) (int, error) {
		switch {
		case len(sink.taken) == 2000 && refuse == 0:
			refuse = clock.now + 300e6
			return 0, nil
		case clock.now < refuse:
			return 0, nil
		}
		return n, nil
	}
	r, err := SenderOptions{Schedule: mustSchedule(t, "constant:10000x1s"), Notice: func(n Notice) { notices = append(notices, n) }}.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	accounts(t, r, sink)
	if r.Sent != 10_000 || r.BlockedSends != 1 || r.Blocked < 299*time.Millisecond || r.Blocked > 302*time.Millisecond {
		t.Errorf("sent %d, blocked %d times for %s, want once for 300 ms", r.Sent, r.BlockedSends, r.Blocked)
	}
	if r.Lateness.Blocked < 2900 || r.Lateness.Stalled > 0 {
		t.Errorf("late %+v, want the 3,000 that were due in it blocked", r.Lateness)
	}
	if len(notices) != 2 || notices[0].Mark != Blocked || len(r.Marks) != 1 || r.Marks[0].Mark != Late && r.Marks[0].Mark != Blocked {
		t.Errorf("notices %v, marks %v", notices, r.Marks)
	}
}

// fakePacer is a fakeSink that waits itself. takes says what sending tuple number n takes, and what a pacer notes of that.
type fakePacer struct {
	*fakeSink
	takes func(n int) (ns uint64, before uint64)
	next  uint64 // what to note with the next one
}

func (p *fakePacer) paces(Clock) bool { return true }

func (p *fakePacer) sendAt(tuples []Tuple, due []uint64, noted []paced, lateAfter uint64, hz float64) (int, error) {
	for i, tuple := range tuples {
		noted[i].before = p.next
		if p.clock.now < due[i] {
			p.clock.now, noted[i].before = due[i], waited
		}
		noted[i].sent = p.clock.now
		p.taken = append(p.taken, takenTuple{p.clock.now, tuple.ID})
		var ns uint64
		ns, p.next = p.takes(len(p.taken))
		p.clock.now += ns
	}
	noted[len(tuples)] = paced{p.clock.now, p.next}
	p.next = 0
	return len(tuples), nil
}

// What a pacer notes is what late tuples are late for, and the tuples that are due while it catches up have that cause, too.
func TestSenderAccountsForWhatAPacerNotes(t *testing.T) {
	for name, test := range map[string]struct {
		takes  uint64
		before uint64
		want   Lateness
	}{
		"paused":     {40_000, paused, Lateness{Late: 66, Stalled: 66, CatchingUp: 26}}, // due in its 40 µs, and in 26 after it, as a tuple takes half a µs and a few looks at the clock
		"slow":       {40_000, slow, Lateness{Late: 66, Busy: 66, CatchingUp: 26}},
		"not so bad": {9_000, 0, Lateness{}},
	} {
		clock, sink := newFakes()
		p := &fakePacer{fakeSink: sink, takes: func(n int) (uint64, uint64) {
			if n%1000 == 500 {
				return test.takes, test.before
			}
			return 500, 0
		}}
		sink.do = func(n int) (int, error) { clock.now += 500; return n, nil }
		r, err := SenderOptions{Schedule: mustSchedule(t, "constant:1000000x10ms")}.run(t, clock, p)
		if err != nil {
			t.Fatal(err)
		}
		accounts(t, r, sink)
		if got, want := r.Lateness, test.want; r.Sent != 10_000 || got.Stalled > 0 != (want.Stalled > 0) || got.Busy > 0 != (want.Busy > 0) ||
			got.Late < 9*want.Late || got.Late > 11*want.Late || got.CatchingUp < 8*want.CatchingUp || got.CatchingUp > 12*want.CatchingUp {
			t.Errorf("%s: sent %d, late %+v, want ten times %+v", name, r.Sent, got, want)
		}
	}
}

// A pause within the pacer is made good no faster than one without.
func TestPacerCatchesUpWithinBounds(t *testing.T) {
	clock, sink := newFakes()
	p := &fakePacer{fakeSink: sink, takes: func(n int) (uint64, uint64) {
		if n == 1000 {
			return 20e6, paused
		}
		return 50, 0
	}}
	r, err := SenderOptions{Schedule: mustSchedule(t, "constant:1000000x100ms"), CatchUp: 2}.run(t, clock, p)
	if err != nil {
		t.Fatal(err)
	}
	accounts(t, r, sink)
	if r.Sent != 100_000 || r.Late < 35_000 || r.Late > 40_000 || r.Stalled != r.Late || r.CatchingUp < 15_000 || r.CatchingUp > 20_000 {
		t.Errorf("sent %d, late %+v, want 38,000 that were not running, 18,000 of them later", r.Sent, r.Lateness)
	}
	boundedCatchUp(t, sink, 1000, 2)
}

// boundedCatchUp holds that in no 5 ms more was sent than a rate of one tuple a step allows, so many times, and as many milliseconds' worth at once.
func boundedCatchUp(t *testing.T, sink *fakeSink, step_ns, times int) {
	t.Helper()
	const window = 5_000_000 // ns
	for i, j := 0, 0; i < len(sink.taken); i++ {
		for sink.taken[i].at-sink.taken[j].at > window {
			j++
		}
		if n := i - j; n > times*window/step_ns+times*1_000_000/step_ns+100 {
			t.Fatalf("%d tuples within %d ns up to tuple %d: more than %d times the rate", n, window, i, times)
		}
	}
}

// Where and how a thread runs is as it was asked for, and it is refused before anything is sent.
func TestSenderKeepsToItsCore(t *testing.T) {
	core := ownCores(t)[0]
	o := SenderOptions{FlatOut: time.Minute, Limit: 10, IDs: testIDs, Tuples: testTuples(t), Cores: []int{core}, Realtime: true}
	var on unix.CPUSet
	var attr *unix.SchedAttr
	var errs error
	o.Connect = func(int) (Sink, error) {
		return SinkFunc(func(tuples []Tuple) (int, error) {
			var err error
			attr, err = unix.SchedGetAttr(0, 0)
			errs = errors.Join(errs, err, unix.SchedGetaffinity(0, &on))
			return len(tuples), nil
		}), nil
	}
	s, err := NewSender(o)
	if errors.Is(err, unix.EPERM) { // who may not is told so; the rest goes without
		o.Realtime = false
		s, err = NewSender(o)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context())
	if err = errors.Join(err, errs); err != nil || r.Sent != 10 {
		t.Fatal(r.Sent, err)
	}
	if on.Count() != 1 || !on.IsSet(core) || (attr.Policy == unix.SCHED_FIFO) != o.Realtime {
		t.Errorf("on %d cores, with policy %d; want core %d, real time: %v", on.Count(), attr.Policy, core, o.Realtime)
	}
	o.Cores = []int{core, 1 << 20}
	if _, err := NewSender(o); !errors.Is(err, ErrOptions) {
		t.Errorf("core %d: %v", 1<<20, err)
	}
}

// The kernel stops a real-time thread that does not sleep for 50 ms of each second. A sender that is at it all the time must not come to that, and one that
// sleeps has no need to give way.
func TestPrivilegedRealtimeIsNotStopped(t *testing.T) {
	privileged.Need(t)
	for _, c := range []struct {
		rate        float64
		least, most float64 // share of offers that found the thread first
	}{{100_000, 0.7, 0.97}, {200, 1, 1}} {
		// The kernel stops a thread that never yields in every try; other load does not.
		const tries = 3
		for try := 1; ; try++ {
			late, share := sendRealtime(t, c.rate)
			if late <= 10*time.Millisecond && share >= c.least && share <= c.most {
				break
			}
			t.Logf("%g a second: the last fiftieth was %s late or more, first on its core for "+
				"%.2f of the time, want at most 10 ms and %g to %g", c.rate, late, share, c.least, c.most)
			if try == tries {
				t.Errorf("%g a second: stopped, in %d tries", c.rate, tries)
				break
			}
		}
	}
}

// sendRealtime sends for three seconds, first on its core. It returns how late the last fiftieth
// was, and the share of offers that found the thread first. A thread that is stopped for 50 ms of
// each second sends a twentieth late, four fifths of these by more than 10 ms.
func sendRealtime(t *testing.T, rate float64) (late time.Duration, share float64) {
	may := ownCores(t)
	var offers, first int
	o := SenderOptions{Schedule: mustSchedule(t, fmt.Sprintf("constant:%gx3s", rate)), IDs: testIDs,
		Tuples: testTuples(t), Cores: may[len(may)-1:], Realtime: true}
	o.Connect = func(int) (Sink, error) {
		return SinkFunc(func(tuples []Tuple) (int, error) {
			if offers++; offers%10 == 0 {
				if attr, err := unix.SchedGetAttr(0, 0); err == nil && attr.Policy == unix.SCHED_FIFO {
					first++
				}
			}
			return len(tuples), nil
		}), nil
	}
	s, err := NewSender(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.SendLag.ValueAtQuantile(98)), float64(first) / float64(offers/10)
}

// ownCores are those that this process may use.
func ownCores(t *testing.T) (own []int) {
	t.Helper()
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	for core := 0; len(own) < may.Count(); core++ {
		if may.IsSet(core) {
			own = append(own, core)
		}
	}
	return own
}

func TestSenderSkipsWhatIsTooLate(t *testing.T) {
	clock, sink := newFakes()
	sink.do = func(n int) (int, error) { clock.now += 10_000; return n, nil } // 100,000 a second, and 1,000,000 wanted
	var notices []Notice
	r, err := SenderOptions{Schedule: mustSchedule(t, "constant:1000000x100ms"), GiveUp: 10 * time.Millisecond, Notice: func(n Notice) { notices = append(notices, n) }}.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	accounts(t, r, sink)
	if r.Skipped == 0 || r.Scheduled != 100_000 || r.AchievedRate > 110_000 || r.SendLag.Max() > 10.2e6 {
		t.Errorf("scheduled %d, skipped %d, rate %.0f, longest lag %d", r.Scheduled, r.Skipped, r.AchievedRate, r.SendLag.Max())
	}
	if len(notices) == 0 || notices[0].Mark != Behind {
		t.Errorf("notices %v, want behind first", notices)
	}
	for _, m := range r.Marks {
		if m.Mark == Behind && m.Count != r.Skipped {
			t.Errorf("marked %d times, skipped %d", m.Count, r.Skipped)
		}
	}
	if r.Busy == 0 || r.Stalled > r.Busy {
		t.Errorf("late %+v, want the thread busy", r.Lateness)
	}
}

func TestSenderGivesUpOnADeadEngine(t *testing.T) {
	clock, sink := newFakes()
	sink.do = func(n int) (int, error) {
		if len(sink.taken) >= 100 {
			return 0, nil
		}
		return n, nil
	}
	r, err := SenderOptions{Schedule: mustSchedule(t, "constant:1000x1s")}.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	accounts(t, r, sink)
	if r.Sent != 100 || r.Unsent == 0 || r.Scheduled != 1000 {
		t.Errorf("scheduled %d, sent %d, unsent %d, skipped %d", r.Scheduled, r.Sent, r.Unsent, r.Skipped)
	}
	if r.Blocked < 1850*time.Millisecond || r.Blocked > 1950*time.Millisecond { // from 100 ms on until a second after the end
		t.Errorf("blocked for %s, want 1.9 s", r.Blocked)
	}
	marks := map[Mark]bool{}
	for _, m := range r.Marks {
		marks[m.Mark] = true
	}
	if !marks[Blocked] || !marks[Unsent] {
		t.Errorf("marks %v", r.Marks)
	}
}

var errEngine = errors.New("engine is closed")

// Ids that were given out and not sent are the next to be sent: a receiver would take them for lost.
func TestSenderKeepsIDsThatItDidNotSend(t *testing.T) {
	clock, sink := newFakes()
	sink.do = func(n int) (int, error) {
		if len(sink.taken)+n > 100 {
			return 3, errEngine
		}
		return n, nil
	}
	o := SenderOptions{Schedule: mustSchedule(t, "burst:8/10msx1s"), Batch: 8, Clock: clock, IDs: testIDs, Tuples: testTuples(t), Connect: func(int) (Sink, error) { return sink, nil }}
	s, err := NewSender(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context())
	if !errors.Is(err, errEngine) || r.Sent != 96 || r.Scheduled != r.Sent+r.Unsent {
		t.Fatalf("%+v, %v", r, err)
	}
	spare := s.threads[0].spare
	if len(spare) != 8 || spare[0] != r.Ends[0].First+96 || spare[7] != spare[0]+7 {
		t.Errorf("spare ids %d after %d sent from %d on", spare, r.Sent, r.Ends[0].First)
	}
}

func TestSenderEndsWithItsSink(t *testing.T) {
	for name, do := range map[string]func(int) (int, error){
		"an error":       func(int) (int, error) { return 0, errEngine },
		"takes too many": func(n int) (int, error) { return n + 1, nil },
	} {
		clock, sink := newFakes()
		count := 0
		sink.do = func(n int) (int, error) {
			if count++; count > 5 {
				k, err := do(n)
				if k > n {
					return k - 1, errors.New("as if it had taken more")
				}
				return k, err
			}
			return n, nil
		}
		r, err := SenderOptions{Schedule: mustSchedule(t, "constant:1000x1s"), Batch: 1}.run(t, clock, sink)
		if err == nil || r.Sent != 5 || r.Scheduled != r.Sent+r.Skipped+r.Unsent {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestSenderSendsTogetherOnlyWhatIsDue(t *testing.T) {
	clock, sink := newFakes()
	r, err := SenderOptions{Schedule: mustSchedule(t, "burst:50/10msx100ms"), Batch: 16}.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	accounts(t, r, sink)
	if r.Sent != 500 || sink.most != 16 {
		t.Errorf("sent %d, at most %d together, want 500 and 16", r.Sent, sink.most)
	}
	clock, sink = newFakes()
	if _, err := (SenderOptions{Schedule: mustSchedule(t, "constant:1000x100ms"), Batch: 16}).run(t, clock, sink); err != nil || sink.most != 1 {
		t.Errorf("%d together, %v: a tuple waited for others", sink.most, err)
	}
}

func TestSenderIsInterrupted(t *testing.T) {
	clock, sink := newFakes()
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan struct{})
	sink.do = func(n int) (int, error) {
		if len(sink.taken) == 10 {
			cancel()
			close(sent)
			time.Sleep(20 * time.Millisecond) // the word to stop comes from another goroutine
		}
		return n, nil
	}
	o := SenderOptions{Schedule: mustSchedule(t, "constant:1000x1h"), Clock: clock, IDs: testIDs, Tuples: testTuples(t), Connect: func(int) (Sink, error) { return sink, nil }}
	s, err := NewSender(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(ctx)
	<-sent
	if err != nil || r.Sent < 10 || r.Sent == 3_600_000 || sink.end == nil || !has(r.Marks, Interrupted) {
		t.Errorf("sent %d, %v", r.Sent, err)
	}
	accounts(t, r, sink)
}

// What put a thread behind is told apart, also where one cause follows the other.
func TestLateTuplesHaveTheirCause(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(c *fakeClock)
		want    Lateness
	}{
		"woken up late": {func(c *fakeClock) { c.oversleep = 100_000 }, Lateness{Late: 10, Stalled: 10}},
		"not running":   {func(c *fakeClock) { c.waits, c.pause = false, 100_000 }, Lateness{Late: 10, Stalled: 10}},
		"sending":       {func(c *fakeClock) { c.now += 100_000 }, Lateness{Late: 10, Busy: 10}},
	} {
		clock, sink := newFakes()
		refused := false
		sink.do = func(n int) (int, error) {
			switch len(sink.taken) {
			case 200:
				if !refused {
					refused, clock.now = true, clock.now+100_000
					return 0, nil
				}
			case 600:
				test.happens(clock)
			}
			return n, nil
		}
		r, err := SenderOptions{Schedule: mustSchedule(t, "constant:100000x10ms")}.run(t, clock, sink)
		if err != nil {
			t.Fatal(err)
		}
		accounts(t, r, sink)
		got, want := r.Lateness, test.want
		if got.Blocked < 8 || got.Blocked > 14 || got.Stalled+got.Busy < 8 || got.Stalled+got.Busy > 14 || got.Stalled > 0 != (want.Stalled > 0) || got.Busy > 0 != (want.Busy > 0) {
			t.Errorf("%s: late %+v, want about ten blocked, and %+v", name, got, want)
		}
	}
}

// A slowSink takes long for one tuple, after it has it.
type slowSink struct{ *fakeSink }

func (s slowSink) Send(tuples []Tuple) (int, error) {
	n, err := s.fakeSink.Send(tuples)
	if len(s.taken) == 500 {
		s.clock.now += 55_000
	}
	return n, err
}

// What the channels hold: when each tuple was due, and when it was sent. What is counted as late is what they show. With either way of sending.
func TestSenderLogsIntendedAndActualTimes(t *testing.T) {
	for _, way := range []string{"sink", "pacer"} {
		for _, lateAfter := range []time.Duration{10 * time.Microsecond, 30 * time.Microsecond} {
			clock, sink := newFakes()
			var to Sink = slowSink{sink}
			if way == "pacer" {
				to = &fakePacer{fakeSink: sink, takes: func(n int) (uint64, uint64) {
					if n == 500 {
						return 55_000, slow
					}
					return 500, 0
				}}
			}
			dir := t.TempDir()
			start := clock.now + clock.step + uint64(leadTime_s*1e9)
			r, err := SenderOptions{Schedule: mustSchedule(t, "constant:100000x10ms"), LateAfter: lateAfter, Log: &handlers.Options{Dir: dir, Policy: "overwrite"}}.run(t, clock, to)
			if err != nil || r.Drops != "" {
				t.Fatal(err, r.Drops)
			}
			accounts(t, r, sink)
			records := ringsIn(t, dir)
			intended, sent := records["generator#0/intended"], records["generator#0/send"]
			if len(intended) != 1000 || len(sent) != 1000 || len(records) != 2 {
				t.Fatalf("%s: %d and %d records in %d channels, want 1000 each", way, len(intended), len(sent), len(records))
			}
			late, worst := uint64(0), uint64(0)
			for k, taken := range sink.taken {
				due := start + uint64(k)*10_000
				if intended[k] != (ring.Record{Counter: due, ID: taken.id}) || sent[k] != (ring.Record{Counter: taken.at, ID: taken.id}) {
					t.Fatalf("%s: tuple %d was due at %d and sent at %d as %d; the channels have %+v and %+v", way, k, due, taken.at, taken.id, intended[k], sent[k])
				}
				if lag := taken.at - min(taken.at, due); lag > uint64(lateAfter) {
					late++
					worst = max(worst, lag)
				}
			}
			if r.Late != late || late < 2 || math.Abs(float64(r.SendLag.Max())-float64(worst)) > 100 {
				t.Errorf("%s: %d late, at most by %d ns; the channels show %d later than %s, at most by %d", way, r.Late, r.SendLag.Max(), late, lateAfter, worst)
			}
		}
	}
}

// ringsIn reads what channels without a drainer hold.
func ringsIn(t *testing.T, dir string) map[string][]ring.Record {
	t.Helper()
	files, err := ring.Files(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]ring.Record{}
	for _, file := range files {
		reader, err := ring.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		buffer := make([]ring.Record, reader.Header().Records)
		_, n, _, err := reader.Copy(0, 0, buffer)
		if err != nil {
			t.Fatal(err)
		}
		all[reader.Header().Name.String()] = buffer[:n]
	}
	return all
}

func TestNewSenderRefuses(t *testing.T) {
	good := SenderOptions{Schedule: mustSchedule(t, "constant:1x1s"), Tuples: testTuples(t), IDs: testIDs, Connect: func(int) (Sink, error) { return Discard{}, nil }}
	for name, spoil := range map[string]func(*SenderOptions){
		"no schedule": func(o *SenderOptions) { o.Schedule = nil }, "both": func(o *SenderOptions) { o.FlatOut = 1 },
		"no tuples": func(o *SenderOptions) { o.Tuples = &Tuples{} }, "threads": func(o *SenderOptions) { o.Threads = 1000 },
		"batch": func(o *SenderOptions) { o.Batch = -1 }, "catch up": func(o *SenderOptions) { o.CatchUp = 0.5 },
		"nowhere": func(o *SenderOptions) { o.Connect = nil },
		"connect": func(o *SenderOptions) { o.Connect = func(int) (Sink, error) { return nil, errEngine } },
	} {
		o := good
		spoil(&o)
		if _, err := NewSender(o); err == nil || !strings.HasPrefix(err.Error(), "send: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPoisonIsTheChannels(t *testing.T) {
	if Poison != channel.Poison {
		t.Errorf("poison %d, package channel's is %d", Poison, channel.Poison)
	}
	if id, err := channel.NewID(1, 1, channel.MaxCount); err != nil || id>>countBits != 1<<10|1 {
		t.Errorf("id %x, %v: the count has %d bits", id, err, countBits)
	}
}
