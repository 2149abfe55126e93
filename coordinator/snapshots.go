package coordinator

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// SnapshotRequest asks nodes to dump their flight recorders. A flight recorder is a ring that keeps
// only the newest events.
type SnapshotRequest struct {
	Channels string `json:"channels,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// SnapshotResult describes what a node dumped.
type SnapshotResult struct {
	Node     string `json:"node"`
	Channels int    `json:"channels"`
	Records  uint64 `json:"records,string"`
	Error    string `json:"error,omitempty"`
}

// snapshotEvery is the shortest interval at which one node may make the whole fleet dump its flight
// recorders. The server merges all requests that the node makes within the interval. It carries out
// the merged request when the interval is over.
const snapshotEvery = time.Second

// wantSnapshot makes all other nodes dump their flight recorders, because a program of one node
// asked for a dump. The agent of that node has already dumped.
func (c *core) wantSnapshot(n *node, m *control.Snapshot) {
	if w := n.snapshot; w != nil {
		if w.Channels != m.Channels {
			w.Channels = "" // dump all channels
		}
		w.Reason = m.Reason
		return
	}
	n.snapshot = &SnapshotRequest{Channels: m.Channels, Reason: m.Reason}
	c.dueBy(n.snapshotDue)
	c.stepSnapshots()
}

// stepSnapshots carries out the snapshots that are due.
func (c *core) stepSnapshots() {
	now := c.now()
	for _, n := range c.wantedNodes(func(n *node) bool {
		return n.snapshot != nil && !now.Before(n.snapshotDue)
	}) {
		r := *n.snapshot
		n.snapshot, n.snapshotDue = nil, c.now().Add(snapshotEvery)
		c.snapshots(r, n, func(any) {})
	}
}

// snapshots asks every node that has flight recorders for a dump, except one node, which has
// already dumped. It replies when all nodes have answered.
func (c *core) snapshots(r SnapshotRequest, but *node, reply func(any)) {
	results := []SnapshotResult{}
	var ask []*node
	for _, n := range c.nodesByName() {
		if n != but && n.isAlive() && n.can(control.CanSnapshot) {
			ask = append(ask, n)
		}
	}
	waiting := len(ask)
	if waiting == 0 {
		reply(results)
		return
	}
	for _, n := range ask {
		m := &control.Snapshot{Channels: r.Channels, Reason: r.Reason}
		c.ask(n, m, c.config.AnswerLimit, "a snapshot", func(m control.Message, err error) {
			result := SnapshotResult{Node: n.name()}
			if s, ok := m.(*control.SnapshotState); ok && err == nil {
				result.Channels, result.Records, result.Error = s.Channels, s.Records, s.Error
			} else if err != nil {
				result.Error = err.Error()
			} else {
				result.Error = fmt.Sprintf("answers with %s", m.Kind())
			}
			results = append(results, result)
			if waiting--; waiting == 0 {
				reply(results)
			}
		})
	}
}
