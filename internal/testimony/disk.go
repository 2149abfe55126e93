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

// The tests simulate a full disk by limiting the length of a process's files. The kernel then
// writes as much of a block as fits, and fails. That requires no separate file system, and so no
// root.

// ErrDiskFull is the system's error in that case.
const ErrDiskFull = syscall.EFBIG

// MeetFullDisks makes a full disk an error for this process. By default it would kill the process.
func MeetFullDisks() { signal.Ignore(syscall.SIGXFSZ) }

// diskBytes is roughly the length at which the logs of these tests continue in another file.
const diskBytes = 300_000

// setDisk limits the disk of a process to a random number of bytes, or removes the limit.
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
