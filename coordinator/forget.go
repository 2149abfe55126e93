package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// NodeRequest is what is wanted of one node.
type NodeRequest struct {
	Name string `json:"name"`
}

// forgetNode drops a node that is gone, and all that is kept of it outside of runs: its pairs, its
// key's claim to the name, what the last sweep said of it. It returns when that is written down.
// The error wraps fs.ErrNotExist if nothing is known of the name.
func (c *core) forgetNode(name string) error {
	n := c.nodes[name]
	if n.alive() {
		return fmt.Errorf("node %q is there: stop its client first", name)
	}
	if c.run != nil {
		about := c.run.draft.Run()
		if _, ok := about.Node(name); ok {
			return fmt.Errorf("node %q is in run %q, which is %s: wait until that is complete", name, about.Name, c.run.phase)
		}
	}
	var pairs []pairKey
	for _, key := range c.sortedPairs() {
		if key.has(name) {
			pairs = append(pairs, key)
		}
	}
	if n == nil && len(pairs) == 0 {
		return fmt.Errorf("node %q: %w", name, fs.ErrNotExist)
	}
	if n != nil {
		delete(c.nodes, name)
		c.nodesDirty = true
	}
	err := c.save() // of a node that is not in it, a server that is started again keeps no pair
	for _, key := range pairs {
		delete(c.current, key.names())
		c.pairs[key].run = nil // no run has the node
		err = errors.Join(err, c.drop(key))
	}
	if c.last != nil {
		c.last = c.ofKnownNodes(c.last)
	}
	c.log.Info("node is forgotten", "node", name, "pairs", len(pairs))
	return err
}

// ofKnownNodes is what a sweep found amiss, without nodes that were forgotten.
func (c *core) ofKnownNodes(s *SweepStatus) *SweepStatus {
	own := *s
	own.Lost = slices.DeleteFunc(slices.Clone(s.Lost), func(l LostPair) bool { return c.nodes[l.A] == nil || c.nodes[l.B] == nil })
	own.Noisy = slices.DeleteFunc(slices.Clone(s.Noisy), func(n NoisyNode) bool { return c.nodes[n.Node] == nil })
	return &own
}

func (k pairKey) has(name string) bool { return k.a == name || k.b == name }

func (k pairKey) names() [2]string { return [2]string{k.a, k.b} }

// forgetStrangers drops pairs of which a node is not known: it was forgotten, or the server died
// before it wrote the node down, and then what was measured is reported again. What a run has
// stays.
func (c *core) forgetStrangers() error {
	var err error
	for _, key := range c.sortedPairs() {
		if c.pairs[key].run == nil && (c.nodes[key.a] == nil || c.nodes[key.b] == nil) {
			delete(c.current, key.names())
			err = errors.Join(err, c.drop(key))
		}
	}
	return err
}

// drop removes a pair, also from the disk.
func (c *core) drop(key pairKey) error {
	delete(c.pairs, key)
	if err := c.store.remove(pairFile(key)); err != nil {
		return fmt.Errorf("forget pair %q with %q: %w", key.a, key.b, err)
	}
	return nil
}
