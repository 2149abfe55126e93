package generator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

// fakePacer is a fakeSink that waits until tuples are due. It calls its field takes, which is a
// function, after it has sent tuple number n. This function returns how long that sending lasts,
// and the bits that the pacer notes in pacingNote.before with the next tuple.
type fakePacer struct {
	*fakeSink
	takes func(n int) (ns uint64, before uint64)
	next  uint64 // the bits to note with the next tuple
}

func (p *fakePacer) canPace(Clock) bool { return true }

func (p *fakePacer) sendAt(
	tuples []Tuple, due []uint64, noted []pacingNote, lateAfter uint64, hz float64,
) (int, error) {
	for i, tuple := range tuples {
		noted[i].before = p.next
		if p.clock.now < due[i] {
			p.clock.now, noted[i].before = due[i], waitedBit
		}
		noted[i].sent = p.clock.now
		p.taken = append(p.taken, takenTuple{p.clock.now, tuple.ID})
		var ns uint64
		ns, p.next = p.takes(len(p.taken))
		p.clock.now += ns
	}
	noted[len(tuples)] = pacingNote{p.clock.now, p.next}
	p.next = 0
	return len(tuples), nil
}

// A late tuple is counted under the cause that the pacer notes. Tuples that become due while the
// sender catches up are counted under the same cause.
func TestSenderAccountsForWhatAPacerNotes(t *testing.T) {
	for name, test := range map[string]struct {
		takes  uint64
		before uint64
		want   Lateness
	}{
		// 40 tuples become due in the 40 µs that the cause lasts. Another 26 tuples become due
		// before the sender has caught up, because sending a tuple takes 0.5 µs, and reading the
		// fake clock takes time, too.
		"paused":     {40_000, pausedBit, Lateness{Late: 66, Stalled: 66, CatchingUp: 26}},
		"slow":       {40_000, slowBit, Lateness{Late: 66, Busy: 66, CatchingUp: 26}},
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
		checkAccounts(t, r, sink)
		got, want := r.Lateness, test.want
		sameCause := got.Stalled > 0 == (want.Stalled > 0) && got.Busy > 0 == (want.Busy > 0)
		if r.Sent != 10_000 || !sameCause ||
			got.Late < 9*want.Late || got.Late > 11*want.Late ||
			got.CatchingUp < 8*want.CatchingUp || got.CatchingUp > 12*want.CatchingUp {
			t.Errorf("%s: sent %d, late %+v, want ten times %+v", name, r.Sent, got, want)
		}
	}
}

// After a pause within the pacer, the sender catches up no faster than after any other pause.
func TestPacerCatchesUpWithinBounds(t *testing.T) {
	clock, sink := newFakes()
	p := &fakePacer{fakeSink: sink, takes: func(n int) (uint64, uint64) {
		if n == 1000 {
			return 20e6, pausedBit
		}
		return 50, 0
	}}
	o := SenderOptions{Schedule: mustSchedule(t, "constant:1000000x100ms"), CatchUp: 2}
	r, err := o.run(t, clock, p)
	if err != nil {
		t.Fatal(err)
	}
	checkAccounts(t, r, sink)
	if r.Sent != 100_000 || r.Late < 35_000 || r.Late > 40_000 || r.Stalled != r.Late ||
		r.CatchingUp < 15_000 || r.CatchingUp > 20_000 {
		t.Errorf("sent %d, late %+v, want 38,000 that were not running, 18,000 of them later",
			r.Sent, r.Lateness)
	}
	boundedCatchUp(t, sink, 1000, 2)
}

// boundedCatchUp checks that tuples are sent no faster than CatchUp allows. One tuple is due every
// step_ns. The argument times is the value of CatchUp. Let n be the number of tuples that are due
// in 5 ms. In any 5 ms, the sender may send n·times tuples, and in addition one burst of n·times/5
// tuples.
func boundedCatchUp(t *testing.T, sink *fakeSink, step_ns, times int) {
	t.Helper()
	const window = 5_000_000 // in ns
	for i, j := 0, 0; i < len(sink.taken); i++ {
		for sink.taken[i].at-sink.taken[j].at > window {
			j++
		}
		if n := i - j; n > times*window/step_ns+times*1_000_000/step_ns+100 {
			t.Fatalf("%d tuples within %d ns up to tuple %d: more than %d times the rate",
				n, window, i, times)
		}
	}
}

// A thread runs on the core and with the priority that was asked for. If that is impossible,
// NewSender fails before anything is sent.
func TestSenderKeepsToItsCore(t *testing.T) {
	core := ownCores(t)[0]
	o := SenderOptions{
		FlatOut: time.Minute, Limit: 10, IDs: testIDs, Tuples: testTuples(t), Cores: []int{core},
		Realtime: true,
	}
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
	if errors.Is(err, unix.EPERM) { // this user may not use real-time priority: test the rest
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
		t.Errorf("on %d cores, with policy %d; want core %d, real time: %v",
			on.Count(), attr.Policy, core, o.Realtime)
	}
	o.Cores = []int{core, 1 << 20}
	if _, err := NewSender(o); !errors.Is(err, ErrOptions) {
		t.Errorf("core %d: %v", 1<<20, err)
	}
}

// If a real-time thread never sleeps, the kernel stops it for 50 ms of each second. A sender that
// is always busy must avoid that. A sender that sleeps need not give up its priority.
func TestPrivilegedRealtimeIsNotStopped(t *testing.T) {
	privileged.Need(t)
	for _, c := range []struct {
		rate        float64
		least, most float64 // share of offers that the thread made with priority
	}{{100_000, 0.7, 0.97}, {200, 1, 1}} {
		// Other load on the machine may delay the thread in one try, but hardly in all of them. A
		// thread that never gave up its priority would be stopped in every try.
		const tries = 3
		for try := 1; ; try++ {
			late, share := sendRealtime(t, c.rate)
			if late <= 10*time.Millisecond && share >= c.least && share <= c.most {
				break
			}
			t.Logf("%g a second: the last fiftieth was %s late or more, first on its core for "+
				"%.2f of the time, want at most 10 ms and %g to %g",
				c.rate, late, share, c.least, c.most)
			if try == tries {
				t.Errorf("%g a second: stopped, in %d tries", c.rate, tries)
				break
			}
		}
	}
}

// sendRealtime sends for three seconds with priority on its core. The first result is the delay
// that a fiftieth of the tuples reached or exceeded. The second result is the share of the calls of
// Send that the thread made with priority. If the kernel stops a thread for 50 ms of each second,
// the thread sends a twentieth of its tuples late, and four fifths of these by more than 10 ms.
func sendRealtime(t *testing.T, rate float64) (late time.Duration, share float64) {
	may := ownCores(t)
	var offers, first int
	o := SenderOptions{
		Schedule: mustSchedule(t, fmt.Sprintf("constant:%gx3s", rate)),
		IDs:      testIDs,
		Tuples:   testTuples(t),
		Cores:    may[len(may)-1:],
		Realtime: true,
	}
	o.Connect = func(int) (Sink, error) {
		return SinkFunc(func(tuples []Tuple) (int, error) {
			if offers++; offers%10 == 0 {
				attr, err := unix.SchedGetAttr(0, 0)
				if err == nil && attr.Policy == unix.SCHED_FIFO {
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

// ownCores returns the cores that this process may use.
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

// If a thread did not run for 20 ms, it may not send the tuples of 20 ms to the engine at once.
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
	o := SenderOptions{Schedule: mustSchedule(t, "constant:1000000x100ms"), CatchUp: 2}
	r, err := o.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	checkAccounts(t, r, sink)
	if r.Sent != 100_000 || r.Skipped > 0 {
		t.Errorf("sent %d, skipped %d", r.Sent, r.Skipped)
	}
	// The sender is 20,000 tuples behind, and may send 2,000 of them at once. It catches up at
	// twice the rate, so it needs 18 ms for the rest. Then it is on time.
	if r.Late < 35_000 || r.Late > 40_000 || r.Lateness.Blocked > 0 {
		t.Errorf("late %+v, want about 38,000, none blocked", r.Lateness)
	}
	boundedCatchUp(t, sink, 1000, 2)
	if last := sink.taken[len(sink.taken)-1].at - start; last > 100e6+200 {
		t.Errorf("the last tuple was sent %d ns after the start: it did not catch up", last)
	}
	own := r.Stalled + r.Busy
	if len(r.Marks) != 1 || r.Marks[0].Mark != Late || r.Marks[0].Count != own {
		t.Errorf("marks %v, want one that %d were sent late by this machine", r.Marks, own)
	}
	if max := r.SendLag.Max(); max < 19.9e6 || max > 20.2e6 {
		t.Errorf("longest lag %d ns, want 20 ms: lateness is from when a tuple was due", max)
	}
}

// Each late tuple has its own cause, even if one cause follows another.
func TestLateTuplesHaveTheirCause(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(c *fakeClock)
		want    Lateness
	}{
		"woken up late": {
			func(c *fakeClock) { c.oversleep = 100_000 },
			Lateness{Late: 10, Stalled: 10},
		},
		"not running": {
			func(c *fakeClock) { c.waits, c.pause = false, 100_000 },
			Lateness{Late: 10, Stalled: 10},
		},
		"sending": {
			func(c *fakeClock) { c.now += 100_000 },
			Lateness{Late: 10, Busy: 10},
		},
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
		o := SenderOptions{Schedule: mustSchedule(t, "constant:100000x10ms")}
		r, err := o.run(t, clock, sink)
		if err != nil {
			t.Fatal(err)
		}
		checkAccounts(t, r, sink)
		got, want := r.Lateness, test.want
		own := got.Stalled + got.Busy
		if got.Blocked < 8 || got.Blocked > 14 || own < 8 || own > 14 ||
			got.Stalled > 0 != (want.Stalled > 0) || got.Busy > 0 != (want.Busy > 0) {
			t.Errorf("%s: late %+v, want about ten blocked, and %+v", name, got, want)
		}
	}
}
