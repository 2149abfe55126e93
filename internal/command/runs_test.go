package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/runs"
)

// A run is found as a directory, or by its name in the directory of runs. An incomplete run is not
// opened, and the error says what to do.
func TestOpenRun(t *testing.T) {
	t.Chdir(t.TempDir())
	make := func(parent, name string) {
		t.Helper()
		draft, err := runs.Create(parent, runs.Run{Name: name,
			Begun: runs.UTC{Lo_ns: 1, Hi_ns: 2}, Wander_ppt: 1_000_000, Window_ns: 10_000_000_000})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := draft.Complete(); err != nil {
			t.Fatal(err)
		}
	}
	make("runs", "tuesday")
	make("runs", "here")
	make(".", "here")
	make("elsewhere", "friday")
	for _, path := range []string{"runs/broken", "empty", "runs/begun.part", "runs/cut.part"} {
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"runs/broken/run.yaml", "runs/cut.part/arriving"} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		runs, run, path, say string
	}{
		{"", "tuesday", "runs/tuesday", ""},
		{"", "runs/tuesday", "runs/tuesday", ""},
		{"", "here", "here", ""}, // the directory comes first
		{"elsewhere", "friday", "elsewhere/friday", ""},
		{"elsewhere", "tuesday", "", `nor a run in "elsewhere": fetch it with "cprof run f`},
		{"", "friday", "", `fetch it with "cprof run fetch friday"`},
		{"", "nothing/there", "", "no such file or directory"},
		{"", "broken", "", "run.yaml"},
		{"", "empty", "", "there is no run.yaml in it"},
		{"", "begun", "", "it is not complete"},
		{"", "cut", "", `only a part of it was fetched: "cprof run fetch cut" fetches the rest`},
	} {
		t.Setenv("CLOUDPROFILER_RUNS", test.runs)
		dir, err := OpenRun(test.run)
		if err == nil {
			if dir.Path != filepath.FromSlash(test.path) {
				t.Errorf("%q in %q is %q, want %q", test.run, test.runs, dir.Path, test.path)
			}
			dir.Close()
			continue
		}
		if test.say == "" || !strings.Contains(err.Error(), test.say) {
			t.Errorf("%q in %q: %v, want %q", test.run, test.runs, err, test.say)
		}
		if test.run == "friday" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v is not fs.ErrNotExist", err)
		}
	}
}
