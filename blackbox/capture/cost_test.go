package capture

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

const costVariable = "CLOUDPROFILER_CAPTURE_TEST_COST"

// loadMain exchanges messages when it is told to, and prints how much processor time a call took.
// It exchanges them in short pieces, and prints the median over all pieces. On a busy machine, this
// median is steadier than the mean, and processor time is steadier than the time on a clock.
func loadMain() {
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	must(unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(unix.Listen(listener, 1))
	at, err := unix.Getsockname(listener)
	must(err)
	client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(err)
	must(unix.Connect(client, at))
	server, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	must(err)
	for _, s := range []int{client, server} {
		must(unix.SetsockoptInt(s, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	}
	for in := bufio.NewReader(os.Stdin); ; {
		var what string
		var n int
		if _, err := fmt.Fscan(in, &what, &n); err == io.EOF {
			return
		}
		var pieces []float64 // ns of processor time for a call
		for range n {
			before := processorTime()
			calls := map[string]func(client, server int) int{
				"ping-pong": pingPong, "burst": sendBurst, "wakes": wakeThread, "none": noMessages,
			}[what](client, server)
			pieces = append(pieces, float64(processorTime()-before)/float64(calls))
		}
		fmt.Println(middle(pieces))
	}
}

func middle(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// pingPong sends messages back and forth, from one thread, so that no thread has to wake another.
func pingPong(client, server int) (calls int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b := make([]byte, 64)
	for range 50 {
		for _, s := range [][2]int{{client, server}, {server, client}} {
			_, err := unix.Write(s[0], b)
			must(err)
			_, err = unix.Read(s[1], b)
			must(err)
			calls += 2
		}
	}
	return calls
}

// noMessages makes system calls that exchange no messages.
func noMessages(_, _ int) (calls int) {
	for calls = range 1000 {
		syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	}
	return calls
}

var wakerProgram struct {
	once sync.Once
	word int32
}

// wakeThread makes a thread wake another one. It also sends a message, so that the capture knows
// the process as one that uses sockets.
func wakeThread(client, server int) (calls int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b := make([]byte, 64)
	_, err := unix.Write(client, b)
	must(err)
	_, err = unix.Read(server, b)
	must(err)
	wakerProgram.once.Do(func() {
		go func() {
			runtime.LockOSThread()
			for {
				futex(&wakerProgram.word, futexWait, 0, nil)
			}
		}()
	})
	for calls < 100 {
		if futex(&wakerProgram.word, futexWake, 1, nil) > 0 {
			calls++
		} else {
			unix.Nanosleep(&unix.Timespec{Nsec: 1}, nil)
		}
	}
	return calls
}

// sendBurst sends many messages and then receives all of them at once, from one thread.
func sendBurst(client, server int) (calls int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const n = 32
	b := make([]byte, 64)
	all := make([]byte, n*len(b))
	for range 6 {
		for range n {
			_, err := unix.Write(client, b)
			must(err)
		}
		for left := len(all); left > 0; calls++ {
			got, err := unix.Read(server, all)
			must(err)
			left -= got
		}
		calls += n
	}
	return calls
}

// BenchmarkCost measures how much processor time a capture adds to a call that sends or receives 64
// bytes over loopback. It measures with and without a capture in turns, and prints the median of
// the differences. It needs root. In the case "excluded", the filter excludes the program that
// makes the calls. In the cases "with empty programs", programs that do nothing run at the places
// in the kernel where a capture's programs would run.
func BenchmarkCost(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	in, out, rings := startLoad(b)
	for _, c := range []struct {
		what, name string
		o          Options
	}{
		{"ping-pong", "ping-pong", Options{}},
		{"burst", "burst", Options{}},
		{"ping-pong", "ping-pong light", Options{Light: true}},
		{"burst", "burst light", Options{Light: true}},
		{"ping-pong", "ping-pong with arrivals", Options{Also: Also{Arrivals: true}}},
		{"ping-pong", "ping-pong with threads", Options{Also: Also{Threads: true}}},
		{"ping-pong", "ping-pong excluded", Options{Only: Filter{Programs: []string{"-"}}}},
		{"ping-pong", "ping-pong on another port", Options{Only: Filter{Ports: []uint16{1}}}},
		{"none", "other system calls with calls", Options{Also: Also{true, true, false}}},
		{"ping-pong", "ping-pong with empty programs", Options{Empty: true}},
		{"burst", "burst with empty programs", Options{Empty: true}},
		{"ping-pong", "ping-pong light with empty programs", Options{Light: true, Empty: true}},
		{"burst", "burst light with empty programs", Options{Light: true, Empty: true}},
	} {
		c.o.Dir = rings
		what := c.what
		b.Run(c.name, func(b *testing.B) {
			var off, added []float64 // ns a call
			var seen, lost uint64
			var busy time.Duration
			for range b.N {
				var pair [2]float64 // without and with a capture
				for on := range pair {
					var capture *Capture
					if on == 1 {
						var err error
						capture, err = Start(c.o)
						must(err)
					}
					before := processorTime()
					fmt.Fprintln(in, what, 300)
					_, err := fmt.Fscan(out, &pair[on])
					must(err)
					if capture != nil {
						capture.Flush()
						busy += processorTime() - before
						s := capture.Stats()
						seen += s.Messages
						for _, n := range s.Lost {
							lost += n
						}
						must(capture.Close())
					}
				}
				off, added = append(off, pair[0]), append(added, pair[1]-pair[0])
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(middle(off), "off-ns/call")
			b.ReportMetric(middle(added), "added-ns/call")
			if seen > 1000*uint64(b.N) { // not only those of other programs
				b.ReportMetric(float64(busy.Nanoseconds())/float64(seen), "agent-cpu-ns/message")
				b.ReportMetric(float64(lost), "lost")
			}
		})
	}
}

// startLoad starts loadMain and a drainer.
func startLoad(b testing.TB) (in io.Writer, out io.Reader, rings string) {
	cmd, err := reexec.Command()
	must(err)
	cmd.Env, cmd.Stderr = append(os.Environ(), costVariable+"=1"), os.Stderr
	orders, err := cmd.StdinPipe()
	must(err)
	out, err = cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	dir := b.TempDir()
	rings = filepath.Join(dir, "rings")
	d, err := drain.Start(rings, drain.Options{Logs: filepath.Join(dir, "logs")})
	must(err)
	b.Cleanup(func() {
		d.Close()
		orders.Close()
		cmd.Wait()
	})
	return orders, out, rings
}

// simpleProgram is an eBPF program that does almost nothing. It runs beside the programs of a
// capture.
type simpleProgram struct {
	*ebpf.Program
	hook link.Link
}

// startSimple starts a program that does nothing but call the given functions of the kernel.
func startSimple(hook string, calls ...asm.BuiltinFunc) *simpleProgram {
	spec := &ebpf.ProgramSpec{
		Name: "simple", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: hook,
		License: licence,
	}
	for _, call := range calls {
		spec.Instructions = append(spec.Instructions, call.Call())
	}
	spec.Instructions = append(spec.Instructions, asm.Mov.Imm(asm.R0, 0), asm.Return())
	p, err := ebpf.NewProgram(spec)
	must(err)
	l, err := link.AttachTracing(link.TracingOptions{Program: p})
	must(err)
	return &simpleProgram{p, l}
}

func (s *simpleProgram) stop() {
	must(s.hook.Close())
	must(s.Close())
}

// BenchmarkPrograms says how long each program runs, as the kernel measures it. These times include
// the measurement itself. The program "empty" does nothing, so its time is that of the measurement.
// "thread" only asks for the present thread, and "clock" only reads the clock. It needs root.
func BenchmarkPrograms(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	stats, err := ebpf.EnableStats(0)
	must(err)
	defer stats.Close()
	in, out, rings := startLoad(b)
	each := map[string][]float64{} // ns a run
	// measure notes how long programs run while messages are exchanged.
	measure := func(all map[string]*ebpf.Program, suffix string) {
		for _, what := range []string{"ping-pong", "wakes"} {
			fmt.Fprintln(in, what, 30)
			var ns float64
			_, err := fmt.Fscan(out, &ns)
			must(err)
		}
		for name, p := range all {
			s, err := p.Stats()
			must(err)
			if s.RunCount > 1000 {
				each[name+suffix] = append(each[name+suffix],
					float64(s.Runtime)/float64(s.RunCount))
			}
		}
	}
	for range b.N {
		for name, calls := range map[string][]asm.BuiltinFunc{
			"empty": nil, "thread": {asm.FnGetCurrentPidTgid}, "clock": {asm.FnKtimeGetNs},
		} {
			s := startSimple(hookBegin, calls...)
			measure(map[string]*ebpf.Program{name: s.Program}, "")
			s.stop()
		}
		for suffix, also := range map[string]Also{"": {}, "-with-all": {true, true, true}} {
			c, err := Start(Options{Dir: rings, Also: also})
			must(err)
			measure(c.kernel.programs.Programs, suffix)
			must(c.Close())
		}
	}
	b.ReportMetric(0, "ns/op")
	for name, ns := range each {
		b.ReportMetric(middle(ns), name+"-ns/run")
	}
}

func processorTime() time.Duration {
	var t unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}
