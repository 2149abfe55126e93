package sim

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

const small = `random.seed 1
network.size N
N 100
simulation.cycles 2
protocol.l IdleProtocol
protocol.a AverageFunction
protocol.a.linkable l
init.w WireRingLattice
init.w.k 2
init.w.protocol l
init.v LinearDistribution
init.v.protocol a
init.v.min 0
init.v.max 99
control.o AverageObserver
control.o.protocol a
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSim(t *testing.T) {
	code, out, errs := cprof("sim", write(t, small), "--digest")
	first, rest, _ := strings.Cut(out, "\n")
	if code != command.Answered ||
		first != "control.o: 0 0.0 99.0 100 49.5 841.6666666666666 1 1" ||
		!regexp.MustCompile(`(?s)^control.o: 1 .*\n# digest [0-9a-f]{64}\n$`).MatchString(rest) {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
	if !strings.HasPrefix(errs, "100 nodes at the end, 200 events in ") {
		t.Errorf("%q", errs)
	}
}

func TestSimWritesPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.html")
	code, _, errs := cprof("sim", write(t, small), "--page", path, "--set", "range.0=N;50,100")
	b, err := os.ReadFile(path)
	if code != command.Answered || err != nil {
		t.Fatalf("%d %s %v", code, errs, err)
	}
	for _, want := range []string{"<svg", "x.conf", ">mean<", ">variance<", "cycle", "N=50",
		"N=100", "Set: range.0=N;50,100"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestSimAnswers simulates a fleet that reports how good its bounds are. This report comes first on
// the page.
func TestSimAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.html")
	code, out, errs := cprof("sim", "../../../configs/fleet.conf", "--set", "network.size=100",
		"--set", "init.join=AgentGraph", "--set", "GROWN=0", "--set", "MEASURED=15s", "--set",
		"protocol.agents.sample=1", "--set", "CHURN=0.02", "--page", path)
	want := regexp.MustCompile(`\n100 agents, at 15s, with 2 % of the agents dying each second ` +
		`and one train of 5 exchanges every 500ms: half of the bounds between neighbours are at ` +
		`most ±2\d\.\d µs, and 99 % are at most ±2\d\.\d µs\. The bounds of \d+ pairs were ` +
		`checked, and all contained the truth\.\n$`)
	sentence := want.FindString(out)
	if code != command.Answered || sentence == "" {
		t.Fatalf("%d\n%s%s", code, out, errs)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	said, _, ok := strings.Cut(string(b), "<svg")
	if !ok || !strings.Contains(said, strings.TrimSpace(sentence)) {
		t.Errorf("the page does not begin with the answer:\n%.2000s", b)
	}
}

func TestSimRanges(t *testing.T) {
	code, out, errs := cprof("sim", write(t, small+"range.0 N;4:16|*2\n"), "--set",
		"simulation.cycles=1")
	want := `^# N=4
control.o: 0 .* 4 .*
# N=8
control.o: 0 .* 8 .*
# N=16
control.o: 0 .* 16 .*
$`
	if code != command.Answered || !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("%d\n%s%s", code, out, errs)
	}
}

func TestSimErrors(t *testing.T) {
	path := write(t, small)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"none.conf"}, command.Failed, "no such file"},
		{[]string{path, "--workers", "0"}, command.Usage, `--workers 0: want 1 to 1024`},
		{[]string{path, "--set", "x"}, command.Usage, `--set "x": want a key, = and a value`},
		{[]string{path, "--set", "control.o.protocol=b"}, command.Failed,
			path + `:16: key "control.o.protocol": there is no protocol "b"`},
		{[]string{path, "--set", "M=1"}, command.Failed, path + `: key "M" is unknown`},
		{[]string{path, "--set", "network.sise=1"}, command.Failed,
			path + `: key "network.sise" is unknown; the nearest key is "network.size" of line 2`},
	} {
		code, out, errs := cprof(append([]string{"sim"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%v: %d\n%s%s\nwant %d %s", c.args, code, out, errs, c.code, c.want)
		}
	}
}

// TestSimRestarts runs a simulation that saves a checkpoint, and then one that continues from the
// checkpoint. Both must end in the same state as a simulation without checkpoints.
func TestSimRestarts(t *testing.T) {
	const text = `network.size 50
simulation.endtime 10s
protocol.l IdleProtocol
protocol.t UniformRandomTransport
protocol.t.mindelay 50ms
protocol.a AverageED
protocol.a.linkable l
protocol.a.transport t
protocol.a.step 1s
init.w WireRingLattice
init.w.k 2
init.w.protocol l
init.v UniformDistribution
init.v.protocol a
init.v.max 99
init.x CDScheduler
init.x.protocol a
`
	path, saved := write(t, text), filepath.Join(t.TempDir(), "saved")
	_, whole, _ := cprof("sim", path, "--digest")
	code, out, errs := cprof("sim", path, "--checkpoint", saved, "--every", "7s", "--digest")
	if code != command.Answered || out != whole {
		t.Errorf("with checkpoints: %d\n%s%s", code, out, errs)
	}
	code, out, errs = cprof("sim", path, "--restart", saved, "--digest", "--workers", "3")
	if code != command.Answered || out != whole {
		t.Errorf("restarted: %d\n%s%swant\n%s", code, out, errs, whole)
	}
	code, _, errs = cprof("sim", path, "--restart", saved, "--set", "protocol.a.step=2s")
	if code != command.Failed || !strings.Contains(errs, "of another simulation") {
		t.Errorf("another configuration: %d %s", code, errs)
	}
	code, _, errs = cprof("sim", path, "--checkpoint", saved)
	if code != command.Answered || !strings.Contains(errs, "no checkpoint was saved") {
		t.Errorf("the end comes before a checkpoint: %d %s", code, errs)
	}
	code, _, errs = cprof("sim", path, "--checkpoint", saved+"/none/x", "--every", "7s")
	if code != command.Failed || !strings.Contains(errs, "save checkpoints in ") {
		t.Errorf("no directory for checkpoints: %d %s", code, errs)
	}
	code, _, errs = cprof("sim", path, "--restart", path)
	if code != command.Failed || !strings.Contains(errs, "this is not a checkpoint") {
		t.Errorf("no checkpoint: %d %s", code, errs)
	}
	code, _, errs = cprof("sim", write(t, small), "--restart", saved)
	if code != command.Usage || !strings.Contains(errs, "need the event engine") {
		t.Errorf("the cycle engine: %d %s", code, errs)
	}
}
