package tscratio

import "slices"

// Audit is the result of comparing every relation with the paths over third nodes.
type Audit struct {
	Disagreements []*DisagreementError // at most one per triangle

	// Accused are the nodes that occur in every disagreement. One disagreement accuses all of its
	// nodes. Further disagreements narrow the list to the node that is wrong.
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
	for i, d := range a.Disagreements {
		if i == 0 {
			a.Accused = d.Nodes()
			continue
		}
		nodes := d.Nodes()
		a.Accused = slices.DeleteFunc(a.Accused,
			func(n string) bool { return !slices.Contains(nodes, n) })
	}
	return a
}
