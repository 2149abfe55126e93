package fleet

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// The experiments of KELP's thesis give what the model says. The limit allows for chance: there are
// few searches.
func TestKelp(t *testing.T) {
	seed.NotUnderRace(t, "the fleet is one goroutine")
	cells, err := Kelp(t.Context(), KelpOptions{Nodes: 1000, Searches: 400, Periods: leastPeriods,
		Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]int{}
	for _, c := range cells {
		tables[c.Table]++
		if c.Off() > 0.2 && c.Free == "" {
			t.Errorf("%s, %s: %.2f, and %.2f by the model", c.Table, c.What, c.Measured, c.Model)
		}
	}
	for i, want := range []int{16, 7, 42, 6, 3} {
		if got := tables[KelpTables[i]]; got != want {
			t.Errorf("%d figures of %s, want %d", got, KelpTables[i], want)
		}
	}
}
