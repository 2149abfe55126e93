package bench

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/host"
)

//go:embed c/pushpull.c
var pushPullSource []byte

// GenOptions say how long to measure the generator.
type GenOptions struct {
	Repetitions int           // smallest number of valid repetitions; at least 1
	Limit       time.Duration // after this time, no further repetition of a row begins
	Tuples      int           // tuples in a repetition of the row single; other rows send fewer
	Rows        []string      // empty: all of GenRows

	// Progress is called before each repetition and may be nil.
	Progress func(row string, counted, disturbed int)
}

// GenRow has the results of one row. GenRows describes what each row means.
type GenRow struct {
	Name    string
	Figures []float64 // one for each counted repetition
	Rates   []float64 // tuples a second; for schedule, the intended rate
	Base    []float64 // single: the C loop's rate; factory: ns to decode a tuple inline
	Wrong   uint64    // tuples that were lost, doubled or out of order

	Disturbed int    // repetitions that are not used
	Absent    string // why the row was not measured

	// Only the row schedule has the following fields.

	Late      generator.Lateness
	Sent      uint64
	Unaccount uint64 // late tuples without a cause, and tuples neither sent nor counted as unsent
	P99_ns    float64
	Beside    []Beside // one for each repetition, counted or not

	restless bool // schedule: the machine was not idle in the last repetition
}

// Beside compares a repetition of the row schedule with a loop that sends nothing, on the same core
// right before and after. It has the share of tuples that were late in the repetition, and the
// share of tuples that would have been late in the loop. The loop shows how much the machine itself
// disturbs a schedule.
type Beside struct {
	Late_percent, Loop_percent float64
}

// GenRows are the rows:
//
//   - single is the rate over one ZeroMQ connection with one tuple a message, as a ratio to the C
//     loop
//   - batched is the rate with many tuples a message
//   - schedule is the share of tuples sent within 10 µs of when they were due, at half of the rate
//     that its setup reaches
//   - factory is the consumer's time for a tuple, as a ratio to the time that decoding it takes
var GenRows = []string{"single", "batched", "schedule", "factory"}

// A genMeasure measures one row once.
type genMeasure func(ctx context.Context, r *GenRow, tuples int) error

// Gen measures the generator, row after row.
func Gen(ctx context.Context, o GenOptions) ([]GenRow, error) {
	if len(o.Rows) == 0 {
		o.Rows = GenRows
	}
	dir, err := os.MkdirTemp("", "cprof-bench-gen")
	if err != nil {
		return nil, fmt.Errorf("measure the generator: %w", err)
	}
	defer os.RemoveAll(dir)
	var rows []GenRow
	for _, name := range o.Rows {
		deadline := time.Now().Add(o.Limit)
		row := GenRow{Name: name}
		measure, err := genTurn(ctx, &row, dir, o.Tuples)
		if err != nil {
			return rows, fmt.Errorf("measure %s: %w", name, err)
		}
		for row.Absent == "" && len(row.Figures) < o.Repetitions &&
			(len(row.Figures)+row.Disturbed == 0 || time.Now().Before(deadline)) {
			if err := ctx.Err(); err != nil {
				return rows, err
			}
			if o.Progress != nil {
				o.Progress(name, len(row.Figures), row.Disturbed)
			}
			if err := row.repeat(ctx, measure, o.Tuples); err != nil {
				return rows, fmt.Errorf("measure %s: %w", name, err)
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// repeat makes one repetition. If the machine was not quiet, it drops the figures, but still counts
// wrong tuples.
func (r *GenRow) repeat(ctx context.Context, measure genMeasure, tuples int) error {
	runtime.GC() // collect the last row's garbage now
	before, err := readUsage()
	if err != nil {
		return err
	}
	kept := *r
	if err := measure(ctx, r, tuples); err != nil {
		return err
	}
	after, err := readUsage()
	if err != nil {
		return err
	}
	if after.othersSince(before) > disturbedShare || r.restless {
		wrong, unaccounted, beside := r.Wrong, r.Unaccount, r.Beside
		*r = kept
		r.Wrong, r.Unaccount, r.Beside = wrong, unaccounted, beside
		r.Disturbed++
	}
	return nil
}

// genTurn prepares a row.
func genTurn(ctx context.Context, r *GenRow, dir string, tuples int) (genMeasure, error) {
	switch r.Name {
	case "single":
		program, absent := buildPushPull(ctx, dir)
		r.Absent = absent
		return func(ctx context.Context, r *GenRow, tuples int) error {
			return measureSingle(ctx, r, program, tuples)
		}, nil
	case "batched":
		return batched, nil
	case "schedule":
		own, err := host.AllowedCores()
		if err != nil {
			return nil, err
		}
		if len(own) < 2 {
			r.Absent = "this process may use 1 core: sender and receiver need one each"
			return nil, nil
		}
		return func(ctx context.Context, r *GenRow, tuples int) error {
			return onSchedule(ctx, r, tuples, own)
		}, nil
	case "factory":
		return measureFactory, nil
	}
	return nil, fmt.Errorf("unknown row %q, want one of %q", r.Name, GenRows)
}

// buildPushPull compiles the C loop. If that is not possible, absent is the reason.
func buildPushPull(ctx context.Context, dir string) (program, absent string) {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	source := filepath.Join(dir, "pushpull.c")
	program = filepath.Join(dir, "pushpull")
	if err := os.WriteFile(source, pushPullSource, 0o600); err != nil {
		return "", err.Error()
	}
	cmd := exec.CommandContext(ctx, compiler, "-O2", "-o", program, source, "-lzmq", "-lpthread")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Sprintf("the C loop that is its base does not compile here (%v): "+
			"install a C compiler and libzmq's headers; %.200s", err, out)
	}
	return program, ""
}

// singleBatch is the number of messages for one call into C. Each message is one tuple.
const singleBatch = 64

// tupleBody is a body of 265 bytes: with its length and id, a tuple has 277 bytes.
const tupleBody = 265

// measureSingle runs the C loop, this product, and the C loop again.
func measureSingle(ctx context.Context, r *GenRow, program string, tuples int) error {
	c := func() (rate float64, err error) {
		out, err := exec.CommandContext(ctx, program, fmt.Sprint(tuples)).Output()
		if err != nil {
			return 0, fmt.Errorf("run the C loop: %w", err)
		}
		var wrong uint64
		if _, err := fmt.Sscan(string(out), &rate, &wrong); err != nil || wrong > 0 {
			return 0, fmt.Errorf("run the C loop: it printed %q: %v", out, err)
		}
		return rate, nil
	}
	before, err := c()
	if err != nil {
		return err
	}
	o := generator.SenderOptions{FlatOut: time.Minute, Limit: uint64(tuples), Batch: singleBatch}
	run, err := overZeroMQ(ctx, o, generator.PushOptions{})
	if err != nil {
		return err
	}
	after, err := c()
	if err != nil {
		return err
	}
	base := (before + after) / 2
	r.Figures = append(r.Figures, run.received.Rate/base)
	r.Rates = append(r.Rates, run.received.Rate)
	r.Base = append(r.Base, base)
	r.Wrong += run.wrong()
	return nil
}

const batchOfBatched = 256

func batched(ctx context.Context, r *GenRow, tuples int) error {
	o := generator.SenderOptions{
		FlatOut: time.Minute, Limit: uint64(4 * tuples), Batch: batchOfBatched,
	}
	run, err := overZeroMQ(ctx, o, generator.PushOptions{Batch: batchOfBatched})
	if err != nil {
		return err
	}
	r.Figures = append(r.Figures, run.received.Rate/1e6)
	r.Rates = append(r.Rates, run.received.Rate)
	r.Wrong += run.wrong()
	return nil
}

// A genRun has the counts of both ends.
type genRun struct {
	sent     generator.SenderResult
	received generator.ReceiverResult
}

// wrong returns the number of tuples that did not arrive exactly once and in order.
func (g genRun) wrong() uint64 {
	c := g.received.Check
	wrong := c.Lost + c.Duplicates + c.Reordered + c.Malformed
	if c.Received != g.sent.Sent || c.Ended != 1 {
		wrong++
	}
	return wrong
}

// tupleReceiver receives tuples until they end.
type tupleReceiver func(context.Context) (generator.ReceiverResult, error)

// checkOnly makes a receiver that only checks tuples.
func checkOnly(o generator.ReceiverOptions) (tupleReceiver, error) {
	receiver, err := generator.NewReceiver(o)
	if err != nil {
		return nil, err
	}
	return receiver.Run, nil
}

// overZeroMQ sends over one connection within this process, to a receiver that only checks.
func overZeroMQ(ctx context.Context, o generator.SenderOptions,
	push generator.PushOptions) (genRun, error) {
	return sendConnected(ctx, o, push, checkOnly)
}

// sendConnected sends over one connection within this process, to the receiver that newReceiver
// makes.
func sendConnected(ctx context.Context, o generator.SenderOptions, push generator.PushOptions,
	newReceiver func(generator.ReceiverOptions) (tupleReceiver, error)) (run genRun, err error) {
	ctx, end := context.WithCancel(ctx)
	pull, err := generator.NewPull("tcp://127.0.0.1:*",
		generator.PullOptions{HighWater: push.HighWater})
	if err != nil {
		end()
		return run, err
	}
	receiver, err := newReceiver(generator.ReceiverOptions{
		Sources: []generator.Source{pull}, Patience: 10 * time.Second,
	})
	if err != nil {
		end()
		pull.Close()
		return run, err
	}
	ended := make(chan error, 1)
	go func() {
		var err error
		run.received, err = receiver(ctx)
		ended <- err
	}()
	defer func() {
		if err != nil {
			end()
			<-ended
		}
		end()
	}()
	o.Connect = func(int) (generator.Sink, error) {
		return generator.NewPush(ctx, pull.Endpoint(), push)
	}
	o.IDs = func(int) (generator.IDSource, error) { return &localIDs{next: 1}, nil }
	if o.Tuples, err = generator.Advertisements(1000, tupleBody, 1); err != nil {
		return run, err
	}
	sender, err := generator.NewSender(o)
	if err != nil {
		return run, err
	}
	if run.sent, err = sender.Run(ctx); err != nil {
		return run, err
	}
	receiveErr := <-ended
	ended <- nil
	return run, receiveErr
}

// localIDs makes ids for tuples that no channel logs.
type localIDs struct{ next uint64 }

func (l *localIDs) Next() (uint64, bool) { l.next++; return l.next - 1, true }
