package tscclient

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// measureLoad measures the node's load for the given time, without the client's own work.
func measureLoad(ctx context.Context, c *Client, over time.Duration) (control.Message, error) {
	first := lookAtLoad(c)
	timer := time.NewTimer(over)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return loadBetween(first, lookAtLoad(c)), nil
}

// loadLook contains a node's totals of CPU time and of traffic at one moment. A load is the
// difference of two loadLooks.
type loadLook struct {
	at             time.Time
	cpu            cpuTimes
	traffic        trafficBytes
	own_ns         uint64 // CPU time of this process
	ownBytes       uint64 // bytes of probes and answers, the sum of both directions
	unknownCPU     error
	unknownTraffic error
}

func lookAtLoad(c *Client) loadLook {
	l := loadLook{at: time.Now()}
	if text, err := os.ReadFile("/proc/stat"); err != nil {
		l.unknownCPU = err
	} else {
		l.cpu, l.unknownCPU = parseCPU(text)
	}
	// The file net/dev lists the interfaces of the calling thread's network namespace.
	if text, err := os.ReadFile("/proc/thread-self/net/dev"); err != nil {
		l.unknownTraffic = err
	} else {
		l.traffic, l.unknownTraffic = parseTraffic(text)
	}
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		l.own_ns = uint64(usage.Utime.Nano() + usage.Stime.Nano())
	}
	s := c.Stats()
	l.ownBytes = s.Cost.Bytes + s.Answers.Bytes()
	return l
}

// cpuTimes contains the times of all CPUs together, in ticks of 10 ms.
type cpuTimes struct{ busy, idle uint64 }

func parseCPU(stat []byte) (cpuTimes, error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 6 || fields[0] != "cpu" {
		return cpuTimes{}, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var t cpuTimes
	for i, text := range fields[1:] {
		v, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return cpuTimes{}, fmt.Errorf("/proc/stat: %w", err)
		}
		switch {
		case i == 3 || i == 4: // idle, or waiting for a disk
			t.idle += v
		case i >= 8: // times of guests, which columns 0 and 1 already include
		default:
			t.busy += v
		}
	}
	return t, nil
}

// trafficBytes counts the bytes of all network interfaces except the loopback.
type trafficBytes struct{ received, sent uint64 }

func parseTraffic(dev []byte) (trafficBytes, error) {
	var t trafficBytes
	lines := bufio.NewScanner(bytes.NewReader(dev))
	for lines.Scan() {
		name, rest, ok := strings.Cut(lines.Text(), ":")
		if !ok || strings.TrimSpace(name) == "lo" {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 9 {
			return trafficBytes{}, fmt.Errorf("/proc/net/dev: line %q", lines.Text())
		}
		received, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			return trafficBytes{}, fmt.Errorf("/proc/net/dev: %w", err)
		}
		sent, err := strconv.ParseUint(fields[8], 10, 64)
		if err != nil {
			return trafficBytes{}, fmt.Errorf("/proc/net/dev: %w", err)
		}
		t.received += received
		t.sent += sent
	}
	return t, lines.Err()
}

// differenceOrZero returns x − y, or 0 if y is larger. y may be larger because the totals are not
// all read at the same moment.
func differenceOrZero(x, y uint64) uint64 { return x - min(x, y) }

func loadBetween(a, b loadLook) *control.Load {
	const tick_ns = 10_000_000
	load := &control.Load{Over_ns: int64(b.at.Sub(a.at)), Busy_ppm: -1}
	busy, idle := differenceOrZero(b.cpu.busy, a.cpu.busy), differenceOrZero(b.cpu.idle, a.cpu.idle)
	if err := b.unknownCPU; a.unknownCPU != nil || err != nil {
		load.Unknown = append(load.Unknown, fmt.Sprintf("CPU: %v", cmp.Or(a.unknownCPU, err)))
	} else if busy+idle > 0 {
		own := differenceOrZero(b.own_ns, a.own_ns) / tick_ns
		load.Busy_ppm = int64(differenceOrZero(busy, own) * 1_000_000 / (busy + idle))
	} else {
		load.Unknown = append(load.Unknown, "CPU: no tick went by")
	}
	if err := b.unknownTraffic; a.unknownTraffic != nil || err != nil {
		load.Unknown = append(load.Unknown,
			fmt.Sprintf("traffic: %v", cmp.Or(a.unknownTraffic, err)))
		return load
	}
	// Probes and answers have about the same length, so half of the client's own bytes belong to
	// each direction.
	own := differenceOrZero(b.ownBytes, a.ownBytes) / 2
	load.ReceivedBytes = differenceOrZero(differenceOrZero(b.traffic.received, a.traffic.received),
		own)
	load.SentBytes = differenceOrZero(differenceOrZero(b.traffic.sent, a.traffic.sent), own)
	return load
}
