package fleet

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/overlay"
)

// A node that runs alone and gets what it received in a fleet does the same work again. If it does
// not, no figure is returned.
func TestTapesArePlayed(t *testing.T) {
	w := &world{r: rand.New(rand.NewPCG(seed.Of(t), 0)), byName: map[overlay.Name]*node{},
		tapeEvery: 4, o: Options{Nodes: 12, Degree: 3, Loss: 0.01}}
	if err := w.grow(); err != nil {
		t.Fatal(err)
	}
	cost, err := costOf([]*world{w})
	if err != nil || len(cost.tapes) != 3 {
		t.Fatalf("%d tapes, want 3; error %v", len(cost.tapes), err)
	}
	means, err := playAll(cost.tapes, cost.tapes[:1])
	if err != nil || means[0] <= 0 || means[1] <= 0 {
		t.Errorf("times are %v, error %v", means, err)
	}
	cost.tapes[1].inputs = cost.tapes[1].inputs[:len(cost.tapes[1].inputs)*9/10]
	if _, err := playAll(cost.tapes); err == nil || !strings.Contains(err.Error(), "messages") {
		t.Errorf("a tape that lacks its end: %v", err)
	}
}
