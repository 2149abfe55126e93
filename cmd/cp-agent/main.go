package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// The first signal asks it to write everything down and end. From then on signals act as usual: a second one kills.
	context.AfterFunc(ctx, stop)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	os.Exit(run(ctx, reload, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command, and returns its exit code: 0 it ended as it was asked to, 1 it failed, 2 the command line or the configuration is wrong.
func run(ctx context.Context, reload <-chan os.Signal, args []string, stdout, stderr io.Writer) int {
	var path string
	var check bool
	cmd := &cobra.Command{
		Use:   "cp-agent",
		Short: "Keep what this node's programs log",
		Long: `Keep what this node's programs log.

It finds the rings of this user's programs as they appear, and moves what they hold into log files, each record exactly once, whatever is
killed. Without a server it is complete: logs are in logs/000000/ below --state, and "cprof log" reads them.

SIGTERM writes everything down and ends. SIGHUP reads the configuration again: its limits hold from then on. The handler table's file is
read whenever it changes. While it runs, "cprof agent status" asks it how it goes, "cprof snapshot" has flight recorders dumped,
and "cprof agent begin" keeps the logs of an experiment apart.

Started by root it gives up root's capabilities, or becomes the configured user. It drains the rings of the user that it runs as, and of no other.`,
		Example: `  cp-agent
  cp-agent --handler-table handlers.yaml --listen 127.0.0.1:9464
  cp-agent --config /etc/cloudprofiler/cp-agent.yaml
  cp-agent --config /etc/cloudprofiler/cp-agent.yaml --check`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration file; flags that are given hold over it")
	cmd.Flags().BoolVar(&check, "check", false, "read the configuration, say what is wrong with it, and end")
	addFlags(cmd)
	usage := true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		read := func() (config, error) { return readConfig(path, cmd) }
		c, err := read()
		if err != nil {
			return err
		}
		if check {
			fmt.Fprintln(stdout, "the configuration can be used")
			return nil
		}
		usage = false
		if err := drop(c); err != nil {
			return err
		}
		return serve(cmd.Context(), reload, read, c, slog.New(slog.NewTextHandler(stderr, nil)))
	}
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "cp-agent: %v\n", err)
	if usage {
		fmt.Fprintln(stderr, `see "cp-agent --help"`)
		return 2
	}
	return 1
}

// serve runs the agent until ctx ends.
func serve(ctx context.Context, reload <-chan os.Signal, read func() (config, error), c config, log *slog.Logger) error {
	agent.LimitMemory()
	if left := os.Getenv(droppedVariable); left != "" {
		log.Warn("some privileges could not be given up", "reason", left)
	}
	a, err := c.agent()
	if err != nil {
		return err
	}
	a.Notify = func(err error) { log.Warn(err.Error()) }
	m, err := startClient(c, &a, log)
	switch {
	case err == nil:
		defer m.close()
	case c.Server != "":
		return err
	default:
		log.Warn("logs will not say how far this node's counter can be trusted", "reason", err)
	}
	running, err := agent.Start(a)
	if err != nil {
		if a.Client != nil {
			err = errors.Join(err, a.Client.Close())
		}
		return err
	}
	status := running.Status()
	log.Info("draining", "node", status.Node, "rings", status.Rings, "logs", status.Logs, "run", status.Run, "handler_table", status.Table.Source)
	for {
		select {
		case <-ctx.Done():
			log.Info("writing down what is left")
			if err := running.Close(); err != nil {
				return fmt.Errorf("end agent: %w", err)
			}
			return nil
		case <-reload:
			next, err := read()
			if err == nil {
				err = apply(running, c, next)
			}
			if err != nil {
				log.Error("the configuration stays as it was", "reason", err)
				continue
			}
			c = next
			log.Info("read the configuration again")
		}
	}
}

// apply puts in force what can change while the agent runs.
func apply(running *agent.Agent, old, next config) error {
	a, err := next.agent()
	if err != nil {
		return err
	}
	old.MaxRunBytes, old.MinFree = next.MaxRunBytes, next.MinFree
	if old != next {
		return errors.New("only max_run_bytes and min_free can change while it runs: start it again for the rest")
	}
	return running.SetLimits(a.MaxRunBytes, a.MinFree)
}
