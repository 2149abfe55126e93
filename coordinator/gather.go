package coordinator

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// In a large fleet, collectors fetch the logs of the other nodes, so these nodes need not wait for
// the server. The configuration names the nodes of the fleet that are collectors. When a run is
// closed, each other node offers its logs, and a collector fetches them (package agent). Then the
// server fetches the logs from the collectors. If no collector has the logs of a node, the server
// fetches them from the node itself. So a collector that dies costs only time.

// collectedPath is where a collector keeps the files of other nodes, each in a folder of its own.
const collectedPath = "collected/"

const (
	gatherEvery = 500 * time.Millisecond // how often collectors are asked what they have

	// gatherPatience is how long the server waits if no collector finishes fetching any node's
	// logs.
	gatherPatience = 10 * time.Minute
)

// gathering waits for collectors.
type gathering struct {
	run              *run
	busy             map[string]bool // collectors that are still looking for logs
	silentCollectors int             // collectors that have not answered yet
	nextAsk          time.Time       // when to ask again
	lastCollected    time.Time       // when a node's logs were collected last
}

// gatheredLogs says which collector keeps the logs of a node, and lists the files of these logs.
type gatheredLogs struct {
	holder string // the collector
	files  []control.File
}

// collectors returns the names of the collectors. A node is told these names when it closes a run.
// The function returns none in a small fleet, because nodes can find collectors only in a large
// one.
func (c *core) collectors() []string {
	if !c.isLarge() {
		return nil
	}
	return c.config.Collectors
}

// gather waits until collectors have the logs of all nodes, or can find no more logs. Then the
// server collects the logs.
func (c *core) gather() {
	r := c.run
	r.heldLogs = map[string]gatheredLogs{}
	g := &gathering{run: r, busy: map[string]bool{}, lastCollected: c.now()}
	for _, name := range c.collectors() {
		if n := c.nodes[name]; n != nil && r.opened[name] && n.isAlive() &&
			n.can(control.CanFiles) {
			g.busy[name] = true
		}
	}
	if r.onlyCollect || len(g.busy) == 0 {
		c.collectAll()
		return
	}
	r.gathering = g
	c.stepGather()
}

// stepGather asks the collectors what they have, if it is time.
func (c *core) stepGather() {
	if c.run == nil || c.run.gathering == nil {
		return
	}
	r, g := c.run, c.run.gathering
	switch {
	case g.silentCollectors > 0 || c.now().Before(g.nextAsk):
		return
	case r.isAborted:
		r.gathering = nil
		return
	case len(g.busy) == 0 || c.allGathered(r) || c.now().Sub(g.lastCollected) > gatherPatience:
		r.gathering = nil
		for _, name := range c.collectors() {
			c.log.Info("collector has logs", "run", r.name(), "collector", name,
				"nodes", r.gatheredBy()[name])
		}
		c.collectAll()
		return
	}
	g.nextAsk = c.now().Add(gatherEvery)
	for _, name := range c.collectors() {
		if !g.busy[name] {
			continue
		}
		g.silentCollectors++
		c.ask(c.nodes[name], &control.ListFiles{Run: r.name()}, c.config.AnswerLimit,
			"a list of what it has collected", func(m control.Message, err error) {
				g.silentCollectors--
				files, ok := m.(*control.Files)
				if err != nil || !ok {
					c.log.Warn("collector does not answer", "collector", name, "error", err)
					delete(g.busy, name)
					return
				}
				if !files.More {
					delete(g.busy, name)
				}
				c.noteGathered(g, name, files.Files)
			})
	}
}

// noteGathered notes which nodes' logs a collector has. A collector lists the files of a node only
// when it has all files of that node.
func (c *core) noteGathered(g *gathering, by string, files []control.File) {
	all := map[string][]control.File{}
	for _, f := range files {
		if node, file, ok := collectedOf(f.Path); ok {
			all[node] = append(all[node], control.File{Path: file, Bytes: f.Bytes})
		}
	}
	for node, files := range all {
		known, ok := g.run.heldLogs[node]
		if ok || !g.run.opened[node] || node == by {
			if ok && known.holder != by {
				c.log.Warn("two collectors have the logs of one node", "node", node,
					"collectors", []string{known.holder, by})
			}
			continue
		}
		g.run.heldLogs[node] = gatheredLogs{by, files}
		g.lastCollected = c.now()
	}
}

// collectedOf returns the node and the path of a file that a collector keeps.
func collectedOf(name string) (node, file string, ok bool) {
	rest, ok := strings.CutPrefix(name, collectedPath)
	if ok {
		node, file, ok = strings.Cut(rest, "/")
	}
	return node, file, ok
}

// allGathered reports whether collectors have all logs that they can get: those of all nodes of the
// run that are connected and may have logs to offer.
func (c *core) allGathered(r *run) bool {
	for name := range r.opened {
		_, ok := r.heldLogs[name]
		if n := c.nodes[name]; !ok && n.isAlive() && n.can(control.CanFiles) &&
			!slices.Contains(c.collectors(), name) {
			return false
		}
	}
	return true
}

// gatheredBy counts the nodes whose logs each collector has.
func (r *run) gatheredBy() map[string]int {
	if len(r.heldLogs) == 0 {
		return nil
	}
	by := map[string]int{}
	for _, g := range r.heldLogs {
		by[g.holder]++
	}
	return by
}

// sourceNode returns the node that is asked for a collection's files.
func (k *collection) sourceNode() string {
	if k.from != "" {
		return k.from
	}
	return k.node
}

// remotePath returns the path of a file at the source.
func (k *collection) remotePath(file string) string {
	if k.from != "" {
		return path.Join(collectedPath, k.node, file)
	}
	return file
}

// withoutCollector fetches the rest of a node's files from the node itself. It returns false if the
// files already came from the node itself.
func (c *core) withoutCollector(k *collection, why error) bool {
	if k.from == "" {
		return false
	}
	c.log.Warn("fetch logs from their node instead of a collector", "node", k.node,
		"collector", k.from, "why", fmt.Sprint(why))
	k.from = ""
	delete(k.run.heldLogs, k.node)
	c.list(k)
	return true
}
