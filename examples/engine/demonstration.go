package engine

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
)

// Demonstration has the flags that the demonstrations of all engines share.
type Demonstration struct {
	Cluster
	Agent     string
	Job       string
	Events    int
	PerSecond int
}

// Lasts returns how long the job's source sends.
func (d *Demonstration) Lasts() time.Duration {
	return time.Duration(float64(d.Events) / float64(d.PerSecond) * float64(time.Second))
}

// Main is the main function of the demonstration of an engine, such as "Flink". The caller has
// declared the flags of its own. perSecond is the default of the flag -rate.
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
	var keep string
	flag.StringVar(&d.Java, "java", "java", "command that runs Java")
	flag.StringVar(&d.ClassPath, "classpath", "", name+"'s jars, with colons between")
	flag.StringVar(&d.Logs, "logs", "", "`directory` for what the processes say")
	flag.StringVar(&d.Agent, "agent", "",
		"cloudprofiler.jar, perhaps with =CONFIGURATION; empty: no agent")
	flag.StringVar(&d.Job, "job", "", "jar with the job")
	flag.IntVar(&d.Events, "events", 300_000, "events to send")
	flag.IntVar(&d.PerSecond, "rate", perSecond, "events to send a second")
	flag.StringVar(&keep, "keep", "", "`directory` to make, for the run and its page")
	flag.Parse()
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
	return demo.PrintEngine(os.Stdout, r)
}
