package cluster

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
)

// Serve starts a server for simulations on this machine. The server keeps checkpoints in the folder
// dir. The caller must shut it down.
func Serve(dir string) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{ServerName: "simulations", Host: "127.0.0.1",
		Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir,
		DisableJetStreamBanner: true, JetStreamMaxStore: 1 << 40, MaxPending: 1 << 30,
		WriteDeadline: longestWait})
	if err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(longestWait) {
		s.Shutdown()
		return nil, errors.New("start server: it accepts no connections")
	}
	return s, nil
}

// Options say how to run a simulation in several processes.
type Options struct {
	URL           string // of the server
	Simulation    string // its name, of letters, digits and hyphens
	Configuration string // the text of the configuration
	Set           []config.Choice
	Processes     int
	Every         sim.Time // simulated time between two checkpoints; 0: none
	Balance       bool

	// Command returns a process that calls Work with the part. The part is JSON.
	Command func(part string) (*exec.Cmd, error)
	// Progress is called when something happens. It is told what: "started", "saved" or "died".
	Progress func(what string, l *Leader)
	// Keep keeps the checkpoints if the simulation fails. The next simulation of this name then
	// goes on from the last checkpoint.
	Keep bool
	// Restarts is how often a process may die. A process that leaves does not count.
	Restarts int
}

// A Result is what a simulation has produced when it ends.
type Result struct {
	Digest   string
	Out      string // what observers printed
	Counts   sim.Counts
	Size     int // living nodes
	Restarts int
	Moved    int // shards that moved to other processes
}

// A Leader runs one simulation. Only the function Options.Progress may use it.
type Leader struct {
	o         Options
	nc        *nats.Conn
	kv        nats.KeyValue
	epoch     int
	saved     *Saved
	confirmed map[int]int // by number of a checkpoint: how many processes have saved it
	processes []*exec.Cmd
	exited    int // how many processes have exited
	wanted    int // number of processes at the next start
	count     int // number of processes that have not left
	begun     bool
	leaves    bool // the last process leaves once the simulation has begun
}

// Leave lets the last process leave at the next checkpoint. The last process gives its shards to
// the others, which go on without a break. The first process stays.
func (l *Leader) Leave() error {
	if !l.begun {
		l.leaves = true // processes do not hear it yet
		return nil
	}
	return l.nc.Publish(fmt.Sprintf("sim.%s.%d.leave.%d", l.o.Simulation, l.epoch, l.count-1), nil)
}

var simulationName = regexp.MustCompile(`^[0-9A-Za-z-]+$`)

// Run waits for its turn, runs a simulation and returns its result.
func Run(ctx context.Context, o Options) (r Result, err error) {
	if o.Processes < 1 || o.Processes > 1024 {
		return r, fmt.Errorf("run %q: %d processes: want 1 to 1024", o.Simulation, o.Processes)
	}
	if !simulationName.MatchString(o.Simulation) {
		return r, fmt.Errorf("run %q: want a name of letters, digits and hyphens", o.Simulation)
	}
	nc, err := nats.Connect(o.URL, nats.Timeout(longestWait))
	if err != nil {
		return r, fmt.Errorf("connect to %q: %w", o.URL, err)
	}
	defer nc.Close()
	js, err := nc.JetStream(nats.MaxWait(longestWait))
	if err != nil {
		return r, err
	}
	l := &Leader{o: o, nc: nc, wanted: o.Processes, confirmed: map[int]int{}}
	if l.kv, err = js.CreateKeyValue(&nats.KeyValueConfig{Bucket: "simulations"}); err != nil {
		return r, fmt.Errorf("open the key-value store: %w", err)
	}
	if err := takeToken(ctx, l.kv, o.Simulation); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, giveToken(l.kv, o.Simulation)) }()
	if _, err := js.CreateObjectStore(&nats.ObjectStoreConfig{
		Bucket: bucket(o.Simulation)}); err != nil {
		return r, fmt.Errorf("make a place for checkpoints: %w", err)
	}
	defer func() {
		if err == nil || !o.Keep || l.saved == nil {
			err = errors.Join(err, l.kv.Purge(checkpointKey(o.Simulation)),
				js.DeleteObjectStore(bucket(o.Simulation)))
		}
	}()
	if err := l.findCheckpoint(); err != nil {
		return r, err
	}
	for restarts := 0; ; l.epoch++ {
		r, err = l.runOnce(ctx)
		r.Restarts = restarts
		var died *diedError
		switch {
		case errors.Is(err, errDetach):
		case errors.As(err, &died) && ctx.Err() == nil && restarts < o.Restarts:
			restarts++
			l.progress("died")
		default:
			return r, err
		}
	}
}

func (l *Leader) progress(what string) {
	if l.o.Progress != nil {
		l.o.Progress(what, l)
	}
}

// diedError reports that a process ended before its part was done.
type diedError struct {
	process int
	err     error
}

func (e *diedError) Error() string { return fmt.Sprintf("process %d died: %v", e.process, e.err) }

// errDetach ends the processes at a checkpoint, because another number of processes is wanted.
var errDetach = errors.New("another number of processes is wanted")

// runOnce starts the processes and waits until the simulation has ended or one of them has died.
func (l *Leader) runOnce(ctx context.Context) (r Result, err error) {
	subject := fmt.Sprintf("sim.%s.%d", l.o.Simulation, l.epoch)
	reports, err := l.nc.SubscribeSync(subject + ".leader")
	if err != nil {
		return r, err
	}
	defer reports.Unsubscribe()
	if err := reports.SetPendingLimits(-1, -1); err != nil {
		return r, err
	}
	count := l.wanted
	l.count = count
	ended := make(chan *diedError, count)
	l.processes, l.exited, l.begun, l.leaves = nil, 0, false, false
	defer func() {
		for _, p := range l.processes {
			_ = p.Process.Kill()
		}
		for range len(l.processes) - l.exited {
			<-ended
		}
	}()
	for i := range count {
		part, err := json.Marshal(Part{Version: Version, URL: l.o.URL, Simulation: l.o.Simulation,
			Epoch: l.epoch, Process: i, Processes: count, Configuration: l.o.Configuration,
			Set: l.o.Set, Every: l.o.Every, Balance: l.o.Balance, Restart: l.saved})
		if err != nil {
			return r, err
		}
		p, err := l.o.Command(string(part))
		if err == nil {
			err = p.Start()
		}
		if err != nil {
			return r, fmt.Errorf("start process %d: %w", i, err)
		}
		l.processes = append(l.processes, p)
		go func() { ended <- &diedError{i, p.Wait()} }()
	}
	l.progress("started")
	clear(l.confirmed)
	return l.handleReports(ctx, subject, reports, ended)
}

// handleReports handles the reports of all processes until the simulation ends.
func (l *Leader) handleReports(ctx context.Context, subject string, reports *nats.Subscription,
	ended chan *diedError) (r Result, err error) {
	m, sums := newMaster(l.count), map[int][32]byte{}
	ready, done := 0, 0
	send := func(o memberOrder) error {
		if o == nothing {
			return nil
		}
		return l.nc.Publish(subject+".order", []byte{byte(o)})
	}
	for {
		select {
		case d := <-ended:
			l.exited++
			if d.err != nil {
				return r, d
			} // if it exited without an error, its last report follows
		default:
		}
		msg, err := reports.NextMsg(5 * time.Millisecond)
		if errors.Is(err, nats.ErrTimeout) {
			if err := ctx.Err(); err != nil {
				return r, err
			}
			continue
		}
		if err != nil {
			return r, err
		}
		var p workerReport
		if err := json.Unmarshal(msg.Data, &p); err != nil {
			return r, err
		}
		switch p.Kind {
		case "ready":
			if ready++; ready == l.count {
				err = l.beginSimulation(send)
			}
		case "idle":
			err = send(m.reportIdle(p.Process))
		case "prepared", "busy":
			err = send(m.handleAnswer(p.Process, p.Kind == "prepared"))
		case "saved":
			err = l.notePart(p.Number, p.Of)
		case "left":
			if l.wanted == l.count {
				l.wanted--
			}
			l.count--
			r.add(p, sums)
			l.progress("left")
			err = send(m.handleLeave())
		case "failed":
			return r, fmt.Errorf("process %d: %s", p.Process, p.Error)
		case "done":
			done++
			r.add(p, sums)
			if done == l.count {
				sum := sim.DigestOf(sums, p.Now, p.Joined)
				r.Digest = hex.EncodeToString(sum[:])
				return r, nil
			}
		}
		if err != nil {
			return r, err
		}
	}
}

// beginSimulation begins the simulation. If somebody has already asked a process to leave, the
// processes are told that first.
func (l *Leader) beginSimulation(send func(memberOrder) error) error {
	l.begun = true
	if l.leaves {
		if err := l.Leave(); err != nil {
			return err
		}
	}
	return send(beginOrder)
}

// notePart notes that one process has saved its part of a checkpoint. Once all processes have saved
// theirs, restarts begin from this checkpoint.
func (l *Leader) notePart(number, count int) error {
	if l.confirmed[number]++; l.confirmed[number] < count {
		return nil
	}
	l.saved = &Saved{Number: number, Processes: count}
	b, err := json.Marshal(l.saved)
	if err != nil {
		return err
	}
	if _, err := l.kv.Put(checkpointKey(l.o.Simulation), b); err != nil {
		return fmt.Errorf("note checkpoint %d: %w", number, err)
	}
	l.progress("saved")
	if l.wanted != l.count {
		return errDetach
	}
	return nil
}

// checkpointKey returns the key under which the key-value store has the number of the last whole
// checkpoint.
func checkpointKey(simulation string) string { return "checkpoint." + simulation }

// findCheckpoint finds the checkpoint that a failed simulation of the same name has left.
func (l *Leader) findCheckpoint() error {
	e, err := l.kv.Get(checkpointKey(l.o.Simulation))
	if errors.Is(err, nats.ErrKeyNotFound) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(e.Value(), &l.saved)
	}
	if err != nil {
		return fmt.Errorf("find the last checkpoint: %w", err)
	}
	return nil
}

func (r *Result) add(p workerReport, sums map[int][32]byte) {
	for i, text := range p.Sums {
		b, err := hex.DecodeString(text)
		if err == nil && len(b) == 32 {
			sums[i] = [32]byte(b)
		}
	}
	r.Counts.Events += p.Counts.Events
	r.Counts.Local += p.Counts.Local
	r.Counts.Remote += p.Counts.Remote
	r.Counts.Windows = max(r.Counts.Windows, p.Counts.Windows)
	r.Moved += p.Moved
	r.Size = p.Size
	r.Out += p.Out
}
