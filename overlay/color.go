package overlay

import (
	"fmt"
	"math"
	"slices"
)

// A Fact is what a node says about itself, such as "role=worker". It has at most MaxFact bytes.
type Fact string

// A hint is what one node says about itself. The node is the owner of the hint. The field via names
// the neighbour that passed the hint on.
type hint struct {
	owner, via Name
	facts      []Fact
	expires    Time
}

// A Hint spreads what Owner says about itself. It goes to all neighbours, and they pass it on if
// Levels is more than 1.
type Hint struct {
	Owner  Name
	Facts  []Fact
	Levels int
}

// SetFacts sets what the node says about itself. Other nodes hear of new facts within
// AdvertisePeriod. If the node no longer says a fact, other nodes forget the fact within HintLife.
// A node without facts sends no hints of its own.
func (n *Node) SetFacts(facts ...Fact) error {
	if !validFacts(facts) {
		return fmt.Errorf("set facts of node %q: %q: need at most %d of 1 to %d bytes", n.self,
			facts, MaxFacts, MaxFact)
	}
	n.facts = slices.Clone(facts)
	n.advertiseAt = n.now
	n.wakeAt(n.now)
	return nil
}

func validFacts(facts []Fact) bool {
	return len(facts) <= MaxFacts && !slices.ContainsFunc(facts,
		func(f Fact) bool { return f == "" || len(f) > MaxFact })
}

func (n *Node) tickFacts() {
	if n.advertiseAt > n.now {
		return
	}
	n.hints = without(n.hints, func(h hint) bool { return h.expires <= n.now })
	n.advertiseAt = n.now + AdvertisePeriod*7/8 +
		Time(n.random.Int64N(int64(AdvertisePeriod/8)))
	if len(n.facts) > 0 {
		n.spread(Hint{Owner: n.self, Facts: n.facts, Levels: HintLevels})
	}
}

func (n *Node) spread(m Hint) {
	for _, o := range n.outs {
		if o.unsettled().until == 0 {
			n.send(o.peer, m)
		}
	}
}

// onHint keeps what a neighbour passes on. Each neighbour has room of its own. So a neighbour that
// makes up many facts and owners displaces only hints that it sent itself.
func (n *Node) onHint(from Name, m Hint) {
	if n.in(from) == nil || n.shunsNode(from) {
		return
	}
	if !m.Owner.valid() || !validFacts(m.Facts) || m.Levels < 1 || m.Levels > HintLevels ||
		m.Levels == HintLevels && m.Owner != from {
		n.blame(from, BadMessage)
		return
	}
	if m.Owner == n.self {
		return
	}
	h := hint{owner: m.Owner, via: from, facts: m.Facts, expires: n.now + HintLife}
	same, oldest, count := -1, -1, 0
	for i, other := range n.hints {
		if other.via != from {
			continue
		}
		count++
		if other.owner == m.Owner {
			same = i
		}
		if oldest < 0 || other.expires < n.hints[oldest].expires {
			oldest = i
		}
	}
	switch {
	case same >= 0 && n.hints[same].expires > n.now+HintLife-AdvertisePeriod/2:
		return // too soon: an honest node repeats itself once in AdvertisePeriod
	case same >= 0:
		n.hints[same] = h
	case count >= MaxHintsVia && n.degree < MaxHintsVia &&
		n.hints[oldest].expires > n.now+HintLife-AdvertisePeriod/2:
		n.blame(from, ManyFacts) // all of these came lately: more than an honest node has ins
		return
	case count >= MaxHintsVia:
		n.hints[oldest] = h
	default:
		n.dropForeignHints()
		n.hints = append(n.hints, h)
	}
	if m.Levels > 1 {
		m.Levels--
		n.spread(m)
	}
}

// dropForeignHints forgets the hints that came from nodes that are no longer neighbours, unless
// this node has only few hints in all.
func (n *Node) dropForeignHints() {
	if len(n.hints) < n.degree*MaxHintsVia {
		return
	}
	n.hints = without(n.hints,
		func(h hint) bool { return h.expires <= n.now || n.in(h.via) == nil })
}

// holdsHint reports whether the node knows the facts of an owner: it has a hint with them, or is
// the owner itself.
func (n *Node) holdsHint(owner Name) bool {
	return owner == n.self || slices.ContainsFunc(n.hints,
		func(h hint) bool { return h.owner == owner && h.expires > n.now })
}

// matchingFact returns the first fact that matches, or "".
func (n *Node) matchingFact(pattern string, facts []Fact) Fact {
	for _, f := range facts {
		if n.match(pattern, string(f)) {
			return f
		}
	}
	return ""
}

func (n *Node) matches(pattern string, facts []Fact) bool {
	return n.matchingFact(pattern, facts) != ""
}

// A Result is the answer to a search. If Name is empty, no node was found.
type Result struct {
	Name    Name
	Fact    Fact // the fact that matches, as the node itself said
	Visited int  // visits to nodes
	// If no node was found, Missed is the probability that a node has the fact and was missed. This
	// probability is an estimate. It is computed from how often the walks met hints about certain
	// nodes: the searching node, and its neighbours, as far as they have facts. The estimate
	// assumes that the nodes on the way are honest. If the searching node knows no node with facts,
	// Missed is 1.
	Missed float64
}

// missedChance returns the probability that walks missed a node. The parameter known is the number
// of nodes that the searching node knows to have facts. The parameter meetings is how often the
// walks met hints of these nodes. The number of times that walks meet one node's hints has a
// Poisson distribution, with the same unknown mean m for each node. The mean of the result is
// exp(-m·known/(known+1)), which is a little more than the true probability exp(-m).
func missedChance(known, meetings int) float64 {
	if known == 0 {
		return 1
	}
	k := float64(known)
	return math.Pow(k/(k+1), float64(meetings))
}
