package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// plan says how much to measure.
type plan struct {
	Pairs int `json:"pairs"`      // a pair is a stretch with channels, and one without
	Null  int `json:"null_pairs"` // a pair is a stretch with channels that discard, and one without

	// Stretch is the length of a stretch in processor time, and not in elapsed time. So a stretch
	// contains the same amount of work, no matter how busy the machine is.
	Stretch time.Duration `json:"stretch_ns"`

	Rate       float64 `json:"rate"`       // tuples a second; 0: as fast as the job takes them
	Processors int     `json:"processors"` // 0: as Go chooses

	// Drainer is the command line that starts a process that drains. The measurement appends the
	// directories of the rings and of the logs to the command line.
	Drainer []string `json:"-"`
}

// stillFor is a limit. If the job does nothing at all for this time, a stretch stops waiting, and
// the measurement fails.
const stillFor = 10 * time.Second

// stretchWork is what this process did in one stretch.
type stretchWork struct {
	cpu, wall time.Duration
	messages  uint64 // messages that instances received: the work that was done
}

// figures are the results of all stretches.
type figures struct {
	Plan plan      `json:"plan"`
	Full extraTime `json:"full"` // every event is kept, and drained by another process
	Null extraTime `json:"null"` // the handler discards

	// These are medians over the stretches in which the channels are off: CPU time per tuple, and
	// tuples per second.
	OffCPU_us    float64 `json:"off_cpu_us"`
	OffPerSecond float64 `json:"off_per_second"`

	Tuples         uint64  `json:"tuples"`
	EventsPerTuple float64 `json:"events_per_tuple"` // number of log calls for a tuple
	Call_ns        float64 `json:"call_ns"`          // cost of a log call, in a loop
	NilCall_ns     float64 `json:"nil_call_ns"`      // cost of a call of a nil Channel, in a loop
	Computed       float64 `json:"computed_percent"` // share of the log calls in the CPU time
	Drainer        float64 `json:"drainer_percent"`  // CPU time of the drainer, in % of the job's
}

// extraTime is how much more time the stretches with channels took, in percent.
type extraTime struct {
	CPU  interval `json:"cpu_percent"`  // CPU time for the same work
	Wall interval `json:"wall_percent"` // time for the same work: the loss of throughput
}

// measurement is the state of a running measurement. Two jobs are measured: the full job, whose
// channels keep events, and the null job, whose channels discard them.
type measurement struct {
	plan
	cluster   *job.Cluster
	placement *job.Placement
	dir       string
	progress  func(done, of int)
	done      int
}

// measure runs the job twice: with channels that keep every event, and with channels that discard.
// While a job runs, its channels are turned on and off.
func measure(
	ctx context.Context, p *job.Placement, what plan, progress func(done, of int),
) (f figures, err error) {
	f.Plan = what
	p.OnLoopback()
	p.Stream.Tuples, p.Stream.PerSecond = 1<<32, what.Rate
	m := measurement{plan: what, placement: p, progress: progress}
	if err := ring.MakeDirectory(ring.DefaultDirectory()); err != nil {
		return f, err
	}
	shared := filepath.Dir(ring.DefaultDirectory())
	if m.dir, err = os.MkdirTemp(shared, "adstream-overhead-"); err != nil {
		return f, fmt.Errorf("measure overhead: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(m.dir)) }()
	if m.cluster, err = job.StartCluster(p, ""); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, m.cluster.Close()) }()
	full, err := m.run(ctx, job.Full, what.Pairs)
	if err != nil {
		return f, err
	}
	null, err := m.run(ctx, job.Null, what.Null)
	if err != nil {
		return f, err
	}
	progress(m.done, m.done)
	f.Full, f.Null = compare(full.with, full.without), compare(null.with, null.without)
	f.Tuples, f.EventsPerTuple, f.Drainer = full.tuples, full.eventsPerTuple, full.drainer
	var cpu, perSecond []float64
	for _, s := range full.without {
		tuples := float64(s.messages) / full.messagesPerTuple
		cpu = append(cpu, float64(s.cpu.Nanoseconds())/1e3/tuples)
		perSecond = append(perSecond, tuples/s.wall.Seconds())
	}
	f.OffCPU_us, f.OffPerSecond = median(cpu), median(perSecond)
	return f, f.calls(m.dir)
}

// jobFigures is the result of one job.
type jobFigures struct {
	with, without    []stretchWork
	tuples           uint64
	messagesPerTuple float64
	eventsPerTuple   float64
	drainer          float64
}

var errMeasured = errors.New("measured")

// warmUp is the time for caches and connections to settle.
const warmUp = time.Second

func (m *measurement) run(
	ctx context.Context, how job.Instrumentation, pairs int,
) (t jobFigures, err error) {
	rings := filepath.Join(m.dir, string(how), "rings")
	d, err := startDrainer(m.Drainer, rings, filepath.Join(m.dir, string(how), "logs"))
	if err != nil {
		return t, err
	}
	defer d.kill()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var by job.Switch
	begun, measured := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(measured)
		select {
		case <-begun:
		case <-ctx.Done():
			return
		}
		err := pause(ctx, warmUp)
		if err == nil {
			err = m.takePairs(ctx, pairs, &by, &t)
		}
		if err == nil {
			by.Set(true)
			t.drainer, err = drainerShare(ctx, d)
		}
		if err == nil {
			err = errMeasured
		}
		cancel(err)
	}()
	o := job.Options{
		Name: "overhead-" + string(how), Instrumentation: how, Switch: &by,
		Begin: func() { close(begun) },
	}
	o.Channels.Dir = rings
	result, err := m.cluster.Run(ctx, o)
	cancel(err)
	<-measured
	if !errors.Is(err, errMeasured) {
		return t, err
	}
	t.tuples = result.Actors["deserialise#0"].Taken
	t.messagesPerTuple = float64(by.Messages()) / float64(t.tuples)
	t.eventsPerTuple = float64(eventsOf(result.Actors, m.Rate > 0)) / float64(t.tuples)
	drained, err := d.stop()
	if err == nil && (drained.Dropped > 0 || drained.Events == 0 && how == job.Full) {
		err = fmt.Errorf("measure overhead: %d events were kept and %d dropped: "+
			"the cost of keeping all is not known: measure again on a quiet machine",
			drained.Events, drained.Dropped)
	}
	return t, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// spend waits until this process has used up the given amount of processor time.
func spend(ctx context.Context, cpu time.Duration) error {
	for end := ownTime() + cpu; ownTime() < end; {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// takePairs measures pairs of stretches: in one stretch of a pair the channels are on, in the other
// they are off. Which of the two comes first alternates from pair to pair, so a slow change of the
// machine's speed affects both sides equally.
func (m *measurement) takePairs(ctx context.Context, pairs int, by *job.Switch,
	t *jobFigures) error {
	for i := range pairs {
		m.progress(m.done, m.Pairs+m.Null)
		m.done++
		for _, on := range []bool{i%2 == 0, i%2 != 0} {
			by.Set(on)
			// Each instance obeys the switch when its next message arrives. The time that is spent
			// here is enough for every instance to get a message.
			if err := spend(ctx, m.Stretch/20); err != nil {
				return err
			}
			wall, cpu, messages := time.Now(), ownTime(), by.Messages()
			var s stretchWork
			for s.messages == 0 { // other programs may occupy the machine for a whole stretch
				if s.wall > stillFor {
					return fmt.Errorf("measure overhead: the job has stood still for %s: "+
						"is the machine overloaded?", stillFor)
				}
				if err := spend(ctx, m.Stretch); err != nil {
					return err
				}
				s = stretchWork{ownTime() - cpu, time.Since(wall), by.Messages() - messages}
			}
			if on {
				t.with = append(t.with, s)
			} else {
				t.without = append(t.without, s)
			}
		}
	}
	return nil
}

// drainerShare measures the drainer's processor time in percent of the job's processor time, while
// every event is kept. When the measurement begins or ends, some events still wait in rings. The
// measurement is so long that these events do not matter.
func drainerShare(ctx context.Context, d *drainer) (percent float64, err error) {
	// The drainer gathers events for a second before it writes a block.
	if err := pause(ctx, 1500*time.Millisecond); err != nil {
		return 0, err
	}
	before, err := d.cpu()
	if err != nil {
		return 0, err
	}
	own := ownTime()
	if err := pause(ctx, 4*time.Second); err != nil {
		return 0, err
	}
	after, err := d.cpu()
	return 100 * float64(after-before) / float64(ownTime()-own), err
}

// eventsOf returns the number of log calls in all instances, whatever became of the events. There
// are two calls for each tuple that the source sent or another instance took, and two for each
// window. If the source has a rate, it makes one more call for each tuple. Each view that was
// counted adds one call, which links the view to its window.
func eventsOf(actors map[string]job.Counts, scheduled bool) uint64 {
	sum := 2 * actors["source#0"].Sent
	if scheduled {
		sum += actors["source#0"].Sent
	}
	for name, c := range actors {
		sum += 2 * c.Taken
		if strings.HasPrefix(name, "count#") {
			sum += c.Taken + 2*c.Sent
		}
	}
	return sum
}

func compare(with, without []stretchWork) extraTime {
	var cpu, wall []float64
	for i, w := range with {
		o := without[i]
		work := float64(o.messages) / float64(w.messages)
		cpu = append(cpu, math.Log(float64(w.cpu)/float64(o.cpu)*work))
		wall = append(wall, math.Log(float64(w.wall)/float64(o.wall)*work))
	}
	percent := func(log float64) float64 { return 100 * math.Expm1(log) }
	return extraTime{intervalOf(cpu).applyIncreasing(percent),
		intervalOf(wall).applyIncreasing(percent)}
}

// ownTime returns the processor time of this process: instances, servers and garbage collection.
func ownTime() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		panic(err) // these arguments cannot fail
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// calls measures what a log call costs in a loop. A call costs least in a loop, because everything
// that it needs is in the caches.
func (f *figures) calls(dir string) error {
	ch, err := handlers.Open("call#0/start", handlers.Options{
		Dir: filepath.Join(dir, "calls"), Policy: channel.Overwrite.String(),
	})
	if err != nil {
		return fmt.Errorf("measure overhead: %w", err)
	}
	defer ch.Close()
	var kept, empty []float64
	for range 99 {
		kept = append(kept, perCall(ch))
		empty = append(empty, perCall(nil))
	}
	f.Call_ns, f.NilCall_ns = median(kept), median(empty)
	f.Computed = 100 * f.EventsPerTuple * f.Call_ns / 1e3 / f.OffCPU_us
	return nil
}

// perCall returns the mean time of a log call in ns. It makes few calls, so that other programs
// seldom interrupt them.
func perCall(ch *handlers.Channel) float64 {
	const many = 10_000
	begin := time.Now()
	for i := range uint64(many) {
		ch.Log(i)
	}
	return float64(time.Since(begin).Nanoseconds()) / many
}
