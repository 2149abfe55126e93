package cluster

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
)

// Version is the version of all messages between leader and processes. A process refuses a Part of
// another version, so later messages need not contain the version.
const Version = 1

// A Part tells a process which part of which simulation it has to run.
type Part struct {
	Version       int
	URL           string
	Simulation    string // its name on the server
	Epoch         int    // number of this start of the simulation
	Process       int
	Processes     int
	Configuration string // the text of the configuration
	Set           []config.Choice
	Every         sim.Time // simulated time between two checkpoints
	Balance       bool     // shards move at checkpoints
	Restart       *Saved   // where to continue; nil: at the beginning
}

// Saved names a checkpoint that every process has saved.
type Saved struct {
	Number    int
	Processes int // number of processes that wrote it
}

// workerReport is a message of a process to its leader.
type workerReport struct {
	Process int
	Kind    string // ready, idle, prepared, busy, saved, left, done, failed
	Number  int    `json:",omitempty"` // number of the checkpoint
	Of      int    `json:",omitempty"` // number of processes that save the checkpoint
	Error   string `json:",omitempty"`

	// A report of the kind "done" has the following fields. A report of the kind "left" has only
	// the counts.
	Sums   map[int]string `json:",omitempty"` // checksums of the shards, in hex
	Now    sim.Time       `json:",omitempty"`
	Joined int            `json:",omitempty"`
	Size   int            `json:",omitempty"`
	Counts sim.Counts
	Moved  int    `json:",omitempty"` // shards that came from other processes
	Out    string `json:",omitempty"` // what observers printed
}

// Inject is an event from outside.
type Inject struct {
	Node           sim.Node
	Protocol, Kind uint8
	Word           uint64
	After          sim.Time
}

// workerProcess is one process of a simulation.
type workerProcess struct {
	classes map[string]library.Class
	p       Part
	nc      *nats.Conn
	objects nats.ObjectStore
	subject string
	s       *library.Simulation
	link    *bundleLink
	out     bytes.Buffer
	id      [32]byte
	member  terminationMember
	orders  *nats.Subscription
	inject  *nats.Subscription
	leave   *nats.Subscription
	number  int // number of the next checkpoint
	moved   int
}

// Work runs a part of a simulation until its end. Its last parameter has the classes that the
// configuration may use in addition to those of the library.
func Work(ctx context.Context, p Part, classes map[string]library.Class) (err error) {
	if p.Version != Version {
		return fmt.Errorf("run a part of a simulation: version %d: this program knows version %d: "+
			"start leader and processes from the same release", p.Version, Version)
	}
	nc, err := nats.Connect(p.URL, nats.Timeout(longestWait), nats.MaxReconnects(0))
	if err != nil {
		return fmt.Errorf("connect to %q: %w", p.URL, err)
	}
	defer nc.Close()
	w := &workerProcess{p: p, classes: classes, nc: nc,
		subject: fmt.Sprintf("sim.%s.%d", p.Simulation, p.Epoch)}
	if err := w.run(ctx); err != nil && !errors.Is(err, errLeft) {
		return errors.Join(err, w.tell(workerReport{Kind: "failed", Error: err.Error()}))
	}
	return nil
}

func (w *workerProcess) tell(r workerReport) error {
	r.Process = w.p.Process
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := w.nc.Publish(w.subject+".leader", b); err != nil {
		return err
	}
	return w.nc.Flush()
}

func (w *workerProcess) run(ctx context.Context) (err error) {
	f, err := config.Parse("configuration", strings.NewReader(w.p.Configuration))
	if err != nil {
		return err
	}
	for _, c := range w.p.Set {
		f.Set(c.Key, c.Value)
	}
	w.id = f.Sum()
	if w.link, err = newLink(ctx, w.nc, w.subject, w.p.Process, w.p.Processes); err != nil {
		return err
	}
	if w.orders, err = w.nc.SubscribeSync(w.subject + ".order"); err != nil {
		return err
	}
	w.inject, err = w.nc.SubscribeSync(fmt.Sprintf("%s.inject.%d", w.subject, w.p.Process))
	if err != nil {
		return err
	}
	w.leave, err = w.nc.SubscribeSync(fmt.Sprintf("%s.leave.%d", w.subject, w.p.Process))
	if err != nil {
		return err
	}
	w.s, err = library.Build(f, library.Options{Exchange: w.link, Out: &w.out,
		Classes: w.classes})
	if err != nil {
		return err
	}
	defer w.s.Close()
	if w.s.Cycles > 0 {
		return errors.New("the cycle engine runs in one process: use simulation.endtime")
	}
	js, err := w.nc.JetStream(nats.MaxWait(storePatience))
	if err != nil {
		return err
	}
	if w.objects, err = js.ObjectStore(bucket(w.p.Simulation)); err != nil {
		return fmt.Errorf("open checkpoints: %w", err)
	}
	if err := w.waitForPeers(ctx); err != nil {
		return err
	}
	if w.p.Restart != nil {
		err = w.restore()
	} else {
		err = w.s.Start()
	}
	if err != nil {
		return err
	}
	return w.runWindows(ctx)
}

// waitForPeers waits until all processes have subscribed to what the others send. The leader then
// sends the order to begin.
func (w *workerProcess) waitForPeers(ctx context.Context) error {
	if err := w.tell(workerReport{Kind: "ready"}); err != nil {
		return err
	}
	o, err := w.order(ctx)
	if err == nil && o != beginOrder {
		err = fmt.Errorf("order %d instead of the beginning", o)
	}
	return err
}

func (w *workerProcess) order(ctx context.Context) (memberOrder, error) {
	ctx, cancel := context.WithTimeout(ctx, longestWait)
	defer cancel()
	m, err := w.orders.NextMsgWithContext(ctx)
	if err != nil {
		return nothing, fmt.Errorf("wait for the leader: %w", err)
	}
	if len(m.Data) != 1 {
		return nothing, fmt.Errorf("an order of %d bytes", len(m.Data))
	}
	return memberOrder(m.Data[0]), nil
}

// runWindows runs the simulation, window by window, until all processes agree that it is at its
// end.
func (w *workerProcess) runWindows(ctx context.Context) error {
	every := w.p.Every
	if every == 0 {
		every = sim.Never
	}
	for {
		err := w.s.World.RunUntilQuiet(ctx, every, w.savePart)
		if err != nil {
			return err
		}
		ended, err := w.agreeOnEnd(ctx)
		if err != nil || ended {
			return err
		}
	}
}

// agreeOnEnd tells the leader that this process is idle, and follows the leader's orders until the
// simulation ends or goes on. It returns false if the simulation goes on.
func (w *workerProcess) agreeOnEnd(ctx context.Context) (bool, error) {
	w.acceptEvents()
	if err := w.tell(workerReport{Kind: "idle"}); err != nil {
		return false, err
	}
	for {
		o, err := w.order(ctx)
		if err != nil {
			return false, err
		}
		w.acceptEvents()
		ok := w.member.handleOrder(o)
		switch o {
		case prepareOrder:
			kind := "busy"
			if ok {
				kind = "prepared"
			}
			if err := w.tell(workerReport{Kind: kind}); err != nil {
				return false, err
			}
		case goOn:
			w.member.work = 0 // the accepted work is in the queue now
			return false, nil
		case terminateOrder:
			return true, w.done()
		}
	}
}

// acceptEvents answers all events from outside that have arrived, and puts those that it accepts
// into the queue.
func (w *workerProcess) acceptEvents() {
	for {
		m, err := w.inject.NextMsg(time.Nanosecond)
		if err != nil {
			return
		}
		var e Inject
		if json.Unmarshal(m.Data, &e) != nil || !w.member.acceptWork() {
			_ = m.Respond([]byte("refused"))
			continue
		}
		if !w.s.World.Inject(e.After, e.Node, e.Protocol, e.Kind, e.Word) {
			w.member.work--
			_ = m.Respond([]byte("refused"))
			continue
		}
		_ = m.Respond([]byte("accepted"))
	}
}

func (w *workerProcess) done() error {
	if err := w.s.World.Finish(); err != nil {
		return err
	}
	sums, err := w.s.World.Sum()
	if err != nil {
		return err
	}
	r := workerReport{Kind: "done", Sums: map[int]string{}, Now: w.s.World.Now(),
		Joined: w.s.World.Joined(), Size: w.s.World.Size(), Counts: w.s.World.Counts(),
		Moved: w.moved}
	for i, sum := range sums {
		r.Sums[i] = hex.EncodeToString(sum[:])
	}
	if w.p.Process == 0 {
		r.Out = w.out.String()
	}
	if err := w.s.Close(); err != nil { // once it is told, the leader may kill this process
		return err
	}
	return w.tell(r)
}

// checkpointPart names a process's part of a checkpoint.
func checkpointPart(number, process int) string { return fmt.Sprintf("%d.%d", number, process) }

func bucket(simulation string) string { return "simulation-" + simulation }

// savePart writes this process's part of a checkpoint: the length of the text that observers
// printed, the text, and the state.
func (w *workerProcess) savePart() error {
	var b bytes.Buffer
	text := []byte(nil)
	if w.p.Process == 0 {
		text = w.out.Bytes()
	}
	fmt.Fprintf(&b, "%d\n", len(text))
	b.Write(text)
	if err := w.s.World.WriteCheckpoint(&b, w.id); err != nil {
		return err
	}
	if w.number == 0 && w.p.Restart != nil {
		w.number = w.p.Restart.Number
	}
	w.number++
	_, err := w.objects.PutBytes(checkpointPart(w.number, w.p.Process), b.Bytes())
	if errors.Is(err, nats.ErrTimeout) {
		err = fmt.Errorf("the server has not stored it within %v, perhaps because its disk is full",
			storePatience)
	}
	if err != nil {
		return fmt.Errorf("save checkpoint %d: %w", w.number, err)
	}
	if err := w.tell(workerReport{Kind: "saved", Number: w.number, Of: w.link.count}); err != nil {
		return err
	}
	return w.moveShards()
}

// errLeft ends a process that has given its shards to the others.
var errLeft = errors.New("this process has left")

// moveShards moves shards from busy processes to less busy ones. If the last process has been told
// to leave, it gives all its shards to the others, which go on without it.
func (w *workerProcess) moveShards() error {
	leaves := byte(0)
	if _, err := w.leave.NextMsg(time.Nanosecond); err == nil {
		leaves = 1
	}
	all, err := w.link.exchangeNumbers(leaves)
	if err != nil {
		return err
	}
	stay := len(all)
	if stay > 1 && all[stay-1] == 1 {
		stay--
	}
	if !w.p.Balance && stay == len(all) {
		return nil
	}
	n, err := w.s.World.Balance(stay)
	w.moved += n
	if err != nil {
		return err
	}
	w.link.count = stay
	if w.p.Process < stay {
		return nil
	}
	return errors.Join(errLeft, w.tell(workerReport{Kind: "left", Counts: w.s.World.Counts()}))
}

func (w *workerProcess) restore() error {
	var parts []io.Reader
	for i := range w.p.Restart.Processes {
		b, err := w.objects.GetBytes(checkpointPart(w.p.Restart.Number, i))
		if err != nil {
			return fmt.Errorf("read checkpoint %d: %w", w.p.Restart.Number, err)
		}
		r := bytes.NewReader(b)
		length := 0
		if _, err := fmt.Fscanf(r, "%d\n", &length); err != nil || length < 0 || length > r.Len() {
			return fmt.Errorf("read checkpoint %d: %w", w.p.Restart.Number, sim.ErrDamaged)
		}
		if _, err := io.CopyN(&w.out, r, int64(length)); err != nil {
			return err
		}
		parts = append(parts, r)
	}
	return w.s.World.Restore(w.id, parts...)
}
