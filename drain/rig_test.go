package drain

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// rig is a drainer without goroutines. A test tells it when to work, and sets its clock.
type rig struct {
	t       testing.TB
	d       *Drainer
	rings   string
	logs    string
	clock   time.Duration
	noticed []error
}

func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	r := &rig{t: t, rings: t.TempDir(), logs: filepath.Join(t.TempDir(), "logs")}
	r.startRig(o)
	t.Cleanup(func() {
		r.d.Close()
		r.killDrainer() // the drainer has no goroutine that could close the rings
	})
	return r
}

// startRig starts a drainer, which continues where an earlier drainer ended.
func (r *rig) startRig(o Options) {
	r.t.Helper()
	o.Logs = r.logs
	if o.Node == "" {
		o.Node = "node-1"
	}
	o.Notify = func(err error) { r.noticed = append(r.noticed, err) }
	d, err := newDrainer(r.rings, o, func() time.Duration { return r.clock })
	if err != nil {
		r.t.Fatal(err)
	}
	r.d = d
}

// killDrainer ends the drainer as SIGKILL would: the drainer writes nothing more, and its files are
// closed.
func (r *rig) killDrainer() {
	for _, w := range r.d.workers {
		w.leaveIncoming()
		for _, s := range w.sources {
			if s != nil { // nil if the drainer died in the middle of a pass
				s.closeRing(w)
			}
		}
		w.sources = nil
	}
	r.d.once.Do(func() { r.d.lock.Close() })
}

// advanceClock moves the clock and does everything that is due.
func (r *rig) advanceClock(by time.Duration) {
	r.clock += by
	r.d.scan(r.clock)
	r.d.sampler.takeDueSamples(r.clock)
	for _, w := range r.d.workers {
		w.runPass(r.clock)
	}
}

// runFor advances the clock in steps of DefaultPoll.
func (r *rig) runFor(by time.Duration) {
	for end := r.clock + by; r.clock < end; {
		r.advanceClock(DefaultPoll)
	}
}

func (r *rig) open(name string, o handlers.Options) *handlers.Channel {
	return r.openAs(name, o, handlers.Open)
}

func (r *rig) openAs(name string, o handlers.Options,
	open func(string, handlers.Options) (*handlers.Channel, error)) *handlers.Channel {
	r.t.Helper()
	o.Dir = r.rings
	c, err := open(name, o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

// statsOf returns the stats of the ring with this channel.
func (r *rig) statsOf(name string) RingStats {
	r.t.Helper()
	for _, c := range r.d.Stats().Rings {
		if c.Channel.String() == name {
			return c
		}
	}
	r.t.Fatalf("no ring of %s in %+v", name, r.d.Stats())
	return RingStats{}
}

// logContent is the content of a log.
type logContent struct {
	events      map[int][]logstore.Event // by shard
	links       map[int][]logstore.Link
	samples     []logstore.Sample
	firstLasts  []logstore.FirstLast
	transitions map[int][]logstore.Transition
	drops       map[int][]logstore.Drop
	hurried     int // the number of events in hurried blocks
	report      logstore.Report
	header      logstore.Header
	segments    int
}

// droppedRows returns how many rows are missing for the given reason, according to the log.
func (k *logContent) droppedRows(reason logstore.Reason) (n uint64) {
	for _, drops := range k.drops {
		for _, d := range drops {
			if logstore.Reason(d.Reason) == reason {
				n += d.Count
			}
		}
	}
	return n
}

// countRows returns the number of events and links in the log.
func (k *logContent) countRows() (n int) {
	for _, rows := range k.events {
		n += len(rows)
	}
	for _, rows := range k.links {
		n += len(rows)
	}
	return n
}

// readLogs reads all logs of a directory, by channel. Each channel must have only one ring.
func readLogs(t testing.TB, dir string) map[string]*logContent {
	t.Helper()
	logs, err := tryReadLogs(dir)
	if err != nil {
		t.Fatal(err)
	}
	return logs
}

func tryReadLogs(dir string) (map[string]*logContent, error) {
	segments, err := logstore.Segments(dir)
	if err != nil {
		return nil, err
	}
	logs := map[string]*logContent{}
	for len(segments) > 0 {
		n := 1
		for n < len(segments) && segments[n].Incarnation == segments[0].Incarnation {
			n++
		}
		k, err := readLog(segments[:n])
		if err != nil {
			return nil, err
		}
		name := segments[0].Channel.String()
		if logs[name] != nil {
			return nil, fmt.Errorf("two rings of %s", name)
		}
		logs[name] = k
		segments = segments[n:]
	}
	return logs, nil
}

func readLog(segments []logstore.Segment) (*logContent, error) {
	k := &logContent{
		events: map[int][]logstore.Event{}, links: map[int][]logstore.Link{},
		transitions: map[int][]logstore.Transition{}, drops: map[int][]logstore.Drop{},
		segments: len(segments),
	}
	r := logstore.ReadLog(segments)
	defer r.Close()
	for {
		b, err := r.Next()
		var damage *logstore.CorruptionError
		if err == io.EOF {
			k.report, k.header = r.Report(), r.Header()
			return k, nil
		}
		if errors.As(err, &damage) {
			continue // the report contains this damage
		}
		if err != nil {
			return nil, err
		}
		k.events[b.Shard] = append(k.events[b.Shard], b.Events...)
		if b.Hurried {
			k.hurried += len(b.Events)
		}
		k.links[b.Shard] = append(k.links[b.Shard], b.Links...)
		k.samples = append(k.samples, b.Samples...)
		k.firstLasts = append(k.firstLasts, b.FirstLasts...)
		k.transitions[b.Shard] = append(k.transitions[b.Shard], b.Transitions...)
		k.drops[b.Shard] = append(k.drops[b.Shard], b.Drops...)
	}
}

// checkIntact fails the test if the log is damaged.
func (k *logContent) checkIntact(t testing.TB) {
	t.Helper()
	if k == nil {
		t.Fatal("no log")
	}
	if !k.report.Whole() || k.report.Duplicates+k.report.Overlaps+k.report.Foreign > 0 {
		t.Fatalf("log is not whole: %+v", k.report)
	}
}

func name(t testing.TB, s string) channel.Name {
	t.Helper()
	n, err := channel.ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
