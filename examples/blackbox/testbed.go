package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/internal/truth"
	"github.com/cloudprofiler/cloudprofiler/report"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// A testbed is the engine of the demonstration: it starts the services on three virtual nodes,
// sends them load while their messages are captured, and compares the captured messages with what
// the services wrote down.
type testbed struct {
	services
	Connections, Requests, PerSecond int

	nodes    []demo.EngineNode
	address  string // address for the load
	split    logSplitter
	clock    clock
	began_ns int64 // start of the capture
	stats    capture.Stats

	answer    *messages.Answer
	captured  map[string]*capturedCount
	matched   map[string]*matchedCount
	transfers transferErrors
	links     map[string]int // links written down, by program
	linked    map[string]*causeCount
	faults    []string
}

func absolute(path *string) (err error) {
	if *path != "" {
		*path, err = filepath.Abs(*path)
	}
	return err
}

// Nodes returns the number of nodes: the load and nginx are on the first, the gateway and the
// thread pool on the second, and everything else is on the third.
func (t *testbed) Nodes() int { return 3 }

// Start starts the services.
func (t *testbed) Start(ctx context.Context, nodes []demo.EngineNode, temporary string) error {
	if t.Truth == "" {
		t.Truth = filepath.Join(temporary, "truth")
	}
	if err := os.MkdirAll(t.Truth, 0o755); err != nil {
		return err
	}
	t.nodes = nodes
	for _, n := range nodes {
		var s unix.Stat_t
		err := n.Do(func() error { return unix.Stat("/proc/thread-self/ns/net", &s) })
		if err != nil {
			return err
		}
		t.split.namespaces = append(t.split.namespaces, uint32(s.Ino))
		t.split.nodes = append(t.split.nodes, n.Name)
	}
	var err error
	t.address, err = t.services.start(ctx, nodes)
	return err
}

// Run captures the messages while the load is sent.
func (t *testbed) Run(ctx context.Context) error {
	var c *capture.Capture
	if t.Preload == "" {
		var err error
		if c, err = capture.Start(capture.Options{Dir: t.nodes[0].Rings}); err != nil {
			return err
		}
		defer c.Close()
	}
	t.began_ns = readClock()
	looking, stop := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		t.clock.look(looking)
	}()
	load := exec.CommandContext(ctx, t.self, "load", t.address, strconv.Itoa(t.Connections),
		strconv.Itoa(t.Requests), strconv.Itoa(t.PerSecond), filepath.Join(t.Truth, "load.tsv"))
	var said strings.Builder
	load.Stderr = &said
	err := t.nodes[0].Do(load.Start)
	if err == nil {
		err = load.Wait()
	}
	stop()
	<-looked
	if err != nil {
		return fmt.Errorf("send the load: %w: %s", err, said.String())
	}
	// The last datagrams may arrive after the last response. A service that ends has received them.
	// The libraries' rings end with their programs, too.
	t.services.stop()
	if c == nil {
		return nil
	}
	err = c.Close()
	t.stats = c.Stats()
	return err
}

// Stop stops the services.
func (t *testbed) Stop() { t.services.stop() }

// Collected gives each node its own log.
func (t *testbed) Collected(logs []string) error {
	t.services.stop()
	if t.Preload != "" {
		return t.split.keepLogs(logs)
	}
	return t.split.splitLog(logs)
}

// Judge compares the run with the truth.
func (t *testbed) Judge(run *runs.Directory, known *truth.Counters) error {
	all, err := readTruth(t.Truth)
	if err != nil {
		return err
	}
	if t.Preload != "" { // the library does not capture programs in Go
		all = slices.DeleteFunc(all, func(m *message) bool {
			return m.service == "load" || m.service == "gateway"
		})
	}
	t.captured, t.faults = holdCaptured(all, &t.split, t.began_ns, t.clock.ns)
	if err := t.split.readCounters(run); err != nil {
		return err
	}
	links := filepath.Join(t.Truth, "links.txt")
	if t.links, err = t.split.writeLinks(links, all); err != nil {
		return err
	}
	if err := t.holdLinked(run, links); err != nil {
		return err
	}
	return t.holdMatched(run, all, t.split.virtualTruth(), known)
}

// Describe adds to the page who talked to whom, and which calls requests led to.
func (t *testbed) Describe(run *runs.Directory, data *report.Data) error {
	found, err := paths.Of(run, pathOptions(run))
	data.AddMessages(t.answer)
	data.AddRequests(found)
	return err
}

// print prints the result. It returns an error if the result is not as required.
func (t *testbed) print(w io.Writer) error {
	if len(t.Absent) > 0 {
		fmt.Fprintf(w, "not installed: %s\n", strings.Join(t.Absent, ", "))
	}
	fmt.Fprintf(w, "%d requests; %d messages captured, %v lost\n\n", t.Requests,
		len(t.split.allMessages),
		t.stats.Lost)
	fmt.Fprintf(w, "%-9s %10s %10s %8s %6s %6s %10s %10s %6s\n", "protocol", "messages",
		"captured", "nobody's", "early", "late", "to match", "right", "wrong")
	bad := 0
	for _, p := range protocols(t.captured) {
		c, m := t.captured[p], t.matched[p]
		if m == nil {
			m = &matchedCount{}
		}
		fmt.Fprintf(w, "%-9s %10d %10d %8d %6d %6d %10d %10d %6d\n", p, c.True, c.Captured,
			c.Nobody, c.Early, c.Late, m.True, m.Right, m.Wrong)
		bad += c.Nobody + c.Early + c.Late + m.Wrong
	}
	fmt.Fprintf(w, "\n%d transfers compared with the truth, %d of them between nodes: %d outside "+
		"of their bound; median half-width between nodes %d cycles\n", t.transfers.Known,
		t.transfers.Between, t.transfers.Outside, t.transfers.medianHalfWidth())
	fmt.Fprintf(w, "true links, by program: %v\n", t.links)
	t.printLinked(w)
	fmt.Fprintf(w, "not matched, of all programs: %v\n", t.answer.Left)
	for _, faults := range [][]string{t.faults, t.transfers.faults} {
		for _, f := range faults[:min(len(faults), 5)] {
			fmt.Fprintln(w, f)
		}
	}
	if bad+t.transfers.Outside > 0 || t.transfers.Between == 0 {
		return errors.New("the captured messages are not the truth: this is a defect")
	}
	return nil
}

// A clock converts readings of the machine's counter to times of CLOCK_MONOTONIC, which services
// write down.
type clock struct {
	ticks []uint64
	at_ns []int64
}

// look notes readings of the counter and of CLOCK_MONOTONIC, taken together, until ctx ends.
func (c *clock) look(ctx context.Context) {
	for {
		narrowest := ^uint64(0)
		var tick uint64
		var at int64
		for range 20 {
			before := asm.Counter()
			read := readClock()
			if width := asm.Counter() - before; width < narrowest {
				narrowest, tick, at = width, before+width/2, read
			}
		}
		c.ticks, c.at_ns = append(c.ticks, tick), append(c.at_ns, at)
		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// ns converts a reading of the counter.
func (c *clock) ns(tick uint64) int64 {
	i := sort.Search(len(c.ticks), func(i int) bool { return c.ticks[i] > tick })
	i = min(max(i, 1), len(c.ticks)-1)
	share := float64(int64(tick-c.ticks[i-1])) / float64(c.ticks[i]-c.ticks[i-1])
	return c.at_ns[i-1] + int64(share*float64(c.at_ns[i]-c.at_ns[i-1]))
}
