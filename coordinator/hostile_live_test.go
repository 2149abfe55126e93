package coordinator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// damageCounts counts the damage that a hostile member does to the rest of a fleet.
type damageCounts struct {
	falseBounds int // bounds that miss the truth, between two other nodes
	// pairs of other nodes that got no new train in a window, summed over windows
	starvedPairs int
	peak_MB      float64 // memory of the server's process
}

// TestBarHostileMember runs ten virtual nodes in namespaces. One of these nodes has a valid key and
// does whatever it likes.
func TestBarHostileMember(t *testing.T) {
	lasts := 10 * time.Second
	if proof.Begin(t) == proof.Full {
		lasts = 5 * time.Minute
	}
	bars := damageCounts{}.bars()
	if err := privileged.Check(); err != nil {
		for i := range bars {
			bars[i].Absent = err.Error()
		}
	} else {
		bars = hostileMember(t, lasts).bars()
	}
	proof.Check(t, bars...)
}

func (w damageCounts) bars() []proof.Bar {
	const by = "beside a hostile member, "
	return []proof.Bar{
		{Name: by + "bounds between others that miss the truth", Unit: "bounds",
			Figure: float64(w.falseBounds)},
		{Name: by + "pairs of others without new trains in 10 s", Unit: "pairs",
			Figure: float64(w.starvedPairs)},
		{Name: by + "peak memory of the server", Unit: "MB", Limit: 500, Figure: w.peak_MB},
	}
}

// hostileMember opens a run of ten nodes. The last node is hostile from before the run begins until
// the server has collected the run's files.
func hostileMember(t *testing.T, lasts time.Duration) (w damageCounts) {
	r := seed.Random(t)
	const nodes = 10
	f := newRealFleet(t, r, nodes)
	f.waitRegistered()
	member := f.clients[nodes-1]
	name := member.job.Node.Name
	kill(member.process)
	member.fault = "hostile"
	h := &hostileJob{Seed: r.Uint64(), Patient: lasts > time.Minute}
	for _, c := range f.clients {
		h.Fleet = append(h.Fleet, hostilePeer{c.job.Node.Name, c.job.Node.Epoch, c.job.Clocks})
	}
	member.job.Hostile = h
	f.startClient(nodes - 1)

	var status RunStatus
	f.question(AskStartRun, RunRequest{Name: "hostile"}, &status)
	f.waitUntil("the run is open", func() bool {
		f.question(AskRun, nil, &status)
		return status.Phase == PhaseOpen
	})
	begun := asm.Counter()
	const window = 10 * time.Second
	bounds, before := 0, f.trainsOfOthers(name)
	for left := lasts; left > 0; left -= window {
		time.Sleep(min(left, window))
		after := f.trainsOfOthers(name)
		for pair := range before {
			if after[pair] <= before[pair] {
				w.starvedPairs++
				t.Logf("%v: %d trains before, %d after", pair, before[pair], after[pair])
			}
		}
		before = after
		some, untrue := f.compareBounds(name)
		bounds += some
		w.falseBounds += len(untrue)
		for _, u := range untrue {
			t.Log(u)
		}
	}
	ended := asm.Counter()
	f.question(AskStopRun, nil, &status)
	for end := time.Now().Add(5 * time.Minute); status.Phase != PhaseComplete; {
		if time.Now().After(end) {
			t.Fatalf("the run is %s, 5 minutes after its end", status.Phase)
		}
		time.Sleep(50 * time.Millisecond)
		f.question(AskRun, nil, &status)
	}
	if status.Problem != "" {
		t.Errorf("the run is not whole: %s", status.Problem)
	}
	dir, err := runs.Open(status.Path)
	if err != nil {
		t.Fatalf("read the run: %v", err)
	}
	defer dir.Close()
	relations, _ := dir.Relations()
	others := 0
	for _, p := range relations {
		if p.A.Name != name && p.B.Name != name {
			others++
			w.falseBounds += f.outsideLive(r, p, begun, ended, 500)
			bounds += 500
		}
	}
	if want := (nodes - 1) * (nodes - 2) / 2; others != want || bounds == 0 {
		t.Errorf("the run has %d relations of others, want %d; %d bounds", others, want, bounds)
	}
	w.peak_MB = f.peak_MB()
	t.Logf("%+v of %d bounds; it did %v", w, bounds, f.countDeeds())
	return w
}

// trainsOfOthers returns the number of trains of each pair, except the pairs of one node.
func (f *realFleet) trainsOfOthers(but string) map[[2]string]uint64 {
	f.t.Helper()
	var m Matrix
	f.question(AskNodes, nil, &m)
	trains := map[[2]string]uint64{}
	for _, p := range m.Pairs {
		if p.From < p.Into && p.From != but && p.Into != but {
			trains[[2]string{p.From, p.Into}] = p.Trains
		}
	}
	if n := len(f.clients) - 1; len(trains) != n*(n-1)/2 {
		f.t.Fatalf("the matrix has %d pairs of others", len(trains))
	}
	return trains
}

// peak_MB returns the greatest memory use that the server's process has had so far.
func (f *realFleet) peak_MB() float64 {
	f.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.server.Process.Pid))
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kB, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
			if err != nil {
				f.t.Fatal(err)
			}
			return float64(kB) * 1024 / 1e6
		}
	}
	f.t.Fatalf("no VmHWM in %q", text)
	return 0
}

// countDeeds returns how often the member did each hostile deed. The test proves nothing about a
// deed that the member never did.
func (f *realFleet) countDeeds() map[string]int {
	f.t.Helper()
	log, err := os.ReadFile(filepath.Join(f.dir, "log-"+f.clients[len(f.clients)-1].job.Node.Name))
	if err != nil {
		f.t.Fatal(err)
	}
	did := map[string]int{}
	for line := range bytes.Lines(log) {
		var d struct{ Did string }
		if json.Unmarshal(line, &d) == nil {
			did[d.Did]++
		}
	}
	for _, d := range hostileDeeds {
		if did[d.name] == 0 {
			f.t.Errorf("the member never did %q", d.name)
		}
	}
	return did
}
