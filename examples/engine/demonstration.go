package engine

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// Demonstration has the flags that the demonstrations of all engines share.
type Demonstration struct {
	Cluster
	Agent     string
	Job       string
	Events    int
	PerSecond int

	// Path lists, in order, the spans of an event's path in which the event may have to wait. Whole
	// is the longest span for which the engine claims a latency.
	Path  [][2]string
	Whole [2]string

	// OfRecent is true if the latencies that the engine states are those of the last events, and
	// not of all events.
	OfRecent bool

	schedule generator.Schedule
	recent   [][2]uint64 // ids of the last three fifths of the events
	lines    []string    // lines of text to print at the end
	claims   []Claim
}

// Sayf adds a line of text to the result.
func (d *Demonstration) Sayf(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// Claims notes latencies that the engine claims. The demonstration later compares them with
// measured values.
func (d *Demonstration) Claims(claims ...Claim) { d.claims = append(d.claims, claims...) }

// Offer waits until the given number of sources has connected. Then it sends all events, each to
// one source, by a schedule that does not wait for the engine. It logs when each event was due and
// when it was sent. These logs go into the directory rings. If this process may do so, the sending
// threads have priority over all other threads.
func (d *Demonstration) Offer(ctx context.Context, l *Load, sources int, rings string) error {
	if err := l.Connected(ctx, sources); err != nil {
		return err
	}
	events, err := Events(false)
	if err != nil {
		return err
	}
	o := generator.SenderOptions{
		Schedule: d.schedule, Tuples: events, Threads: sources, Connect: l.Connect, Batch: batch,
		GiveUp: giveUp, Log: &handlers.Options{Dir: rings}, Realtime: true,
	}
	sender, err := generator.NewSender(o)
	if errors.Is(err, os.ErrPermission) {
		o.Realtime = false
		sender, err = generator.NewSender(o)
	}
	if err != nil {
		return err
	}
	r, err := sender.Run(ctx)
	if err != nil {
		return err
	}
	d.Sayf("%d events were due, %d were sent, %d of them more than 10 µs late (%s); p99 %s late",
		r.Scheduled, r.Sent, r.Late, r.Lateness,
		time.Duration(r.SendLag.ValueAtQuantile(99)).Round(time.Microsecond))
	if r.Drops != "" {
		return errors.New(r.Drops)
	}
	if r.Sent != r.Scheduled {
		return fmt.Errorf("send %d events: %d were sent: the engine takes no more", r.Scheduled,
			r.Sent)
	}
	for _, e := range r.Ends {
		d.recent = append(d.recent, [2]uint64{e.First + e.Sent*2/5, e.First + e.Sent - 1})
	}
	return nil
}

// plan makes the schedule. About once in a millisecond, several events are due at the same time. If
// the sender waited for each event separately, it would spin, and the engine would have one core
// less.
func (d *Demonstration) plan() (err error) {
	size := max(1, d.PerSecond/1000)
	period := time.Duration(float64(size) / float64(d.PerSecond) * float64(time.Second))
	d.schedule, err = generator.Burst(size, period, d.Lasts())
	if err == nil {
		d.Events = int(d.schedule.Tuples())
	}
	return err
}

// batch is the largest number of events that are written to a source at once. Only events that are
// due are written.
const batch = 64

// giveUp is how late an event may be sent. It is long, because an engine takes no events while it
// recovers from a failure.
const giveUp = 2 * time.Minute

// A Counter counts the events that the engine has finished. It may be used by several goroutines.
type Counter struct{ atomic.Int64 }

// Done counts events.
func (c *Counter) Done(ids ...uint64) { c.Add(int64(len(ids))) }

// Lasts returns how long the job's source sends.
func (d *Demonstration) Lasts() time.Duration {
	return time.Duration(float64(d.Events) / float64(d.PerSecond) * float64(time.Second))
}

// Main is the main function of an engine's demonstration. The parameter name is the engine's name,
// such as "Flink". The caller has declared its own flags. perSecond is the default of the flag
// -rate.
func (d *Demonstration) Main(name string, perSecond int, e demo.Engine) {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	if err := d.run(ctx, name, perSecond, e); err != nil {
		fmt.Fprintf(os.Stderr, "demonstrate %s: %v\n", name, err)
		release()
		os.Exit(1)
	}
}

func (d *Demonstration) run(ctx context.Context, name string, perSecond int, e demo.Engine) error {
	if len(os.Args) == 2 && os.Args[1] == "process" { // a process of the demonstration
		return demo.Process(ctx, os.Stdin, os.Stdout)
	}
	var keep, picture string
	var search searchFlags
	flag.StringVar(&d.Java, "java", "java", "command that runs Java")
	flag.StringVar(&d.ClassPath, "classpath", "", name+"'s jars, with colons between")
	flag.StringVar(&d.Logs, "logs", "", "`directory` for the logs of the processes")
	flag.StringVar(&d.Agent, "agent", "",
		"cloudprofiler.jar, perhaps with =CONFIGURATION; empty: no agent")
	flag.StringVar(&d.Job, "job", "", "jar with the job")
	flag.IntVar(&d.Events, "events", 300_000, "events to send")
	flag.IntVar(&d.PerSecond, "rate", perSecond, "events to send a second")
	flag.StringVar(&keep, "keep", "", "`directory` to make, for the run and its page")
	flag.StringVar(&picture, "svg", "", "draw what was measured into this `file`")
	searched, ok := e.(Searched)
	if ok {
		search.declare()
	}
	flag.Parse()
	if search.wanted {
		return d.search(ctx, search, searched)
	}
	if err := d.plan(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	r, err := demo.RunEngine(ctx, demo.Options{
		Command: []string{self, "process"}, Keep: keep, Program: "cprof demo of " + name,
		Scratch:  os.TempDir(),
		Progress: func(step string) { fmt.Fprintln(os.Stderr, step, "…") },
	}, e, d.Lasts())
	if err != nil {
		return err
	}
	err = demo.PrintEngine(os.Stdout, r)
	for _, line := range d.lines {
		fmt.Println(line)
	}
	if err != nil || keep == "" {
		return err
	}
	return d.compare(ctx, os.Stdout, name, keep, picture, r.Answer)
}
