package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/generator"
)

// scheduleQueue is how many messages may wait at each end: the receiver may pause for some milliseconds without the sender being refused.
const scheduleQueue = 50_000

// onSchedule sends at a rate from a core that the sender has for itself; everything else in this process keeps to the other ones.
func onSchedule(ctx context.Context, r *GenRow, rate float64, tuples int, own []int) error {
	// A thread in C gives its place in the Go runtime away, and must find another when it is back.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2 * len(own)))
	senders := own[len(own)-1:]
	restore, err := pinAll(own[:len(own)-1])
	if err != nil {
		return err
	}
	defer restore()
	before, err := pausedShare(senders)
	if err != nil {
		return err
	}
	span := time.Duration(float64(tuples) / rate * 1e9)
	schedule, err := generator.Constant(rate, span)
	if err != nil {
		return err
	}
	var pinned error
	run, err := overZeroMQ(ctx, generator.SenderOptions{Schedule: schedule, Batch: singleBatch, Begin: func(int) { pinned = pinThread(0, senders) }},
		generator.PushOptions{HighWater: scheduleQueue})
	if err == nil {
		err = pinned
	}
	if err != nil {
		return err
	}
	after, err := pausedShare(senders)
	if err != nil {
		return err
	}
	r.paused = (before + after) / 2
	r.Paused = append(r.Paused, r.paused)
	s := run.sent
	if s.Sent == 0 {
		return fmt.Errorf("nothing was sent at %.0f tuples a second", rate)
	}
	r.Figures = append(r.Figures, 100*float64(s.Sent-s.Late)/float64(s.Scheduled))
	r.Rates = append(r.Rates, rate)
	r.Sent += s.Sent
	r.Late.Late += s.Late
	r.Late.Blocked += s.Lateness.Blocked
	r.Late.Stalled += s.Stalled
	r.Late.Busy += s.Busy
	r.Unaccount += s.Late - s.Lateness.Blocked - s.Stalled - s.Busy + s.Scheduled - s.Sent - s.Skipped - s.Unsent
	r.P99_ns = max(r.P99_ns, float64(s.SendLag.ValueAtQuantile(99)))
	r.Wrong += run.wrong()
	return nil
}

// maxPaused is the share of pauses with which a repetition counts: a machine on which a loop that does nothing but look at the counter
// is kept from it for longer than 10 µs at a time is not idle, and no sender can be on time there.
const maxPaused = 0.003

// pausedShare looks at the counter on a core, again and again, and returns the share of the time that passed in pauses of more than 10 µs.
func pausedShare(core []int) (share float64, err error) {
	done := make(chan struct{})
	go func() { // its thread is pinned, and ends with it
		defer close(done)
		runtime.LockOSThread()
		if err = pinThread(0, core); err != nil {
			return
		}
		var all, lost time.Duration
		for range 40 {
			// Shorter than the time after which Go's scheduler would take the thread away.
			for begun, last := time.Now(), time.Now(); ; {
				now := time.Now()
				if pause := now.Sub(last); pause > 10*time.Microsecond {
					lost += pause
				}
				if last = now; now.Sub(begun) > 5*time.Millisecond {
					all += now.Sub(begun)
					break
				}
			}
			runtime.Gosched()
		}
		share = float64(lost) / float64(all)
	}()
	<-done
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

// pinAll keeps all threads of this process, and those that they start, on some cores. A thread that has ended meanwhile is left out.
func pinAll(to []int) (restore func(), err error) {
	all, err := cores()
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
