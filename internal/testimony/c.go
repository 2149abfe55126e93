package testimony

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// sources is the directory of the C library, relative to a package in a top-level directory of the
// repository.
const sources = "../sdk/c"

// AlsoC makes every second program a C program, from sdk/c/test/testimony.c, with the given number
// of writers on the shared channel. It returns the names of the languages. If there is no compiler,
// all programs are in Go; with CI=true, where every test must run, the test fails instead.
func (s *Stage) AlsoC(writers int, links bool) (languages string) {
	s.t.Helper()
	for _, tool := range []string{"make", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") == "true" {
				s.t.Fatal(err)
			}
			s.t.Logf("the C library cannot be built here: %v", err)
			return "Go"
		}
	}
	// The go command reuses an earlier result of a test if the files that the test read have not
	// changed. So read the sources here.
	err := filepath.WalkDir(sources, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			_, err = plainfile.Read(path, 1<<20)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	dir := s.t.TempDir()
	program := filepath.Join(dir, "testimony")
	out, err := exec.Command("make", "-C", sources, "CC=gcc",
		"BUILD="+dir, program).CombinedOutput()
	if err != nil {
		s.t.Fatalf("build a program in C: %v\n%s", err, out)
	}
	with := "0"
	if links {
		with = "1"
	}
	s.others = append(s.others, func(file string) *exec.Cmd {
		cmd := exec.Command(program, file, strconv.Itoa(writers), with)
		cmd.Env = append(os.Environ(), "CLOUDPROFILER_DIR="+s.Rings)
		return cmd
	})
	return "Go and C"
}
