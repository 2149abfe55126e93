package tscclient

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
)

// HeatBound names a kind of heat. Heats are values of a node that should be low; Hot finds the
// nodes where they are highest. The heat that HeatBound names is the largest plain bound, in
// nanoseconds, that the node has measured with any of its peers in the last boundLife. The plain
// bound is half of a train's smallest round trip.
const HeatBound = "bound"

// boundLife is how long a plain bound counts. A node measures all its peers in less time.
const boundLife = time.Minute

// plainBound is the plain bound of the last train with a peer.
type plainBound struct {
	ns uint64
	at time.Time
}

// A HotNode is a node at which a value that should be low (a heat) is high.
type HotNode struct {
	Node  string
	Value uint64 // as the node itself said
}

// Hot looks for the nodes that are hottest by a kind of heat: HeatBound, or one that
// LinkConfig.Heats returns. Walks go from node to node, towards hotter nodes, without the server.
// The walks probably find the hottest node of the fleet, but not certainly. The answer lists the
// nodes that they found, the hottest first. Without a graph, the error wraps ErrNoGraph.
func (l *Link) Hot(ctx context.Context, by string) ([]HotNode, error) {
	hot, err := askGraph(ctx, l,
		func(answer func([]HotNode, error)) { l.graph.beginHotWalks(by, answer) })
	if err != nil {
		return nil, fmt.Errorf("look for heat by %q: %w", by, err)
	}
	return hot, nil
}

// beginHotWalks begins the walks of a call of Hot. Only the graph's goroutine may call it.
func (g *graphPart) beginHotWalks(by string, answer func([]HotNode, error)) {
	if g.node == nil {
		answer(nil, ErrNoGraph)
		return
	}
	g.lookAtHeats()
	err := g.node.Climb(g.graphTime(), by, func(found []overlay.Hot) {
		var all []HotNode
		for _, h := range found {
			if card, err := wire.ParseName(h.Name); err == nil {
				all = append(all, HotNode{card.Node, h.Value})
			}
		}
		answer(all, nil)
	})
	if err != nil {
		answer(nil, err)
	}
}

// lookAtHeats tells the graph how hot the node is.
func (g *graphPart) lookAtHeats() {
	heats := map[string]uint64{}
	if g.link.config.Heats != nil {
		heats = g.link.config.Heats()
	}
	heats[HeatBound] = g.largestBound(time.Now())
	var all []overlay.Heat
	for by, value := range heats {
		all = append(all, overlay.Heat{By: by, Value: value})
	}
	slices.SortFunc(all, func(x, y overlay.Heat) int { return cmp.Compare(x.By, y.By) })
	if err := g.node.SetHeats(g.graphTime(), all...); err != nil {
		g.link.config.Log.Warn("node does not say how hot it is", "why", err)
	}
}

// storeBound remembers the plain bound of a train.
func (g *graphPart) storeBound(o Outcome) {
	least := ^uint64(0)
	for _, e := range o.Train.Exchanges {
		least = min(least, e.Best.RoundTrip_cycles())
	}
	hz := g.link.client.Node().Nominal_hz
	if o.Err != nil || len(o.Train.Exchanges) == 0 || hz == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.plain[o.Peer.Node.Name] = plainBound{uint64(float64(least) / 2 / float64(hz) * 1e9),
		time.Now()}
}

// largestBound returns the largest plain bound of the last boundLife, and forgets older ones.
func (g *graphPart) largestBound(now time.Time) (ns uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.plain,
		func(_ string, b plainBound) bool { return now.Sub(b.at) > boundLife })
	for _, b := range g.plain {
		ns = max(ns, b.ns)
	}
	return ns
}
