package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/bench/dataset"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// StoreOptions say how long to measure logs.
type StoreOptions struct {
	Repetitions int           // smallest number of valid repetitions; at least 1
	Limit       time.Duration // after this time, no further repetition of either part begins
	Sets        []string      // data sets to measure; nil: all

	// The following options are for the sustained row.

	Sustained time.Duration // shortest total time of valid logging; 0 leaves the row out
	Buffer    string        // buffer of the row's channel, as in handlers.Options
	Dir       string        // where the row's ring is made, as in handlers.Options
	Logs      string        // where the row's log is written; "": a temporary directory

	// Progress is called before each repetition and may be nil.
	Progress func(part string, counted, disturbed int)
}

// StoreResult says what it costs to store events.
type StoreResult struct {
	Rows      []StoreRow
	Sustained SustainedRow
}

// StoreRow is what one data set costs.
type StoreRow struct {
	Name          string
	BytesPerEvent float64
	EntropyBytes  float64 // entropy of an event

	// Encode, Decode and Hurried are speeds in GB of records per second of processor time. A record
	// has 16 bytes. They have one value for each repetition. Hurried is the speed of encoding
	// blocks that are packed and not compressed.
	Encode, Decode, Hurried []float64
	HurriedBytesPerEvent    float64
}

// SustainedRow is the cost of a log call for a program that logs without a pause, while another
// core compresses the events to disk.
type SustainedRow struct {
	Buffer        string
	Ratios        []float64 // relative to a bare rdtscp, one for each valid second
	NS            []float64 // time of a call
	Disturbed     int       // seconds that are not valid
	Events        uint64
	Dropped       uint64
	Logged        uint64 // events that were read back from the log
	BytesPerEvent float64
}

const (
	// storeBlocks is the number of blocks of logstore.MaxRows events in a set. These are two
	// million events, more than fit into a core's caches.
	storeBlocks = 32

	// entropyRecords is the number of records with which the entropy of a set without a formula is
	// measured.
	entropyRecords = 10 << 20
)

// Store measures the size and the speed of logs on every data set. Then it measures how much longer
// a log call takes while the program's events are kept.
func Store(ctx context.Context, o StoreOptions) (StoreResult, error) {
	var result StoreResult
	if o.Dir == "" {
		o.Dir = ring.DefaultDirectory()
	}
	if err := storeRows(ctx, o, &result); err != nil {
		return result, err
	}
	if o.Sustained == 0 {
		return result, nil
	}
	var err error
	if result.Sustained, err = logSustained(ctx, o); err != nil {
		return result, fmt.Errorf("measure sustained logging: %w", err)
	}
	return result, nil
}

func storeRows(ctx context.Context, o StoreOptions, result *StoreResult) error {
	own, err := host.AllowedCores()
	if err != nil {
		return err
	}
	unpin, err := pinToCore(own[len(own)-1])
	if err != nil {
		return err
	}
	defer unpin()
	if err := ring.MakeDirectory(o.Dir); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.Dir, "bench-store-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	names := o.Sets
	if names == nil {
		names = dataset.Names()
	}
	entropies := map[string]float64{} // bits of counters without a formula, by gaps and quantum
	var runs []*storeRun
	for i, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("making data set %d of %d", i+1, len(names)), 0, 0)
		}
		run, err := newStoreRun(name, entropies)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	deadline := time.Now().Add(o.Limit)
	var records recordBuffer
	for i := 0; i < o.Repetitions && (i == 0 || time.Now().Before(deadline)); i++ {
		if o.Progress != nil {
			o.Progress("data sets", i, 0)
		}
		for _, run := range runs {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := run.turn(&records, dir); err != nil {
				return fmt.Errorf("measure %s: %w", run.Name, err)
			}
		}
	}
	for _, run := range runs {
		result.Rows = append(result.Rows, run.StoreRow)
	}
	return nil
}

// storeRun is a data set while it is measured.
type storeRun struct {
	StoreRow
	header logstore.Header
	seed   uint64
}

// recordBuffer contains the events of one set at a time, because all sets together would take too
// much memory.
type recordBuffer struct {
	counters, ids []uint64
	events        []logstore.Event
}

func (b *recordBuffer) fill(s *dataset.Set, n int) {
	if b.events == nil {
		b.counters, b.ids, b.events = make([]uint64, n), make([]uint64, n),
			make([]logstore.Event, n)
	}
	s.Fill(b.counters, b.ids)
	for i := range b.events {
		b.events[i] = logstore.Event{Counter: b.counters[i], ID: b.ids[i]}
	}
}

func newStoreRun(name string, entropies map[string]float64) (*storeRun, error) {
	r := &storeRun{seed: 1}
	r.Name = name
	set, err := dataset.New(name, r.seed)
	if err != nil {
		return nil, err
	}
	counter_bits, id_bits := set.EntropyBits()
	if counter_bits != counter_bits { // no formula
		key := set.Gaps + fmt.Sprint(set.Quantum)
		if _, known := entropies[key]; !known {
			entropies[key] = measuredEntropy(set)
		}
		counter_bits = entropies[key]
	}
	r.EntropyBytes = (counter_bits + id_bits) / 8
	channelName, err := channel.ParseName("bench#0/store")
	if err != nil {
		return nil, err
	}
	r.header = logstore.Header{
		Node: "bench", NodeNumber: channel.MaxNode + 1, Epoch: "bench",
		Channel: channelName, Settings: channel.Settings{Kind: channel.Buffered},
		Quantum_cycles: set.Quantum,
	}
	return r, nil
}

// measuredEntropy returns the plug-in entropy (dataset.PlugIn) of a set's counters, in bits a
// record.
func measuredEntropy(set *dataset.Set) float64 {
	var plugIn dataset.PlugIn
	counters, ids := make([]uint64, logstore.MaxRows), make([]uint64, logstore.MaxRows)
	for n := 0; n < entropyRecords; n += len(counters) {
		set.Fill(counters, ids)
		plugIn.Observe(counters)
	}
	return plugIn.Bits()
}

// turn writes a log and reads it back. The log is in shared memory, because the disk is not
// measured.
func (r *storeRun) turn(b *recordBuffer, dir string) error {
	const n = storeBlocks * logstore.MaxRows
	set, err := dataset.New(r.Name, r.seed)
	if err != nil {
		return err
	}
	r.seed++ // a new seed for every repetition, and thus for each file
	b.fill(set, n)
	path := filepath.Join(dir, "bench"+logstore.Suffix)
	defer os.Remove(path)
	if r.Hurried, r.HurriedBytesPerEvent, err = r.write(path, b, true, r.Hurried); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	if r.Encode, r.BytesPerEvent, err = r.write(path, b, false, r.Encode); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	reader, err := logstore.NewReader(file, path)
	if err != nil {
		return err
	}
	begin, err := threadTime()
	if err != nil {
		return err
	}
	rows := 0
	for {
		block, err := reader.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		rows += block.Len()
	}
	if rows != n {
		return fmt.Errorf("%d of %d events were read back", rows, n)
	}
	r.Decode, err = appendSpeed(r.Decode, begin)
	return err
}

// write writes the records of a turn to a log. It appends the speed to speeds, and returns how many
// bytes an event takes.
func (r *storeRun) write(path string, b *recordBuffer, hurried bool, speeds []float64) (
	[]float64, float64, error) {
	const n = storeBlocks * logstore.MaxRows
	w, err := logstore.Create(nil, path, r.header)
	if err != nil {
		return nil, 0, err
	}
	defer w.Close()
	begin, err := threadTime()
	if err != nil {
		return nil, 0, err
	}
	size := w.Size()
	for i := 0; i < n; i += logstore.MaxRows {
		block := logstore.Block{
			Incarnation: r.header.Incarnation, First: uint64(i), Hurried: hurried,
			Events: b.events[i : i+logstore.MaxRows],
		}
		if err := w.Append(&block); err != nil {
			return nil, 0, err
		}
	}
	speeds, err = appendSpeed(speeds, begin)
	return speeds, float64(w.Size()-size) / n, err
}

// appendSpeed appends the speed in GB/s at which a turn has coded records since begin, in this
// thread's time.
func appendSpeed(all []float64, begin time.Duration) ([]float64, error) {
	end, err := threadTime()
	return append(all, storeBlocks*logstore.MaxRows*ring.RecordBytes/float64(end-begin)), err
}

// threadTime returns the processor time of this thread, without that of other threads on the same
// core. The caller's goroutine must be pinned, so that it stays on the thread.
func threadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("read processor time of a thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// sustainedTurn is the length of one turn, in which the program logs without a pause. Before and
// after each turn the bare instruction, the base of the ratio, is measured for two milliseconds.
const sustainedTurn = time.Second

// logSustained logs at full speed on one core while its own drainer writes to disk on another core.
func logSustained(ctx context.Context, o StoreOptions) (row SustainedRow, err error) {
	own, err := host.AllowedCores()
	if err != nil {
		return row, err
	}
	if len(own) < 2 {
		return row, nil // there is no other core, so the row is absent
	}
	if err := ring.MakeDirectory(o.Dir); err != nil {
		return row, err
	}
	// Another drainer may be working in the node's own directory.
	rings, err := os.MkdirTemp(o.Dir, "bench-rings-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(rings)
	logs := o.Logs
	if logs == "" {
		if logs, err = os.MkdirTemp("", "cloudprofiler-bench-"); err != nil {
			return row, err
		}
		defer os.RemoveAll(logs)
	}
	d, err := drain.Start(rings, drain.Options{Logs: logs, Node: "bench"})
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	c, err := handlers.Open("bench#0/sustained",
		handlers.Options{Handler: "buffered", Policy: "block", Buffer: o.Buffer, Dir: rings})
	if err != nil {
		return row, err
	}
	defer c.Close()
	row.Buffer = o.Buffer
	unpin, err := pinToCore(own[len(own)-1])
	if err != nil {
		return row, err
	}
	defer unpin()
	if err := row.log(ctx, o, c); err != nil {
		return row, err
	}
	if err := c.Close(); err != nil {
		return row, err
	}
	if err := waitForEnd(ctx, d); err != nil {
		return row, err
	}
	total := d.Stats().Total
	row.Dropped = total.Dropped
	row.BytesPerEvent = float64(total.LogBytes) / float64(max(total.Rows, 1))
	row.Logged, err = countEvents(logs)
	return row, err
}

// log logs in turns, and adds the figures of the turns that nothing disturbed.
func (row *SustainedRow) log(ctx context.Context, o StoreOptions, c *handlers.Channel) error {
	var base base
	asm.LoopCounter(1_000_000) // let the core reach its full clock frequency
	deadline := time.Now().Add(o.Limit)
	lasting := func() bool {
		counted := time.Duration(len(row.Ratios)) * sustainedTurn
		return counted < o.Sustained && time.Now().Before(deadline)
	}
	for turn := 0; lasting(); turn++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if o.Progress != nil {
			o.Progress("seconds of sustained logging", len(row.Ratios), row.Disturbed)
		}
		usage, err := readUsage()
		if err != nil {
			return err
		}
		before := base.measure(channel.Ordered.String())
		begin, id := time.Now(), row.Events
		for time.Since(begin) < sustainedTurn {
			for range 1 << 16 {
				c.Log(id)
				id++
			}
		}
		ns := float64(time.Since(begin)) / float64(id-row.Events)
		row.Events = id
		after := base.measure(channel.Ordered.String())
		end, err := readUsage()
		if err != nil {
			return err
		}
		switch {
		case turn == 0: // the drainer has not found the ring yet
		case end.othersSince(usage) > disturbedShare:
			row.Disturbed++
		default:
			row.Ratios = append(row.Ratios, ns/((before+after)/2))
			row.NS = append(row.NS, ns)
		}
	}
	return nil
}

// countEvents returns the number of events in the only log in a directory.
func countEvents(dir string) (n uint64, err error) {
	segments, err := logstore.Segments(dir)
	if err != nil {
		return 0, err
	}
	r := logstore.ReadLog(segments)
	defer r.Close()
	for {
		b, err := r.Next()
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		n += uint64(len(b.Events))
	}
}

// waitForEnd waits until the drainer has finished with the ring.
func waitForEnd(ctx context.Context, d *drain.Drainer) error {
	for d.Stats().Finished == 0 {
		if err := d.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}
