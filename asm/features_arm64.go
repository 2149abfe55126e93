package asm

func counterFrequency() uint64

// Read returns what the architecture promises about the generic timer. Its rate never changes.
func Read() Features {
	return Features{Ordered: true, Invariant: true, Frequency_hz: counterFrequency()}
}
