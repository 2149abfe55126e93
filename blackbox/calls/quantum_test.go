package calls

import "testing"

// The quantum is that of the beginnings, however clocks are set. Ends may be more exact.
func TestQuantum(t *testing.T) {
	for _, c := range []struct {
		name                      string
		begin, took, set, quantum int64
	}{
		{"whole milliseconds", 1_000_000, 2_000_000, 0, 1_000_000},
		{"a clock between two milliseconds", 1_000_000, 2_000_000, 123_456, 1_000_000},
		{"exact durations", 1_000_000, 2_345_678, 0, 1_000_000},
		{"microseconds", 7_000, 2_000_000, 0, 1_000},
		{"nanoseconds", 7_001, 2_000_000, 0, 1},
	} {
		set := &Set{Seen: Seen{Places: []Place{{Program: "a"}, {Program: "b"}}}}
		for i := range int64(10) {
			sent := i * i * c.begin
			received := sent + 3*c.begin + c.set
			set.Calls = append(set.Calls, Call{Caller: 0, Callee: 1, Sent_ns: sent,
				Received_ns: received, Replied_ns: received + i*c.took/2, Got_ns: sent + i*c.took})
		}
		if set.findQuantum(); set.Quantum_ns != c.quantum {
			t.Errorf("%s: the quantum is %d ns, want %d", c.name, set.Quantum_ns, c.quantum)
		}
	}
}
