package asm

import (
	"errors"
	"fmt"
)

// ErrUnfit is returned if the CPU's counter cannot measure time.
var ErrUnfit = errors.New("counter unfit")

// Features describes the counter as the CPU itself describes it. This description never changes.
type Features struct {
	CPU        string // brand, such as "Intel(R) Xeon(R) …"; "" if the CPU states none
	Hypervisor string // signature, such as "KVMKVMKVM"; "" if none is found
	Ordered    bool   // the CPU can read the counter in order (RDTSCP); true on arm64
	Invariant  bool   // the counter runs at one rate, whatever the CPU's power state and frequency

	// Frequency_hz is the frequency that the CPU or the hypervisor claims; 0 if neither claims one.
	// Programs show it until they have measured the frequency. No bound depends on it.
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
