package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// These are the questions that a command can ask, as values of control.Ask.What. Each comment gives
// the type of the question's argument, an arrow, and the type of the answer.
const (
	AskNodes       = "nodes"        // → Matrix
	AskRegistered  = "registered"   // → names of the nodes that are registered and can be measured
	AskSweep       = "sweep"        // SweepRequest → SweepStatus
	AskSweepStatus = "sweep-status" // → SweepStatus, or null
	AskTable       = "table"        // → TableRequest, in which Base is the table's generation
	AskSetTable    = "set-table"    // TableRequest → TableRequest
	AskStartRun    = "start-run"    // RunRequest → RunStatus
	AskStopRun     = "stop-run"     // → RunStatus
	AskAbortRun    = "abort-run"    // → RunStatus
	AskCollectRun  = "collect-run"  // RunRequest → RunStatus
	AskRun         = "run"          // → RunStatus of the open run or else the last one, or null
	AskRuns        = "runs"         // → []RunEntry
	AskRunFiles    = "run-files"    // RunRequest → RunFiles; control.ReadFile reads them
	AskRemoveRun   = "remove-run"   // RunRequest → nothing
	AskSnapshot    = "snapshot"     // SnapshotRequest → []SnapshotResult
	AskForgetNode  = "forget-node"  // NodeRequest → nothing
	AskWatch       = "watch"        // WatchRequest → WatchAnswer
)

// SweepRequest asks for a sweep. A zero field means that the sweep uses the configured value.
type SweepRequest struct {
	Trains    int  `json:"trains,omitempty"`
	Exchanges int  `json:"exchanges,omitempty"`
	Width     int  `json:"width,omitempty"`
	NoQuiet   bool `json:"no_quiet,omitempty"` // do not wait for quiet moments

	// Nodes names the nodes whose pairs are measured. If it is empty, all nodes are.
	Nodes []string `json:"nodes,omitempty"`
}

// RunEntry is a run in the server's directory.
type RunEntry struct {
	Name     string    `json:"name"`
	Path     string    `json:"path"`
	Complete bool      `json:"complete"`
	Begun    time.Time `json:"begun"`
	Ended    time.Time `json:"ended,omitzero"`
	Nodes    int       `json:"nodes"`
	Missing  int       `json:"missing"`
	Problem  string    `json:"problem,omitempty"`
	Note     string    `json:"note,omitempty"`
}

// answer sends the answer to a question.
func (c *core) answer(in control.Incoming, ask *control.Ask) {
	reply := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			c.send(in.Peer, in.Request, control.Refuse(control.Failed, err.Error()))
			return
		}
		// The network refuses an answer that is too large even when compressed. The asker then gets
		// a refusal.
		if err := c.network.Send(in.Peer, in.Request, &control.Answer{Result: text}); err != nil {
			why := fmt.Sprintf("the answer to %q has %d bytes: %v", ask.What, len(text), err)
			c.send(in.Peer, in.Request, control.Refuse(control.TooLarge, why))
		}
	}
	refuse := func(code control.Code, err error) {
		c.send(in.Peer, in.Request, control.Refuse(code, err.Error()))
	}
	argument := func(v any) bool {
		if len(ask.Argument) == 0 {
			return true
		}
		if err := json.Unmarshal(ask.Argument, v); err != nil {
			refuse(control.Malformed, fmt.Errorf("question %q: %w", ask.What, err))
			return false
		}
		return true
	}
	switch ask.What {
	case AskNodes:
		c.matrix(func(m *Matrix) { reply(m) })
	case AskRegistered:
		names := []string{}
		for _, n := range c.sorted() {
			if n.probing() {
				names = append(names, n.name())
			}
		}
		reply(names)
	case AskSweep:
		var r SweepRequest
		if !argument(&r) {
			return
		}
		if c.run != nil {
			refuse(control.NotNow, fmt.Errorf("run %q is under way: it takes its own anchors, "+
				"and a sweep would disturb it", c.run.name()))
			return
		}
		if err := c.startSweep("asked for", c.config.Sweep.with(r), nil); err != nil {
			refuse(control.NotNow, err)
			return
		}
		reply(c.sweepStatus())
	case AskSweepStatus:
		reply(c.sweepStatus())
	case AskTable:
		reply(TableRequest{Text: c.table.Text, Base: c.table.Generation})
	case AskSetTable:
		var r TableRequest
		if !argument(&r) {
			return
		}
		if err := c.setTable(r); errors.Is(err, errStale) {
			refuse(control.NotNow, err)
		} else if err != nil {
			refuse(control.Failed, err)
		} else {
			reply(TableRequest{Text: c.table.Text, Base: c.table.Generation})
		}
	case AskStartRun:
		var r RunRequest
		if !argument(&r) {
			return
		}
		if err := c.startRun(r); err != nil {
			refuse(control.Failed, err)
			return
		}
		reply(c.runStatus())
		c.stepRun()
	case AskStopRun:
		if err := c.stopRun(); err != nil {
			refuse(control.NotNow, err)
			return
		}
		reply(c.runStatus())
	case AskAbortRun:
		if err := c.abortRun(); err != nil {
			refuse(control.NotNow, err)
			return
		}
		reply(c.runStatus())
	case AskCollectRun:
		var r RunRequest
		if !argument(&r) {
			return
		}
		switch err := c.collectRun(r.Name); {
		case errors.Is(err, fs.ErrNotExist):
			refuse(control.NotFound, fmt.Errorf("there is no complete run %q: %q lists the runs",
				r.Name, "cprof run list"))
		case err != nil:
			refuse(control.NotNow, err)
		default:
			reply(c.runStatus())
			c.stepRun()
		}
	case AskRun:
		reply(c.runStatus())
	case AskRuns:
		entries, err := c.listRuns()
		if err != nil {
			refuse(control.Failed, err)
			return
		}
		reply(entries)
	case AskRunFiles:
		var r RunRequest
		if !argument(&r) {
			return
		}
		c.listRunFiles(r.Name, func(files RunFiles) { reply(files) }, refuse)
	case AskRemoveRun:
		var r RunRequest
		if !argument(&r) {
			return
		}
		switch err := c.removeRun(r.Name); {
		case errors.Is(err, fs.ErrNotExist):
			refuse(control.NotFound, fmt.Errorf("there is no run %q: %q lists the runs",
				r.Name, "cprof run list"))
		case err != nil:
			refuse(control.Failed, err)
		default:
			reply(nil)
		}
	case AskForgetNode:
		var r NodeRequest
		if !argument(&r) {
			return
		}
		switch err := c.forgetNode(r.Name); {
		case errors.Is(err, fs.ErrNotExist):
			refuse(control.NotFound, fmt.Errorf("node %q is not known: %q lists the nodes",
				r.Name, "cprof nodes"))
		case err != nil:
			refuse(control.NotNow, err)
		default:
			reply(nil)
		}
	case AskWatch:
		var r WatchRequest
		if !argument(&r) {
			return
		}
		if a, err := c.answerWatch(r); err != nil {
			refuse(control.Malformed, err)
		} else {
			reply(a)
		}
	case AskSnapshot:
		var r SnapshotRequest
		if argument(&r) {
			c.snapshots(r, nil, reply)
		}
	default:
		refuse(control.UnknownKind, fmt.Errorf("this server does not know question %q", ask.What))
	}
}

func (o SweepOptions) with(r SweepRequest) SweepOptions {
	if r.Trains > 0 {
		o.Trains = r.Trains
	}
	if r.Exchanges > 0 {
		o.Exchanges = r.Exchanges
	}
	if r.Width > 0 {
		o.Width = r.Width
	}
	if r.NoQuiet {
		o.Quiet.Over = 0
	}
	o.Nodes = r.Nodes
	return o
}

func (c *core) listRuns() ([]RunEntry, error) {
	all, err := runs.List(c.store.runs)
	if err != nil {
		return nil, err
	}
	entries := []RunEntry{}
	for _, e := range all {
		entry := RunEntry{
			Name: e.Name, Path: e.Path, Complete: e.Complete,
			Nodes: len(e.Run.Nodes), Missing: len(e.Run.Missing), Note: e.Run.Note,
		}
		if e.Err != nil {
			entry.Problem = e.Err.Error()
		}
		if !e.Run.Begun.IsZero() {
			entry.Begun = time.Unix(0, e.Run.Begun.Lo_ns/2+e.Run.Begun.Hi_ns/2)
		}
		if !e.Run.Ended.IsZero() {
			entry.Ended = time.Unix(0, e.Run.Ended.Lo_ns/2+e.Run.Ended.Hi_ns/2)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func (c *core) removeRun(name string) error {
	if c.run != nil && c.run.name() == name {
		return fmt.Errorf("run %q is under way: stop it first", name)
	}
	if err := runs.Remove(c.store.runs, name); err != nil {
		return err
	}
	if c.lastRun != nil && c.lastRun.Name == name {
		c.lastRun = nil
	}
	return nil
}
