package tscratio

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// Audit is the result of comparing relations with paths over third nodes.
type Audit struct {
	Disagreements []*DisagreementError // at most one for each relation and path

	// Accused are the nodes that occur in all disagreements. The list is empty if there are more
	// than two such nodes. If there are two, their relation is wrong, and one of the two may be
	// honest. Disagreements among the same three nodes accuse nobody, because any of the three may
	// be wrong.
	Accused []string

	// Liars are nodes with several disagreements each. The disagreements of one such node have only
	// this node in common. The node that explains the most disagreements comes first. The list is
	// empty if one node is in every disagreement (see Accused). For each listed node, either the
	// node itself is wrong, or at least leastAlone other nodes are wrong.
	Liars []string
}

const (
	// leastAlone is how many disagreements must have only one node in common before this node is
	// accused.
	leastAlone = 3

	// If fewer than one in leastShare of a node's comparisons are disagreements, the node is not
	// accused. An honest node has some disagreements, too, because many paths over it also lead
	// over a liar.
	leastShare = 3

	// maxCycles limits how many relations are compared with paths over several third nodes. Only a
	// relation with fewer than two paths over a single third node is compared with such longer
	// paths.
	maxCycles = 1000
)

// An auditor compares relations with paths.
type auditor struct {
	c        *Closure
	readings int
	found    []*DisagreementError
	compared map[string]int // by node: how many comparisons it was in
}

// Audit compares direct relations with paths between the same nodes: over each third node that was
// measured with both, or, in a large fleet, over several nodes. For each such path, Audit
// translates the given number of readings both directly and along the path. These readings are
// spread evenly over all readings that the direct relation translates. Every third node is used,
// whatever ThirdNodes says.
func (c *Closure) Audit(readings int) Audit {
	a := &auditor{c: c, readings: readings, compared: map[string]int{}}
	var sparse [][2]int // pairs of nodes with fewer than two third nodes between them
	for from := range c.names {
		for _, e := range c.edges[from] {
			thirds := 0
			for p := range c.pathsOver(from, e.into) {
				a.compare(e.r, p)
				thirds++
			}
			if thirds < 2 && from < e.into {
				sparse = append(sparse, [2]int{from, e.into})
			}
		}
	}
	a.checkCycles(sparse)
	out := Audit{Disagreements: a.found, Accused: accusedNodes(a.found)}
	if len(out.Accused) == 0 {
		out.Liars = a.nameLiars()
	}
	return out
}

// checkCycles compares each relation with one path over several nodes, which lightestPath finds. If
// there are many relations, it takes a sample of them.
func (a *auditor) checkCycles(sparse [][2]int) {
	if len(sparse) == 0 {
		return
	}
	r := rand.New(rand.NewPCG(2, uint64(len(sparse))))
	r.Shuffle(len(sparse), func(i, k int) { sparse[i], sparse[k] = sparse[k], sparse[i] })
	a.c.longer.weighed.Do(a.c.weigh)
	f := newFrontiers(len(a.c.names))
	f.indirect = true
	for _, pair := range sparse[:min(len(sparse), maxCycles)] {
		if p := a.c.lightestPath(pair[0], pair[1], f); len(p) > 2 { // shorter paths are compared
			a.compare(a.c.relation(pair[0], pair[1]), p)
		}
	}
}

func (a *auditor) compare(direct *Relation, p path) {
	for _, name := range p.nodes() {
		a.compared[name]++
	}
	for i := range a.readings {
		y := direct.limits.Lo + direct.limits.Width()/uint64(a.readings+1)*uint64(i+1)
		x, errX := direct.count(At(y))
		z, errZ := p.count(At(y))
		if errX == nil && errZ == nil && !x.Intersect(z).Valid() {
			a.found = append(a.found, &DisagreementError{y, [2]Path{path{direct}.nodes(),
				p.nodes()}, [2]Interval{x, z}})
			return
		}
	}
}

// accusedNodes returns the nodes that occur in every disagreement, if these are at most two.
func accusedNodes(ds []*DisagreementError) (all []string) {
	for i, d := range ds {
		nodes := d.Nodes()
		if i == 0 {
			all = nodes
			continue
		}
		all = slices.DeleteFunc(all, func(n string) bool { return !slices.Contains(nodes, n) })
	}
	if len(all) > 2 {
		return nil
	}
	return all
}

// nameLiars names the node with the most disagreements that have only this node in common. Then it
// does the same with the disagreements in which this node does not occur, and so on.
func (a *auditor) nameLiars() (named []string) {
	nodes := make([][]string, len(a.found))
	of := map[string][]int{} // by node: its disagreements
	for i, d := range a.found {
		nodes[i] = d.Nodes()
		for _, name := range nodes[i] {
			of[name] = append(of[name], i)
		}
	}
	names := slices.Sorted(maps.Keys(of))
	explained := make([]bool, len(a.found))
	for {
		best, most := "", leastAlone-1
		for _, name := range names {
			left := 0
			taken := map[string]bool{}
			alone := 0
			for _, i := range of[name] {
				if explained[i] {
					continue
				}
				left++
				if !slices.ContainsFunc(nodes[i], func(n string) bool { return taken[n] }) {
					alone++
					for _, n := range nodes[i] {
						taken[n] = n != name
					}
				}
			}
			if alone > most && left*leastShare >= a.compared[name] {
				best, most = name, alone
			}
		}
		if best == "" {
			return named
		}
		named = append(named, best)
		for _, i := range of[best] {
			explained[i] = true
		}
	}
}

// agreeingPaths returns how many paths over third nodes must agree about one end of a translated
// reading. direct has the interval of the direct relation, if there is one; thirds has the
// intervals of all paths. With ThirdAgreed, the number starts at 2, or higher in a fleet whose
// paths often contradict each other. The number grows by 1 for each given path that contradicts the
// others, but not above the number of paths. If it started above 2, it is at least 3, even if there
// are only two paths. So these two paths alone are not believed.
func (c *Closure) agreeingPaths(direct, thirds []Interval) int {
	n := c.third.neededNodes()
	if c.third != ThirdAgreed || len(thirds) < n {
		return n
	}
	n = c.longer.agreement(c)
	return max(min(n, 3), min(n+falsePaths(direct, thirds), len(thirds)))
}

// falsePaths returns the least number of paths over third nodes that must be false. If that many
// paths are left out, and they are well chosen, the intervals of the remaining paths have a value
// in common. The interval of the direct relation, if there is one, is never left out.
func falsePaths(direct, thirds []Interval) int {
	within := Interval{0, math.MaxUint64}
	if direct != nil {
		within = direct[0]
	}
	most := 0
	for _, third := range thirds {
		// Try the values at which intervals begin: no other value lies in more intervals.
		x := max(third.Lo, within.Lo)
		count := 0
		for _, other := range thirds {
			if other.Contains(x) && within.Contains(x) {
				count++
			}
		}
		most = max(most, count)
	}
	return len(thirds) - most
}

func intervals(all []toldInterval) (is []Interval) {
	for _, t := range all {
		is = append(is, t.at)
	}
	return is
}

const (
	// doubtPairs is the number of random pairs whose paths show how often paths of a fleet
	// contradict each other.
	doubtPairs = 64

	// falseAgreement is the accepted probability that all the paths that must agree are false.
	falseAgreement = 1e-6
)

// agreement returns how many paths must agree in a fleet like this one. A lie that is not much
// larger than the bounds contradicts nothing, so agreeingPaths does not notice it. Such lies are
// assumed to be as frequent as larger lies. So agreement counts how often the paths of random pairs
// without a direct relation contradict each other. If there is no such pair, two paths must agree.
func (l *longerPaths) agreement(c *Closure) int {
	l.doubted.Do(func() {
		r := rand.New(rand.NewPCG(1, uint64(len(c.names))))
		all, doubtful := 0, 0
		for range doubtPairs {
			from, into := r.IntN(len(c.names)), r.IntN(len(c.names))
			if from == into || c.edge(from, into) != nil {
				continue
			}
			paths, err := c.paths(from, into)
			if err != nil {
				continue
			}
			var at []Interval
			y := paths[0][0].limits.Mid()
			for _, p := range paths {
				if i, err := p.count(c.nodes[from].counts(At(y))); err == nil {
					at = append(at, i)
				}
			}
			all += len(at)
			doubtful += falsePaths(nil, at)
		}
		l.agreed = agreement(float64(doubtful) / float64(max(all, 1)))
	})
	return l.agreed
}

// agreement returns how many of maxDisjoint paths must agree, so that it is improbable that all of
// these are false (falseAgreement). Each path is false with the given probability. The value of a
// false path is too high as often as it is too low.
func agreement(p float64) int {
	ways := 2.0 * maxDisjoint
	for n := 2; n < maxDisjoint; n++ {
		ways *= float64(maxDisjoint-n+1) / float64(n)
		if ways*math.Pow(p/2, float64(n)) <= falseAgreement {
			return n
		}
	}
	return maxDisjoint
}
