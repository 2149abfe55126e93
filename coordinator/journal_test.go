package coordinator

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// openAt returns the core of a server that starts with a copy of a state, and what this server
// logs.
func openAt(t *testing.T, config Config, dir string) (*core, string) {
	t.Helper()
	store, err := OpenStore(dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var said bytes.Buffer
	c, err := newCore(config, store, emptyNetwork{}, time.Now,
		slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return c, said.String()
}

// emptyNetwork is a network without peers.
type emptyNetwork struct{}

func (emptyNetwork) Send(control.Peer, uint64, control.Message) error { return nil }
func (emptyNetwork) Forget(control.Peer)                              {}
func (emptyNetwork) Admit(control.Peer)                               {}

// restoredCore returns a core that was restored from what is on disk.
func (f *fleet) restoredCore() *core {
	f.t.Helper()
	dir := f.t.TempDir()
	copyFile(f.t, filepath.Join(f.store.dir, journalFile), filepath.Join(dir, journalFile))
	c, _ := openAt(f.t, f.core.config, dir)
	return c
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// summary says what a state contains: the trains of each pair, and the reports of each node.
func (c *core) summary() (trains, reports string) {
	for _, key := range c.sortedPairs(nil) {
		trains += fmt.Sprintf("%v %x\n", key, c.pairs[key].liveTrains.Encode())
	}
	for _, n := range c.nodesByName() {
		reports += fmt.Sprintf("%s %d\n", n.name(), n.reports)
	}
	return trains, reports
}

// measuredFleet returns a fleet of three nodes with an open run, whose first trains are on disk.
// The server writes again only when a test says so.
func measuredFleet(t *testing.T) *fleet {
	t.Helper()
	config := testConfig()
	config.FlushEvery = time.Hour
	f := newFleet(t, config, names(3)...)
	f.wantSweep(time.Minute)
	f.openRun("r")
	f.run(2*time.Second, nil)
	f.core.flush()
	return f
}

// A server may be killed after any byte that it writes. The next server starts with the complete
// blocks, and logs what it cuts off. If the trains of a report are lost, the next server does not
// know the report.
func TestServerIsKilledAtAnyByte(t *testing.T) {
	f := measuredFleet(t)
	path := filepath.Join(f.store.dir, journalFile)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	trainsBefore, reportsBefore := f.restoredCore().summary()
	f.run(2*time.Second, nil)
	f.core.flush()
	after, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(after, before) || len(after) == len(before) {
		t.Fatalf("%d bytes, then %d: %v", len(before), len(after), err)
	}
	trainsAfter, reportsAfter := f.restoredCore().summary()
	if trainsBefore == trainsAfter || reportsBefore == reportsAfter {
		t.Fatal("nothing was appended")
	}
	r := rand.New(rand.NewPCG(seed.Of(t), 0))
	step := 1 + (len(after)-len(before))*seed.Share()/400 // journal.TestTornEnds tries every byte
	for size := len(before) + r.IntN(step); size < len(after); size += step {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, journalFile), after[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		c, said := openAt(t, f.core.config, dir)
		trains, reports := c.summary()
		if reports != reportsBefore && trains != trainsAfter {
			t.Fatalf("%d of %d bytes: reports are known whose trains are not:\n%s", size,
				len(after), reports)
		}
		whole := strings.Contains(said, "cut off")
		if cut := c.store.journal.Cut(); whole != (cut > 0) {
			t.Fatalf("%d of %d bytes: %d are cut off, and it says %q", size, len(after), cut, said)
		}
		os.RemoveAll(dir)
	}
}

// sweepAgain does one more sweep, and writes the new trains to disk.
func (f *fleet) sweepAgain(r SweepRequest) {
	f.t.Helper()
	f.ask(AskSweep, r)
	if f.core.sweep == nil || !f.run(time.Minute, func() bool { return f.core.sweep == nil }) {
		f.t.Fatal("no sweep was done")
	}
	f.core.flush()
}

// As long as a run cannot be written, no report counts as stored.
func TestRunCannotBeWritten(t *testing.T) {
	f := measuredFleet(t)
	_, before := f.restoredCore().summary()
	f.run(2*time.Second, nil)
	acks := len(f.core.acks)
	draft := f.core.run.draft
	if err := draft.Close(); err != nil { // as if the disk were full
		t.Fatal(err)
	}
	f.core.flush()
	if _, reports := f.restoredCore().summary(); reports != before || len(f.core.acks) != acks ||
		acks == 0 {
		t.Errorf("of %d reports, %d wait; stored are:\n%s", acks, len(f.core.acks), reports)
	}
	again, err := runs.Resume(f.store.runs, "r")
	if err != nil {
		t.Fatal(err)
	}
	f.core.run.draft = again
	f.core.flush()
	if _, reports := f.restoredCore().summary(); reports == before || len(f.core.acks) > 0 {
		t.Errorf("%d reports wait; stored are:\n%s", len(f.core.acks), reports)
	}
}

// A journal that is much longer than the state that it describes is written anew, and describes the
// same state.
func TestJournalIsRewritten(t *testing.T) {
	config := testConfig()
	config.LiveTrains = 4
	f := newFleet(t, config, names(4)...)
	f.wantSweep(time.Minute)
	f.sweepAgain(SweepRequest{Trains: 8})
	f.sweepAgain(SweepRequest{Trains: 8})
	trains, reports := f.restoredCore().summary()
	long := f.store.journal.Size()
	if err := f.core.rewrite(); err != nil {
		t.Fatal(err)
	}
	if got := f.store.journal.Size(); got >= long {
		t.Errorf("%d bytes became %d", long, got)
	}
	if again, known := f.restoredCore().summary(); again != trains || known != reports {
		t.Error("the new journal says something else")
	}
	f.restart()
	if m := f.wantTrue(); len(m.Pairs) != 12 {
		t.Errorf("%d pairs", len(m.Pairs))
	}
}

// However many trains a pair had, its trains take a limited number of bytes in the journal.
func TestPairAtRestIsBounded(t *testing.T) {
	config := testConfig()
	config.LiveTrains = 64
	f := newFleet(t, config, names(2)...)
	f.wantSweep(time.Minute)
	for range 12 {
		f.sweepAgain(SweepRequest{Trains: 8, Exchanges: 100})
	}
	if m := f.wantTrue(); m.Pairs[0].Trains < 150 {
		t.Fatalf("%d trains", m.Pairs[0].Trains)
	}
	p := f.core.pairs[f.core.current[[2]string{"n00", "n01"}]]
	if n := p.liveTrains.EncodedBytes(); n > 2*maxLiveBytes {
		t.Errorf("%d bytes between", n)
	}
	p.liveTrains.Prune()
	p.liveTrains.KeepNewest(config.LiveTrains, maxLiveBytes)
	if n := p.liveTrains.EncodedBytes(); n > maxLiveBytes || p.liveTrains.Trains() < 4 {
		t.Errorf("%d bytes, %d trains at rest", n, p.liveTrains.Trains())
	}
}

// A state of version 1 is read, and then replaced. testdata/state-v1 is what the last server of
// version 1 wrote after a sweep of three simulated nodes. The reports of n01 were set to 4 by hand.
func TestStateOfVersion1(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "state-v1"))); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second server finds the journal
		c, _ := openAt(t, testConfig(), dir)
		var trains uint64
		for _, p := range c.pairs {
			trains += p.trains
		}
		if len(c.nodes) != 3 || len(c.pairs) != 3 || trains != 12 || c.nodes["n01"].reports != 4 {
			t.Errorf("%d nodes, %d pairs, %d trains, %d reports of n01", len(c.nodes),
				len(c.pairs), trains, c.nodes["n01"].reports)
		}
		for _, name := range []string{pairsDir, "nodes.json"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there: %v", name, err)
			}
		}
	}
}

// TestJournalBytes compares the bytes of small blocks with FORMAT.md.
func TestJournalBytes(t *testing.T) {
	dir := t.TempDir()
	c, _ := openAt(t, testConfig(), dir)
	store, err := OpenStore(dir, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c.store = store
	if err := c.rewrite(); err != nil {
		t.Fatal(err)
	}
	heard := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	if err := errors.Join(
		store.append(blockForgetPair, notedKey{"a", "b", "1", "2"}, nil),
		store.append(blockHeard, []notedHeard{{"a", heard, 7}}, nil),
		store.append(blockForgetNode, "a", nil), store.journal.Flush()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, journalFile))
	if err != nil {
		t.Fatal(err)
	}
	from := bytes.NewReader(text)
	next := func(n int) []byte {
		b := make([]byte, n)
		if _, err := io.ReadFull(from, b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	if got := hex.EncodeToString(next(12)); got != "435053455256455202000000" {
		t.Errorf("begins with %s", got)
	}
	for _, want := range []string{
		"\x03" + `{"a":"a","b":"b","epoch_a":"1","epoch_b":"2"}`,
		"\x05" + `[{"name":"a","heard":"2026-01-02T03:04:05.000000006Z","reports":"7"}]`,
		"\x06" + `"a"`,
	} {
		n := next(4)
		got := string(next(int(n[0])))
		if next(4); got != want {
			t.Errorf("block %q, want %q", got, want)
		}
	}
}

// FuzzRestoreBlock gives the server any block.
func FuzzRestoreBlock(f *testing.F) {
	f.Add([]byte("\x03" + `{"a":"a","b":"b","epoch_a":"1","epoch_b":"2"}`))
	f.Add([]byte("\x05" + `[{"name":"a","heard":"2026-01-02T03:04:05Z","reports":"7"}]`))
	f.Add([]byte("\x02{}\nCPRELATE"))
	c := &core{config: testConfig(), pairs: map[pairKey]*pair{}}
	f.Fuzz(func(t *testing.T, block []byte) {
		nodes := map[string]notedNode{"a": {}}
		err := c.restoreBlock(block, nodes)
		if err == nil && (len(block) == 0 || block[0] < blockPair || block[0] > blockForgetNode) {
			t.Errorf("block %q was accepted", block)
		}
		clear(c.pairs)
	})
}

// Users see the paths of runs, and may work in another directory than the server's. So these paths
// are absolute.
func TestPathsOfRunsAreAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	store, err := OpenStore("state", "runs")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if !filepath.IsAbs(store.runs) {
		t.Errorf("runs are in %q", store.runs)
	}
}
