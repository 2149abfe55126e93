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
	Agent     string
	Job       string
	Instances int
	Events    int
	PerSecond int
	Kill      string
}

// Lasts returns how long the producer sends.
func (o *options) Lasts() time.Duration {
	return time.Duration(float64(o.Events) / float64(o.PerSecond) * float64(time.Second))
}

func main() {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		release()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) == 2 && os.Args[1] == "process" { // a process of the demonstration
		return demo.Process(ctx, os.Stdin, os.Stdout)
	}
	k := &kafka{}
	var keep string
	flag.StringVar(&k.Java, "java", "java", "command that runs Java")
	flag.StringVar(&k.ClassPath, "classpath", "", "Kafka's jars, with colons between")
	flag.StringVar(&k.Logs, "logs", "", "`directory` for what the processes say")
	flag.StringVar(&k.Agent, "agent", "",
		"cloudprofiler.jar, perhaps with =CONFIGURATION; empty: no agent")
	flag.StringVar(&k.Job, "job", "", "jar with the programs")
	flag.IntVar(&k.Instances, "instances", 2, "how many instances of the Streams application")
	flag.IntVar(&k.Events, "events", 300_000, "events to send")
	flag.IntVar(&k.PerSecond, "rate", 10_000, "events to send a second")
	flag.StringVar(&k.Kill, "kill", "",
		"kill and restart this halfway: broker, or instance for one of the application")
	flag.StringVar(&keep, "keep", "", "`directory` to make, for the run and its page")
	flag.Parse()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	r, err := demo.RunEngine(ctx, demo.Options{
		Command: []string{self, "process"}, Keep: keep, Program: "cprof demo of Kafka",
		Scratch:  os.TempDir(),
		Progress: func(step string) { fmt.Fprintln(os.Stderr, step, "…") },
	}, k, k.Lasts())
	if err != nil {
		return err
	}
	return demo.PrintEngine(os.Stdout, r)
}
