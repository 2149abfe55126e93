package asm

func counterFrequency() uint64

// Read returns what the architecture guarantees. The rate of arm64's generic timer never changes.
func Read() Features {
	return Features{Ordered: true, Invariant: true, Frequency_hz: counterFrequency()}
}
