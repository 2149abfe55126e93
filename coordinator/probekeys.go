package coordinator

import (
	"math/rand/v2"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// This file hands out the keys of probes. The server draws a secret for each node and tells it to
// that node alone; whoever is to probe the node gets a key that is made from it for that prober. So
// nobody knows a key of two others, and a new secret is all that it takes to end the keys of
// everybody.

const (
	// secretLife is how often a node gets a new secret. The one before stays in force beside it: a
	// key lives for twice as long at most.
	secretLife = 10 * time.Minute

	// settleKeys is for how long probers wait for their new keys, so that they get those of all
	// nodes together.
	settleKeys = 100 * time.Millisecond
)

// probeKeys is what keys of probes with a node are made from.
type probeKeys struct {
	numbered time.Time     // when it was given its number
	prober   uint64        // the node's number in the keys that it is given for others
	secret   minrtt.Secret // of the keys that others are given for it: it has said that it accepts them
	told     uint64        // number of the last secret that it was told
	alone    bool          // the next secret it is told ends those before
	renewAt  time.Time     // when it is told once more, as it did not answer; zero: it was told
}

// numberLife is how long a node has its number, however often it comes as another process: an
// answerer has room for so many keys, and one node must not have many of them.
const numberLife = time.Minute

// newProbeKeys returns what a node begins with that registers: what it had, if it is the same
// process.
func (c *core) newProbeKeys(old *node, instance string) probeKeys {
	switch {
	case old == nil || old.keys.prober == 0: // or known from before this server was started
	case old.registered.Instance == instance:
		return old.keys
	case c.now().Sub(old.keys.numbered) < numberLife:
		return probeKeys{prober: old.keys.prober, numbered: old.keys.numbered}
	}
	return probeKeys{prober: rand.Uint64(), numbered: c.now()}
}

// takesPart says whether the node is one of those that measure each other.
func (n *node) takesPart() bool {
	return n.alive() && n.can(control.CanProbe) && n.registered.ProbeAddress != ""
}

// probing says whether the node can be measured: there are keys.
func (n *node) probing() bool { return n.takesPart() && n.keys.secret.Number != 0 }

// target is what a node needs to probe another one.
func (n *node) target(to *node) control.Target {
	r := to.registered
	return control.Target{
		Peer: r.Name, PeerEpoch: r.Epoch, Address: r.ProbeAddress,
		Key:       to.keys.secret.Key(n.keys.prober).Encode(),
		NominalHz: r.NominalHz, QuantumCycles: r.QuantumCycles, CoreSlackCycles: r.CoreSlackCycles,
	}
}

// renewSecret draws a secret for a node and tells it. Others get keys made from it once the node
// has answered.
func (c *core) renewSecret(n *node) {
	if !n.takesPart() {
		return
	}
	k, next := &n.keys, minrtt.NewSecret()
	m := &control.ProbeSecrets{}
	name := func(s minrtt.Secret) {
		m.Secrets = append(m.Secrets, control.ProbeSecret{Number: s.Number, Bytes: s.Bytes[:]})
	}
	name(next)
	if k.secret.Number != 0 && !k.alone {
		name(k.secret)
	}
	k.told, k.renewAt = next.Number, time.Time{}
	c.ask(n, m, c.config.AnswerLimit, "its secret for probe keys", func(_ control.Message, err error) {
		if err != nil {
			c.log.Warn("node has no new secret for probe keys", "node", n.name(), "error", err)
			if n.alive() && k.told == next.Number {
				k.renewAt = c.now().Add(c.config.Heartbeat)
			}
			return
		}
		c.takesSecret(n, next)
	})
}

// takesSecret takes note that a node accepts the keys that are made from a secret.
func (c *core) takesSecret(n *node, s minrtt.Secret) {
	first := !n.probing()
	n.keys.secret = s
	if n.keys.told == s.Number {
		n.keys.alone = false
	}
	if !first {
		c.rekeyAt = c.now().Add(settleKeys)
		return
	}
	c.targetsChanged()
	c.sweepBy = c.now().Add(c.config.Settle)
}

// revoked takes a peer out whose key was taken off the list. Whoever has had probe keys by it, or
// through who had it, loses them: every node gets a new secret, and those before end everywhere.
func (c *core) revoked(in control.Incoming) {
	if n := c.peers[in.Peer]; n != nil {
		c.gone(n, "its key was taken off the list of those that are let in")
	}
	if in.Peer != "" {
		return
	}
	for _, n := range c.sorted() {
		n.keys.alone = true
		c.renewSecret(n)
	}
}

// stepKeys does what is due about keys.
func (c *core) stepKeys() {
	now := c.now()
	everybody := now.Sub(c.renewed) >= secretLife
	if everybody {
		c.renewed = now
	}
	for _, n := range c.sorted() {
		if due := n.keys.renewAt; everybody || !due.IsZero() && !now.Before(due) {
			c.renewSecret(n)
		}
	}
	if !c.rekeyAt.IsZero() && !now.Before(c.rekeyAt) {
		c.rekeyAt = time.Time{}
		c.targetsChanged()
	}
}

// nextKeys calls earlier with the moments at which stepKeys has something to do.
func (c *core) nextKeys(earlier func(time.Time)) {
	earlier(c.renewed.Add(secretLife))
	earlier(c.rekeyAt)
	for _, n := range c.nodes {
		if n.alive() {
			earlier(n.keys.renewAt)
		}
	}
}
