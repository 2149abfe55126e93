package coordinator

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// logFile makes a log of some ten kilobytes.
func logFile(t *testing.T, f *fleet, node, name string) (file string, content []byte) {
	t.Helper()
	parsed, err := channel.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	h := logstore.Header{
		Node: node, NodeNumber: 1, Epoch: "e1", Channel: parsed,
		Settings:    channel.Settings{Kind: channel.Identity},
		Incarnation: logstore.Incarnation{byte(f.r.Uint32()), 1},
		ProcessID:   1, Counter: 1, UTCLo_ns: 1, UTCHi_ns: 2,
	}
	path := filepath.Join(t.TempDir(), logstore.SegmentName(parsed, h.Incarnation, 0))
	w, err := logstore.Create(nil, path, h)
	if err != nil {
		t.Fatal(err)
	}
	for first := uint64(0); first < 800; first += 100 {
		b := logstore.Block{Incarnation: h.Incarnation, First: first, Plain: true}
		for i := range uint64(100) {
			b.Events = append(b.Events, logstore.Event{Counter: first + i, ID: f.r.Uint64()})
		}
		if err := w.Append(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return filepath.Base(path), content
}

// withLogs returns a fleet of three nodes with logs, and the size of n00's logs in bytes.
func withLogs(t *testing.T) (f *fleet, size int) {
	t.Helper()
	f = newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	for _, name := range names(3) {
		for _, ch := range []string{"a/x", "b/x"} {
			file, content := logFile(t, f, name, ch)
			f.clients[name].files["logs/"+name+"/"+file] = content
			if name == "n00" {
				size += len(content)
			}
		}
	}
	return f, size
}

// openedFleet returns the fleet of withLogs with an open run.
func openedFleet(t *testing.T) (f *fleet, of *fakeClient, size int) {
	t.Helper()
	f, size = withLogs(t)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatal(f.phase())
	}
	return f, f.clients["n00"], size
}

// collectingFleet makes a fleet with openedFleet, stops its run, and returns the fleet in the
// middle of the collection: n00 has sent three quarters of its bytes.
func collectingFleet(t *testing.T) (f *fleet, of *fakeClient, size int) {
	t.Helper()
	f, of, size = openedFleet(t)
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return of.sent > size*3/4 }) {
		t.Fatalf("%s, %d bytes came", f.phase(), of.sent)
	}
	return f, of, size
}

// waitComplete waits until the run is complete. It returns what the run lacks, and how many of the
// nodes' files are in the run unchanged.
func (f *fleet) waitComplete() (missing []runs.Missing, whole int) {
	f.t.Helper()
	if !f.run(3*time.Minute, func() bool { return f.core.run == nil }) {
		f.t.Fatalf("the run is %s", f.phase())
	}
	status := f.core.lastRun
	if status.Problem != "" {
		f.t.Fatal(status.Problem)
	}
	path := filepath.Join(f.store.runs, "r")
	for _, c := range f.clients {
		for name, content := range c.files {
			to := filepath.FromSlash(pathInRun(c.register.Name, name))
			got, err := os.ReadFile(filepath.Join(path, to))
			if err == nil && bytes.Equal(got, content) {
				whole++
			}
		}
	}
	var parts int
	dir := filepath.Join(f.store.dir, "parts")
	filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			parts++
		}
		return nil
	})
	if parts > 0 {
		f.t.Errorf("%d parts are left", parts)
	}
	return status.Missing, whole
}

func TestFilesOfANodeThatComesBack(t *testing.T) {
	f, c, size := collectingFleet(t)
	c.state = clientKilled
	c.life++
	f.run(10*time.Second, nil) // until the server finds the node dead
	if f.phase() != PhaseCollecting {
		t.Fatalf("the run is %s without the node", f.phase())
	}
	c.state = clientRunning
	c.register.Instance = "i0"
	c.connect()
	missing, whole := f.waitComplete()
	if len(missing) > 0 || whole != 6 {
		t.Errorf("%d of 6 files are whole, missing: %v", whole, missing)
	}
	// The server orders the node twice to close the run, because the node may have missed the first
	// order.
	if n := len(c.opened); n != 3 || !c.opened[1].Close || !c.opened[2].Close {
		t.Errorf("it was told %+v", c.opened)
	}
	if c.sent > size+2000 {
		t.Errorf("it sent %d bytes of %d: it did not continue where it was", c.sent, size)
	}
	all := int64(0)
	for _, c := range f.clients {
		for _, content := range c.files {
			all += int64(len(content))
		}
	}
	if s := f.core.lastRun; s.Bytes != all || s.Of != all {
		t.Errorf("status says that %d of %d bytes came, want %d", s.Bytes, s.Of, all)
	}
}

func TestFilesOfANodeThatStaysAway(t *testing.T) {
	f, c, _ := collectingFleet(t)
	c.state = clientKilled
	c.life++
	begin := f.time
	missing, whole := f.waitComplete()
	if whole < 4 || len(missing) != 1 || missing[0].Part != "node n00" ||
		!strings.Contains(missing[0].Reason, "was not back within 30s") {
		t.Errorf("%d files are whole, missing: %v", whole, missing)
	}
	if took := f.time - begin; took > f.config.Return+f.config.Dead {
		t.Errorf("the run waited for %v", took)
	}
}

// If the server gives up one node, it still waits for the other one that is away.
func TestOneNodeStaysAwayAndAnotherComesBack(t *testing.T) {
	f, c, _ := openedFleet(t)
	d := f.clients["n01"]
	c.state = clientKilled
	c.life++
	f.run(10*time.Second, nil)
	f.ask(AskStopRun, nil)
	if !f.run(10*time.Second, func() bool { return d.sent > 1000 }) {
		t.Fatal(f.phase())
	}
	d.state = clientKilled
	d.life++
	f.run(f.config.Return-5*time.Second, nil)
	run := f.core.run
	if away := f.core.runStatus().Away; len(away) != 1 {
		t.Errorf("the server waits for %v", away)
	}
	if run == nil || !run.collect[0].waitEnd.IsZero() || run.collect[1].waitEnd.IsZero() {
		t.Fatal("want the first node given up, and the second one waited for")
	}
	d.comeBack()
	missing, whole := f.waitComplete()
	ofSecond := func(m runs.Missing) bool { return m.Part == "node n01" }
	if whole != 4 || slices.ContainsFunc(missing, ofSecond) {
		t.Errorf("%d of 4 files are whole, missing: %v", whole, missing)
	}
}

func TestFilesAfterTheServersRestart(t *testing.T) {
	f, c, size := collectingFleet(t)
	f.restart()
	missing, whole := f.waitComplete()
	if len(missing) > 0 || whole != 6 {
		t.Errorf("%d of 6 files are whole, missing: %v", whole, missing)
	}
	if c.sent > size+2000 {
		t.Errorf("%d bytes were sent of %d: it did not continue where it was", c.sent, size)
	}
}

// A run loses nothing if the server restarts in any phase. The restarted server must first wait
// until the nodes have found it again.
func TestRunAfterTheServersRestart(t *testing.T) {
	for _, phase := range []Phase{PhaseBefore, PhaseOpening, PhaseClosing, PhaseAfter} {
		t.Run(string(phase), func(t *testing.T) {
			f, _ := withLogs(t)
			f.ask(AskStartRun, RunRequest{Name: "r"})
			before := phase == PhaseBefore || phase == PhaseOpening
			if !before {
				f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
				f.ask(AskStopRun, nil)
			}
			if !f.run(time.Minute, func() bool { return f.phase() == phase }) {
				t.Fatalf("the run is %s", f.phase())
			}
			f.restart()
			f.core.tick()
			if before {
				f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
				if s := f.core.sweepStatus(); phase == PhaseBefore && s.Complete != 3 {
					t.Errorf("the sweep before the run is %+v", s)
				}
				f.run(10*time.Second, nil)
				f.ask(AskStopRun, nil)
			}
			missing, whole := f.waitComplete()
			if whole != 6 {
				t.Errorf("%d of 6 files are whole", whole)
			}
			s := f.core.sweepStatus()
			if len(missing) > 0 || s.Why != "after run r" || s.Complete != 3 {
				t.Errorf("missing: %v; the sweep after the run is %+v", missing, s)
			}
			for name, c := range f.clients {
				if !c.opened[len(c.opened)-1].Close {
					t.Errorf("%s was told %+v", name, c.opened)
				}
			}
		})
	}
}

// If the part of a file that arrived before the server's restart is damaged on the server's disk,
// the file is fetched again.
func TestAPartThatIsDamagedIsFetchedAgain(t *testing.T) {
	f, c, size := collectingFleet(t)
	f.core = nil
	parts, err := filepath.Glob(filepath.Join(f.store.dir, "parts", "*"))
	if err != nil || len(parts) == 0 {
		t.Fatal(parts, err)
	}
	for _, part := range parts {
		b, err := os.ReadFile(part)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(part, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.restart()
	missing, whole := f.waitComplete()
	if len(missing) > 0 || whole != 6 {
		t.Errorf("%d of 6 files are whole, missing: %v", whole, missing)
	}
	if c.sent < size+size/8 {
		t.Errorf("%d bytes were sent of %d: nothing was fetched again", c.sent, size)
	}
}

// A log that is damaged on its node is fetched as it is, and the run names it as damaged.
func TestADamagedLogIsNamed(t *testing.T) {
	f, c, _ := collectingFleet(t)
	for _, c := range f.clients { // the log is damaged before the next run begins
		if c.register.Name == "n01" {
			for name, b := range c.files {
				if strings.Contains(name, "a~x") {
					b[len(b)/2] ^= 1
				}
			}
		}
	}
	f.waitComplete()
	c.sent = 0
	if m := f.ask(AskRemoveRun, RunRequest{Name: "r"}); m == nil {
		t.Fatal("no answer")
	}
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
	f.ask(AskStopRun, nil)
	missing, whole := f.waitComplete()
	if whole != 6 || len(missing) != 1 || missing[0].Part != "node n01" ||
		!strings.Contains(missing[0].Reason, "a~x") ||
		!strings.Contains(missing[0].Reason, "1 places are damaged") {
		t.Errorf("%d of 6 files are as on the nodes, missing: %v", whole, missing)
	}
}

// The server does not mistake parts of one run's files for parts of another run's files, although
// their paths are the same.
func TestPartsOfAnotherRun(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	file, content := logFile(t, f, "n00", "a/x")
	f.clients["n00"].files["logs/n00/"+file] = content
	for _, run := range []string{"r", "before"} {
		part := f.store.partPath(run, "n00", "logs/n00/"+file)
		if err := appendTo(part, []byte("what another run had")); err != nil {
			t.Fatal(err)
		}
	}
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
	f.ask(AskStopRun, nil)
	missing, whole := f.waitComplete()
	if whole != 1 || len(missing) > 0 {
		t.Errorf("%d files are whole, missing: %v", whole, missing)
	}
}

// fleetWithoutNode returns the fleet that the function openedFleet makes, after n00 went away and
// the run was completed without n00's files.
func fleetWithoutNode(t *testing.T) (f *fleet, of *fakeClient) {
	t.Helper()
	f, of, _ = openedFleet(t)
	of.state = clientKilled
	of.life++
	f.run(10*time.Second, nil)
	f.ask(AskStopRun, nil)
	missing, whole := f.waitComplete()
	if whole != 4 || len(missing) == 0 || of.register.OpenRun != "r" {
		t.Fatalf("%d files are whole, missing: %v", whole, missing)
	}
	return f, of
}

func (c *fakeClient) comeBack() {
	c.state = clientRunning
	c.register.Instance += "'"
	c.connect()
	c.f.run(3*time.Second, nil)
}

func relationsOf(t *testing.T, f *fleet) map[string]string {
	t.Helper()
	all := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(f.store.runs, "r*", "relations", "*"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(p)] = string(b)
	}
	return all
}

// If a node answers with something that the server did not ask for, the server asks again a few
// times and then gives up. Nothing from that node gets into the run.
func TestAnswersThatWereNotAskedFor(t *testing.T) {
	onChunk := func(change func(*control.Chunk)) func(control.Message) control.Message {
		return func(m control.Message) control.Message {
			if chunk, ok := m.(*control.Chunk); ok {
				change(chunk)
			}
			return m
		}
	}
	for name, test := range map[string]struct {
		instead func(control.Message) control.Message
		says    string
	}{
		"another file":  {onChunk(func(c *control.Chunk) { c.Path += "x" }), "bytes of \"logs/"},
		"another place": {onChunk(func(c *control.Chunk) { c.Offset++ }), "at 1, want"},
		"nothing":       {onChunk(func(c *control.Chunk) { c.Data = nil }), "sends 0 bytes of"},
		"too much": {
			onChunk(func(c *control.Chunk) { c.Data = make([]byte, 100_000) }),
			"sends 100000 bytes of",
		},
		"no part": {func(m control.Message) control.Message {
			if _, ok := m.(*control.Chunk); ok {
				return &control.Done{}
			}
			return m
		}, "answers a request for a file with"},
		"no list": {
			func(control.Message) control.Message { return &control.Done{} },
			"answers a list of files with",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, c, _ := openedFleet(t)
			answers := 0
			c.instead = func(m control.Message) control.Message {
				answers++
				return test.instead(m)
			}
			f.ask(AskStopRun, nil)
			missing, whole := f.waitComplete()
			if whole != 4 || len(missing) == 0 || missing[0].Part != "node n00" ||
				!strings.HasPrefix(missing[0].Reason, notFetched+": ") ||
				!strings.Contains(missing[0].Reason, test.says) {
				t.Errorf("%d of 4 files are whole, missing: %v", whole, missing)
			}
			got, _ := filepath.Glob(filepath.Join(f.store.runs, "r", "logs", "n00", "*"))
			if len(got) > 0 {
				t.Errorf("in the run: %v", got)
			}
			want := map[bool]int{true: 1, false: 1 + collectTries}[name == "no list"]
			if answers != want {
				t.Errorf("it was asked %d times, want %d", answers, want)
			}
		})
	}
}

// The server counts failed tries for each part separately. So it does not give up a node that fails
// to answer some requests, as long as each part arrives after a few tries.
func TestAPartIsAskedForAgain(t *testing.T) {
	f, c, _ := openedFleet(t)
	parts := 0
	c.instead = func(m control.Message) control.Message {
		if _, ok := m.(*control.Chunk); ok {
			if parts++; parts%collectTries > 0 {
				return &control.Done{}
			}
		}
		return m
	}
	f.ask(AskStopRun, nil)
	if missing, whole := f.waitComplete(); whole != 6 || len(missing) > 0 {
		t.Errorf("%d of 6 files are whole, missing: %v", whole, missing)
	}
}

// If a node is still writing its files, the run says so. The run also gets an empty file of the
// node, and says that the file is empty.
func TestAListThatIsNotComplete(t *testing.T) {
	f, c, _ := openedFleet(t)
	c.files["logs/n00.ntp"] = nil
	c.instead = func(m control.Message) control.Message {
		if files, ok := m.(*control.Files); ok {
			files.More = true
		}
		return m
	}
	f.ask(AskStopRun, nil)
	missing, whole := f.waitComplete()
	if whole != 7 || len(missing) != 2 || missing[0].Part != "node n00" ||
		!strings.Contains(missing[0].Reason, "it was still writing") ||
		!strings.Contains(missing[1].Reason, "file is empty") {
		t.Errorf("%d of 7 files are whole, missing: %v", whole, missing)
	}
}
