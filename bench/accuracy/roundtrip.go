package accuracy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
)

// RoundTrips compares the round trips of exchanges with the round trips of a bare ping-pong. The
// ends of the exchanges spin, each on a CPU of its own. The time between the arrival of a probe and
// the sending of its answer is left out. The ping-pong only makes raw system calls, reads the
// counter, and counts. Its packets are as long as those of the exchanges, its sockets are of the
// same kind, and it lets other threads run as often. Each slice in RoundTrips has one element for
// each repetition.
type RoundTrips struct {
	Absent string // why there are no round trips

	Smallest_us, Median_us         []float64
	BareSmallest_us, BareMedian_us []float64
	// Ratios has the smallest round trips of exchanges, divided by the smallest of the ping-pong.
	Ratios []float64
}

const (
	packetLength  = 92 // length of a probe: see minrtt/FORMAT.md
	pollsPerTurn  = 16 // as in minrtt: polls until others may run
	roundTripsAll = 2000
	perTrain      = 100
)

// roundTrips adds a repetition to the result.
func (l *twoEnds) roundTrips(ctx context.Context, to *RoundTrips) error {
	cpus, err := host.AllowedCores()
	if err != nil {
		return err
	}
	if len(cpus) < 2 {
		to.Absent = "two ends that spin need two CPUs, this process may use one"
		return nil
	}
	var ours, bare []float64
	var failed, failedBare error
	err = host.OnCore(cpus[0], func() {
		ours, failed = l.spinning(ctx, cpus[1])
		bare, failedBare = l.pingPong(cpus[1])
	})
	if err := errors.Join(err, failed, failedBare); err != nil {
		return fmt.Errorf("measure round trips: %w", err)
	}
	for _, v := range [][]float64{ours, bare} {
		slices.Sort(v)
	}
	to.Smallest_us = append(to.Smallest_us, l.machine.Micros(ours[0]))
	to.Median_us = append(to.Median_us, l.machine.Micros(ours[len(ours)/2]))
	to.BareSmallest_us = append(to.BareSmallest_us, l.machine.Micros(bare[0]))
	to.BareMedian_us = append(to.BareMedian_us, l.machine.Micros(bare[len(bare)/2]))
	to.Ratios = append(to.Ratios, ours[0]/bare[0])
	return nil
}

// runOnCPU runs f on a CPU. The returned function calls the function stop and waits for f to end.
// It returns the error of host.OnCore.
func runOnCPU(cpu int, stop func(), f func()) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- host.OnCore(cpu, f) }()
	return func() error {
		stop()
		return <-done
	}
}

// spinning returns, in cycles, the round trips of trains whose ends spin.
func (l *twoEnds) spinning(ctx context.Context, answererCPU int) (cycles []float64, err error) {
	config := minrtt.UDPConfig{
		Counter: asm.Counter, Spin: 100 * time.Millisecond, UserStampsOnly: true,
	}
	var listener, dialer *minrtt.UDP
	if err := l.at(1, func() (err error) {
		listener, err = minrtt.ListenUDP(netip.AddrPortFrom(l.addr(1), 0), config)
		return err
	}); err != nil {
		return nil, err
	}
	a, err := minrtt.NewAnswerer(listener, minrtt.Clock{Counter: asm.Counter}, nil)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	wait := runOnCPU(answererCPU, func() { _ = listener.Close() },
		func() { _ = a.Serve(context.Background()) })
	defer func() { err = errors.Join(err, wait()) }()
	if err := l.at(0, func() (err error) {
		dialer, err = minrtt.DialUDP(listener.LocalAddr(), config)
		return err
	}); err != nil {
		return nil, err
	}
	defer dialer.Close()
	train := minrtt.DefaultConfig()
	// Nothing is lost here. The prober waits only if the machine is busy.
	train.Exchanges, train.Timeout = perTrain, 5*time.Second
	p, err := minrtt.NewProber(dialer, minrtt.Clock{Counter: asm.Counter}, listener.LocalAddr(),
		train)
	if err != nil {
		return nil, err
	}
	for range roundTripsAll / perTrain {
		t, err := p.Train(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range t.User()[1:] {
			cycles = append(cycles, float64(e.RoundTrip_cycles()-(e.Answered.Lo-e.Received.Lo)))
		}
	}
	return cycles, nil
}

// sockets opens two sockets, the first connected to the second.
func (l *twoEnds) sockets() (fds [2]int, err error) {
	fds = [2]int{-1, -1}
	var address unix.Sockaddr
	for _, end := range []int{1, 0} {
		err := l.at(end, func() (err error) {
			fds[end], err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			own := &unix.SockaddrInet4{Addr: l.addr(end).As4()}
			if err := unix.Bind(fds[end], own); err != nil {
				return err
			}
			if end == 0 {
				return unix.Connect(fds[0], address)
			}
			address, err = unix.Getsockname(fds[1])
			return err
		})
		if err != nil {
			closeSockets(fds)
			return fds, err
		}
	}
	return fds, nil
}

func closeSockets(fds [2]int) {
	for _, fd := range fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// pingPong returns the round trips of the bare ping-pong, in cycles.
func (l *twoEnds) pingPong(answererCPU int) (cycles []float64, err error) {
	fds, err := l.sockets()
	if err != nil {
		return nil, err
	}
	defer closeSockets(fds)
	var stop atomic.Bool
	wait := runOnCPU(answererCPU, func() { stop.Store(true) }, func() {
		b := make([]byte, packetLength)
		from, length := new(unix.RawSockaddrAny), new(uint32)
		for i := 1; !stop.Load(); i++ {
			if i%pollsPerTurn == 0 {
				yield()
			}
			*length = unix.SizeofSockaddrAny
			_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fds[1]),
				uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
				unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(from)), uintptr(unsafe.Pointer(length)))
			if errno == 0 {
				received := asm.Counter()
				binary.NativeEndian.PutUint64(b, asm.Counter()-received)
				_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fds[1]),
					uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
					unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(from)), uintptr(*length))
			}
		}
	})
	defer func() { err = errors.Join(err, wait()) }()
	b := make([]byte, packetLength)
	end := time.Now().Add(time.Minute)
	for range roundTripsAll {
		begun := time.Now()
		if len(cycles) > 0 && begun.After(end) {
			break // on a very busy machine each round trip takes many milliseconds
		}
		sent := asm.Counter()
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fds[0]),
			uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		if errno != 0 {
			return nil, fmt.Errorf("bare ping-pong: %w", errno)
		}
		for i := 1; ; i++ {
			_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fds[0]),
				uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
			if errno == 0 {
				break
			}
			if i%pollsPerTurn == 0 {
				yield()
			}
			if i%(1<<16) == 0 && time.Since(begun) > time.Minute {
				return nil, errors.New("bare ping-pong: no answer within a minute")
			}
		}
		cycles = append(cycles, float64(asm.Counter()-sent-binary.NativeEndian.Uint64(b)))
	}
	runtime.KeepAlive(b)
	return cycles, nil
}
