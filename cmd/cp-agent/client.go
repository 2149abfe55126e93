package main

import (
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// startClient measures this node and starts to answer probes. It sets the fields Server, Observe
// and Client of the agent's configuration. The agent closes the client.
func startClient(s daemon.Start[config], a *agent.Config) (*daemon.Node, error) {
	c := s.Config
	measuring := tscclient.DefaultConfig()
	node, err := daemon.OpenNode(c.Node, c.Rings, s.Log, &measuring)
	if err != nil {
		return nil, err
	}
	if err := node.ShareClock(c.sharedClock(), &measuring); err != nil {
		return nil, errors.Join(err, node.Close())
	}
	node.UseHardwareStamps(c.hardwareStamps(), s.Log, &measuring)
	if c.Probes != "" {
		if measuring.Listen, err = daemon.Address("probes", c.Probes); err != nil {
			return nil, errors.Join(err, node.Close())
		}
	}
	if c.Server != "" {
		link, err := daemon.Link(c.Node, c.Server, c.Key, c.ServerKey, c.Advertise)
		if err == nil {
			link.Register, err = node.Register("cp-agent")
		}
		if err != nil {
			return nil, errors.Join(err, node.Close())
		}
		link.Log = s.Log
		a.Server = &link
	}
	a.Observe, a.Facts = node.Observe, node.Says(c.Role)
	if a.Client, err = tscclient.Start(measuring); err != nil {
		return nil, errors.Join(fmt.Errorf("answer probes: %w", err), node.Close())
	}
	return node, nil
}
