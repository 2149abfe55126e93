package library

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/config"
)

// loadConfig reads a configuration and sets keys. The last parameters are a key, its value, the
// next key, and so on.
func loadConfig(t testing.TB, name string, set ...string) *config.File {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, name, string(b), set...)
}

func parse(t testing.TB, name, text string, set ...string) *config.File {
	t.Helper()
	f, err := config.Parse(name, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(set); i += 2 {
		f.Set(set[i], set[i+1])
	}
	return f
}

// runConfig runs a simulation. It returns what its observers printed, and the checksum of its last
// state.
func runConfig(t testing.TB, f *config.File, workers int) (out, digest string, counts sim.Counts) {
	t.Helper()
	var b bytes.Buffer
	s, err := Build(f, Options{Workers: workers, Out: &b, Dir: "testdata"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	sum, err := s.World.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return b.String(), fmt.Sprintf("%x", sum), s.World.Counts()
}

// columnOf returns the numbers in one column of an observer's lines.
func columnOf(t testing.TB, out, observer string, column int) (all []float64) {
	t.Helper()
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) <= column || fields[0] != observer+":" {
			continue
		}
		v, err := strconv.ParseFloat(fields[column], 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// TestExamples runs configurations in the syntax of PeerSim's examples.
func TestExamples(t *testing.T) {
	seed.NotUnderRace(t, "the cycle engine has one worker")
	out, _, _ := runConfig(t, loadConfig(t, "average.conf"), 1)
	mean, variance := columnOf(t, out, "control.1", 5), columnOf(t, out, "control.1", 6)
	if len(mean) != 30 || variance[0] < 800 || variance[29] > 1e-10 {
		t.Errorf("variances %v", variance)
	}
	for _, m := range mean { // an exchange does not change the sum of a pair
		if m < 50.4999 || m > 50.5001 {
			t.Errorf("mean %v", m)
		}
	}
	out, _, _ = runConfig(t, loadConfig(t, "newscast.conf"), 4)
	size := columnOf(t, out, "control.ao", 4)
	if size[5] != 5000 || size[6] != 4950 || size[29] != 4750 {
		t.Errorf("sizes %v", size)
	}
	if !strings.Contains(out, "control.conn: {0=4750}\n") {
		t.Errorf("newscast does not connect all nodes:\n%s", out)
	}
	out, _, _ = runConfig(t, loadConfig(t, "order.conf"), 1)
	if n := strings.Count(out, "\n"); n != 10 || strings.Contains(out, " 499 ") {
		t.Errorf("include.control was not obeyed:\n%s", out)
	}
	out, _, _ = runConfig(t, loadConfig(t, "infection.conf"), 2)
	infected := columnOf(t, out, "control.obs", 2)
	if infected[0] != 0 || infected[len(infected)-1] < 0.9 {
		t.Errorf("infected %v", infected)
	}
}

// TestBarE1 repeats experiment E1 of the thesis on DIPS (docs/proofs/simulator.md). In each listed
// cycle the variance must lie in a band. The bands come from other simulators, which exchange
// values in pairs, or let messages wait in a queue.
func TestBarE1(t *testing.T) {
	seed.NotUnderRace(t, "TestBarAnyNumberOfWorkersGivesTheSame runs the same code side by side")
	var first string
	outside := 0.0
	for _, workers := range []int{1, 2, 4} {
		out, digest, _ := runConfig(t, loadConfig(t, "average-ed.conf", "MINDELAY", "1", "MAXDELAY",
			"10", "CYCLES", "16"), workers)
		variance, mean := columnOf(t, out, "control.0", 5), columnOf(t, out, "control.0", 4)
		for cycle, band := range map[int][2]float64{0: {833.58, 833.59}, 1: {244, 317},
			5: {2.1, 6.1}, 10: {6.0e-3, 4.5e-2}, 15: {1.6e-5, 3.2e-4}} {
			if v := variance[cycle]; v < band[0] || v > band[1] {
				outside++
				t.Errorf("%d workers: variance %v after %d cycles, want %v", workers, v, cycle,
					band)
			}
		}
		if drift := mean[15] - 50; drift < -1.3 || drift > 1.3 {
			t.Errorf("the mean drifts by %v", drift)
		}
		if first == "" {
			first = out + digest
		}
		if out+digest != first {
			t.Errorf("%d workers give another result", workers)
		}
	}
	proof.Check(t, proof.Bar{Name: "E1 of 1, 2 and 4 workers: variances outside of the band",
		Figure: outside, Unit: "variances"})
}

// TestErrors builds configurations with mistakes.
func TestErrors(t *testing.T) {
	const good = "network.size 10\nsimulation.endtime 100\nprotocol.link IdleProtocol\n" +
		"protocol.tr UniformRandomTransport\nprotocol.tr.mindelay 1\n" +
		"protocol.avg AverageED\nprotocol.avg.linkable link\nprotocol.avg.transport tr\n"
	for text, want := range map[string]string{
		"protocol.x AvergeED": `c:9: key "protocol.x": class "AvergeED" does not exist; ` +
			`the nearest class is "AverageED"`,
		"init.x CDScheduler\ninit.x.protocol avg": `c:6: key "protocol.avg.step" is missing`,
		"init.x CDScheduler\ninit.x.protocl avg": `c:9: key "init.x.protocol" is missing; ` +
			`the nearest key is "init.x.protocl" of line 10` + "\n" +
			`c:10: key "init.x.protocl" is unknown; the nearest key is "init.x.protocol"`,
		"control.x SingleValueObserver\ncontrol.x.protocol avgg\ncontrol.x.step 1": `c:10: key ` +
			`"control.x.protocol": there is no protocol "avgg"; ` +
			`the nearest one is "protocol.avg" in line 6`,
		"control.x SingleValueObserver\ncontrol.x.protocol link\ncontrol.x.step 1": `c:10: key ` +
			`"control.x.protocol": protocol "protocol.link" has no values`,
		"control.x SingleValueObserver\ncontrol.x.protocol avg": `c:9: key "control.x.step" ` +
			`is missing`,
		"protocol.y UnreliableTransport\nprotocol.y.transport y\nprotocol.y.drop 0": `c:9: key ` +
			`"protocol.y": the protocol needs itself`,
		"protocol.y UniformRandomTransport\nprotocol.y.mindelay -5": `c:10: key ` +
			`"protocol.y.mindelay": "-5" is -5: want 0 or more`,
		"protcol.x IdleProtocol": `c:9: key "protcol.x" is unknown; ` +
			`the nearest key is "protocol.tr" of line 4`,
		"init.k KingParser\ninit.k.file none.txt": `c:10: key "init.k.file": ` +
			`open testdata/none.txt: no such file or directory`,
		"init.k WireWS\ninit.k.protocol link\ninit.k.k 4\ninit.k.beta 2": `c:12: key ` +
			`"init.k.beta": "2" is 2: want 0 to 1`,
		"control.d DynamicNetwork\ncontrol.d.add 1\ncontrol.d.step 1\n" +
			"control.d.init.0 Shuffle": `c:12: key "control.d.init.0": ` +
			`class "Shuffle" does not prepare single nodes`,
		"init.w WireKOut\ninit.w.protocol link\ninit.w.k 0": `c:11: key "init.w.k": "0" is 0: ` +
			`want 1 to 1048576`,
		"init.w WireKOut\ninit.w.protocol link\ninit.w.k 1": `c:6: key "protocol.avg": nobody ` +
			`starts its cycles, so it does nothing: add the initialiser CDScheduler with the ` +
			`protocol avg`,
		"protocol.y TraceTransport\nprotocol.y.file king.txt": `"node 1" is not a delay: want 0 ` +
			`or more`,
		"init.d DegreeStats": `c:9: key "init.d.protocol" is missing`,
		"control.d DegreeStats\ncontrol.d.protocol link\ncontrol.d.step 1": `c:7: key ` +
			`"protocol.avg.linkable": the nodes of "link" get no neighbours, so nobody is sent ` +
			`anything: add an initialiser such as WireKOut with the protocol link`,
	} {
		_, err := Build(parse(t, "c", good+text), Options{Dir: "testdata"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\n%v\nwant\n%s", text, err, want)
		}
	}
	_, err := Build(parse(t, "c", "network.size 1"), Options{})
	if err == nil || !strings.Contains(err.Error(), `key "simulation.endtime" is missing`) {
		t.Errorf("without an end: %v", err)
	}
}

// WireFromFile links each node to its neighbours in the file, but to no more than k of them.
func TestWireFromFile(t *testing.T) {
	const text = "network.size 4\nsimulation.cycles 1\nprotocol.link IdleProtocol\n" +
		"init.w WireFromFile\ninit.w.protocol link\ninit.w.k 2\ninit.w.file links.txt\n" +
		"control.d DegreeStats\ncontrol.d.protocol link\ncontrol.d.method list\n"
	build := func(links string) (*Simulation, *bytes.Buffer) {
		dir, out := t.TempDir(), new(bytes.Buffer)
		if err := os.WriteFile(filepath.Join(dir, "links.txt"), []byte(links), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Build(parse(t, "c", text), Options{Dir: dir, Out: out})
		if err != nil {
			t.Fatal(err)
		}
		return s, out
	}
	s, out := build("# node, neighbours\n\n0 1 2 3\n 2 0\n  # a comment\n3 1 2\n")
	err := s.Run(context.Background())
	if got, want := out.String(), "control.d: 2 0 1 2\n"; err != nil || got != want {
		t.Errorf("%q, %v: want the degrees %q", got, err, want)
	}
	s, _ = build("0 1\n\n1 4\n")
	want := `links.txt:3: "4" is not a node: want 0 to 3`
	if err := s.Run(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a link to node 4 of 0 to 3: %v, want %s", err, want)
	}
}

// randomConfig returns a configuration with random parts and churn.
func randomConfig(t testing.TB, n uint64) *config.File {
	s := sim.NewStream(n, 0)
	pick := func(all ...string) string { return all[s.Int(len(all))] }
	set := []string{"random.seed", fmt.Sprint(n), "SIZE", fmt.Sprint(5000 + s.Int(38_000)),
		"init.a", pick("WireKOut", "WireRingLattice", "WireScaleFreeBA", "WireWS"),
		"init.a.k", fmt.Sprint(1 + s.Int(12)), "protocol.tr.drop", pick("0", "0.01", "0.3"),
		"protocol.urt.mindelay", pick("1", "CYCLE/1000", "CYCLE/50", "CYCLE/3"),
		"protocol.urt.maxdelay", pick("CYCLE/3", "2*CYCLE"),
		"control.2.add", pick("0.01", "-0.03", "300", "0.1"),
		"control.2.step", pick("CYCLE/7", "CYCLE/3+1", "CYCLE"),
		"simulation.endtime", pick("2*CYCLE", "3*CYCLE+1")}
	if set[5] == "WireWS" {
		set = append(set, "init.a.beta", "0.3")
	}
	if s.Int(2) == 0 {
		set = append(set, "init.a.undirected", "")
	}
	switch s.Int(4) {
	case 0:
		set = append(set, "protocol.tr.transport", "other", "protocol.other", "CoordinateTransport",
			"protocol.other.mindelay", "2ms", "protocol.other.across", "90ms",
			"protocol.other.jitter", "5ms")
	case 1:
		set = append(set, "protocol.tr.transport", "other", "protocol.other", "E2ETransport",
			"protocol.other.local", "1ms", "init.0", "KingParser", "init.0.file", "king.txt",
			"init.0.ratio", "1000")
	}
	return loadConfig(t, "churn-ed.conf", set...)
}

// TestBarAnyNumberOfWorkersGivesTheSame runs random configurations with churn.
func TestBarAnyNumberOfWorkersGivesTheSame(t *testing.T) {
	configurations, workers := 2, []int{1, 8}
	if proof.WantsFull() {
		configurations, workers = 100, []int{1, 2, 4, 8}
	}
	different := 0.0
	for _, n := range seed.Numbers(t, configurations) {
		var first string
		var events uint64
		for _, k := range workers {
			out, digest, counts := runConfig(t, randomConfig(t, n), k)
			// The total delay of all messages does not depend on the number of workers, either.
			digest += fmt.Sprint(counts.LocalDelay+counts.RemoteDelay, counts.Local+counts.Remote)
			if first == "" {
				first = out + digest
			}
			if out+digest != first {
				different++
				t.Errorf("configuration %d: %d workers give another result", n, k)
			}
			events = counts.Events
			if k > 1 && counts.Remote == 0 {
				t.Errorf("configuration %d: no message between %d workers", n, k)
			}
		}
		t.Logf("configuration %d: %d events", n, events)
	}
	proof.Check(t, proof.Bar{
		Name:   fmt.Sprintf("results of %d random networks that depend on workers", configurations),
		Figure: different, Unit: "results"})
}

// TestTies lets many messages reach a node at the same moment. Their order must not depend on which
// workers ran the senders.
func TestTies(t *testing.T) {
	seed.NotUnderRace(t, "TestBarAnyNumberOfWorkersGivesTheSame runs the same code side by side")
	const text = `network.size 9000
simulation.endtime 4s
protocol.link IdleProtocol
protocol.tr UniformRandomTransport
protocol.tr.mindelay 10ms
protocol.avg AverageED
protocol.avg.linkable link
protocol.avg.transport tr
protocol.avg.step 1s
init.wire WireKOut
init.wire.k 20
init.wire.protocol link
init.values LinearDistribution
init.values.protocol avg
init.values.max 100
init.x CDScheduler
init.x.protocol avg
`
	_, want, _ := runConfig(t, parse(t, "ties", text), 1)
	for _, workers := range []int{2, 3} {
		if _, got, _ := runConfig(t, parse(t, "ties", text), workers); got != want {
			t.Errorf("%d workers give another result", workers)
		}
	}
}
