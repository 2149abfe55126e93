package job

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/returntrip"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// Options say how to run a job. With the zero value, every event is kept, and an agent must drain
// the rings.
type Options struct {
	// Name is the job's name in subjects and tables: letters, digits, '-' and '_'. Each job on a
	// cluster needs a different name. "" is "ads".
	Name string

	// Instrumentation "" is Full.
	Instrumentation Instrumentation

	// Switch turns the instrumentation on and off while the job runs. It may be nil.
	Switch *Switch

	// Channels are the options of all channels. The job sets their handlers.
	Channels handlers.Options

	// Rings is a directory with a ring directory for each node, Rings/NODE. If Rings is "", all
	// nodes use Channels.Dir. If Channels.Dir is "" too, each node uses the directory that the
	// node's agent drains.
	Rings string

	// Logs is a directory: this process drains the rings of its nodes into Logs/NODE. Logs requires
	// Rings. If Logs is "", an agent drains the rings.
	Logs string

	// Latencies adds latencies to the result. The latency of a view is the time from when the view
	// was due until count has counted it. All nodes must have the same clock, so they must be on
	// one machine.
	Latencies bool

	// Begin is called just before the first tuple of this process's sources is due. End is called
	// when the last tuple was stored and, if Logs is set, everything was drained. End is not called
	// if the job fails. Both may be nil.
	Begin, End func()
}

// Counts says how many tuples one instance took and sent.
type Counts struct {
	Taken uint64 `json:"taken"`
	Sent  uint64 `json:"sent"`
}

// Result is what happened on the nodes of this process.
type Result struct {
	Actors      map[string]Counts            `json:"actors"` // by operator#instance
	ReturnTrips map[string]returntrip.Counts `json:"return_trips,omitempty"`

	// Dropped is the number of events that channels dropped. Events is the number of events that
	// were drained. Both are 0 without Logs.
	Dropped uint64 `json:"dropped"`
	Events  uint64 `json:"events"`

	Begin_us  int64           `json:"begin_us"` // event time of the first tuple; 0 without a source
	Elapsed   time.Duration   `json:"elapsed_ns"`
	Latencies []time.Duration `json:"-"` // of views, one instance of count after another
}

// settleFor is how long to wait for return trips at the end.
const settleFor = 2 * time.Second

// runner contains a running job: the part of the job that runs on the nodes of this process.
type runner struct {
	*Placement
	cluster *Cluster
	options Options
	name    string

	drainers []*drain.Drainer
	ids      map[string]*handlers.IDs // by node
	sources  []*source
	actors   []*actor
	conns    []*nats.Conn // one for each node, besides the connections of the instances
	counts   []*count
}

// Run runs the job on the cluster to its end, or until ctx ends. All nodes must run it with the
// same placement and name.
func (c *Cluster) Run(ctx context.Context, o Options) (result Result, err error) {
	if o.Name == "" {
		o.Name = "ads"
	}
	if o.Instrumentation == "" {
		o.Instrumentation = Full
	}
	if o.Logs != "" && o.Rings == "" {
		return result, fmt.Errorf("run job %q: Options.Logs %q without Rings: set both",
			o.Name, o.Logs)
	}
	j := &runner{
		Placement: c.placement, cluster: c, options: o, name: o.Name,
		ids: map[string]*handlers.IDs{},
	}
	defer func() {
		if closeErr := j.close(&result); err == nil {
			err = closeErr
		}
	}()
	if err := j.open(); err != nil {
		return result, fmt.Errorf("run job %q: %w", o.Name, err)
	}
	begun, err := j.work(ctx)
	j.count(&result)
	if err != nil {
		return result, fmt.Errorf("run job %q: %w", o.Name, err)
	}
	for _, d := range j.drainers {
		if err := d.Flush(); err != nil {
			return result, fmt.Errorf("run job %q: %w", o.Name, err)
		}
	}
	if o.End != nil {
		o.End()
	}
	result.Elapsed = time.Since(begun)
	if len(j.sources) > 0 {
		result.Begin_us = j.Stream.begin_us(begun)
	}
	return result, nil
}

// open opens everything that the job uses on this process's nodes. It opens receivers before their
// senders.
func (j *runner) open() error {
	for _, n := range j.cluster.nodes {
		conn, err := j.cluster.connect(n, "job")
		if err != nil {
			return err
		}
		j.conns = append(j.conns, conn)
		rings := j.options.Channels.Dir
		if j.options.Rings != "" {
			rings = filepath.Join(j.options.Rings, n.Name)
			if err := ring.MakeDirectory(rings); err != nil {
				return err
			}
			if err := ring.SetNodeNumber(rings, n.Number); err != nil {
				return err
			}
		}
		if j.ids[n.Name], err = handlers.OpenIDs(rings, handlers.AnyInstance); err != nil {
			return err
		}
		if j.options.Logs != "" {
			d, err := drain.Start(rings, drain.Options{
				Logs: filepath.Join(j.options.Logs, n.Name), Node: n.Name,
			})
			if err != nil {
				return err
			}
			j.drainers = append(j.drainers, d)
		}
	}
	for stage := len(Stages) - 1; stage >= 0; stage-- {
		for instance, name := range j.Actors[Stages[stage]] {
			i := slices.IndexFunc(j.cluster.nodes, func(n *Node) bool { return n.Name == name })
			if i < 0 {
				continue // the instance is in another process
			}
			err := j.openActor(stage, instance, j.cluster.nodes[i])
			if err != nil {
				return fmt.Errorf("%s#%d on node %s: %w", Stages[stage], instance, name, err)
			}
		}
	}
	return nil
}

func (j *runner) openActor(stage, instance int, n *Node) (err error) {
	name := Stages[stage]
	full := name + "#" + strconv.Itoa(instance)
	cs := &channels{
		instrumentation: j.options.Instrumentation, options: j.options.Channels, actor: full,
	}
	if j.options.Rings != "" {
		cs.options.Dir = filepath.Join(j.options.Rings, n.Name)
	}
	if stage == 0 {
		return j.openSource(instance, n, cs)
	}
	a := &actor{stage: name, instance: instance, channels: cs}
	j.actors = append(j.actors, a)
	if a.conn, err = j.cluster.connect(n, full); err != nil {
		return err
	}
	if a.probes, a.switched, err = j.openProbes(cs, name); err != nil {
		return err
	}
	if j.options.Switch != nil {
		j.options.Switch.conns = append(j.options.Switch.conns, a.conn)
	}
	a.operator = j.operator(a, n)
	if name == "count" {
		if a.arrived, err = j.returnEnd(n, cs); err != nil {
			return err
		}
	}
	if stage < len(Stages)-1 {
		if a.sender, err = j.newSender(a.conn, stage, instance); err != nil {
			return err
		}
	}
	a.receiver, err = j.newReceiver(a.conn, stage, instance)
	return err
}

func (j *runner) openSource(instance int, n *Node, cs *channels) (err error) {
	s := &source{
		stream: &j.Stream, instance: instance, of: len(j.Actors[Stages[0]]),
		ids: j.ids[n.Name], channels: cs, opened: readMoment(),
	}
	cs.scheduled = j.Stream.PerSecond > 0
	j.sources = append(j.sources, s)
	if s.conn, err = j.cluster.connect(n, cs.actor); err != nil {
		return err
	}
	if s.probes, s.switched, err = j.openProbes(cs, Stages[0]); err != nil {
		return err
	}
	if s.leaves, err = j.returnStart(n, cs); err != nil {
		return err
	}
	s.sender, err = j.newSender(s.conn, 0, instance)
	return err
}

// operator makes the operator of an actor.
func (j *runner) operator(a *actor, n *Node) operator {
	// If an operator uses a table, its first instance makes the table.
	type opener = func(context.Context) (jetstream.KeyValue, error)
	table := func(bucket string, keep time.Duration) opener {
		return func(ctx context.Context) (jetstream.KeyValue, error) {
			return j.cluster.openTable(ctx, a.conn, bucket, a.instance == 0, keep)
		}
	}
	switch a.stage {
	case "deserialise":
		return &deserialise{}
	case "filter":
		return filter{}
	case "project":
		return &project{}
	case "join":
		return &join{stream: &j.Stream, table: table(tableName, 0), loads: a.instance == 0}
	case "count":
		c := &count{
			stream: &j.Stream, ids: j.ids[n.Name], probes: &a.probes,
			open: map[Window]*openWindow{}, late: j.options.Latencies,
		}
		j.counts = append(j.counts, c)
		return c
	case "store":
		return &store{table: table(countsName(j.name), j.Stream.Keep)}
	}
	panic("no operator for stage " + a.stage)
}

// work runs all instances to their end. It returns the time when the first tuple was due.
func (j *runner) work(ctx context.Context) (begun time.Time, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	peers, err := j.watchPeers(ctx, cancel)
	if err != nil {
		return begun, err
	}
	var running, ready sync.WaitGroup
	ready.Add(len(j.sources))
	begin := sync.OnceValue(func() time.Time {
		if j.options.Begin != nil {
			j.options.Begin()
		}
		begun = time.Now()
		return begun
	})
	start := func(run func() error) {
		running.Go(func() {
			if err := run(); err != nil {
				cancel(err)
			}
		})
	}
	for _, a := range j.actors {
		start(func() error { return a.run(ctx) })
	}
	for _, s := range j.sources {
		start(func() error {
			greeted := sync.OnceFunc(ready.Done)
			defer greeted() // if this source fails, the other sources must not wait for it
			return s.run(ctx, func() time.Time {
				greeted()
				ready.Wait()
				return begin()
			})
		})
	}
	running.Wait()
	if begun.IsZero() {
		begun = time.Now() // this process has no source
	}
	return begun, peers.announceEnd(ctx)
}

func (j *runner) count(result *Result) {
	result.Actors = map[string]Counts{}
	for _, s := range j.sources {
		result.Actors["source#"+strconv.Itoa(s.instance)] = s.counts
	}
	for _, a := range j.actors {
		result.Actors[a.stage+"#"+strconv.Itoa(a.instance)] = a.counts
	}
	for _, c := range j.counts {
		result.Latencies = append(result.Latencies, c.lates...)
	}
	if !j.ReturnTrip {
		return
	}
	result.ReturnTrips = map[string]returntrip.Counts{}
	for _, s := range j.sources {
		result.ReturnTrips["source#"+strconv.Itoa(s.instance)] = s.leaves.Counts()
	}
	for _, a := range j.actors {
		if a.arrived != nil {
			result.ReturnTrips[a.stage+"#"+strconv.Itoa(a.instance)] = a.arrived.Counts()
		}
	}
}

// close closes whatever was opened.
func (j *runner) close(result *Result) error {
	var errs []error
	for _, a := range j.actors {
		errs = append(errs, a.close())
	}
	for _, s := range j.sources {
		errs = append(errs, s.close())
	}
	for _, ids := range j.ids {
		if ids != nil {
			errs = append(errs, ids.Close())
		}
	}
	for _, d := range j.drainers {
		errs = append(errs, d.Flush()) // removes rings that it has drained to the end
		total := d.Stats().Total
		result.Dropped += total.Dropped
		result.Events += total.Events
		errs = append(errs, d.Close())
	}
	for _, conn := range j.conns {
		conn.Close()
	}
	return errors.Join(errs...)
}

// returnStart starts return trips on a source's node. It returns nil if there are no return trips.
func (j *runner) returnStart(n *Node, cs *channels) (*returntrip.Start, error) {
	if !j.ReturnTrip || cs.instrumentation != Full {
		return nil, nil
	}
	conn, err := net.ListenPacket("udp", n.returnTrip())
	if err != nil {
		return nil, fmt.Errorf("listen for return trips: %w", err)
	}
	options := returntrip.Options{Stream: j.Stream.Seed, Channels: cs.options}
	s, err := returntrip.NewStart(conn, cs.actor, options)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (j *runner) returnEnd(n *Node, cs *channels) (*returntrip.End, error) {
	if !j.ReturnTrip || cs.instrumentation != Full {
		return nil, nil
	}
	start, err := net.ResolveUDPAddr("udp", j.findNode(j.Actors["source"][0]).returnTrip())
	if err != nil {
		return nil, fmt.Errorf("return trips: %w", err)
	}
	conn, err := net.ListenPacket("udp", net.JoinHostPort(n.Address, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for return trips: %w", err)
	}
	options := returntrip.Options{Stream: j.Stream.Seed, Channels: cs.options}
	e, err := returntrip.NewEnd(conn, start, cs.actor, options)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return e, nil
}

func countsName(job string) string { return "counts-" + job }

// Counted reads a job's counts from the cluster.
func (c *Cluster) Counted(ctx context.Context, job string) (map[Window]int, error) {
	conn, err := c.connect(c.nodes[0], "reader")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	kv, err := c.openTable(ctx, conn, countsName(job), false, 0)
	if err != nil {
		return nil, err
	}
	all, err := kv.WatchAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	defer all.Stop()
	counts := map[Window]int{}
	for {
		var entry jetstream.KeyValueEntry
		select {
		case entry = <-all.Updates():
		case <-ctx.Done():
			return nil, fmt.Errorf("read counts: %w", context.Cause(ctx))
		}
		if entry == nil { // the end of what was stored
			return counts, nil
		}
		campaign, begin, _ := strings.Cut(entry.Key(), ".")
		begin_us, err1 := strconv.ParseInt(begin, 10, 64)
		n, err2 := strconv.Atoi(string(entry.Value()))
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("read count %q: %w", entry.Key(), err)
		}
		counts[Window{campaign, begin_us}] = n
	}
}
