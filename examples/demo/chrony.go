package demo

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/ntp"
)

// findChrony returns chronyd's path, or "" if it is not installed.
func findChrony() string {
	for _, name := range []string{"chronyd", "/usr/sbin/chronyd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// chronyDaemon is a chronyd in a namespace. It does not set the clock. All daemons see the one
// CLOCK_REALTIME of this machine, and their claims are about that clock.
type chronyDaemon struct {
	cmd *exec.Cmd
}

// startChrony starts a daemon. The hub's daemon serves time, and a node's daemon asks the hub's.
func (p *nodePlace) startChrony(
	ctx context.Context, path string, end int, dir string,
) (*chronyDaemon, error) {
	args := []string{
		"-d", "-x", "-u", "root", "-L", "2",
		"pidfile " + filepath.Join(dir, fmt.Sprintf("chronyd%d.pid", end)),
		"bindcmdaddress 127.0.0.1", "bindcmdaddress /",
	}
	if end == netns.Hub {
		args = append(args, "local stratum 3", "allow", "cmdport 0")
	} else {
		// This daemon asks four times at once, then twice a second.
		hub := p.star.Addr(netns.Hub).String()
		args = append(args, "server "+hub+" iburst minpoll -1 maxpoll -1 xleave", "port 0")
	}
	cmd := exec.CommandContext(ctx, path, args...)
	// The kernel kills the daemon when the thread that started it ends. That thread belongs to this
	// program. So the daemon dies with this program, no matter how this program ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.star.Do(end, cmd.Start); err != nil {
		return nil, err
	}
	return &chronyDaemon{cmd}, nil
}

func (c *chronyDaemon) stop() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// chronyPatience is how long a node waits for its daemon to follow the hub's.
const chronyPatience = 10 * time.Second

// awaitFollowing waits until the chronyd in this namespace follows the hub's chronyd. A chronyd
// that follows another claims a bound on its error.
func awaitFollowing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, chronyPatience)
	defer cancel()
	for {
		claim, err := ntp.Ask(ctx, ntp.DefaultAddress)
		if err == nil {
			if _, ok := claim.Bound_ns(); ok {
				return nil
			}
			err = errors.New("it has no server to follow yet")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for chronyd: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
