package coordinator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator/faults"
	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// In a large fleet, not all pairs of nodes probe each other. The nodes keep up a random graph
// (package overlay) and probe along its edges. The server signs the names under which nodes take
// part, gives them contacts to begin with, and hears from each node which other nodes it probes.

const (
	// maxContacts is the number of contacts that a node is given. Some may be dead.
	maxContacts = 8

	// lonelyAgain is the time after which a node without neighbours is given other contacts.
	lonelyAgain = 5 * time.Second

	// maxTalks is the largest number of nodes that a node probes because it is connected to them,
	// or because it shared tuples with them in earlier runs. The node divides its trains among
	// these nodes and its neighbours. If there were more of these nodes, each would get too few
	// trains.
	maxTalks = 8
)

// membership is what the server knows of a node's part in the graph.
type membership struct {
	toldAt     time.Time        // when it was told keys and contacts; zero: not since it registered
	isListed   bool             // it is in core.members
	neighbours []string         // the nodes to which it has edges, as its last report says
	connected  []string         // the addresses to which its machine is connected, by that report
	blamed     []control.Blamed // the nodes that broke the rules of the graph, by that report
	probing    []byte           // the last order to probe on its own, encoded
}

// notedIssuer is the form in which the issuer of names is written to disk.
type notedIssuer struct {
	Seed []byte `json:"seed"`
}

// newIssuer replaces the issuer of names. Names that only the former issuer signed are then invalid
// to all nodes that hear of the new one.
func (c *core) newIssuer() error {
	noted := notedIssuer{wire.NewSeed()}
	if err := c.store.writeJSON("issuer.json", noted); err != nil {
		return err
	}
	return c.useIssuer(noted)
}

func (c *core) useIssuer(noted notedIssuer) (err error) {
	c.issuer, err = wire.NewIssuer(noted.Seed)
	return err
}

// restoreIssuer continues with the issuer of the previous server process, because nodes that have
// not come back yet trust no other.
func (c *core) restoreIssuer() error {
	var noted notedIssuer
	there, err := c.store.readJSON("issuer.json", &noted)
	switch {
	case err != nil:
		return err
	case there:
		return c.useIssuer(noted)
	}
	return c.newIssuer()
}

// isLarge reports whether the fleet is so large that only neighbours in the graph are measured.
func (c *core) isLarge() bool {
	return c.moreThan(c.config.AllPairs, (*node).takesPart)
}

// moreThan reports whether more nodes than a given number satisfy a condition. It stops as soon as
// it knows the answer.
func (c *core) moreThan(most int, counts func(*node) bool) bool {
	n := 0
	for _, node := range c.nodes {
		if counts(node) {
			if n++; n > most {
				return true
			}
		}
	}
	return false
}

// checkGraphName returns the reason why a node must not use the graph name with which it registers.
// It returns nil if the node may use this name.
func checkGraphName(r *control.Register) error {
	if r.Graph == "" {
		return nil
	}
	card, err := wire.ParseName(overlay.Name(r.Graph))
	if err == nil && card.Node != r.Name {
		err = fmt.Errorf("name %q in the graph is not of node %q", r.Graph, r.Name)
	}
	return err
}

// tellGraph tells each node that it is a member of the graph, unless the node knows that already.
func (c *core) tellGraph() {
	if !c.isLarge() {
		return
	}
	for _, n := range sortedNodes(maps.Keys(c.untoldNodes)) {
		delete(c.untoldNodes, n)
		if c.nodes[n.name()] == n {
			c.tellMember(n)
		}
	}
}

func (c *core) tellMember(n *node) {
	name := n.registered.Graph
	if name == "" || !n.takesPart() {
		return
	}
	m := &control.Graph{
		Degree: c.config.Degree, Issuers: [][]byte{c.issuer.Public()},
		Signature: c.issuer.Sign(overlay.Name(name)), Contacts: c.someContacts(n),
	}
	n.graph.toldAt = c.now()
	if !n.graph.isListed {
		n.graph.isListed = true
		c.members = append(c.members, n)
	}
	c.ask(n, m, c.config.AnswerLimit, "its part in the graph", func(_ control.Message, err error) {
		if err != nil {
			c.log.Warn("node is not in the graph", "node", n.name(), "error", err)
			if n.isAlive() {
				n.graph.toldAt = time.Time{} // tellGraph tries again
				c.untoldNodes[n] = true
			}
		}
	})
}

// someContacts returns some members of the graph. If no member is known to be alive, it returns
// former members, because a node without contacts would begin a graph of its own.
func (c *core) someContacts(n *node) (names []string) {
	const tries = 4 * maxContacts // some tries draw a node that was drawn before
	for try := 0; try < tries && len(names) < maxContacts && len(c.members) > 0; {
		i := c.random(len(c.members))
		other := c.members[i]
		if c.nodes[other.name()] != other || !other.isAlive() || other.graph.toldAt.IsZero() {
			last := len(c.members) - 1
			c.members[i], c.members = c.members[last], c.members[:last]
			other.graph.isListed = false
			continue
		}
		try++
		if name := other.registered.Graph; other != n && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return names
	}
	former := c.wantedNodes(func(other *node) bool {
		return other != n && !other.isAlive() && other.registered.Graph != ""
	})
	for len(former) > 0 && len(names) < maxContacts {
		i := c.random(len(former))
		names = append(names, former[i].registered.Graph)
		former = slices.Delete(former, i, i+1)
	}
	return names
}

// hasNeighbours processes a node's report of its neighbours.
func (c *core) hasNeighbours(n *node, m *control.Neighbours) {
	n.graph.neighbours = m.Names[:min(len(m.Names), c.config.Degree)]
	n.graph.blamed = m.Blamed
	if !slices.Equal(n.graph.connected, m.Connected) {
		n.graph.connected = m.Connected
		c.orderSome(append(c.talksTo(n), n))
	}
	c.helpLonely(n)
	if c.sweepBy.IsZero() && slices.ContainsFunc(c.edgesOf(n), func(p [2]string) bool {
		return !c.wereMeasured(p)
	}) {
		c.sweepBy = c.now().Add(c.config.Settle)
	}
}

// helpLonely gives a member without neighbours other contacts, because those that it has may all be
// dead. A node does not ask for contacts, and reports its neighbours only if they changed. So
// helpLonely is called for each ping, too.
func (c *core) helpLonely(n *node) {
	told := n.graph.toldAt
	if len(n.graph.neighbours) == 0 && !told.IsZero() && c.now().Sub(told) >= lonelyAgain {
		c.tellMember(n)
	}
}

// talksTo returns the nodes to whose machines a node's machine has connections.
func (c *core) talksTo(n *node) (all []*node) {
	for _, address := range n.graph.connected {
		for _, other := range c.byAddress[address] {
			if other != n && c.nodes[other.name()] == other && other.canBeProbed() &&
				len(all) < maxTalks {
				all = append(all, other)
			}
		}
	}
	return all
}

// talkPartners returns the nodes that a given node must probe because tuples may travel between it
// and them. If both nodes of a pair report the connection, only the node whose name comes first
// probes the other. If there is room, the result also has nodes with which the given node shared
// tuples in earlier runs.
func (c *core) talkPartners(n *node) (all []*node) {
	connected := c.talksTo(n)
	for _, other := range connected {
		if n.name() < other.name() || !slices.Contains(c.talksTo(other), n) {
			all = append(all, other)
		}
	}
	for _, l := range c.learnt.of[n.name()] {
		other := c.nodes[l.other]
		if len(all) < maxTalks && n.name() < l.other && other != nil && other.canBeProbed() &&
			!slices.Contains(connected, other) && !slices.Contains(c.talksTo(other), n) {
			all = append(all, other)
		}
	}
	return all
}

// learntPairs has the pairs between which tuples travelled in earlier runs.
type learntPairs struct {
	Pairs []learntPair `json:"pairs"` // newest run first, and in each run the most tuples first
	of    map[string][]learntOther
}

type learntPair struct {
	runs.Traffic
	Run string `json:"run"`
}

type learntOther struct{ other, run string }

// learn notes between which nodes tuples travelled in a run. It remembers at most maxTalks pairs of
// each node: first those of this run, and then those of earlier runs.
func (c *core) learn(run string, found []runs.Traffic) {
	var all []learntPair
	for _, t := range found {
		all = append(all, learntPair{t, run})
	}
	c.learnt.keep(append(all, c.learnt.Pairs...))
	if err := c.store.writeJSON("traffic.json", c.learnt); err != nil {
		c.log.Error("note between which nodes tuples travelled", "run", run, "error", err)
	}
	var nodes []*node
	for name := range c.learnt.of {
		if n := c.nodes[name]; n != nil {
			nodes = append(nodes, n)
		}
	}
	c.orderSome(nodes)
}

func (l *learntPairs) keep(all []learntPair) {
	l.Pairs, l.of = nil, map[string][]learntOther{}
	for _, p := range all {
		again := slices.ContainsFunc(l.of[p.A],
			func(o learntOther) bool { return o.other == p.B })
		if again || len(l.of[p.A]) >= maxTalks || len(l.of[p.B]) >= maxTalks {
			continue
		}
		l.Pairs = append(l.Pairs, p)
		l.of[p.A] = append(l.of[p.A], learntOther{p.B, p.Run})
		l.of[p.B] = append(l.of[p.B], learntOther{p.A, p.Run})
	}
}

// edgeReasons says of each edge of a large fleet why its two nodes probe each other.
func (c *core) edgeReasons() map[[2]string]string {
	if !c.isLarge() {
		return nil
	}
	all := map[[2]string]string{}
	note := func(a, b, why string) {
		key := [2]string{min(a, b), max(a, b)}
		if all[key] != "" {
			why = all[key] + ", " + why
		}
		all[key] = why
	}
	for _, n := range c.nodes {
		if !n.canBeProbed() {
			continue
		}
		for _, name := range n.graph.neighbours {
			if name < n.name() && c.nodes[name] != nil &&
				slices.Contains(c.nodes[name].graph.neighbours, n.name()) {
				continue // the other node says so, too
			}
			note(n.name(), name, "neighbours in the graph")
		}
		connected := c.talksTo(n)
		for _, other := range c.talkPartners(n) {
			switch {
			case slices.Contains(connected, other):
				note(n.name(), other.name(), "a connection between them")
			default:
				for _, l := range c.learnt.of[n.name()] {
					if l.other == other.name() {
						note(n.name(), l.other, "tuples of run "+l.run)
					}
				}
			}
		}
	}
	return all
}

// noteAddress notes at which address a node is probed. It forgets the address in the node's earlier
// registration.
func (c *core) noteAddress(old, n *node) {
	if old != nil {
		a := addressOf(old)
		c.byAddress[a] = slices.DeleteFunc(c.byAddress[a],
			func(other *node) bool { return other == old })
		if len(c.byAddress[a]) == 0 {
			delete(c.byAddress, a)
		}
	}
	c.byAddress[addressOf(n)] = append(c.byAddress[addressOf(n)], n)
}

// addressOf returns the address of the machine at which a node is probed, or "".
func addressOf(n *node) string {
	a, err := netip.ParseAddrPort(n.registered.ProbeAddress)
	if err != nil {
		return ""
	}
	return a.Addr().Unmap().String()
}

// edgesOf returns the pairs of a node with its neighbours, and with the nodes that it is connected
// to. It leaves out pairs that cannot be measured.
func (c *core) edgesOf(n *node) (pairs [][2]string) {
	if !n.canBeProbed() {
		return nil
	}
	add := func(name string) {
		pairs = append(pairs, [2]string{min(n.name(), name), max(n.name(), name)})
	}
	for _, name := range n.graph.neighbours {
		if other := c.nodes[name]; other != nil && other != n && other.canBeProbed() {
			add(name)
		}
	}
	for _, other := range c.talkPartners(n) {
		add(other.name())
	}
	return pairs
}

// edges returns the pairs of neighbours in the graph, sorted.
func (c *core) edges() [][2]string {
	all := map[[2]string]bool{}
	for _, n := range c.nodes {
		for _, p := range c.edgesOf(n) {
			all[p] = true
		}
	}
	return sortedPairs(all)
}

// wereMeasured reports whether two nodes were measured with each other in their present epochs.
func (c *core) wereMeasured(p [2]string) bool {
	key, ok := c.current[p]
	return ok && key.epochA == c.nodes[p[0]].registered.Epoch &&
		key.epochB == c.nodes[p[1]].registered.Epoch
}

// orderProbing orders a node to probe on its own, unless it has the same order already.
func (c *core) orderProbing(n *node, m *control.Probing) {
	text, err := json.Marshal(m)
	if err == nil && bytes.Equal(text, n.graph.probing) {
		return
	}
	n.graph.probing = text
	c.ask(n, m, c.config.AnswerLimit, "an order to probe", func(_ control.Message, err error) {
		if err != nil {
			n.graph.probing = nil
			c.log.Warn("node does not probe on its own", "error", err)
		}
	})
}

// A node is named once others blame it for enoughOffences in all. One offence proves little, and
// one node that lies must accuse nobody. So at most mostOfOne of the offences that one node reports
// count, and at least two nodes must report offences. If a node lies to many, each of them notices
// only a few offences.
const (
	enoughOffences = overlay.ShunAfter
	mostOfOne      = enoughOffences / 2
)

// addBlamed lists the nodes that break the rules of the graph, as other nodes say.
func (s *fleetCopy) addBlamed(c *core) {
	accusers, offences := map[string][]string{}, map[string]int{}
	for _, n := range c.nodesByName() {
		if !n.isAlive() {
			continue
		}
		for _, b := range n.graph.blamed {
			by := accusers[b.Name]
			if c.nodes[b.Name] != nil && b.Name != n.name() && !slices.Contains(by, n.name()) {
				accusers[b.Name] = append(by, n.name())
				offences[b.Name] += min(b.Times, mostOfOne)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(accusers)) {
		if by := accusers[name]; offences[name] >= enoughOffences {
			s.matrix.faults.Add(faults.RuleBreaker, name, "", fmt.Sprintf("node %s breaks the "+
				"rules of the graph, as %d nodes say (such as %s and %s): their logs say how",
				name, len(by), by[0], by[1]))
		}
	}
}

// maxNeverMeasured is the largest number of pairs that a matrix lists as never measured. 12,000 new
// nodes would have 72 million such pairs.
const maxNeverMeasured = 1000

// addNeverMeasured lists the pairs that should have been measured but never were.
func (s *fleetCopy) addNeverMeasured(c *core) {
	if c.isLarge() {
		s.addBlamed(c)
		for _, n := range c.nodesByName() {
			if n.canBeProbed() && len(n.graph.neighbours) == 0 {
				s.matrix.faults.Add(faults.Lonely, n.name(), "", fmt.Sprintf("node %s has no "+
					"neighbours in the graph, and measures nobody", n.name()))
			}
		}
		for _, p := range c.edges() {
			if _, ok := c.current[p]; !ok && len(s.pairs) < len(c.current)+maxNeverMeasured {
				s.addNever(p[0], p[1])
			}
		}
		return
	}
	var all []*node
	for _, n := range c.nodesByName() {
		if n.takesPart() {
			all = append(all, n)
		}
	}
	measured := 0
	for names := range c.current {
		if c.nodes[names[0]].takesPart() && c.nodes[names[1]].takesPart() {
			measured++
		}
	}
	left := len(all)*(len(all)-1)/2 - measured
	if more := left - maxNeverMeasured; more > 0 {
		s.matrix.faults.AddMany(faults.NeverMeasured, more, "", "",
			fmt.Sprintf("%d more pairs were never measured", more))
	}
	left = min(left, maxNeverMeasured)
	for i, a := range all {
		for _, b := range all[i+1:] {
			if left == 0 {
				return
			}
			if _, ok := c.current[[2]string{a.name(), b.name()}]; !ok {
				s.addNever(a.name(), b.name())
				left--
			}
		}
	}
}

func (s *fleetCopy) addNever(a, b string) {
	s.pairs = append(s.pairs, pairCopy{pair: pair{key: pairKey{a: a, b: b}}, neverMeasured: true})
}
