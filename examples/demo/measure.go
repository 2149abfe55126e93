package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// measure opens a run, runs the job in it, and collects the run.
func (d *demonstration) measure(ctx context.Context) error {
	for _, n := range d.nodes {
		if len(d.chrony) == 0 {
			break
		}
		d.o.Progress("waiting for chronyd")
		if _, err := n.link.ask(order{Do: orderChrony}); err != nil {
			if ctx.Err() != nil {
				return err
			}
			d.WhyNoNTP = err // only NTP's column stays empty
			break
		}
	}
	d.o.Progress("anchors before the job: every pair of nodes exchanges packets")
	if _, err := d.server.link.ask(order{Do: orderStartRun, Count: len(d.nodes)}); err != nil {
		return err
	}
	if err := d.keepTruth(); err != nil {
		return err
	}
	before, err := d.paperExchanges("before")
	if err != nil {
		return err
	}
	if err := pause(ctx, measureAround); err != nil {
		return err
	}
	if d.o.LoadBytes > 0 {
		if err := d.load(d.o.LoadBytes); err != nil {
			return err
		}
	}
	if err := d.runWorkload(ctx); err != nil {
		return err
	}
	if d.o.LoadBytes > 0 {
		if err := d.load(0); err != nil {
			return err
		}
	}
	if err := pause(ctx, measureAround); err != nil {
		return err
	}
	after, err := d.paperExchanges("after")
	if err != nil {
		return err
	}
	for i := range before {
		if err := d.Paper.add(before[i], after[i]); err != nil {
			return err
		}
	}
	d.o.Progress("anchors after the job, then the logs of all nodes come together")
	r, err := d.server.link.ask(order{Do: orderStopRun})
	if err != nil {
		return err
	}
	d.Trains = r.Trains
	for _, n := range d.nodes {
		s, err := n.link.ask(order{Do: orderStamps})
		if err != nil {
			return err
		}
		d.Exchanges += int(s.Stamps.Exchanges)
		d.Kernel += int(s.Stamps.Kernel)
		d.Stamps += int(s.Stamps.Kernel + s.Stamps.User)
	}
	return nil
}

// load makes the second node send the given number of bytes per second to the third node, while the
// job runs. With 0 bytes it ends the load.
func (d *demonstration) load(bytesPerSecond int) error {
	_, err := d.nodes[1].link.ask(order{
		Do: orderLoad, Peer: d.nodes[2].Load, BytesPerSecond: bytesPerSecond,
	})
	return err
}

// paperExchanges makes the exchanges that the paper's method needs: between each pair of nodes, in
// both directions. A soak makes none, because over an hour the paper's bound consists almost only
// of wander. The demonstration of an engine makes none either, because it does not compare methods.
func (d *demonstration) paperExchanges(when string) (pairs [][2][]tscratio.Exchange, err error) {
	if d.soak != nil || d.engine != nil {
		return nil, nil
	}
	d.o.Progress("the paper's exchanges over ZeroMQ " + when + " the job")
	for i := range d.nodes {
		for j := range i {
			var both [2][]tscratio.Exchange
			for by, way := range [2][2]int{{i, j}, {j, i}} {
				from, to := d.nodes[way[0]], d.nodes[way[1]]
				r, err := from.link.ask(order{
					Do: orderPaper, Peer: to.Paper.String(), Count: d.o.Exchanges,
				})
				if err != nil {
					return nil, err
				}
				both[by] = r.Exchanges
			}
			pairs = append(pairs, both)
		}
	}
	return pairs, nil
}

// runWorkload runs the job: an engine's, or that of examples/adstream.
func (d *demonstration) runWorkload(ctx context.Context) error {
	if d.engine != nil {
		d.o.Progress("the job runs")
		return d.engine.Run(ctx)
	}
	d.o.Progress(fmt.Sprintf("%d tuples in %v, from node to node",
		d.o.Tuples, d.jobLasts().Round(time.Second)))
	return d.runWatched(d.runJob)
}

// runJob makes all nodes run their parts of the job.
func (d *demonstration) runJob() error {
	type ended struct {
		orderReport
		err error
	}
	all := make(chan ended)
	for _, p := range d.programs {
		go func() {
			r, err := p.link.ask(order{Do: orderWork})
			all <- ended{r, err}
		}()
	}
	var errs []error
	taken := map[string]uint64{}
	for range d.programs {
		e := <-all
		if e.err != nil {
			errs = append(errs, e.err)
			continue
		}
		for actor, n := range e.Job.Actors {
			stage, _, _ := strings.Cut(actor, "#")
			taken[stage] += n.Taken
		}
	}
	d.Result.Tuples = d.o.Tuples
	d.Lost = d.o.Tuples - int(taken["deserialise"])
	return errors.Join(errs...)
}

// jobLasts returns how long the sources send.
func (d *demonstration) jobLasts() time.Duration {
	return time.Duration(float64(d.o.Tuples) / float64(d.o.PerSecond) * float64(time.Second))
}

// The virtual clocks of the nodes are defined from the start until this time after the job.
const clocksBeyond = 5 * time.Minute

// keepTruth writes the truth about each node's clocks into the node's part of the run.
func (d *demonstration) keepTruth() error {
	for _, n := range d.setups {
		text, err := n.Clocks.Encode()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(n.partDirectory(), "truth.json"), text,
			0o600); err != nil {
			return fmt.Errorf("keep the truth about the node's clocks: %w", err)
		}
	}
	return nil
}

// translate replaces the physical readings in the collected run by readings of the virtual
// counters.
func (d *demonstration) translate() error {
	path := d.runPath()
	if o, ok := d.engine.(Observed); ok {
		var logs []string
		for _, n := range d.setups {
			logs = append(logs, filepath.Join(path, filepath.FromSlash(runs.LogsPath(n.Node.Name))))
		}
		if err := o.Collected(logs); err != nil {
			return err
		}
	}
	for i, n := range d.setups {
		counter, err := vnode.NewCounter(d.Nodes[i].Clocks.Counter)
		if err != nil {
			return err
		}
		within := func(p string) string { return filepath.Join(path, filepath.FromSlash(p)) }
		if err := translateLogs(within(runs.LogsPath(n.Node.Name)), counter); err != nil {
			return err
		}
		if len(d.chrony) > 0 {
			err := translateInPlace(within(runs.BaselinePath(n.Node.Name)), counter)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// logDirectories returns the directories of the logs that the nodes' agents kept.
func (d *demonstration) logDirectories() (dirs []string) {
	for _, n := range d.setups {
		dirs = append(dirs, n.drainedDirectory())
	}
	return dirs
}
