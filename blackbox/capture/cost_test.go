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

// loadMain exchanges messages when it is told to, and says how much processor time a call took. It
// exchanges them in short pieces, and says the median over all pieces: on a machine that does other
// things, too, this is steadier than the mean, and than the time on the clock.
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
	for _, c := range []struct {
		what, name string
		pieces     int
		also       Also
	}{
		{"ping-pong", "ping-pong", 300, Also{}}, {"burst", "burst", 300, Also{}},
		{"ping-pong", "ping-pong with arrivals", 300, Also{Arrivals: true}},
		{"ping-pong", "ping-pong with threads", 300, Also{Threads: true}},
		{"wakes", "wake-ups not captured", 30, Also{}},
		{"wakes", "wake-ups", 30, Also{Threads: true}},
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
						capture, err = Start(Options{Dir: rings, Also: c.also})
						must(err)
					}
					before := processorTime()
					fmt.Fprintln(in, what, c.pieces)
					_, err := fmt.Fscan(out, &pair[on])
					must(err)
					if capture != nil {
						capture.Flush()
						busy += processorTime() - before
						s := capture.Stats()
						seen += s.Messages + s.Woke
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

func processorTime() time.Duration {
	var t unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t))
	return time.Duration(t.Nano())
}
