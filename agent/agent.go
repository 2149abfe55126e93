package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/ring"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// Agent is a running agent. Any number of goroutines may use it.
type Agent struct {
	c       Config
	started time.Time
	lock    *os.File
	drainer *drain.Drainer
	chrony  *chronyPoller
	epochs  *epochFollower
	servers []*http.Server
	address net.Addr // the address at which the agent listens, for Config.Listen
	running sync.WaitGroup
	ctx     context.Context // ends with the agent
	stop    context.CancelFunc
	once    sync.Once
	closed  error

	link  atomic.Pointer[tscclient.Link] // nil: the agent has no server
	watch watch

	capture   runningCapture
	collector collector

	runsMu    sync.Mutex   // locked while the agent opens or closes a run
	frequency runFrequency // the frequency in the newest run; protected by runsMu

	mu    sync.Mutex // protects the fields below it
	state agentState
	table TableStatus
}

// TableStatus says which handler table applies.
type TableStatus struct {
	// Source says where the present table is from: "none", "file", "server" or "last of the
	// server".
	Source     string    `json:"source"`
	Generation uint64    `json:"generation,omitempty"` // the generation of the server's table
	Since      time.Time `json:"since,omitzero"`
	Error      string    `json:"error,omitempty"` // why the agent did not adopt a newer table
}

// Start begins to drain rings and to answer requests. The error wraps ErrConfig, or ring.ErrLocked
// if another agent uses the directory of rings or the directory of logs.
func Start(c Config) (*Agent, error) {
	a, err := start(c)
	if err != nil {
		return nil, fmt.Errorf("start agent: %w", err)
	}
	return a, nil
}

func start(c Config) (a *Agent, err error) {
	if c, err = c.normalise(); err != nil {
		return nil, err
	}
	if err := makeState(c.State); err != nil {
		return nil, err
	}
	a = &Agent{c: c, started: time.Now(), epochs: newEpochs(&c)}
	if a.lock, err = ring.OpenLocked(filepath.Join(c.State, lockFile)); err != nil {
		if errors.Is(err, ring.ErrLocked) {
			err = fmt.Errorf("another agent keeps its logs in %q: stop it, or set state: %w",
				c.State, err)
		}
		return nil, err
	}
	lock := a.lock
	defer func() {
		if err != nil {
			lock.Close()
		}
	}()
	if a.state, err = readState(c.State); err != nil {
		return nil, err
	}
	o := drain.Options{
		Logs: filepath.Join(c.State, a.state.Logs), Node: c.Node, Epoch: a.epochs.epoch,
		Quantum_cycles: c.Quantum_cycles, CoreSlack_cycles: c.CoreSlack_cycles,
		Workers: c.Workers, MaxBytes: c.MaxRunBytes, MinFree: c.MinFree,
		MaxProcessRings: c.MaxProcessRings, MaxProcessBytes: c.MaxProcessBytes,
		Notify: c.Notify, Asked: a.asked, Fault: c.Fault, Place: newPlaces("/proc").placeOf,
	}
	if c.Client != nil {
		node := c.Client.Node()
		o.Quantum_cycles, o.CoreSlack_cycles = node.Quantum_cycles, node.CoreSlack_cycles
	}
	for _, before := range a.state.Before {
		o.Before = append(o.Before, filepath.Join(c.State, before))
	}
	if err := a.chooseTable(&o); err != nil {
		return nil, err
	}
	if a.drainer, err = drain.Start(c.Rings, o); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	a.ctx, a.stop = ctx, stop
	a.chrony = newPoller(c.Chrony, c.Node, a.epochs.epoch, a.notify)
	if a.state.Run != "" {
		a.beginFrequency(a.state.Run) // this agent can measure only the rest of an open run
		a.chrony.open(a.baselinePath(a.state.Run))
	}
	a.running.Go(func() { a.chrony.run(ctx) })
	if err := errors.Join(a.listen(ctx), a.connect()); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// makeState creates the directory of logs, private to this user. If the directory exists already,
// it is checked.
func makeState(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf(
			"make directory of logs and runs: set state to a place where this user may write: %w",
			err)
	}
	return ring.CheckPrivate(dir, "directory of logs and runs", "state")
}

// chooseTable sets the first handler table. This is the configured file or, if there is none, the
// last table that a server sent.
func (a *Agent) chooseTable(o *drain.Options) error {
	a.table = TableStatus{Source: "none"}
	if a.c.Table != "" {
		o.TableFile = a.c.Table
		a.table = TableStatus{Source: "file", Since: a.started}
		return nil
	}
	last, err := handlertable.Read(filepath.Join(a.c.State, tableFile))
	switch {
	case err == nil:
		o.Table = last
		a.table = TableStatus{
			Source: "last of the server", Generation: a.state.Saw, Since: a.started,
		}
	case errors.Is(err, os.ErrNotExist):
	default:
		return err
	}
	return nil
}

func (a *Agent) notify(err error) {
	if a.c.Notify != nil {
		a.c.Notify(err)
	}
}

// SetTable applies a server's handler table to all channels at once. It also stores the table, so
// that the agent can start without the server. The generation of the server's table is only
// displayed. For each rule of the table, SetTable returns how many of the present channels got the
// rule. The error wraps handlertable.ErrTable.
func (a *Agent) SetTable(text []byte, generation uint64) (matched []int, err error) {
	table, err := handlertable.Parse(text, "the server's table")
	if err == nil {
		err = a.drainer.SetTable(table)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.table.Error = err.Error()
		return nil, err
	}
	a.table = TableStatus{Source: "server", Generation: generation, Since: time.Now()}
	a.state.Saw = generation
	// The agent has applied the table. If it cannot store the table, it reports that. This matters
	// only if the agent later starts without a server.
	keepErr := plainfile.Replace(filepath.Join(a.c.State, tableFile), text)
	if keepErr == nil {
		keepErr = a.state.write(a.c.State)
	}
	if keepErr != nil {
		a.notify(fmt.Errorf("keep the server's handler table: %w", keepErr))
	}
	var names []channel.Name
	for _, r := range a.drainer.Stats().Rings {
		if r.SetAside == nil {
			names = append(names, r.Channel)
		}
	}
	return table.Matched(a.c.Node, names), nil
}

// SetLimits changes the limits on disk space, for example after somebody reloads the configuration.
func (a *Agent) SetLimits(maxRunBytes int64, minFree float64) error {
	return a.drainer.SetLimits(maxRunBytes, minFree)
}

// Flush writes the present content of the rings to the logs.
func (a *Agent) Flush() error { return a.drainer.Flush() }

// Snapshot writes the content of flight recorders to the logs. The pattern selects channels by
// name, as in the handler table, and "" selects all. Snapshot returns the number of channels and
// the number of records written.
func (a *Agent) Snapshot(pattern string) (channels int, records uint64, err error) {
	var match func(channel.Name) bool
	if pattern != "" {
		rule := handlertable.Table{Rules: []handlertable.Rule{{Channel: pattern}}}
		if err := rule.Validate(); err != nil {
			return 0, 0, err
		}
		match = func(n channel.Name) bool { _, ok := rule.For("", n); return ok }
	}
	recorders := func() (channels int, rows uint64) {
		for _, r := range a.drainer.Stats().Rings {
			if r.Policy == channel.Overwrite && r.SetAside == nil &&
				(match == nil || match(r.Channel)) {
				channels, rows = channels+1, rows+r.Rows
			}
		}
		return channels, rows
	}
	_, before := recorders()
	err = a.drainer.Snapshot(match)
	channels, after := recorders()
	return channels, max(after, before) - before, err
}

// Close drains the present content of the rings and ends this agent. It leaves the logs in a state
// from which another agent can continue. The error names the rings that Close could not drain.
func (a *Agent) Close() error {
	a.once.Do(func() {
		a.stop()
		errs := []error{a.endCapture()}
		if link := a.link.Load(); link != nil {
			errs = append(errs, link.Close())
		}
		if a.c.Client != nil {
			errs = append(errs, a.c.Client.Close())
		}
		for _, server := range a.servers {
			errs = append(errs, server.Close())
		}
		errs = append(errs, a.drainer.Close())
		a.running.Wait()
		errs = append(errs, a.chrony.leaveBaseline(), a.lock.Close())
		a.closed = errors.Join(errs...)
	})
	return a.closed
}
