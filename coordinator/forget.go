package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// NodeRequest names a node.
type NodeRequest struct {
	Name string `json:"name"`
}

// forgetNode drops a node that is gone, and everything that is stored about it outside of runs: its
// pairs, its key, and its entries in the last sweep's status. It returns when the change is on
// disk. If the name is unknown, the error wraps fs.ErrNotExist.
func (c *core) forgetNode(name string) error {
	n := c.nodes[name]
	if n.alive() {
		return fmt.Errorf("node %q is registered: stop its client first", name)
	}
	if c.run != nil && !c.run.completing {
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
	if n != nil { // first: a server that restarts after this drops the pairs
		delete(c.nodes, name)
		err = c.store.append(blockForgetNode, name, nil)
	}
	for _, key := range pairs {
		delete(c.current, key.names())
		err = errors.Join(err, c.drop(key)) // no open run includes the node
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

// forgetStrangers drops pairs on disk that have an unknown node. Such pairs exist in two cases. In
// the first, the server died while it was forgetting the node. In the second, it died after it had
// written the pair and before it wrote the node. It had then not acknowledged the pair's trains, so
// the node reports them again.
func (c *core) forgetStrangers() error {
	var err error
	for _, key := range c.sortedPairs(nil) {
		if c.nodes[key.a] == nil || c.nodes[key.b] == nil {
			delete(c.current, key.names())
			err = errors.Join(err, c.drop(key))
		}
	}
	return err
}

// drop removes a pair from memory and, at the next save, from disk.
func (c *core) drop(key pairKey) error {
	delete(c.pairs, key)
	return c.store.append(blockForgetPair, notedKey{key.a, key.b, key.epochA, key.epochB}, nil)
}
