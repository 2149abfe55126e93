package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// LogOptions say how long to measure log calls.
type LogOptions struct {
	Repetitions int           // smallest number of valid repetitions; at least 1
	Limit       time.Duration // after this time, no further repetition begins
	Dir         string        // where a directory for rings is made; "": in shared memory

	// Progress is called before each repetition and may be nil.
	Progress func(counted, disturbed int)
}

// LogResult is what log calls cost.
type LogResult struct {
	Counter_ns          float64 // cost of a bare RDTSCP, the base
	CounterUnordered_ns float64 // cost of a bare RDTSC, the base for unordered stamps
	Counted, Disturbed  int     // numbers of repetitions
	Rows                []LogRow
	Cold                []ColdRow
}

// LogRow is the cost of one kind of log call.
type LogRow struct {
	Name    string
	Base    string    // rdtscp or rdtsc
	Ratios  []float64 // relative to the base, one for each counted repetition
	NS      []float64 // time of a call
	Writers int
	Dropped uint64
	Absent  string // why the row was not measured
}

// logCase is a row to be measured.
type logCase struct {
	name    string
	options handlers.Options
	shared  bool
	writers int
	calls   uint64 // calls of each writer in a turn; they take a few milliseconds
}

// turnsPerRepetition is the number of turns in a repetition. In a turn every row is measured once,
// between two measurements of its base.
const turnsPerRepetition = 8

var logCases = []logCase{
	{name: "null", options: handlers.Options{Handler: "null"}, calls: 2_000_000},
	{name: "counter", options: handlers.Options{Handler: "counter"}, calls: 1_000_000},
	{name: "counter-multi", options: handlers.Options{Handler: "counter"}, shared: true,
		calls: 600_000},
	{name: "counter-multi-2", options: handlers.Options{Handler: "counter"}, shared: true,
		writers: 2, calls: 600_000},
	{name: "xoy-2-of-1024", calls: 1_000_000,
		options: handlers.Options{Handler: "xoy", Params: channel.Params{"x": 2, "y": 1024}}},
	{name: "downsample-1-of-1000", calls: 1_000_000,
		options: handlers.Options{Handler: "downsample", Params: channel.Params{"n": 1000}}},
	{name: "id", options: handlers.Options{Handler: "id"}, calls: 200_000},
	{name: "buffered", options: handlers.Options{Handler: "buffered"}, calls: 200_000},
	{name: "first-last", options: handlers.Options{Handler: "first-last"}, calls: 200_000},
	{name: "id-rdtsc", options: handlers.Options{Handler: "id", Stamp: "rdtsc"}, calls: 300_000},
	{name: "buffered-rdtsc", options: handlers.Options{Handler: "buffered", Stamp: "rdtsc"},
		calls: 300_000},
	{name: "shared-1", options: handlers.Options{Handler: "id"}, shared: true, writers: 1,
		calls: 100_000},
	{name: "shared-2", options: handlers.Options{Handler: "id"}, shared: true, writers: 2,
		calls: 100_000},
}

// Log measures every kind of log call against bare readings of the counter. It pins itself to one
// core.
func Log(ctx context.Context, o LogOptions) (LogResult, error) {
	own, err := host.AllowedCores()
	if err != nil {
		return LogResult{}, err
	}
	home := own[len(own)-1]
	unpin, err := pinToCore(home)
	if err != nil {
		return LogResult{}, err
	}
	defer unpin()
	// In a directory of their own, no agent of this machine drains the rings.
	rings, err := os.MkdirTemp(ringParent(o.Dir), "cloudprofiler-bench")
	if err != nil {
		return LogResult{}, err
	}
	defer os.RemoveAll(rings)

	var result LogResult
	var rows []*logRun
	for _, c := range logCases {
		run, err := newLogRun(c, rings, own)
		if err != nil {
			return result, fmt.Errorf("measure %s: %w", c.name, err)
		}
		defer run.close()
		rows = append(rows, run)
	}
	var base base
	deadline := time.Now().Add(o.Limit)
	for all := 0; result.Counted < o.Repetitions && (all == 0 || time.Now().Before(deadline)); {
		if o.Progress != nil {
			o.Progress(result.Counted, result.Disturbed)
		}
		before, err := readUsage()
		if err != nil {
			return result, err
		}
		for range turnsPerRepetition {
			if err := ctx.Err(); err != nil {
				return result, err
			}
			for _, row := range rows {
				if err := row.turn(&base); err != nil {
					return result, fmt.Errorf("measure %s: %w", row.Name, err)
				}
			}
		}
		after, err := readUsage()
		if err != nil {
			return result, err
		}
		counts := after.othersSince(before) <= disturbedShare
		base.endRepetition(counts)
		for _, row := range rows {
			row.endRepetition(counts)
		}
		all++
		result.Counted = judge(rows)
		result.Disturbed = all - result.Counted
	}
	result.Counter_ns = base.ordered_ns.figure()
	result.CounterUnordered_ns = base.unordered_ns.figure()
	for _, row := range rows {
		if err := row.finish(); err != nil {
			return result, fmt.Errorf("measure %s: %w", row.Name, err)
		}
		result.Rows = append(result.Rows, row.LogRow)
	}
	if result.Cold, err = measureCold(ctx, rings); err != nil {
		return result, fmt.Errorf("measure cold calls: %w", err)
	}
	return result, nil
}

// judge gives each row its valid repetitions. It returns the smallest number of them in any row.
func judge(rows []*logRun) int {
	byBase := map[string][]turn{}
	for _, r := range rows {
		byBase[r.Base] = append(byBase[r.Base], r.all...)
	}
	quiet := map[string]float64{}
	for base, all := range byBase {
		quiet[base] = quietestTime(all)
	}
	counted := -1
	for _, r := range rows {
		r.Ratios, r.NS = quietRepetitions(r.all, quiet[r.Base])
		if n := len(r.Ratios); r.Absent == "" && (counted < 0 || n < counted) {
			counted = n
		}
	}
	return max(0, counted)
}

// samples collects one figure: the median of each valid repetition.
type samples struct {
	turns   []float64
	counted []float64
}

func (s *samples) add(v float64) { s.turns = append(s.turns, v) }

func (s *samples) endRepetition(counts bool) {
	if counts && len(s.turns) > 0 {
		s.counted = append(s.counted, median(s.turns))
	}
	s.turns = s.turns[:0]
}

// figure returns the median of the valid repetitions, or 0 if there are none.
func (s *samples) figure() float64 { return median(s.counted) }

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// base is a bare reading of the counter, with which rows are compared.
type base struct {
	ordered_ns, unordered_ns samples
}

// nsPerCall times n calls.
func nsPerCall(n uint64, do func(n uint64)) float64 {
	start := time.Now()
	do(n)
	return float64(time.Since(start)) / float64(n)
}

// measure times the bare reading that is the base of rows with the given kind of stamp. The
// measurement takes about two milliseconds.
func (b *base) measure(stamp string) float64 {
	if stamp == channel.Unordered.String() {
		ns := nsPerCall(200_000, func(n uint64) { asm.LoopCounterUnordered(n) })
		b.unordered_ns.add(ns)
		return ns
	}
	ns := nsPerCall(100_000, func(n uint64) { asm.LoopCounter(n) })
	b.ordered_ns.add(ns)
	return ns
}

func (b *base) endRepetition(counts bool) {
	b.ordered_ns.endRepetition(counts)
	b.unordered_ns.endRepetition(counts)
}

// logRun is a row while it is measured.
type logRun struct {
	LogRow
	logCase
	now, all []turn // turns of this repetition; turns of all undisturbed repetitions
	channel  *handlers.Channel
	consumer *ring.Consumer
	other    *otherWriter
	next     uint64
}

func newLogRun(c logCase, dir string, own []int) (*logRun, error) {
	r := &logRun{logCase: c}
	r.Name, r.Base, r.Writers = c.name, channel.Ordered.String(), max(1, c.writers)
	if c.options.Stamp != "" {
		r.Base = c.options.Stamp
	}
	if c.writers > len(own) {
		r.Absent = fmt.Sprintf("this process may use %d core", len(own))
		return r, nil
	}
	o, open := c.options, handlers.Open
	o.Dir, o.Policy = dir, channel.Overwrite.String()
	if c.shared {
		// Each shard has room for the events that a core logs in a turn.
		open, o.Policy, o.Buffer = handlers.OpenShared, channel.Drop.String(), "32MiB"
	}
	var err error
	if r.channel, err = open("bench#0/"+c.name, o); err != nil {
		return nil, err
	}
	if r.consumer, err = ring.OpenConsumer(r.channel.Path()); err != nil {
		r.close()
		return nil, err
	}
	if c.writers > 1 {
		if r.other, err = newOtherWriter(r.channel, own[0]); err != nil {
			r.close()
			return nil, err
		}
	}
	r.log(c.calls) // touch all memory once
	return r, r.drain()
}

// log makes n calls on each writer.
func (r *logRun) log(n uint64) {
	if r.other != nil {
		r.other.start(n)
	}
	c, id := r.channel, r.next
	for range n {
		c.Log(id)
		id++
	}
	if r.other != nil {
		r.other.wait()
	}
	r.next = id
}

// turn measures the row between two measurements of its base.
func (r *logRun) turn(b *base) error {
	if r.Absent != "" {
		return nil
	}
	crowd := measureCrowd()
	before := b.measure(r.Base)
	ns := nsPerCall(r.calls, r.log)
	after := b.measure(r.Base)
	crowd = max(crowd, measureCrowd())
	reading := (before + after) / 2
	r.now = append(r.now, turn{ratio: ns / reading, ns: ns, crowd: crowd / reading})
	return r.drain()
}

// drain empties a ring that does not overwrite.
func (r *logRun) drain() error {
	if !r.shared {
		return nil
	}
	for i := range r.consumer.Header().Shards {
		s, err := r.consumer.State(i)
		if err != nil {
			return err
		}
		if err := r.consumer.Release(i, s.Tail, 0, 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *logRun) endRepetition(counts bool) {
	if counts {
		r.all = append(r.all, r.now...)
	}
	r.now = r.now[:0]
}

func (r *logRun) finish() error {
	if r.Absent != "" {
		return nil
	}
	for i := range r.consumer.Header().Shards {
		s, err := r.consumer.State(i)
		if err != nil {
			return err
		}
		r.Dropped += s.Dropped
	}
	return nil
}

// close releases the row's resources, and removes its ring.
func (r *logRun) close() {
	if r.other != nil {
		r.other.stop()
	}
	if r.channel != nil {
		path := r.channel.Path()
		r.channel.Close()
		os.Remove(path)
	}
	if r.consumer != nil {
		r.consumer.Close()
	}
}

// otherWriter is a second writer on a core of its own, which looks for work every 50 µs.
type otherWriter struct {
	todo    atomic.Uint64
	ended   atomic.Bool
	stopped sync.WaitGroup
}

func newOtherWriter(c *handlers.Channel, core int) (*otherWriter, error) {
	w := &otherWriter{}
	ready := make(chan error)
	w.stopped.Add(1)
	go func() {
		defer w.stopped.Done()
		unpin, err := pinToCore(core)
		ready <- err
		if err != nil {
			return
		}
		defer unpin()
		for !w.ended.Load() {
			n := w.todo.Load()
			if n == 0 {
				// An idle writer must not take the core from other measurements.
				time.Sleep(50 * time.Microsecond)
				continue
			}
			for id := range n {
				c.Log(id)
			}
			w.todo.Store(0)
		}
	}()
	return w, <-ready
}

func (w *otherWriter) start(n uint64) { w.todo.Store(n) }

func (w *otherWriter) wait() {
	for w.todo.Load() != 0 {
	}
}

func (w *otherWriter) stop() {
	w.ended.Store(true)
	w.stopped.Wait()
}
