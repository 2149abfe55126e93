package analysis

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// The reference is the node with the smallest median bound to the others, unless one is named; and one to which more are related comes before.
func TestReferenceIsTheNodeOfSmallestBounds(t *testing.T) {
	rng := seed.Random(t)
	for _, near := range []int{0, 1, 2} { // to both others
		nodes := simrun.Nodes(rng, 3)
		var channels []simrun.Channel
		for i := range nodes {
			channels = append(channels, simrun.Channel{Node: i, Name: strings.ToLower(nodes[i].Name) + "/recv", Records: []simrun.Record{{Time: simrun.Hz, ID: 1}}})
		}
		parent := t.TempDir()
		if err := simrun.Write(rng, parent, "r", nodes, channels); err != nil {
			t.Fatal(err)
		}
		x, y := min((near+1)%3, (near+2)%3), max((near+1)%3, (near+2)%3)
		far(t, filepath.Join(parent, "r"), &nodes[x], &nodes[y])
		dir := openRun(t, parent, "r")
		if a := analyze(t, dir, Options{}); a.Reference.Node != nodes[near].Name || !a.Reference.Chosen {
			t.Errorf("%s is near to both others, and the reference is %+v", nodes[near].Name, a.Reference)
		}
		if a := analyze(t, dir, Options{Reference: nodes[x].Name}); a.Reference.Node != nodes[x].Name || a.Reference.Chosen {
			t.Errorf("%s was named, and the reference is %+v", nodes[x].Name, a.Reference)
		}
		dir.Run.Reference = nodes[y].Name
		if a := analyze(t, dir, Options{}); a.Reference.Node != nodes[y].Name || a.Reference.Chosen {
			t.Errorf("the run names %s, and the reference is %+v", nodes[y].Name, a.Reference)
		}
	}
}
