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

// SnapshotResult describes what a node dumped.
type SnapshotResult struct {
	Node     string `json:"node"`
	Channels int    `json:"channels"`
	Records  uint64 `json:"records,string"`
	Error    string `json:"error,omitempty"`
}

// snapshotEvery is the shortest interval at which a node may make the whole fleet dump its flight
// recorders. Orders that arrive sooner are merged into one, which is carried out as soon as
// allowed.
const snapshotEvery = time.Second

// wantSnapshot makes the fleet dump because a program on a node asked for it. The node's own agent
// has already dumped.
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

// stepSnapshots carries out the snapshots that nodes asked for and that are due.
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

// snapshots asks all nodes that can dump for a dump, except the node but, which has already dumped.
// It replies when all nodes have answered.
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
