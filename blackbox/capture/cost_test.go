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

// loadMain exchanges messages when it is told to, and says how much processor time a call took. It
// exchanges them in short pieces, and says the median over all pieces: on a busy machine, this is
// steadier than the mean, and steadier than the time on the clock.
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
				"ping-pong": pingPong, "burst": burst, "wakes": wakes,
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

var waker struct {
	once sync.Once
	word int32
}

// wakes lets a thread wake another one. It sends a message, too, so that the process is one that
// uses sockets.
func wakes(client, server int) (calls int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b := make([]byte, 64)
	_, err := unix.Write(client, b)
	must(err)
	_, err = unix.Read(server, b)
	must(err)
	waker.once.Do(func() {
		go func() {
			runtime.LockOSThread()
			for {
				futex(&waker.word, futexWait, 0, nil)
			}
		}()
	})
	for calls < 100 {
		if futex(&waker.word, futexWake, 1, nil) > 0 {
			calls++
		} else {
			unix.Nanosleep(&unix.Timespec{Nsec: 1}, nil)
		}
	}
	return calls
}

// burst sends many messages and then receives all of them at once, from one thread.
func burst(client, server int) (calls int) {
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
// bytes over loopback. It measures with and without a capture in turns, says the median of the
// differences, and needs root.
func BenchmarkCost(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	in, out, rings := startLoad(b)
	for _, c := range []struct {
		what, name string
		also       Also
	}{
		{"ping-pong", "ping-pong", Also{}}, {"burst", "burst", Also{}},
		{"ping-pong", "ping-pong with arrivals", Also{Arrivals: true}},
		{"ping-pong", "ping-pong with threads", Also{Threads: true}},
	} {
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
						capture, err = Start(Options{Dir: rings, Also: c.also})
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
			b.ReportMetric(float64(busy.Nanoseconds())/float64(max(seen, 1)),
				"agent-cpu-ns/message")
			b.ReportMetric(float64(lost), "lost")
		})
	}
}

// startLoad starts loadMain and a drainer.
func startLoad(b *testing.B) (in io.Writer, out io.Reader, rings string) {
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

// BenchmarkPrograms says how long each program runs, as the kernel measures it. That includes the
// time of the measurement itself: "empty" is a program that does nothing. It needs root.
func BenchmarkPrograms(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	stats, err := ebpf.EnableStats(0)
	must(err)
	defer stats.Close()
	empty, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "empty", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp,
		AttachTo: hookReceived, License: licence,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	must(err)
	defer empty.Close()
	hook, err := link.AttachTracing(link.TracingOptions{Program: empty})
	must(err)
	defer hook.Close()
	in, out, rings := startLoad(b)
	each := map[string][]float64{} // ns a run
	for range b.N {
		c, err := Start(Options{Dir: rings, Also: Also{true, true, true}})
		must(err)
		before, err := empty.Stats()
		must(err)
		for _, what := range []string{"ping-pong", "wakes"} {
			fmt.Fprintln(in, what, 30)
			var ns float64
			_, err := fmt.Fscan(out, &ns)
			must(err)
		}
		for name, p := range c.kernel.programs.Programs {
			s, err := p.Stats()
			must(err)
			if s.RunCount > 1000 {
				each[name] = append(each[name], float64(s.Runtime)/float64(s.RunCount))
			}
		}
		after, err := empty.Stats()
		must(err)
		each["empty"] = append(each["empty"], float64(after.Runtime-before.Runtime)/
			float64(after.RunCount-before.RunCount))
		must(c.Close())
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
