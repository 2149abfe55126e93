package answers

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// lostUpdate are the states of examples/race.
var lostUpdate = []string{
	"--state", `balance = 0 then event.point == "write" ? seen[event.node] + event.value : balance`,
	"--state", `seen by node = 0 then event.point == "read" ? balance : seen[event.node]`,
	"--state", `deposited = 0 then event.point == "write" ? deposited + event.value : deposited`,
}

// race makes a run of three nodes. Each reads a balance and writes it back with a deposit. In the
// run no deposit was lost, but the bounds do not prove that.
func race(t *testing.T, dir string, apart uint64) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(24, 3))
	nodes := simrun.Nodes(rng, 3)
	var channels []simrun.Channel
	at := uint64(3 * simrun.Hz)
	read, write := make([][]simrun.Record, 3), make([][]simrun.Record, 3)
	for i := range 30 {
		n := i % 3
		at += apart
		read[n] = append(read[n], simrun.Record{Time: at, ID: uint64(10 + i)})
		at += apart
		write[n] = append(write[n], simrun.Record{Time: at, ID: uint64(10 + i)})
		at += 40_000
	}
	for n := range nodes {
		channels = append(channels,
			simrun.Channel{Node: n, Name: "teller/read", Records: read[n], Process: n},
			simrun.Channel{Node: n, Name: "teller/write", Records: write[n], Process: n})
	}
	// The two deposits of one pair are so near that their order is not proven.
	i := len(read[1]) / 2
	write[0][i].Time = read[1][i].Time - 200
	if err := simrun.Write(rng, dir, "race", nodes, channels); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "race")
}

func TestReplayFindsThePlantedRace(t *testing.T) {
	dir := race(t, t.TempDir(), 20_000)
	code, out, errs := cprof(append([]string{"replay", dir, "--find", "balance < deposited"},
		lostUpdate...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	for _, want := range []string{"60 of 60 events permuted", "holds             after ",
		"balance = ", "free pairs        1 could", "bounds broken     0"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	code, out, _ = cprof(append([]string{"replay", dir, "--json", "--find",
		"balance > deposited"}, lostUpdate...)...)
	var answer struct {
		Found struct {
			Holds  bool
			Places int
		}
		Free string
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || code != 0 ||
		answer.Found.Holds || answer.Free != "1" || answer.Found.Places < 60 {
		t.Errorf("%+v, %v, exit code %d", answer, err, code)
	}
}

func TestReplayWritesPagesAndTraces(t *testing.T) {
	dir := race(t, t.TempDir(), 20_000)
	code, out, errs := cprof(append([]string{"replay", dir, "--page", "--find",
		"balance < deposited"}, lostUpdate...)...)
	page := filepath.Join(dir, "exports", "replay.html")
	if text, err := os.ReadFile(page); code != 0 || err != nil ||
		!bytes.Contains(text, []byte(`"question":"balance \u003c deposited"`)) {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errs)
	}
	for _, form := range []string{"thesis", "shiviz"} {
		file := filepath.Join(dir, form+".txt")
		if code, out, errs := cprof("replay", dir, "--write", form, "-o", file); code != 0 {
			t.Fatalf("%s: exit code %d: %s%s", form, code, out, errs)
		}
		code, out, errs := cprof("replay", file, "--orders", "1")
		if code != 0 || !strings.Contains(out, "replayed          all 60 events") ||
			!strings.Contains(out, "\n   60  ") {
			t.Errorf("%s: exit code %d: %s%s", form, code, out, errs)
		}
	}
	// With an epsilon of 1 ms, many more pairs are free.
	_, out, _ = cprof("replay", dir, "--epsilon", "1ms")
	if strings.Contains(out, "free pairs        1 could") {
		t.Errorf("with an epsilon of 1 ms:\n%s", out)
	}
}

func TestReplayUsage(t *testing.T) {
	dir := race(t, t.TempDir(), 20_000)
	for _, c := range []struct{ args, want string }{
		{"--find balanse<0", "undeclared reference to 'balanse'"},
		{"--state x", "it is for --find"},
		{"--write dot", "give thesis or shiviz"},
		{"--page --write thesis", "choose one"},
		{"--events 0", "give 1 to"},
		{"--page --events 6000", "a page shows at most"},
		{"-o x", "it is for --page or --write"},
		{"--orders -1", "give 0 or more"},
	} {
		code, _, errs := cprof(append([]string{"replay", dir}, strings.Fields(c.args)...)...)
		if code != 2 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %q, want %q", c.args, code, errs, c.want)
		}
	}
}
