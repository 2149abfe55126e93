package main

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// droppedVariable names an environment variable that marks a process as started again by drop. The
// variable's value says what could not be given up.
const droppedVariable = "CLOUDPROFILER_AGENT_DROPPED"

// drop replaces this process by a new process of the same program that has fewer privileges: it
// runs as another user, or as root without capabilities. The function drop returns only if there is
// an error or nothing to drop.
//
// If C code is linked in, a Go program cannot drop the capabilities of all its threads. But if one
// thread drops its privileges and then executes a program, the whole new process lacks them.
func drop(c config) error {
	if os.Geteuid() != 0 {
		if c.User != "" && !isCurrentUser(c.User) {
			return fmt.Errorf("become user %q: only root can: "+
				"start the agent as root or as that user", c.User)
		}
		return nil
	}
	if _, again := os.LookupEnv(droppedVariable); again {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	// This thread is never unlocked, because no other goroutine should run on a thread that has
	// given up privileges.
	runtime.LockOSThread()
	var keep []uintptr
	if c.wantsRights() {
		keep = []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}
		// If this fails, as in a container without the right, the capture has no priority.
		_ = capture.AllowPriority()
	}
	if c.User == "" {
		err = dropCapabilities(true, keep)
	} else {
		err = becomeUser(c, keep)
	}
	env := append(os.Environ(), droppedVariable+"="+text(err))
	if c.User != "" && err != nil {
		return err // do not continue as root
	}
	return fmt.Errorf("start again without privileges: %w", unix.Exec(self, os.Args, env))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func isCurrentUser(name string) bool {
	u, err := user.Current()
	return err == nil && (u.Username == name || u.Uid == name)
}

// dropCapabilities gives up all capabilities of this thread except those in keep. It also gives up
// the ways to get new capabilities. If bounding is true, a program that this thread executes as
// root gets only the capabilities in keep, too.
func dropCapabilities(bounding bool, keep []uintptr) error {
	var errs []error
	if bounding {
		// With these bits set, a program gets no capabilities when root executes it.
		const noRoot, locked = 1<<0 | 1<<2, 1<<1 | 1<<3 // SECBIT_NOROOT, SECBIT_NO_SETUID_FIXUP
		if err := unix.Prctl(unix.PR_SET_SECUREBITS, noRoot|locked, 0, 0, 0); err != nil {
			errs = append(errs, fmt.Errorf("give up root's capabilities: %w", err))
		}
		for c := uintptr(0); c <= 63; c++ {
			if slices.Contains(keep, c) {
				continue
			}
			err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
			if err != nil && !errors.Is(err, unix.EINVAL) {
				errs = append(errs, fmt.Errorf("give up capability %d: %w", c, err))
				break
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		errs = append(errs, fmt.Errorf("allow no new privileges: %w", err))
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var kept [2]unix.CapUserData
	for _, c := range keep {
		set, bit := &kept[c/32], uint32(1)<<(c%32)
		set.Effective, set.Permitted = set.Effective|bit, set.Permitted|bit
		set.Inheritable |= bit
	}
	if err := unix.Capset(&header, &kept[0]); err != nil {
		errs = append(errs, fmt.Errorf("give up capabilities: %w", err))
	}
	for _, c := range keep { // otherwise they would not survive the execution of a program
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			errs = append(errs, fmt.Errorf("keep capability %d for the capture: %w", c, err))
		}
	}
	return errors.Join(errs...)
}

// giveState makes the directory of logs and gives it to a user. If the directory exists already,
// its owner does not change.
func giveState(state string, uid, gid int) error {
	if err := os.MkdirAll(filepath.Dir(state), 0o755); err != nil {
		return fmt.Errorf("make a place for logs: %w", err)
	}
	if err := os.Mkdir(state, 0o700); err == nil {
		if err := os.Lchown(state, uid, gid); err != nil {
			return fmt.Errorf("give it the directory of logs: %w", err)
		}
		return nil
	} else if !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make the directory of logs: %w", err)
	}
	var s unix.Stat_t
	if err := unix.Stat(state, &s); err != nil {
		return fmt.Errorf("look at directory of logs %q: %w", state, err)
	}
	if int(s.Uid) != uid {
		return fmt.Errorf("directory of logs %q belongs to user %s: give it away with "+
			"chown -R %d, or set another state", state, plainfile.UserName(s.Uid), uid)
	}
	return nil
}

// becomeUser changes this thread's user. Before that it makes the directory of logs, because only
// root can make the directory in its usual place.
func becomeUser(c config, keep []uintptr) error {
	u, err := user.Lookup(c.User)
	if err != nil {
		if u, err = user.LookupId(c.User); err != nil {
			return fmt.Errorf("become user %q: %w", c.User, err)
		}
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return fmt.Errorf("become user %q: %w", c.User, err)
	}
	state := c.State
	if state == "" {
		if state, err = agent.DefaultState(); err != nil {
			return err
		}
		os.Args = append(os.Args, "--state", state) // the new user's default is another directory
	}
	if err := giveState(state, uid, gid); err != nil {
		return fmt.Errorf("become user %q: %w", c.User, err)
	}
	// These raw system calls change only this thread, which will execute the program. The functions
	// of package syscall would change all threads.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return fmt.Errorf("become user %q: leave root's groups: %w", c.User, errno)
	}
	id := uintptr(gid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, id, id, id); errno != 0 {
		return fmt.Errorf("become user %q: become group %d: %w", c.User, gid, errno)
	}
	if len(keep) > 0 {
		if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("become user %q: keep capabilities: %w", c.User, err)
		}
	}
	id = uintptr(uid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, id, id, id); errno != 0 {
		return fmt.Errorf("become user %q: %w", c.User, errno)
	}
	// Keep the bounding set: it gives capabilities only to root.
	return dropCapabilities(false, keep)
}
