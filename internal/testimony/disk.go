package testimony

import (
	"errors"
	"math/rand/v2"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The tests simulate a full disk with a limit on the length of a process's files. The kernel then
// writes as much of a block as fits, and returns an error. That requires neither a separate file
// system nor root.

// ErrDiskFull is the system's error when a file reaches the limit.
const ErrDiskFull = syscall.EFBIG

// MeetFullDisks makes the system return an error to this process when its disk is full. By default
// the system would kill the process.
func MeetFullDisks() { signal.Ignore(syscall.SIGXFSZ) }

// diskBytes is roughly the length at which the logs of these tests continue in another file.
const diskBytes = 300_000

// setDisk limits the length of a process's files to a random number of bytes, or removes the limit.
func setDisk(t testing.TB, rng *rand.Rand, cmd *exec.Cmd) {
	t.Helper()
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if rng.IntN(2) == 0 {
		limit.Cur = rng.Uint64N(diskBytes)
	}
	err := unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		t.Fatal(err)
	}
}
