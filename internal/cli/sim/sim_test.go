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
		{[]string{path, "--set", "network.sise=1"}, command.Failed,
			path + `: key "network.sise" is unknown; the nearest key is "network.size" of line 2`},
	} {
		code, out, errs := cprof(append([]string{"sim"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%v: %d\n%s%s\nwant %d %s", c.args, code, out, errs, c.code, c.want)
		}
	}
}
