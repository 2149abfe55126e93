package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// MaxSweepClients is the largest number of clients of a sweep.
const MaxSweepClients = 500

// SweepOptions say how large a fleet is, and what is measured.
type SweepOptions struct {
	Clients   int
	Exchanges int // exchanges of a pair, each way
	Width     int // pairs that are measured at once; 0: the server's choice, for quality
	Trains    int // number of trains that share the exchanges; 0: one

	// Alone is the number of other pairs that are measured one at a time, for a comparison with the
	// fleet.
	Alone int

	// Command returns a command that starts this program again. The started program calls
	// SweepServer or SweepClients, depending on job.
	Command func(job string) (*exec.Cmd, error)

	// Progress is called with the current step, and may be nil.
	Progress func(step string)
}

// These are the jobs of SweepOptions.Command.
const (
	SweepServerJob  = "server"
	SweepClientsJob = "clients"
)

// SweepResult is what a sweep cost.
type SweepResult struct {
	Clients       int
	Exchanges     int
	Pairs         int // pairs that are complete in both directions
	Lost          []coordinator.LostPair
	Seconds       float64 // from the first registration to the last pair
	SweepSeconds  float64 // the part of Seconds that the sweep took
	ServerPrivate int64   // largest private memory of the server that was seen, in bytes
	Median_ns     float64 // median half-width of a pair, from this sweep alone
	Alone_ns      float64 // half-width of a pair that was measured alone; 0: none was
	KernelStamps  float64 // share of the stamps that are the kernel's, in percent
}

// clientsPerProcess is the number of clients that share a process. It is small, so that clients are
// scheduled like processes. With one client in each, a hundred clients would need too many
// processes.
const clientsPerProcess = 25

// Sweep measures a sweep over clients on this machine's loopback interface. The server has a
// process of its own, and the clients share a few processes.
func Sweep(ctx context.Context, o SweepOptions) (r SweepResult, err error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir, err := os.MkdirTemp("", "cprof-sweep-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	o.Progress("starting the server")
	server, link, address, err := startSweepServer(ctx, o.Command, dir)
	if err != nil {
		return r, err
	}
	defer server.stop()
	defer link.Close()
	fleet, alone := names("c", o.Clients), names("alone", 2*o.Alone)
	workers, err := startClients(ctx, o, address, slices.Concat(fleet, alone))
	for _, w := range workers {
		defer w.stop()
	}
	if err != nil {
		return r, err
	}
	o.Progress("registering")
	began := time.Now()
	if err := registerClients(ctx, link, workers, len(fleet)+len(alone)); err != nil {
		return r, err
	}
	peak := watchMemory(ctx, server.cmd.Process.Pid)
	defer peak()
	if r, err = sweepFleet(ctx, link, o, fleet, began); err != nil {
		return r, err
	}
	if err := sweepAlone(ctx, link, o, alone); err != nil {
		return r, err
	}
	o.Progress("evaluating")
	if err := r.evaluate(ctx, link); err != nil {
		return r, err
	}
	r.ServerPrivate, err = peak()
	return r, err
}

func names(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%03d", prefix, i))
	}
	return all
}

// startSweepServer starts the server, and connects to it. The caller must stop the server and close
// the link.
func startSweepServer(ctx context.Context, command func(job string) (*exec.Cmd, error),
	dir string) (server *worker, link *control.Client, address string, err error) {
	if server, err = startWorker(ctx, command, SweepServerJob, sweepServer{Dir: dir}); err != nil {
		return nil, nil, "", err
	}
	if err = server.out.Decode(&address); err != nil {
		err = fmt.Errorf("server of the sweep: %w", err)
	} else {
		link, err = control.Dial(control.ClientConfig{Server: address})
	}
	if err != nil {
		server.stop()
	}
	return server, link, address, err
}

// request asks for a sweep over nodes.
func (o *SweepOptions) request(nodes []string) coordinator.SweepRequest {
	trains := max(o.Trains, 1)
	return coordinator.SweepRequest{Trains: trains,
		Exchanges: (o.Exchanges + trains - 1) / trains, NoQuiet: o.Width > 0, Nodes: nodes}
}

// sweepFleet sweeps over all pairs of the fleet.
func sweepFleet(ctx context.Context, link *control.Client, o SweepOptions, fleet []string,
	began time.Time) (r SweepResult, err error) {
	request := o.request(fleet)
	request.Width = o.Width
	status, err := sweepOver(ctx, link, request, 5*time.Millisecond, o.Progress)
	if err != nil {
		return r, err
	}
	return SweepResult{
		Clients: o.Clients, Exchanges: o.Exchanges, Pairs: status.Complete, Lost: status.Lost,
		Seconds: time.Since(began).Seconds(), SweepSeconds: float64(status.Took_ns) / 1e9,
	}, nil
}

// sweepAlone sweeps over pairs of nodes, one pair after the other.
func sweepAlone(ctx context.Context, link *control.Client, o SweepOptions, nodes []string) error {
	for i := range o.Alone {
		o.Progress(fmt.Sprintf("pair %d of %d, alone", i+1, o.Alone))
		_, err := sweepOver(ctx, link, o.request(nodes[2*i:2*i+2]), 5*time.Millisecond,
			func(string) {})
		if err != nil {
			return err
		}
	}
	return nil
}

// startClients starts processes with clients of the given names, and waits until each has examined
// the machine. This examination is not part of a sweep. The caller must stop the returned workers
// even after an error.
func startClients(ctx context.Context, o SweepOptions, server string, names []string) (
	workers []*worker, err error) {
	o.Progress("starting the clients")
	for some := range slices.Chunk(names, clientsPerProcess) {
		w, err := startWorker(ctx, o.Command, SweepClientsJob,
			sweepClients{Server: server, Names: some})
		if err != nil {
			return workers, err
		}
		workers = append(workers, w)
	}
	for _, w := range workers {
		var ready bool
		if err := w.out.Decode(&ready); err != nil {
			return workers, fmt.Errorf("clients of the sweep: %w", err)
		}
	}
	return workers, nil
}

// registerClients tells the workers to register their clients, and waits until the server knows
// all.
func registerClients(ctx context.Context, link *control.Client, workers []*worker,
	clients int) error {
	began := time.Now()
	for _, w := range workers {
		if err := w.in.Encode(true); err != nil {
			return err
		}
	}
	for {
		var there []string
		if err := askServer(ctx, link, coordinator.AskRegistered, nil, &there); err != nil {
			return err
		}
		if len(there) == clients {
			return nil
		}
		if time.Since(began) > time.Minute {
			return fmt.Errorf("only %d of %d clients have registered within a minute",
				len(there), clients)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// evaluate adds what the server knows about the pairs after the sweeps.
func (r *SweepResult) evaluate(ctx context.Context, link *control.Client) error {
	var m coordinator.Matrix
	if err := askServer(ctx, link, coordinator.AskNodes, nil, &m); err != nil {
		return err
	}
	var together, apart []float64
	kernel := 0.0
	for _, p := range m.Pairs {
		if p.Hi_cycles == 0 {
			continue
		}
		kernel += p.Kernel_percent
		if strings.HasPrefix(p.From, "alone") {
			apart = append(apart, p.Direct_ns)
		} else {
			together = append(together, p.Direct_ns)
		}
	}
	r.Median_ns, r.Alone_ns = median(together), median(apart)
	if pairs := len(together) + len(apart); pairs > 0 {
		r.KernelStamps = kernel / float64(pairs)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func askServer(ctx context.Context, link *control.Client, what string, argument, result any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return link.Ask(ctx, what, argument, result)
}

func sweepOver(ctx context.Context, link *control.Client, r coordinator.SweepRequest,
	every time.Duration, progress func(string)) (s *coordinator.SweepStatus, err error) {
	if err := askServer(ctx, link, coordinator.AskSweep, r, &s); err != nil {
		return nil, err
	}
	number := s.Number
	for s.Running {
		if err := pause(ctx, every); err != nil {
			return nil, err
		}
		if err := askServer(ctx, link, coordinator.AskSweepStatus, nil, &s); err != nil {
			return nil, err
		}
		if s.Number != number {
			return nil, errors.New("another sweep is under way")
		}
		progress(fmt.Sprintf("%d of %d pairs", s.Complete, s.Pairs))
		every = min(every*2, 100*time.Millisecond)
	}
	return s, nil
}

// worker is this program in another process, which does a job until its input ends.
type worker struct {
	cmd *exec.Cmd
	in  *json.Encoder
	out *json.Decoder
	end io.Closer
}

func startWorker(ctx context.Context,
	command func(string) (*exec.Cmd, error), job string, setup any) (*worker, error) {
	cmd, err := command(job)
	if err != nil {
		return nil, err
	}
	in, out, err := startPiped(cmd)
	if err != nil {
		return nil, err
	}
	w := &worker{cmd, json.NewEncoder(in), json.NewDecoder(out), in}
	context.AfterFunc(ctx, func() { in.Close() })
	if err := w.in.Encode(setup); err != nil {
		w.stop()
		return nil, err
	}
	return w, nil
}

// startPiped starts a command, and returns its input and its output. What it writes to standard
// error goes to this process's standard error.
func startPiped(cmd *exec.Cmd) (in io.WriteCloser, out io.Reader, err error) {
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, err
	}
	cmd.Stderr = os.Stderr
	return in, out, cmd.Start()
}

// stop ends the worker, by force if necessary.
func (w *worker) stop() {
	w.end.Close()
	kill := time.AfterFunc(10*time.Second, func() { w.cmd.Process.Kill() })
	w.cmd.Wait()
	kill.Stop()
}

type sweepServer struct{ Dir string }

// SweepServer runs the server of a sweep until its input ends.
func SweepServer(ctx context.Context, in io.Reader, out io.Writer) error {
	var setup sweepServer
	orders := json.NewDecoder(in)
	if err := orders.Decode(&setup); err != nil {
		return err
	}
	store, err := coordinator.OpenStore(filepath.Join(setup.Dir, "state"),
		filepath.Join(setup.Dir, "runs"))
	if err != nil {
		return err
	}
	defer store.Close()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	link, err := control.Listen(control.ServerConfig{Address: "127.0.0.1:0", Log: log})
	if err != nil {
		return err
	}
	defer link.Close()
	config := coordinator.DefaultConfig()
	config.AllPairs = MaxSweepClients               // measure all pairs, without a graph
	config.SweepEvery, config.Settle = 0, time.Hour // sweep only when asked
	config.Dead = 30 * time.Second                  // the machine is overcommitted on purpose
	server, err := coordinator.NewServer(link, config, store, log)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(link.Address()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		var nothing bool
		orders.Decode(&nothing) // until the input ends
		cancel()
	}()
	return server.Run(ctx)
}

type sweepClients struct {
	Server string
	Names  []string
}

// SweepClients runs some clients of a sweep in one process, until its input ends.
func SweepClients(_ context.Context, in io.Reader, out io.Writer) error {
	var setup sweepClients
	orders := json.NewDecoder(in)
	if err := orders.Decode(&setup); err != nil {
		return err
	}
	id, err := tscclient.Identify(setup.Names[0], tscclient.Kept{})
	if err != nil {
		return err
	}
	defer id.Close()
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		return err
	}
	defer notice.Close()
	if err := json.NewEncoder(out).Encode(true); err != nil {
		return err
	}
	var begin bool
	if err := orders.Decode(&begin); err != nil {
		return err
	}
	var mu sync.Mutex
	var started []io.Closer
	var starting sync.WaitGroup
	var failed error
	for _, name := range setup.Names {
		starting.Go(func() {
			closers, err := startSweepClient(id, notice, setup.Server, name)
			mu.Lock()
			defer mu.Unlock()
			started = append(started, closers...)
			failed = errors.Join(failed, err)
		})
	}
	starting.Wait()
	if failed == nil {
		orders.Decode(&begin) // until the input ends
	}
	var closing sync.WaitGroup
	for _, c := range started {
		closing.Go(func() { c.Close() })
	}
	closing.Wait()
	return failed
}

func startSweepClient(id *tscclient.Identity, notice *minrtt.StepNotice, server,
	name string) ([]io.Closer, error) {
	config := tscclient.DefaultConfig()
	config.Node = id.Node
	config.Node.Name = name
	config.Clock = minrtt.SystemClock(id.Counter, notice, id.RealtimeStep)
	config.Clock.Quantum_cycles = id.Node.Quantum_cycles
	client, err := tscclient.Start(config)
	if err != nil {
		return nil, err
	}
	link, err := tscclient.Connect(client, tscclient.LinkConfig{
		Server: control.ClientConfig{Server: server},
		Register: control.Register{Machine: id.Report.Facts.MachineID,
			Cores: len(id.Report.Facts.Cores.Allowed), Software: "cp-bench sweep",
			Capabilities: []string{control.CanProbe}},
	})
	if err != nil {
		return []io.Closer{client}, err
	}
	return []io.Closer{link, client}, nil
}
