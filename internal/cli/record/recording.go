package record

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/internal/capturing"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// A recording is an agent in this process, with an open run.
type recording struct {
	name  string
	rings string // directory of the rings
	state string // directory of the agent's data, next to the runs
	begun time.Time

	node   *daemon.Node
	client *tscclient.Client
	agent  *agent.Agent

	about    runs.Node // the node at the beginning
	recorded bool      // the run has events
}

// utcSlack is the assumed error of this machine's clock. The clock only dates the runs.
const utcSlack = time.Second

// start starts the agent, and opens a run.
func start(name string) (r *recording, err error) {
	r = &recording{name: name}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("record: %w", err), r.abandon())
		}
	}()
	parent := command.RunsDir()
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of runs: %w", err)
	}
	// At the end, the agent's logs are moved into the run. The directories of both must be on one
	// file system, because then a move copies nothing.
	if r.state, err = os.MkdirTemp(parent, ".record-"); err != nil {
		return nil, err
	}
	// Other agents look for rings in directories with names of a different form, so no other agent
	// drains the rings here.
	if r.rings, err = os.MkdirTemp(memoryDirectory(), "cprofrecord."); err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	measuring := tscclient.DefaultConfig()
	if r.node, err = daemon.OpenNode("", r.rings, log, &measuring); err != nil {
		return nil, err
	}
	if r.client, err = tscclient.Start(measuring); err != nil {
		return nil, err
	}
	c := agent.DefaultConfig()
	c.Node, c.Rings, c.State = r.client.Node().Name, r.rings, r.state
	c.Chrony, c.Client, c.Observe = agent.ChronyOff, r.client, r.node.Observe
	c.Capture = capturing.Starter("", "", false, nil)
	if r.agent, err = agent.Start(c); err != nil {
		return nil, err
	}
	r.begun, r.about = time.Now(), r.describe()
	_, err = r.agent.OpenRun(name)
	return r, err
}

// memoryDirectory returns a directory that is kept in memory, if this machine has one.
func memoryDirectory() string {
	const shared = "/dev/shm"
	if info, err := os.Stat(shared); err == nil && info.IsDir() {
		return shared
	}
	return os.TempDir()
}

// describe returns what the run says about this node, with the node's present epoch.
func (r *recording) describe() runs.Node {
	n, facts := r.client.Node(), r.node.Facts
	return runs.Node{
		ID: facts.MachineID, Name: n.Name, Epoch: n.Epoch, Quantum_cycles: n.Quantum_cycles,
		CoreSlack_cycles: n.CoreSlack_cycles, FrequencyLo_hz: float64(n.Nominal_hz),
		FrequencyHi_hz: float64(n.Nominal_hz), FrequencySource: "nominal",
		Facts: map[string]string{"kernel": facts.Kernel, "clocksource": facts.Clocksource},
	}
}

// finish closes the run, ends the agent, and makes the directory of the run. It returns the path of
// that directory.
func (r *recording) finish() (path string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("record: %w", err)
		}
		err = errors.Join(err, r.abandon())
	}()
	state, err := r.agent.CloseRun(r.name)
	if err != nil {
		return "", err
	}
	about := runs.Run{
		Name: r.name, Begun: runs.UTCOf(r.begun, utcSlack), Nodes: []runs.Node{r.about},
		Note: "recorded on one machine by " + daemon.Version("cprof"),
	}
	about.Ended = runs.UTCOf(time.Now(), utcSlack)
	about.Ended.Hi_ns = max(about.Ended.Hi_ns, about.Begun.Hi_ns)
	now := r.describe()
	if f := state.Frequency; f != nil {
		now.FrequencyLo_hz = float64(f.Lo_millihz) / 1e3
		now.FrequencyHi_hz = float64(f.Hi_millihz) / 1e3
		now.FrequencySource = f.Clock
	}
	about.Enter(now)
	for _, m := range state.Missing {
		about.Missing = append(about.Missing, runs.Missing{Part: "node " + now.Name, Reason: m})
	}
	draft, err := runs.Create(command.RunsDir(), about)
	if err != nil {
		return "", err
	}
	logs, err := draft.LogDirectory(now.Name)
	if err != nil {
		return "", errors.Join(err, draft.Close())
	}
	kept := filepath.Join(r.state, "runs", r.name, filepath.FromSlash(runs.LogsPath(now.Name)))
	entries, err := os.ReadDir(kept)
	for _, e := range entries {
		err = errors.Join(err, os.Rename(filepath.Join(kept, e.Name()),
			filepath.Join(logs, e.Name())))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", errors.Join(err, draft.Close())
	}
	r.recorded = hasRows(logs)
	if _, err = draft.Complete(); err != nil {
		return "", err
	}
	return draft.Path(), nil
}

// hasRows reports whether one of the logs in a directory has rows other than those that say which
// handler applied. The result is also true if a log cannot be read, because the answer then says
// so.
func hasRows(logs string) bool {
	segments, err := logstore.Segments(logs)
	if err != nil {
		return true
	}
	for _, s := range segments {
		f, err := logstore.OpenFile(s.Path)
		if err != nil {
			return true
		}
		places, err := f.Continues()
		f.Close()
		if err != nil || slices.ContainsFunc(places, func(p logstore.Place) bool {
			return p.Kind != logstore.Transitions && p.Next > 0
		}) {
			return true
		}
	}
	return false
}

// abandon ends everything that was started, and removes the directories of rings and of the agent's
// data.
func (r *recording) abandon() error {
	var errs []error
	switch {
	case r.agent != nil:
		errs = append(errs, r.agent.Close()) // this also closes the client
	case r.client != nil:
		errs = append(errs, r.client.Close())
	}
	if r.node != nil {
		errs = append(errs, r.node.Close())
	}
	for _, dir := range []string{r.rings, r.state} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	*r = recording{name: r.name, recorded: r.recorded}
	return errors.Join(errs...)
}
