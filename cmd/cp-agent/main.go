package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/internal/doctor"
)

func main() {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	daemon.Main(program(reload))
}

func program(reload <-chan os.Signal) daemon.Daemon[config] {
	return daemon.Daemon[config]{
		Name:  "cp-agent",
		Short: "Keep what this node's programs log",
		Long: `Keep what this node's programs log.

The agent finds the rings of this user's programs as they appear, and moves the records in the rings
into log files. Each record arrives exactly once, even if programs or the agent are killed. The
agent needs no server. Without a server, logs are in logs/000000/ in --state, and "cprof log" reads
them.

SIGTERM makes the agent write everything to disk and end. SIGHUP makes it read the configuration
again and apply the new limits. It reads the handler table's file whenever the file changes. While
the agent runs, "cprof agent status" shows its state, "cprof snapshot" makes it dump flight
recorders, and "cprof agent begin" makes it keep the logs of an experiment separately.

If root starts the agent, it gives up root's capabilities or becomes the configured user. It drains
only rings of the user that it runs as. With --capture ready or on, it keeps two capabilities, with
which it sees the messages that all programs of the machine exchange: their sizes, times and
addresses, and never their content.`,
		Example: `  cp-agent
  cp-agent --handler-table handlers.yaml --metrics 127.0.0.1:9464
  cp-agent --config /etc/cloudprofiler/cp-agent.yaml
  cp-agent --config /etc/cloudprofiler/cp-agent.yaml --check`,
		Flags: addFlags,
		Check: (*config).check,
		Serve: func(ctx context.Context, s daemon.Start[config]) error {
			if err := drop(s.Config); err != nil {
				return err
			}
			return serve(ctx, s, reload)
		},
	}
}

// serve runs the agent until ctx ends.
func serve(ctx context.Context, s daemon.Start[config], reload <-chan os.Signal) error {
	agent.LimitMemory()
	c, log := s.Config, s.Log
	if left := os.Getenv(droppedVariable); left != "" {
		log.Warn("some privileges could not be given up", "reason", left)
	}
	a, err := c.agent()
	if err != nil {
		return err
	}
	a.Notify = func(err error) { log.Warn(err.Error()) }
	a.Capture = c.capturer(a.Notify)
	node, err := startClient(s, &a)
	switch {
	case err == nil:
		defer node.Close()
	case c.Server != "" || c.Probes != "": // without it, other nodes could not measure this node
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
	machine := doctor.System()
	machine.Rings = status.Rings
	if f := machine.Logout(); f.Verdict != host.Fit {
		log.Warn(f.Detail, "remedy", f.Remedy)
	}
	log.Info("draining", "node", status.Node, "rings", status.Rings, "logs", status.Logs,
		"run", status.Run, "handler_table", status.Table.Source)
	if c.Capture == captureOn {
		if err := running.StartCapture(); err != nil {
			log.Error("messages are not captured, everything else runs", "reason", err)
		} else {
			log.Info("capturing messages")
		}
	}
	for {
		select {
		case <-ctx.Done():
			log.Info("moving the last records into logs")
			if err := running.Close(); err != nil {
				return fmt.Errorf("end agent: %w", err)
			}
			return nil
		case <-reload:
			next, err := s.Again()
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

// apply applies the settings that can change while the agent runs.
func apply(running *agent.Agent, old, next config) error {
	a, err := next.agent()
	if err != nil {
		return err
	}
	old.MaxRunBytes, old.MinFree = next.MaxRunBytes, next.MinFree
	if keys := changed(old, next); len(keys) > 0 {
		return fmt.Errorf("%s cannot change while the agent runs: start it again: "+
			"only max_run_bytes and min_free can", strings.Join(keys, ", "))
	}
	return running.SetLimits(a.MaxRunBytes, a.MinFree)
}
