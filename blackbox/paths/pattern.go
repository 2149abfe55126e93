package paths

import (
	"cmp"
	"slices"
)

// A Pattern is what paths with equal trees have in common.
type Pattern struct {
	From     string `json:"from"` // the program that sends the requests; "": not captured
	Requests int    `json:"requests"`
	// Probability is the mean probability of the paths: the share of them that is probably right.
	Probability float64      `json:"probability"`
	Whole       Distribution `json:"whole"` // from the request until its response
	Calls       []Call       `json:"calls"` // each call comes before those that it leads to
}

// A Call describes a call of each path of a pattern.
type Call struct {
	Depth       int          `json:"depth"`
	Program     string       `json:"program"`     // the called program
	Nodes       []string     `json:"nodes"`       // on which it ran
	Probability float64      `json:"probability"` // mean, of the link to the call before
	Own         Distribution `json:"own"`         // of the program, while it waited for no call
	Network     Distribution `json:"network"`     // of request and response
	// Waited has what the requests waited for in all: the program, and the network.
	WaitedOwn     Interval `json:"waited_own"`
	WaitedNetwork Interval `json:"waited_network"`
}

// patterns groups the trees by their canonical forms.
func (m *meter) patterns() []Pattern {
	groups := map[int32][]int32{}
	var order []int32
	for _, r := range m.roots {
		g := m.form[r]
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], r)
	}
	var all []Pattern
	for _, g := range order {
		all = append(all, m.pattern(groups[g]))
	}
	slices.SortStableFunc(all, func(a, b Pattern) int {
		return cmp.Or(-cmp.Compare(a.Whole.Total.Hi_cycles, b.Whole.Total.Hi_cycles),
			-cmp.Compare(a.Requests, b.Requests))
	})
	return all
}

// pattern describes trees of the same form.
func (m *meter) pattern(roots []int32) Pattern {
	p := Pattern{From: m.caller(roots[0]), Requests: len(roots)}
	var trees [][]int32
	var depths []int32
	var whole []Interval
	for _, r := range roots {
		tree, depth := m.tree(r)
		trees, depths = append(trees, tree), depth
		p.Probability += m.probability[r]
		if w := m.parts[r].whole; w.known {
			whole = append(whole, w.Interval)
		}
	}
	p.Probability /= float64(len(roots))
	p.Whole = distribution(whole)
	for i, depth := range depths {
		c := Call{Depth: int(depth), Program: m.callee(trees[0][i])}
		var own, network []Interval
		for _, tree := range trees {
			at := &m.parts[tree[i]]
			link := 1.0
			if m.seen.Calls[tree[i]].Caller >= 0 {
				link = m.links[tree[i]].Probability
			}
			c.Probability += link
			if at.own.known {
				own = append(own, at.own.Interval)
			}
			if at.network.known {
				network = append(network, at.network.Interval)
			}
			c.WaitedOwn = plus(c.WaitedOwn, at.critical.own)
			c.WaitedNetwork = plus(c.WaitedNetwork, at.critical.network)
			if r := m.seen.moments[tree[i]].received; r != nil &&
				!slices.Contains(c.Nodes, r.Log.Node) {
				c.Nodes = append(c.Nodes, r.Log.Node)
			}
		}
		c.Probability /= float64(len(roots))
		slices.Sort(c.Nodes)
		c.Own, c.Network = distribution(own), distribution(network)
		p.Calls = append(p.Calls, c)
	}
	return p
}
