package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A node is what is known of one name. It stays when its client is gone.
type node struct {
	registered control.Register // as of its last registration
	key        string           // public key that it came with; "" without keys
	peer       control.Peer     // its connection; "" while it is gone
	joined     time.Time
	heard      time.Time // the last sign of life
	mute       string    // why it is passed over; "" if it is not
	late       int       // answers in a row that did not come in time
	left       string    // why it is gone; "" while it is there
	restarts   int       // how often another process, or another epoch, came in its place

	generation uint64 // of the handler table that it goes by
	tableError string
	load       *control.Load // the last
	keys       probeKeys

	share share

	snapshot    *SnapshotRequest // that a program on it wants of the others; nil: none
	snapshotDue time.Time        // when it may have the next

	reports uint64          // highest number of a report that was taken in, of this instance
	seen    map[uint64]bool // numbers up to that, of the last reportWindow
	dropped uint64          // reports that the node had to drop
}

// alive says whether the node is there; one that was forgotten (nil) is not.
func (n *node) alive() bool { return n != nil && n.peer != "" }

func (n *node) can(capability string) bool { return n.registered.Can(capability) }

func (n *node) name() string { return n.registered.Name }

func nodeOf(r control.Register) tscratio.Node {
	return tscratio.Node{Name: r.Name, Epoch: r.Epoch, NominalHz: r.NominalHz, QuantumCycles: r.QuantumCycles, CoreSlackCycles: r.CoreSlackCycles}
}

// describe has what is known of the node's counter be this.
func (n *node) describe(d tscratio.Node) {
	r := &n.registered
	r.NominalHz, r.QuantumCycles, r.CoreSlackCycles = d.NominalHz, d.QuantumCycles, d.CoreSlackCycles
}

// reportWindow is by how much a report may come later than one of a higher number.
const reportWindow = 4096

// isNew says whether a report was not taken in before. It takes note of it.
func (n *node) isNew(report uint64) bool {
	if n.seen == nil {
		n.seen = map[uint64]bool{}
		if n.reports > 0 { // known from before the server's restart
			for r := n.reports; r > 0 && r+reportWindow > n.reports; r-- {
				n.seen[r] = true
			}
		}
	}
	if n.seen[report] || report+reportWindow <= n.reports {
		return false
	}
	n.seen[report] = true
	for n.reports < report {
		n.reports++
		if n.reports > reportWindow {
			delete(n.seen, n.reports-reportWindow)
		}
		if report-n.reports > 2*reportWindow { // nobody counts so far one by one
			n.reports = report - reportWindow
			clear(n.seen)
			n.seen[report] = true
		}
	}
	return true
}

// maxNodes is how many nodes are known at most, here or gone: as many as one order to probe can
// name, and the node that it is for.
const maxNodes = control.MaxTargets + 1

func (c *core) register(in control.Incoming, r *control.Register) {
	refuse := func(code control.Code, format string, args ...any) {
		c.send(in.Peer, in.Request, control.Refuse(code, fmt.Sprintf(format, args...)))
		c.network.Forget(in.Peer)
	}
	if err := runs.CheckNodeName(r.Name); err != nil {
		refuse(control.Malformed, "%v", err)
		return
	}
	if _, err := tscratio.NewPair(nodeOf(*r), tscratio.Node{Name: r.Name + "'", Epoch: "-", NominalHz: 1e9}, c.config.Assumptions); err != nil {
		refuse(control.Malformed, "%v", err)
		return
	}
	if err := c.mayBe(r.Name, in.Key); err != nil {
		refuse(control.NotAllowed, "%v", err)
		return
	}
	old := c.nodes[r.Name]
	if old != nil && old.alive() && old.peer != in.Peer && (old.registered.Instance != r.Instance || old.key != in.Key.Public) {
		if old.key != in.Key.Public {
			refuse(control.NameTaken, "node %q is there, with another key of that name: stop that one, or choose another name", r.Name)
			return
		}
		refuse(control.NameTaken, "node %q is there, as another process that was heard of %v ago: stop that one, or wait until it has been silent for %v",
			r.Name, c.now().Sub(old.heard).Round(time.Millisecond), c.config.Dead)
		return
	}
	var taken share
	if old != nil {
		if wait := old.share.wait(c.now()); wait > 0 || !old.share.take(c.now(), registerTakes) {
			refuse(control.NotNow, "node %q took more of the server's time than its share: come back in %v", r.Name, old.share.wait(c.now()).Round(time.Second))
			return
		}
		taken = old.share
	}
	if old == nil && len(c.nodes) >= maxNodes {
		refuse(control.NotNow, "this server knows %d nodes, and takes no more: forget some (\"cprof node forget\")", len(c.nodes))
		return
	}
	n := &node{registered: *r, key: in.Key.Public, peer: in.Peer, joined: c.now(), heard: c.now(), share: taken}
	n.registered.Nonce = ""
	if old != nil && old.registered.Epoch == r.Epoch { // one counter, which this process has measured anew
		n.describe(nodeOf(old.registered).Wider(nodeOf(*r)))
	}
	if old == nil || nodeOf(old.registered) != nodeOf(n.registered) {
		c.widen(n)
	}
	n.keys = c.newProbeKeys(old, r.Instance)
	if old != nil {
		n.restarts, n.snapshot, n.snapshotDue = old.restarts, old.snapshot, old.snapshotDue
		if old.registered.Instance == r.Instance {
			n.reports, n.seen, n.dropped = old.reports, old.seen, old.dropped
		}
		if old.registered.Instance != r.Instance || old.registered.Epoch != r.Epoch {
			n.restarts++
		}
	}
	c.nodes[r.Name] = n // before its predecessor ends: whoever waited for that one goes on with this one
	if old != nil && old.alive() {
		same := old.peer == in.Peer // it registers twice on one connection, which is to last
		c.gone(old, "connected again")
		if same {
			c.network.Admit(in.Peer)
		}
	}
	c.peers[in.Peer] = n
	c.nodesDirty = true
	c.log.Info("node registered", "node", r.Name, "epoch", r.Epoch, "address", r.ProbeAddress, "software", r.Software)
	c.send(in.Peer, in.Request, &control.Welcome{Server: c.instance, Heartbeat_ns: int64(c.config.Heartbeat), Dead_ns: int64(c.config.Dead),
		Generation: c.table.Generation})
	c.pushTable(n)
	c.joinRun(n)
	c.renewSecret(n)
	c.targetsChanged()
	if n.probing() { // else once it has keys
		c.sweepBy = c.now().Add(c.config.Settle)
	}
}

// mayBe says why a key may not be that of a node. One key is one node: who counts nodes that agree,
// counts keys. Without keys anybody may be anybody.
func (c *core) mayBe(name string, key control.Key) error {
	if key.Public == "" {
		return nil
	}
	if key.Name != name {
		return fmt.Errorf("key of %q registers as node %q: a node needs a key of its own name (\"cprof keys client %s\")", key.Name, name, name)
	}
	for _, n := range c.nodes {
		if n.key == key.Public && n.name() != name {
			return fmt.Errorf("node %q registers with the key of node %q: one key is one node: make it a key of its own, or forget the other (\"cprof node forget %s\")",
				name, n.name(), n.name())
		}
	}
	return nil
}

// heardOf notes a sign of life. One that lives and answers nothing is passed over until it answers, or the next sweep tries it again.
func (c *core) heardOf(n *node) {
	n.heard = c.now()
	if n.late < 2 {
		n.mute = ""
	}
}

// gone takes a node out. What was measured with it stays; who waits for it stops waiting.
func (c *core) gone(n *node, why string) {
	if !n.alive() {
		return
	}
	c.log.Warn("node is gone", "node", n.name(), "why", why)
	peer := n.peer
	n.peer, n.left = "", why
	delete(c.peers, peer)
	c.network.Forget(peer)
	c.nodesDirty = true
	for _, id := range c.pendingOf(n) {
		c.settle(id, nil, fmt.Errorf("node %q is gone: %s", n.name(), why))
	}
	c.targetsChanged()
}

// pendingOf lists what a node was asked for, in the order in which it was.
func (c *core) pendingOf(n *node) (ids []uint64) {
	for id, p := range c.pending {
		if p.node == n {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// buryTheDead takes out who has been silent for too long.
func (c *core) buryTheDead() {
	for _, n := range c.sorted() {
		if silent := c.now().Sub(n.heard); n.alive() && silent >= c.config.Dead {
			c.gone(n, fmt.Sprintf("silent for %v", silent.Round(time.Millisecond)))
		}
	}
}

// wasBusy says for how long the core heard nobody. What nodes said meanwhile still waits: that time is not their silence, nor does it
// make their answers late.
func (c *core) wasBusy(d time.Duration) {
	if d < c.config.Heartbeat {
		return
	}
	for _, n := range c.nodes {
		n.heard = n.heard.Add(min(d, max(0, c.now().Sub(n.heard))))
	}
	for _, p := range c.pending {
		p.until = p.until.Add(d)
	}
}

// sorted returns the nodes by their names: what is done to each happens in an order that a test can repeat.
func (c *core) sorted() []*node {
	all := make([]*node, 0, len(c.nodes))
	for _, n := range c.nodes {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *node) int { return strings.Compare(a.name(), b.name()) })
	return all
}
