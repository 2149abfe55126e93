package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/memory"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// ServerOptions say what a server has to do.
type ServerOptions struct {
	Nodes  int
	Degree int
	For    time.Duration // how long the server is watched without a run, and again in an open run
	Joins  int           // nodes that join one after the other while the run is open
	Seed   uint64

	// Slower makes the time of the fleet pass more slowly than that of the machine, so that a
	// machine can carry a server and all nodes: each period is Slower times as long. 0 means 1.
	Slower int

	// Command returns a command that starts this program again. The started program calls Serve.
	Command  func() (*exec.Cmd, error)
	Progress func(step string)
}

// ServerResult is what a server cost.
type ServerResult struct {
	Slower    int           // as in the options
	Beats     float64       // share of the pings that nodes had to send in the run and did send
	IdleCores float64       // cores that it used while no run was open; the nodes were swept
	RunCores  float64       // cores that it used while a run was open
	Private   int64         // its largest private memory, in bytes
	Joins     time.Duration // the longest time from a node's first message until it can measure
	Evaluated time.Duration // until the first question about a pair was answered
	All       time.Duration // until a question about all nodes was answered: the longest of several
	Pair      time.Duration // from a question about a random pair until its answer: the median
	Pair99    time.Duration // the same: 99 of 100 answers take less
	Asked     time.Duration // the same for questions that the server refuses at once: the median
	Asked99   time.Duration // and 99 of 100
	Unrelated int           // such questions without a bound
	Trains    int           // trains of the run
	RunEnds   time.Duration // from the order to stop the run until it was complete
}

// MaxServed is the largest number of nodes that Watch can simulate.
const MaxServed = 20_000

// Watch starts a server in a process of its own, connects simulated nodes to it over real,
// encrypted connections, and says what that costs the server.
func Watch(ctx context.Context, o ServerOptions) (r ServerResult, err error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	o.Slower = max(o.Slower, 1)
	r.Slower = o.Slower
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "cprof-fleet-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	w := &watchedServer{o: o, dir: dir, r: rand.New(rand.NewPCG(o.Seed, 1)), began: time.Now()}
	o.Progress("making keys")
	if err := w.makeKeys(); err != nil {
		return r, err
	}
	if err := w.start(ctx); err != nil {
		return r, err
	}
	defer w.stop()
	peak, err := w.watch(ctx, &r)
	r.Private = peak
	return r, err
}

// watchedServer is a server in another process, together with the simulated nodes that it serves.
type watchedServer struct {
	o       ServerOptions
	dir     string
	r       *rand.Rand
	began   time.Time
	keys    map[string]control.Key
	cmd     *exec.Cmd
	end     io.Closer
	address string
	asker   *control.Client
	members sync.Map // by name: *member
	beats   atomic.Int64
	ended   sync.WaitGroup
}

const adminName, serverName = "admin", "server"

func (w *watchedServer) nodeName(i int) string { return fmt.Sprintf("n%05d", i) }

func (w *watchedServer) makeKeys() error {
	w.keys = map[string]control.Key{}
	clients := filepath.Join(w.dir, "clients")
	if err := os.MkdirAll(clients, 0o700); err != nil {
		return err
	}
	roles := map[string]control.Role{adminName: control.RoleAdmin, serverName: control.RoleServer}
	for i := range w.o.Nodes + w.o.Joins {
		roles[w.nodeName(i)] = control.RoleNode
	}
	for name, role := range roles {
		k, err := control.NewKey(name, role)
		if err != nil {
			return err
		}
		w.keys[name] = k
		if role != control.RoleServer {
			err = k.Halved().Write(filepath.Join(clients, name+".public"))
		} else {
			err = k.Write(filepath.Join(w.dir, "server.secret"))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// start starts the server and connects to it.
func (w *watchedServer) start(ctx context.Context) (err error) {
	if w.cmd, err = w.o.Command(); err != nil {
		return err
	}
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	w.end, w.cmd.Stderr = in, os.Stderr
	if err := w.cmd.Start(); err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { in.Close() })
	err = json.NewEncoder(in).Encode(order{w.dir, w.o.Slower})
	if err == nil {
		err = json.NewDecoder(out).Decode(&w.address)
	}
	if err == nil {
		w.asker, err = w.dial(adminName)
	}
	if err != nil {
		w.stop()
		return fmt.Errorf("start the server of a fleet: %w", err)
	}
	return nil
}

func (w *watchedServer) dial(name string) (*control.Client, error) {
	key := w.keys[name]
	return control.Dial(control.ClientConfig{
		Server: w.address, Key: &key, Public: w.keys[serverName].Public})
}

func (w *watchedServer) stop() {
	if w.asker != nil {
		w.asker.Close()
	}
	w.members.Range(func(_, m any) bool { m.(*simulatedMember).close(); return true })
	w.end.Close()
	kill := time.AfterFunc(20*time.Second, func() { w.cmd.Process.Kill() })
	w.cmd.Wait()
	kill.Stop()
	w.ended.Wait()
}

// order is what the server's process is told.
type order struct {
	Directory string
	Slower    int
}

// config returns the server's configuration, with periods that are Slower times as long.
func (o order) config() coordinator.Config {
	c := coordinator.DefaultConfig()
	for _, d := range []*time.Duration{&c.Heartbeat, &c.Dead, &c.SweepEvery, &c.Settle,
		&c.AnswerLimit, &c.Return, &c.FlushEvery} {
		*d *= time.Duration(o.Slower)
	}
	return c
}

// Serve is the server of Watch. It serves until its input ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	debug.SetGCPercent(coordinator.GCPercent) // as tsc-server does
	var o order
	orders := json.NewDecoder(in)
	if err := orders.Decode(&o); err != nil {
		return err
	}
	dir := o.Directory
	key, err := control.ReadKey(filepath.Join(dir, "server.secret"))
	if err != nil {
		return err
	}
	store, err := coordinator.OpenStore(filepath.Join(dir, "state"), filepath.Join(dir, "runs"))
	if err != nil {
		return err
	}
	defer store.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	link, err := control.Listen(control.ServerConfig{Address: "127.0.0.1:0", Key: &key,
		Clients: control.ClientKeys(filepath.Join(dir, "clients")), Log: log})
	if err != nil {
		return err
	}
	defer link.Close()
	server, err := coordinator.NewServer(link, o.config(), store, log)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(link.Address()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		var nothing bool
		orders.Decode(&nothing) // until the input ends
		cancel()
	}()
	return server.Run(ctx)
}

// The method watch lets nodes join, waits for their first sweep, and notes what the server uses.
func (w *watchedServer) watch(ctx context.Context, r *ServerResult) (peak int64, err error) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var watcher sync.WaitGroup
	watcher.Go(func() { peak, _ = memory.Peak_bytes(watching, w.cmd.Process.Pid) })
	defer watcher.Wait()
	defer stop()
	w.o.Progress(fmt.Sprintf("%d nodes register", w.o.Nodes))
	if err := w.joinAll(ctx); err != nil {
		return 0, err
	}
	w.o.Progress("the first sweep")
	if err := w.until(ctx, "the first sweep to end", func() (bool, error) {
		var s *coordinator.SweepStatus
		err := w.asker.Ask(ctx, coordinator.AskSweepStatus, nil, &s)
		return s != nil && !s.Running && s.Nodes >= w.o.Nodes*9/10, err
	}); err != nil {
		return 0, err
	}
	w.o.Progress("no run is open")
	if r.IdleCores, err = w.cores(ctx, func() error { return pause(ctx, w.o.For) }); err != nil {
		return 0, err
	}
	w.o.Progress("a run begins")
	if err := w.startRun(ctx); err != nil {
		return 0, err
	}
	w.o.Progress("a run is open")
	beats, from := w.beats.Load(), w.now()
	if r.RunCores, err = w.cores(ctx, func() error {
		for i := range w.o.Joins {
			took, err := w.join(ctx, w.o.Nodes+i)
			if err != nil {
				return err
			}
			r.Joins = max(r.Joins, took)
			if err := pause(ctx, w.o.For/time.Duration(2*w.o.Joins)); err != nil {
				return err
			}
		}
		return pause(ctx, w.o.For/2)
	}); err != nil {
		return 0, err
	}
	due := (w.now() - from).Seconds() * float64(w.o.Nodes) // each node has one in a second
	r.Beats = float64(w.beats.Load()-beats) / due
	w.o.Progress("random pairs are asked for")
	if err := w.askPairs(ctx, r); err != nil {
		return 0, err
	}
	w.o.Progress("the run ends")
	began := time.Now()
	status, err := w.stopRun(ctx)
	if err != nil {
		return 0, err
	}
	r.RunEnds, r.Trains = time.Since(began), status.Trains
	stop()
	watcher.Wait()
	return peak, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The method until waits until the function done returns true.
func (w *watchedServer) until(ctx context.Context, what string, done func() (bool, error)) error {
	limit := 5 * time.Minute * time.Duration(w.o.Slower)
	for began := time.Now(); time.Since(began) < limit; {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("wait for %s: it took more than %v", what, limit)
}

func (w *watchedServer) startRun(ctx context.Context) error {
	var s *coordinator.RunStatus
	request := coordinator.RunRequest{Name: "fleet"}
	if err := w.asker.Ask(ctx, coordinator.AskStartRun, request, &s); err != nil {
		return err
	}
	return w.until(ctx, "the run to be open", func() (bool, error) {
		err := w.asker.Ask(ctx, coordinator.AskRun, nil, &s)
		return s != nil && s.Phase == coordinator.PhaseOpen, err
	})
}

func (w *watchedServer) stopRun(ctx context.Context) (s *coordinator.RunStatus, err error) {
	if err := w.asker.Ask(ctx, coordinator.AskStopRun, nil, &s); err != nil {
		return nil, err
	}
	return s, w.until(ctx, "the run to be complete", func() (bool, error) {
		err := w.asker.Ask(ctx, coordinator.AskRun, nil, &s)
		return s != nil && s.Phase == coordinator.PhaseComplete, err
	})
}

// cores returns how many cores the server used on average during work.
func (w *watchedServer) cores(ctx context.Context, work func() error) (float64, error) {
	before, err := cpuOf(w.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := work(); err != nil {
		return 0, err
	}
	after, err := cpuOf(w.cmd.Process.Pid)
	return (after - before).Seconds() / time.Since(began).Seconds() * float64(w.o.Slower), err
}

// cpuOf returns the CPU time that a process used so far.
func cpuOf(pid int) (time.Duration, error) {
	text, err := plainfile.Read(fmt.Sprintf("/proc/%d/stat", pid), 4096)
	if err != nil {
		return 0, err
	}
	// The second field is a name in parentheses, which may contain spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system = 11, 12 // their places after the name
	if len(fields) <= system {
		return 0, fmt.Errorf("read the CPU time of process %d: %q", pid, text)
	}
	ticks := 0
	for _, i := range []int{user, system} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const tick = time.Second / 100 // USER_HZ
	return time.Duration(ticks) * tick, nil
}

// joinAll lets all nodes join, a few dozen at the same time.
func (w *watchedServer) joinAll(ctx context.Context) error {
	var joining sync.WaitGroup
	var mu sync.Mutex
	var failed error
	room := make(chan struct{}, 50)
	for i := range w.o.Nodes {
		room <- struct{}{}
		joining.Go(func() {
			_, err := w.join(ctx, i)
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
			<-room
		})
	}
	joining.Wait()
	if failed != nil {
		return failed
	}
	return w.until(ctx, "all nodes to be registered", func() (bool, error) {
		var names []string
		err := w.asker.Ask(ctx, coordinator.AskRegistered, nil, &names)
		return len(names) == w.o.Nodes, err
	})
}

// neighboursOf returns the nodes that a node measures. In the list of nodes, they are at random
// distances from the node. The distances are the same for every node, so each node is measured by
// as many nodes as it measures.
func (w *watchedServer) neighboursOf(i int) (names []string) {
	r := rand.New(rand.NewPCG(w.o.Seed, 2))
	var steps []int
	for len(steps) < w.o.Degree {
		if step := 1 + r.IntN(w.o.Nodes-1); !slices.Contains(steps, step) {
			steps = append(steps, step)
			names = append(names, w.nodeName((i+step)%w.o.Nodes))
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return n == w.nodeName(i) })
}
