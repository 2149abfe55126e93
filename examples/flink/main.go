package main

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

// options are the flags.
type options struct {
	Agent        string
	Job          string
	Class        string
	TaskManagers int
	Events       int
	PerSecond    int
	KillOne      bool
}

// Lasts returns how long the job's source sends.
func (o *options) Lasts() time.Duration {
	return time.Duration(float64(o.Events) / float64(o.PerSecond) * float64(time.Second))
}

func main() {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "flink:", err)
		release()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) == 2 && os.Args[1] == "process" { // a process of the demonstration
		return demo.Process(ctx, os.Stdin, os.Stdout)
	}
	f := &flink{}
	var keep string
	flag.StringVar(&f.Java, "java", "java", "command that runs Java")
	flag.StringVar(&f.ClassPath, "classpath", "", "Flink's jars, with colons between")
	flag.StringVar(&f.Logs, "logs", "", "`directory` for what the processes say")
	flag.StringVar(&f.Agent, "agent", "",
		"cloudprofiler.jar, perhaps with =CONFIGURATION; empty: no agent")
	flag.StringVar(&f.Job, "job", "", "jar with the job")
	flag.StringVar(&f.Class, "class", "adstream.Job", "the job's main class")
	flag.IntVar(&f.TaskManagers, "taskmanagers", 2, "how many TaskManagers, each on its node")
	flag.IntVar(&f.Events, "events", 300_000, "events to send")
	flag.IntVar(&f.PerSecond, "rate", 15_000, "events to send a second")
	flag.BoolVar(&f.KillOne, "kill", false, "kill a TaskManager halfway, and start another one")
	flag.StringVar(&keep, "keep", "", "`directory` to make, for the run and its page")
	flag.Parse()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	r, err := demo.RunEngine(ctx, demo.Options{
		Command: []string{self, "process"}, Keep: keep, Program: "cprof demo of Flink",
		Scratch:  os.TempDir(),
		Progress: func(step string) { fmt.Fprintln(os.Stderr, step, "…") },
	}, f, f.Lasts())
	if err != nil {
		return err
	}
	return demo.PrintEngine(os.Stdout, r)
}
