package minrtt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// answererVariable is the environment variable that makes this test binary an answerer. Its value
// has three parts, separated by commas. The first is the address to answer on, the second how long
// to spin. If the third is "user", the answerer takes no stamps from the kernel.
const answererVariable = "MINRTT_TEST_ANSWER"

func TestMain(m *testing.M) {
	if how := os.Getenv(answererVariable); how != "" {
		if err := answerAsProcess(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(leak.Main(m))
}

// answerAsProcess prints its address, and answers until its standard input is closed.
func answerAsProcess(how string) error {
	words := strings.Split(how, ",")
	spin, err := time.ParseDuration(words[1])
	if err != nil {
		return err
	}
	clock, done, err := machineClock()
	if err != nil {
		return err
	}
	defer done()
	u, err := ListenUDP(netip.MustParseAddrPort(words[0]),
		UDPConfig{Counter: asm.Counter, Spin: spin, UserStampsOnly: words[2] == "user"})
	if err != nil {
		return err
	}
	a, err := NewAnswerer(u, clock, []Secret{testSecret})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		cancel()
	}()
	fmt.Println(u.LocalAddr())
	if err := a.Serve(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func machineClock() (Clock, func(), error) {
	notice, err := OpenStepNotice()
	if err != nil {
		return Clock{}, nil, err
	}
	return SystemClock(asm.Counter, notice, whole_ns), func() { _ = notice.Close() }, nil
}

var loopbacks = []string{"127.0.0.1:0", "[::1]:0"}

// needFamily skips the test if no socket can use the given local address, for example because this
// machine has no IPv6.
func needFamily(t *testing.T, local string) {
	t.Helper()
	c, err := net.ListenPacket("udp", local)
	if err != nil {
		if strings.HasPrefix(local, "127.") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	_ = c.Close()
}

func TestTrainBetweenProcesses(t *testing.T) {
	for _, local := range loopbacks {
		t.Run(local, func(t *testing.T) {
			needFamily(t, local)
			peer := startProcess(t, local+",0s,user", (*exec.Cmd).Start)
			u, err := DialUDP(peer, UDPConfig{Counter: asm.Counter})
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			config := DefaultConfig()
			config.Key = testKey
			// On the loopback interface no packet gets lost. An answer is late only if the machine
			// is busy.
			config.Timeout = 5 * time.Second
			p, err := NewProber(u, Clock{Counter: asm.Counter}, peer, config)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				tr, err := p.Train(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(tr.Exchanges) != 6 {
					t.Fatalf("%d exchanges, want 6; %+v", len(tr.Exchanges), tr.Counts)
				}
				// Both processes read one counter, so the true order is known.
				for _, e := range tr.User() {
					if !(e.Sent.Lo < e.Received.Hi && e.Received.Lo < e.Answered.Hi &&
						e.Answered.Lo < e.Returned.Hi) {
						t.Errorf("%+v is out of order", e)
					}
				}
			}
		})
	}
}

// startProcess starts an answerer in a process of its own and returns its address.
func startProcess(t *testing.T, how string, start func(*exec.Cmd) error) netip.AddrPort {
	t.Helper()
	cmd, err := reexec.Command()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), answererVariable+"="+how)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("answerer: %v", err)
		}
	})
	line := make([]byte, 64)
	n, err := stdout.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddrPort(strings.TrimSpace(string(line[:n])))
}

// openPair returns two sockets, the second connected to the first.
func openPair(t *testing.T, local string, spin time.Duration) (listener, dialer *UDP) {
	t.Helper()
	needFamily(t, local)
	config := UDPConfig{Counter: asm.Counter, Spin: spin}
	listener, err := ListenUDP(netip.MustParseAddrPort(local), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	dialer, err = DialUDP(listener.LocalAddr(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialer.Close() })
	return listener, dialer
}

const soonEnough = 5 * time.Second // enough on a busy machine for what an idle one does at once

func TestUDPCarriesPackets(t *testing.T) {
	for _, local := range loopbacks {
		for _, spin := range []time.Duration{0, 10 * time.Millisecond} {
			listener, dialer := openPair(t, local, spin)
			sent, err := dialer.Send([]byte("to the listener"), listener.LocalAddr())
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 10)
			rx, err := listener.Receive(b, time.Now().Add(soonEnough))
			if err != nil {
				t.Fatal(err)
			}
			if string(b) != "to the lis" || rx.Length != len("to the listener") {
				t.Errorf("%v, %v: received %q of %d bytes", local, spin, b, rx.Length)
			}
			if rx.From.Addr() != listener.LocalAddr().Addr() || rx.From.Port() == 0 {
				t.Errorf("%v, %v: received from %v", local, spin, rx.From)
			}
			if rx.After_cycles <= sent.Before_cycles {
				t.Errorf("%v, %v: received at %d, sent at %d",
					local, spin, rx.After_cycles, sent.Before_cycles)
			}
			if _, err := listener.Send([]byte("back"), rx.From); err != nil {
				t.Fatal(err)
			}
			rx, err = dialer.Receive(b, time.Now().Add(soonEnough))
			if err != nil {
				t.Fatal(err)
			}
			if string(b[:rx.Length]) != "back" || rx.From != listener.LocalAddr() {
				t.Errorf("%v, %v: received %q from %v", local, spin, b[:rx.Length], rx.From)
			}
		}
	}
}

func TestUDPTimesOut(t *testing.T) {
	for _, spin := range []time.Duration{0, time.Millisecond} {
		listener, _ := openPair(t, loopbacks[0], spin)
		begin := time.Now()
		_, err := listener.Receive(make([]byte, 10), begin.Add(20*time.Millisecond))
		if !errors.Is(err, ErrTimeout) {
			t.Errorf("error = %v, want %v", err, ErrTimeout)
		}
		if waited := time.Since(begin); waited < 20*time.Millisecond {
			t.Errorf("waited for %v only", waited)
		}
		// Even after its deadline, Receive returns a packet that has arrived.
		if _, err := listener.Receive(make([]byte, 10), begin); !errors.Is(err, ErrTimeout) {
			t.Errorf("error = %v, want %v", err, ErrTimeout)
		}
		dialer, err := DialUDP(listener.LocalAddr(), UDPConfig{Counter: asm.Counter})
		if err != nil {
			t.Fatal(err)
		}
		defer dialer.Close()
		if _, err := dialer.Send([]byte("x"), listener.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		if _, err := listener.Receive(make([]byte, 10), begin); err != nil {
			t.Errorf("packet that was there: %v", err)
		}
	}
}

func TestUDPCloses(t *testing.T) {
	listener, dialer := openPair(t, loopbacks[0], 0)
	done := make(chan error)
	go func() {
		_, err := listener.Receive(make([]byte, 10), time.Now().Add(time.Hour))
		done <- err
	}()
	if err := listener.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("Receive: error = %v, want %v", err, ErrClosed)
	}
	if _, err := listener.Send(nil, dialer.LocalAddr()); !errors.Is(err, ErrClosed) {
		t.Errorf("Send: error = %v, want %v", err, ErrClosed)
	}
	if err := listener.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("second Close: error = %v, want %v", err, ErrClosed)
	}
}

// If nobody listens on a port, the error says so. A slow peer only causes a timeout.
func TestUDPNobodyListens(t *testing.T) {
	for _, local := range loopbacks {
		listener, dialer := openPair(t, local, 0)
		peer := listener.LocalAddr()
		_ = listener.Close()
		p, err := NewProber(dialer, Clock{Counter: asm.Counter}, peer, DefaultConfig())
		if err != nil {
			t.Fatal(err)
		}
		tr, err := p.Train(t.Context())
		if !errors.Is(err, ErrNoAnswer) || tr.Counts.Refused == 0 {
			t.Errorf("%v: error = %v, counts %+v, want %v and refusals",
				local, err, tr.Counts, ErrNoAnswer)
		}
	}
}

func TestUDPRefusesAddresses(t *testing.T) {
	config := UDPConfig{Counter: asm.Counter}
	for _, tc := range []struct {
		name string
		open func() (*UDP, error)
	}{
		{"no counter", func() (*UDP, error) {
			return ListenUDP(netip.MustParseAddrPort(loopbacks[0]), UDPConfig{})
		}},
		{"no local address", func() (*UDP, error) { return ListenUDP(netip.AddrPort{}, config) }},
		{"somebody else's address", func() (*UDP, error) {
			return ListenUDP(netip.MustParseAddrPort("192.0.2.1:0"), config)
		}},
		{"no remote address", func() (*UDP, error) { return DialUDP(netip.AddrPort{}, config) }},
		{"no remote port",
			func() (*UDP, error) { return DialUDP(netip.MustParseAddrPort(loopbacks[0]), config) }},
	} {
		if u, err := tc.open(); err == nil {
			t.Errorf("%s: opened", tc.name)
			_ = u.Close()
		}
	}
}

// The runtime preempts goroutines by a signal, which ends a sleeping receive. No packet gets lost
// by that.
func TestUDPSurvivesSignals(t *testing.T) {
	for _, config := range []UDPConfig{{Counter: asm.Counter},
		{Counter: asm.Counter, UserStampsOnly: true}} {
		listener, err := ListenUDP(netip.MustParseAddrPort(loopbacks[0]), config)
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		dialer, err := DialUDP(listener.LocalAddr(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer dialer.Close()
		thread, done := make(chan int), make(chan error)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			thread <- unix.Gettid()
			b := make([]byte, 10)
			r, err := listener.Receive(b, time.Now().Add(time.Hour))
			if err == nil && string(b[:r.Length]) != "at last" {
				err = fmt.Errorf("received %q", b[:r.Length])
			}
			done <- err
		}()
		tid := <-thread
		for deadline := time.Now().Add(soonEnough); listener.interrupted.Load() < 20; {
			if err := unix.Tgkill(unix.Getpid(), tid, unix.SIGURG); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(deadline) {
				t.Fatal("no signal ended the receive: this tests nothing")
			}
			runtime.Gosched()
		}
		select {
		case err := <-done:
			t.Fatalf("Receive returned without a packet: %v", err)
		default:
		}
		if _, err := dialer.Send([]byte("at last"), listener.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// On the loopback interface the kernel stamps packets. It begins to stamp received packets a short
// time after it was asked.
func TestUDPKernelStamps(t *testing.T) {
	for _, local := range loopbacks {
		listener, dialer := openPair(t, local, 0)
		if tx, rx := dialer.Sources(); tx != Kernel || rx != Kernel {
			// An emulator does not pass stamps on.
			if os.Getenv("CI") == "true" && runtime.GOARCH == "amd64" {
				t.Fatalf("transmit stamps: %v, receive stamps: %v: CI must run where the kernel "+
					"stamps", tx, rx)
			}
			t.Skipf("transmit stamps: %v, receive stamps: %v", tx, rx)
		}
		var rx Received
		b := make([]byte, shortSize)
		c := testKey.codecUnder()
		deadline := time.Now().Add(soonEnough)
		for sequence := uint32(1); rx.RealtimeNS == 0; sequence++ {
			if time.Now().After(deadline) {
				t.Fatal("no receive stamp on the loopback interface")
			}
			before := time.Now().UnixNano()
			packet := c.append(nil, &packet{header: header{kindProbe, 7, sequence, testID}})
			if _, err := dialer.Send(packet, listener.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			var err error
			if rx, err = listener.Receive(b, deadline); err != nil {
				t.Fatal(err)
			}
			after := time.Now().UnixNano()
			var sent []header
			var sent_ns int64
			dialer.SentStamps(func(p []byte, at Stamps) {
				var h header
				if !sentHeader(p, &h) {
					t.Errorf("a stamp of %x, which is no packet", p)
				}
				sent, sent_ns = append(sent, h), at.RealtimeNS
			})
			if len(sent) != 1 || sent[0] != (header{kindProbe, 7, sequence, testID}) {
				t.Fatalf("transmit stamps of %+v, want one of probe %d", sent, sequence)
			}
			if sent_ns < before || sent_ns > after {
				t.Errorf("sent at %d, want between %d and %d", sent_ns, before, after)
			}
			if rx.RealtimeNS != 0 && (rx.RealtimeNS < sent_ns || rx.RealtimeNS > after) {
				t.Errorf("received at %d, want between %d and %d", rx.RealtimeNS, sent_ns, after)
			}
		}
	}
}

func TestUserStampsOnly(t *testing.T) {
	config := UDPConfig{Counter: asm.Counter, UserStampsOnly: true}
	u, err := ListenUDP(netip.MustParseAddrPort(loopbacks[0]), config)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if tx, rx := u.Sources(); tx != Unasked || rx != Unasked {
		t.Errorf("sources %v and %v, want user stamps", tx, rx)
	}
	u.SentStamps(func([]byte, Stamps) { t.Error("a stamp that nobody asked for") })
}

func TestUDPSendsWhereItIsConnected(t *testing.T) {
	listener, dialer := openPair(t, loopbacks[0], 0)
	if _, err := dialer.Send([]byte("x"), netip.MustParseAddrPort("127.0.0.1:1")); err == nil {
		t.Error("sent elsewhere")
	}
	mapped := netip.AddrPortFrom(netip.AddrFrom16(listener.LocalAddr().Addr().As16()),
		listener.LocalAddr().Port())
	d, err := DialUDP(mapped, UDPConfig{Counter: asm.Counter})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Send([]byte("x"), listener.LocalAddr()); err != nil {
		t.Errorf("dialed by its IPv6 name: %v", err)
	}
}

// Probing runs next to the program that is measured. So a train must make little garbage.
func TestTrainAllocatesLittle(t *testing.T) {
	listener, dialer := openPair(t, loopbacks[0], 0)
	clock, done, err := machineClock()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	a, err := NewAnswerer(listener, clock, []Secret{testSecret})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- a.Serve(ctx) }()
	config := DefaultConfig()
	config.Key, config.Timeout = testKey, soonEnough
	p, err := NewProber(dialer, clock, listener.LocalAddr(), config)
	if err != nil {
		t.Fatal(err)
	}
	train := func() {
		if _, err := p.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// A train allocates its result, two clock relations and the session. An exchange allocates
	// nothing.
	if got := testing.AllocsPerRun(100, train); got > 30 {
		t.Errorf("%v allocations a train, want at most 30", got)
	} else {
		t.Logf("%v allocations a train", got)
	}
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("Serve: %v", err)
	}
	if err := listener.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("after Serve: Close = %v, want %v", err, ErrClosed)
	}
}
