package tscratio

import "slices"

// Audit holds every third node against every relation.
type Audit struct {
	Disagreements []*DisagreementError // at most one a triangle

	// Accused are the nodes that all disagreements have in common. With one disagreement these are
	// all of its nodes; with more, the one that is wrong remains.
	Accused []string
}

// Audit compares, for every three nodes, the direct relation with the way over the third, at so
// many readings spread evenly over what the direct relation translates. It does so whatever is
// taken of third nodes.
func (c *Closure) Audit(readings int) Audit {
	var a Audit
	for from := range c.names {
		for into, direct := range c.relations[from] {
			if direct == nil {
				continue
			}
			for p := range c.over(from, into) {
				for i := range readings {
					y := direct.limits.Lo + direct.limits.Width()/uint64(readings+1)*uint64(i+1)
					x, errX := direct.count(At(y))
					z, errZ := p.count(At(y))
					if errX == nil && errZ == nil && !x.Intersect(z).Valid() {
						a.Disagreements = append(a.Disagreements,
							&DisagreementError{y, [2]Path{path{first: direct}.nodes(), p.nodes()},
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
