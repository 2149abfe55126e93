//go:build !race

package handlers

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// If a handler needs a stamp, a log call reads the counter once, with the instruction that the
// options name. Otherwise the call does not read the counter. This is so for the first call, which
// the Go code handles, and for later calls, which the assembly handles.
func TestInstructionThatReadsTheCounter(t *testing.T) {
	program := startStepped(t)
	for _, handler := range []struct {
		name   string
		params channel.Params
		reads  bool
	}{
		{"null", nil, false},
		{"id", nil, true},
		{"buffered", nil, true},
		{"xoy", channel.Params{"x": 1, "y": 2}, true},
		{"downsample", channel.Params{"n": 1}, true},
		{"counter", channel.Params{"period": "1s"}, false},
		{"first-last", nil, true},
	} {
		for _, writer := range allWriters {
			program.openChannel(writer.many, Options{Handler: handler.name, Params: handler.params,
				Stamp: writer.stamp})
			want := map[string]int{}
			if handler.reads {
				want[writer.stamp]++
			}
			for call := range uint64(2) {
				reads := program.countReads(order{Do: "log", ID: 2 * call})
				if reads["rdtscp"] != want["rdtscp"] || reads["rdtsc"] != want["rdtsc"] {
					t.Errorf("%s, %s, call %d: reads %v, want %v", handler.name, writer.name, call,
						reads, want)
				}
			}
		}
	}
}

// countReads steps through an order and counts the instructions that read the counter. It leaves
// out the kernel's code in the program (the vDSO), which the scheduler calls to read the clock.
func (s *steppedProgram) countReads(o order) map[string]int {
	s.t.Helper()
	const kernelCode = 1 << 40 // the program's own code is far below
	n := map[string]int{}
	s.stepOrder(o, func(int, bool) bool {
		var r unix.PtraceRegs
		var code [3]byte
		if err := unix.PtraceGetRegs(s.pid, &r); err != nil {
			s.t.Fatal(err)
		}
		if r.Rip >= kernelCode {
			return true
		}
		if _, err := unix.PtracePeekText(s.pid, uintptr(r.Rip), code[:]); err != nil {
			s.t.Fatal(err)
		}
		switch {
		case bytes.Equal(code[:], []byte{0x0F, 0x01, 0xF9}):
			n["rdtscp"]++
		case bytes.Equal(code[:2], []byte{0x0F, 0x31}):
			n["rdtsc"]++
		}
		return true
	})
	return n
}
