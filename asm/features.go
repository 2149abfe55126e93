package asm

import (
	"errors"
	"fmt"
)

// ErrUnfit is returned when the CPU's counter cannot be used to measure time.
var ErrUnfit = errors.New("counter unfit")

// Features describes the counter as the CPU does. It never changes.
type Features struct {
	CPU        string // brand string; "" if the CPU has none
	Hypervisor string // signature such as KVMKVMKVM; "" if none is found
	Ordered    bool   // one instruction reads counter and core in order (RDTSCP); true on arm64
	Invariant  bool   // the counter runs at one rate in every power and frequency state

	// Frequency_hz is the frequency that the CPU or the hypervisor claims, or 0 if neither claims
	// one. It is shown until the frequency has been measured. No bound depends on it.
	Frequency_hz uint64
}

// Check returns nil if the counter can measure time. If it cannot, the error wraps ErrUnfit and
// says what to do.
func (f Features) Check() error {
	switch {
	case !f.Ordered:
		return fmt.Errorf("check counter of %q: no RDTSCP instruction: use a CPU from after "+
			"2008, or let the hypervisor pass it through: %w", f.CPU, ErrUnfit)
	case !f.Invariant:
		return fmt.Errorf("check counter of %q: not invariant (CPUID 80000007h, EDX bit 8): the "+
			"hypervisor may hide it (QEMU: -cpu host,+invtsc): %w", f.CPU, ErrUnfit)
	}
	return nil
}
