package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/host"
)

// scheduleQueue is the number of messages that may wait at each end. It is large enough for the
// receiver to pause for some milliseconds.
const scheduleQueue = 50_000

// onSchedule sends from a core that the sender has for itself: all other threads of this process
// keep to the other cores. If this process has the right, the sender gets priority over everything
// else on its core. The rate is half of the highest rate that the same setup reaches.
func onSchedule(ctx context.Context, r *GenRow, tuples int, own []int) error {
	// A thread that calls C gives up its P (a processor of the Go runtime), and needs a free P when
	// it returns. If there are more Ps than cores, one is free.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * len(own)))
	senders := own[len(own)-1:]
	restore, err := pinAll(own[:len(own)-1])
	if err != nil {
		return err
	}
	defer restore()
	o := generator.SenderOptions{Batch: singleBatch, Cores: senders, Realtime: mayRealtime()}
	flat := o
	flat.FlatOut, flat.Limit = time.Minute, uint64(tuples)
	most, err := overZeroMQ(ctx, flat, generator.PushOptions{HighWater: scheduleQueue})
	if err != nil {
		return err
	}
	rate := most.received.Rate / 2
	before, err := lateLoop(senders, o.Realtime)
	if err != nil {
		return err
	}
	span := time.Duration(float64(tuples) / rate * 1e9)
	if o.Schedule, err = generator.Constant(rate, span); err != nil {
		return err
	}
	run, err := overZeroMQ(ctx, o, generator.PushOptions{HighWater: scheduleQueue})
	if err != nil {
		return err
	}
	after, err := lateLoop(senders, o.Realtime)
	if err != nil {
		return err
	}
	loop_percent := 50 * (before + after)
	r.restless = loop_percent > maxLoop_percent
	s := run.sent
	if s.Sent == 0 {
		return fmt.Errorf("nothing was sent at %.0f tuples a second", rate)
	}
	r.Figures = append(r.Figures, 100*float64(s.Sent-s.Late)/float64(s.Scheduled))
	r.Beside = append(r.Beside,
		Beside{100 * float64(s.Scheduled-s.Sent+s.Late) / float64(s.Scheduled), loop_percent})
	r.Rates = append(r.Rates, rate)
	r.Sent += s.Sent
	r.Late.Late += s.Late
	r.Late.Blocked += s.Lateness.Blocked
	r.Late.Stalled += s.Stalled
	r.Late.Busy += s.Busy
	r.Late.CatchingUp += s.CatchingUp
	r.Unaccount += s.Late - s.Lateness.Blocked - s.Stalled - s.Busy +
		s.Scheduled - s.Sent - s.Skipped - s.Unsent
	r.P99_ns = max(r.P99_ns, float64(s.SendLag.ValueAtQuantile(99)))
	r.Wrong += run.wrong()
	return nil
}

// maxLoop_percent limits how much the machine itself may disturb a valid repetition. Right before
// and after the repetition, a loop that only reads the counter may be late for at most this share
// of its time. After a pause of the machine, a sender at half of its full rate sends the tuples of
// the pause late. Until it has caught up, it sends the same number of tuples late again. So at this
// limit, the machine alone makes 0.5 % of the tuples late, which is half of what a sender may send
// late. Above the limit, the machine counts as not idle.
const maxLoop_percent = 0.25

// mayRealtime reports whether this process may give threads priority over all others.
func mayRealtime() bool { return onOwnThread(func() error { return setRealtime(0) }) == nil }

// setRealtime gives a thread priority over all others, as a sender with Realtime does.
func setRealtime(thread int) error {
	attr := unix.SchedAttr{
		Size: uint32(unsafe.Sizeof(unix.SchedAttr{})), Policy: unix.SCHED_FIFO,
		Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}
	return unix.SchedSetAttr(thread, &attr, 0)
}

// onOwnThread calls f on a thread that ends with f.
func onOwnThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// lateAfter is how late a tuple may be sent before it counts as late.
const lateAfter = 10 * time.Microsecond

// A tuple that is due in a pause is sent late, unless it is due so near the end of the pause that
// it waits no longer than lateAfter. lateIn returns the part of a pause in which due tuples are
// sent late.
func lateIn(pause time.Duration) time.Duration { return max(0, pause-lateAfter) }

// lateLoop reads the counter on a core for 0.2 s, and returns the share of that time in which due
// tuples would be late.
func lateLoop(core []int, first bool) (share float64, err error) {
	err = onOwnThread(func() error {
		if err := pinThread(0, core); err != nil {
			return err
		}
		if first {
			if err := setRealtime(0); err != nil {
				return err
			}
		}
		var all, late time.Duration
		for range 40 {
			// 5 ms is shorter than the time after which Go's scheduler takes the thread away.
			for begun, last := time.Now(), time.Now(); ; {
				now := time.Now()
				late += lateIn(now.Sub(last))
				if last = now; now.Sub(begun) > 5*time.Millisecond {
					all += now.Sub(begun)
					break
				}
			}
			runtime.Gosched()
		}
		share = late.Seconds() / all.Seconds()
		return nil
	})
	return share, err
}

func pinThread(thread int, to []int) error {
	var set unix.CPUSet
	for _, core := range to {
		set.Set(core)
	}
	if err := unix.SchedSetaffinity(thread, &set); err != nil {
		return fmt.Errorf("pin thread %d to cores %v: %w", thread, to, err)
	}
	return nil
}

// pinAll keeps all threads of this process, and all threads that they start, on some cores. It
// ignores threads that end in the meantime.
func pinAll(to []int) (restore func(), err error) {
	all, err := host.AllowedCores()
	if err != nil {
		return nil, err
	}
	set := func(to []int) error {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("pin this process: %w", err)
		}
		for _, task := range tasks {
			if thread, err := strconv.Atoi(task.Name()); err == nil {
				_ = pinThread(thread, to)
			}
		}
		return nil
	}
	if err := set(to); err != nil {
		return nil, err
	}
	return func() { _ = set(all) }, nil
}
