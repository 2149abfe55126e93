package conformance

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The script contains operations on a replay clock, with the results of the clock in Go. The clock
// in C must give the same results, compiled as C and as C++.
func TestReplayClocks(t *testing.T) {
	script, err := os.ReadFile("../../replay/clock/testdata/conformance.txt")
	if err != nil {
		t.Fatal(err)
	}
	for name, compiler := range map[string][]string{
		"C":   {"cc", "-std=c11", "-Wstrict-prototypes", "-DCP_CLOCK_HELD=256"},
		"C++": {"c++", "-std=c++17", "-x", "c++", "-DCP_CLOCK_HELD=300"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(compiler[0]); err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			program := filepath.Join(t.TempDir(), "clock")
			build := exec.Command(compiler[0], append(compiler[1:], "-O2", "-Wall", "-Wextra",
				"-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-I../../sdk/c/include", "-o",
				program, "../../sdk/c/test/clock.c")...)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			run := exec.Command(program)
			run.Stdin = bytes.NewReader(script)
			out, err := run.CombinedOutput()
			passed, _ := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil || passed < 500 {
				t.Errorf("%d lines passed, %v: %s", passed, err, out)
			}
		})
	}
}
