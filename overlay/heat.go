package overlay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Heat says how much a node has of something that should be low, such as dropped events.
type Heat struct {
	By    string // the kind of heat; at most MaxFact bytes
	Value uint64
}

// A Warm goes to the nodes that have an edge to the sender. It tells them how hot the sender and
// the nodes beyond the sender are. For each kind of heat it has the sender's path heat. This is the
// larger of two numbers: the sender's own heat times heatScale, and three quarters of the largest
// path heat of its outgoing neighbours. So path heats grow along each path to a node that is hotter
// than all others nearby.
//
// In KELP, a path heat is instead a weighted sum of the node's own heat and its neighbours' path
// heats. If all nodes are warm, such a sum hides a node that is only twice as hot as the others.
type Warm struct{ Heats []Heat }

// A Climb is a walk to a node that is hot. By is the kind of heat. The walk first takes Mix random
// steps. Then it takes at most Scan steps, each to a hotter neighbour. It ends where no neighbour
// is hotter.
type Climb struct {
	Origin    Name
	ID        uint64 // chosen by Origin
	By        string
	Visited   int
	Mix, Scan int
}

func (c Climb) walk() (mix, scan int) { return c.Mix, c.Scan }

func (c Climb) valid() bool {
	return c.Origin.valid() && validHeat(c.By) && c.Visited >= 0
}

// A Felt is a request. The node at which a climb ended sends it to the climb's origin. Climb is the
// number of the climb, and Value is the heat of the sender.
type Felt struct {
	ID, Climb uint64
	Value     uint64
	Visited   int
}

func (Warm) message() {}
func (Felt) message() {}

func validHeat(by string) bool { return by != "" && len(by) <= MaxFact }

func validHeats(heats []Heat) bool {
	return len(heats) <= MaxHeats && !slices.ContainsFunc(heats,
		func(h Heat) bool { return !validHeat(h.By) })
}

// heatOf returns the value of a kind of heat, or 0.
func heatOf(by string, heats []Heat) uint64 {
	for _, h := range heats {
		if h.By == by {
			return h.Value
		}
	}
	return 0
}

// SetHeats sets how hot the node is. If the heat changed much, the node's neighbours hear of it
// within HeatPause, and otherwise within HeatPeriod.
func (n *Node) SetHeats(now Time, heats ...Heat) error {
	n.setTime(now)
	if !validHeats(heats) {
		return fmt.Errorf("set heats of node %q: %v: need at most %d, of 1 to %d bytes", n.self,
			heats, MaxHeats, MaxFact)
	}
	n.heats = slices.Clone(heats)
	n.warmSoon()
	return nil
}

// heatsAt returns the path heats that the peer last reported, or nil if that was too long ago.
func (o *outEdge) heatsAt(now Time) []Heat {
	if o.heats == nil || o.heats.until <= now {
		return nil
	}
	return o.heats.heats
}

// heatScale is the factor by which a node's own heat is multiplied in its path heat. With this
// factor, even small heats reach far: a heat of 1 is felt 16 edges away.
const heatScale = 256

func scaled(value uint64) uint64 { return min(value, math.MaxUint64/heatScale) * heatScale }

// pathHeats returns the node's path heats.
func (n *Node) pathHeats() []Heat {
	all := n.ownHeats()
	for i := range all {
		all[i].Value = scaled(all[i].Value)
	}
	for _, o := range n.outs {
		for _, h := range o.heatsAt(n.now) {
			h.Value -= h.Value/4 + min(h.Value%4, 1) // less on each edge: no cycle stays warm
			i := slices.IndexFunc(all, func(other Heat) bool { return other.By == h.By })
			switch {
			case i >= 0:
				all[i].Value = max(all[i].Value, h.Value)
			case len(all) < MaxHeats && h.Value > 0:
				all = append(all, h)
			}
		}
	}
	return all
}

// warmSoon checks whether a path heat has changed by a quarter. If so, it tells the neighbours the
// path heats after a pause.
func (n *Node) warmSoon() {
	paths := n.pathHeats()
	for _, h := range slices.Concat(paths, n.warmed) {
		now, last := heatOf(h.By, paths), heatOf(h.By, n.warmed)
		if by := max(now, last) - min(now, last); by > 0 && by >= last/4 {
			n.warmAt = min(n.warmAt, max(n.now, n.warmedAt+HeatPause))
			n.wakeAt(n.warmAt)
			return
		}
	}
}

func (n *Node) tickHeat() {
	if n.warmAt > n.now {
		return
	}
	cooled := len(n.warmed) > 0
	n.warmed, n.warmedAt = n.pathHeats(), n.now
	n.warmAt = n.now + HeatPeriod*7/8 + Time(n.random.Int64N(int64(HeatPeriod/8)))
	if len(n.warmed) == 0 && !cooled {
		return
	}
	for _, i := range n.ins {
		n.send(i.peer, Warm{n.warmed})
	}
}

func (n *Node) onWarm(from Name, m Warm) {
	o := n.out(from)
	if o == nil {
		return
	}
	if !validHeats(m.Heats) {
		n.blame(from, BadMessage)
		return
	}
	o.heats = &toldHeat{m.Heats, n.now + HeatLife}
	n.warmSoon()
}

// A Hot is a node at which walks ended, with the heat that the node itself reported.
type Hot struct {
	Name  Name
	Value uint64
}

// climbs has the walks of one call of Climb.
type climbs struct {
	by    string
	open  map[uint64]bool // walks that have not ended
	until Time
	found []Hot
	done  func([]Hot)
}

// Climb looks for nodes that are hot by a kind of heat. It sends HeatWalks walks, which climb from
// random nodes. It calls the function done once, with the nodes where walks ended, the hottest
// first. These probably include the hottest node of the fleet, but not certainly. Nobody can check
// what a node says about its own heat.
func (n *Node) Climb(now Time, by string, done func([]Hot)) error {
	n.setTime(now)
	if !validHeat(by) {
		return fmt.Errorf("look for heat by %q: need 1 to %d bytes", by, MaxFact)
	}
	if len(n.climbing) >= MaxSearches {
		return fmt.Errorf("look for heat by %q: %d searches are open already", by, MaxSearches)
	}
	n.climbBy(by, HeatWalks, WalkLife, done)
	return nil
}

// climbBy sends a number of walks. The first one looks nearby. A walk that has not ended after the
// given time is ignored.
func (n *Node) climbBy(by string, count int, wait Time, done func([]Hot)) {
	c := &climbs{by: by, open: map[uint64]bool{}, until: n.now + wait, done: done}
	var walks []Climb
	for range count {
		w := Climb{Origin: n.self, ID: n.random.Uint64(), By: by, Mix: WalkSteps, Scan: HeatScan}
		c.open[w.ID] = true
		walks = append(walks, w)
	}
	walks[0].Mix = 0
	n.climbing = append(n.climbing, c)
	n.wakeAt(c.until)
	for _, w := range walks {
		n.handleClimb(w)
	}
}

// handleClimb handles a climb that is at this node.
func (n *Node) handleClimb(c Climb) {
	c.Visited++
	if c.Mix > 0 && n.walkTo("") != "" {
		c.Mix--
		n.passWalk(c, "")
		return
	}
	if next := n.hotterNeighbour(c.By); next != "" && c.Scan > 0 {
		c.Scan--
		n.passWalk(c, next)
		return
	}
	m := Felt{ID: n.random.Uint64(), Climb: c.ID, Value: heatOf(c.By, n.ownHeats()),
		Visited: c.Visited}
	if c.Origin == n.self {
		n.felt(n.self, m)
		return
	}
	n.ask(c.Origin, m.ID, m, AskTries, nil)
}

// hotterNeighbour returns a neighbour whose path heat is larger than this node's, so that each step
// leads nearer to a hot node. The choice is random, so that not all walks end at the same node, but
// a hotter neighbour is likelier to be chosen. If no neighbour is hotter than this node itself,
// hotterNeighbour returns "".
func (n *Node) hotterNeighbour(by string) Name {
	own := heatOf(by, n.pathHeats())
	var all []*outEdge
	var sum float64
	path := func(o *outEdge) float64 { return float64(heatOf(by, o.heatsAt(n.now))) }
	for _, o := range n.outs {
		if v := heatOf(by, o.heatsAt(n.now)); o.unsettled().until == 0 && v > own {
			all = append(all, o)
			sum += path(o)
		}
	}
	if len(all) == 0 {
		return ""
	}
	at := n.random.Float64() * sum
	for _, o := range all {
		if at -= path(o); at < 0 {
			return o.peer
		}
	}
	return all[len(all)-1].peer
}

func (n *Node) onFelt(from Name, m Felt) {
	if a, ok := n.isFresh(from, m.ID); ok {
		n.answer(a, true)
		n.felt(from, m)
	}
}

func (n *Node) felt(from Name, m Felt) {
	for _, c := range n.climbing {
		if !c.open[m.Climb] {
			continue
		}
		delete(c.open, m.Climb)
		if m.Value > 0 && !slices.ContainsFunc(c.found,
			func(h Hot) bool { return h.Name == from }) {
			c.found = append(c.found, Hot{from, m.Value})
		}
		if len(c.open) == 0 {
			n.endClimbs(c)
		}
		return
	}
}

func (n *Node) endClimbs(c *climbs) {
	n.climbing = without(n.climbing, func(other *climbs) bool { return other == c })
	slices.SortFunc(c.found, func(x, y Hot) int {
		return cmp.Or(cmp.Compare(y.Value, x.Value), cmp.Compare(x.Name, y.Name))
	})
	c.done(c.found)
}

func (n *Node) tickClimbs() {
	for _, c := range slices.Clone(n.climbing) {
		if c.until <= n.now {
			n.endClimbs(c)
		}
	}
}
