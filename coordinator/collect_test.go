package coordinator

import (
	"bytes"
	"io/fs"
	"maps"
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

// logFile is the log of a ring, in some ten kilobytes.
func logFile(t *testing.T, f *fleet, node, name string) (file string, content []byte) {
	t.Helper()
	parsed, err := channel.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	h := logstore.Header{Format: logstore.Plain, Node: node, NodeNumber: 1, Epoch: "e1", Channel: parsed, Settings: channel.Settings{Kind: channel.Identity},
		Incarnation: logstore.Incarnation{byte(f.r.Uint32()), 1}, ProcessID: 1, Counter: 1, UTCLo_ns: 1, UTCHi_ns: 2}
	path := filepath.Join(t.TempDir(), logstore.SegmentName(parsed, h.Incarnation, 0))
	w, err := logstore.Create(nil, path, h)
	if err != nil {
		t.Fatal(err)
	}
	for first := uint64(0); first < 800; first += 100 {
		b := logstore.Block{Incarnation: h.Incarnation, First: first}
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

// withLogs is a fleet of three with logs. It returns the number of bytes of those of n00 as well.
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

// opened is one whose run is open.
func opened(t *testing.T) (f *fleet, of *fakeClient, size int) {
	t.Helper()
	f, size = withLogs(t)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatal(f.phase())
	}
	return f, f.clients["n00"], size
}

// collecting is one whose run has come to fetching, n00 having sent about half of what it has.
func collecting(t *testing.T) (f *fleet, of *fakeClient, size int) {
	t.Helper()
	f, of, size = opened(t)
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return of.sent > size*3/4 }) {
		t.Fatalf("%s, %d bytes came", f.phase(), of.sent)
	}
	return f, of, size
}

// complete waits for the end of the run, and returns what is missing and which of the nodes' files are in it as they were.
func (f *fleet) complete() (missing []runs.Missing, whole int) {
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
			got, err := os.ReadFile(filepath.Join(path, filepath.FromSlash(place(c.register.Name, name))))
			if err == nil && bytes.Equal(got, content) {
				whole++
			}
		}
	}
	var parts int
	filepath.WalkDir(filepath.Join(f.store.dir, "parts"), func(_ string, e fs.DirEntry, err error) error {
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
	f, c, size := collecting(t)
	c.state = killed
	c.life++
	f.run(10*time.Second, nil) // it is found dead, and the others have long sent theirs
	if f.phase() != PhaseCollecting {
		t.Fatalf("the run is %s without the node", f.phase())
	}
	c.state = running
	c.register.Instance = "i0"
	c.connect()
	missing, whole := f.complete()
	if len(missing) > 0 || whole != 6 {
		t.Errorf("%d of 6 files are whole, missing: %v", whole, missing)
	}
	if n := len(c.opened); n != 3 || !c.opened[1].Close || !c.opened[2].Close { // the second time, because it may have missed the first
		t.Errorf("it was told %+v", c.opened)
	}
	if c.sent > size+2000 {
		t.Errorf("it sent %d bytes of %d: not on from where it was", c.sent, size)
	}
	all := int64(0)
	for _, c := range f.clients {
		for _, content := range c.files {
			all += int64(len(content))
		}
	}
	if s := f.core.lastRun; s.Bytes != all || s.Of != all {
		t.Errorf("%d of %d bytes are said to have come, want %d", s.Bytes, s.Of, all)
	}
}

func TestFilesOfANodeThatStaysAway(t *testing.T) {
	f, c, _ := collecting(t)
	c.state = killed
	c.life++
	begin := f.time
	missing, whole := f.complete()
	if whole < 4 || len(missing) != 1 || missing[0].Part != "node n00" || !strings.Contains(missing[0].Reason, "was not back within 30s") {
		t.Errorf("%d files are whole, missing: %v", whole, missing)
	}
	if took := f.time - begin; took > f.config.Return+f.config.Dead {
		t.Errorf("the run waited for %v", took)
	}
}

// One that is given up does not end the wait for another.
func TestOneNodeStaysAwayAndAnotherComesBack(t *testing.T) {
	f, c, _ := opened(t)
	d := f.clients["n01"]
	c.state = killed
	c.life++
	f.run(10*time.Second, nil)
	f.ask(AskStopRun, nil)
	if !f.run(10*time.Second, func() bool { return d.sent > 1000 }) {
		t.Fatal(f.phase())
	}
	d.state = killed
	d.life++
	f.run(f.config.Return-5*time.Second, nil)
	if f.core.run == nil || !f.core.run.collect[0].until.IsZero() || f.core.run.collect[1].until.IsZero() {
		t.Fatal("it is not time that the one is given up, and the other is not")
	}
	d.comeBack()
	missing, whole := f.complete()
	if whole != 4 || slices.ContainsFunc(missing, func(m runs.Missing) bool { return m.Part == "node n01" }) {
		t.Errorf("%d of 4 files are whole, missing: %v", whole, missing)
	}
}

func TestFilesAfterTheServersRestart(t *testing.T) {
	f, c, size := collecting(t)
	f.restart()
	missing, whole := f.complete()
	if len(missing) > 0 || whole != 6 {
		t.Errorf("%d of 6 files are whole, missing: %v", whole, missing)
	}
	if c.sent > size+2000 {
		t.Errorf("%d bytes were sent of %d: not on from where it was", c.sent, size)
	}
}

// A server that is started again asks for what is due at once, when no node has found it yet. A run loses nothing by that.
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
			missing, whole := f.complete()
			if whole != 6 {
				t.Errorf("%d of 6 files are whole", whole)
			}
			if s := f.core.sweepStatus(); len(missing) > 0 || s.Why != "after run r" || s.Complete != 3 {
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

// What came of a file before the server's restart is damaged on its disk meanwhile: the file is fetched again.
func TestAPartThatIsDamagedIsFetchedAgain(t *testing.T) {
	f, c, size := collecting(t)
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
	missing, whole := f.complete()
	if len(missing) > 0 || whole != 6 {
		t.Errorf("%d of 6 files are whole, missing: %v", whole, missing)
	}
	if c.sent < size+size/8 {
		t.Errorf("%d bytes were sent of %d: nothing was fetched again", c.sent, size)
	}
}

// A log that is damaged on its node is fetched as it is, and named.
func TestADamagedLogIsNamed(t *testing.T) {
	f, c, _ := collecting(t)
	for _, c := range f.clients { // the next run has them damaged from the beginning
		if c.register.Name == "n01" {
			for name, b := range c.files {
				if strings.Contains(name, "a~x") {
					b[len(b)/2] ^= 1
				}
			}
		}
	}
	f.complete()
	c.sent = 0
	if m := f.ask(AskRemoveRun, RunRequest{Name: "r"}); m == nil {
		t.Fatal("no answer")
	}
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
	f.ask(AskStopRun, nil)
	missing, whole := f.complete()
	if whole != 6 || len(missing) != 1 || missing[0].Part != "node n01" || !strings.Contains(missing[0].Reason, "a~x") || !strings.Contains(missing[0].Reason, "1 places are damaged") {
		t.Errorf("%d of 6 files are as on the nodes, missing: %v", whole, missing)
	}
}

// What had come of a run's files is no beginning of another run's, though they have the same paths.
func TestPartsOfAnotherRun(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	file, content := logFile(t, f, "n00", "a/x")
	f.clients["n00"].files["logs/n00/"+file] = content
	for _, run := range []string{"r", "before"} {
		if err := appendTo(f.store.partPath(run, "n00", "logs/n00/"+file), []byte("what another run had")); err != nil {
			t.Fatal(err)
		}
	}
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
	f.ask(AskStopRun, nil)
	if missing, whole := f.complete(); whole != 1 || len(missing) != 1 || missing[0].Part != "logs/n01" {
		t.Errorf("%d files are whole, missing: %v", whole, missing)
	}
}

// away is one whose run was completed while n00 was not there.
func away(t *testing.T) (f *fleet, of *fakeClient) {
	t.Helper()
	f, of, _ = opened(t)
	of.state = killed
	of.life++
	f.run(10*time.Second, nil)
	f.ask(AskStopRun, nil)
	if missing, whole := f.complete(); whole != 4 || len(missing) == 0 || of.register.OpenRun != "r" {
		t.Fatalf("%d files are whole, missing: %v", whole, missing)
	}
	return f, of
}

func (c *fakeClient) comeBack() {
	c.state = running
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

// A node that was away while its run ended closes it when it is back, and its logs can then be fetched; also over the server's own restart.
func TestCollectOnceMore(t *testing.T) {
	for _, restart := range []bool{false, true} {
		f, c := away(t)
		relations := relationsOf(t, f)
		c.comeBack()
		if last := c.opened[len(c.opened)-1]; last.Name != "r" || !last.Close || c.register.OpenRun != "" {
			t.Fatalf("it was told %+v", c.opened)
		}
		if _, ok := f.ask(AskCollectRun, RunRequest{Name: "r"}).(*control.Answer); !ok {
			t.Fatal("no answer")
		}
		if restart {
			if !f.run(time.Minute, func() bool { return c.sent > 5000 }) || f.core.run == nil {
				t.Fatalf("%d bytes came", c.sent)
			}
			f.restart()
		}
		sweeps := f.core.last
		missing, whole := f.complete()
		if whole != 6 || len(missing) > 0 {
			t.Errorf("restart %v: %d of 6 files are whole, missing: %v", restart, whole, missing)
		}
		if f.core.last != sweeps || !maps.Equal(relations, relationsOf(t, f)) {
			t.Errorf("restart %v: what was measured is another now", restart)
		}
	}
}

func TestCollectOnceMoreFromNobody(t *testing.T) {
	f, _ := away(t)
	before := f.core.lastRun.Missing
	f.ask(AskCollectRun, RunRequest{Name: "r"})
	missing, whole := f.complete()
	about := func(all []runs.Missing, text string) int {
		n := 0
		for _, m := range all {
			if strings.Contains(m.Reason, text) {
				n++
			}
		}
		return n
	}
	if whole != 4 || about(missing, notFetched) != 1 || about(missing, "no log of this node") != about(before, "no log of this node") {
		t.Errorf("%d files are whole, missing before: %v, missing: %v", whole, before, missing)
	}
	for name, want := range map[string]string{"nobody": "no complete run", "": "is empty", "../r": "name"} {
		if m, ok := f.ask(AskCollectRun, RunRequest{Name: name}).(*control.Refusal); !ok || !strings.Contains(m.Text, want) {
			t.Errorf("run %q: %+v", name, m)
		}
	}
	f.ask(AskStartRun, RunRequest{Name: "next"})
	if m, ok := f.ask(AskCollectRun, RunRequest{Name: "r"}).(*control.Refusal); !ok || m.Code != control.NotNow {
		t.Errorf("while another run is under way: %+v", m)
	}
}

// One that is back before the anchors after are measured is told then.
func TestANodeThatIsBackInTimeClosesTheRun(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
	c := f.clients["n00"]
	c.state = killed
	c.life++
	f.run(10*time.Second, nil)
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseAfter }) {
		t.Fatal(f.phase())
	}
	c.comeBack()
	if last := c.opened[len(c.opened)-1]; !last.Close {
		t.Errorf("it was told %+v", c.opened)
	}
}

// One that is back while the run is collected once more is told as well, and gives what it has.
func TestANodeThatIsBackWhileTheRunIsCollected(t *testing.T) {
	f, c := away(t)
	d := f.clients["n01"]
	relations := relationsOf(t, f)
	if err := os.RemoveAll(filepath.Join(f.store.runs, "r", "logs", "n01")); err != nil { // so that it takes a while
		t.Fatal(err)
	}
	f.ask(AskCollectRun, RunRequest{Name: "r"})
	f.run(time.Millisecond, nil)
	d.cut = true // and it is waited for
	f.run(10*time.Second, nil)
	if f.phase() != PhaseCollecting {
		t.Fatal(f.phase())
	}
	c.comeBack()
	if last := c.opened[len(c.opened)-1]; !last.Close {
		t.Errorf("it was told %+v", c.opened)
	}
	// What is measured meanwhile is none of the run's.
	train, _ := c.train(f.clients["n02"], 3)
	c.send(0, &control.Trains{Report: c.report + 1, Peer: "n02", PeerEpoch: "e1", Epoch: "e1", Trains: []control.Train{train}})
	f.ask(AskSetTable, TableRequest{Text: "version: 1\nrules: []\n"}) // and what is served meanwhile was never in force in it
	f.run(time.Second, nil)
	d.cut = false
	d.register.Instance += "'"
	d.connect()
	if _, whole := f.complete(); whole != 4 { // n00 was given up before
		t.Errorf("%d of 4 files are whole", whole)
	}
	if !maps.Equal(relations, relationsOf(t, f)) {
		t.Error("what was measured is another now")
	}
	dir, err := runs.Open(filepath.Join(f.store.runs, "r"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if changes, err := dir.Table(); err != nil || len(changes) > 0 {
		t.Errorf("handler tables of the run: %v, %v", changes, err)
	}
}

// One that is cut off just while others are told that the run ends hears of it when the run is collected from once more.
func TestANodeThatMissedTheEnd(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
	c := f.clients["n00"]
	c.cut = true
	f.ask(AskStopRun, nil)
	f.run(2*time.Second, nil)
	c.cut = false
	if missing, _ := f.complete(); c.register.OpenRun != "r" || !slices.ContainsFunc(missing, func(m runs.Missing) bool { return strings.HasPrefix(m.Reason, closingRun) }) {
		t.Fatalf("open: %q; missing: %v", c.register.OpenRun, missing)
	}
	f.ask(AskCollectRun, RunRequest{Name: "r"})
	if missing, _ := f.complete(); c.register.OpenRun != "" || slices.ContainsFunc(missing, func(m runs.Missing) bool { return strings.HasPrefix(m.Reason, closingRun) }) {
		t.Errorf("open: %q; missing: %v", c.register.OpenRun, missing)
	}
}

// A run that is none of the server's stays open.
func TestRunsOfOthersStayOpen(t *testing.T) {
	f, c := away(t)
	for _, run := range []string{"local", "another"} {
		c.register.OpenRun = run
		told := len(c.opened)
		c.comeBack()
		if len(c.opened) != told {
			t.Errorf("it was told %+v", c.opened[told:])
		}
		c.state = killed
		c.life++
		f.run(10*time.Second, nil)
	}
}

// What was damaged on its way, or on its node, and is whole there now, is fetched.
// A matrix, which is evaluated while the core goes on, tells of the run as it was.
func TestWhatIsToldOfARunDoesNotChange(t *testing.T) {
	f, _, _ := opened(t)
	r := f.core.run
	r.lacks("a", "is mended")
	r.lacks("b", "is not")
	told := f.core.runStatus().Missing
	r.missing = slices.DeleteFunc(r.missing, func(m runs.Missing) bool { return m.Part == "a" })
	if len(told) != 2 || told[0].Part != "a" || told[1].Part != "b" {
		t.Errorf("it was told what is missing, and now that is %v", told)
	}
}

func TestADamagedLogIsFetchedOnceItIsWhole(t *testing.T) {
	f, c := away(t)
	c.comeBack()
	var of []byte
	for name, b := range c.files {
		if strings.Contains(name, "a~x") {
			of = b
		}
	}
	of[len(of)/2] ^= 1
	for i := range 3 {
		f.ask(AskCollectRun, RunRequest{Name: "r"})
		missing, whole := f.complete()
		if damaged := i < 2; whole != 6 || len(missing) != map[bool]int{true: 1}[damaged] || damaged && !strings.HasPrefix(missing[0].Reason, notWhole) {
			t.Errorf("%d: %d of 6 files are as on the nodes, missing: %v", i, whole, missing)
		}
		if i == 1 {
			of[len(of)/2] ^= 1
		}
	}
}

// A node that answers something else than it was asked for is asked a few times, and then given up: nothing of it comes into the run.
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
		"too much":      {onChunk(func(c *control.Chunk) { c.Data = make([]byte, 100_000) }), "sends 100000 bytes of"},
		"no part": {func(m control.Message) control.Message {
			if _, ok := m.(*control.Chunk); ok {
				return &control.Done{}
			}
			return m
		}, "answers a request for a file with"},
		"no list": {func(control.Message) control.Message { return &control.Done{} }, "answers a list of files with"},
	} {
		t.Run(name, func(t *testing.T) {
			f, c, _ := opened(t)
			answers := 0
			c.instead = func(m control.Message) control.Message {
				answers++
				return test.instead(m)
			}
			f.ask(AskStopRun, nil)
			missing, whole := f.complete()
			if whole != 4 || len(missing) == 0 || missing[0].Part != "node n00" || !strings.HasPrefix(missing[0].Reason, notFetched+": ") || !strings.Contains(missing[0].Reason, test.says) {
				t.Errorf("%d of 4 files are whole, missing: %v", whole, missing)
			}
			if got, _ := filepath.Glob(filepath.Join(f.store.runs, "r", "logs", "n00", "*")); len(got) > 0 {
				t.Errorf("in the run: %v", got)
			}
			if want := map[bool]int{true: 1, false: 1 + collectTries}[name == "no list"]; answers != want {
				t.Errorf("it was asked %d times, want %d", answers, want)
			}
		})
	}
}

// Each part has its tries: what fails now and then is asked for again.
func TestAPartIsAskedForAgain(t *testing.T) {
	f, c, _ := opened(t)
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
	if missing, whole := f.complete(); whole != 6 || len(missing) > 0 {
		t.Errorf("%d of 6 files are whole, missing: %v", whole, missing)
	}
}

// A node that is still writing is said to be. A file without content comes as well, and is named.
func TestAListThatIsNotComplete(t *testing.T) {
	f, c, _ := opened(t)
	c.files["logs/n00.ntp"] = nil
	c.instead = func(m control.Message) control.Message {
		if files, ok := m.(*control.Files); ok {
			files.More = true
		}
		return m
	}
	f.ask(AskStopRun, nil)
	missing, whole := f.complete()
	if whole != 7 || len(missing) != 2 || missing[0].Part != "node n00" || !strings.Contains(missing[0].Reason, "it was still writing") ||
		!strings.Contains(missing[1].Reason, "file is empty") {
		t.Errorf("%d of 7 files are whole, missing: %v", whole, missing)
	}
}

// What was fetched of a file while it was written is fetched whole once more.
func TestAFileThatGrew(t *testing.T) {
	f, c, _ := opened(t)
	const name = "truth.json"
	c.files[name] = []byte("{")
	f.ask(AskStopRun, nil)
	if missing, whole := f.complete(); whole != 7 || len(missing) > 0 {
		t.Errorf("%d of 7 files are whole, missing: %v", whole, missing)
	}
	c.files[name] = []byte("{}")
	c.sent = 0
	f.ask(AskCollectRun, RunRequest{Name: "r"})
	if missing, whole := f.complete(); whole != 7 || len(missing) > 0 || c.sent != 2 {
		t.Errorf("%d of 7 files are whole after %d bytes, missing: %v", whole, c.sent, missing)
	}
}

// Who keeps no files, or came when the run was over, is not asked for any.
func TestFilesOfWhoHasNone(t *testing.T) {
	f := newFleet(t, testConfig(), names(2)...)
	f.wantSweep(time.Minute)
	c := f.clients["n00"]
	c.register.Capabilities = slices.DeleteFunc(c.register.Capabilities, func(s string) bool { return s == control.CanFiles })
	c.connect()
	f.ask(AskStartRun, RunRequest{Name: "r"})
	f.run(time.Minute, func() bool { return f.phase() == PhaseOpen })
	f.ask(AskStopRun, nil)
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseAfter }) {
		t.Fatal(f.phase())
	}
	late := f.join("late")
	for _, c := range []*fakeClient{c, late} {
		c.instead = func(m control.Message) control.Message {
			t.Errorf("%s was asked for %s", c.register.Name, m.Kind())
			return m
		}
	}
	f.complete()
}
