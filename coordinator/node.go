package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A node contains what the server knows about one node. It stays when the node's client is gone.
type node struct {
	registered  control.Register // the content of its last registration
	key         string           // the public key with which it registered; "" without keys
	peer        control.Peer     // its connection; "" while it is gone
	joined      time.Time
	lastHeard   time.Time // when the server last heard from it
	muteReason  string    // why sweeps skip it; "" if they do not
	lateAnswers int       // requests in a row that it did not answer in time
	goneReason  string    // why it is gone; "" while it is connected
	restarts    int       // how often another process or another epoch took over its name
	mustSave    bool      // save writes the node

	generation uint64 // generation of the handler table that it uses
	tableError string
	// for each rule of the handler table, to how many channels it applies; nil: not known
	matchCounts []int
	load        *control.Load // its newest load
	keys        probeKeys

	graph membership

	share share

	newestSamples []watchedSample // its newest Samples, oldest first, while somebody watches

	snapshot    *SnapshotRequest // what its programs want from other nodes; nil: nothing
	snapshotDue time.Time        // when its programs may cause the next snapshot

	reports        uint64          // the highest number of a processed report of this instance
	seenReports    map[uint64]bool // numbers of processed reports, within the last reportWindow
	droppedReports uint64          // number of reports that the node had to drop
}

// isAlive reports whether the node is connected. It returns false for nil, which is a forgotten
// node.
func (n *node) isAlive() bool { return n != nil && n.peer != "" }

func (n *node) can(capability string) bool { return n.registered.Can(capability) }

func (n *node) name() string { return n.registered.Name }

func nodeOf(r control.Register) tscratio.Node {
	return tscratio.Node{
		Name: r.Name, Epoch: r.Epoch, Nominal_hz: r.Nominal_hz,
		Quantum_cycles: r.Quantum_cycles, CoreSlack_cycles: r.CoreSlack_cycles,
	}
}

// describe replaces the description of the node's counter.
func (n *node) describe(d tscratio.Node) {
	r := &n.registered
	n.mustSave = n.mustSave || nodeOf(*r) != d
	r.Nominal_hz = d.Nominal_hz
	r.Quantum_cycles, r.CoreSlack_cycles = d.Quantum_cycles, d.CoreSlack_cycles
}

// reportWindow limits how far the number of a new report may be below the highest number so far.
const reportWindow = 4096

// isNew reports whether a report is new, and records the report as processed.
func (n *node) isNew(report uint64) bool {
	if n.seenReports == nil {
		n.seenReports = map[uint64]bool{}
		if n.reports > 0 { // known from before the server's restart
			for r := n.reports; r > 0 && r+reportWindow > n.reports; r-- {
				n.seenReports[r] = true
			}
		}
	}
	if n.seenReports[report] || report+reportWindow <= n.reports {
		return false
	}
	n.seenReports[report] = true
	for n.reports < report {
		n.reports++
		if n.reports > reportWindow {
			delete(n.seenReports, n.reports-reportWindow)
		}
		if report-n.reports > 2*reportWindow { // no process skips this many numbers
			n.reports = report - reportWindow
			clear(n.seenReports)
			n.seenReports[report] = true
		}
	}
	return true
}

// maxNodes is the largest number of nodes, alive or gone.
const maxNodes = 20_000

// register accepts a node, or refuses it and closes its connection.
func (c *core) register(in control.Incoming, r *control.Register) {
	if code, err := c.admit(in, r); err != nil {
		c.send(in.Peer, in.Request, control.Refuse(code, err.Error()))
		c.network.Forget(in.Peer)
		return
	}
	old := c.nodes[r.Name]
	n := c.newNode(in, r, old)
	c.nodes[r.Name] = n // before the call of gone, so that what waited for old continues with n
	if old != nil && old.isAlive() {
		same := old.peer == in.Peer // the node keeps its connection, which must stay open
		c.markGone(old, "connected again")
		if same {
			c.network.Admit(in.Peer)
		}
	}
	c.peers[in.Peer] = n
	delete(c.untoldNodes, old)
	c.untoldNodes[n] = true
	c.noteAddress(old, n)
	n.mustSave = true
	c.log.Info("node registered", "node", r.Name, "epoch", r.Epoch,
		"address", r.ProbeAddress, "software", r.Software)
	c.send(in.Peer, in.Request, &control.Welcome{
		Server:       c.instance,
		Heartbeat_ns: int64(c.config.Heartbeat), Dead_ns: int64(c.config.Dead),
		Generation: c.table.Generation,
	})
	c.pushTable(n)
	c.joinRun(n)
	c.renewSecret(n)
	c.tellGraph()
	if old != nil && addressOf(old) != addressOf(n) {
		c.targetsChanged()
	} else {
		c.nodeChanged(n)
	}
	if n.canBeProbed() { // if other nodes cannot probe it yet, takesSecret does this later
		c.sweepBy = c.now().Add(c.config.Settle)
	}
}

// admit returns the reason why a node must not register now, or nil. If the server knows the node,
// the registration is charged to the node's share of the server's time.
func (c *core) admit(in control.Incoming, r *control.Register) (control.Code, error) {
	if err := runs.CheckNodeName(r.Name); err != nil {
		return control.Malformed, err
	}
	other := tscratio.Node{Name: r.Name + "'", Epoch: "-", Nominal_hz: 1e9}
	if _, err := tscratio.NewPair(nodeOf(*r), other, c.config.Assumptions); err != nil {
		return control.Malformed, err
	}
	if err := checkGraphName(r); err != nil {
		return control.Malformed, err
	}
	if err := c.mayBe(r.Name, in.Key); err != nil {
		return control.NotAllowed, err
	}
	old := c.nodes[r.Name]
	if old == nil {
		if len(c.nodes) >= maxNodes {
			return control.NotNow, fmt.Errorf("this server knows %d nodes, and takes no more: "+
				"forget some (\"cprof node forget\")", len(c.nodes))
		}
		return 0, nil
	}
	if old.isAlive() && old.peer != in.Peer {
		if old.key != in.Key.Public {
			return control.NameTaken, fmt.Errorf("node %q is registered with another key of that "+
				"name: stop that one, or choose another name", r.Name)
		}
		if old.registered.Instance != r.Instance {
			return control.NameTaken, fmt.Errorf("node %q is registered by another process, heard "+
				"of %v ago: stop that one, or wait until it has been silent for %v",
				r.Name, c.now().Sub(old.lastHeard).Round(time.Millisecond), c.config.Dead)
		}
	}
	if old.share.wait(c.now()) > 0 || !old.share.spend(c.now(), registerTakes) {
		return control.NotNow, fmt.Errorf("node %q took more of the server's time than its share: "+
			"come back in %v", r.Name, old.share.wait(c.now()).Round(time.Second))
	}
	return 0, nil
}

// newNode makes a node from its registration. If a node (old) registered earlier under the same
// name, the new node takes over everything that is still true of the old one.
func (c *core) newNode(in control.Incoming, r *control.Register, old *node) *node {
	n := &node{
		registered: *r, key: in.Key.Public, peer: in.Peer, joined: c.now(), lastHeard: c.now(),
	}
	n.registered.Nonce = ""
	// If the epoch is the same, the new process has only measured the same counter again, so the
	// larger quantum and the larger core slack of the two measurements are kept.
	if old != nil && old.registered.Epoch == r.Epoch {
		n.describe(nodeOf(old.registered).Wider(nodeOf(*r)))
	}
	// A node that the server did not know has no pairs.
	if old != nil && nodeOf(old.registered) != nodeOf(n.registered) {
		c.widenCounters(n)
	}
	n.keys = c.newProbeKeys(old, r.Instance)
	if old == nil {
		return n
	}
	n.share = old.share
	n.restarts, n.snapshot, n.snapshotDue = old.restarts, old.snapshot, old.snapshotDue
	if old.registered.Instance == r.Instance {
		n.reports, n.seenReports, n.droppedReports = old.reports, old.seenReports,
			old.droppedReports
	}
	if old.registered.Instance != r.Instance || old.registered.Epoch != r.Epoch {
		n.restarts++
	}
	return n
}

// mayBe returns the reason why the owner of a key must not register under a name, or nil. Each node
// has its own key. Otherwise one machine could register as two nodes, whose lies would agree. By
// default, two other nodes that agree can narrow the bound of a pair, so lies that agree could make
// a bound false. If the server uses no keys, any client may register under any name.
func (c *core) mayBe(name string, key control.Key) error {
	if key.Public == "" {
		return nil
	}
	if key.Name != name {
		return fmt.Errorf("key of %q registers as node %q: "+
			"a node needs a key of its own name (\"cprof keys client %s\")", key.Name, name, name)
	}
	for _, n := range c.nodes {
		if n.key == key.Public && n.name() != name {
			return fmt.Errorf("node %q registers with the key of node %q: one key is one node: "+
				"make it a key of its own, or forget the other (\"cprof node forget %s\")",
				name, n.name(), n.name())
		}
	}
	return nil
}

// heardOf records that the server heard from a node. Sweeps leave out a node that is marked as
// mute. A node that was marked because it had been silent is no longer mute now. A node that was
// marked because it left two requests in a row unanswered stays mute until it answers a request, or
// until the next sweep tries it again.
func (c *core) heardOf(n *node) {
	n.lastHeard = c.now()
	if n.lateAnswers < 2 {
		n.muteReason = ""
	}
}

// markGone marks a node as gone and fails all requests to it. The server keeps the node's
// measurements.
func (c *core) markGone(n *node, why string) {
	if !n.isAlive() {
		return
	}
	c.log.Warn("node is gone", "node", n.name(), "why", why)
	peer := n.peer
	n.peer, n.goneReason = "", why
	delete(c.peers, peer)
	c.network.Forget(peer)
	n.mustSave = true
	for _, id := range c.pendingOf(n) {
		c.settle(id, nil, fmt.Errorf("node %q is gone: %s", n.name(), why))
	}
	c.nodeChanged(n)
}

// pendingOf lists the pending requests to a node, oldest first.
func (c *core) pendingOf(n *node) (ids []uint64) {
	for id, p := range c.pending {
		if p.node == n {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// buryTheDead marks nodes as gone if they have been silent for too long.
func (c *core) buryTheDead() {
	now := c.now()
	for _, n := range c.wantedNodes(func(n *node) bool {
		return n.isAlive() && now.Sub(n.lastHeard) >= c.config.Dead
	}) {
		silent := now.Sub(n.lastHeard)
		c.markGone(n, fmt.Sprintf("silent for %v", silent.Round(time.Millisecond)))
	}
}

// wasBusy tells the core for how long it handled no message. Messages that arrived in this time are
// still queued. So the core does not count this time when it judges how long a node was silent, or
// how late an answer is.
func (c *core) wasBusy(d time.Duration) {
	if d < c.config.Heartbeat {
		return
	}
	for _, n := range c.nodes {
		n.lastHeard = n.lastHeard.Add(min(d, max(0, c.now().Sub(n.lastHeard))))
	}
	for _, p := range c.pending {
		p.until = p.until.Add(d)
	}
}

// nodesByName returns all nodes, sorted by name. The fixed order makes tests repeatable.
func (c *core) nodesByName() []*node { return c.wantedNodes(func(*node) bool { return true }) }

// wantedNodes returns the nodes for which want returns true, sorted by name.
func (c *core) wantedNodes(want func(*node) bool) (all []*node) {
	for _, n := range c.nodes {
		if want(n) {
			all = append(all, n)
		}
	}
	return sortedNodes(slices.Values(all))
}

func sortedNodes(nodes iter.Seq[*node]) []*node {
	return slices.SortedFunc(nodes, func(a, b *node) int {
		return strings.Compare(a.name(), b.name())
	})
}

// NodeRequest names a node.
type NodeRequest struct {
	Name string `json:"name"`
}

// forgetNode drops a node that is gone, and everything that is stored about it outside of runs: its
// pairs, its key, and its entries in the last sweep's status. It returns when the change is on
// disk. If the name is unknown, the error wraps fs.ErrNotExist.
func (c *core) forgetNode(name string) error {
	n := c.nodes[name]
	if n.isAlive() {
		return fmt.Errorf("node %q is registered: stop its client first", name)
	}
	if c.run != nil && !c.run.isCompleting {
		about := c.run.draft.Run()
		if _, ok := about.Node(name); ok {
			return fmt.Errorf("node %q is in run %q, which is %s: wait until the run is complete",
				name, about.Name, c.run.phase)
		}
	}
	var pairs []pairKey
	for _, key := range c.sortedPairs(nil) {
		if key.has(name) {
			pairs = append(pairs, key)
		}
	}
	if n == nil && len(pairs) == 0 {
		return fmt.Errorf("node %q: %w", name, fs.ErrNotExist)
	}
	var err error
	if n != nil { // the node comes first: a server that restarts in between drops the pairs itself
		delete(c.nodes, name)
		err = c.store.append(blockForgetNode, name, nil)
	}
	for _, key := range pairs {
		delete(c.current, key.names())
		err = errors.Join(err, c.dropPair(key)) // no open run includes the node
	}
	err = errors.Join(err, c.save())
	if c.last != nil {
		c.last = c.ofKnownNodes(c.last)
	}
	c.log.Info("node was forgotten", "node", name, "pairs", len(pairs))
	return err
}

// ofKnownNodes returns the status of a sweep without the nodes that were forgotten.
func (c *core) ofKnownNodes(s *SweepStatus) *SweepStatus {
	own := *s
	gone := func(name string) bool { return c.nodes[name] == nil }
	own.Lost = slices.DeleteFunc(slices.Clone(s.Lost),
		func(l LostPair) bool { return gone(l.A) || gone(l.B) })
	own.Noisy = slices.DeleteFunc(slices.Clone(s.Noisy),
		func(n NoisyNode) bool { return gone(n.Node) })
	return &own
}

func (k pairKey) has(name string) bool { return k.a == name || k.b == name }

func (k pairKey) names() [2]string { return [2]string{k.a, k.b} }

// forgetStrangers drops pairs on disk that have an unknown node. Either the server died while it
// was forgetting the node, or it died after it had written the pair and before it wrote the node.
// In the second case it had not acknowledged the pair's trains, so the node reports them again.
func (c *core) forgetStrangers() error {
	var err error
	for _, key := range c.sortedPairs(nil) {
		if c.nodes[key.a] == nil || c.nodes[key.b] == nil {
			delete(c.current, key.names())
			err = errors.Join(err, c.dropPair(key))
		}
	}
	return err
}

// dropPair removes a pair from memory and, at the next save, from disk.
func (c *core) dropPair(key pairKey) error {
	delete(c.pairs, key)
	return c.store.append(blockForgetPair, notedKey{key.a, key.b, key.epochA, key.epochB}, nil)
}

// runNode describes a node in a run.
func runNode(n *node) runs.Node {
	r := n.registered
	out := runs.Node{
		ID: r.Machine, Name: r.Name, Number: r.Number, Epoch: r.Epoch, Virtual: r.Virtual,
		Quantum_cycles: r.Quantum_cycles, CoreSlack_cycles: r.CoreSlack_cycles,
		FrequencyLo_hz: float64(r.Nominal_hz), FrequencyHi_hz: float64(r.Nominal_hz),
		FrequencySource: "nominal", NoLogs: !n.can(control.CanFiles),
	}
	if r.Frequency != nil {
		setFrequency(&out, r.Frequency)
	}
	var facts map[string]any
	if json.Unmarshal(r.Facts, &facts) == nil {
		out.Facts = map[string]string{}
		for k, v := range facts {
			switch v := v.(type) {
			case string:
				out.Facts[k] = v
			case bool, float64:
				out.Facts[k] = fmt.Sprint(v)
			}
		}
	}
	return out
}

func setFrequency(n *runs.Node, f *control.Frequency) {
	n.FrequencyLo_hz, n.FrequencyHi_hz = float64(f.Lo_millihz)/1e3, float64(f.Hi_millihz)/1e3
	n.FrequencySource = f.Clock
}
