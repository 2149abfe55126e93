package agent

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

const (
	honestChannels = 4
	honestBurst    = 200 // events in one burst, on each channel
	honestEvery    = 20 * time.Millisecond
	// This buffer has room for the events of 6 s on one channel. A crowded machine may stop a
	// thread for 2 s.
	honestBuffer = "1MiB"
)

// story is what an honest program reports when it ends. An honest program is one that does no harm.
type story struct {
	Events       uint64 // number of events on each channel
	Dropped      uint64
	Latencies_us []int64 // the times from a burst until all of its events are safe in logs
}

// beHonest logs bursts on all of its channels, until the test tells it to end. It measures the time
// until a burst is drained.
func beHonest(rings, name string) {
	var channels []*handlers.Channel
	var readers []*ring.Reader
	for i := range honestChannels {
		o := handlers.Options{Dir: rings, Handler: "id", Policy: "drop", Buffer: honestBuffer}
		c, err := handlers.Open(fmt.Sprintf("%s/c%d", name, i), o)
		must(err)
		r, err := ring.Open(c.Path())
		must(err)
		channels, readers = append(channels, c), append(readers, r)
	}
	fmt.Println("open")
	told := make(chan struct{})
	go func() { fmt.Scanln(); close(told) }()
	var s story
	var logged time.Time // the time of the burst that is being measured; zero: none
	tails := make([]uint64, honestChannels)
	drained := func() bool {
		for i, r := range readers {
			state, err := r.State(0)
			must(err)
			if state.Head < tails[i] {
				return false
			}
		}
		return true
	}
	burst := time.NewTicker(honestEvery)
	for end := false; !end || !logged.IsZero() && time.Since(logged) < time.Minute; {
		time.Sleep(time.Millisecond)
		select {
		case <-told:
			end = true
		default:
		}
		select {
		case <-burst.C:
			for range honestBurst {
				for _, c := range channels {
					c.Log(s.Events)
				}
				s.Events++
			}
			if logged.IsZero() && !end {
				logged = time.Now()
				for i, r := range readers {
					state, err := r.State(0)
					must(err)
					tails[i] = state.Tail
				}
			}
		default:
		}
		if !logged.IsZero() && drained() {
			s.Latencies_us = append(s.Latencies_us, time.Since(logged).Microseconds())
			logged = time.Time{}
		}
	}
	for _, c := range channels {
		s.Dropped += c.Dropped()
		c.Close()
	}
	must(json.NewEncoder(os.Stdout).Encode(s))
}

// toldProcess is a process that works until the test tells it to end, and then reports.
type toldProcess struct {
	t         testing.TB
	cmd       *exec.Cmd
	startRole func()
	lines     *bufio.Scanner
}

// tell starts a process in a role. The process prints "open" once it has begun.
func (s *testScene) tell(role string, args ...string) *toldProcess {
	s.t.Helper()
	cmd, err := reexec.Command(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { testimony.Kill(cmd) })
	p := &toldProcess{t: s.t, cmd: cmd, startRole: func() { in.Close() },
		lines: bufio.NewScanner(out)}
	p.lines.Buffer(nil, 64<<20)
	return p
}

// open waits until the process has begun.
func (p *toldProcess) open() *toldProcess {
	p.t.Helper()
	if !p.lines.Scan() || p.lines.Text() != "open" {
		p.t.Fatalf("%q said %q", p.cmd.Args, p.lines.Text())
	}
	return p
}

func (s *testScene) startHonest(name string) *toldProcess {
	return s.tell("honest", s.Rings, name).open()
}

// end tells an honest program to end, and returns its report.
func (p *toldProcess) end() (s story) {
	p.t.Helper()
	p.startRole()
	if !p.lines.Scan() {
		p.t.Fatalf("%q told nothing: %v", p.cmd.Args, p.lines.Err())
	}
	if err := json.Unmarshal(p.lines.Bytes(), &s); err != nil {
		p.t.Fatalf("%q told %q: %v", p.cmd.Args, p.lines.Text(), err)
	}
	return s
}

// lost returns how many events of an honest program are not in its logs.
func (s *testScene) lost(name string, said story) (events uint64) {
	s.t.Helper()
	for i := range honestChannels {
		channel := fmt.Sprintf("%s/c%d", name, i)
		ids := idsIn(s.t, filepath.Join(s.state, spanDirectory(0)), channel)
		var next uint64
		for _, id := range ids {
			if id < next || id >= said.Events {
				s.t.Fatalf("log of %s has event %d behind %d of %d", channel, id, next, said.Events)
			}
			next = id + 1
		}
		events += said.Events - uint64(len(ids))
	}
	return events
}

// beSteady runs an agent with the given number of descriptors until it is killed. "0" means the
// number that the system allows. The agent starts when the test tells it to.
func beSteady(rings, state, files string) {
	n, err := strconv.ParseUint(files, 10, 64)
	must(err)
	if n > 0 {
		must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n}))
	}
	fmt.Scanln()
	_, err = Start(Config{Node: "node-1", Rings: rings, State: state, Chrony: ChronyOff})
	must(err)
	fmt.Println("open")
	select {}
}

// startSteady starts an agent in a process with a given number of descriptors. When the process
// exists, but the agent in it has not started, startSteady calls the function prepare with the
// process's id.
func (s *testScene) startSteady(files int, prepare func(pid int)) *toldProcess {
	s.t.Helper()
	p := s.tell("steady", s.Rings, s.state, strconv.Itoa(files))
	prepare(p.cmd.Process.Pid)
	p.startRole()
	return p.open()
}

// percentile returns a percentile of latencies in any order, in milliseconds.
func percentile(latencies_us []int64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(latencies_us))
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(share*float64(len(sorted)-1))]) / 1e3
}
