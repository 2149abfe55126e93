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

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

const costVariable = "CLOUDPROFILER_CAPTURE_TEST_COST"

// loadMain exchanges messages when it is told to, and says how much processor time that took: on a
// machine that does other things, too, this is steadier than the time on the clock.
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
		before := processorTime()
		calls := map[string]func(client, server, n int) int{
			"ping-pong": pingPong, "flood": flood,
		}[what](client, server, n)
		fmt.Println(calls, (processorTime() - before).Nanoseconds())
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// pingPong sends n messages back and forth, from one thread, so that no thread has to wake another.
func pingPong(client, server, n int) (calls int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b := make([]byte, 64)
	for range n {
		for _, s := range [][2]int{{client, server}, {server, client}} {
			_, err := unix.Write(s[0], b)
			must(err)
			_, err = unix.Read(s[1], b)
			must(err)
		}
	}
	return 4 * n
}

// flood sends n messages one way, while another thread receives them.
func flood(client, server, n int) (calls int) {
	var both sync.WaitGroup
	const size = 64
	both.Go(func() {
		b := make([]byte, 1<<16)
		for left := n * size; left > 0; calls++ {
			got, err := unix.Read(server, b)
			must(err)
			left -= got
		}
	})
	both.Go(func() {
		b := make([]byte, size)
		for range n {
			_, err := unix.Write(client, b)
			must(err)
		}
	})
	both.Wait()
	return calls + n
}

// BenchmarkCost measures how much processor time a capture adds to a call that sends or receives 64
// bytes over loopback. It measures with and without a capture in turns, and needs root.
func BenchmarkCost(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	cmd, err := reexec.Command()
	must(err)
	cmd.Env, cmd.Stderr = append(os.Environ(), costVariable+"=1"), os.Stderr
	in, err := cmd.StdinPipe()
	must(err)
	out, err := cmd.StdoutPipe()
	must(err)
	must(cmd.Start())
	defer cmd.Wait()
	defer in.Close()
	dir := b.TempDir()
	rings := filepath.Join(dir, "rings")
	d, err := drain.Start(rings, drain.Options{Logs: filepath.Join(dir, "logs")})
	must(err)
	defer d.Close()
	for _, what := range []string{"ping-pong", "flood"} {
		b.Run(what, func(b *testing.B) {
			var ns [2][]float64 // of a call, without and with a capture
			var seen, lost uint64
			var busy time.Duration
			for range b.N {
				for on := range 2 {
					var c *Capture
					if on == 1 {
						c, err = Start(Options{Dir: rings})
						must(err)
					}
					before := processorTime()
					fmt.Fprintln(in, what, 50_000)
					var calls, took float64
					_, err := fmt.Fscan(out, &calls, &took)
					must(err)
					ns[on] = append(ns[on], took/calls)
					if c != nil {
						c.Flush()
						busy += processorTime() - before
						s := c.Stats()
						seen += s.Messages
						for _, n := range s.Lost {
							lost += n
						}
						must(c.Close())
					}
				}
			}
			middle := func(of []float64) float64 {
				slices.Sort(of)
				return of[len(of)/2]
			}
			off, on := middle(ns[0]), middle(ns[1])
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(off, "off-ns/call")
			b.ReportMetric(on, "on-ns/call")
			b.ReportMetric(on-off, "added-ns/call")
			b.ReportMetric(float64(busy.Nanoseconds())/float64(max(seen, 1)),
				"agent-cpu-ns/message")
			b.ReportMetric(float64(lost), "lost")
		})
	}
}

func processorTime() time.Duration {
	var u unix.Rusage
	must(unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
