package mutation

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

var mutate = flag.Bool("mutate", false, "apply every mutation of the list and want the package's "+
	"tests to notice (minutes)")

// A mutation is one way to break a package: it replaces one text in a file with another text. run
// is a pattern: only tests whose names match it run. If run is empty, all tests of the package run.
// At least one of the tests that run must fail.
type mutation struct{ name, file, old, new, run string }

// parse reads a list of mutations. Each mutation has four or five lines, and an empty line
// separates two mutations. If a block begins with #, it is a comment.
func parse(text string) ([]mutation, error) {
	var list []mutation
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		lines := strings.Split(strings.Trim(block, "\n"), "\n")
		if strings.HasPrefix(lines[0], "#") {
			continue
		}
		if len(lines) < 4 || len(lines) > 5 {
			return nil, fmt.Errorf("parse mutations: %d lines, want name, file, old, new and "+
				"maybe a pattern of tests:\n%s", len(lines), block)
		}
		m := mutation{name: lines[0], file: lines[1], old: lines[2], new: lines[3]}
		if len(lines) == 5 {
			m.run = lines[4]
		}
		list = append(list, m)
	}
	return list, nil
}

// smallTime is for the small size (proof.Small): after this time, Test starts no further mutation.
const smallTime = 3 * time.Second

// Test checks that each mutation in a list still applies to the package in the working directory.
// With -mutate, or if bars are measured at full size, it applies each mutation in turn and runs the
// package's tests. If bars are measured at small size, it does so only for the first few mutations.
func Test(t *testing.T, list string) {
	t.Helper()
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	size, err := proof.Wanted()
	if err != nil {
		t.Fatal(err)
	}
	if *mutate {
		size = proof.Full
	}
	begun := time.Now()
	applied, unnoticed := 0, 0
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			source, err := os.ReadFile(m.file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(source), m.old) {
				t.Fatalf("%q does not occur in %s", m.old, m.file)
			}
			if size == proof.None || size == proof.Small && time.Since(begun) > smallTime {
				return
			}
			applied++
			noticed, output, err := run(t, m, strings.ReplaceAll(string(source), m.old, m.new))
			switch {
			case err != nil:
				t.Fatal(err)
			case !noticed:
				unnoticed++
				t.Error("no test noticed")
			default:
				for line := range strings.Lines(output) {
					if strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:") {
						t.Log(strings.TrimSpace(line))
					}
				}
			}
		})
	}
	if size != proof.None && !*mutate {
		proof.Check(t,
			proof.Bar{Name: fmt.Sprintf("mutations of %s that no test notices",
				filepath.Base(dir(t))), Figure: float64(unnoticed),
				Unit: fmt.Sprintf("of %d applied", applied)})
	}
}

func dir(t *testing.T) string {
	d, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// run runs the package's tests after it has replaced the content of a file by another text.
func run(t *testing.T, m mutation, mutated string) (noticed bool, output string, err error) {
	temporary := t.TempDir()
	replacement := filepath.Join(temporary, "mutated.go")
	if strings.HasSuffix(m.file, ".s") {
		replacement = filepath.Join(temporary, "mutated.s")
	}
	overlay, err :=
		json.Marshal(
			map[string]map[string]string{"Replace": {filepath.Join(dir(t), m.file): replacement}})
	if err != nil {
		return false, "", err
	}
	overlayFile := filepath.Join(temporary, "overlay.json")
	for name, text := range map[string]string{replacement: mutated, overlayFile: string(overlay)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return false, "", err
		}
	}
	args := []string{"test", "-overlay", overlayFile, "-failfast", "-count=1", "-timeout=2m",
		"-skip=^TestMutations$", "."}
	if m.run != "" {
		args = append(args, "-run", m.run)
	}
	cmd := exec.Command("go", args...)
	for _, variable := range os.Environ() {
		// Leave out the variables that make tests check bars, because bars need not notice a
		// mutation.
		if !strings.HasPrefix(variable, "CLOUDPROFILER_PROOF") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	out, err := cmd.CombinedOutput()
	switch {
	case strings.Contains(string(out), "[build failed]") ||
		strings.Contains(string(out), "[setup failed]"):
		return false, "", fmt.Errorf("it does not build: %s", out)
	case strings.Contains(string(out), "no tests to run"):
		return false, "", fmt.Errorf("no test is named %s", m.run)
	case err != nil && !strings.Contains(string(out), "--- FAIL") && !strings.Contains(string(out),
		"panic:"):
		// This happens, for example, if somebody kills the tests, or if they have no memory or disk
		// space left.
		return false, "", fmt.Errorf("its tests ended without one that failed: %w\n%s", err, out)
	}
	return err != nil, string(out), nil
}
