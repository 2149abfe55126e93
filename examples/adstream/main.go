package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

//go:embed loopback.yaml
var loopback []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "adstream:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("see above")

// options are the flags.
type options struct {
	placement, node, name, instrument, rings, logs, policy string

	tuples int
	rate   float64
	seed   uint64
	json   bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("adstream", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, `usage: adstream [-placement FILE] [-node NAME] [flags]

  adstream -logs /tmp/ads                        run three nodes, with logs in /tmp/ads/NODE
  adstream -node b -placement placement.yaml     run node b; start the others too, in any order

`)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.placement, "placement", "",
		"`file` that says which operators run on which node; "+
			"without it: three nodes on the loopback interface")
	flags.StringVar(&o.node, "node", "", "run this `node` only; without it: all nodes")
	flags.StringVar(&o.name, "name", "ads", "the job's `name`, the same on all nodes")
	flags.StringVar(&o.instrument, "instrument", string(job.Full),
		"`what` channels do: full (keep every event), null (discard) or off (no channels)")
	flags.StringVar(&o.rings, "rings", "", "`directory` for the rings of each node, RINGS/NODE; "+
		"without it: the agent's, or with -logs a temporary one")
	flags.StringVar(&o.logs, "logs", "", "`directory` to drain the logs of each node into, "+
		"LOGS/NODE; without it: an agent must drain")
	flags.StringVar(&o.policy, "policy", "block", "`what` to do when a ring is full: block or drop")
	flags.IntVar(&o.tuples, "tuples", -1, "how `many` tuples to send; -1: as the placement says")
	flags.Float64Var(&o.rate, "rate", -1, "`tuples` to send a second; 0: as fast as possible; "+
		"-1: as the placement says")
	flags.Uint64Var(&o.seed, "seed", 0, "`seed` of the stream; without it: as the placement says")
	flags.BoolVar(&o.json, "json", false, "print one JSON object")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return errUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "adstream: argument %q: use flags only\n", flags.Arg(0))
		flags.Usage()
		return errUsage
	}
	seeded := false
	flags.Visit(func(f *flag.Flag) { seeded = seeded || f.Name == "seed" })
	p, err := o.readPlacement(seeded)
	if err != nil {
		return err
	}
	return o.run(ctx, p, stdout)
}

// readPlacement reads the placement and applies the flags that change it.
func (o *options) readPlacement(seeded bool) (*job.Placement, error) {
	var p *job.Placement
	var err error
	if o.placement != "" {
		p, err = job.ReadPlacement(o.placement)
	} else if p, err = job.ParsePlacement(loopback); err == nil && o.node == "" {
		p.OnLoopback()
	}
	if err != nil {
		return nil, err
	}
	if o.tuples >= 0 {
		p.Stream.Tuples = o.tuples
	}
	if o.rate >= 0 {
		p.Stream.PerSecond = o.rate
	}
	if seeded {
		p.Stream.Seed = o.seed
	}
	return p, p.Validate()
}

func (o *options) run(ctx context.Context, p *job.Placement, stdout io.Writer) (err error) {
	jobOptions := job.Options{Name: o.name, Rings: o.rings, Logs: o.logs}
	if jobOptions.Instrumentation, err = job.ParseInstrumentation(o.instrument); err != nil {
		return err
	}
	jobOptions.Channels.Policy = o.policy
	if o.logs != "" && o.rings == "" {
		if err := ring.MakeDirectory(ring.DefaultDirectory()); err != nil {
			return err
		}
		shared := filepath.Dir(ring.DefaultDirectory())
		if jobOptions.Rings, err = os.MkdirTemp(shared, "adstream-rings-"); err != nil {
			return fmt.Errorf("make a directory for rings: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(jobOptions.Rings)) }()
	}
	cluster, err := job.StartCluster(p, o.node)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	result, err := cluster.Run(ctx, jobOptions)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	s := summary{Result: result}
	if o.node == "" {
		if err := s.checkCounts(ctx, cluster, p, o.name); err != nil {
			return err
		}
	}
	if o.json {
		return json.NewEncoder(stdout).Encode(s)
	}
	return s.print(stdout, o.logs)
}

// summary contains what the program prints.
type summary struct {
	job.Result
	// Windows and Wrong are 0 unless all nodes are in this process.
	Windows int `json:"windows,omitempty"` // windows that were stored
	Wrong   int `json:"wrong"`             // windows that were counted wrong, or not at all
}

// checkCounts compares what the job counted with what a loop over the same stream counts.
func (s *summary) checkCounts(
	ctx context.Context, cluster *job.Cluster, p *job.Placement, name string,
) error {
	counted, err := cluster.Counted(ctx, name)
	if err != nil {
		return err
	}
	want := p.Stream.Expect(s.Begin_us)
	s.Windows = len(counted)
	for w, n := range want {
		if counted[w] != n {
			s.Wrong++
		}
		delete(counted, w)
	}
	s.Wrong += len(counted)
	return nil
}

func (s *summary) print(out io.Writer, logs string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %10s %10s\n", "instance", "taken", "sent")
	for _, stage := range job.Stages {
		for _, name := range slices.Sorted(maps.Keys(s.Actors)) {
			if strings.HasPrefix(name, stage+"#") {
				c := s.Actors[name]
				fmt.Fprintf(&b, "%-16s %10d %10d\n", name, c.Taken, c.Sent)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.ReturnTrips)) {
		c := s.ReturnTrips[name]
		fmt.Fprintf(&b, "return trips of %s: %d packets sent, %d received, %d not sent\n",
			name, c.Sent, c.Received, c.Unsent)
	}
	fmt.Fprintf(&b, "in %s", s.Elapsed.Round(time.Millisecond))
	if s.Windows > 0 {
		fmt.Fprintf(&b, ": %d windows, %d wrong", s.Windows, s.Wrong)
	}
	if logs != "" {
		fmt.Fprintf(&b, "\n%d events in %s, %d dropped; see: cprof log stat %s/*/*.cplog",
			s.Events, logs, s.Dropped, logs)
	} else {
		fmt.Fprint(&b, "\nthe events are in rings until an agent drains them; see: cprof ring list")
	}
	fmt.Fprintln(&b)
	if _, err := io.WriteString(out, b.String()); err != nil {
		return err
	}
	if s.Wrong > 0 {
		return fmt.Errorf("check counts: %d windows are wrong", s.Wrong)
	}
	return nil
}
