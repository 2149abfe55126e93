package paths

import (
	"cmp"
	"math/rand/v2"
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
	// longer the slow ones took than the fast ones, on average. With few requests, Slow is 0. If
	// there are more than 16384 requests, a random sample of them is compared.
	Slow   int      `json:"slow"`
	Fast   int      `json:"fast"`
	Slower Interval `json:"slower"`

	// Suspect says that a time of a request rests on a suspect relation.
	Suspect bool `json:"suspect,omitempty"`

	form int32
}

// A Call describes a call that every path of a pattern has.
type Call struct {
	Depth       int          `json:"depth"`
	Program     string       `json:"program"`     // the called program
	Nodes       []string     `json:"nodes"`       // on which it ran
	Probability float64      `json:"probability"` // mean, of the link to the call before
	Own         Distribution `json:"own"`         // of the program, while it waited for no call
	Network     Distribution `json:"network"`     // of request and response
	// These are the times that all requests together waited for this call: WaitedOwn is the time
	// for the program, and WaitedNetwork is the time for the network.
	WaitedOwn     Interval `json:"waited_own"`
	WaitedNetwork Interval `json:"waited_network"`
	// SlowerOwn and SlowerNetwork are this call's parts of Pattern.Slower.
	SlowerOwn     Interval `json:"slower_own"`
	SlowerNetwork Interval `json:"slower_network"`
	// Suspect says that a time of this call rests on a suspect relation.
	Suspect bool `json:"suspect,omitempty"`
}

// A group gathers the figures of all trees of one form. A Pattern is made of each group.
type group struct {
	form        int32
	from        string
	requests    int
	probability float64 // sum
	all         spread  // of whole trees
	suspect     bool    // a whole tree is suspect
	calls       []groupCall

	// If there are very many trees, whole and critical are those of a random sample.
	whole  []amount
	random *rand.Rand
}

// groupCall is a call of all trees of a group.
type groupCall struct {
	depth        int32
	program      string
	nodes        []string
	probability  float64 // sum
	own, network spread
	waited       part    // sum of critical
	critical     []part  // of each tree
	began_ns     float64 // sum, since the trees began
	suspect      bool
}

// place returns the index at which a new tree is put into the sample, or -1 if it is not put there.
// A sample has at most the given number of trees.
func (g *group) place(most int) int {
	g.requests++
	if len(g.whole) < most {
		return len(g.whole)
	}
	if at := g.random.IntN(g.requests); at < most {
		return at
	}
	return -1
}

// keepAt puts a value into a sample.
func keepAt[T any](sample []T, at int, value T) []T {
	switch {
	case at == len(sample):
		sample = append(sample, value)
	case at >= 0:
		sample[at] = value
	}
	return sample
}

// add adds a tree.
func (g *group) add(m *meter, root int32) {
	tree, depth := m.tree(root)
	if g.calls == nil {
		g.from, g.calls = m.caller(root), make([]groupCall, len(tree))
		for i, d := range depth {
			g.calls[i].depth, g.calls[i].program = d, m.callee(tree[i])
		}
	}
	g.probability += m.probability[root]
	place, whole := g.place(mostSampled), m.parts[root].whole
	g.whole = keepAt(g.whole, place, whole)
	if whole.known {
		g.all.add(whole.Interval, mostExact)
		g.suspect = g.suspect || whole.suspect
	}
	for i, k := range tree {
		c, at := &g.calls[i], &m.parts[k]
		c.probability += m.sureness(k)
		c.suspect = c.suspect || at.suspect()
		if at.own.known {
			c.own.add(at.own.Interval, mostExact)
		}
		if at.network.known {
			c.network.add(at.network.Interval, mostExact)
		}
		c.critical = keepAt(c.critical, place, at.critical)
		c.waited.own = plus(c.waited.own, at.critical.own)
		c.waited.network = plus(c.waited.network, at.critical.network)
		if r := m.seen.moments[k].received; r != nil && !slices.Contains(c.nodes, r.Log.Node) {
			c.nodes = append(c.nodes, r.Log.Node)
		}
		c.began_ns += float64(m.seen.Calls[k].Began_ns() - m.seen.Calls[root].Began_ns())
	}
}

// describePatterns describes the patterns of groups.
func describePatterns(groups []*group) (all []Pattern) {
	for _, g := range groups {
		all = append(all, g.describe())
	}
	slices.SortStableFunc(all, func(a, b Pattern) int {
		return cmp.Or(-cmp.Compare(a.Whole.Total.Hi_cycles, b.Whole.Total.Hi_cycles),
			-cmp.Compare(a.Requests, b.Requests))
	})
	return all
}

func (g *group) describe() Pattern {
	n := float64(g.requests)
	p := Pattern{From: g.from, Requests: g.requests, Probability: g.probability / n,
		Whole: g.all.distribution(), Suspect: g.suspect, form: g.form}
	for i := range g.calls {
		of := &g.calls[i]
		c := Call{Depth: int(of.depth), Program: of.program, Nodes: of.nodes,
			Probability: of.probability / n, Own: of.own.distribution(),
			Network: of.network.distribution(), WaitedOwn: of.waited.own,
			WaitedNetwork: of.waited.network, Suspect: of.suspect}
		slices.Sort(c.Nodes)
		p.Calls = append(p.Calls, c)
	}
	g.compare(&p)
	p.Calls = g.inTime(p.Calls)
	return p
}

// inTime puts calls that have the same parent into the order in which they begin on average.
func (g *group) inTime(all []Call) []Call {
	children := make([][]int32, len(all))
	var way []int32 // the calls above
	for i := range all {
		way = way[:all[i].Depth]
		if i > 0 {
			above := way[len(way)-1]
			children[above] = append(children[above], int32(i))
		}
		way = append(way, int32(i))
	}
	for _, c := range children {
		slices.SortStableFunc(c, func(a, b int32) int {
			return cmp.Compare(g.calls[a].began_ns, g.calls[b].began_ns)
		})
	}
	order, _ := walk(0, func(c int32) []int32 { return children[c] })
	sorted := make([]Call, len(all))
	for i, k := range order {
		sorted[i] = all[k]
	}
	return sorted
}
