package tscratio

import "testing"

func TestDescribeWidens(t *testing.T) {
	a := Node{Name: "a", Epoch: "1", Nominal_hz: 1e9, Quantum_cycles: 4, CoreSlack_cycles: 10}
	b := Node{Name: "b", Epoch: "1", Nominal_hz: 2e9, Quantum_cycles: 1, CoreSlack_cycles: 20}
	for _, test := range []struct {
		is, wantA, wantB Node
	}{
		{a, a, b},
		{Node{"a", "1", 1e9, 2, 5}, a, b},
		{Node{"a", "1", 1e9 + 1, 2, 30}, Node{"a", "1", 1e9 + 1, 4, 30}, b},
		{Node{"b", "1", 2e9, 7, 0}, a, Node{"b", "1", 2e9, 7, 20}},
		{Node{"b", "2", 2e9, 7, 90}, a, b},
		{Node{"c", "1", 2e9, 7, 90}, a, b},
	} {
		p, err := NewPair(a, b, DefaultAssumptions())
		if err != nil {
			t.Fatal(err)
		}
		changed := p.Describe(test.is)
		if p.A != test.wantA || p.B != test.wantB ||
			changed != (test.wantA != a || test.wantB != b) {
			t.Errorf("by %+v: changed %v, to %+v and %+v", test.is, changed, p.A, p.B)
		}
	}
}
