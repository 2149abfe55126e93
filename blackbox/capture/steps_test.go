package capture

import (
	"encoding/gob"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// The programs in this file do something step by step, and say what they did. The environment
// variable stepsVariable names the program to run.
const stepsVariable = "CLOUDPROFILER_CAPTURE_TEST_STEPS"

// A step is one thing that a program did.
type step struct {
	What          string
	Before, After uint64 // the counter before and after it
	Thread, Other int
	Cookie        uint64
	Bytes         int
	N             int
}

type steps struct{ all []step }

// doStep makes a system call and writes down what it did.
func (s *steps) doStep(what string, socket int, f func() (int, error)) step {
	d := step{What: what, Thread: unix.Gettid(), Before: asm.Counter()}
	n, err := f()
	d.After = asm.Counter()
	must(err)
	d.Bytes = n
	if socket >= 0 {
		d.Cookie, err = unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_COOKIE)
		must(err)
	}
	s.all = append(s.all, d)
	return d
}

// stepsMain runs one of the programs.
func stepsMain(name string) {
	runtime.LockOSThread()
	s := &steps{}
	map[string]func(*steps){
		"wait": waitSteps, "again": againSteps, "threads": threadSteps, "exec": func(*steps) {},
		"uring": uringSteps, "late": lateSteps,
		"place": placeSteps,
	}[name](s)
	must(gob.NewEncoder(os.Stdout).Encode(s.all))
}

// startSteps starts such a program.
func startSteps(t testing.TB, name string) *exec.Cmd {
	t.Helper()
	cmd, err := reexec.Command()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), stepsVariable+"="+name, "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	return cmd
}

// stepsOf runs such a program.
func stepsOf(t testing.TB, name string) (all []step, process int) {
	t.Helper()
	cmd := startSteps(t, name)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := gob.NewDecoder(out).Decode(&all); err != nil {
		t.Errorf("read what %q did: %v", name, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return all, cmd.Process.Pid
}

// connectedPair returns the two ends of a TCP connection.
func (s *steps) connectedPair() (client, server int) {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	must(unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(unix.Listen(listener, 1))
	at, err := unix.Getsockname(listener)
	must(err)
	client, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	s.doStep("connect", client, func() (int, error) { return 0, unix.Connect(client, at) })
	server, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
	must(err)
	must(unix.SetsockoptInt(client, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	must(unix.Close(listener))
	return client, server
}

// waitReadable waits until a socket has the given number of bytes.
func waitReadable(socket, bytes int) {
	for {
		n, err := unix.IoctlGetInt(socket, unix.SIOCINQ)
		must(err)
		if n >= bytes {
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// waitSteps lets messages wait in the receiver's socket.
func waitSteps(s *steps) {
	client, server := s.connectedPair()
	b := make([]byte, 1000)
	for i := range 120 {
		n := 1 + i%3 // messages that wait at the same time
		for range n {
			s.doStep("sent", client, func() (int, error) { return unix.Write(client, b[:100]) })
		}
		waitReadable(server, 100*n)
		s.doStep("ready", -1, func() (int, error) { return 0, nil })
		time.Sleep(time.Millisecond)
		for range n {
			s.doStep("received", server, func() (int, error) { return unix.Read(server, b[:100]) })
		}
	}
	for _, socket := range []int{client, server} {
		s.doStep("closed", socket, func() (int, error) { return 0, nil })
		must(unix.Close(socket))
	}
}

// againSteps makes TCP send bytes again: the receiver's socket drops all packets for a while.
func againSteps(s *steps) {
	client, server := s.connectedPair()
	b := make([]byte, 1000)
	s.doStep("sent", client, func() (int, error) { return unix.Write(client, b[:10]) })
	s.doStep("received", server, func() (int, error) { return unix.Read(server, b) })
	drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	program := unix.SockFprog{Len: 1, Filter: &drop[0]}
	must(unix.SetsockoptSockFprog(server, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program))
	s.doStep("sent", client, func() (int, error) { return unix.Write(client, b[:100]) })
	count := func() int {
		info, err := unix.GetsockoptTCPInfo(client, unix.IPPROTO_TCP, unix.TCP_INFO)
		must(err)
		return int(info.Total_retrans)
	}
	for count() == 0 {
		time.Sleep(time.Millisecond)
	}
	must(unix.SetsockoptInt(server, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0))
	s.doStep("received", server, func() (int, error) { return unix.Read(server, b) })
	s.all = append(s.all, step{What: "again", N: count()})
}

const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

func futex(at *int32, command, value int, t *unix.Timespec) int {
	n, _, _ := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(at)), uintptr(command),
		uintptr(value), uintptr(unsafe.Pointer(t)), 0, 0)
	return int(n)
}

// threadSteps lets one thread wake another one, while the clock wakes a third one.
func threadSteps(s *steps) {
	// The runtime of Go must not wake these threads, too.
	runtime.GOMAXPROCS(8)
	debug.SetGCPercent(-1)
	client, server := s.connectedPair()
	b := make([]byte, 100)
	talk := func() {
		s.doStep("sent", client, func() (int, error) { return unix.Write(client, b) })
		s.doStep("received", server, func() (int, error) { return unix.Read(server, b) })
	}
	talk()
	var one unix.CPUSet
	must(unix.SchedGetaffinity(0, &one))
	for n, all := 0, one; n < 1024; n++ {
		if all.IsSet(n) {
			one.Zero()
			one.Set(n)
			break
		}
	}
	var word, end int32
	var timeouts int
	var ended sync.WaitGroup
	ended.Add(1)
	threads, stay := make(chan int), make(chan int)
	for range 16 { // most of them are new threads
		go func() {
			runtime.LockOSThread()
			threads <- unix.Gettid()
			<-stay
		}()
	}
	for range 16 {
		s.all = append(s.all, step{What: "thread", Other: <-threads})
	}
	woken, timed := make(chan int), make(chan int)
	go func() { // it waits to be woken
		runtime.LockOSThread()
		woken <- unix.Gettid()
		for atomic.LoadInt32(&end) == 0 {
			futex(&word, futexWait, 0, nil)
		}
	}()
	go func() { // the clock wakes it, while another thread of the process runs on its processor
		runtime.LockOSThread()
		defer ended.Done()
		must(unix.SchedSetaffinity(0, &one))
		timed <- unix.Gettid()
		var never int32
		for ; atomic.LoadInt32(&end) == 0; timeouts++ {
			futex(&never, futexWait, 0, &unix.Timespec{Nsec: 100_000})
		}
	}()
	s.all = append(s.all, step{What: "others", Thread: <-woken, Other: <-timed})
	must(unix.SchedSetaffinity(0, &one))
	for range 100 {
		d := step{What: "woke", Thread: unix.Gettid()}
		for woke := 0; woke == 0; {
			d.Before = asm.Counter()
			woke = futex(&word, futexWake, 1, nil)
			d.After = asm.Counter()
		}
		s.all = append(s.all, d)
		talk()
		for from := time.Now(); time.Since(from) < 300*time.Microsecond; {
		}
	}
	atomic.StoreInt32(&end, 1)
	futex(&word, futexWake, 1, nil)
	ended.Wait()
	s.all = append(s.all, step{What: "timeouts", N: timeouts})
	child, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	must(err)
	s.all = append(s.all, step{What: "forked", Other: child.Pid})
	_, err = child.Wait()
	must(err)
	must(gob.NewEncoder(os.Stdout).Encode(s.all))
	must(os.Setenv(stepsVariable, "exec"))
	must(unix.Exec("/proc/self/exe", os.Args, os.Environ()))
}

// placeSteps waits until the test has chosen the cgroup of this process. Then it sends a message
// and receives it.
func placeSteps(s *steps) {
	one := make([]byte, 1)
	_, err := os.Stdin.Read(one)
	must(err)
	client, server := s.connectedPair()
	s.doStep("sent", client, func() (int, error) { return unix.Write(client, one) })
	s.doStep("received", server, func() (int, error) { return unix.Read(server, one) })
}
