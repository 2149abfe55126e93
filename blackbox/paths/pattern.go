package paths

import (
	"cmp"
	"slices"
)

// A Pattern is what paths with equal trees have in common.
type Pattern struct {
	From     string `json:"from"` // the program that sends the requests; "": not captured
	Requests int    `json:"requests"`
	// Probability is the mean of the paths' probabilities. So it is also the expected share of the
	// paths that are right.
	Probability float64      `json:"probability"`
	Whole       Distribution `json:"whole"` // from the request until its response
	Calls       []Call       `json:"calls"` // each call comes before those that it leads to

	// Slow counts the slowest tenth of the requests, and Fast the faster half. Slower says how much
	// longer the slow ones took than the fast ones, on average. With few requests, Slow is 0.
	Slow   int      `json:"slow"`
	Fast   int      `json:"fast"`
	Slower Interval `json:"slower"`

	form int32
}

// A Call describes a call of each path of a pattern.
type Call struct {
	Depth       int          `json:"depth"`
	Program     string       `json:"program"`     // the called program
	Nodes       []string     `json:"nodes"`       // on which it ran
	Probability float64      `json:"probability"` // mean, of the link to the call before
	Own         Distribution `json:"own"`         // of the program, while it waited for no call
	Network     Distribution `json:"network"`     // of request and response
	// All requests together waited for this call. WaitedOwn says how long they waited for the
	// program, and WaitedNetwork says how long they waited for the network.
	WaitedOwn     Interval `json:"waited_own"`
	WaitedNetwork Interval `json:"waited_network"`
	// SlowerOwn and SlowerNetwork are the parts of Pattern.Slower.
	SlowerOwn     Interval `json:"slower_own"`
	SlowerNetwork Interval `json:"slower_network"`
}

// groupTrees groups the trees by their canonical forms.
func (m *meter) groupTrees(roots []int32) []Pattern {
	groups := map[int32][]int32{}
	var order []int32
	for _, r := range roots {
		g := m.form[r]
		if groups[g] == nil {
			order = append(order, g)
		}
		groups[g] = append(groups[g], r)
	}
	var all []Pattern
	for _, g := range order {
		p := m.describePattern(groups[g])
		p.form = g
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b Pattern) int {
		return cmp.Or(-cmp.Compare(a.Whole.Total.Hi_cycles, b.Whole.Total.Hi_cycles),
			-cmp.Compare(a.Requests, b.Requests))
	})
	for i := range all {
		for _, r := range groups[all[i].form] {
			m.number[r] = int32(i)
		}
	}
	return all
}

// describePattern describes trees of the same form.
func (m *meter) describePattern(roots []int32) Pattern {
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
			c.Probability += m.sureness(tree[i])
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
	m.compare(&p, roots, trees)
	p.Calls = m.inTime(p.Calls, trees)
	return p
}

// inTime puts calls that have the same parent into the order in which they begin on average.
func (m *meter) inTime(all []Call, trees [][]int32) []Call {
	began := make([]float64, len(all))
	children := make([][]int32, len(all))
	var way []int32 // the calls above
	for i := range all {
		for _, tree := range trees {
			began[i] += float64(m.seen.Calls[tree[i]].Began_ns() - m.seen.Calls[tree[0]].Began_ns())
		}
		way = way[:all[i].Depth]
		if i > 0 {
			above := way[len(way)-1]
			children[above] = append(children[above], int32(i))
		}
		way = append(way, int32(i))
	}
	for _, c := range children {
		slices.SortStableFunc(c, func(a, b int32) int { return cmp.Compare(began[a], began[b]) })
	}
	order, _ := walk(0, func(c int32) []int32 { return children[c] })
	sorted := make([]Call, len(all))
	for i, k := range order {
		sorted[i] = all[k]
	}
	return sorted
}
