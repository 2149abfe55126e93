package engine

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/generator"
)

// Searched is an engine whose sustained throughput can be searched for.
type Searched interface {
	demo.Engine
	// Begin starts a job whose sources take events from a load. When the job has done its work on
	// an event, it writes the event's id back to the load.
	Begin(ctx context.Context, l *Load) error
	// Sources returns how many sources the job has.
	Sources() int
}

type searchFlags struct {
	wanted bool
	trial  time.Duration
	json   bool
}

func (s *searchFlags) declare() {
	flag.BoolVar(&s.wanted, "search", false,
		"search for the throughput that the engine sustains, without agent and nodes")
	flag.DurationVar(&s.trial, "trial", 5*time.Second, "with -search: `length` of a trial")
	flag.BoolVar(&s.json, "json", false, "with -search: print the result as one JSON object")
}

// search searches for the highest rate that an engine sustains.
func (d *Demonstration) search(ctx context.Context, flags searchFlags, e Searched) error {
	d.Agent = "" // it would log to rings that nobody drains
	temporary, err := os.MkdirTemp("", "engine-")
	if err != nil {
		return fmt.Errorf("make a directory for the engine: %w", err)
	}
	defer os.RemoveAll(temporary)
	var nodes []demo.EngineNode
	for i := range e.Nodes() {
		name := string(rune('A' + i))
		nodes = append(nodes, demo.EngineNode{Name: name, Rings: filepath.Join(temporary, name)})
	}
	defer e.Stop()
	fmt.Fprintln(os.Stderr, "starting the engine's cluster …")
	if err := e.Start(ctx, nodes, temporary); err != nil {
		return err
	}
	events, err := Events(true)
	if err != nil {
		return err
	}
	var search *generator.Search
	var out Counter
	l, err := Listen(func(ids ...uint64) {
		out.Done(ids...)
		search.Done(ids...)
	})
	if err != nil {
		return err
	}
	defer l.Close()
	var sinks []*sink
	for range e.Sources() {
		sinks = append(sinks, &sink{load: l})
	}
	search, err = generator.NewSearch(generator.SearchOptions{
		Connect: func(thread int) (generator.Sink, error) { return sinks[thread], nil },
		Tuples:  events, Threads: len(sinks), Batch: batch,
		Start: float64(d.PerSecond), Trial: flags.trial, Resolution: 0.05, Growth: 0.01,
		MaxTrials: 30,
		Progress: func(phase string, rate float64, n int) {
			fmt.Fprintf(os.Stderr, "trial %d, %s: %.0f events a second …\n", n+1, phase, rate)
		},
	})
	if err != nil {
		return err
	}
	if err := e.Begin(ctx, l); err != nil {
		return err
	}
	if err := l.Connected(ctx, e.Sources()); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "warming up …")
	if err := warmUp(ctx, warmUpTime, events, sinks, &out); err != nil {
		return err
	}
	r, err := search.Run(ctx)
	if err != nil {
		return err
	}
	if flags.json {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	return r.WriteText(os.Stdout)
}

// warmUp makes the engine's virtual machines compile the code that they run. It sends events as
// fast as the engine takes them, and waits until all of these events have come out.
func warmUp(
	ctx context.Context, d time.Duration, events *generator.Tuples, sinks []*sink, out *Counter,
) error {
	sender, err := generator.NewSender(generator.SenderOptions{
		FlatOut: d, Tuples: events, Threads: len(sinks), Batch: batch, GiveUp: giveUp,
		Connect: func(thread int) (generator.Sink, error) { return lentSink{sinks[thread]}, nil },
	})
	if err != nil {
		return err
	}
	r, err := sender.Run(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, giveUp)
	defer cancel()
	for tick := time.Tick(50 * time.Millisecond); out.Load() < int64(r.Sent); {
		select {
		case <-ctx.Done():
			return fmt.Errorf("warm up: %d of %d events came out: %w", out.Load(), r.Sent,
				context.Cause(ctx))
		case <-tick:
		}
	}
	return nil
}

const warmUpTime = 15 * time.Second

// lentSink is a sink that stays open when a sender closes it. The next trial uses the same
// connection.
type lentSink struct{ *sink }

func (s lentSink) Close(generator.End) error { return s.sendRest() }
