package tscratio

// Assumed is one assumption that bounds rest on: a name, a value, and a sentence that explains
// both.
type Assumed struct{ Name, Value, Means string }

// SharedAssumed is what is assumed where both nodes read a clock that they share (Stamps.Shared).
func SharedAssumed() Assumed {
	return Assumed{"shared clock", "as an operator says",
		"nodes that name one clock read one clock, within the error and the wander that they " +
			"state, and nobody sets it during a train"}
}

// StampsAssumed lists what is assumed of stamps that the kernel takes, in addition to the
// relation's own assumptions. Stamps that a program takes around its system calls need none of
// these assumptions.
func StampsAssumed() []Assumed {
	return []Assumed{
		{"transmit stamps", "before the device",
			"the kernel stamps a packet before it hands it to the device"},
		{"receive stamps", "after the arrival",
			"the kernel stamps a packet that arrives after it arrived"},
		{"clock of stamps", "as adjtimex says",
			"CLOCK_REALTIME runs as adjtimex says at both ends of a train"},
		{"rate of the clock", "± 1 ppm in a train",
			"while nothing steers it, its rate moves by at most 1 ppm in a train"},
		{"changes of the clock", "for longer than a train",
			"nobody changes how it runs, or the clocksource, and takes that back in a train"},
		{"steps of the clock", "noticed",
			"a step of it during a train is noticed before the train ends"},
	}
}
