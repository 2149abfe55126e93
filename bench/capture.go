package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// CaptureOptions say how to measure a capture of messages.
type CaptureOptions struct {
	Command  []string // the command that runs CaptureProcess
	Pairs    int      // number of pairs: one turn without a capture and one with it
	Turn     time.Duration
	Messages int      // number of messages that are compared with the truth
	Rows     []string // nil: all of CaptureRows
	Light    bool     // measure a light capture: see capture.Options
	Empty    bool     // only measure eBPF programs that do nothing
	Progress func(row string)
}

// CaptureRow says what a capture costs, or what it found. Some figures were measured in pairs of
// turns, one turn without a capture and one with it. Such a figure is the median over the pairs.
type CaptureRow struct {
	Name   string
	Absent string // why the row was not measured; "": it was

	// Off is the figure without a capture, and On the figure with one. In the rows about calls,
	// these are ns of processor time for a call, and Changes has On − Off of each pair. In the rows
	// about servers, they are operations a second, and Changes has the share of throughput that
	// each pair lost.
	Off, On float64
	Changes []float64

	// Only the rows about a server have these fields, with one value for each pair. Cores is the
	// processor time that the capture adds, as a number of cores. Work is the share by which the
	// capture lowers the number of operations per second of processor time. Work depends less than
	// throughput on what else the machine does.
	Cores, Work []float64

	AgentCores float64 // cores that the capture and its drainer used
	PerSecond  float64 // calls that were captured a second
	Lost       uint64  // messages that the capture counted as lost

	Truth CaptureTruth
}

// CaptureTruth compares the captured calls with the calls that were really made.
type CaptureTruth struct {
	Calls    uint64 // calls that sent or received
	Captured uint64 // number of these that were captured
	Sent     uint64
	Matched  uint64 // sent messages that were matched with the call that really received them
	Wrong    uint64 // sent messages that were matched with another call

	// Left counts, by reason, the messages that this machine sent and for which no receiving call
	// was found.
	Left map[string]uint64
}

// CaptureRows returns the names of the rows.
func CaptureRows() []string {
	return []string{"ping-pong", "flood", "redis-10000", "redis-limit", "nginx-limit",
		"agent-100000", "truth"}
}

// captureBench takes measurements with a capture that it switches on and off. Meanwhile a drainer
// empties the capture's rings.
type captureBench struct {
	o     CaptureOptions
	dir   string
	drain *drain.Drainer
	talk  *talkerProcess
}

// Capture measures a capture. It needs root.
func Capture(ctx context.Context, o CaptureOptions) (rows []CaptureRow, err error) {
	b := &captureBench{o: o}
	if b.dir, err = os.MkdirTemp("", "cloudprofiler-bench"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.dir)
	// The rings are in shared memory, as on a node.
	shared, err := os.MkdirTemp(ringParent(""), "cloudprofiler-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(shared)
	b.drain, err = drain.Start(shared, drain.Options{Logs: filepath.Join(b.dir, "logs")})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.drain.Close()) }()
	if b.talk, err = startTalker(ctx, o.Command); err != nil {
		return nil, err
	}
	defer b.talk.close()
	measure := map[string]func(context.Context, *CaptureRow, string) error{
		"ping-pong": b.cost, "flood": b.cost, "redis-10000": b.redis, "redis-limit": b.redis,
		"nginx-limit": b.nginx, "agent-100000": b.agent, "truth": b.truth,
	}
	for _, name := range o.Rows {
		o.Progress(name)
		row := CaptureRow{Name: name}
		if err := measure[name](ctx, &row, shared); err != nil {
			return rows, fmt.Errorf("measure %s: %w", name, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (b *captureBench) start(rings string) (*capture.Capture, error) {
	return capture.Start(capture.Options{Dir: rings, Light: b.o.Light, Empty: b.o.Empty})
}

// turnResult is what one turn measured.
type turnResult struct{ figure, cores float64 }

// The method pairs measures pairs of turns. In each pair, one turn is without a capture and one
// with it. Every second pair begins with the turn that has a capture.
func (b *captureBench) pairs(ctx context.Context, row *CaptureRow, rings string, pairs int,
	turn func() (turnResult, error), change func(off, on float64) float64) error {
	var offs, ons []float64
	for pair := range pairs {
		var results [2]turnResult
		for k := range 2 {
			on := (k + pair) % 2
			var c *capture.Capture
			var err error
			if on == 1 {
				if c, err = b.start(rings); err != nil {
					return err
				}
			}
			results[on], err = turn()
			if c != nil {
				err = errors.Join(err, c.Close())
				for _, n := range c.Stats().Lost {
					row.Lost += n
				}
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
		}
		off, on := results[0], results[1]
		offs, ons = append(offs, off.figure), append(ons, on.figure)
		row.Changes = append(row.Changes, change(off.figure, on.figure))
		if off.cores > 0 {
			row.Cores = append(row.Cores, on.cores-off.cores)
			row.Work = append(row.Work, 1-(on.figure/on.cores)/(off.figure/off.cores))
		}
	}
	row.Off, row.On = median(offs), median(ons)
	return nil
}

// The method cost measures the processor time that a call takes, over loopback. One thread makes
// all calls, and only its time counts, not that of the capture's own thread. There are many short
// turns, because other load on the machine changes from one moment to the next.
func (b *captureBench) cost(ctx context.Context, row *CaptureRow, rings string) error {
	const shorter = 4
	return b.pairs(ctx, row, rings, shorter*b.o.Pairs, func() (turnResult, error) {
		r, err := b.talk.ask(talkOrder{Do: row.Name, For: b.o.Turn / shorter})
		return turnResult{figure: r.Call_ns}, err
	}, func(off, on float64) float64 { return on - off })
}

// The method agent measures the processor time of the capture's own threads and its drainer, while
// another process makes 100,000 calls a second.
func (b *captureBench) agent(_ context.Context, row *CaptureRow, rings string) error {
	const callsASecond = 100_000
	c, err := b.start(rings)
	if err != nil {
		return err
	}
	defer c.Close()
	before, began := ownTime(), time.Now()
	r, err := b.talk.ask(talkOrder{
		Do: "ping-pong", For: time.Duration(b.o.Pairs) * b.o.Turn, PerSecond: callsASecond,
	})
	if err != nil {
		return err
	}
	c.Flush()
	took := time.Since(began).Seconds()
	row.AgentCores = (ownTime() - before).Seconds() / took
	row.PerSecond = float64(r.Calls) / took
	for _, n := range c.Stats().Lost {
		row.Lost += n
	}
	return c.Close()
}

// ownTime is the processor time of this process.
func ownTime() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// truth compares captured and matched messages with what was sent and received.
func (b *captureBench) truth(_ context.Context, row *CaptureRow, _ string) (err error) {
	dir := filepath.Join(b.dir, "truth")
	rings, logs := filepath.Join(dir, "rings"), filepath.Join(dir, "logs")
	d, err := drain.Start(rings, drain.Options{Logs: logs, Node: "node"})
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, d.Close())
		}
	}()
	c, err := b.start(rings)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := b.talk.ask(talkOrder{Do: "converse", Messages: b.o.Messages})
	if err != nil {
		return err
	}
	if err := c.Close(); err != nil {
		return err
	}
	s := c.Stats()
	for _, n := range s.Lost {
		row.Lost += n
	}
	row.Lost += (s.Dropped + 1) / 2
	closed = true
	if err := d.Close(); err != nil {
		return err
	}
	segments, err := logstore.Segments(logs)
	if err != nil {
		return err
	}
	l, err := messages.Read("node", segments)
	if err != nil {
		return err
	}
	row.Truth = r.hold(l)
	return nil
}

// A talkOrder tells the process that exchanges messages what to do.
type talkOrder struct {
	Do        string
	For       time.Duration
	PerSecond int // 0: as fast as it can
	Messages  int

	// These are for the order "ask": a server, the request, and the number of connections.
	Address     string
	Request     string
	Connections int
}

// A talkReport is what that process did.
type talkReport struct {
	Error string
	Calls uint64
	Busy  time.Duration // processor time of the talking process
	Took  time.Duration
	// Call_ns is set after the orders "ping-pong" and "flood". It is the processor time of a call:
	// the median over many groups of calls. A group takes so little time that most groups are not
	// interrupted.
	Call_ns float64
	// Streams is set after the order "converse". It has an element for each direction of each
	// connection.
	Streams []talkStream
}

// A talkStream is a sequence of messages. One call sends a message, and one call receives it.
type talkStream struct {
	Sender, Receiver uint64 // cookies of the two sockets
	Seed             uint64 // seed of the sizes
	Messages         int
}

// The method hold compares a log of captured messages with what was really sent and received.
func (r *talkReport) hold(l *messages.Log) (t CaptureTruth) {
	streams, ends := map[uint64]*talkStream{}, map[uint64]uint64{}
	for i := range r.Streams {
		s := &r.Streams[i]
		streams[s.Sender] = s
		t.Sent += uint64(s.Messages)
		t.Calls += 2 * uint64(s.Messages)
	}
	for cookie, calls := range l.Calls() {
		if streams[cookie] != nil {
			t.Captured += min(calls.Sent, uint64(streams[cookie].Messages))
		}
		ends[cookie] = calls.Received
	}
	for _, s := range r.Streams {
		t.Captured += min(ends[s.Receiver], uint64(s.Messages))
	}
	found := messages.Find([]*messages.Log{l}, func(m messages.Match) {
		s := streams[m.Send.Cookie]
		switch {
		case s == nil:
		case m.Receive.Cookie == s.Receiver && m.Receive.Position == m.Send.Position &&
			m.Receive.Bytes == m.Send.Bytes:
			t.Matched++
		default:
			t.Wrong++
		}
	})
	t.Left = map[string]uint64{}
	for reason, n := range found.Left {
		t.Left[string(reason)] = n
	}
	return t
}

var errNoReport = errors.New("the talking process said nothing")

func noReport(err error) error {
	if errors.Is(err, io.EOF) {
		return errNoReport
	}
	return err
}
