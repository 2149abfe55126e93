package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// disturbedShare is the largest share of a core that other processes may take during a valid
// repetition.
const disturbedShare = 0.1

// usage is the processor time spent up to some moment.
type usage struct {
	at   time.Time
	busy time.Duration // time of all processes, and the time that the machine's hypervisor took
	own  time.Duration // time of this process, and of its children that have ended
}

// tick is the unit of the kernel in /proc/stat. It is the same on every Linux on which Go runs.
const tick = 10 * time.Millisecond

func readUsage() (usage, error) {
	u := usage{at: time.Now()}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, fmt.Errorf("read processor time: %w", err)
	}
	if u.busy, err = busyTime(text); err != nil {
		return u, err
	}
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var r unix.Rusage
		if err := unix.Getrusage(who, &r); err != nil {
			return u, fmt.Errorf("read own processor time: %w", err)
		}
		u.own += time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	return u, nil
}

// busyTime adds up the first line of /proc/stat. It leaves out idle and iowait (the 4th and 5th
// numbers). It also leaves out guest time (the 9th and 10th), which is part of user time already.
func busyTime(stat []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, fmt.Errorf("read processor time: /proc/stat begins with %.60q", line)
	}
	var ticks uint64
	for i, field := range fields[1:9] {
		n, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read processor time: /proc/stat begins with %.60q", line)
		}
		if i != 3 && i != 4 {
			ticks += n
		}
	}
	return time.Duration(ticks) * tick, nil
}

// othersSince returns how many cores other processes used, on average, since the moment of an
// earlier usage.
func (u usage) othersSince(before usage) float64 {
	elapsed := u.at.Sub(before.at)
	if elapsed <= 0 {
		return 0
	}
	others := (u.busy - before.busy) - (u.own - before.own)
	return max(0, float64(others)/float64(elapsed))
}
