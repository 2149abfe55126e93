package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestMain lets this test's binary be the command that is listed: with bars, failing, or silent.
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
			if play == "slow" { // as a machine of half the pace may be
				bar.Figure = 3
				bar = bar.AtPace()
			}
			first := !played()
			if play == "miss" || play == "miss first" && first {
				bar.Figure = 3
			}
			if play == "break first" && first {
				bar.Figure, bar.Limit = 3, 0
			}
			if play == "absent" {
				bar.Absent = "needs root"
			}
			err = proof.Report(bar)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// played says whether this is not the first play since PROVE_TEST_PLAYED was named.
func played() bool {
	file, err := os.OpenFile(os.Getenv("PROVE_TEST_PLAYED"), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return true
	}
	file.Close()
	return false
}

// fullPace is that of a machine that limits were set for: to measure it once in each case would take most of the time.
func fullPace() (float64, error) { return 1, nil }

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
		"reached":                            {"reach", nil, 0, "played at small: reached"},
		"at full size":                       {"reach", []string{"-size", "full"}, 0, "played at full: reached"},
		"missed":                             {"miss", nil, 1, "0 reached, 1 missed, 0 absent"},
		"missed once":                        {"miss first", nil, 0, "measured once more"},
		"at full size once is enough":        {"miss first", []string{"-size", "full"}, 1, "0 reached, 1 missed"},
		"what may never happen happens once": {"break first", nil, 1, "0 reached, 1 missed"},
		"absent":                             {"absent", nil, 3, "absent: needs root"},
		"failed":                             {"fail", nil, 1, "failed: exit status 1"},
		"silent":                             {"silent", nil, 1, "reported no bar"},
		"an odd size":                        {"reach", []string{"-size", "huge"}, 2, ""},
		"an argument":                        {"reach", []string{"log"}, 2, ""},
		"an odd flag":                        {"reach", []string{"-nosuch"}, 2, ""},
		"nothing listed":                     {"", nil, 2, ""},
		"named":                              {"reach", []string{"-only", "^pl.y$"}, 0, "played at small: reached"},
		"not named":                          {"reach", []string{"-only", "work"}, 2, ""},
		"no expression":                      {"reach", []string{"-only", "("}, 2, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PROVE_TEST_PLAY", test.play)
			t.Setenv("PROVE_TEST_PLAYED", filepath.Join(t.TempDir(), "played"))
			var list []listed
			if test.play != "" {
				list = []listed{{name: "play", command: []string{self}}}
			}
			var out, log strings.Builder
			code := run(t.Context(), test.args, list, fullPace, &out, &log)
			if code != test.code || !strings.Contains(out.String(), test.out) {
				t.Errorf("exit code = %d, want %d; output %q, want %q in it; %s", code, test.code, &out, test.out, &log)
			}
		})
	}
}

// A proof that takes an hour runs where it is named, and nowhere else.
func TestLongProofsAreNamed(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PROVE_TEST_PLAY", "reach")
	list := []listed{{name: "short", command: []string{self}}, {name: "long", command: []string{self}, byName: true}}
	for _, test := range []struct {
		args []string
		want bool
	}{{nil, false}, {[]string{"-only", "long"}, true}, {[]string{"-only", "short"}, false}, {[]string{"-only", "."}, true}} {
		var out strings.Builder
		if code := run(t.Context(), test.args, list, fullPace, &out, &out); code != 0 || strings.Contains(out.String(), "long:") != test.want {
			t.Errorf("%q: exit code %d, want it run %v: %s", test.args, code, test.want, &out)
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
	if code := run(t.Context(), []string{"-record", dir}, []listed{{name: "play", command: []string{self}}}, fullPace, &out, &out); code != 1 {
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

func TestPaceIsHandedOn(t *testing.T) {
	t.Setenv("PROVE_TEST_PLAY", "slow")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for pace, want := range map[float64]proof.Verdict{0.5: proof.Reached, 1: proof.Missed} {
		result := prove(t.Context(), listed{name: "play", command: []string{self}}, proof.Small, pace, os.Stderr)
		if result.Err != nil || len(result.Bars) != 1 || result.Bars[0].Verdict() != want {
			t.Errorf("pace %v: %+v, want %v", pace, result, want)
		}
	}
}
