package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// measuring is the node's part in measuring, and what it rests on.
type measuring struct {
	identity *tscclient.Identity
	notice   *minrtt.StepNotice
}

func (m *measuring) close() error {
	return errors.Join(m.identity.Close(), m.notice.Close())
}

// startClient finds out what this node is, and begins to answer probes. The agent closes the client.
func startClient(c config, a *agent.Config, log *slog.Logger) (*measuring, error) {
	identity, err := tscclient.Identify(a.Node)
	if err != nil {
		return nil, err
	}
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch the clock for steps: %w", err), identity.Close())
	}
	m := &measuring{identity, notice}
	config := tscclient.DefaultConfig()
	config.Node, config.Epoch, config.Clock = identity.Node, identity.Epoch, minrtt.SystemClock(identity.Counter, notice)
	config.Clock.Quantum_cycles = identity.Node.QuantumCycles
	if c.Probes != "" {
		if config.Listen, err = netip.ParseAddrPort(c.Probes); err != nil {
			return nil, errors.Join(fmt.Errorf("probes %q: %w", c.Probes, err), m.close())
		}
	}
	// Whoever is to probe this node gets it from the server.
	config.Key = make([]byte, 32)
	rand.Read(config.Key)
	if a.Client, err = tscclient.Start(config); err != nil {
		return nil, errors.Join(fmt.Errorf("answer probes: %w", err), m.close())
	}
	if c.Server == "" {
		return m, nil
	}
	link, err := linkConfig(c)
	if err != nil {
		return nil, errors.Join(err, a.Client.Close(), m.close())
	}
	link.Log = log
	link.Register.Software = "cp-agent"
	link.Register.Cores, link.Register.Machine = runtime.NumCPU(), identity.Report.Facts.MachineID
	a.Server = &link
	return m, nil
}

// linkConfig says who commands the agent.
func linkConfig(c config) (tscclient.LinkConfig, error) {
	link := tscclient.LinkConfig{Server: control.ClientConfig{Server: c.Server}}
	if (c.Key == "") != (c.ServerKey == "") {
		return link, errors.New("key and server_key: give both, or none where the server is on this machine")
	}
	if c.Key != "" {
		own, err := control.ReadKey(c.Key)
		if err != nil {
			return link, fmt.Errorf("key: %w", err)
		}
		server, err := control.ReadKey(c.ServerKey)
		if err != nil {
			return link, fmt.Errorf("server_key: %w", err)
		}
		link.Server.Key, link.Server.Public = &own, server.Public
	}
	if c.Advertise != "" {
		var err error
		if link.Advertise, err = netip.ParseAddrPort(c.Advertise); err != nil {
			return link, fmt.Errorf("advertise %q: %w", c.Advertise, err)
		}
	}
	return link, nil
}
