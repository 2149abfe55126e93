package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// These tests run programs and agents in processes of their own, and kill the processes with
// SIGKILL.

const roleVariable = "CLOUDPROFILER_AGENT_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(leak.Main(m))
	case "program":
		beProgram(os.Args[1], os.Args[2])
	case "agent":
		beAgent(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	case "steady":
		beSteady(os.Args[1], os.Args[2], os.Args[3])
	case "honest":
		beHonest(os.Args[1], os.Args[2])
	case "crowd":
		beCrowd(os.Args[1], os.Args[2], os.Args[3])
	case "hostile":
		beHostile(os.Args[1], os.Args[2], os.Args[3])
	case "blocker":
		beBlocker(os.Args[1], os.Args[2])
	case "abandoner":
		beAbandoner(os.Args[1], os.Args[2])
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const sharedWriters = 2

// beProgram logs until it is killed. It reports in a file what each of its writers logged. Writer 0
// logs on the channel one/x, and all others log on shared/x.
func beProgram(rings, file string) {
	said, err := testimony.Open(file)
	must(err)
	one, err := handlers.Open("one/x", handlers.Options{
		Dir: rings, Policy: "drop", Buffer: "64KiB",
	})
	must(err)
	shared, err := handlers.OpenShared("shared/x", handlers.Options{
		Dir: rings, Handler: "id", Policy: "drop", Buffer: "128KiB",
	})
	must(err)
	said.Begin(one.Path(), shared.Path())
	for i := range sharedWriters {
		go said.Burst(1+i, func(id uint64) { shared.Log(uint64(i)<<48 | id) })
	}
	said.Burst(0, one.Log)
}

// beAgent runs an agent until it is killed. The agent opens and closes runs all the time. When it
// reaches the given fault point for the n-th time, it kills itself. If the point is "hang", the
// agent opens no runs and stops forever in the middle of writing.
func beAgent(rings, state, point, count string) {
	n, err := strconv.ParseInt(count, 10, 64)
	must(err)
	testimony.MeetFullDisks()
	c := Config{Node: "node-1", Rings: rings, State: state, Chrony: ChronyOff}
	var left atomic.Int64
	left.Store(n)
	switch point {
	case "":
	case "hang":
		c.Fault = func(p drain.FaultPoint) {
			if p == drain.BeforeWrite {
				select {}
			}
		}
	default:
		c.Fault = func(p drain.FaultPoint) {
			if string(p) == point && left.Add(-1) == 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
	}
	a, err := Start(c)
	must(err)
	fmt.Println("draining")
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	for i := 0; point != "hang"; i++ {
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if open := a.run(); open != "" {
			_, err = a.CloseRun(open)
		} else {
			_, err = a.OpenRun(fmt.Sprintf("run-%d-%d", os.Getpid(), i))
		}
		if !errors.Is(err, testimony.ErrDiskFull) {
			must(err)
		}
	}
	select {}
}

// testScene is a directory of rings, with the programs and agents that use it.
type testScene struct {
	*testimony.Stage
	t     testing.TB
	state string
}

func newScene(t testing.TB) *testScene {
	t.Helper()
	return &testScene{
		Stage: testimony.NewStage(t, roleVariable), t: t,
		state: filepath.Join(t.TempDir(), "state"),
	}
}

func (s *testScene) startAgent(point string, n int) *exec.Cmd {
	return s.Start("agent", s.Rings, s.state, point, strconv.Itoa(n))
}

// logsOf lists the segments of each ring, in order, from all directories in which an agent keeps
// logs.
func logsOf(t testing.TB, state string) map[string][]logstore.Segment {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(state, "runs", "*", "logs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]logstore.Segment{}
	spans, err := filepath.Glob(filepath.Join(state, "logs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(dirs, spans...) {
		segments, err := logstore.Segments(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range segments {
			id := fmt.Sprintf("%x", s.Incarnation)
			all[id] = append(all[id], s)
		}
	}
	for _, segments := range all {
		slices.SortFunc(segments, func(a, b logstore.Segment) int { return a.Number - b.Number })
	}
	return all
}

// end drains what the programs have left. It returns how many records are in the logs, and an error
// for each wrong log.
func (s *testScene) end() (records uint64, wrong []error) {
	s.t.Helper()
	a, err := Start(Config{Node: "node-1", Rings: s.Rings, State: s.state, Chrony: ChronyOff})
	if err != nil {
		s.t.Fatal(err)
	}
	testimony.WaitFor(s.t, "the rings to be gone", func() bool {
		files, _ := ring.Files(s.Rings)
		return len(files) == 0
	})
	status := a.Status()
	if err := a.Close(); err != nil {
		s.t.Fatal(err)
	}
	if status.Total.Missing+status.Total.Unread+status.Total.NotStored > 0 {
		wrong = append(wrong, fmt.Errorf("%+v", status.Total))
	}
	logs := logsOf(s.t, s.state)
	s.Each(func(said *testimony.Testimony) {
		for i, check := range []func(*testimony.Testimony, logContent) error{checkOne,
			checkShared} {
			k, err := read(logs[said.Incarnation(i)])
			if err == nil {
				err = check(said, k)
			}
			if err != nil {
				err = fmt.Errorf("log of ring %s: %w: %q", said.Incarnation(i), err,
					paths(logs[said.Incarnation(i)]))
				wrong = append(wrong, err)
			}
			records += k.events
		}
	})
	return records, wrong
}

func paths(segments []logstore.Segment) (all []string) {
	for _, s := range segments {
		all = append(all, s.Path)
	}
	return all
}

const blockers = 8

// beBlocker fills channels with policy block. It prints how many calls took a second or more.
func beBlocker(rings, events string) {
	n, err := strconv.Atoi(events)
	must(err)
	var channels []*handlers.Channel
	for i := range blockers {
		c, err := handlers.Open(fmt.Sprintf("blocker#%d/x", i), handlers.Options{
			Dir: rings, Buffer: "4KiB",
		})
		must(err)
		channels = append(channels, c)
	}
	fmt.Println("open")
	fmt.Scanln() // wait until the test tells this program to begin
	waits := 0
	for id := range uint64(n) {
		for _, c := range channels {
			begin := time.Now()
			if c.Log(id); time.Since(begin) >= time.Second {
				waits++
			}
		}
	}
	fmt.Println(waits)
}

// beAbandoner opens a given number of channels, logs once on each, and kills itself.
func beAbandoner(rings, count string) {
	n, err := strconv.Atoi(count)
	must(err)
	for i := range n {
		c, err := handlers.Open(fmt.Sprintf("abandoned#%d/p%d", i%1000, i/1000), handlers.Options{
			Dir: rings, Buffer: "256",
		})
		must(err)
		c.Log(uint64(i))
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
}
