package tscratio

// Assumed is something that bounds rest on: its name, what is assumed of it, and what that means.
type Assumed struct{ Name, Value, Means string }

// StampsAssumed is what a stamp of the kernel's being true rests on, beside a relation's own
// assumptions. Nothing of it is assumed of stamps that a program takes around its system calls.
func StampsAssumed() []Assumed {
	return []Assumed{
		{"transmit stamps", "before the device",
			"the kernel stamps a packet before it hands it to the device"},
		{"clock of stamps", "as adjtimex says",
			"CLOCK_REALTIME runs as adjtimex says at both ends of a train"},
		{"changes of the clock", "for longer than a train",
			"nobody changes how it runs, or the clocksource, and takes that back in a train"},
		{"steps of the clock", "noticed",
			"a step of it during a train is noticed before the train ends"},
	}
}
