package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// AgentOptions say how long to measure an agent.
type AgentOptions struct {
	Duration time.Duration // how long to log for each row
	Command  []string      // the command that runs AgentProcess
	Rows     []string      // nil: all of AgentRows

	// Rings and logs go to new directories in Dir and Logs. The defaults are shared memory and the
	// system's directory for temporary files.
	Dir, Logs string

	Progress func(row, step string) // may be nil
}

// AgentRow says what an agent cost, and which of the logged events are missing in its logs.
type AgentRow struct {
	Name    string
	Seconds float64

	// RatioToCounter is the cost of a log call, including all its waiting, divided by the cost of a
	// bare counter reading. It is 0 if it was not measured.
	RatioToCounter float64
	Counter_ns     float64
	Turns          int // turns of logging that the ratio uses

	// Disturbed is the number of turns in which other processes took a tenth of a core or more. The
	// ratio uses these turns only if there are too few other turns.
	Disturbed int

	// Lost is the number of Events whose id is not in the log. It includes dropped events.
	Events, Lost uint64
	LogBytes     int64

	AgentCores     float64
	AgentPrivateMB float64 // the largest that was seen
}

// AgentRows returns the names of the rows.
func AgentRows() []string { return []string{"one-producer", "200-channels", "idle"} }

const (
	manyChannels   = 200
	eventsASecond  = 50_000 // number of events in a second on each of manyChannels
	idleChannels   = 6
	comesToRest    = 3 * time.Second
	producerTurn   = 250 * time.Millisecond
	producerBuffer = "8MiB"
)

// Agent measures agents. Each runs in a process of its own.
func Agent(ctx context.Context, o AgentOptions) ([]AgentRow, error) {
	if o.Rows == nil {
		o.Rows = AgentRows()
	}
	if o.Progress == nil {
		o.Progress = func(string, string) {}
	}
	var rows []AgentRow
	for _, name := range o.Rows {
		row, err := agentRow(ctx, o, name)
		if err != nil {
			return rows, fmt.Errorf("measure %s: %w", name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// A producer logs the events of a row on channels whose rings are in the directory rings, while the
// agent runs as process pid. It returns the number of events that it logged on each channel.
type producer func(ctx context.Context, o AgentOptions, rings string, pid int,
	row *AgentRow) (map[string]uint64, error)

func agentRow(ctx context.Context, o AgentOptions, name string) (row AgentRow, err error) {
	produce, known := map[string]producer{
		"one-producer": oneProducer, "200-channels": manyProducers, "idle": noProducer,
	}[name]
	if !known {
		return row, fmt.Errorf("no such row: use one of %s", strings.Join(AgentRows(), ", "))
	}
	rings, err := os.MkdirTemp(ringParent(o.Dir), "cloudprofiler-bench")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(rings)
	state, err := os.MkdirTemp(o.Logs, "cloudprofiler-bench")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(state)
	p, err := startAgent(o.Command, rings, state)
	if err != nil {
		return row, err
	}
	defer p.kill()

	o.Progress(name, "logging")
	row.Name = name
	peak := watchMemory(ctx, p.cmd.Process.Pid)
	logged, err := func() (map[string]uint64, error) {
		before, err := threadsTime(p.cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		begin := time.Now()
		logged, err := produce(ctx, o, rings, p.cmd.Process.Pid, &row)
		if err != nil {
			return nil, err
		}
		after, err := threadsTime(p.cmd.Process.Pid)
		row.Seconds = time.Since(begin).Seconds()
		if row.AgentCores == 0 {
			row.AgentCores = (after - before).Seconds() / row.Seconds
		}
		return logged, err
	}()
	private_bytes, watchErr := peak()
	if err := errors.Join(err, watchErr); err != nil {
		return row, err
	}
	row.AgentPrivateMB = float64(private_bytes) / 1e6
	if err := p.end(); err != nil {
		return row, err
	}
	o.Progress(name, "reading the logs")
	for _, n := range logged {
		row.Events += n
	}
	row.Lost, row.LogBytes, err = countLost(ctx, filepath.Join(state, "logs", "000000"), logged)
	return row, err
}

func ringParent(dir string) string {
	if dir != "" {
		return dir
	}
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// loggingTurn is a stretch of logging without a pause.
type loggingTurn struct {
	spent time.Duration
	calls uint64
}

// If fewer turns than fewestTurns were undisturbed, the ratio uses all turns.
const fewestTurns = 4

// oneProducer logs at full speed on one channel with policy block, and reads the bare counter
// between turns.
func oneProducer(ctx context.Context, o AgentOptions, rings string, pid int,
	row *AgentRow) (map[string]uint64, error) {
	own, err := host.AllowedCores()
	if err != nil {
		return nil, err
	}
	unpin, err := pinToCore(own[len(own)-1])
	if err != nil {
		return nil, err
	}
	defer unpin()
	c, err := handlers.Open("bench#0/one", handlers.Options{Dir: rings, Buffer: producerBuffer})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var bare base
	var turns, disturbed []loggingTurn
	id := uint64(0)
	for begin := time.Now(); time.Since(begin) < o.Duration; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		bare.measure("rdtscp")
		before, err := readUsage()
		if err != nil {
			return nil, err
		}
		agentBefore, err := threadsTime(pid)
		if err != nil {
			return nil, err
		}
		from, start := id, time.Now()
		for time.Since(start) < producerTurn {
			for range 10_000 {
				c.Log(id)
				id++
			}
		}
		one := loggingTurn{time.Since(start), id - from}
		agentAfter, err := threadsTime(pid)
		if err != nil {
			return nil, err
		}
		after, err := readUsage()
		if err != nil {
			return nil, err
		}
		others := after.othersSince(before) - float64(agentAfter-agentBefore)/float64(one.spent)
		if others <= disturbedShare {
			turns = append(turns, one)
		} else {
			disturbed = append(disturbed, one)
		}
	}
	bare.endRepetition(true)
	row.Counter_ns, row.Turns, row.Disturbed = bare.ordered_ns.figure(), len(turns), len(disturbed)
	if len(turns) < fewestTurns {
		turns = append(turns, disturbed...)
	}
	var spent time.Duration
	var calls uint64
	for _, one := range turns {
		spent, calls = spent+one.spent, calls+one.calls
	}
	row.RatioToCounter = float64(spent) / float64(calls) / row.Counter_ns
	return map[string]uint64{"bench#0/one": id}, nil
}

// manyProducers logs at a steady pace on many channels.
func manyProducers(ctx context.Context, o AgentOptions, rings string, _ int,
	_ *AgentRow) (map[string]uint64, error) {
	logged := map[string]uint64{}
	var channels []*handlers.Channel
	for i := range manyChannels {
		c, err := handlers.Open(fmt.Sprintf("bench#%d/many", i), handlers.Options{Dir: rings})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		channels = append(channels, c)
	}
	var id uint64
	begin := time.Now()
	for {
		at := time.Since(begin)
		if at >= o.Duration || ctx.Err() != nil {
			break
		}
		// Log on every channel what is due by now: the events of a millisecond, and any that were
		// delayed.
		for due := uint64(at.Seconds() * eventsASecond); id < due; id++ {
			for _, c := range channels {
				c.Log(id)
			}
		}
		time.Sleep(time.Millisecond)
	}
	for _, c := range channels {
		logged[c.Name().String()] = id
	}
	return logged, ctx.Err()
}

// noProducer opens channels on which nothing happens, and measures the agent's processor time in
// each second. The row gets the median of these times, because other load on the machine makes some
// seconds more expensive.
func noProducer(ctx context.Context, o AgentOptions, rings string, pid int,
	row *AgentRow) (map[string]uint64, error) {
	for i := range idleChannels {
		c, err := handlers.Open(fmt.Sprintf("bench#%d/idle", i), handlers.Options{Dir: rings})
		if err != nil {
			return nil, err
		}
		defer c.Close()
	}
	if err := pause(ctx, comesToRest); err != nil { // in this time the agent finds the channels
		return nil, err
	}
	var shares []float64
	for begin := time.Now(); time.Since(begin) < o.Duration; {
		second := time.Now()
		before, err := threadsTime(pid)
		if err == nil {
			err = pause(ctx, time.Second)
		}
		if err != nil {
			return nil, err
		}
		after, err := threadsTime(pid)
		if err != nil {
			return nil, err
		}
		shares = append(shares, float64(after-before)/float64(time.Since(second)))
	}
	row.AgentCores = median(shares)
	return nil, nil
}

// countLost reads all logs and counts missing events. It knows which ids must be in a log, because
// each channel logged the ids 0, 1, 2 and so on.
func countLost(ctx context.Context, dir string,
	logged map[string]uint64) (n uint64, bytes int64, err error) {
	segments, err := logstore.Segments(dir)
	if err != nil {
		return 0, 0, err
	}
	seen := map[string]uint64{}
	for len(segments) > 0 {
		k := 1
		for k < len(segments) && segments[k].Incarnation == segments[0].Incarnation {
			k++
		}
		name := segments[0].Channel.String()
		for _, s := range segments[:k] {
			if st, err := os.Stat(s.Path); err == nil {
				bytes += st.Size()
			}
		}
		good, err := inOrder(ctx, segments[:k], logged[name])
		if err != nil {
			return 0, bytes, err
		}
		seen[name] += good
		segments = segments[k:]
	}
	for name, want := range logged {
		n += want - min(want, seen[name])
	}
	return n, bytes, nil
}

// inOrder counts the events of a log whose id is below the number want, and above the ids of all
// events that it counted before.
func inOrder(ctx context.Context, segments []logstore.Segment,
	want uint64) (good uint64, err error) {
	r := logstore.ReadLog(segments)
	defer r.Close()
	var next uint64
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		b, err := r.Next()
		if errors.Is(err, io.EOF) {
			return good, nil
		}
		if err != nil {
			return 0, err
		}
		for i := range b.Events {
			id := b.Events[i].ID
			if id >= next && id < want {
				good++
				next = id + 1
			}
		}
	}
}

// agentProcess is a running agent.
type agentProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// startAgent starts an agent and waits until it begins to drain rings.
func startAgent(command []string, rings, state string) (*agentProcess, error) {
	if len(command) == 0 {
		return nil, errors.New("no command that runs an agent")
	}
	args := append(command[1:len(command):len(command)], rings, state)
	p := &agentProcess{cmd: exec.Command(command[0], args...)}
	in, out, err := startPiped(p.cmd)
	if err != nil {
		return nil, err
	}
	p.in = in
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		p.kill()
		return nil, fmt.Errorf("start an agent: it did not say that it drains: %w", err)
	}
	return p, nil
}

// end ends the agent. Before the agent ends, it writes everything to the logs.
func (p *agentProcess) end() error {
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("end the agent: %w", err)
	}
	return nil
}

func (p *agentProcess) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// threadsTime returns the processor time of a process's threads, to the nanosecond. /proc/PID/stat
// has it only in hundredths of a second.
func threadsTime(pid int) (sum time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("read the processor time of process %d: it has ended", pid)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that ended
		}
		word, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read %q: %w", file, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}

// AgentProcess runs an agent until the input ends. The agent drains rings, and has its state in the
// directory state. Agent starts this process.
func AgentProcess(rings, state string, in io.Reader, out io.Writer) error {
	agent.LimitMemory()
	a, err := agent.Start(agent.Config{
		Node: "bench", Rings: rings, State: state,
		Notify: func(err error) { fmt.Fprintln(os.Stderr, err) },
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "draining")
	io.Copy(io.Discard, in)
	return a.Close()
}
