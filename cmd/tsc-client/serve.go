package main

import (
	"context"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// serve answers probes and obeys commands until ctx ends.
func serve(ctx context.Context, s daemon.Start[config]) error {
	c, log := s.Config, s.Log
	p, err := c.plan()
	if err != nil {
		return err
	}
	node, err := daemon.OpenNode(c.Node, "", log, &p.client)
	if err != nil {
		return err
	}
	defer node.Close()
	if p.virtual != nil {
		if err := becomeVirtual(&p.client, *p.virtual); err != nil {
			return err
		}
	}
	if err := node.ShareClock(c.sharedClock(), &p.client); err != nil {
		return err
	}
	client, err := tscclient.Start(p.client)
	if err != nil {
		return err
	}
	defer client.Close()
	log.Info("answering probes", "node", p.client.Node.Name,
		"address", client.Address(), "epoch", client.Node().Epoch)
	if p.commands != nil {
		p.commands.Log = log
		commands, err := tscclient.ServeCommands(client, *p.commands, daemon.Release("tsc-client"))
		if err != nil {
			return fmt.Errorf("take commands: %w", err)
		}
		defer commands.Close()
		keys := "without keys: this machine only"
		if p.commands.Key != nil {
			keys = "with keys"
		}
		log.Info("taking commands", "address", commands.Address(), "security", keys)
	}
	if p.link != nil {
		p.link.Log = log
		if p.link.Register, err = node.Register("tsc-client"); err != nil {
			return err
		}
		says := node.Says(c.Role)
		p.link.Facts = func() []string { return says }
		p.link.Register.Virtual = p.virtual != nil
		link, err := tscclient.Connect(client, *p.link)
		if err != nil {
			return err
		}
		defer link.Close()
	}
	<-ctx.Done()
	stats := client.Stats()
	log.Info("ending",
		"trains", stats.Trains, "failed", stats.Failed, "probes answered", stats.Answers.Sent)
	return nil
}

// becomeVirtual replaces the machine's clocks, and the properties of its counter, by those of a
// virtual node.
func becomeVirtual(c *tscclient.Config, v vnode.Config) error {
	clock, err := virtual.Clock(v, c.Clock)
	if err != nil {
		return err
	}
	// A virtual counter may run faster than the machine's counter. Then the same core slack is more
	// cycles of the virtual counter. So faster(n) returns enough cycles for a counter that is 1 %
	// faster.
	faster := func(n uint64) uint64 { return n + n/100 + 2 }
	c.Clock = clock
	if v.Name != "" {
		c.Node.Name = v.Name
	}
	c.Node.Quantum_cycles = clock.Quantum_cycles
	c.Node.CoreSlack_cycles = faster(c.Node.CoreSlack_cycles)
	return nil
}
