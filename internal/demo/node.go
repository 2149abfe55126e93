package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// Node is the process of one virtual node. It does what its parent orders until its input ends.
func Node(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parent := newLink(in, out)
	var s setup
	if err := parent.in.Decode(&s); err != nil {
		return fmt.Errorf("read setup: %w", err)
	}
	prober, err := startProber(ctx, s)
	if err != nil {
		return err
	}
	defer prober.close()
	tuples, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("listen for tuples: %w", err)
	}
	defer tuples.Close()
	if err := parent.send(ready{Probes: prober.address, Tuples: tuples.Addr().String()}); err != nil {
		return err
	}
	for {
		var o order
		if err := parent.in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read order: %w", err)
		}
		r, err := obey(ctx, o, s, prober, tuples)
		if err != nil {
			r.Error = err.Error()
		}
		if err := parent.send(r); err != nil {
			return err
		}
	}
}

func obey(ctx context.Context, o order, s setup, p *prober, tuples *net.TCPListener) (r report, err error) {
	switch o.Do {
	case orderProbe:
		r.Trains = make([]train, 1)
		r.Trains[0], err = p.train(ctx, o.Peer, o.Count)
	case orderStart:
		p.start(ctx, o.Peer, o.PerSecond)
	case orderStop:
		r.Trains, err = p.stop()
	case orderWork:
		err = drained(s, func() error { return work(ctx, tuples, s.Rings, o.Count) })
	case orderSource:
		err = drained(s, func() error { return source(ctx, o.Peer, s.Rings, o.Count, o.PerSecond) })
	default:
		err = fmt.Errorf("unknown order %q", o.Do)
	}
	return r, err
}

// drained runs a job while the node's agent keeps what it logs, as a run.
func drained(s setup, job func() error) error {
	a, err := agent.Start(agent.Config{
		Node: s.Clocks.Name, Rings: s.Rings, State: s.State, Chrony: agent.ChronyOff, Quantum_cycles: s.PhysicalQuantum_cycles,
	})
	if err != nil {
		return err
	}
	if _, err := a.OpenRun(runName); err != nil {
		return errors.Join(err, a.Close())
	}
	err = job()
	_, closeErr := a.CloseRun(runName)
	return errors.Join(err, closeErr, a.Close())
}

// runName is what the agents call the demonstration.
const runName = "demo"

// logs is where the agent of a node keeps the demonstration's.
func (s setup) logs() string {
	return filepath.Join(s.State, "runs", runName, runs.LogsPath(s.Clocks.Name))
}
