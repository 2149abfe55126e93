package asm

import (
	"encoding/binary"
	"strings"
)

func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)

// Read returns the features of the time-stamp counter as the CPUID instruction reports them.
func Read() Features { return decode(cpuid) }

// decode takes the CPUID instruction as a function, so that tests can imitate other CPUs.
func decode(cpuid func(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)) Features {
	var f Features
	maxBasic, _, _, _ := cpuid(0, 0)
	maxExtended, _, _, _ := cpuid(0x8000_0000, 0)

	if maxExtended >= 0x8000_0001 {
		_, _, _, edx := cpuid(0x8000_0001, 0)
		f.Ordered = edx&(1<<27) != 0
	}
	if maxExtended >= 0x8000_0007 {
		_, _, _, edx := cpuid(0x8000_0007, 0)
		f.Invariant = edx&(1<<8) != 0
	}
	if maxExtended >= 0x8000_0004 {
		var brand []byte
		for leaf := uint32(0x8000_0002); leaf <= 0x8000_0004; leaf++ {
			a, b, c, d := cpuid(leaf, 0)
			brand = appendRegisters(brand, a, b, c, d)
		}
		f.CPU = text(brand)
	}

	const hypervisorPresent = 1 << 31
	if _, _, ecx, _ := cpuid(1, 0); maxBasic >= 1 && ecx&hypervisorPresent != 0 {
		maxHypervisor, b, c, d := cpuid(0x4000_0000, 0)
		f.Hypervisor = text(appendRegisters(nil, b, c, d))
		if maxHypervisor >= 0x4000_0010 { // VMware's leaf for timing, which KVM may have, too
			khz, _, _, _ := cpuid(0x4000_0010, 0)
			f.Frequency_hz = uint64(khz) * 1000
		}
	}
	if maxBasic >= 0x15 && f.Frequency_hz == 0 {
		denominator, numerator, crystal_hz, _ := cpuid(0x15, 0)
		if denominator != 0 {
			f.Frequency_hz = uint64(crystal_hz) * uint64(numerator) / uint64(denominator)
		}
	}
	return f
}

func appendRegisters(to []byte, registers ...uint32) []byte {
	for _, r := range registers {
		to = binary.LittleEndian.AppendUint32(to, r)
	}
	return to
}

// text returns the part of b before the first zero byte, where CPUID's strings end.
func text(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return strings.TrimSpace(s)
}
