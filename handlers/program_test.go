package handlers

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// programVariable is the name of an environment variable. If its value is the name of a program in
// the map programs, the test binary runs that program instead of tests. So tests can start
// processes that they may kill.
const programVariable = "CLOUDPROFILER_HANDLERS_PROGRAM"

// programs contains the main functions of programs, by the programs' names. Each test file adds the
// programs that it needs.
var programs = map[string]func() error{}

func init() {
	if os.Getenv(programVariable) != "" {
		runtime.LockOSThread() // stay on the main thread, because its id is the id of the process
	}
}

func TestMain(m *testing.M) {
	name := os.Getenv(programVariable)
	if name == "" {
		os.Exit(leak.Main(m))
	}
	if err := programs[name](); err != nil {
		fmt.Fprintf(os.Stderr, "program %s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// programCommand makes the command that runs a program.
func programCommand(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	cmd, err := reexec.Command()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(append(os.Environ(), programVariable+"="+name), env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// startProgram starts a program, and ends it when the test ends.
func startProgram(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// A program that hangs must not hang the test.
	watchdog := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		watchdog.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
}

// mapFile maps a file for reading until the test ends.
func mapFile(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(memory) })
	return memory
}
