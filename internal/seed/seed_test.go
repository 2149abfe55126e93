package seed

import (
	"math/rand/v2"
	"testing"
)

func TestTakenBack(t *testing.T) {
	t.Setenv(Variable, "7")
	if n := Of(t); n != 7 {
		t.Errorf("seed %d, want 7", n)
	}
	if x, y := Random(t).Uint64(), Random(t).Uint64(); x != y {
		t.Errorf("one seed gives %d and %d", x, y)
	}
	t.Setenv(Variable, "")
	if first, second := Of(t), Of(t); first == second {
		t.Errorf("two tests have the same seed, %d", first)
	}
}

func TestFor(t *testing.T) {
	numbers := func() (all []uint64) {
		For(t, 3*Share(), func(_ *testing.T, r *rand.Rand) { all = append(all, r.Uint64()) })
		return all
	}
	t.Setenv(Variable, "")
	all := numbers()
	if len(all) != 3 || all[0] == all[1] || all[1] == all[2] {
		t.Errorf("three seeds give %d", all)
	}
	t.Setenv(Variable, "2")
	if one := numbers(); len(one) != 1 || one[0] != all[1] {
		t.Errorf("the second seed alone gives %d, among three %d", one, all)
	}
}
