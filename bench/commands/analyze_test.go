package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The output has the figures under the names that scripts read. It has DuckDB's figures only if
// Python has the package duckdb. In this test a script takes the place of Python, and claims that
// DuckDB took an hour.
func TestBenchAnalyze(t *testing.T) {
	const ends = `case $2 in "import duckdb") ;; esac`
	const slow = `case $2 in "import duckdb") ;; *) while read -r n; do echo 3600; done ;; esac`
	for name, test := range map[string]struct {
		python string // the script; $2 is the Python code that it is asked to run
		args   []string
		code   int
		ratio  bool
		absent string
		say    string
	}{
		"DuckDB takes an hour": {slow, nil, 0, true, "", ""},
		"no DuckDB":            {`exit 1`, nil, 0, false, "has no package duckdb", ""},
		"DuckDB ends":          {ends, nil, 1, false, "", "it ended early"},
		"too few tuples":       {"", []string{"--tuples", "1000"}, 2, false, "", "100000 tuples"},
	} {
		t.Run(name, func(t *testing.T) {
			python := filepath.Join(t.TempDir(), "python")
			script := "#!/bin/sh\n" + test.python + "\n"
			if err := os.WriteFile(python, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("CLOUDPROFILER_PYTHON", python)
			runs := t.TempDir()
			args := append([]string{"analyze", "--json", "--tuples", "100000",
				"--duckdb-tuples", "100000", "--repetitions", "1", "--runs", runs}, test.args...)
			code, out, stderr := cpBench(args...)
			if code != test.code || !strings.Contains(stderr, test.say) {
				t.Fatalf("exit code %d, want %d: %s", code, test.code, stderr)
			}
			if code != 0 {
				return
			}
			var line struct {
				Tuples    int      `json:"tuples"`
				PerSecond float64  `json:"tuples_per_s_per_core"`
				Peak_mb   float64  `json:"peak_mb"`
				Ratio     *float64 `json:"duckdb_ratio"`
				Absent    string   `json:"duckdb_absent"`
			}
			if err := json.Unmarshal([]byte(out), &line); err != nil {
				t.Fatal(err)
			}
			// The analysis of a tuple takes between 10 ns and 1 ms of one core. A process with
			// 300,000 events in memory uses some MB.
			if line.Tuples != 100_000 || line.PerSecond < 1e3 || line.PerSecond > 1e8 ||
				line.Peak_mb < 5 || line.Peak_mb > 10_000 {
				t.Errorf("%s", out)
			}
			if (line.Ratio != nil) != test.ratio || test.ratio && *line.Ratio < 36 {
				t.Errorf("%s", out)
			}
			given := line.Absent == ""
			if given != (test.absent == "") || !strings.Contains(line.Absent, test.absent) {
				t.Errorf("%s", out)
			}
		})
	}
}
