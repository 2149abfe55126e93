package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestMain lets this test's binary act as a command that prove starts: one that reports bars, one
// that fails, or one that reports nothing.
func TestMain(m *testing.M) {
	switch play := os.Getenv("PROVE_TEST_PLAY"); play {
	case "":
		os.Exit(m.Run())
	case "fail":
		os.Exit(1)
	case "silent":
		os.Exit(0)
	default:
		size, err := proof.Wanted()
		if err == nil {
			bar := proof.Bar{Name: "played at " + string(size), Figure: 1, Limit: 2, Unit: "x"}
			switch play {
			case "miss", "slow":
				bar.Figure = 3
			case "absent", "noise":
				bar.Absent = "needs root"
			}
			bar.Timing = play == "slow" || play == "noise"
			err = proof.Report(bar)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if play == "absent" || play == "noise" { // exits as cprof does
			os.Exit(partial)
		}
		os.Exit(0)
	}
}

func TestRun(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		play string
		args []string
		code int
		out  string
	}{
		"reached": {"reach", nil, 0, "played at small: reached"},
		"at full size": {"reach", []string{"-size", "full"}, 0,
			"played at full: reached"},
		"missed": {"miss", nil, 1, "0 reached, 1 missed, 0 absent"},
		"a slow machine": {"slow", nil, 0, "MISSED: 3 x (≤ 2): a timing, which " +
			"only a full run judges"},
		"a slow machine, at full size": {"slow", []string{"-size", "full"}, 1,
			"0 reached, 1 missed"},
		"a noisy machine":               {"noise", nil, 0, "0 missed, 0 absent, 1 timings"},
		"a noisy machine, at full size": {"noise", []string{"-size", "full"}, 3, "1 absent"},
		"absent":                        {"absent", nil, 3, "absent: needs root"},
		"failed":                        {"fail", nil, 1, "failed: exit status 1"},
		"silent":                        {"silent", nil, 1, "reported no bar"},
		"an odd size":                   {"reach", []string{"-size", "huge"}, 2, ""},
		"an argument":                   {"reach", []string{"log"}, 2, ""},
		"an odd flag":                   {"reach", []string{"-nosuch"}, 2, ""},
		"nothing listed":                {"", nil, 2, ""},
		"named": {"reach", []string{"-only", "^pl.y$"}, 0,
			"played at small: reached"},
		"not named":     {"reach", []string{"-only", "work"}, 2, ""},
		"no expression": {"reach", []string{"-only", "("}, 2, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PROVE_TEST_PLAY", test.play)
			var list []listed
			if test.play != "" {
				list = []listed{{name: "play", command: []string{self}}}
			}
			var out, log strings.Builder
			code := run(t.Context(), test.args, list, &out, &log)
			if code != test.code || !strings.Contains(out.String(), test.out) {
				t.Errorf("exit code = %d, want %d; output %q, want %q in it; %s",
					code, test.code, &out, test.out, &log)
			}
		})
	}
}

// A proof that takes an hour runs only if the user names it.
func TestLongProofsAreNamed(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PROVE_TEST_PLAY", "reach")
	list := []listed{{name: "short", command: []string{self}},
		{name: "long", command: []string{self}, byName: true},
		{name: "thorough", command: []string{self}, full: true}}
	for _, test := range []struct {
		args []string
		want bool
	}{{nil, false}, {[]string{"-only", "long"}, true}, {[]string{"-only", "short"}, false},
		{[]string{"-only", "."}, true}} {
		var out strings.Builder
		if code := run(t.Context(), test.args, list, &out, &out); code != 0 ||
			strings.Contains(out.String(), "long:") != test.want {
			t.Errorf("%q: exit code %d, want it run %v: %s", test.args, code, test.want, &out)
		}
	}
	for size, want := range map[string]int{"small": 2, "full": 0} { // 2: there is no such proof
		var out strings.Builder
		args := []string{"-only", "thorough", "-size", size}
		if code := run(t.Context(), args, list, &out, &out); code != want {
			t.Errorf("%q: exit code %d: %s", args, code, &out)
		}
	}
}

func TestRecordIsKeptAlsoOfAMiss(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PROVE_TEST_PLAY", "miss")
	dir := t.TempDir()
	var out strings.Builder
	if code := run(t.Context(), []string{"-record", dir},
		[]listed{{name: "play", command: []string{self}}}, &out, &out); code != 1 {
		t.Errorf("exit code = %d, want 1; %s", code, &out)
	}
	names, err := filepath.Glob(dir + "/*.md")
	if err != nil || len(names) != 1 {
		t.Fatalf("records = %q, %v", names, err)
	}
	if text, err := os.ReadFile(names[0]); err != nil || !strings.Contains(string(text), "MISSED") {
		t.Errorf("record = %s, %v", text, err)
	}
}

func TestListIsWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range proofs {
		if p.name == "" || len(p.command) == 0 || seen[p.name] {
			t.Errorf("proof %+v: want a name of its own and a command", p)
		}
		seen[p.name] = true
		if p.command[0] == "go" && !strings.Contains(strings.Join(p.command, " "), "-count=1") {
			t.Errorf("proof %q would answer from the test cache", p.name)
		}
	}
}
