package runs

import (
	"cmp"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Times relates the counters of a run's nodes. Any number of goroutines may use it.
type Times struct {
	Closure *tscratio.Closure
	names   map[[2]string]string // by node and epoch
}

// Times evaluates the stored relations. If w is 0, each relation uses the wander that is stored
// with it. A relation that cannot be used is left out: package analysis reports it.
func (d *Directory) Times(w tscratio.Wander, third tscratio.ThirdNodes) (*Times, error) {
	t := &Times{names: map[[2]string]string{}}
	for _, n := range d.Run.Nodes {
		for i, e := range n.Epochs() {
			name := n.Name
			if len(n.Earlier) > 0 {
				name = fmt.Sprintf("%s (epoch %d)", n.Name, i+1) // as in package analysis
			}
			t.names[[2]string{n.Name, e.Epoch}] = name
		}
	}
	pairs, _ := d.Relations()
	var relations []*tscratio.Relation
	for _, p := range pairs {
		for _, n := range []*tscratio.Node{&p.A, &p.B} {
			n.Name = cmp.Or(t.names[[2]string{n.Name, n.Epoch}], n.Name)
		}
		for _, into := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
			r, err := p.Relate(into, cmp.Or(w, p.Declared.Wander))
			if err != nil {
				break
			}
			relations = append(relations, r)
		}
	}
	var err error
	t.Closure, err = tscratio.NewClosure(relations, third)
	return t, err
}

// Node returns the name that Closure gives to a node in an epoch. It is empty if the run does not
// have the epoch.
func (t *Times) Node(node, epoch string) string { return t.names[[2]string{node, epoch}] }
