package agent

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// These tests run programs and agents as processes of their own and kill them as the kernel does.

const roleVariable = "CLOUDPROFILER_AGENT_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "program":
		beProgram(os.Args[1], os.Args[2])
	case "agent":
		beAgent(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
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

// testimony is what a program leaves in a file about itself: how many calls of each writer have returned, and into which rings.
type testimony struct {
	returned [1 + sharedWriters]uint64 // of the channel of one writer, of the shared one
	ready    uint64
	paths    [2][256]byte
}

func mapTestimony(path string) (*testimony, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(testimony{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*testimony)(unsafe.Pointer(&b[0])), nil
}

func (t *testimony) incarnation(i int) string {
	part := strings.Split(filepath.Base(strings.TrimRight(string(t.paths[i][:]), "\x00")), ".")
	return part[len(part)-2]
}

// beProgram logs until it is killed.
func beProgram(rings, file string) {
	said, err := mapTestimony(file)
	must(err)
	one, err := handlers.Open("one/x", handlers.Options{Dir: rings, Policy: "drop", Buffer: "64KiB"})
	must(err)
	shared, err := handlers.OpenShared("shared/x", handlers.Options{Dir: rings, Handler: "id", Policy: "drop", Buffer: "128KiB"})
	must(err)
	copy(said.paths[0][:], one.Path())
	copy(said.paths[1][:], shared.Path())
	atomic.StoreUint64(&said.ready, 1)
	for i := range uint64(sharedWriters) {
		go burst(&said.returned[1+i], func(id uint64) { shared.Log(i<<48 | id) })
	}
	burst(&said.returned[0], one.Log)
}

// burst calls with consecutive ids for ever, a few thousand at a time, and says which have returned.
func burst(returned *uint64, call func(id uint64)) {
	rng := rand.New(rand.NewPCG(uint64(os.Getpid()), 0))
	for {
		for range rng.IntN(3000) {
			call(*returned)
			atomic.StoreUint64(returned, *returned+1)
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
	}
}

// beAgent drains until it is killed, at the latest by itself when it comes to a point for the n-th time, and opens and closes runs all the while. At
// the point "hang" it stops for ever instead, in the middle of writing.
func beAgent(rings, state, point, count string) {
	n, err := strconv.ParseInt(count, 10, 64)
	must(err)
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
		must(err)
	}
	select {}
}

// scene is a directory with programs and agents in it.
type scene struct {
	t            testing.TB
	rings, state string
	testimonies  []string
}

func newScene(t testing.TB) *scene {
	t.Helper()
	return &scene{t: t, rings: ringsIn(t), state: filepath.Join(t.TempDir(), "state")}
}

// ringsIn makes a directory of rings in shared memory, as programs have them.
func ringsIn(t testing.TB) string {
	t.Helper()
	rings, err := os.MkdirTemp("/dev/shm", "cloudprofiler-agent-test")
	if err != nil {
		rings = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(rings) })
	return rings
}

func (s *scene) start(role string, args ...string) *exec.Cmd {
	s.t.Helper()
	cmd, err := reexec.Command(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { kill(cmd) })
	return cmd
}

func (s *scene) startProgram() *exec.Cmd {
	file := filepath.Join(s.t.TempDir(), "testimony")
	s.testimonies = append(s.testimonies, file)
	return s.start("program", s.rings, file)
}

// waitForCalls returns when a call of the program that was started first has returned.
func (s *scene) waitForCalls() {
	s.t.Helper()
	said, err := mapTestimony(s.testimonies[0])
	if err != nil {
		s.t.Fatal(err)
	}
	waitFor(s.t, "a first call", func() bool { return atomic.LoadUint64(&said.returned[0]) > 0 })
}

func (s *scene) startAgent(point string, n int) *exec.Cmd {
	return s.start("agent", s.rings, s.state, point, strconv.Itoa(n))
}

func kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

func waitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// logsOf lists the segments of each ring, in their order, over all directories in which an agent keeps logs.
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

// end drains what is left, and returns how many records are in the logs and what is wrong with them.
func (s *scene) end() (records uint64, wrong []error) {
	s.t.Helper()
	a, err := Start(Config{Node: "node-1", Rings: s.rings, State: s.state, Chrony: ChronyOff})
	if err != nil {
		s.t.Fatal(err)
	}
	waitFor(s.t, "the rings to be gone", func() bool {
		files, _ := ring.Files(s.rings)
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
	for _, file := range s.testimonies {
		said, err := mapTestimony(file)
		if err != nil {
			s.t.Fatal(err)
		}
		if said.ready == 0 {
			continue // killed before it began
		}
		for i, check := range []func(*testimony, account) error{checkOne, checkShared} {
			k, err := read(logs[said.incarnation(i)])
			if err == nil {
				err = check(said, k)
			}
			if err != nil {
				wrong = append(wrong, fmt.Errorf("log of ring %s: %w", said.incarnation(i), err))
			}
			records += k.events
		}
	}
	return records, wrong
}

const blockers = 8

// beBlocker fills channels that block, and says how long it was held up in all, in milliseconds.
func beBlocker(rings, events string) {
	n, err := strconv.Atoi(events)
	must(err)
	var channels []*handlers.Channel
	for i := range blockers {
		c, err := handlers.Open(fmt.Sprintf("blocker#%d/x", i), handlers.Options{Dir: rings, Buffer: "4KiB"})
		must(err)
		channels = append(channels, c)
	}
	fmt.Println("open")
	fmt.Scanln() // until it is told
	begin := time.Now()
	for id := range uint64(n) {
		for _, c := range channels {
			c.Log(id)
		}
	}
	fmt.Println(time.Since(begin).Milliseconds())
}

// beAbandoner opens so many channels, logs once on each, and dies.
func beAbandoner(rings, count string) {
	n, err := strconv.Atoi(count)
	must(err)
	for i := range n {
		c, err := handlers.Open(fmt.Sprintf("abandoned#%d/p%d", i%1000, i/1000), handlers.Options{Dir: rings, Buffer: "256"})
		must(err)
		c.Log(uint64(i))
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
}
