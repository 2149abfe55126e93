package fleet

import (
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// The summary of a fleet of a thousand nodes fits on a screen, and begins with what is unhealthy.
func TestManyNodesFitOnAScreen(t *testing.T) {
	m := &coordinator.Matrix{}
	for i := range 1000 {
		m.Nodes = append(m.Nodes, coordinator.NodeStatus{Name: fmt.Sprintf("n%03d", i),
			Alive: i != 7})
		m.Unhealthy = append(m.Unhealthy, fmt.Sprintf("fault %d", i))
		for _, step := range []int{1, 2, 3} {
			from, into := fmt.Sprintf("n%03d", i), fmt.Sprintf("n%03d", (i+step)%1000)
			bound := float64(1000 + i)
			m.Pairs = append(m.Pairs,
				coordinator.PairStatus{From: from, Into: into, Bound_ns: bound, Hi_cycles: 1,
					Verdict: "consistent"},
				coordinator.PairStatus{From: into, Into: from, Bound_ns: bound, Hi_cycles: 1,
					Verdict: "consistent"})
		}
	}
	for i := range 200 {
		m.SampledBounds_ns = append(m.SampledBounds_ns, float64(3000+i))
	}
	var out strings.Builder
	writeMany(&out, m)
	text := out.String()
	if lines := strings.Count(text, "\n"); lines > 40 {
		t.Errorf("%d lines", lines)
	}
	for _, line := range strings.Split(text, "\n") {
		if len(line) > 100 {
			t.Errorf("line %q has %d bytes", line, len(line))
		}
	}
	for _, want := range []string{
		"1000 nodes: 999 here, 1 gone; 3000 pairs", "fault 0", "and 992 more",
		"measured pairs, both ways   6000   1.00    1.50  1.90  1.99     2.00",
		"random pairs    200   3.00    3.10  3.18  3.20     3.20",
		"n999  into n000  ± 2.00 µs", "n998  into n000  ± 2.00 µs",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "n000  into n999") {
		t.Errorf("a pair is listed in both directions:\n%s", text)
	}
	figure := distributionFigure(m)
	for i, least := range []float64{1, 3} {
		s := figure.Panels[0].Series[i]
		last := len(s.X) - 1
		if last > 400 || s.X[0] != least || s.Y[last] != 100 || !slices.IsSorted(s.X) {
			t.Errorf("%s: %d points, from %v to %v %%", s.Name, last, s.X[0], s.Y[last])
		}
	}
	if strings.Index(text, "fault 0") > strings.Index(text, "median") {
		t.Error("faults do not come first")
	}
}

// The answer about a pair of nodes shows the paths over third nodes from which its bound was
// computed, as text and as an image.
func TestPairWithItsPaths(t *testing.T) {
	a := &coordinator.PairAnswer{
		NewestBound_ns: 900, NewestAge_ns: 7e9,
		Pair: coordinator.PairStatus{From: "a", Into: "b", Bound_ns: 2000, Hi_cycles: 9,
			Reading_cycles: 5, Lo_cycles: 7, Verdict: "consistent",
			LoPath: tscratio.Path{"a", "x<", "b"}, HiPath: tscratio.Path{"a", "y", "z", "b"}},
		Hops: []coordinator.Hop{
			{From: "a", Into: "x<", Bound_ns: 700, Age_ns: 2e9, Verdict: "consistent"},
			{From: "x<", Into: "b", Bound_ns: 800, Age_ns: 3e9, Verdict: "consistent"},
			{From: "a", Into: "y", Bound_ns: 300, Age_ns: 4e9, Verdict: "suspect"},
			{From: "y", Into: "z", Bound_ns: 400, Age_ns: 30e9, Verdict: "consistent",
				GivenUp: true},
			{From: "z", Into: "b", Bound_ns: 500, Age_ns: 5e9, Verdict: "consistent",
				Why: "tuples of run tuesday"},
		},
	}
	var out strings.Builder
	writePair(&out, a)
	for _, want := range []string{
		"a into b: ± 2.00 µs now, and ± 0.90 µs 7s ago, consistent\n",
		"when a showed 5, b was in [7, 9]\n",
		"lower end by a → x< → b\nupper end by a → y → z → b\n",
		"  y   into z   ± 0.40 µs  consistent  30s old, given up",
		"  z   into b   ± 0.50 µs  consistent  5s old             tuples of run tuesday\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	image := pathImage(a)
	if err := xml.Unmarshal([]byte(image), new(struct{})); err != nil {
		t.Errorf("%v in %s", err, image)
	}
	if n := strings.Count(image, "<line"); n != 5 || strings.Count(image, `class="x"`) != 2 ||
		strings.Count(image, "<circle") != 7 || !strings.Contains(image, "x&lt;") {
		t.Errorf("%d lines in %s", n, image)
	}
	a.Ago_ns, a.Pair.HiPath = 70e9, a.Pair.LoPath
	image = pathImage(a)
	if strings.Count(image, "<line") != 2 || !strings.Contains(image, "both ends") ||
		!strings.Contains(image, "± 2.00 µs 1m10s ago, and unknown now") {
		t.Errorf("one path: %s", image)
	}
}

// A run names a few of the nodes on which nothing was logged, however many there are.
func TestNodesWithoutLogsAreNamed(t *testing.T) {
	var nodes []string
	for i := range 1000 {
		nodes = append(nodes, fmt.Sprint("n", i))
	}
	for silent, want := range map[int]string{
		0:   "",
		1:   "no program logged anything on 1 of 1000 nodes: n0\n",
		8:   "no program logged anything on 8 of 1000 nodes: n0, n1, n2, n3, n4, n5, n6, n7\n",
		900: "no program logged anything on 900 of 1000 nodes: n0, n1, n2, n3, n4, n5, n6, n7, …\n",
	} {
		var out strings.Builder
		writeSilent(&out, &coordinator.RunStatus{Nodes: nodes, NoLogs: nodes[:silent]})
		if out.String() != want {
			t.Errorf("%d nodes: got %q, want %q", silent, out.String(), want)
		}
	}
}
