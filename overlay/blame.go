package overlay

import (
	"cmp"
	"slices"
	"time"
)

// An Offence is a rule that a node broke.
type Offence string

const (
	TooManyWalks Offence = "sends more walks than WalksPerSecond × FloodFactor"
	EndlessWalk  Offence = "sends a walk longer than MaxMix and MaxScan"
	BadMessage   Offence = "sends names that are empty, too long or too many"
	FalsePromise Offence = "promises an edge that is not there"
	ManyFacts    Offence = "passes on the facts of more than MaxHintsVia nodes"
)

// A Blame counts how often a node broke a rule. One offence proves little: an honest node that dies
// in the middle of a deal seems to have made a false promise.
type Blame struct {
	Name    Name
	Offence Offence
	Count   uint64
	Last    Time
}

// Blamed returns the nodes that broke rules within ShunTime, the worst first. The node remembers at
// most MaxBlamed of them. If there are more, it forgets those with the lowest counts.
func (n *Node) Blamed() []Blame {
	all := without(slices.Clone(n.blamed), func(b Blame) bool { return n.now >= b.Last+ShunTime })
	slices.SortStableFunc(all, func(a, b Blame) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

// Shunned returns those of the blamed nodes with which this node wants no edge at present.
func (n *Node) Shunned() (all []Blame) {
	for _, b := range n.blamed {
		if b.shunned(n.now) {
			all = append(all, b)
		}
	}
	return all
}

// shunned reports whether the offences are so many and so recent that nobody should have an edge
// with the node.
func (b Blame) shunned(now Time) bool { return b.Count >= ShunAfter && now < b.Last+ShunTime }

func (n *Node) blame(name Name, what Offence) {
	least := -1
	for i := range n.blamed {
		b := &n.blamed[i]
		if b.Name == name && b.Offence == what {
			if n.now >= b.Last+ShunTime {
				b.Count = 0
			}
			b.Count++
			b.Last = n.now
			if b.Count >= ShunAfter {
				n.cutOff(name)
			}
			return
		}
		if least < 0 || b.Count < n.blamed[least].Count {
			least = i
		}
	}
	if len(n.blamed) < MaxBlamed {
		n.blamed = append(n.blamed, Blame{name, what, 1, n.now})
	} else {
		n.blamed[least] = Blame{name, what, 1, n.now}
	}
}

// shunsNode reports whether a node has broken rules so often that this node wants no edge with it.
func (n *Node) shunsNode(name Name) bool {
	return slices.ContainsFunc(n.blamed,
		func(b Blame) bool { return b.Name == name && b.shunned(n.now) })
}

// cutOff gives up the edges with a node.
func (n *Node) cutOff(name Name) {
	n.dropIn(name)
	if o := n.out(name); o != nil {
		n.send(name, Drop{})
		n.dropOut(o)
	}
}

// A budget says how many more walks a node accepts from one sender. It grows with time, up to
// WalksBurst.
type budget struct {
	name        Name
	used, abuse float64
	last        Time
}

// spendWalk reports whether the budget has room for one more walk. The result flood is true if the
// sender has sent more walks than any honest node would.
func (b *budget) spendWalk(now Time) (ok, flood bool) {
	b.refill(now)
	if b.abuse+1 > FloodFactor*WalksBurst {
		return false, true
	}
	b.abuse++
	if b.used+1 > WalksBurst {
		return false, false
	}
	b.used++
	return true, false
}

func (b *budget) refill(now Time) {
	refill := WalksPerSecond * float64(now-b.last) / float64(time.Second)
	b.last = now
	b.used = max(0, b.used-refill)
	b.abuse = max(0, b.abuse-FloodFactor*refill)
}

// isFull reports whether the budget is full again at the given time.
func (b budget) isFull(now Time) bool {
	b.refill(now)
	return b.used == 0 && b.abuse == 0
}

// affordsWalk reports whether a node accepts one more walk from a sender. Each neighbour has a
// budget of its own. All other nodes share one budget. So a node that sends under many names gains
// nothing. Nobody is blamed for using up the shared budget.
func (n *Node) affordsWalk(from Name) bool {
	if n.in(from) == nil && n.out(from) == nil {
		ok, _ := n.strangers.spendWalk(n.now)
		return ok
	}
	ok, flood := n.budgetOf(from).spendWalk(n.now)
	if flood {
		n.blame(from, TooManyWalks)
	}
	return ok
}

func (n *Node) budgetOf(name Name) *budget {
	for i := range n.budgets {
		if n.budgets[i].name == name {
			return &n.budgets[i]
		}
	}
	// A budget that is full again is like a new one.
	n.budgets = without(n.budgets, func(b budget) bool { return b.isFull(n.now) })
	if len(n.budgets) >= 4*n.degree { // this is more than a node can have neighbours
		n.budgets = without(n.budgets,
			func(b budget) bool { return n.in(b.name) == nil && n.out(b.name) == nil })
	}
	n.budgets = append(n.budgets, budget{name: name, last: n.now})
	return &n.budgets[len(n.budgets)-1]
}
