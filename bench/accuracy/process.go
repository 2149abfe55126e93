package accuracy

import (
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os/exec"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/host"
)

// runningPeer is a peer process.
type runningPeer struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	out     *json.Decoder
	address netip.AddrPort // where it listens
}

// settleTime is how long a process may take to end.
const settleTime = 5 * time.Second

// stop ends the process and returns its report.
func (r *runningPeer) stop() (report, error) {
	var got report
	timer := time.AfterFunc(settleTime, func() { _ = r.cmd.Process.Kill() })
	defer timer.Stop()
	err := r.stdin.Close()
	err = errors.Join(err, r.out.Decode(&got)) // before Wait, which closes the pipe
	return got, errors.Join(err, r.cmd.Wait())
}

// onThread runs f on one thread. If spins is true, it pins the thread to a CPU: end 0 to the first
// CPU that this process may use, and end 1 to the second. Two ends that spin on one CPU would wait
// for each other.
func onThread(spins bool, end int, f func() error) error {
	if spins {
		if cpus, err := host.AllowedCores(); err == nil && len(cpus) > end {
			var failed error
			err := host.OnCore(cpus[end], func() { failed = f() })
			return errors.Join(failed, err)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return f()
}

// threadTime returns the processor time that the calling thread has used.
func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
