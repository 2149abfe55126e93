package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// A job tells a process of the test what to do.
type job struct {
	Dir    string
	Server string // the server's address; empty: this process is the server
	Node   tscratio.Node
	Clocks []byte // a vnode.Config, encoded
	Watch  bool   // watch as cprof top does, and report each picture
}

const jobVariable = "CLOUDPROFILER_WATCH_JOB"

func TestMain(m *testing.M) {
	text := os.Getenv(jobVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	go endWithParent()
	var j job
	err := json.Unmarshal([]byte(text), &j)
	switch {
	case err != nil:
	case j.Server == "":
		err = j.serve()
	case j.Watch:
		err = j.watch()
	default:
		err = j.agent()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// endWithParent ends this process when the test's process ends, in whatever way. It waits for the
// end of its standard input, which is a pipe from the test's process. A death signal could come too
// early: the kernel sends it when the thread that started this process ends, and that thread may
// end long before the test's process does.
func endWithParent() {
	io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

const addressFile = "address"

func (j job) serve() error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	store, err := coordinator.OpenStore(filepath.Join(j.Dir, "state"), filepath.Join(j.Dir, "runs"))
	if err != nil {
		return err
	}
	link, err := control.Listen(control.ServerConfig{Address: "127.0.0.1:0", Log: log})
	if err != nil {
		return err
	}
	config := coordinator.DefaultConfig()
	config.Sweep.Quiet = coordinator.Quiet{} // other tests run at the same time
	s, err := coordinator.NewServer(link, config, store, log)
	if err != nil {
		return err
	}
	path := filepath.Join(j.Dir, addressFile)
	err = errors.Join(os.WriteFile(path+".new", []byte(link.Address()), 0o600),
		os.Rename(path+".new", path))
	if err != nil {
		return err
	}
	return s.Run(context.Background())
}

func (j job) agent() error {
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		return err
	}
	clocks, err := vnode.ParseConfig(j.Clocks)
	if err != nil {
		return err
	}
	system := minrtt.SystemClock(asm.Counter, notice, func() (uint32, error) { return 1, nil })
	clock, err := virtual.Clock(clocks, system)
	if err != nil {
		return err
	}
	config := tscclient.DefaultConfig()
	config.Node, config.Clock = j.Node, clock
	config.Listen = netip.MustParseAddrPort("127.0.0.1:0")
	config.Secret = minrtt.NewSecret()
	client, err := tscclient.Start(config)
	if err != nil {
		return err
	}
	agent.LimitMemory()
	_, err = agent.Start(agent.Config{
		Node: j.Node.Name, Rings: filepath.Join(j.Dir, "rings"),
		State: filepath.Join(j.Dir, "state"), Chrony: agent.ChronyOff, Client: client,
		Server: &tscclient.LinkConfig{
			Server:   control.ClientConfig{Server: j.Server},
			Register: control.Register{Machine: j.Node.Name, Cores: 2, Software: "test"},
		},
		Notify: func(err error) { fmt.Fprintln(os.Stderr, err) },
	})
	if err != nil {
		return err
	}
	select {}
}

// toldPicture is the report of a watching process about one picture.
type toldPicture struct {
	Age_ns int64 // age of the picture when the next one was ready
	Spans  int
	Tuples int
	OneIn  uint64
	Notes  []string
}

// watch does what cprof top does, and reports each picture on its standard output.
func (j job) watch() error {
	link, err := control.Dial(control.ClientConfig{Server: j.Server})
	if err != nil {
		return err
	}
	v, to := New(5*time.Second), json.NewEncoder(os.Stdout)
	ticker := time.NewTicker(askEvery)
	var shown *Picture
	var since time.Time
	for ; ; <-ticker.C {
		asked := time.Now()
		var a coordinator.WatchAnswer
		err := link.Ask(context.Background(), coordinator.AskWatch, v.Request(asked), &a)
		if err != nil {
			return err
		}
		now := time.Now()
		v.Add(asked, now, &a)
		next := v.Picture(now)
		if shown != nil && shown.Age_ns >= 0 {
			err = to.Encode(toldPicture{shown.Age_ns + int64(time.Since(since)), len(shown.Spans),
				shown.Tuples, shown.OneIn, shown.Notes})
			if err != nil {
				return err
			}
		}
		shown, since = next, now
	}
}

// askEvery is how often cprof top asks.
const askEvery = 200 * time.Millisecond

// fleet is a server and the agents of virtual nodes. Each runs in its own process.
type fleet struct {
	t       *testing.T
	address string
	server  *exec.Cmd
	link    *control.Client
	members []*member
}

type member struct {
	name    string
	rings   string
	process *exec.Cmd
	truth   *vnode.Truth
	counter *vnode.Counter
}

func newFleet(t *testing.T, config func(name string, now virtual.Physical) vnode.Config,
	names ...string) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "watch-test-")
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t}
	t.Cleanup(func() {
		f.end()
		os.RemoveAll(dir)
	})
	f.server = f.start(job{Dir: filepath.Join(dir, "server")})
	f.until("the server listens", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "server", addressFile))
		f.address = string(text)
		return err == nil
	})
	id, err := tscclient.Identify("parent", tscclient.Kept{})
	if err != nil {
		t.Fatal(err)
	}
	id.Close()
	physical := virtual.Physical{
		Counter: asm.Counter(), Realtime_ns: time.Now().UnixNano(), Hz: id.Node.Nominal_hz,
	}
	for _, name := range names {
		clocks := config(name, physical)
		encoded, err := clocks.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m := &member{name: name, rings: filepath.Join(dir, name, "rings")}
		if m.truth, err = vnode.NewTruth(clocks.Counter); err != nil {
			t.Fatal(err)
		}
		if m.counter, err = vnode.NewCounter(clocks.Counter); err != nil {
			t.Fatal(err)
		}
		node := id.Node
		node.Name, node.Epoch = name, "virtual-1"
		node.Quantum_cycles = virtual.Quantum_cycles(clocks.Counter, id.Node.Quantum_cycles)
		// The virtual counter may run a little faster than this machine's.
		node.CoreSlack_cycles += node.CoreSlack_cycles/50 + 2
		m.process = f.start(job{
			Dir: filepath.Join(dir, name), Server: f.address, Node: node, Clocks: encoded,
		})
		f.members = append(f.members, m)
	}
	if f.link, err = control.Dial(control.ClientConfig{Server: f.address}); err != nil {
		t.Fatal(err)
	}
	f.until("all nodes are registered", func() bool {
		var names []string
		f.ask(coordinator.AskRegistered, nil, &names)
		return len(names) == len(f.members)
	})
	return f
}

func (f *fleet) start(j job) *exec.Cmd { return f.startTo(j, nil) }

// startTo starts a process of the test. The process's standard output goes to the writer out.
func (f *fleet) startTo(j job, out io.Writer) *exec.Cmd {
	f.t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		f.t.Fatal(err)
	}
	cmd, err := reexec.Command("-test.run=^$")
	if err == nil {
		err = os.MkdirAll(j.Dir, 0o700)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Env, cmd.Stdout = append(os.Environ(), jobVariable+"="+string(text)), out
	cmd.Stderr = &said
	if _, err := cmd.StdinPipe(); err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if f.t.Failed() {
			f.t.Logf("%s: %.3000s", j.Node.Name, said.String())
		}
	})
	return cmd
}

func (f *fleet) end() {
	if f.link != nil {
		f.link.Close()
	}
}

func (f *fleet) ask(what string, argument, result any) {
	f.t.Helper()
	if err := f.link.Ask(f.t.Context(), what, argument, result); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) until(what string, holds func() bool) {
	f.t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("after three minutes it does not hold that %s", what)
		}
	}
}

// open opens a run on all nodes.
func (f *fleet) open(name string) {
	f.t.Helper()
	f.ask(coordinator.AskStartRun, coordinator.RunRequest{Name: name, Reference: f.members[0].name},
		nil)
	f.until("the run is open", func() bool {
		var s coordinator.RunStatus
		f.ask(coordinator.AskRun, nil, &s)
		return s.Phase == coordinator.PhaseOpen
	})
}

// watch asks the server and makes a picture every period, until the function show returns false.
func (f *fleet) watch(v *View, show func(*Picture) bool) {
	f.t.Helper()
	for {
		var a coordinator.WatchAnswer
		asked := time.Now()
		f.ask(coordinator.AskWatch, v.Request(asked), &a)
		now := time.Now()
		v.Add(asked, now, &a)
		if !show(v.Picture(time.Now())) {
			return
		}
		time.Sleep(time.Until(asked.Add(askEvery)))
	}
}

// processorTime returns the processor time that a process has taken.
func processorTime(t *testing.T, cmd *exec.Cmd) time.Duration {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", cmd.Process.Pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("process %d: %v", cmd.Process.Pid, err)
	}
	sum := time.Duration(0)
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		ns, err := strconv.ParseInt(string(bytes.Fields(text)[0]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}
