package coordinator

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// closeEnded tells a node to close a run that ended while the node was away. If this server does
// not have the run, closeEnded does nothing.
func (c *core) closeEnded(n *node) {
	name := n.registered.OpenRun
	if name == "" || !c.hasEnded(name, n.name()) {
		return
	}
	done := func(_ control.Message, err error) {
		if err != nil {
			c.log.Error("have a node close a run that is over",
				"node", n.name(), "run", name, "error", err)
			return
		}
		c.log.Warn("node was away when its run ended: cprof run collect fetches its logs",
			"node", n.name(), "run", name)
	}
	c.ask(n, &control.Run{Name: name, Close: true}, c.config.AnswerLimit, closingRun, done)
}

// hasEnded reports whether a run is over and includes the node.
func (c *core) hasEnded(name, node string) bool {
	if c.run != nil && c.run.name() == name {
		return c.run.again
	}
	if runs.CheckName(name) != nil {
		return false
	}
	dir, err := runs.Open(filepath.Join(c.store.runs, name))
	if err != nil {
		return false
	}
	defer dir.Close()
	return slices.ContainsFunc(dir.Run.Nodes, func(n runs.Node) bool { return n.Name == node })
}

// collectRun fetches once more the files that a complete run lacks. Since the run was completed,
// nodes may have returned or completed their files.
func (c *core) collectRun(name string) error {
	if c.run != nil {
		return fmt.Errorf("run %q is %s: wait until it is complete", c.run.name(), c.run.phase)
	}
	draft, err := runs.Reopen(c.store.runs, name)
	if err != nil {
		return err
	}
	r := &run{
		draft: draft, phase: PhaseCollecting, begun: c.now(), opened: map[string]bool{},
		again: true,
	}
	of := draft.Run()
	for _, n := range of.Nodes {
		if known := c.nodes[n.Name]; known != nil && !n.NoLogs {
			r.opened[n.Name] = true
		}
	}
	for _, m := range of.Missing {
		node, ok := strings.CutPrefix(m.Part, "node ")
		if ok && r.opened[node] && (strings.HasPrefix(m.Reason, notFetched) ||
			strings.HasPrefix(m.Reason, closingRun)) {
			continue // if this part is still missing, the new collection notes that again
		}
		if node := path.Base(m.Part); m.Part == runs.LogsPath(node) && r.opened[node] {
			continue
		}
		r.missing = append(r.missing, m)
	}
	if err := draft.Update(func(run *runs.Run) { run.Missing = nil }); err != nil {
		return errors.Join(err, draft.Close())
	}
	c.run = r
	c.log.Info("run is collected once more", "run", name)
	return c.store.putRun(r)
}

func (c *core) closeRun() {
	c.enter(PhaseClosing)
	c.targetsChanged() // this tells nodes to stop measuring anchors
	c.tell(true, func() {
		c.endRun()
		c.enter(PhaseAfter)
		c.stepRun()
	})
}

// completeRun writes the server's own data into the run, and completes it.
func (c *core) completeRun() {
	r := c.run
	keys := c.sortedPairs()
	for _, key := range keys {
		p := c.pairs[key]
		if p.run == nil || p.run.Trains() == 0 {
			continue
		}
		p.run.Prune()
		if err := r.draft.PutRelation(p.run); err != nil {
			r.lacks(runs.RelationPath(key.a, key.b), err.Error())
		}
	}
	err := r.draft.Update(func(run *runs.Run) {
		for i := range run.Nodes {
			if n := c.nodes[run.Nodes[i].Name]; n != nil && !n.alive() {
				run.Nodes[i].Left = n.left
			}
		}
		run.Missing = append(run.Missing, r.missing...)
	})
	missing, completed := r.draft.Complete()
	status := c.runStatus()
	status.Phase = PhaseComplete
	if completed == nil {
		status.Missing = missing // missing includes what Complete itself found missing
	}
	if err = errors.Join(err, completed); err != nil {
		status.Problem = err.Error()
		c.log.Error("complete a run", "run", status.Name, "error", err)
	} else {
		c.log.Info("run is complete", "run", status.Name, "missing", len(status.Missing))
	}
	c.lastRun, c.run = status, nil
	for _, key := range keys {
		c.pairs[key].run = nil
		c.forget(key)
	}
	if err := errors.Join(c.store.putRun(nil), c.store.removeParts()); err != nil {
		c.log.Error("note the end of a run", "error", err)
	}
}
