package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// node is the process of a virtual node. It does what cp-agent does, but with virtual clocks
// instead of the machine's clocks.
type node struct {
	setup  nodeSetup
	clock  minrtt.Clock
	notice *minrtt.StepNotice
	client *tscclient.Client
	agent  *agent.Agent
	paper  *paperAnswerer
	sink   net.Listener       // takes the load on the network
	unload context.CancelFunc // ends the load that this node sends; nil: it sends none
}

func startNode(ctx context.Context, s nodeSetup) (_ role, says readyAnswer, err error) {
	agent.LimitMemory()
	n := &node{setup: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
		}
	}()
	if n.notice, err = minrtt.OpenStepNotice(); err != nil {
		return nil, says, err
	}
	step := host.StampStep(os.DirFS("/"), s.PhysicalCores)
	physical := minrtt.SystemClock(asm.Counter, n.notice, step)
	physical.Quantum_cycles = s.PhysicalQuantum_cycles
	if n.clock, err = virtual.Clock(s.Clocks, physical); err != nil {
		return nil, says, err
	}
	clocks, err := virtual.HostClocks(s.Clocks, host.SystemClocks())
	if err != nil {
		return nil, says, err
	}
	config := tscclient.DefaultConfig()
	config.Node, config.Clock, config.Listen = s.Node, n.clock, netip.AddrPortFrom(s.Address, 0)
	config.Secret = minrtt.NewSecret()
	if s.Often {
		config.Budget = tscclient.Budget{TrainsPerSecond: 40, CPUShare: 0.1}
		config.Pace = tscclient.Pace{
			Target:  100 * time.Nanosecond,
			Fastest: 100 * time.Millisecond, Slowest: 500 * time.Millisecond,
		}
	}
	client, err := tscclient.Start(config)
	if err != nil {
		return nil, says, err
	}
	n.client = client
	n.agent, err = agent.Start(agent.Config{
		Node: s.Node.Name, Rings: s.Rings, State: s.State, Chrony: s.Chrony, Client: client,
		Observe: host.Observer{Root: os.DirFS("/"), Clocks: clocks}.Observe,
		Server: &tscclient.LinkConfig{
			Server: control.ClientConfig{Server: s.Server, Key: &s.Key, Public: s.ServerPublic},
			Register: control.Register{
				Number: s.Number, Virtual: true,
				Machine: "this", Cores: runtime.NumCPU(), Software: "cprof demo",
			},
		},
	})
	if err != nil {
		return nil, says, errors.Join(err, client.Close())
	}
	if n.paper, err = answerPaper(ctx, netip.AddrPortFrom(s.Address, 0), n.clock); err != nil {
		return nil, says, err
	}
	if n.sink, err = net.Listen("tcp", netip.AddrPortFrom(s.Address, 0).String()); err != nil {
		return nil, says, fmt.Errorf("listen for load: %w", err)
	}
	go discardLoad(n.sink)
	return n, readyAnswer{Paper: n.paper.address, Load: n.sink.Addr().String()}, nil
}

func (n *node) close() error {
	var errs []error
	if n.unload != nil {
		n.unload()
	}
	if n.sink != nil {
		errs = append(errs, n.sink.Close())
	}
	if n.paper != nil {
		n.paper.close()
	}
	if n.agent != nil {
		errs = append(errs, n.agent.Close()) // closes the client too
	}
	if n.notice != nil {
		errs = append(errs, n.notice.Close())
	}
	return errors.Join(errs...)
}

func (n *node) obey(ctx context.Context, o order) (r orderReport, err error) {
	switch o.Do {
	case orderPaper:
		r.Exchanges, err = probePaper(ctx, o.Peer, n.clock, o.Count)
	case orderLoad:
		if n.unload != nil {
			n.unload()
			n.unload = nil
		}
		if o.BytesPerSecond > 0 {
			n.unload, err = load(ctx, o.Peer, o.BytesPerSecond)
		}
	case orderChrony:
		err = awaitFollowing(ctx)
	case orderStamps:
		s := n.client.Stats()
		r.Stamps = &stamps{Exchanges: s.Exchanges, Kernel: s.KernelStamps, User: s.UserStamps}
	default:
		err = fmt.Errorf("unknown order %q", o.Do)
	}
	return r, err
}

// partDirectory returns the directory in which the node's agent keeps its part of the run.
func (s nodeSetup) partDirectory() string { return filepath.Join(s.State, "runs", runName) }

// drainedDirectory returns the directory in which the agent keeps the drained logs, with the
// physical readings.
func (s nodeSetup) drainedDirectory() string {
	return filepath.Join(s.partDirectory(), filepath.FromSlash(runs.LogsPath(s.Node.Name)))
}

// load sends bytes to an address at a steady rate, until the returned function is called.
func load(ctx context.Context, to string, perSecond int) (context.CancelFunc, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, fmt.Errorf("load the network: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { conn.Close() })
	go func() {
		const period = 5 * time.Millisecond
		b := make([]byte, perSecond/int(time.Second/period))
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if _, err := conn.Write(b); err != nil { // cancelled, or the other end is gone
					return
				}
			}
		}
	}()
	return cancel, nil
}

// discardLoad accepts connections until the listener is closed. It discards the bytes that the
// function load sends over them.
func discardLoad(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			io.Copy(io.Discard, conn)
		}()
	}
}
