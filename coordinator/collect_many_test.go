package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// The files of many nodes are fetched from a few nodes at a time, so that few answers are in
// memory. A server that is restarted meanwhile continues where it was. Slow nodes delay the others
// little, and the run says which nodes' files it lacks.
func TestManyNodesAreCollectedInTurns(t *testing.T) {
	seed.NotUnderRace(t, "the core runs on one goroutine")
	nodes := 100
	if size, err := proof.Wanted(); err != nil {
		t.Fatal(err)
	} else if size == proof.Full {
		nodes = 1000
	}
	f := newFleet(t, testConfig())
	file, content := logFile(t, f, "n", "a/x")
	all := []*fakeClient{}
	for i := range nodes {
		c := f.join(fmt.Sprintf("n%04d", i))
		c.register.Capabilities = []string{control.CanRun, control.CanFiles}
		c.files["logs/n/"+file] = content
		all = append(all, c)
	}
	f.run(10*time.Millisecond, nil)
	f.ask(AskStartRun, RunRequest{Name: "r"})
	if !f.run(time.Minute, func() bool { return f.phase() == PhaseOpen }) {
		t.Fatal(f.phase())
	}
	sent := func() (sent int) {
		for _, c := range all {
			sent += c.sent
		}
		return sent
	}
	most := 0
	fetched := func(share float64) func() bool {
		return func() bool {
			waiting := 0
			for _, p := range f.core.pending {
				if strings.HasPrefix(p.what, "a part of ") || p.what == "a list of its files" {
					waiting++
				}
			}
			most = max(most, waiting)
			return sent() > int(share*float64(nodes*len(content)))
		}
	}
	f.ask(AskStopRun, nil)
	f.run(time.Minute, fetched(0.3))
	lost, slow := all[:4], all[4:8]
	for _, c := range lost {
		c.state = clientKilled
		c.life++
	}
	for _, c := range slow {
		c.slowAnswer = time.Second
	}
	f.run(time.Minute, fetched(0.5))
	f.restart()
	f.run(time.Minute, fetched(0.9))
	if most != maxFetching {
		t.Errorf("at most %d answers were waited for at the same time, want %d", most, maxFetching)
	}
	f.run(5*time.Second, nil) // the slow nodes are not ready yet
	ready := 0
	for _, k := range f.core.run.collect {
		if len(k.done) == 1 {
			ready++
		}
	}
	if want := nodes - len(lost) - len(slow); ready < want*9/10 {
		t.Errorf("after 5 s, the files of %d nodes were there, want most of %d", ready, want)
	}
	missing, whole := f.waitComplete()
	if whole != nodes-len(lost) {
		t.Errorf("%d files are whole, want %d", whole, nodes-len(lost))
	}
	var named []string
	for _, m := range missing {
		if strings.HasPrefix(m.Reason, notFetched) {
			named = append(named, m.Part)
		}
	}
	slices.Sort(named)
	if !slices.Equal(named, []string{"node n0000", "node n0001", "node n0002", "node n0003"}) {
		t.Errorf("not fetched: %v", named)
	}
	if more := sent() - nodes*len(content); more > maxFetching*1000 {
		t.Errorf("%d bytes were sent twice: the server did not go on where it was", more)
	}
}

// Half of a large fleet dies at once while a run is open. Within a minute the other nodes have all
// their neighbours again. No bound is false, and the run keeps what was measured and logged.
func TestHalfOfAFleetDies(t *testing.T) {
	seed.NotUnderRace(t, "the core runs on one goroutine")
	const nodes = 16
	f := largeFleet(t, nodes)
	for _, name := range names(nodes) {
		file, content := logFile(t, f, name, "a/x")
		f.clients[name].files["logs/"+name+"/"+file] = content
	}
	f.wantGraph(time.Minute)
	f.run(time.Minute, func() bool { return f.core.sweep == nil && f.core.sweepBy.IsZero() })
	f.openRun("r")
	f.run(20*time.Second, nil)
	before := trainsIn(f.runPairs())
	for _, name := range names(nodes)[:nodes/2] {
		f.clients[name].state = clientKilled
		f.clients[name].life++
	}
	f.run(15*time.Second, nil) // until nodes notice
	f.wantGraph(45 * time.Second)
	f.run(20*time.Second, nil)
	f.wantTrue()
	f.ask(AskStopRun, nil)
	missing, whole := f.waitComplete()
	var named []string
	for _, m := range missing {
		if strings.HasPrefix(m.Reason, notFetched) {
			named = append(named, strings.TrimPrefix(m.Part, "node "))
		}
	}
	slices.Sort(named)
	if whole != nodes/2 || !slices.Equal(named, names(nodes)[:nodes/2]) {
		t.Errorf("the logs of %d nodes are whole, and those of %v were not fetched", whole, named)
	}
	dir := f.readRun()
	defer dir.Close()
	pairs, lost := dir.Relations()
	if after := trainsIn(pairs); after <= before || len(lost) > 0 {
		t.Errorf("%d trains before half of the fleet died, %d in the run, lost: %v", before, after,
			lost)
	}
	related := map[string]int{}
	for _, p := range pairs {
		related[p.A.Name]++
		related[p.B.Name]++
	}
	for _, name := range names(nodes) {
		if related[name] < f.config.Degree {
			t.Errorf("%s is related to %d others", name, related[name])
		}
	}
}

func trainsIn(pairs []*tscratio.Pair) (n int) {
	for _, p := range pairs {
		n += p.Trains()
	}
	return n
}
