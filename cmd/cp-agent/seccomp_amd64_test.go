//go:build !race

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

const (
	filteredAgent   = "filtered agent"
	filteredProgram = "filtered program"
	allowVariable   = "CLOUDPROFILER_CP_AGENT_TEST_ALLOW"
)

func init() {
	roles[filteredAgent] = func() {
		// If the function drop started this process again, the process has inherited the filter.
		if _, again := os.LookupEnv(droppedVariable); !again {
			filter()
		}
		main()
	}
	roles[filteredProgram] = func() {
		filter()
		beProgram()
	}
}

// filter allows this process only the system calls that allowVariable lists, and sysinfo. At any
// other call the kernel sends SIGSYS. Go then prints the stack and ends the process.
func filter() {
	loadNumber := unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}
	program := []unix.SockFilter{loadNumber}
	// The NATS server calls sysinfo as soon as a program that contains the server begins. This test
	// program contains the server, because the test imports internal/cli. cp-agent does not.
	for _, name := range append(strings.Split(os.Getenv(allowVariable), ","), "sysinfo") {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1,
				K: uint32(systemCalls[name])},
			unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_ALLOW})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET, K: unix.SECCOMP_RET_TRAP})
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		all := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
			unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&all)))
		if errno != 0 {
			err = errno
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "filter:", err)
		os.Exit(1)
	}
}

// beProgram opens channels, whose rings are in the directory that the first argument names, and
// logs events to them.
func beProgram() {
	for _, o := range []handlers.Options{{}, {Handler: "counter"}, {Policy: "overwrite"}} {
		o.Dir = os.Args[1]
		c, err := handlers.Open(fmt.Sprintf("filtered/%s-%s", o.Handler, o.Policy), o)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for id := range uint64(1000) {
			c.Log(id)
		}
		c.Snapshot()
		if err := c.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// allowed reads three lists of system calls from docs/containers.md: those of any Go program, of a
// program that logs, and of the agent.
func allowed(t *testing.T) (lists [3][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/containers.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, who := range []string{
		"any Go program", "a program that logs, in addition",
		"the agent, in addition to all of these",
	} {
		_, row, found := strings.Cut(string(text), "\n| "+who+" | ")
		row, _, ended := strings.Cut(row, " |\n")
		if !found || !ended {
			t.Fatalf("no row %q", who)
		}
		if i > 0 {
			lists[i] = append(lists[i], lists[i-1]...)
		}
		for _, name := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(row, -1) {
			if _, known := systemCalls[name[1]]; !known {
				t.Fatalf("%q is not in this test's table", name[1])
			}
			lists[i] = append(lists[i], name[1])
		}
	}
	return lists
}

// Programs that log, and agents that measure on a server's orders, need only the system calls that
// docs/containers.md lists.
func TestSystemCalls(t *testing.T) {
	lists := allowed(t)
	address, _ := startServer(t, coordinator.DefaultConfig())
	dir := t.TempDir()
	start := func(role string, allow []string, args ...string) (*exec.Cmd, *output) {
		t.Helper()
		cmd, err := reexec.Command(args...)
		if err != nil {
			t.Fatal(err)
		}
		var said output
		cmd.Env = append(os.Environ(), roleVariable+"="+role,
			allowVariable+"="+strings.Join(allow, ","))
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		return cmd, &said
	}
	var agents []*exec.Cmd
	var said []*output
	for _, node := range []string{"na", "nb"} {
		cmd, out := start(filteredAgent, lists[2], "--node", node,
			"--rings", filepath.Join(dir, node, "rings"),
			"--state", filepath.Join(dir, node, "state"), "--chrony", "off",
			"--metrics", "127.0.0.1:0", "--server", address)
		agents, said = append(agents, cmd), append(said, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, out := range said {
				t.Logf("%.3000s", out)
			}
		}
	})
	for i, node := range []string{"na", "nb"} {
		rings := filepath.Join(dir, node, "rings")
		waitFor(t, "agent "+node, func() bool {
			s := said[i].String()
			if strings.Contains(s, "SIGSYS") || strings.Contains(s, "filter:") {
				t.Fatalf("agent %s calls what is not listed", node)
			}
			return strings.Contains(s, "registered")
		})
		if cmd, out := start(filteredProgram, lists[1], rings); cmd.Wait() != nil {
			s := out.String()
			t.Fatalf("a program: %v: %s", cmd.ProcessState, s[:min(len(s), 3000)])
		}
		local, err := agent.Connect(rings)
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, "what the program logged", func() bool {
			s, err := local.Status(t.Context())
			return err == nil && s.Finished == 3
		})
		if _, err := local.OpenRun(t.Context(), "r"); err != nil {
			t.Error(err)
		}
		if _, err := local.CloseRun(t.Context(), "r"); err != nil {
			t.Error(err)
		}
	}
	for _, cmd := range agents {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("agent: %v", err)
		}
	}
}

var systemCalls = map[string]uintptr{
	"getrusage":          unix.SYS_GETRUSAGE,
	"epoll_wait":         unix.SYS_EPOLL_WAIT,
	"sched_setscheduler": unix.SYS_SCHED_SETSCHEDULER,
	"sched_getscheduler": unix.SYS_SCHED_GETSCHEDULER,
	"sched_getparam":     unix.SYS_SCHED_GETPARAM,
	"accept4":            unix.SYS_ACCEPT4,
	"access":             unix.SYS_ACCESS,
	"adjtimex":           unix.SYS_ADJTIMEX,
	"arch_prctl":         unix.SYS_ARCH_PRCTL,
	"bind":               unix.SYS_BIND,
	"brk":                unix.SYS_BRK,
	"capset":             unix.SYS_CAPSET,
	"clock_gettime":      unix.SYS_CLOCK_GETTIME,
	"clock_nanosleep":    unix.SYS_CLOCK_NANOSLEEP,
	"clone":              unix.SYS_CLONE,
	"clone3":             unix.SYS_CLONE3,
	"close":              unix.SYS_CLOSE,
	"connect":            unix.SYS_CONNECT,
	"dup3":               unix.SYS_DUP3,
	"epoll_create1":      unix.SYS_EPOLL_CREATE1,
	"epoll_ctl":          unix.SYS_EPOLL_CTL,
	"epoll_pwait":        unix.SYS_EPOLL_PWAIT,
	"eventfd2":           unix.SYS_EVENTFD2,
	"execve":             unix.SYS_EXECVE,
	"exit":               unix.SYS_EXIT,
	"exit_group":         unix.SYS_EXIT_GROUP,
	"fallocate":          unix.SYS_FALLOCATE,
	"fchmodat":           unix.SYS_FCHMODAT,
	"flock":              unix.SYS_FLOCK,
	"fcntl":              unix.SYS_FCNTL,
	"fstat":              unix.SYS_FSTAT,
	"fstatfs":            unix.SYS_FSTATFS,
	"ftruncate":          unix.SYS_FTRUNCATE,
	"futex":              unix.SYS_FUTEX,
	"getdents64":         unix.SYS_GETDENTS64,
	"geteuid":            unix.SYS_GETEUID,
	"getpeername":        unix.SYS_GETPEERNAME,
	"getpid":             unix.SYS_GETPID,
	"getrandom":          unix.SYS_GETRANDOM,
	"getsockname":        unix.SYS_GETSOCKNAME,
	"getsockopt":         unix.SYS_GETSOCKOPT,
	"gettid":             unix.SYS_GETTID,
	"getuid":             unix.SYS_GETUID,
	"inotify_add_watch":  unix.SYS_INOTIFY_ADD_WATCH,
	"inotify_init1":      unix.SYS_INOTIFY_INIT1,
	"listen":             unix.SYS_LISTEN,
	"lseek":              unix.SYS_LSEEK,
	"madvise":            unix.SYS_MADVISE,
	"mincore":            unix.SYS_MINCORE,
	"mkdirat":            unix.SYS_MKDIRAT,
	"mmap":               unix.SYS_MMAP,
	"mprotect":           unix.SYS_MPROTECT,
	"munmap":             unix.SYS_MUNMAP,
	"nanosleep":          unix.SYS_NANOSLEEP,
	"newfstatat":         unix.SYS_NEWFSTATAT,
	"openat":             unix.SYS_OPENAT,
	"pipe2":              unix.SYS_PIPE2,
	"poll":               unix.SYS_POLL,
	"prctl":              unix.SYS_PRCTL,
	"pread64":            unix.SYS_PREAD64,
	"prlimit64":          unix.SYS_PRLIMIT64,
	"pwrite64":           unix.SYS_PWRITE64,
	"read":               unix.SYS_READ,
	"readlinkat":         unix.SYS_READLINKAT,
	"recvfrom":           unix.SYS_RECVFROM,
	"recvmmsg":           unix.SYS_RECVMMSG,
	"recvmsg":            unix.SYS_RECVMSG,
	"renameat":           unix.SYS_RENAMEAT,
	"restart_syscall":    unix.SYS_RESTART_SYSCALL,
	"rseq":               unix.SYS_RSEQ,
	"rt_sigaction":       unix.SYS_RT_SIGACTION,
	"rt_sigprocmask":     unix.SYS_RT_SIGPROCMASK,
	"rt_sigreturn":       unix.SYS_RT_SIGRETURN,
	"sched_getaffinity":  unix.SYS_SCHED_GETAFFINITY,
	"sched_setaffinity":  unix.SYS_SCHED_SETAFFINITY,
	"sched_yield":        unix.SYS_SCHED_YIELD,
	"sendmsg":            unix.SYS_SENDMSG,
	"sendto":             unix.SYS_SENDTO,
	"set_robust_list":    unix.SYS_SET_ROBUST_LIST,
	"set_tid_address":    unix.SYS_SET_TID_ADDRESS,
	"setitimer":          unix.SYS_SETITIMER,
	"setsockopt":         unix.SYS_SETSOCKOPT,
	"shutdown":           unix.SYS_SHUTDOWN,
	"sigaltstack":        unix.SYS_SIGALTSTACK,
	"sysinfo":            unix.SYS_SYSINFO,
	"socket":             unix.SYS_SOCKET,
	"statfs":             unix.SYS_STATFS,
	"tgkill":             unix.SYS_TGKILL,
	"timerfd_create":     unix.SYS_TIMERFD_CREATE,
	"timerfd_settime":    unix.SYS_TIMERFD_SETTIME,
	"uname":              unix.SYS_UNAME,
	"unlinkat":           unix.SYS_UNLINKAT,
	"write":              unix.SYS_WRITE,
}
