package testimony

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// A Stage is a directory of rings with processes of this program around it, which end with the test at the latest.
type Stage struct {
	Rings string

	t        testing.TB
	variable string // of the environment: tells a process what it is
	files    []string
}

// NewStage makes a stage. Processes find their role in an environment variable of this name.
func NewStage(t testing.TB, variable string) *Stage {
	t.Helper()
	return &Stage{Rings: Rings(t), t: t, variable: variable}
}

// Rings makes a directory of rings in shared memory, as programs have them.
func Rings(t testing.TB) string {
	t.Helper()
	rings, err := os.MkdirTemp("/dev/shm", "cloudprofiler-test")
	if err != nil {
		rings = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(rings) })
	return rings
}

// Start starts a process of this role.
func (s *Stage) Start(role string, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd, err := reexec.Command(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), s.variable+"="+role)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { Kill(cmd) })
	return cmd
}

// StartProgram starts a process of the role "program", whose arguments are the directory of rings and the file of its testimony.
func (s *Stage) StartProgram() *exec.Cmd {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "testimony")
	s.files = append(s.files, file)
	return s.Start("program", s.Rings, file)
}

// WaitForCalls returns when a call of the program that was started first has returned.
func (s *Stage) WaitForCalls() {
	s.t.Helper()
	said, err := Open(s.files[0])
	if err != nil {
		s.t.Fatal(err)
	}
	defer said.Close()
	WaitFor(s.t, "a first call", func() bool { return atomic.LoadUint64(&said.Returned[0]) > 0 })
}

// Each shows the testimonies of programs that had their rings, one after the other.
func (s *Stage) Each(show func(said *Testimony)) {
	s.t.Helper()
	for _, file := range s.files {
		said, err := Open(file)
		if err != nil {
			s.t.Fatal(err)
		}
		if said.Begun() {
			show(said)
		}
		said.Close()
	}
}

// Kill ends a process as kill -9 does.
func Kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// WaitFor waits for a minute at most.
func WaitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}
