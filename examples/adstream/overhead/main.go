package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
)

// placement describes the job that is measured. Each operator has one instance, and each span is
// between nodes. Windows are so long that none ends during the measurement. At the end of a window
// the operator "store" does much work at once, so one stretch of a pair would do more work than the
// other stretch.
const placement = `
version: 1
nodes:
  - {name: a, address: 127.0.0.1}
  - {name: b, address: 127.0.0.1}
  - {name: c, address: 127.0.0.1}
actors:
  source: [a]
  deserialise: [b]
  filter: [c]
  project: [a]
  join: [b]
  count: [c]
  store: [a]
stream: {seed: 1, window: 1h}
`

// limit_percent is the bar: the most that instrumentation may cost, in percent of the job's
// processor time. Two figures must meet this bar: the share that is computed from the cost of one
// log call, and the upper end of the measured interval.
const limit_percent = 3

// minPairs is the smallest number of pairs of stretches from which an interval can be computed.
const minPairs = 6

// minStretch is longer than the time slices of Go's scheduler.
const minStretch = 20 * time.Millisecond

// drainerWord is the first argument of this program when it is started as the process that drains.
const drainerWord = "drain-for-overhead"

func main() {
	if len(os.Args) == 4 && os.Args[1] == drainerWord {
		signal.Ignore(syscall.SIGINT) // a Ctrl-C reaches this process too, but its parent ends it
		if err := beDrainer(os.Args[2], os.Args[3], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "overhead: drain:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("see above")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	what := plan{Drainer: []string{self, drainerWord}}
	var asJSON bool
	flags := flag.NewFlagSet("overhead", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&what.Pairs, "pairs", 300,
		"how `many` pairs of stretches, one with channels and one without")
	flags.IntVar(&what.Null, "null-pairs", 300,
		"how `many` pairs of stretches, one with channels that discard and one without")
	flags.DurationVar(&what.Stretch, "stretch", 50*time.Millisecond,
		"how `long` a stretch is, in processor time")
	flags.Float64Var(&what.Rate, "rate", 0,
		"`tuples` to send a second; 0: as fast as the job takes them")
	flags.IntVar(&what.Processors, "procs", 0, "how `many` processors the job may use; 0: all")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return errUsage
	}
	if problem := what.findProblem(flags.Args()); problem != "" {
		fmt.Fprintln(stderr, "overhead:", problem)
		return errUsage
	}
	if what.Processors > 0 {
		runtime.GOMAXPROCS(what.Processors)
	}
	p, err := job.ParsePlacement([]byte(placement))
	if err != nil {
		return err
	}
	progress := func(done, of int) { fmt.Fprintf(stderr, "\r%d of %d pairs", done, of) }
	f, err := measure(ctx, p, what, progress)
	fmt.Fprintln(stderr)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	if asJSON {
		return json.NewEncoder(stdout).Encode(f)
	}
	return f.print(stdout)
}

// findProblem returns what is wrong with the command line, or "".
func (p *plan) findProblem(args []string) string {
	switch fewest := min(p.Pairs, p.Null); {
	case len(args) > 0:
		return fmt.Sprintf("argument %q: use flags only", args[0])
	case fewest < minPairs:
		return fmt.Sprintf("%d pairs: use %d or more", fewest, minPairs)
	case p.Stretch < minStretch:
		return fmt.Sprintf("-stretch %s: use %s or more", p.Stretch, minStretch)
	case p.Processors < 0:
		return fmt.Sprintf("-procs %d: use 0 or more", p.Processors)
	}
	return ""
}

func (f *figures) print(w io.Writer) error {
	pace := "as fast as the job takes them"
	if f.Plan.Rate > 0 {
		pace = fmt.Sprintf("at %.0f a second", f.Plan.Rate)
	}
	share := func(i interval) string {
		return fmt.Sprintf("%+.2f %% [%+.2f, %+.2f]", i.Estimate, i.Lo, i.Hi)
	}
	_, err := fmt.Fprintf(w, `%d pairs (full) and %d pairs (null) of stretches of %s
tuples %s, on %d processors
more than without channels, from the pairs' ratios, with a 95 %% interval:

        CPU time for the same work   time for the same work
full    %-28s %s
null    %-28s %s

off: %.2f µs CPU a tuple, %.0f tuples a second; a call of a nil channel takes %.2f ns
computed for full: %.2f log calls a tuple × %.1f ns = %.2f %% of the CPU time
drainer of full, another process: %.2f %% of the job's CPU time
bar: upper end of full's CPU time %+.2f %%, limit %d %%
`, f.Plan.Pairs, f.Plan.Null, f.Plan.Stretch, pace, runtime.GOMAXPROCS(0),
		share(f.Full.CPU), share(f.Full.Wall), share(f.Null.CPU), share(f.Null.Wall),
		f.OffCPU_us, f.OffPerSecond, f.NilCall_ns,
		f.EventsPerTuple, f.Call_ns, f.Computed, f.Drainer,
		f.Full.CPU.Hi, limit_percent)
	return err
}
