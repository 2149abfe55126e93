package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// commandsOf returns the commands of a page's first block that contains a text.
func commandsOf(t *testing.T, page, contains string) string {
	t.Helper()
	for i, block := range strings.Split(read(t, "../../docs", page), "```") {
		text, isShell := strings.CutPrefix(block, "sh\n")
		if i%2 == 1 && isShell && strings.Contains(text, contains) {
			return text
		}
	}
	t.Fatalf("docs/%s has no commands with %q", page, contains)
	return ""
}

// TestBarThreeMachines sets up a fleet of three machines with the Debian package. It runs the
// commands that docs/install.md and docs/operating.md print, in their order, and replaces only
// names. Between these commands it does what the pages say in words. Then it makes a run and
// analyzes it.
func TestBarThreeMachines(t *testing.T) {
	if proof.Begin(t) != proof.Full {
		t.Skip("making packages takes minutes: make prove does it")
	}
	bar := proof.Bar{Name: "three machines by package, from docs alone, until the first answer",
		Limit: 300, Unit: "s", Timing: true}
	if bar.Absent = cannotBoot(); bar.Absent != "" {
		proof.Check(t, bar)
		return
	}
	packages := packagesOf(t, "0.0.1")
	first := filepath.Join(t.TempDir(), "workload")
	buildFirst(t, first)
	alpha, beta, gamma := boot(t, "alpha"), boot(t, "beta"), boot(t, "gamma")
	machines := []*machine{alpha, beta, gamma}
	network(t, machines)
	for _, m := range machines {
		for _, path := range []string{packages["deb"], first} {
			put(t, path, filepath.Join(m.root, "root"))
		}
	}

	begun := time.Now()
	for _, m := range machines {
		m.run("/root", commandsOf(t, "install.md", "apt install ./"))
	}
	const etc = "/etc/cloudprofiler"
	alpha.run("/root", commandsOf(t, "operating.md", "cprof keys server\n"))
	for _, m := range machines[1:] {
		alpha.copyTo(m, etc+"/server.public")
		alpha.copyTo(m, etc+"/"+m.name+".secret")
		alpha.run(etc, "rm "+m.name+".secret")
		m.run(etc, "chmod 644 server.public; chmod 600 "+m.name+".secret; chown cloudprofiler "+
			m.name+".secret")
	}
	alpha.run("/root", commandsOf(t, "operating.md", "systemctl enable --now tsc-server"))
	client := commandsOf(t, "operating.md", "cat >/etc/cloudprofiler/tsc-client.yaml")
	for _, m := range machines {
		m.run("/root", strings.ReplaceAll(client, "beta", m.name))
	}
	matrix := commandsOf(t, "operating.md", "cprof nodes --sweep")
	until(t, "the matrix is whole", func() (string, bool) { // on a busy machine nodes are not quiet
		said, _ := alpha.try("bash", "-ec", "cd "+etc+"\n"+matrix)
		return said, strings.Contains(said, "3 of 3 pairs complete")
	})
	t.Logf("after %.0f s the matrix is whole", time.Since(begun).Seconds())

	// On alpha, programs of a user log.
	agent := strings.ReplaceAll(commandsOf(t, "operating.md", "cat >/etc/cloudprofiler/cp-agent"),
		"beta", "alpha")
	alpha.run("/root", "useradd --create-home storm; chown storm "+etc+"/alpha.secret")
	alpha.run("/root", agent)
	export, _, _ := strings.Cut(matrix, "\n")
	alpha.run(etc, "cp /root/workload /home/storm/\n"+
		`printf 'version: 1\nrules:\n  - {channel: "*", handler: id}\n' >handlers.yaml`)
	until(t, "the agent registers", func() (string, bool) {
		said, _ := alpha.try("bash", "-ec", "cd "+etc+"\n"+export+"\ncprof nodes")
		return said, strings.Contains(said, "cp-agent")
	})
	answer, err := alpha.try("bash", "-ec", "cd "+etc+"\n"+export+"\n"+strings.ReplaceAll(
		commandsOf(t, "operating.md", "cprof run start tuesday"), "./workload",
		"runuser -u storm /home/storm/workload"))
	t.Logf("%s", answer)
	bar.Figure = time.Since(begun).Seconds()
	if !strings.Contains(answer, "10000 tuples") {
		t.Errorf("the answer does not have the workload's tuples: %v", err)
	}
	for _, m := range machines {
		if said, err := m.try("systemctl", "--failed", "--no-legend"); err != nil || said != "" {
			t.Errorf("%s: units that failed: %s, %v", m.name, said, err)
		}
	}
	proof.Check(t, bar)
}

// cannotBoot says why this machine cannot run systemd in namespaces. It returns "" if it can.
func cannotBoot() string {
	if err := privileged.Check(); err != nil {
		return err.Error()
	}
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		return "systemd is not installed: " + err.Error()
	}
	if _, err := exec.LookPath("apt"); err != nil {
		return "this machine is not a Debian: " + err.Error()
	}
	return ""
}

// put copies a file into a directory, with its mode.
func put(t *testing.T, path, dir string) {
	t.Helper()
	if out, err := exec.Command("cp", path, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
