package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/cli"
	"github.com/cloudprofiler/cloudprofiler/internal/conversation"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/report"
)

// talkers returns the name of the programs whose conversation is captured. Tests that run at the
// same time have other names for theirs.
func talkers() string { return fmt.Sprint("talk", os.Getpid()) }

// The two ends of the conversation that is captured have these host names.
var hostNames = [2]string{"web.example", "db.example"}

// capturingAgent starts an agent whose process gives up its privileges. It returns the agent's
// process and its directory of rings. The argument names is the content of the agent's file of host
// names.
func capturingAgent(t *testing.T, server, names string, args ...string) (*exec.Cmd, *output,
	string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "cp-agent-test") // a directory that user nobody can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	rings := filepath.Join(dir, "rings")
	argv, err := reexec.Argv(append(args, "--node", "na", "--rings", rings, "--state",
		filepath.Join(dir, "var", "state"), "--chrony", "off", "--server", server)...)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "cp-agent")
	if out, err := exec.Command("cp", argv[0], binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	err = os.Mkdir(rings, 0o700)
	for _, path := range []string{dir, binary} {
		if err == nil {
			err = os.Chmod(path, 0o755)
		}
	}
	if slices.Contains(args, "--user") && err == nil { // it is nobody
		var nobody *user.User
		if nobody, err = user.Lookup("nobody"); err == nil {
			out, chownErr := exec.Command("chown", nobody.Uid, rings).CombinedOutput()
			if err = chownErr; err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	// The agent looks up the names of addresses in /etc/hosts. So the test mounts this file there.
	hosts := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, []byte(names), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", append([]string{"--mount", "sh", "-c",
		`mount --bind "$0" /etc/hosts && exec "$@"`, hosts, binary}, argv[1:]...)...)
	var said output
	cmd.Dir, cmd.Stderr = "/", &said
	cmd.Env = append(os.Environ(), roleVariable+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	waitFor(t, "the agent",
		func() bool { return strings.Contains(said.String(), "registered") })
	return cmd, &said, rings
}

// Whether an agent that may capture runs as root or as another user, it keeps only the two
// capabilities that a capture needs. In a run, it logs what programs send each other. "cprof
// analyze" says who sent what to whom, and their host names. The report also shows where the time
// went.
func TestPrivilegedCapture(t *testing.T) {
	privileged.Need(t)
	for name, args := range map[string][]string{
		"root": {"--capture", "ready"},
		// A page cannot show the calls of all programs of a busy machine.
		"nobody": {"--capture", "on", "--user", "nobody", "--capture-also", "calls threads",
			"--capture-only", "program=" + talkers()},
		"light": {"--capture", "on", "--capture-light"},
	} {
		t.Run(name, func(t *testing.T) {
			star, err := netns.NewStar(2)
			if err != nil {
				t.Fatal(err)
			}
			defer star.Close()
			names := ""
			for end, name := range hostNames {
				names += fmt.Sprintln(star.Addr(end), name)
			}
			address, kept := startServer(t, coordinator.DefaultConfig())
			cmd, said, rings := capturingAgent(t, address, names, args...)
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			for _, set := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb"} {
				if want := set + ":\t000000c000000000\n"; !strings.Contains(string(status), want) {
					t.Errorf("no %q in\n%s", want, status)
				}
			}
			if strings.Contains(said.String(), "could not be given up") {
				t.Error(said.String())
			}
			if name == "root" {
				if out := runCLI(t, "capture", "status", "--rings", rings); out !=
					"the agent does not capture messages\n" {
					t.Errorf("%q", out)
				}
				out := runCLI(t, "capture", "start", "--rings", rings)
				if !strings.HasPrefix(out, "capturing messages for 0s: ") {
					t.Errorf("%q", out)
				}
			}
			if has := hasPriority(t, cmd.Process.Pid); has != mayGivePriority(t) {
				t.Errorf("a thread of the agent has priority: %v", has)
			}
			sent := recordRun(t, address, star)
			checkRun(t, filepath.Join(kept, "tuesday"), sent, name != "light")
			checkReport(t, filepath.Join(kept, "tuesday"), name == "nobody")
			if name == "root" {
				out := runCLI(t, "capture", "stop", "--rings", rings)
				if out != "the agent does not capture messages\n" {
					t.Errorf("%q", out)
				}
			}
			cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %s", err, said.String())
			}
		})
	}
}

// mayGivePriority reports whether this process may let others raise their priority. On some
// machines, not even root may do so.
func mayGivePriority(t *testing.T) bool {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		t.Fatal(err)
	}
	return sets[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// hasPriority reports whether a thread of a process has priority over other processes.
func hasPriority(t *testing.T, process int) bool {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", process))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(tasks, func(task os.DirEntry) bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", process, task.Name()))
		_, fields, _ := strings.Cut(string(stat), ") ")
		const nice = 16 // of the fields after the name
		all := strings.Fields(fields)
		return len(all) > nice && strings.HasPrefix(all[nice], "-")
	})
}

// runCLI runs cprof as root. So it can ask only an agent that runs as root: agents of other users
// do not answer.
func runCLI(t *testing.T, args ...string) string {
	t.Helper()
	var out, complaints bytes.Buffer
	if code := cli.Run(t.Context(), args, &out, &complaints); code != 0 && code != 3 {
		t.Fatalf("%q: exit code %d: %s", args, code, complaints.String())
	}
	return out.String()
}

// recordRun makes a run in which a client and a server converse. It returns how many system calls
// of the two sent something.
func recordRun(t *testing.T, server string, star *netns.Star) (sent int) {
	t.Helper()
	link, err := control.Dial(control.ClientConfig{Server: server})
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	ask := func(what string, argument any) (status *coordinator.RunStatus) {
		t.Helper()
		if err := link.Ask(t.Context(), what, argument, &status); err != nil {
			t.Fatal(err)
		}
		return status
	}
	come := func(phase coordinator.Phase) {
		t.Helper()
		waitFor(t, "the run to be "+string(phase), func() bool {
			s := ask(coordinator.AskRun, nil)
			return s != nil && s.Phase == phase
		})
	}
	ask(coordinator.AskStartRun, coordinator.RunRequest{Name: "tuesday"})
	come(coordinator.PhaseOpen)
	start := func(end int, role string, at any) (program *conversation.Program) {
		t.Helper()
		if err := star.Do(end, func() error {
			program = conversation.StartNamed(t, talkers(), role, at, 1, 3, 200)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return program
	}
	listener := start(1, "server", netip.AddrPortFrom(star.Addr(1), 0))
	client := start(0, "client", listener.Says())
	for _, c := range append(client.Truth(t), listener.Truth(t)...) {
		if c.Sent {
			sent++
		}
	}
	ask(coordinator.AskStopRun, nil)
	come(coordinator.PhaseComplete)
	return sent
}

// checkRun checks what "cprof analyze" says about the messages of a run. The parameter timed says
// whether the times of their transfers are known.
func checkRun(t *testing.T, run string, sent int, timed bool) {
	t.Helper()
	var answer struct {
		Messages messages.Answer `json:"captured_messages"`
	}
	if err := json.Unmarshal([]byte(runCLI(t, "analyze", "--json", run)), &answer); err != nil {
		t.Fatal(err)
	}
	m, matched, lost := answer.Messages, uint64(0), uint64(0)
	for _, n := range m.Nodes {
		for _, l := range n.Lost {
			lost += l
		}
	}
	for _, p := range m.Pairs {
		if p.From != p.To || p.From.Name != talkers() {
			continue // other programs of this machine
		}
		matched += p.Messages
		if want := []string{hostNames[1], hostNames[0]}; !slices.Equal(p.From_names, want) ||
			!slices.Equal(p.To_names, want) {
			t.Errorf("the names are %q and %q", p.From_names, p.To_names)
		}
		known := p.Unknown == 0 && len(p.Transfer) > 0 && p.Transfer[0].Lo_cycles > 0
		// Without the beginnings of calls, the first transfer of each thread is not known.
		bounded := 2*p.Unknown < p.Messages && len(p.Transfer) > 0 && p.Transfer[0].Hi_cycles > 0
		if p.From.Node != "na" || p.Backwards > 0 || p.Connections < 5 || timed && !known ||
			!bounded {
			t.Errorf("%+v", p)
		}
	}
	if matched > uint64(sent) || matched+lost < uint64(sent) {
		t.Errorf("%d messages matched, %d lost, %d sent: %+v", matched, lost, sent, m)
	}
	out := runCLI(t, "analyze", run)
	service, end := talkers()+" on na (db.example, web.example)", ""
	if timed {
		end = "\n"
	}
	if !strings.Contains(out, "\nmessages captured: ") ||
		!strings.Contains(out, service+" → "+service+end) {
		t.Error(out)
	}
}

var reportData = regexp.MustCompile(`(?s)<script id="data" type="application/json">(.*?)</script>`)

// checkReport checks what the page of "cprof report" shows about the messages of a run. If divided
// is true, the capture saw where the time of transfers went.
func checkReport(t *testing.T, run string, divided bool) {
	t.Helper()
	page := filepath.Join(t.TempDir(), "page.html")
	runCLI(t, "report", run, "--output", page)
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var d report.Data
	found := reportData.FindSubmatch(html)
	if found == nil {
		t.Fatalf("the page of %d bytes has no data", len(html))
	}
	if err := json.Unmarshal(found[1], &d); err != nil {
		t.Fatal(err)
	}
	named := map[int64]bool{} // services that have the name
	for i, s := range d.Messages.Services {
		if s.Name == talkers() && slices.Equal(s.Hosts, []string{hostNames[1], hostNames[0]}) {
			named[int64(i)] = true
		}
	}
	parts := int64(0)
	for _, talk := range d.Messages.Talks {
		if !named[talk.To] || !named[talk.From] {
			continue
		}
		parts += talk.Divided
		whole := talk.Divided > 0 && talk.Divided <= talk.Arrived && talk.Arrived <= talk.Messages
		all := [][]report.Percentile{talk.Network, talk.Kernel, talk.Program}
		for _, part := range all {
			whole = whole && len(part) > 0 && part[0].Hi_cycles >= part[0].Lo_cycles
		}
		if whole != divided {
			t.Errorf("%+v", talk)
		}
	}
	if len(named) != 1 || (parts > 100) != divided {
		t.Errorf("%d services have the names, %d messages have parts: %+v", len(named), parts,
			d.Messages)
	}
}
