package gen

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

type genSearchFlags struct {
	tuples  tupleFlags
	to      []string
	back    []string
	target  string
	options generator.SearchOptions
	svg     string
	json    bool
}

func newGenSearch() *cobra.Command {
	var flags genSearchFlags
	o := &flags.options
	cmd := &cobra.Command{
		Use:   "search",
		Short: "Find the highest throughput that an engine sustains, and what limits it",
		Long: `Find the highest throughput that an engine sustains, and what limits it.

The command first measures the generator's own ceiling, and never takes a rate near it for the
engine's limit. Then it tries rates, from --start on, each four times the one before, until a rate
is not sustained. It narrows the range between the last two rates, and confirms the rate that it
found. The answer says how sure the confirming trials make that rate. A rate is sustained if every
tuple comes out once, and neither the backlog nor the latency grows. The command also reports the
engine's pauses. A trial must be three times as long as the time from one pause to the next.

The engine receives tuples at --to and sends every finished tuple to --back, where this command
listens, both as in generator/FORMAT.md. Or it is a server in this process whose limit is known,
which shows what a search does:
  --target bucket:100000                a token bucket
  --target bucket:100000,stall:50ms/1s  one that stalls 50 ms in each second

At the end, the command measures the latency at some lower rates. --svg draws latency over load as a
curve.

Exit code 3: no rate was sustained, the limit is not the engine's, it was not confirmed, or the
numbers are marked because a connection broke or a malformed message came back.`,
		Example: `  cprof gen search --target bucket:100000
  cprof gen search --to tcp://10.0.0.7:5555 --back tcp://*:5560 --latency 20ms
  cprof gen search --target bucket:100000,stall:50ms/1s --json > search.json
  cprof gen search --target bucket:20000 --trial 3s --svg curve.svg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGenSearch(cmd.Context(), flags, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringSliceVar(&flags.to, "to", nil, "addresses at which the engine receives "+
		"tuples, one for each connection")
	cmd.Flags().StringSliceVar(&flags.back, "back", nil,
		"addresses at which to listen for finished tuples")
	cmd.Flags().StringVar(&flags.target, "target", "",
		"a server with a known limit, instead of an engine")
	cmd.Flags().IntVar(&o.Threads, "threads", 1, "threads that send")
	cmd.Flags().IntVar(&o.Batch, "batch", 1, "most tuples in one message, if they are due")
	cmd.Flags().Float64Var(&o.Start, "start", 10_000, "the first rate, in tuples a second")
	cmd.Flags().Float64Var(&o.Highest, "highest", 0, "the highest rate to try (default: the "+
		"generator's ceiling)")
	cmd.Flags().Float64Var(&o.Resolution, "resolution",
		0.01, "end when a sustained and an unsustained rate are this close")
	cmd.Flags().Float64Var(&o.Growth, "growth", 0.005, "share of the rate by which the backlog "+
		"may grow and still count as noise")
	cmd.Flags().DurationVar(&o.Latency, "latency",
		0, "limit of a sustained rate's 99th percentile; 0 is no limit")
	cmd.Flags().DurationVar(&o.WarmUp, "warm-up", time.Second, "length of the start of each "+
		"trial, which is not judged")
	cmd.Flags().DurationVar(&o.Trial, "trial", 5*time.Second, "length of a trial after its warm-up")
	cmd.Flags().IntVar(&o.Confirm, "confirm", 3, "how often to try the found rate again; all of "+
		"these trials must succeed, and more of them are surer")
	cmd.Flags().StringVar((*string)(&o.Arrivals), "arrivals", string(generator.EvenArrivals),
		"when tuples are due: even, or poisson, as the load of many independent users")
	cmd.Flags().BoolVar(&o.NoCurve, "no-curve", false, "leave out the trials below the found "+
		"rate that fill the curve")
	cmd.Flags().DurationVar(&o.Drain, "drain", 10*time.Second, "how long the engine may take to "+
		"finish what is left after a trial")
	cmd.Flags().StringVar(&flags.svg, "svg", "",
		"draw the curve of latency over load into this file")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object, which cprof "+
		"gen plot draws")
	flags.tuples.add(cmd)
	return cmd
}

func runGenSearch(ctx context.Context, flags genSearchFlags, stdout, stderr io.Writer) error {
	if err := flags.check(); err != nil {
		return err
	}
	o := flags.options
	var err error
	if o.Tuples, err = flags.tuples.load(); err != nil {
		return err
	}
	notices := &noticeWriter{w: stderr, line: command.NewProgress(stderr)}
	o.Progress = func(phase string, rate float64, trials int) {
		notices.show("trial %d, %s: %.0f tuples a second", trials+1, phase, rate)
	}
	// Most notices of a trial's sender report what the search is looking for, such as an engine
	// that refuses too much load. The trial's verdict says the same, so only three kinds of notices
	// are shown.
	o.Notice = func(n generator.Notice) {
		if n.Mark == generator.ReceiverGone || n.Mark == generator.SenderGone ||
			n.Mark == generator.Malformed {
			notices.say(n)
		}
	}
	var search *generator.Search
	var start func(done func(ids ...uint64)) (stop func(), err error)
	if flags.target != "" {
		server, err := generator.ParseServer(flags.target)
		if err != nil {
			return command.Usagef("--target: %v", err)
		}
		o.Connect = server.Connect
		start = func(done func(ids ...uint64)) (func(), error) { return server.Start(done), nil }
	} else {
		o.Connect = func(thread int) (generator.Sink, error) {
			to := flags.to[thread%len(flags.to)]
			return generator.NewPush(ctx, to,
				generator.PushOptions{Batch: o.Batch, Peer: func(gone bool) {
					if gone {
						search.Mark(generator.ReceiverGone, to+": the connection broke: messages "+
							"on their way may be lost")
					} else {
						notices.say(generator.Notice{Mark: generator.ReceiverGone,
							Text: to + ": the connection is back"})
					}
				}})
		}
		start = func(done func(ids ...uint64)) (func(),
			error) {
			return listenBack(ctx, flags.back, done, search.Mark)
		}
	}
	search, err = generator.NewSearch(o)
	if err != nil {
		return asUsage(err)
	}
	stop, err := start(search.Done)
	if err != nil {
		return err
	}
	r, err := search.Run(ctx)
	stop()
	notices.line.Done()
	if err != nil {
		return err
	}
	return flags.print(stdout, r)
}

func (f *genSearchFlags) check() error {
	if (f.target == "") == (len(f.to) == 0) {
		return command.Usagef("give --to with --back, or --target, and not both")
	}
	if (len(f.to) == 0) != (len(f.back) == 0) {
		return command.Usagef("--to needs --back: where the engine sends what it has finished")
	}
	return cmp.Or(checkEndpoints("to", f.to), checkEndpoints("back", f.back))
}

// print prints and draws the result. It returns an error unless the search found the engine's own
// limit, and confirmed it as often as was asked for.
func (f *genSearchFlags) print(stdout io.Writer, r generator.SearchResult) error {
	var err error
	if f.json {
		err = json.NewEncoder(stdout).Encode(r)
	} else {
		err = r.WriteText(stdout)
	}
	if err == nil && f.svg != "" {
		err = command.Draw(f.svg, searchFigure(r).WriteSVG)
	}
	if err != nil {
		return err
	}
	switch {
	case r.LimitedBy == generator.ByNothing:
		return fmt.Errorf("no rate was sustained: %w", command.ErrPartial)
	case r.LimitedBy != generator.ByEngine:
		return fmt.Errorf("the engine's own limit was not reached: %w", command.ErrPartial)
	case r.Confirmed < r.Wanted:
		return fmt.Errorf("the rate was confirmed %d of %d times: %w", r.Confirmed, r.Wanted,
			command.ErrPartial)
	}
	return marksError(r.Marks)
}

// listenBack receives the tuples that an engine sends back, and passes their ids to the search.
func listenBack(ctx context.Context, at []string, done func(ids ...uint64),
	mark func(generator.Mark, string)) (stop func(), err error) {
	var pulls []*generator.Pull
	for _, a := range at {
		p, err := generator.NewPull(a, generator.PullOptions{})
		if err != nil {
			for _, p := range pulls {
				p.Close()
			}
			return nil, err
		}
		pulls = append(pulls, p)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for _, p := range pulls {
		wait.Go(func() {
			defer p.Close()
			var b generator.Bucket
			var ids []uint64
			for ctx.Err() == nil {
				if err := p.Receive(&b, 64); err != nil {
					mark(generator.SenderGone, err.Error())
					return
				}
				for _, err := range b.Malformed {
					mark(generator.Malformed, fmt.Sprintf("what the engine sends back: %v", err))
				}
				ids = ids[:0]
				for _, t := range b.Tuples {
					ids = append(ids, t.ID)
				}
				if len(ids) > 0 {
					done(ids...)
				}
			}
		})
	}
	return func() { cancel(); wait.Wait() }, nil
}
