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
	AskNodes       = "nodes"        // NodesRequest → Matrix
	AskProgress    = "progress"     // → Progress of the answer to AskNodes
	AskPair        = "pair"         // PairRequest → PairAnswer
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

// SweepRequest asks for a sweep, which measures all pairs of nodes. A zero field means that the
// sweep uses the configured value.
type SweepRequest struct {
	Trains    int  `json:"trains,omitempty"`
	Exchanges int  `json:"exchanges,omitempty"`
	Width     int  `json:"width,omitempty"`
	NoQuiet   bool `json:"no_quiet,omitempty"` // do not wait for quiet moments

	// Nodes names the nodes whose pairs are measured. If Nodes is empty, the sweep measures the
	// pairs of all nodes.
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

// question is a question that a command asked. The core must answer it exactly once.
type question struct {
	c   *core
	in  control.Incoming
	ask *control.Ask
}

func (q question) reply(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		q.refuse(control.Failed, err)
		return
	}
	// The network refuses an answer that is too large even when compressed. The asker then gets a
	// refusal.
	if err := q.c.network.Send(q.in.Peer, q.in.Request, &control.Answer{Result: text}); err != nil {
		q.refuse(control.TooLarge,
			fmt.Errorf("the answer to %q has %d bytes: %v", q.ask.What, len(text), err))
	}
}

func (q question) refuse(code control.Code, err error) {
	q.c.send(q.in.Peer, q.in.Request, control.Refuse(code, err.Error()))
}

// replyRun replies with the state of the run, or refuses if there is an error.
func (q question) replyRun(code control.Code, err error) {
	if err != nil {
		q.refuse(code, err)
		return
	}
	q.reply(q.c.runStatus())
}

// decodeArgument decodes the question's argument, and calls answer with the result. If the argument
// does not have the type T, decodeArgument refuses the question.
func decodeArgument[T any](q question, answer func(T)) {
	var v T
	if len(q.ask.Argument) > 0 {
		if err := json.Unmarshal(q.ask.Argument, &v); err != nil {
			q.refuse(control.Malformed, fmt.Errorf("question %q: %w", q.ask.What, err))
			return
		}
	}
	answer(v)
}

// answer sends the answer to a question.
func (c *core) answer(in control.Incoming, ask *control.Ask) {
	q := question{c, in, ask}
	switch ask.What {
	case AskNodes:
		decodeArgument(q, q.nodes)
	case AskProgress:
		q.progress()
	case AskPair:
		decodeArgument(q, q.pair)
	case AskRegistered:
		q.registered()
	case AskSweep:
		decodeArgument(q, q.sweep)
	case AskSweepStatus:
		q.reply(c.sweepStatus())
	case AskTable:
		q.reply(c.tableNow())
	case AskSetTable:
		decodeArgument(q, q.setTable)
	case AskStartRun:
		decodeArgument(q, q.startRun)
	case AskStopRun:
		q.replyRun(control.NotNow, c.stopRun())
	case AskAbortRun:
		q.replyRun(control.NotNow, c.abortRun())
	case AskCollectRun:
		decodeArgument(q, q.collectRun)
	case AskRun:
		q.reply(c.runStatus())
	case AskRuns:
		q.runs()
	case AskRunFiles:
		decodeArgument(q, func(r RunRequest) {
			c.listRunFiles(r.Name, func(files RunFiles) { q.reply(files) }, q.refuse)
		})
	case AskRemoveRun:
		decodeArgument(q, q.removeRun)
	case AskForgetNode:
		decodeArgument(q, q.forgetNode)
	case AskWatch:
		decodeArgument(q, q.watch)
	case AskSnapshot:
		decodeArgument(q, func(r SnapshotRequest) { c.snapshots(r, nil, q.reply) })
	default:
		q.refuse(control.UnknownKind,
			fmt.Errorf("this server does not know question %q", ask.What))
	}
}

func (q question) nodes(r NodesRequest) {
	q.c.matrix(func(m *Matrix) {
		// The answer may have ten megabytes, so the core does not wait until it is written.
		q.c.background(func() error {
			if r.ListMost > 0 && len(m.Nodes) > r.ListMost {
				m = m.brief()
			}
			q.reply(m)
			return nil
		}, func(error) {})
	})
}

// Progress says how far the server is with the evaluation that AskNodes waits for. If it evaluates
// nothing, both numbers are 0.
type Progress struct {
	Evaluated int `json:"evaluated"` // how many pairs it has evaluated
	Pairs     int `json:"pairs"`
}

func (q question) progress() {
	var p Progress
	if s := q.c.progress; s != nil {
		p = Progress{int(s.done.Load()), len(s.pairs)}
	}
	q.reply(p)
}

func (q question) registered() {
	names := []string{}
	for _, n := range q.c.nodesByName() {
		if n.canBeProbed() {
			names = append(names, n.name())
		}
	}
	q.reply(names)
}

func (q question) sweep(r SweepRequest) {
	if run := q.c.run; run != nil {
		q.refuse(control.NotNow, fmt.Errorf("run %q is under way: it takes its own anchors, and a "+
			"sweep would disturb it", run.name()))
		return
	}
	if err := q.c.startSweep("asked for", q.c.config.Sweep.with(r), nil); err != nil {
		q.refuse(control.NotNow, err)
		return
	}
	q.reply(q.c.sweepStatus())
}

func (q question) setTable(r TableRequest) {
	switch err := q.c.setTable(r); {
	case errors.Is(err, errStale):
		q.refuse(control.NotNow, err)
	case err != nil:
		q.refuse(control.Failed, err)
	default:
		q.reply(TableRequest{Text: q.c.table.Text, Base: q.c.table.Generation})
	}
}

func (q question) startRun(r RunRequest) {
	err := q.c.startRun(r)
	q.replyRun(control.Failed, err)
	if err == nil {
		q.c.stepRun()
	}
}

func (q question) collectRun(r RunRequest) {
	err := q.c.collectRun(r.Name)
	if errors.Is(err, fs.ErrNotExist) {
		q.refuse(control.NotFound, fmt.Errorf("there is no complete run %q: %q lists the runs",
			r.Name, "cprof run list"))
		return
	}
	q.replyRun(control.NotNow, err)
	if err == nil {
		q.c.stepRun()
	}
}

func (q question) runs() {
	entries, err := q.c.listRuns()
	if err != nil {
		q.refuse(control.Failed, err)
		return
	}
	q.reply(entries)
}

func (q question) removeRun(r RunRequest) {
	switch err := q.c.removeRun(r.Name); {
	case errors.Is(err, fs.ErrNotExist):
		q.refuse(control.NotFound, fmt.Errorf("there is no run %q: %q lists the runs",
			r.Name, "cprof run list"))
	case err != nil:
		q.refuse(control.Failed, err)
	default:
		q.reply(nil)
	}
}

func (q question) forgetNode(r NodeRequest) {
	switch err := q.c.forgetNode(r.Name); {
	case errors.Is(err, fs.ErrNotExist):
		q.refuse(control.NotFound, fmt.Errorf("node %q is not known: %q lists the nodes",
			r.Name, "cprof nodes"))
	case err != nil:
		q.refuse(control.NotNow, err)
	default:
		q.reply(nil)
	}
}

func (q question) watch(r WatchRequest) {
	a, err := q.c.answerWatch(r)
	if err != nil {
		q.refuse(control.Malformed, err)
		return
	}
	q.reply(a)
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
