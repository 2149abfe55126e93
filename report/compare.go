package report

import (
	"slices"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// compareBounds shows our bound of each pair beside the bounds of other methods.
func (f *from) compareBounds() {
	all := slices.Clone(f.a.Comparisons)
	if len(all) == 0 || f.Timeline.Buckets == 0 {
		f.absent(PartBounds, "no two nodes were related, so no duration crosses")
		return
	}
	if n := len(all); n > maxComparisons {
		// Pairs with the reference are the most important for the answer, so they come first.
		slices.SortStableFunc(all,
			func(x, y analysis.Comparison) int { return f.withReference(y) - f.withReference(x) })
		all = all[:maxComparisons]
		f.absent(PartBounds, "%d more pairs of nodes are not compared", n-maxComparisons)
	}
	for _, c := range all {
		shown := Comparison{A: c.A, B: c.B, Verdict: parseVerdict(c.Verdict)}
		for _, m := range c.Methods {
			shown.Methods = append(shown.Methods,
				Method{Name: m.Name, Proven: m.Proven, Bound: m.Bounds_cycles, Absent: m.Absent,
					Times: m.Times, Gaps: m.Gaps})
		}
		f.Comparisons = append(f.Comparisons, shown)
	}
}

func (f *from) withReference(c analysis.Comparison) int {
	if c.A == f.Reference.Node || c.B == f.Reference.Node {
		return 1
	}
	return 0
}
