package coordinator

import (
	"math/rand/v2"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// This file distributes the keys of probes. The server draws a secret for each node and sends it
// only to that node. Each prober of the node gets its own key, derived from that secret. So no node
// knows the key between two others, and a new secret invalidates all keys for probing that node.

const (
	// secretLife is the time after which a node gets a new secret. The previous secret stays valid
	// beside the new one, so a key is valid for at most twice this time.
	secretLife = 10 * time.Minute

	// settleKeys is how long probers wait for new keys, so that they get the new keys for all nodes
	// at once.
	settleKeys = 100 * time.Millisecond
)

// probeKeys is the state from which the keys of a node's probes are derived.
type probeKeys struct {
	numbered time.Time     // when the node got its number
	prober   uint64        // the node's number in the keys with which it probes others
	secret   minrtt.Secret // basis of others' keys for this node; the node has accepted it
	told     uint64        // number of the last secret that was sent to the node
	alone    bool          // the next secret must invalidate the earlier ones
	renewAt  time.Time     // when to send again, as the node did not answer; zero: no need
}

// numberLife is the shortest time for which a node keeps its number, however often its process
// changes. An answerer can store only a limited number of keys, and one node must not use many of
// them.
const numberLife = time.Minute

// newProbeKeys returns the keys of a node that registers. If it is the same process as before, it
// keeps its keys.
func (c *core) newProbeKeys(old *node, instance string) probeKeys {
	switch {
	case old == nil || old.keys.prober == 0: // it has had no number since the server started
	case old.registered.Instance == instance:
		return old.keys
	case c.now().Sub(old.keys.numbered) < numberLife:
		return probeKeys{prober: old.keys.prober, numbered: old.keys.numbered}
	}
	return probeKeys{prober: rand.Uint64(), numbered: c.now()}
}

// takesPart reports whether the node is one of those that measure each other.
func (n *node) takesPart() bool {
	return n.alive() && n.can(control.CanProbe) && n.registered.ProbeAddress != ""
}

// probing reports whether the node can be measured, because there are keys for it.
func (n *node) probing() bool { return n.takesPart() && n.keys.secret.Number != 0 }

// target returns what node n needs to probe another node.
func (n *node) target(to *node) control.Target {
	r := to.registered
	return control.Target{
		Peer: r.Name, PeerEpoch: r.Epoch, Address: r.ProbeAddress,
		Key:        to.keys.secret.Key(n.keys.prober).Encode(),
		Nominal_hz: r.Nominal_hz, Quantum_cycles: r.Quantum_cycles,
		CoreSlack_cycles: r.CoreSlack_cycles,
	}
}

// renewSecret draws a secret for a node and sends it to the node. Once the node has answered, other
// nodes get keys derived from this secret.
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
	const what = "its secret for probe keys"
	c.ask(n, m, c.config.AnswerLimit, what, func(_ control.Message, err error) {
		if err != nil {
			c.log.Warn("node did not get a new secret for probe keys",
				"node", n.name(), "error", err)
			if n.alive() && k.told == next.Number {
				k.renewAt = c.now().Add(c.config.Heartbeat)
			}
			return
		}
		c.takesSecret(n, next)
	})
}

// takesSecret records that a node accepts the keys derived from a secret.
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

// revoked marks a node as gone because its key was taken off the list. Probe keys that the key's
// owner got, and perhaps passed on, must become invalid. So every node gets a new secret, and the
// earlier secrets become invalid everywhere.
func (c *core) revoked(in control.Incoming) {
	if n := c.peers[in.Peer]; n != nil {
		c.gone(n, "its key was taken off the list")
	}
	if in.Peer != "" {
		return
	}
	for _, n := range c.sorted() {
		n.keys.alone = true
		c.renewSecret(n)
	}
}

// stepKeys does everything that is due about keys.
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

// nextKeys calls earlier with the times at which stepKeys has something to do.
func (c *core) nextKeys(earlier func(time.Time)) {
	earlier(c.renewed.Add(secretLife))
	earlier(c.rekeyAt)
	for _, n := range c.nodes {
		if n.alive() {
			earlier(n.keys.renewAt)
		}
	}
}
