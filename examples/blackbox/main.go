package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func main() {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer release()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "demonstrate messages: %v\n", err)
		release()
		os.Exit(1)
	}
}

// run runs the testbed, or the process of the testbed that the first argument names.
func run(ctx context.Context, args []string) error {
	number := func(i int) int {
		n, _ := strconv.Atoi(args[i])
		return n
	}
	switch {
	case len(args) == 1 && args[0] == "process":
		return demo.Process(ctx, os.Stdin, os.Stdout)
	case len(args) == 6 && args[0] == "gateway":
		return runGateway(ctx, args[1], args[2], args[3], number(4), args[5])
	case len(args) == 6 && args[0] == "load":
		return runLoad(ctx, args[1], number(2), number(3), number(4), args[5])
	case len(args) == 2 && args[0] == "counter":
		return runCounter(args[1])
	}
	t := &testbed{}
	keep := flag.String("keep", "", "`directory` to make, for the run and its page")
	flag.StringVar(&t.Java, "java", "java", "command that runs Java")
	flag.StringVar(&t.Epoll, "epoll", "", "the service in C, compiled")
	flag.StringVar(&t.Source, "services", "examples/blackbox/services",
		"`directory` of the services in Java and Python")
	flag.StringVar(&t.Truth, "truth", "", "`directory` for the truth and the services' logs")
	flag.StringVar(&t.Preload, "preload", "", "library to load into the services, instead of "+
		"a capture by the kernel")
	flag.IntVar(&t.Workers, "workers", 8, "threads, goroutines or connections of each service")
	flag.IntVar(&t.Connections, "connections", 16, "connections of the load")
	flag.IntVar(&t.Requests, "requests", 20_000, "requests to send")
	flag.IntVar(&t.PerSecond, "rate", 1000, "requests to send a second, at most")
	flag.Parse()
	var err error
	if t.self, err = os.Executable(); err != nil {
		return err
	}
	for _, p := range []*string{&t.Truth, &t.Source, &t.Epoll, &t.Preload} {
		if err := absolute(p); err != nil {
			return err
		}
	}
	_, err = demo.RunEngine(ctx, demo.Options{
		Command: []string{t.self, "process"}, Keep: *keep, Program: "the testbed of messages",
		Scratch:  os.TempDir(),
		Progress: func(step string) { fmt.Fprintln(os.Stderr, step, "…") },
	}, t, time.Duration(t.Requests/t.PerSecond+1)*time.Second)
	if err != nil && !errors.Is(err, command.ErrPartial) {
		return err
	}
	return errors.Join(err, t.print(os.Stdout))
}

// runCounter takes the place of Redis on machines without Redis. It answers each line that it
// receives.
func runCounter(at string) error {
	l, err := net.Listen("tcp", at)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			for lines := bufio.NewScanner(c); lines.Scan(); {
				io.WriteString(c, ":1\r\n")
			}
		}()
	}
}
