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

// A full disk is a limit on how long a process's files may become: the kernel writes what still
// fits of a block, and fails. It needs no file system of its own, and so no root.

// ErrDiskFull is what the system says then.
const ErrDiskFull = syscall.EFBIG

// MeetFullDisks has this process get an error for it, and live.
func MeetFullDisks() { signal.Ignore(syscall.SIGXFSZ) }

// diskBytes is about what the logs of these tests become before they go on in another file.
const diskBytes = 300_000

// setDisk fills the disk of a process up to some byte, or empties it.
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
