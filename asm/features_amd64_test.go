package asm

import (
	"errors"
	"strings"
	"testing"
)

// A cpu contains the CPUID leaves of a CPU. A missing leaf reads as zero, as on hardware.
type cpu map[uint32][4]uint32

func (c cpu) cpuid(leaf, _ uint32) (eax, ebx, ecx, edx uint32) {
	r := c[leaf]
	return r[0], r[1], r[2], r[3]
}

func TestDecode(t *testing.T) {
	const brand = 0x20_55_50_43 // the text "CPU "
	tests := map[string]struct {
		cpu  cpu
		want Features
		err  string
	}{
		"bare metal": {
			cpu: cpu{0: {0x16}, 0x8000_0000: {0x8000_0008},
				0x8000_0001: {3: 1 << 27}, 0x8000_0007: {3: 1 << 8},
				0x8000_0002: {0: brand, 1: 0x58}, 0x15: {2, 200, 24_000_000}},
			want: Features{CPU: "CPU X", Ordered: true, Invariant: true,
				Frequency_hz: 2_400_000_000},
		},
		"virtual, with a claimed rate": {
			cpu: cpu{0: {1}, 1: {2: 1 << 31}, 0x8000_0000: {0x8000_0008},
				0x8000_0001: {3: 1 << 27}, 0x8000_0007: {3: 1 << 8},
				0x4000_0000: {0x4000_0010, 0x4b4d564b, 0x564b4d56, 0x4d}, 0x4000_0010: {2_596_000}},
			want: Features{Hypervisor: "KVMKVMKVM", Ordered: true, Invariant: true,
				Frequency_hz: 2_596_000_000},
		},
		"hypervisor hides invariance": {
			cpu:  cpu{0: {1}, 0x8000_0000: {0x8000_0008}, 0x8000_0001: {3: 1 << 27}},
			want: Features{Ordered: true},
			err:  "invtsc",
		},
		"leaf 80000007h does not exist and must not be read": {
			cpu: cpu{0: {1}, 0x8000_0000: {0x8000_0001}, 0x8000_0001: {3: 1 << 27},
				0x8000_0007: {3: 1 << 8}},
			want: Features{Ordered: true},
			err:  "not invariant",
		},
		"no RDTSCP": {cpu: cpu{0: {1}}, want: Features{}, err: "no RDTSCP"},
		"leaf 15h with zeros": {cpu: cpu{0: {0x16}, 0x15: {0, 0, 24_000_000}}, want: Features{},
			err: "no RDTSCP"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := decode(test.cpu.cpuid)
			if got != test.want {
				t.Errorf("decode = %+v, want %+v", got, test.want)
			}
			err := got.Check()
			if test.err == "" && err != nil {
				t.Errorf("Check() = %v, want nil", err)
			}
			if test.err != "" &&
				(!errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("Check() = %v, want %q and ErrUnfit", err, test.err)
			}
		})
	}
}
