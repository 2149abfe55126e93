package coordinator

import (
	"fmt"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// pairKey identifies two counters by their nodes' names, sorted, and their epochs. The counters'
// other properties are no part of the key, because each process measures them again. The method
// widenCounters combines these measurements.
type pairKey struct{ a, b, epochA, epochB string }

// A pair is what was measured between two counters.
type pair struct {
	key        pairKey
	liveTrains *tscratio.Pair // the newest trains

	unsavedTrains *tscratio.Pair // the trains that save has not written; nil: none
	inRun         bool           // save also writes them to the open run
	mustSave      bool           // save has something to write

	version        uint64      // grows with each change of liveTrains
	validSince     uint64      // evaluations of earlier versions may be false
	lastEvaluation *evaluation // of some version; nil: none

	readA, readB uint64    // readings in the middle of the newest train
	reportedAt   time.Time // when that train was reported
	trains       uint64    // number of all trains since the pair's first one
	exchanges    uint64
	lost         uint64
	kernel       uint64 // number of stamps that the kernel took
	stamps       uint64 // number of all stamps
	complaint    string // the last contradiction, or why the last refused train was refused
	complaintAt  time.Time
}

// maxLiveBytes is the greatest total length, in Encode's format, of a pair's trains after the
// method dropOld has dropped old ones. Before that, they may be up to one and a half times as long,
// plus one report.
const maxLiveBytes = 16 << 10

// pairOf returns the pair of two nodes in their present epochs.
func (c *core) pairOf(m, n *node) (*pair, error) {
	if n.name() < m.name() {
		m, n = n, m
	}
	key := pairKey{m.name(), n.name(), m.registered.Epoch, n.registered.Epoch}
	p := c.pairs[key]
	a, b := nodeOf(m.registered), nodeOf(n.registered)
	if p == nil {
		live, err := tscratio.NewPair(a, b, c.config.Assumptions)
		if err != nil {
			return nil, err
		}
		p = &pair{key: key, liveTrains: live}
		c.pairs[key] = p
	}
	before := c.current[key.names()]
	c.current[key.names()] = key
	if before != key {
		c.forgetPair(before)
	}
	if c.run != nil && !p.inRun {
		p.inRun = c.run.belongsToRun(a, b)
	}
	return p, nil
}

// widenCounters gives each of the given nodes a single description of its counter in its present
// epoch. This description has the largest quantum and the largest core slack of all descriptions so
// far. All pairs then use this description, also for earlier trains.
func (c *core) widenCounters(nodes ...*node) {
	type counter struct{ name, epoch string }
	of := func(n tscratio.Node) counter { return counter{n.Name, n.Epoch} }
	widest := map[counter]tscratio.Node{}
	for _, n := range nodes {
		d := nodeOf(n.registered)
		widest[of(d)] = d
	}
	for _, p := range c.pairs {
		for _, n := range []tscratio.Node{p.liveTrains.A, p.liveTrains.B} {
			if d, ok := widest[of(n)]; ok {
				widest[of(n)] = d.Wider(n)
			}
		}
	}
	for _, n := range nodes {
		n.describe(widest[of(nodeOf(n.registered))])
	}
	for _, p := range c.pairs {
		for _, n := range []tscratio.Node{p.liveTrains.A, p.liveTrains.B} {
			if d, ok := widest[of(n)]; ok && p.liveTrains.Describe(d) {
				p.mustSave = true
				c.voidEvaluations(p)
			}
		}
	}
}

// forgetPair drops a pair if an epoch in its key has ended. A pair that a run uses stays until the
// run is complete.
func (c *core) forgetPair(key pairKey) {
	p := c.pairs[key]
	if p == nil || p.inRun || c.current[key.names()] == key {
		return
	}
	if err := c.dropPair(key); err != nil {
		c.log.Error("remove a pair whose epoch ended", "error", err)
	}
}

// keptGivenUp is how long the server keeps a pair whose nodes do not measure each other any more.
// In a large fleet, nodes replace neighbours that die, so the number of such pairs keeps growing.
const keptGivenUp = 10 * time.Minute

// forgetGivenUp forgets, in a large fleet, pairs that were given up long ago. It does this once a
// minute. A run has all trains of such a pair already, but one of the two nodes may still send a
// new description of its counter. So a pair that the run uses stays, without trains, until the run
// is complete.
func (c *core) forgetGivenUp() {
	now := c.now()
	if now.Sub(c.lastForgot) < time.Minute || !c.isLarge() {
		return
	}
	c.lastForgot = now
	edges := map[[2]string]bool{}
	for _, names := range c.edges() {
		edges[names] = true
	}
	for _, names := range sortedPairs(c.current) {
		key := c.current[names]
		p := c.pairs[key]
		if edges[names] || p.mustSave || now.Sub(p.reportedAt) < keptGivenUp {
			continue
		}
		delete(c.current, names)
		if err := c.dropPair(key); err != nil {
			c.log.Error("forget a pair whose nodes do not measure each other", "error", err)
		}
		empty, err := tscratio.NewPair(p.liveTrains.A, p.liveTrains.B, p.liveTrains.Declared)
		if err == nil && p.inRun {
			c.pairs[key] = &pair{key: key, liveTrains: empty, version: p.version + 1, inRun: true}
		}
	}
}

// trainOf converts a reported train into a train of package tscratio.
func trainOf(t control.Train, met []minrtt.Meeting, by tscratio.Starter) tscratio.Train {
	kernel := uint32(t.KernelStamps)
	out := tscratio.Train{
		By: by, Exchanges: t.Exchanges,
		Stamps: tscratio.Stamps{Kernel: kernel, User: uint32(4*len(t.Exchanges)) - kernel,
			Shared: uint32(len(met))},
	}
	for _, a := range t.Arrivals {
		arrival := minrtt.Arrival{Sent: a.Sent, Received: a.Received}
		out.OneWay = append(out.OneWay, arrival.Constraint(by))
	}
	for _, m := range met {
		lower, upper := m.Constraints(by)
		out.OneWay = append(out.OneWay, lower, upper)
	}
	return out
}

// meetingsOf returns, for each train in a report, the moments that both nodes saw on a shared
// clock.
func meetingsOf(m *control.Trains) [][]minrtt.Meeting {
	all := make([][]minrtt.Meeting, len(m.Trains))
	for _, x := range m.Meetings { // package control has checked the numbers of the trains
		all[x.Train] = append(all[x.Train], minrtt.Meeting{
			Own:  tscratio.Interval{Lo: x.OwnLo, Hi: x.OwnHi},
			Peer: tscratio.Interval{Lo: x.PeerLo, Hi: x.PeerHi},
		})
	}
	return all
}

// processTrains processes a node's report of trains.
func (c *core) processTrains(n *node, request uint64, m *control.Trains) {
	n.droppedReports = max(n.droppedReports, m.Dropped)
	if m.Report > 0 {
		c.acks[n.peer] = max(c.acks[n.peer], m.Report)
		if !n.isNew(m.Report) {
			return // the node did not receive the acknowledgement and sent the report again
		}
	}
	peer := c.nodes[m.Peer]
	switch {
	case peer == nil || peer == n:
		c.log.Warn("trains with an unknown node", "node", n.name(), "peer", m.Peer)
		return
	case m.Epoch != n.registered.Epoch || m.PeerEpoch != peer.registered.Epoch:
		c.log.Info("skip trains of another epoch", "node", n.name(), "peer", m.Peer)
		return
	}
	p, err := c.pairOf(n, peer)
	if err != nil {
		c.log.Error("keep a pair", "error", err)
		return
	}
	p.lost += m.Lost
	by := tscratio.StartedByA
	if n.name() != p.key.a {
		by = tscratio.StartedByB
	}
	if m.SharedClock != "" {
		c.dropTrains(p, m.SharedClock)
	}
	met := meetingsOf(m)
	for some := range slices.Chunk(m.Trains, c.config.LiveTrains) {
		known := p.liveTrains.Trains()
		for i, t := range some {
			if err := c.add(p, trainOf(t, met[i], by), t); err != nil {
				p.complaint, p.complaintAt = err.Error(), c.now()
				c.log.Warn("train refused", "node", n.name(), "peer", m.Peer, "error", err)
			}
		}
		c.keepUnsaved(p, p.liveTrains.Since(known))
		c.judgeTrains(p, len(some))
		met = met[len(some):]
	}
}

// dropTrains drops all trains that the server keeps of a pair. The core calls it when one node of
// the pair finds that the two nodes do not really share a clock that they seemed to share. All
// trains are dropped because nobody knows which constraints rest on this clock. If the pair belongs
// to a run, the run notes why the pair's relation may be false.
func (c *core) dropTrains(p *pair, what string) {
	c.log.Warn("a shared clock contradicts packets", "a", p.key.a, "b", p.key.b, "what", what)
	p.complaint, p.complaintAt = what, c.now()
	if empty, err := tscratio.NewPair(p.liveTrains.A, p.liveTrains.B,
		p.liveTrains.Declared); err == nil {
		p.liveTrains = empty
		c.voidEvaluations(p)
	}
	if p.inRun && c.run != nil {
		c.run.lacks(runs.RelationPath(p.key.a, p.key.b), what)
	}
}

// keepUnsaved adds new trains of a pair to the trains that the next call of save writes.
func (c *core) keepUnsaved(p *pair, trains *tscratio.Pair) {
	p.version++
	if p.unsavedTrains == nil {
		p.unsavedTrains = trains
	} else if err := p.unsavedTrains.Join(trains); err != nil { // they are of one pair
		c.log.Error("keep trains", "error", err)
	}
}

// judgeTrains checks new trains against the assumptions, and drops old trains if there are too
// many. It checks a whole report at once, which costs no more than checking a single train.
func (c *core) judgeTrains(p *pair, trains int) {
	if contradiction := p.liveTrains.CheckLast(trains); contradiction != nil {
		p.complaint, p.complaintAt = contradiction.String(), c.now()
		c.log.Warn("constraints contradict the assumptions",
			"a", p.key.a, "b", p.key.b, "what", p.complaint)
	}
	c.dropOld(p)
}

func (c *core) add(p *pair, train tscratio.Train, t control.Train) error {
	if len(t.Exchanges)+len(t.Arrivals) == 0 {
		return nil
	}
	if n, most := len(t.Exchanges)+len(t.Arrivals), c.longestTrain(); n > most {
		return fmt.Errorf("train has %d exchanges: no order asked for more than %d", n, most)
	}
	if err := p.liveTrains.Add(train); err != nil {
		return err
	}
	if n := len(t.Exchanges); n > 0 {
		own, other := t.Exchanges[n/2].Sent.Lo, t.Exchanges[n/2].Received.Lo
		if train.By == tscratio.StartedByB {
			own, other = other, own
		}
		p.readA, p.readB, p.reportedAt = own, other, c.now()
	}
	p.trains++
	p.exchanges += uint64(len(t.Exchanges))
	p.kernel += t.KernelStamps
	p.stamps += uint64(4 * len(t.Exchanges))
	p.mustSave = true
	return nil
}

// longestTrain is the largest number of packets in a train that the server orders. The cost of
// keeping a train grows with the square of the train's length, so a node must not choose the
// length.
func (c *core) longestTrain() int {
	o := c.config.Sweep
	const warmUpAndClose = 2
	return (max(o.Exchanges, c.config.TrainExchanges, c.askedExchanges) +
		warmUpAndClose) * o.Attempts
}

// dropOld drops old trains of a pair from memory. It leaves the newest ones: at most LiveTrains,
// with at most maxLiveBytes bytes. In a large fleet it leaves only the trains that are evaluated.
// It does nothing until the pair has twice as many trains as may remain (in a large fleet, one and
// a half times as many), or one and a half times as many bytes.
func (c *core) dropOld(p *pair) {
	most, have := c.config.LiveTrains, p.liveTrains.Trains()
	limit := 2 * most
	if have >= largeTrains*3/2 && c.isLarge() {
		most = min(most, largeTrains)
		limit = most * 3 / 2
	}
	if have < limit && p.liveTrains.EncodedBytes() < maxLiveBytes*3/2 {
		return
	}
	p.liveTrains.Prune()
	p.liveTrains.KeepNewest(most, maxLiveBytes)
}
