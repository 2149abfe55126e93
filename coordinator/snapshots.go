package coordinator

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// SnapshotRequest asks nodes for a dump of their flight recorders.
type SnapshotRequest struct {
	Channels string `json:"channels,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// SnapshotResult is what a node dumped.
type SnapshotResult struct {
	Node     string `json:"node"`
	Channels int    `json:"channels"`
	Records  uint64 `json:"records,string"`
	Error    string `json:"error,omitempty"`
}

// snapshotEvery is how often a node may have the whole fleet dump what its flight recorders hold.
// What it wants before that is done at that time, as one: the same order a thousand times is one
// order.
const snapshotEvery = time.Second

// wantSnapshot has the fleet dump because a program on a node asked. The node's own agent has done
// it.
func (c *core) wantSnapshot(n *node, m *control.Snapshot) {
	if w := n.snapshot; w != nil {
		if w.Channels != m.Channels {
			w.Channels = "" // all
		}
		w.Reason = m.Reason
		return
	}
	n.snapshot = &SnapshotRequest{Channels: m.Channels, Reason: m.Reason}
	c.stepSnapshots()
}

// stepSnapshots does what nodes wanted and may have now.
func (c *core) stepSnapshots() {
	for _, n := range c.sorted() {
		if n.snapshot == nil || c.now().Before(n.snapshotDue) {
			continue
		}
		r := *n.snapshot
		n.snapshot, n.snapshotDue = nil, c.now().Add(snapshotEvery)
		c.snapshots(r, n, func(any) {})
	}
}

// snapshots asks all nodes that can, but for one that has done it, for a dump, and replies when all
// have answered.
func (c *core) snapshots(r SnapshotRequest, but *node, reply func(any)) {
	results := []SnapshotResult{}
	var ask []*node
	for _, n := range c.sorted() {
		if n != but && n.alive() && n.can(control.CanSnapshot) {
			ask = append(ask, n)
		}
	}
	waiting := len(ask)
	if waiting == 0 {
		reply(results)
		return
	}
	for _, n := range ask {
		c.ask(n, &control.Snapshot{Channels: r.Channels, Reason: r.Reason}, c.config.AnswerLimit, "a snapshot", func(m control.Message, err error) {
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
