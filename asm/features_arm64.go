package asm

func counterFrequency() uint64

// Read returns what the architecture guarantees for the generic timer, whose rate never changes.
func Read() Features {
	return Features{Ordered: true, Invariant: true, Frequency_hz: counterFrequency()}
}
