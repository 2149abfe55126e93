package coordinator

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
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
		return c.run.onlyCollect
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

// collectRun tries once more to fetch the files that were missing when the run was completed. Since
// then, nodes may have returned or completed their files.
func (c *core) collectRun(name string) error {
	if c.run != nil {
		return fmt.Errorf("run %q is %s: wait until it is complete", c.run.name(), c.run.phase)
	}
	draft, err := runs.Reopen(c.store.runs, name)
	if err != nil {
		return err
	}
	r := newRun(draft, PhaseCollecting, c.now())
	r.onlyCollect = true
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
	r := c.run
	c.tellNodes(true, func() {
		if err := r.draft.Update(r.noteFrequencies); err != nil {
			c.log.Error("note the nodes' frequencies over the run", "error", err)
		}
		c.endRun()
		c.enter(PhaseAfter)
		c.stepRun()
	})
}

// completeRun writes the server's own data into the run, and completes it. Making the relations of
// a large fleet takes long, so another goroutine does it.
func (c *core) completeRun() {
	r := c.run
	if r.isCompleting {
		return
	}
	err := c.save()
	err = errors.Join(err, r.draft.Update(func(run *runs.Run) {
		r.noteFrequencies(run)
		silent := r.noLogs()
		for i := range run.Nodes {
			of := &run.Nodes[i]
			if n := c.nodes[of.Name]; n != nil && !n.isAlive() {
				of.Left = n.goneReason
			}
			if _, ok := slices.BinarySearch(silent, of.Name); ok {
				of.NoLogs = true
			}
		}
		run.Missing = append(run.Missing, r.missing...)
	}))
	status := c.runStatus()
	r.status, r.isCompleting = status, true
	for _, key := range c.sortedPairs(func(p *pair) bool { return p.inRun }) {
		c.pairs[key].inRun = false
		c.forgetPair(key)
	}
	var missing []runs.Missing
	var shared []runs.Traffic
	large := c.isLarge()
	c.background(func() (failed error) {
		if missing, failed = r.draft.Complete(); failed == nil && large {
			shared = trafficOf(r.draft.Path())
		}
		return failed
	}, func(completed error) {
		done := *status
		done.Phase, done.Path = PhaseComplete, r.draft.Path()
		if completed == nil {
			done.Missing = missing // missing includes what Complete itself found missing
		}
		if err := errors.Join(err, completed); err != nil {
			done.Problem = err.Error()
			c.log.Error("complete a run", "run", done.Name, "error", err)
		} else {
			c.log.Info("run is complete", "run", done.Name, "missing", len(done.Missing))
		}
		c.lastRun, c.run = &done, nil
		if len(shared) > 0 {
			c.learn(done.Name, shared)
		}
		if err := errors.Join(c.store.putRun(nil), c.store.removeParts()); err != nil {
			c.log.Error("note the end of a run", "error", err)
		}
	})
}

// trafficOf returns the pairs of nodes between which tuples travelled in a complete run.
func trafficOf(path string) []runs.Traffic {
	run, err := runs.Open(path)
	if err != nil {
		return nil
	}
	defer run.Close()
	return run.Traffic()
}

// endRun records when the run ended, unless an end is already recorded.
func (c *core) endRun() {
	if err := c.run.draft.Update(func(r *runs.Run) {
		if r.Ended.IsZero() {
			r.Ended = endOf(r.Begun, c.now())
		}
	}); err != nil {
		c.log.Error("record the end of the run", "error", err)
	}
}

// endOf returns an interval of UTC for the end of a run that ends now. If the clock was set back
// during the run, the interval could lie before the interval of the run's beginning. So its Hi_ns
// is never lower than the Hi_ns of the beginning.
func endOf(begun runs.UTC, now time.Time) runs.UTC {
	end := runs.UTCOf(now, utcSlack)
	end.Hi_ns = max(end.Hi_ns, begun.Hi_ns)
	return end
}

// abortRun ends the run at once and keeps the data that has already arrived. It waits for no node.
func (c *core) abortRun() error {
	r := c.run
	if r == nil {
		return errors.New("no run is under way")
	}
	if r.isCompleting {
		return fmt.Errorf("run %q is being completed already", r.name())
	}
	if r.isAborted {
		return fmt.Errorf("run %q is being aborted already", r.name())
	}
	r.lacks("run.yaml", fmt.Sprintf("the run was aborted: %s", r.phase))
	if c.sweep != nil { // the sweep belongs to the run, because others wait for the run's end
		c.sweep, c.sweptAt = nil, c.now()
	}
	r.isAborted = true
	if !r.onlyCollect {
		c.enter(PhaseClosing)
		c.targetsChanged()
		c.endRun()
		for _, n := range c.nodesByName() {
			// A node may have opened the run although its answer is still on the way. So all nodes
			// are told to close the run.
			if n.isAlive() && n.can(control.CanRun) {
				c.ask(n, &control.Run{Name: r.name(), Close: true}, c.config.AnswerLimit,
					closingRun, func(control.Message, error) {})
			}
		}
	}
	if r.filesMoving == 0 {
		c.completeRun()
	}
	return nil
}

// noteSilent records whether a node has no log of the run. The node has none if the list of its
// files contains no log, and if it said that it had no channels when it closed the run. After a
// restart the server no longer knows what the node said. Then the list alone suffices, if it comes
// from the node itself and not from a collector.
func (r *run) noteSilent(k *collection, files []control.File) {
	channels, known := r.channels[k.node]
	r.silent[k.node] = channels == 0 && (known || k.from == "") &&
		!slices.ContainsFunc(files, func(f control.File) bool {
			return strings.HasSuffix(f.Path, ".cplog")
		})
}

// noLogs returns the nodes on which no program logged anything. If anything of a node is missing,
// its logs may be missing, too. So noLogs leaves out this node.
func (r *run) noLogs() (names []string) {
	if len(r.missing) >= maxMissing {
		return nil // the list of what is missing is full, and may lack any node
	}
	lacks := map[string]bool{}
	for _, m := range r.missing {
		lacks[m.Part] = true
	}
	for name, silent := range r.silent {
		if silent && !lacks["node "+name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// These limits restrict the list of what a run lacks. Without limits, a node could report missing
// parts without end.
const (
	maxMissing     = 10_000 // limit for a whole run
	maxMissingPart = 64     // limit for one part of a run
)

func (r *run) lacks(part, reason string) {
	m := runs.Missing{Part: part, Reason: control.CutTo(reason, 512)}
	if len(r.missing) >= maxMissing || slices.Contains(r.missing, m) {
		return
	}
	of := 0
	for _, known := range r.missing {
		if known.Part == part {
			of++
		}
	}
	switch of {
	case maxMissingPart - 1:
		m.Reason = "more is missing than is listed here"
		fallthrough
	default:
		r.missing = append(r.missing, m)
	case maxMissingPart:
	}
}

// maxEpochs limits the epochs of a node in one run, because each epoch needs its own relation with
// every other node. No real machine is suspended that often.
const maxEpochs = 64

// addNode adds the node's present description to the run. It reports whether the node's epoch is
// new to the run.
func (r *run) addNode(about runs.Node) (changed bool, err error) {
	of := r.draft.Run()
	known, ok := of.Node(about.Name)
	isIts := func(e runs.Epoch) bool { return e.Epoch == about.Epoch }
	if ok && len(known.Earlier) >= maxEpochs && !slices.ContainsFunc(known.Epochs(), isIts) {
		return true, fmt.Errorf("its counter was interrupted more than %d times: "+
			"trains of epoch %q are not kept", maxEpochs, about.Epoch)
	}
	err = r.draft.Update(func(run *runs.Run) { changed = run.Enter(about) })
	return changed, err
}

// belongsToRun reports whether trains between two counters belong in the run.
func (r *run) belongsToRun(a, b tscratio.Node) bool {
	return r.takesTrains() && !r.isCompleting && r.draft.Takes(a, b)
}
