package dist

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// before is the commit of the previous release. As long as no release has a tag, it is a commit
// whose daemons are in use. This release must understand its formats and messages.
const before = "0b1d7be21537"

// TestBarUpgrade makes runs with a server of the previous release and agents of this one, and the
// other way round. Nothing may be missing, and cprof of this release must read both runs.
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
			"./cmd/cp-agent", "./cmd/cprof")
		build.Dir = from
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for name, of := range map[string]struct{ server, agents string }{
		"old server, new agents": {old, now}, "new server, old agents": {now, old},
	} {
		t.Run(name, func(t *testing.T) {
			if !workTogether(t, of.server, of.agents, now) {
				wrong.Figure++
			}
		})
	}
	proof.Check(t, wrong)
}

// workTogether makes a run with a server and two agents from different directories of commands, and
// reports whether the run has everything.
func workTogether(t *testing.T, server, agents, now string) bool {
	t.Helper()
	dir, address := t.TempDir(), free(t)
	start := func(program string, args ...string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
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
	start(filepath.Join(server, "tsc-server"), "--listen", address, "--state",
		filepath.Join(dir, "server"), "--quiet-limit", "0")
	for _, node := range []string{"alpha", "beta"} {
		start(filepath.Join(agents, "cp-agent"), "--node", node, "--rings",
			filepath.Join(dir, node+"-rings"), "--state", filepath.Join(dir, node), "--server",
			address, "--chrony", "off")
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if out, err := cprof("nodes"); err == nil && strings.Contains(out, "alpha") &&
			strings.Contains(out, "beta") {
			break
		}
		if time.Now().After(end) {
			t.Error("the agents do not register")
			return false
		}
	}
	if out, err := cprof("run", "start", "r"); err != nil {
		t.Errorf("%v: %s", err, out)
		return false
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
	whole := applied == nil && stopped == nil && fetched == nil &&
		strings.Contains(answer, "2 nodes, 2 channels, 1000 tuples")
	if !whole {
		t.Errorf("the run is not whole: %v, %v, %v", applied, stopped, fetched)
	}
	return whole
}
