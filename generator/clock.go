package generator

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// A Clock gives a sender its time: this machine's counter, or a test's clock.
type Clock interface {
	// Now reads the counter.
	Now() uint64
	// Wait waits until the counter has reached a value. But if the wait is long, Wait may return
	// earlier.
	Wait(value uint64)
	// Frequency_hz is the number of steps that the counter makes in a second.
	Frequency_hz() float64
}

// counterClock is the machine's counter.
type counterClock struct{ hz float64 }

// calibration is the time for which NewClock compares the counter with the system's clock. Each
// reading is true within 50 ns, so the measured rate is true within 2 ppm. The rate of a schedule
// is no more accurate than that.
const calibration = 50 * time.Millisecond

// NewClock measures how fast this machine's counter runs, which takes 50 ms. If the counter cannot
// be used, the error wraps asm.ErrUnfit.
func NewClock() (Clock, error) {
	if err := asm.Read().Check(); err != nil {
		return nil, fmt.Errorf("use the counter as a clock: %w", err)
	}
	t0, c0 := readClocks()
	time.Sleep(calibration)
	t1, c1 := readClocks()
	return &counterClock{hz: float64(c1-c0) / t1.Sub(t0).Seconds()}, nil
}

// readClocks returns the counter and the system's clock at one moment. It reads both several times,
// and returns the values that were read in the shortest time.
func readClocks() (at time.Time, counter uint64) {
	best := uint64(1<<64 - 1)
	for range 32 {
		before := asm.Counter()
		t := time.Now()
		if took := asm.Counter() - before; took < best {
			best, at, counter = took, t, before+took/2
		}
	}
	return at, counter
}

func (c *counterClock) Now() uint64           { return asm.Counter() }
func (c *counterClock) Frequency_hz() float64 { return c.hz }

// A sleeping thread wakes up late, by about 60 µs on virtual machines. So a thread that waits
// sleeps only while more than spin_s is left, and spins for the rest.
const (
	spin_s     = 150e-6
	longestNap = 20 * time.Millisecond // so that a cancelled run ends soon
)

func (c *counterClock) Wait(until uint64) {
	for {
		left := int64(until - asm.Counter())
		if left <= 0 {
			return
		}
		if s := float64(left) / c.hz; s > spin_s {
			nap := min(time.Duration((s-spin_s)*1e9), longestNap)
			t := unix.NsecToTimespec(int64(nap))
			unix.Nanosleep(&t, nil) // a signal may end it early; the caller asks again
			return
		}
	}
}

// sharpTimers locks the goroutine to its thread, and asks the kernel to wake the thread on time. By
// default, the kernel may delay a wake-up to combine it with others.
func sharpTimers() (release func()) {
	runtime.LockOSThread()
	// With the kernel's usual slack, a sender would wake as much as 50 µs late.
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return func() {
		unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0)
		runtime.UnlockOSThread()
	}
}
