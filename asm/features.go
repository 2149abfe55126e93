package asm

import (
	"errors"
	"fmt"
)

// ErrUnfit is returned when the CPU's counter cannot be used to measure time.
var ErrUnfit = errors.New("counter unfit")

// Features is what the CPU says about its counter. It is read once and does not change.
type Features struct {
	CPU        string // brand string, "" where the CPU gives none
	Hypervisor string // signature such as KVMKVMKVM, "" where none shows itself
	Ordered    bool   // the counter can be read in program order, with the core (RDTSCP); always true on arm64
	Invariant  bool   // the counter runs at one rate in every power and frequency state

	// Frequency_hz is what CPU or hypervisor claim, 0 where they claim nothing. It is a label, for display
	// before a better one is known; no bound rests on it.
	Frequency_hz uint64
}

// Check returns nil where the counter can be used, or an error that wraps ErrUnfit and says what to do.
func (f Features) Check() error {
	switch {
	case !f.Ordered:
		return fmt.Errorf("check counter of %q: no RDTSCP instruction: use a CPU from after 2008, or let the hypervisor pass it through: %w", f.CPU, ErrUnfit)
	case !f.Invariant:
		return fmt.Errorf("check counter of %q: not invariant (CPUID 80000007h, EDX bit 8): the hypervisor may hide it (QEMU: -cpu host,+invtsc): %w", f.CPU, ErrUnfit)
	}
	return nil
}
