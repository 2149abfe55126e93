package generator

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// A fakeClock is a counter of 1 GHz for one thread. Each look advances it by a step. A wait
// advances it to the wait's end.
type fakeClock struct {
	now  uint64
	step uint64

	oversleep uint64 // by how much the next wait is too long
	pause     uint64 // how long the thread stops after its next wait and one look
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

// A takenTuple is a tuple that a sink took, and the reading of the clock at which the sink took it.
type takenTuple struct{ at, id uint64 }

// fakeSink calls its function, the field do, with the number of tuples that are offered. The
// function returns how many of them fakeSink takes. If do is nil, fakeSink takes all.
type fakeSink struct {
	clock *fakeClock
	taken []takenTuple
	do    func(n int) (int, error)
	end   *End
	most  int // largest number of tuples in one offer
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

// checkAccounts checks a result against the rules that hold for every run.
func checkAccounts(t *testing.T, r SenderResult, sink *fakeSink) {
	t.Helper()
	if r.Scheduled != r.Sent+r.Skipped+r.Unsent {
		t.Errorf("scheduled %d, but sent %d, skipped %d, unsent %d",
			r.Scheduled, r.Sent, r.Skipped, r.Unsent)
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
	// At 3 million a second, tuples are 333.33 ns apart, which is no whole number of nanoseconds.
	r, err := SenderOptions{Schedule: mustSchedule(t, "constant:3000000x10ms")}.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	checkAccounts(t, r, sink)
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
	r, err := SenderOptions{
		Schedule: mustSchedule(t, "constant:10000x1s"),
		Notice:   func(n Notice) { notices = append(notices, n) },
	}.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	checkAccounts(t, r, sink)
	if r.Sent != 10_000 || r.BlockedSends != 1 || r.Blocked < 299*time.Millisecond ||
		r.Blocked > 302*time.Millisecond {
		t.Errorf("sent %d, blocked %d times for %s, want once for 300 ms",
			r.Sent, r.BlockedSends, r.Blocked)
	}
	if r.Lateness.Blocked < 2900 || r.Lateness.Stalled > 0 {
		t.Errorf("late %+v, want the 3,000 that were due in it blocked", r.Lateness)
	}
	if len(notices) != 2 || notices[0].Mark != Blocked || len(r.Marks) != 1 ||
		r.Marks[0].Mark != Late && r.Marks[0].Mark != Blocked {
		t.Errorf("notices %v, marks %v", notices, r.Marks)
	}
}

func TestSenderSkipsWhatIsTooLate(t *testing.T) {
	clock, sink := newFakes()
	// The sink takes 100,000 tuples a second, and 1,000,000 are due.
	sink.do = func(n int) (int, error) { clock.now += 10_000; return n, nil }
	var notices []Notice
	r, err := SenderOptions{
		Schedule: mustSchedule(t, "constant:1000000x100ms"), GiveUp: 10 * time.Millisecond,
		Notice: func(n Notice) { notices = append(notices, n) },
	}.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	checkAccounts(t, r, sink)
	if r.Skipped == 0 || r.Scheduled != 100_000 || r.AchievedRate > 110_000 ||
		r.SendLag.Max() > 10.2e6 {
		t.Errorf("scheduled %d, skipped %d, rate %.0f, longest lag %d",
			r.Scheduled, r.Skipped, r.AchievedRate, r.SendLag.Max())
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
	checkAccounts(t, r, sink)
	if r.Sent != 100 || r.Unsent == 0 || r.Scheduled != 1000 {
		t.Errorf("scheduled %d, sent %d, unsent %d, skipped %d",
			r.Scheduled, r.Sent, r.Unsent, r.Skipped)
	}
	// The sender is blocked from 100 ms until a second after the schedule's end.
	if r.Blocked < 1850*time.Millisecond || r.Blocked > 1950*time.Millisecond {
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

// If a tuple is not sent, its id is used for the next tuple. Otherwise a receiver would count it as
// lost.
func TestSenderKeepsIDsThatItDidNotSend(t *testing.T) {
	clock, sink := newFakes()
	sink.do = func(n int) (int, error) {
		if len(sink.taken)+n > 100 {
			return 3, errEngine
		}
		return n, nil
	}
	o := SenderOptions{
		Schedule: mustSchedule(t, "burst:8/10msx1s"), Batch: 8, Clock: clock, IDs: testIDs,
		Tuples: testTuples(t), Connect: func(int) (Sink, error) { return sink, nil },
	}
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
		o := SenderOptions{Schedule: mustSchedule(t, "constant:1000x1s"), Batch: 1}
		r, err := o.run(t, clock, sink)
		if err == nil || r.Sent != 5 || r.Scheduled != r.Sent+r.Skipped+r.Unsent {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestSenderSendsTogetherOnlyWhatIsDue(t *testing.T) {
	clock, sink := newFakes()
	o := SenderOptions{Schedule: mustSchedule(t, "burst:50/10msx100ms"), Batch: 16}
	r, err := o.run(t, clock, sink)
	if err != nil {
		t.Fatal(err)
	}
	checkAccounts(t, r, sink)
	if r.Sent != 500 || sink.most != 16 {
		t.Errorf("sent %d, at most %d together, want 500 and 16", r.Sent, sink.most)
	}
	clock, sink = newFakes()
	o = SenderOptions{Schedule: mustSchedule(t, "constant:1000x100ms"), Batch: 16}
	if _, err := o.run(t, clock, sink); err != nil || sink.most != 1 {
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
			time.Sleep(20 * time.Millisecond) // another goroutine tells the thread to stop
		}
		return n, nil
	}
	o := SenderOptions{
		Schedule: mustSchedule(t, "constant:1000x1h"), Clock: clock, IDs: testIDs,
		Tuples: testTuples(t), Connect: func(int) (Sink, error) { return sink, nil },
	}
	s, err := NewSender(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(ctx)
	<-sent
	if err != nil || r.Sent < 10 || r.Sent == 3_600_000 || sink.end == nil ||
		!has(r.Marks, Interrupted) {
		t.Errorf("sent %d, %v", r.Sent, err)
	}
	checkAccounts(t, r, sink)
}

// A slowSink is slow to return after it has taken tuple 500.
type slowSink struct{ *fakeSink }

func (s slowSink) Send(tuples []Tuple) (int, error) {
	n, err := s.fakeSink.Send(tuples)
	if len(s.taken) == 500 {
		s.clock.now += 55_000
	}
	return n, err
}

// The channels contain when each tuple was due and when it was sent, with and without a pacer. The
// counts of late tuples agree with these times.
func TestSenderLogsIntendedAndActualTimes(t *testing.T) {
	for _, way := range []string{"sink", "pacer"} {
		for _, lateAfter := range []time.Duration{10 * time.Microsecond, 30 * time.Microsecond} {
			clock, sink := newFakes()
			var to Sink = slowSink{sink}
			if way == "pacer" {
				to = &fakePacer{fakeSink: sink, takes: func(n int) (uint64, uint64) {
					if n == 500 {
						return 55_000, slowBit
					}
					return 500, 0
				}}
			}
			dir := t.TempDir()
			start := clock.now + clock.step + uint64(leadTime_s*1e9)
			r, err := SenderOptions{
				Schedule: mustSchedule(t, "constant:100000x10ms"), LateAfter: lateAfter,
				Log: &handlers.Options{Dir: dir, Policy: "overwrite"},
			}.run(t, clock, to)
			if err != nil || r.Drops != "" {
				t.Fatal(err, r.Drops)
			}
			checkAccounts(t, r, sink)
			records := ringsIn(t, dir)
			intended, sent := records["generator#0/intended"], records["generator#0/send"]
			if len(intended) != 1000 || len(sent) != 1000 || len(records) != 2 {
				t.Fatalf("%s: %d and %d records in %d channels, want 1000 each",
					way, len(intended), len(sent), len(records))
			}
			late, worst := uint64(0), uint64(0)
			for k, taken := range sink.taken {
				due := start + uint64(k)*10_000
				if intended[k] != (ring.Record{Counter: due, ID: taken.id}) ||
					sent[k] != (ring.Record{Counter: taken.at, ID: taken.id}) {
					t.Fatalf("%s: tuple %d was due at %d and sent at %d as %d; "+
						"the channels have %+v and %+v",
						way, k, due, taken.at, taken.id, intended[k], sent[k])
				}
				if lag := taken.at - min(taken.at, due); lag > uint64(lateAfter) {
					late++
					worst = max(worst, lag)
				}
			}
			if r.Late != late || late < 2 ||
				math.Abs(float64(r.SendLag.Max())-float64(worst)) > 100 {
				t.Errorf("%s: %d late, at most by %d ns; "+
					"the channels show %d later than %s, at most by %d",
					way, r.Late, r.SendLag.Max(), late, lateAfter, worst)
			}
		}
	}
}

// ringsIn reads the records of channels that nobody drains.
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
	good := SenderOptions{
		Schedule: mustSchedule(t, "constant:1x1s"), Tuples: testTuples(t), IDs: testIDs,
		Connect: intoNothing,
	}
	for name, spoil := range map[string]func(*SenderOptions){
		"no schedule": func(o *SenderOptions) { o.Schedule = nil },
		"both":        func(o *SenderOptions) { o.FlatOut = 1 },
		"no tuples":   func(o *SenderOptions) { o.Tuples = &Tuples{} },
		"threads":     func(o *SenderOptions) { o.Threads = 1000 },
		"batch":       func(o *SenderOptions) { o.Batch = -1 },
		"catch up":    func(o *SenderOptions) { o.CatchUp = 0.5 },
		"nowhere":     func(o *SenderOptions) { o.Connect = nil },
		"connect": func(o *SenderOptions) {
			o.Connect = func(int) (Sink, error) { return nil, errEngine }
		},
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
