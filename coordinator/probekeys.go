package coordinator

import (
	"math/rand/v2"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// Keys authenticate probes. The server draws a secret for each node and sends it only to that node.
// Every node that probes this node gets a key of its own, which is derived from the secret. So a
// node cannot know the key between two other nodes. When a node gets a new secret, all keys for
// probing this node become invalid.

const (
	// secretLife is the time after which a node gets a new secret. The previous secret then stays
	// valid for the same time once more, so a key is valid for at most twice this time.
	secretLife = 10 * time.Minute

	// settleKeys is how long the server waits, after a node has accepted a new secret, before it
	// sends new keys to probers. During this wait the other nodes accept their new secrets, too. So
	// each prober gets all its new keys at once.
	settleKeys = 100 * time.Millisecond
)

// probeKeys is the state from which the keys of a node's probes are derived.
type probeKeys struct {
	numberedAt time.Time     // when the node got its number
	prober     uint64        // identifies the node in the keys with which it probes others
	secret     minrtt.Secret // the newest that the node accepted; others' keys derive from it
	toldSecret uint64        // number of the secret that was sent to the node last
	sendAlone  bool          // the next secret is sent alone, which invalidates all earlier ones
	renewAt    time.Time     // when to send another secret after one without answer; zero: never
}

// numberLife is the shortest time for which a node keeps its number as a prober, however often its
// process changes. Every number of a prober needs its own keys, and a node that answers probes can
// store only a limited number of keys.
const numberLife = time.Minute

// newProbeKeys returns the keys of a node that registers. If the node's process is the same as
// before, these are the old keys.
func (c *core) newProbeKeys(old *node, instance string) probeKeys {
	switch {
	case old == nil || old.keys.prober == 0: // the node got no number since the server started
	case old.registered.Instance == instance:
		return old.keys
	case c.now().Sub(old.keys.numberedAt) < numberLife:
		return probeKeys{prober: old.keys.prober, numberedAt: old.keys.numberedAt}
	}
	return probeKeys{prober: rand.Uint64(), numberedAt: c.now()}
}

// takesPart reports whether the node can take part in measurements.
func (n *node) takesPart() bool {
	return n.isAlive() && n.can(control.CanProbe) && n.registered.ProbeAddress != ""
}

// canBeProbed reports whether other nodes can probe this node. For that, the node must have
// accepted a secret.
func (n *node) canBeProbed() bool { return n.takesPart() && n.keys.secret.Number != 0 }

// target returns what a node needs to probe another one.
func (n *node) target(to *node) control.Target {
	r := to.registered
	return control.Target{
		Peer: r.Name, PeerEpoch: r.Epoch, Address: r.ProbeAddress,
		Key:        to.keys.secret.Key(n.keys.prober).Encode(),
		Nominal_hz: r.Nominal_hz, Quantum_cycles: r.Quantum_cycles,
		CoreSlack_cycles: r.CoreSlack_cycles,
	}
}

// renewSecret draws a new secret for a node and sends it to the node. Other nodes get keys derived
// from the secret only after the node has accepted it.
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
	if k.secret.Number != 0 && !k.sendAlone {
		name(k.secret)
	}
	k.toldSecret, k.renewAt = next.Number, time.Time{}
	const what = "its secret for probe keys"
	c.ask(n, m, c.config.AnswerLimit, what, func(_ control.Message, err error) {
		if err != nil {
			c.log.Warn("node did not get a new secret for probe keys",
				"node", n.name(), "error", err)
			if n.isAlive() && k.toldSecret == next.Number {
				k.renewAt = c.now().Add(c.config.Heartbeat)
				c.dueBy(k.renewAt)
			}
			return
		}
		c.takesSecret(n, next)
	})
}

// takesSecret records that a node has accepted a secret.
func (c *core) takesSecret(n *node, s minrtt.Secret) {
	first := !n.canBeProbed()
	n.keys.secret = s
	if n.keys.toldSecret == s.Number {
		n.keys.sendAlone = false
	}
	if !first {
		c.rekeyAt = c.now().Add(settleKeys)
		return
	}
	c.nodeChanged(n)
	c.sweepBy = c.now().Add(c.config.Settle)
}

// revokeKey does what is necessary when a client's key is taken off the list of accepted keys. It
// marks the client's node as gone. It also gives every other node a new secret, so that all earlier
// probe keys become invalid: the client may have passed on its keys.
func (c *core) revokeKey(in control.Incoming) {
	if n := c.peers[in.Peer]; n != nil {
		c.markGone(n, "its key was taken off the list")
	}
	if in.Peer != "" {
		return
	}
	if err := c.newIssuer(); err != nil {
		c.log.Error("make new keys for the graph", "error", err)
	}
	for _, n := range c.nodesByName() {
		n.keys.sendAlone = true
		c.renewSecret(n)
		if !n.graph.toldAt.IsZero() {
			c.tellMember(n)
		}
	}
}

// stepKeys does everything about keys that is due now.
func (c *core) stepKeys() {
	now := c.now()
	everybody := now.Sub(c.secretsRenewed) >= secretLife
	if everybody {
		c.secretsRenewed = now
	}
	for _, n := range c.wantedNodes(func(n *node) bool {
		due := n.keys.renewAt
		return everybody || !due.IsZero() && !now.Before(due)
	}) {
		c.renewSecret(n)
	}
	if !c.rekeyAt.IsZero() && !now.Before(c.rekeyAt) {
		c.rekeyAt = time.Time{}
		c.targetsChanged()
	}
}
