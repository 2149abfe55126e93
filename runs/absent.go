package runs

import (
	"cmp"
	"slices"
)

// DefaultAllPairs is used in place of Run.AllPairs if Run.AllPairs is 0.
const DefaultAllPairs = 30

func (d *Directory) absent(related [][2]string, logs []NodeLogs,
	known []Missing) (missing []Missing) {
	named := map[string]bool{}
	for _, m := range known {
		named[m.Part] = true
	}
	logged := map[string]bool{}
	for _, l := range logs {
		logged[l.Node] = logged[l.Node] || len(l.Segments) > 0
	}
	for _, n := range d.Run.Nodes {
		if !logged[n.Name] && !n.NoLogs && !named[LogsPath(n.Name)] {
			reason := "no log of this node was collected"
			if n.Left != "" {
				reason += ": " + n.Left
			}
			missing = append(missing, Missing{LogsPath(n.Name), reason})
		}
	}
	if len(d.Run.Nodes) > cmp.Or(d.Run.AllPairs, DefaultAllPairs) {
		missing = append(missing, d.nodesApart(related)...)
	} else {
		missing = append(missing, d.unrelatedPairs(related, named)...)
	}
	if d.Run.Ended.IsZero() {
		missing = append(missing, Missing{runFile, "it does not say when the run ended"})
	}
	return missing
}

// unrelatedPairs returns the pairs of nodes that have no relation.
func (d *Directory) unrelatedPairs(related [][2]string, named map[string]bool) (missing []Missing) {
	for i, a := range d.Run.Nodes {
		for _, b := range d.Run.Nodes[i+1:] {
			if !slices.Contains(related, [2]string{a.Name, b.Name}) &&
				!slices.Contains(related, [2]string{b.Name, a.Name}) &&
				!named[RelationPath(a.Name, b.Name)] && !named[RelationPath(b.Name, a.Name)] {
				missing = append(missing, Missing{
					RelationPath(a.Name, b.Name), "the two nodes were not related",
				})
			}
		}
	}
	return missing
}

// nodesApart returns the nodes outside the largest group of nodes that chains of relations connect.
func (d *Directory) nodesApart(related [][2]string) (missing []Missing) {
	group := map[string]string{} // by node: another node of its group, on the way to the last one
	of := func(node string) string {
		for group[node] != "" {
			if next := group[group[node]]; next != "" {
				group[node] = next // the next search has half the way
			}
			node = group[node]
		}
		return node
	}
	for _, p := range related {
		if a, b := of(p[0]), of(p[1]); a != b {
			group[a] = b
		}
	}
	sizes := map[string]int{}
	largest := ""
	for _, n := range d.Run.Nodes {
		g := of(n.Name)
		if sizes[g]++; sizes[g] > sizes[largest] {
			largest = g
		}
	}
	for _, n := range d.Run.Nodes {
		if g := of(n.Name); g != largest {
			reason := "no relations lead from it to most other nodes"
			if sizes[g] == 1 {
				reason = "it was related to no other node"
			}
			missing = append(missing, Missing{"node " + n.Name, reason})
		}
	}
	return missing
}
