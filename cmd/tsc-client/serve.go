package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// serve is a node's part in measuring until the context ends.
func serve(ctx context.Context, c config, log *slog.Logger) error {
	p, err := c.plan()
	if err != nil {
		return err
	}
	id, err := tscclient.Identify(c.Name)
	if err != nil {
		return err
	}
	defer id.Close()
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		return err
	}
	defer notice.Close()
	p.client.Node, p.client.Epoch = id.Node, id.Epoch
	p.client.Clock = minrtt.SystemClock(asm.Counter, notice)
	p.client.Clock.Quantum_cycles = id.Node.QuantumCycles
	if p.virtual != nil {
		if err := becomeVirtual(&p.client, *p.virtual); err != nil {
			return err
		}
	}
	p.client.Key = make([]byte, 32)
	_, _ = rand.Read(p.client.Key) // never fails; who commands this node learns it

	client, err := tscclient.Start(p.client)
	if err != nil {
		return err
	}
	defer client.Close()
	log.Info("answering probes", "node", p.client.Node.Name, "address", client.Address(), "epoch", client.Node().Epoch)
	if p.commands != nil {
		p.commands.Log = log
		commands, err := tscclient.ServeCommands(client, *p.commands, software())
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
		facts, err := json.Marshal(id.Report.Facts)
		if err != nil {
			return err
		}
		p.link.Log = log
		p.link.Register = control.Register{
			Machine: id.Report.Facts.MachineID, Cores: max(1, len(id.Report.Facts.Cores.Allowed)),
			Virtual: p.virtual != nil, Software: software(), Facts: facts,
		}
		link, err := tscclient.Connect(client, *p.link)
		if err != nil {
			return err
		}
		defer link.Close()
	}
	<-ctx.Done()
	s := client.Stats()
	log.Info("ending", "trains", s.Trains, "failed", s.Failed, "probes answered", s.Answers.Sent)
	return nil
}

// becomeVirtual puts a virtual node's clocks, and what holds for its counter, in the place of the machine's.
func becomeVirtual(c *tscclient.Config, v vnode.Config) error {
	clock, err := virtual.Clock(v, c.Clock)
	if err != nil {
		return err
	}
	// A virtual counter runs faster than its physical one by its rate and wander, and so do its cores apart.
	faster := func(n uint64) uint64 { return n + n/100 + 2 }
	c.Clock = clock
	if v.Name != "" {
		c.Node.Name = v.Name
	}
	c.Node.QuantumCycles = clock.Quantum_cycles
	c.Node.CoreSlackCycles = faster(c.Node.CoreSlackCycles)
	return nil
}

// software says which build this is.
func software() string {
	version := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}
	return "tsc-client " + version + " " + runtime.GOARCH
}
