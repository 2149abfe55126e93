package tscratio

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// If paths contradict each other, a value is believed only if more paths agree on it than usual.
func TestContradictionsOfLiars(t *testing.T) {
	const huge = math.MaxUint64
	for name, test := range map[string]struct {
		direct, thirds []Interval
		want           int
	}{
		"all agree":       {nil, []Interval{{10, 20}, {12, 30}, {5, 13}, {0, huge}}, 2},
		"one contradicts": {nil, []Interval{{10, 20}, {12, 30}, {5, 13}, {31, 40}}, 3},
		"two contradict":  {nil, []Interval{{10, 20}, {12, 30}, {5, 13}, {31, 40}, {0, 4}}, 4},
		"all contradict":  {nil, []Interval{{10, 20}, {21, 30}, {31, 40}}, 3},
		"the direct one": {[]Interval{{10, 20}},
			[]Interval{{0, 9}, {0, 8}, {15, 16}, {8, 12}}, 4},
		"two are too few":  {nil, []Interval{{10, 20}, {31, 40}}, 2},
		"none but direct":  {[]Interval{{10, 20}}, []Interval{{0, 9}, {0, 8}, {25, 26}}, 3},
		"direct agrees":    {[]Interval{{10, 20}}, []Interval{{0, 11}, {0, 12}, {11, 26}}, 2},
		"touching at ends": {nil, []Interval{{10, 20}, {20, 30}, {20, 20}}, 2},
	} {
		c := &Closure{third: ThirdAgreed}
		c.longer.doubted.Do(func() { c.longer.agreed = 2 })
		if got := c.agreeingPaths(test.direct, test.thirds); got != test.want {
			t.Errorf("%s: %d must agree, want %d", name, got, test.want)
		}
		c.longer.agreed = 6
		if got := c.agreeingPaths(test.direct, test.thirds); got != max(3, len(test.thirds)) {
			t.Errorf("%s: %d must agree in a fleet of liars", name, got)
		}
		for third, want := range map[ThirdNodes]int{ThirdAny: 1, ThirdNone: math.MaxInt} {
			c := &Closure{third: third}
			if got := c.agreeingPaths(test.direct, test.thirds); got != want {
				t.Errorf("%s, third nodes %v: %d must agree, want %d", name, third, got, want)
			}
		}
	}
}

// If the lies of two liars are only as large as the bounds, these liars contradict nobody. But the
// lies of others show that this fleet has liars. So two paths that agree are not enough.
func TestHiddenLiarsAreOutvoted(t *testing.T) {
	const seconds = 8
	rng := seed.Random(t)
	// The first two nodes of each group were not measured with each other. Both were measured with
	// all other nodes of the group.
	groups := [][]int{{0, 1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12, 13}}
	f := newFleet(rng, 14, seconds, 1*PPM, 1, 0)
	cycles := func(node int, us float64) int64 {
		return int64(us * 1e-6 * float64(f.clocks[node].node.Nominal_hz))
	}
	f.lies[[2]int{2, 1}] = cycles(2, 7.5) // a path of two relations has a bound of 4.5 to 6.5 µs
	f.lies[[2]int{3, 1}] = cycles(3, 7.5)
	f.lies[[2]int{9, 8}] = cycles(9, 500)
	for _, g := range groups {
		for _, end := range g[:2] {
			for _, third := range g[2:] {
				f.measure(t, end, third, honestNetwork, 0.5, seconds-0.5)
			}
		}
	}
	c := f.closure(t, ThirdAgreed)
	misses := func() (n int) {
		for range 20 {
			at := uint64((1 + rng.Float64()*(seconds-2)) * second)
			for _, pair := range [][2]int{{0, 1}, {1, 0}, {7, 8}, {8, 7}} {
				e, truth := f.event(pair[0], at), f.event(pair[1], at)
				if got := mustReturn(c.Translate(e.Node, truth.Node, e.Reading))(t); !got.Contains(
					truth.Reading) {
					n++
				}
			}
		}
		return n
	}
	if n := misses(); n > 0 {
		t.Errorf("%d of 80 intervals are false", n)
	}
	if c.longer.agreed < 3 {
		t.Errorf("%d paths must agree in this fleet", c.longer.agreed)
	}
	if c.longer.agreed = 2; misses() == 0 {
		t.Error("no interval is false if two paths suffice: these lies try nothing")
	}
}

// The more often paths contradict each other, the more of them must agree.
func TestAgreementGrows(t *testing.T) {
	last := 0
	for _, test := range []struct {
		share float64
		want  int
	}{{0, 2}, {1e-4, 2}, {0.004, 3}, {0.01, 4}, {0.02, 5}, {0.09, 6}, {0.3, 8}, {1, 8}} {
		got := agreement(test.share)
		if got != test.want || got < last {
			t.Errorf("if a share of %g is false, %d must agree, want %d", test.share, got,
				test.want)
		}
		last = got
	}
}

// Disagreements accuse the nodes that occur in all of them, if these are at most two. However many
// disagreements the same three nodes have, any of the three may be wrong.
func TestAccused(t *testing.T) {
	of := func(a, b Path) *DisagreementError { return &DisagreementError{Paths: [2]Path{a, b}} }
	ds := []*DisagreementError{of(Path{"a", "b"}, Path{"a", "c", "b"}),
		of(Path{"c", "d"}, Path{"c", "a", "d"}), of(Path{"e", "c"}, Path{"e", "b", "c"})}
	for n, want := range [][]string{nil, nil, {"a", "c"}, {"c"}} {
		if got := accusedNodes(ds[:n]); !slices.Equal(got, want) {
			t.Errorf("%d disagreements accuse %v, want %v", n, got, want)
		}
	}
	ds = append(ds[:1], of(Path{"b", "a"}, Path{"b", "c", "a"}), of(Path{"c", "a"},
		Path{"c", "b", "a"}))
	if got := accusedNodes(ds); len(got) > 0 {
		t.Errorf("three disagreements of the same three nodes accuse %v", got)
	}
}

// Several liars are named, and nobody else. This holds if all nodes were measured with each other,
// and also if few pairs of nodes have a third node in common.
func TestSeveralLiarsAreNamed(t *testing.T) {
	const seconds = 4
	for _, test := range []struct{ nodes, degree, liars int }{{10, 9, 2}, {12, 11, 3}, {90, 14, 4},
		{150, 10, 3}} {
		seed.For(t, 3, func(t *testing.T, rng *rand.Rand) {
			f := newFleet(rng, test.nodes, seconds, 1*PPM, 1, 0)
			lie := func(liar, peer int) {
				f.lies[[2]int{liar, peer}] = int64(100_000 * (1 + rng.IntN(1000)))
			}
			var want []string
			for i := range test.liars {
				liar := i * (test.nodes / test.liars)
				want = append(want, f.clocks[liar].node.Name)
				for peer := range test.nodes {
					lie(liar, peer)
				}
			}
			for a := range test.nodes {
				for step := 1; step <= test.degree/2; step++ {
					b := (a + step*step*step) % test.nodes // hardly any two share a third node
					if test.degree == test.nodes-1 {
						b = (a + step) % test.nodes
					}
					if a != b && f.pairs[[2]int{min(a, b), max(a, b)}] == nil {
						f.measure(t, min(a, b), max(a, b), honestNetwork, 0.5, seconds-0.5)
					}
				}
			}
			got := f.closure(t, ThirdAgreed).Audit(3)
			slices.Sort(got.Liars)
			if slices.Sort(want); !slices.Equal(got.Liars, want) || len(got.Accused) > 0 {
				t.Errorf("%+v: %v and %v are named in %d disagreements, want %v", test, got.Liars,
					got.Accused, len(got.Disagreements), want)
			}
		})
	}
}

// A node is named if three disagreements have nothing in common but this node, and if they are at
// least a third of the node's comparisons.
func TestLiarsOfDisagreements(t *testing.T) {
	for name, test := range map[string]struct {
		found    string // the nodes of each disagreement
		compared int    // comparisons of each node
		want     string
	}{
		"three of each":      {"abc ade afg hij hkl hmn", 9, "ah"},
		"two":                {"abc ade hij hkl", 2, ""},
		"another in common":  {"abc abd abe hij hik hil", 9, ""},
		"among many":         {"abc ade afg hij hkl hmn", 10, ""},
		"explained by these": {"xab xcd xef xgh yai ykl ymn yop zaq zrs ztu zvw", 9, "xyz"},
	} {
		a := &auditor{compared: map[string]int{}}
		for _, nodes := range strings.Fields(test.found) {
			all := Path(strings.Split(nodes, ""))
			a.found = append(a.found, &DisagreementError{Paths: [2]Path{all[:2], all}})
			for _, n := range all {
				a.compared[n] = test.compared
			}
		}
		if got := strings.Join(a.nameLiars(), ""); got != test.want {
			t.Errorf("%s: %q is named, want %q", name, got, test.want)
		}
	}
}
