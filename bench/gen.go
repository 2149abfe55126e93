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
)

//go:embed c/pushpull.c
var pushPullSource []byte

// GenOptions say how long to measure the generator.
type GenOptions struct {
	Repetitions int           // that count; at least 1
	Limit       time.Duration // of each row, after which no further repetition is begun
	Tuples      int           // of a turn of single; the other rows have their share
	Rows        []string      // "" is all: single, batched, schedule, factory

	// Progress is called before each repetition and may be nil.
	Progress func(row string, counted, disturbed int)
}

// GenRow is one row. What it means is with GenRows.
type GenRow struct {
	Name      string
	Figures   []float64 // one for each counted repetition
	Rates     []float64 // tuples a second; schedule: the rate that was asked for
	Base      []float64 // single: of the C loop; factory: ns a tuple of decoding inline
	Wrong     uint64    // tuples that were lost, doubled or out of order
	Late      generator.Lateness
	Sent      uint64
	Unaccount uint64 // schedule: late tuples without a cause, and tuples that are neither sent nor counted as not sent
	P99_ns    float64
	Disturbed int
	Beside    []Beside // schedule: of every repetition, also of those that do not count
	Absent    string   // why it was not measured

	restless bool // schedule: the machine was not idle in the last repetition
}

// Beside is how much was late in a repetition of schedule, and how much a loop would have had late on the same core right before and after,
// that sends nothing: what the machine itself does to a schedule.
type Beside struct {
	Late_percent, Loop_percent float64
}

// GenRows are the rows: single is the rate over one ZeroMQ connection, one message a tuple, as a ratio to the C loop; batched is the rate with
// many tuples a message; schedule is the share of tuples sent within 10 µs of when they were due, at half of what its setup takes; factory is the
// consumer's time for a tuple as a ratio to that of decoding it.
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
		for row.Absent == "" && len(row.Figures) < o.Repetitions && (len(row.Figures)+row.Disturbed == 0 || time.Now().Before(deadline)) {
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

// repeat measures once, and takes it back where other processes were busy. Wrong tuples count all the same.
func (r *GenRow) repeat(ctx context.Context, measure genMeasure, tuples int) error {
	runtime.GC() // not the last row's
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
		return func(ctx context.Context, r *GenRow, tuples int) error { return single(ctx, r, program, tuples) }, nil
	case "batched":
		return batched, nil
	case "schedule":
		own, err := cores()
		if err != nil {
			return nil, err
		}
		if len(own) < 2 {
			r.Absent = "this process may use 1 core: sender and receiver need one each"
			return nil, nil
		}
		return func(ctx context.Context, r *GenRow, tuples int) error { return onSchedule(ctx, r, tuples, own) }, nil
	case "factory":
		return factory, nil
	}
	return nil, fmt.Errorf("unknown row %q, want one of %q", r.Name, GenRows)
}

// buildPushPull compiles the base.
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
	out, err := exec.CommandContext(ctx, compiler, "-O2", "-o", program, source, "-lzmq", "-lpthread").CombinedOutput()
	if err != nil {
		return "", fmt.Sprintf("the C loop that is its base does not compile here (%v): install a C compiler and libzmq's headers; %.200s", err, out)
	}
	return program, ""
}

// singleBatch is how many messages cross into C together. Each is one tuple.
const singleBatch = 64

// tupleBody is a body of 265 bytes: with its length and id a tuple has 277.
const tupleBody = 265

// single runs the C loop, this product, and the C loop again.
func single(ctx context.Context, r *GenRow, program string, tuples int) error {
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
	run, err := overZeroMQ(ctx, generator.SenderOptions{FlatOut: time.Minute, Limit: uint64(tuples), Batch: singleBatch}, generator.PushOptions{})
	if err != nil {
		return err
	}
	after, err := c()
	if err != nil {
		return err
	}
	base := (before + after) / 2
	r.Figures, r.Rates, r.Base = append(r.Figures, run.received.Rate/base), append(r.Rates, run.received.Rate), append(r.Base, base)
	r.Wrong += run.wrong()
	return nil
}

const batchOfBatched = 256

func batched(ctx context.Context, r *GenRow, tuples int) error {
	run, err := overZeroMQ(ctx, generator.SenderOptions{FlatOut: time.Minute, Limit: uint64(4 * tuples), Batch: batchOfBatched}, generator.PushOptions{Batch: batchOfBatched})
	if err != nil {
		return err
	}
	r.Figures, r.Rates = append(r.Figures, run.received.Rate/1e6), append(r.Rates, run.received.Rate)
	r.Wrong += run.wrong()
	return nil
}

// A genRun is both ends' account.
type genRun struct {
	sent     generator.SenderResult
	received generator.ReceiverResult
}

// wrong is how many tuples did not come once, in order.
func (g genRun) wrong() uint64 {
	c := g.received.Check
	wrong := c.Lost + c.Duplicates + c.Reordered + c.Malformed
	if c.Received != g.sent.Sent || c.Ended != 1 {
		wrong++
	}
	return wrong
}

// overZeroMQ sends over one connection within this process, to a receiver that only checks.
func overZeroMQ(ctx context.Context, o generator.SenderOptions, push generator.PushOptions) (genRun, error) {
	return connected(ctx, o, push, func(o generator.ReceiverOptions) (func(context.Context) (generator.ReceiverResult, error), error) {
		receiver, err := generator.NewReceiver(o)
		if err != nil {
			return nil, err
		}
		return receiver.Run, nil
	})
}

// connected sends over one connection within this process, to what receive makes.
func connected(ctx context.Context, o generator.SenderOptions, push generator.PushOptions, receive func(generator.ReceiverOptions) (func(context.Context) (generator.ReceiverResult, error), error)) (run genRun, err error) {
	ctx, end := context.WithCancel(ctx)
	pull, err := generator.NewPull("tcp://127.0.0.1:*", generator.PullOptions{HighWater: push.HighWater})
	if err != nil {
		end()
		return run, err
	}
	receiver, err := receive(generator.ReceiverOptions{Sources: []generator.Source{pull}, Patience: 10 * time.Second})
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
	o.Connect = func(int) (generator.Sink, error) { return generator.NewPush(ctx, pull.Endpoint(), push) }
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

// localIDs makes ids for tuples that leave no trace.
type localIDs struct{ next uint64 }

func (l *localIDs) Next() (uint64, bool) { l.next++; return l.next - 1, true }
