package coordinator

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
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

// collecting is a fleet of three whose run has come to fetching, n00 having sent about half of what it has.
func collecting(t *testing.T) (f *fleet, of *fakeClient, size int) {
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
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatal(f.phase())
	}
	f.ask(AskStopRun, nil)
	of = f.clients["n00"]
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
