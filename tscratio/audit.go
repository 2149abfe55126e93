package tscratio

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Audit is the result of comparing every relation with the paths over third nodes.
type Audit struct {
	Disagreements []*DisagreementError // at most one per triangle

	// Accused are the nodes that occur in every disagreement, if there are several. A single one
	// accuses nobody, because any of its nodes may be wrong.
	Accused []string
}

// Audit compares, for every three nodes, the direct relation of two nodes with the path over the
// third. It translates a number of readings (the parameter) both directly and over the third node.
// The readings are spread evenly over the direct relation's limits. Audit uses every third node,
// whatever ThirdNodes says.
func (c *Closure) Audit(readings int) Audit {
	var a Audit
	for from := range c.names {
		for _, e := range c.edges[from] {
			direct := e.r
			for p := range c.over(from, e.into) {
				for i := range readings {
					y := direct.limits.Lo + direct.limits.Width()/uint64(readings+1)*uint64(i+1)
					x, errX := direct.count(At(y))
					z, errZ := p.count(At(y))
					if errX == nil && errZ == nil && !x.Intersect(z).Valid() {
						a.Disagreements = append(a.Disagreements,
							&DisagreementError{y, [2]Path{path{direct}.nodes(), p.nodes()},
								[2]Interval{x, z}})
						break
					}
				}
			}
		}
	}
	a.Accused = accused(a.Disagreements)
	return a
}

// accused returns the nodes that occur in every disagreement, if there are several.
func accused(ds []*DisagreementError) (all []string) {
	if len(ds) < 2 {
		return nil
	}
	all = ds[0].Nodes()
	for _, d := range ds[1:] {
		nodes := d.Nodes()
		all = slices.DeleteFunc(all, func(n string) bool { return !slices.Contains(nodes, n) })
	}
	return all
}

// agreeing returns how many paths over third nodes must agree about an end of a value, given the
// intervals of all paths, and the one of the direct relation if there is one. With ThirdAgreed, two
// must agree. In a fleet whose paths often contradict each other, more must agree, and one more for
// each of the given paths that contradicts the others. If there are fewer paths than that, all must
// agree. But in such a fleet, two paths alone are not believed.
func (c *Closure) agreeing(direct, thirds []Interval) int {
	n := c.third.needed()
	if c.third != ThirdAgreed || len(thirds) < n {
		return n
	}
	n = c.longer.agreement(c)
	return max(min(n, 3), min(n+contradicted(direct, thirds), len(thirds)))
}

// contradicted returns the smallest number of paths over third nodes that must be false, because
// no value lies in all other intervals and in that of the direct relation, if there is one.
func contradicted(direct, thirds []Interval) int {
	within := Interval{0, math.MaxUint64}
	if direct != nil {
		within = direct[0]
	}
	most := 0
	for _, third := range thirds {
		// The values that most intervals contain begin at the beginning of an interval.
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

func intervals(all []told) (is []Interval) {
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

// agreement returns how many paths must agree in a fleet like this, apart from those that
// contradict others. A lie that is not much larger than the bounds contradicts nothing. So
// agreement assumes that such lies are as frequent as those that contradict. It looks only at pairs
// of nodes without a direct relation. If all pairs are measured, two paths must agree.
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
			doubtful += contradicted(nil, at)
		}
		l.agreed = agreement(float64(doubtful) / float64(max(all, 1)))
	})
	return l.agreed
}

// agreement returns how many of maxDisjoint paths must agree, if each is false with probability p,
// upward as often as downward.
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
