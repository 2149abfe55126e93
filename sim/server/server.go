package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/agents"
	"github.com/cloudprofiler/cloudprofiler/sim/library"
)

// Classes are the classes of a server and its clients, and those of agents.
func Classes() map[string]library.Class {
	all := agents.Classes()
	all["Coordinator"], all["CoordinatorClient"] = newServer, newClients
	all["CoordinatorObserver"] = newObserver
	return all
}

// serverProtocol is the protocol of the product's server, which runs at node 0.
type serverProtocol struct {
	letterCodec
	w        *sim.World
	own      uint8
	tr       sim.Transport
	clients  uint8 // number of the protocol of the clients
	config   coordinator.Config
	runAfter sim.Time      // when a run begins; 0: never
	office   *serverAtWork // nil: node 0 is in another process
}

// homeNode is the node at which the server runs.
const homeNode sim.Node = 0

// These are the kinds of the server's events.
const (
	serverTick   = 1
	serverLetter = 2
)

// serverStep is how often the server looks whether something is due.
const serverStep = sim.Time(10 * time.Millisecond)

func newServer(b *library.Builder, key string) any {
	f := b.File
	s := &serverProtocol{w: b.W, own: b.Own(key), tr: b.Transport(key + ".transport"),
		config:   coordinator.DefaultConfig(),
		runAfter: sim.Time(f.Int(key+".run", 0, math.MaxInt64, 0))}
	s.config.SweepEvery = time.Duration(f.Int(key+".sweep", 0, math.MaxInt64,
		int64(s.config.SweepEvery)))
	s.config.AllPairs = int(f.Int(key+".allpairs", 1, 10_000, int64(s.config.AllPairs)))
	s.config.Budget = int(f.Int(key+".budget", 1, 1_000_000, int64(s.config.Budget)))
	b.W.Spare(homeNode)
	return s
}

// serverAtWork is the server at work.
type serverAtWork struct {
	s         *serverProtocol
	dir       string
	lock      *os.File // says that the directory is in use
	store     *coordinator.Store
	of        *coordinator.Virtual
	failed    error
	now       sim.Time
	cx        *sim.Context // nil: the server repeats what it did before a checkpoint
	last      map[sim.Node]sim.Time
	forgotten map[control.Peer]bool
	inRun     bool
	log       []byte // all that the server was told, so that it can be told again
	joins     joinTimes
}

// joinTimes says how long it took the server to relate nodes that joined.
type joinTimes struct {
	began map[sim.Node]sim.Time // nodes that have registered, and were not measured yet
	took  []sim.Time
}

func (s *serverProtocol) open() *serverAtWork {
	o := &serverAtWork{s: s, last: map[sim.Node]sim.Time{}, forgotten: map[control.Peer]bool{},
		joins: joinTimes{began: map[sim.Node]sim.Time{}}}
	if o.dir, o.lock, o.failed = makeDirectory(); o.failed != nil {
		return o
	}
	o.store, o.failed = coordinator.OpenStore(filepath.Join(o.dir, "state"),
		filepath.Join(o.dir, "runs"))
	if o.failed != nil {
		return o
	}
	o.of, o.failed = coordinator.NewVirtual(s.config, o.store, o, o.time,
		rand.New(rand.NewPCG(s.w.Seed, 0xc0)))
	return o
}

func (o *serverAtWork) close() error {
	var err error
	if o.store != nil {
		err = o.store.Close()
	}
	if o.lock == nil {
		return err
	}
	return errors.Join(err, os.RemoveAll(o.dir), o.lock.Close())
}

// Close removes the server's files.
func (s *serverProtocol) Close() error {
	o := s.office
	if o == nil {
		return nil
	}
	s.office = nil
	return o.close()
}

// beginTime is when the simulated time begins.
var beginTime = time.Unix(1_700_000_000, 0)

func (o *serverAtWork) time() time.Time { return beginTime.Add(time.Duration(o.now)) }

// peerOf names a connection of a client.
func peerOf(n sim.Node, connection uint32) control.Peer {
	return control.Peer(fmt.Sprintf("%d.%d", n, connection))
}

// Send sends a message to a client.
func (o *serverAtWork) Send(to control.Peer, request uint64, m control.Message) error {
	node, connection, ok := strings.Cut(string(to), ".")
	n, err := strconv.ParseUint(node, 10, 32)
	k, err2 := strconv.ParseUint(connection, 10, 32)
	if !ok || err != nil || err2 != nil || o.cx == nil {
		return nil // it is for the one who ordered a run, or was already sent before the checkpoint
	}
	last := o.last[sim.Node(n)]
	o.cx.SendValue(orderedTransport{o.s.tr, &last}, sim.Node(n), o.s.clients, clientLetter,
		&linkLetter{uint32(k), request, withoutSecrets(m)})
	o.last[sim.Node(n)] = last
	return nil
}

// withoutSecrets replaces the secrets in a message by fixed values. Secrets mean nothing in a
// simulation, but they would make each run different. The message can still be encoded, for
// checkpoints and for other processes.
func withoutSecrets(m control.Message) control.Message {
	switch m := m.(type) {
	case *control.Welcome:
		own := *m
		own.Server = "simulated"
		return &own
	case *control.ProbeSecrets:
		none := control.ProbeSecret{Number: 1, Bytes: make([]byte, control.SecretBytes)}
		return &control.ProbeSecrets{Secrets: []control.ProbeSecret{none}}
	case *control.Graph:
		own := *m
		own.Issuers, own.Signature = [][]byte{{}}, nil
		return &own
	case *control.Probe:
		own := *m
		own.Key = nil
		return &own
	case *control.Probing:
		own := *m
		own.Targets = append([]control.Target{}, m.Targets...)
		for i := range own.Targets {
			own.Targets[i].Key = nil
		}
		return &own
	}
	return m
}

// Forget makes the server refuse what comes from a connection.
func (o *serverAtWork) Forget(p control.Peer) { o.forgotten[p] = true }

// Admit undoes Forget.
func (o *serverAtWork) Admit(p control.Peer) { delete(o.forgotten, p) }

func (s *serverProtocol) Receive(c *sim.Context, e *sim.Event) {
	o := s.office
	if o.failed != nil {
		c.Fail("start the server: %w", o.failed)
		return
	}
	o.now, o.cx = c.Now(), c
	switch e.Plain() {
	case serverTick:
		c.After(serverStep, s.own, serverTick, 0)
		if s.runAfter > 0 && o.now >= s.runAfter && !o.inRun {
			o.addToLog(entryRun, 0, nil)
			o.startRun()
		}
		if !o.time().Before(o.of.Due()) {
			o.addToLog(entryTick, 0, nil)
			o.of.Tick()
		}
	case serverLetter:
		l, ok := c.Take(e).(*linkLetter)
		if !ok {
			c.Fail("the server got an event that is not a message of an agent")
			return
		}
		o.addToLog(entryLetter, e.From, l)
		o.handleLetter(e.From, l)
	}
	if o.failed != nil {
		c.Fail("note what the server was told: %w", o.failed)
	}
}

// handleLetter passes a message to the server.
func (o *serverAtWork) handleLetter(from sim.Node, l *linkLetter) {
	peer := peerOf(from, l.connection)
	if _, ok := l.m.(*control.Register); ok {
		delete(o.forgotten, peer)
		if _, known := o.joins.began[from]; !known {
			o.joins.began[from] = o.now
		}
	} else if o.forgotten[peer] {
		o.Send(peer, l.request, control.Refuse(control.NotRegistered, "register again"))
		return
	}
	o.of.Handle(control.Incoming{Peer: peer, Request: l.request, Message: l.m})
	if t, ok := l.m.(*control.Trains); ok && len(t.Trains) > 0 {
		if peer, ok := nodeOf(o.s.w, t.Peer); ok && o.of.Related(nameOf(from), t.Peer) {
			o.joins.noteMeasured(from, o.now)
			o.joins.noteMeasured(peer, o.now)
		}
	}
}

// noteMeasured notes that a node was measured.
func (j *joinTimes) noteMeasured(n sim.Node, now sim.Time) {
	if began, ok := j.began[n]; ok && began != sim.Never {
		j.took = append(j.took, now-began)
		j.began[n] = sim.Never
	}
}

// knownPairs returns what the server knows of the fleet. The server keeps what it has evaluated. So
// its later answers may depend on when it was asked, and each question goes into the log.
func (o *serverAtWork) knownPairs(now sim.Time) *coordinator.Matrix {
	o.now, o.cx = now, nil
	o.addToLog(entryMatrix, 0, nil)
	return o.of.Matrix()
}

func (o *serverAtWork) startRun() {
	o.inRun = true
	argument, err := json.Marshal(coordinator.RunRequest{Name: "simulated"})
	if err != nil {
		o.failed = err
		return
	}
	o.of.Handle(control.Incoming{Peer: "user", Request: 1,
		Message: &control.Ask{What: coordinator.AskStartRun, Argument: argument}})
}
