package dist

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// This is the commit of the previous release. As long as no release has a tag, it is a commit whose
// daemons are in use. The present release must understand the formats and messages of that commit.
const before = "0b1d7be21537"

// TestBarUpgrade makes a run with a server of the previous release and agents of the present one,
// and a run with the releases exchanged. In both runs, one of the programs that log is of another
// release than the agents. In a third run, all daemons are upgraded while the run is open. Nothing
// may be missing, and cprof of this release must read all runs.
func TestBarUpgrade(t *testing.T) {
	if proof.Begin(t) != proof.Full {
		t.Skip("make prove builds the release before, which takes minutes")
	}
	wrong := proof.Bar{Name: "pairs of releases one apart that do not work together",
		Unit: "pairs"}
	dir := t.TempDir()
	old, now := filepath.Join(dir, "old"), filepath.Join(dir, "now")
	source := filepath.Join(dir, "source")
	pack := exec.Command("sh", "-c", `mkdir "$2" && git archive "$1" | tar -x -C "$2"`, "sh",
		before, source)
	pack.Dir = "../.."
	if out, err := pack.CombinedOutput(); err != nil {
		wrong.Absent = "commit " + before + " is not in this clone: " + string(out)
		proof.Check(t, wrong)
		return
	}
	for to, from := range map[string]string{old: source, now: "../.."} {
		build := exec.Command("go", "build", "-buildvcs=false", "-o", to+"/", "./cmd/tsc-server",
			"./cmd/cp-agent", "./cmd/cprof", "./examples/first")
		build.Dir = from
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for name, f := range map[string]fleetOf{
		"old server, new agents": {server: old, agents: now, program: old},
		"new server, old agents": {server: now, agents: old, program: now},
		"upgraded in a run":      {server: old, agents: old, program: old, later: now},
	} {
		if !t.Run(name, func(t *testing.T) { f.works(t, now) }) {
			wrong.Figure++
		}
	}
	proof.Check(t, wrong)
}

// fleetOf has the directories of the commands of which a fleet is made.
type fleetOf struct {
	server, agents, program string
	later                   string // "": nothing is upgraded
}

// works makes a run with a server, two agents and a cprof. The last argument is the directory of
// this cprof. It tests that the run has everything.
func (f fleetOf) works(t *testing.T, now string) {
	t.Helper()
	dir, address := t.TempDir(), free(t)
	var running []*exec.Cmd
	start := func(program string, args ...string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running = append(running, cmd)
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			if t.Failed() {
				t.Logf("%s: %s", program, said.String())
			}
		})
	}
	cprof := func(args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(now, "cprof"), args...)
		cmd.Env = append(os.Environ(), "CLOUDPROFILER_SERVER="+address,
			"CLOUDPROFILER_RUNS="+filepath.Join(dir, "fetched"))
		out, err := cmd.CombinedOutput()
		t.Logf("cprof %v: %s", args, out)
		return string(out), err
	}
	fleet := func(server, agents string) {
		start(filepath.Join(server, "tsc-server"), "--listen", address, "--state",
			filepath.Join(dir, "server"), "--quiet-limit", "0")
		for _, node := range []string{"alpha", "beta"} {
			start(filepath.Join(agents, "cp-agent"), "--node", node, "--rings",
				filepath.Join(dir, node+"-rings"), "--state", filepath.Join(dir, node), "--server",
				address, "--chrony", "off")
		}
		until(t, "the agents register", func() (string, bool) {
			out, _ := cprof("nodes") // on a busy machine, nodes are not quiet
			return out, strings.Count(out, "  here  ") == 2
		})
	}
	fleet(f.server, f.agents)
	until(t, "the run begins whole", func() (string, bool) {
		out, err := cprof("run", "start", "r")
		if err != nil { // on a busy machine, an answer may come too late for the first measurement
			cprof("run", "abort")
			cprof("run", "rm", "r")
		}
		return out, err == nil
	})
	first := exec.Command(filepath.Join(f.program, "first")) // it logs 10,000 tuples on alpha
	first.Env = append(os.Environ(), "CLOUDPROFILER_DIR="+filepath.Join(dir, "alpha-rings"))
	if out, err := first.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if f.later != "" {
		for _, cmd := range running {
			cmd.Process.Signal(syscall.SIGTERM)
			cmd.Wait()
		}
		fleet(f.later, f.later)
	}
	const tuples = 1000
	for node, point := range map[string]string{"alpha": "job/start", "beta": "job/end"} {
		c, err := handlers.Open(point, handlers.Options{Dir: filepath.Join(dir, node+"-rings")})
		if err != nil {
			t.Fatal(err)
		}
		for id := range uint64(tuples) {
			c.Log(id)
		}
		c.Close()
	}
	table := filepath.Join(dir, "t.yaml")
	rules := "version: 1\nrules:\n  - channel: \"*\"\n    handler: id\n"
	if err := os.WriteFile(table, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	_, applied := cprof("config", "apply", table)
	_, stopped := cprof("run", "stop")
	_, fetched := cprof("run", "fetch", "r")
	answer, _ := cprof("analyze", "r")
	if applied != nil || stopped != nil || fetched != nil ||
		!strings.Contains(answer, "2 nodes, 5 channels, 11000 tuples") {
		t.Errorf("the run is not whole: %v, %v, %v", applied, stopped, fetched)
	}
}
