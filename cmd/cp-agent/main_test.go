package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/cli"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/conversation"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

const roleVariable = "CLOUDPROFILER_CP_AGENT_TEST"

// roles maps values of roleVariable to functions. If a test starts this program with such a value,
// the program runs the function instead of the agent.
var roles = map[string]func(){}

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); {
	case os.Getenv(conversation.Variable) != "":
		conversation.Main()
		return
	case role == "":
	case roles[role] != nil:
		roles[role]()
		return
	default:
		main()
		return
	}
	os.Exit(leak.Main(m))
}

// output is a buffer that several goroutines may write and read at the same time.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// read returns the configuration with which the agent would serve.
func read(t *testing.T, args ...string) (got config) {
	t.Helper()
	d := program(nil)
	d.Serve = func(_ context.Context, s daemon.Start[config]) error {
		got = s.Config
		return nil
	}
	var stderr output
	if d.Run(t.Context(), args, io.Discard, &stderr) != 0 {
		t.Fatal(stderr.String())
	}
	return got
}

const example = "../../configs/cp-agent.yaml"

// The example file contains every key with its default.
func TestExampleIsTheDefault(t *testing.T) {
	agentOf := func(c config) agent.Config {
		t.Helper()
		a, err := c.agent()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	file, none := agentOf(read(t, "--config", example)), agentOf(read(t))
	if file.Chrony != "127.0.0.1:323" {
		t.Errorf("chrony %q", file.Chrony)
	}
	file.Chrony = ""
	if got, want := fmt.Sprintf("%+v", file), fmt.Sprintf("%+v", none); got != want {
		t.Errorf("the example is\n%s, the default\n%s", got, want)
	}
	d := agent.DefaultConfig()
	if none.MaxRunBytes != d.MaxRunBytes || none.MinFree != d.MinFree ||
		none.MaxProcessBytes != d.MaxProcessBytes || none.KeepRuns != d.KeepRuns {
		t.Errorf("%+v", none)
	}
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range daemon.Keys[config]() {
		if !regexp.MustCompile(`(?m)^(# )?` + key + `: `).Match(text) {
			t.Errorf("the example has no key %q", key)
		}
	}
}

// The agent accepts the file that docs/operating.md tells users to write.
func TestFileOfTheOperatingPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "cat >/etc/cloudprofiler/cp-agent.yaml <<'END'\n")
	text, _, _ = strings.Cut(text, "\nEND\n")
	t.Chdir(t.TempDir())
	for _, args := range []string{"keys server", "keys client beta"} {
		if code := cli.Run(t.Context(), strings.Fields(args), io.Discard, os.Stderr); code != 0 {
			t.Fatalf("cprof %s: exit code %d", args, code)
		}
	}
	text = strings.ReplaceAll(text, "/etc/cloudprofiler/", "")
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, "user: storm", "user: "+me.Username)
	if err := os.WriteFile("c.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := read(t, "--config", "c.yaml")
	if c.Node != "beta" || c.Server == "" || c.Key != "beta.secret" || c.User == "" {
		t.Errorf("the page's file\n%s\nis %+v", text, c)
	}
}

func TestPrecedence(t *testing.T) { commandtest.Precedence(t, program(nil)) }

func TestBadConfigurations(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct{ file, flag, says string }{
		"an unknown key":      {"nodes: a\n", "", `did you mean "node"?`},
		"not YAML":            {"\tnode", "", "yaml"},
		"a size":              {"max_run_bytes: much\n", "", "max_run_bytes"},
		"a share":             {"min_free: 100%\n", "", "min_free"},
		"another share":       {"min_free: NaN\n", "", "min_free"},
		"a number below zero": {"workers: -1\n", "", "workers"},
		"no such table":       {"handler_table: /none.yaml\n", "", "handler_table"},
		"an address":          {"probes: here\n", "", "probes"},
		"one key of two":      {"server: 127.0.0.1:1\nkey: /none\n", "", "server_key"},
		"no such flag":        {"", "--nodes=a", "nodes"},
	} {
		path := filepath.Join(dir, "c.yaml")
		if err := os.WriteFile(path, []byte(test.file), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"--config", path, "--check"}
		if test.flag != "" {
			args = append(args, test.flag)
		}
		var stdout, stderr output
		if code := program(nil).Run(t.Context(), args, &stdout, &stderr); code != 2 ||
			!strings.Contains(stderr.String(), test.says) {
			t.Errorf("%s: exit code %d, %s", name, code, stderr.String())
		}
	}
	var stdout, stderr output
	args := []string{"--config", example, "--check"}
	code := program(nil).Run(t.Context(), args, &stdout, &stderr)
	if code != 0 || !strings.Contains(stdout.String(), "can be used") {
		t.Errorf("exit code %d, %s", code, stderr.String())
	}
}

// An agent that cannot answer at the address for probes ends at once. The error names the address,
// and says what to do.
func TestProbesNeedTheirAddress(t *testing.T) {
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for address, remedy := range map[string]string{
		taken.LocalAddr().String(): "use another port", "192.0.2.1:7341": "use one of its own",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		var stderr output
		code := program(nil).Run(ctx, []string{"--rings", t.TempDir(), "--state", t.TempDir(),
			"--chrony", "off", "--probes", address}, io.Discard, &stderr)
		cancel()
		if said := stderr.String(); code != 1 || !strings.Contains(said, "answer probes: ") ||
			!strings.Contains(said, address) || !strings.Contains(said, remedy) {
			t.Errorf("--probes %s: exit code %d, %s", address, code, said)
		}
	}
}

// If root checks a configuration, the check tests whether the agent's future user can read the
// files that the configuration names. The error names the file, the user and what to do.
func TestPrivilegedCheckReadsAsTheUser(t *testing.T) {
	privileged.Need(t)
	t.Chdir(t.TempDir())
	if err := os.Chmod(".", 0o711); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"keys server", "keys client n"} {
		if code := cli.Run(t.Context(), strings.Fields(args), io.Discard, os.Stderr); code != 0 {
			t.Fatalf("cprof %s: exit code %d", args, code)
		}
	}
	args := []string{"--user", "nobody", "--node", "n", "--server", "127.0.0.1:1", "--key",
		"n.secret", "--server-key", "server.public", "--check"}
	var stdout, stderr output
	if code := program(nil).Run(t.Context(), args, &stdout, &stderr); code != 2 ||
		!strings.Contains(stderr.String(), `key "n.secret": user "nobody" cannot `) {
		t.Errorf("exit code %d: %s%s", code, stdout.String(), stderr.String())
	}
}

// The agent drains rings, applies new limits on SIGHUP, and writes everything to disk on SIGTERM.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	rings, state := filepath.Join(dir, "rings"), filepath.Join(dir, "state")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("max_run_bytes: 1GiB\n")
	t.Setenv(droppedVariable, "") // so that serve keeps its privileges: this process is the test
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reload := make(chan os.Signal)
	var stdout, stderr output
	code := make(chan int, 1)
	go func() {
		code <- program(reload).Run(ctx, []string{"--config", path, "--rings", rings, "--state",
			state, "--chrony", "off", "--node", "n"}, &stdout, &stderr)
	}()
	waitFor(t, "the agent", func() bool { return strings.Contains(stderr.String(), "draining") })
	c, err := handlers.Open("a/x", handlers.Options{Dir: rings, Handler: "id"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for id := range uint64(100) {
		c.Log(id)
	}
	local, err := agent.Connect(rings)
	if err != nil {
		t.Fatal(err)
	}
	if err := local.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	limit := func() string {
		s, err := local.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Limit
	}
	write("max_run_bytes: 1KiB\nworkers: 2\nkeep_runs: 3\n")
	reload <- syscall.SIGHUP
	waitFor(t, "the refusal", func() bool {
		return strings.Contains(stderr.String(),
			"workers, keep_runs cannot change while the agent runs")
	})
	if l := limit(); l != "" {
		t.Errorf("what was refused holds: %s", l)
	}
	write("max_run_bytes: 1KiB\nmin_free: 6%\n")
	reload <- syscall.SIGHUP
	waitFor(t, "the new limits",
		func() bool { return strings.Contains(stderr.String(), "read the configuration again") })
	if l := limit(); !strings.Contains(l, "of at most 1024") {
		t.Errorf("the new limit does not hold: %q", l)
	}
	stop()
	if got := <-code; got != 0 {
		t.Fatalf("exit code %d: %s", got, stderr.String())
	}
	segments, err := logstore.Segments(filepath.Join(state, "logs", "000000"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	r := logstore.ReadLog(segments)
	defer r.Close()
	n := 0
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		n += len(b.Events)
	}
	if h := r.Header(); n != 100 || h.Node != "n" || h.Quantum_cycles == 0 {
		t.Errorf("%d events, %+v", n, h)
	}
}

// An agent that root starts gives up all capabilities. If a user is configured, it becomes that
// user.
func TestPrivilegedDrop(t *testing.T) {
	privileged.Need(t)
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip("this system has no user nobody")
	}
	for name, args := range map[string][]string{"0": nil, nobody.Uid: {"--user", "nobody"}} {
		dir, err := os.MkdirTemp("/tmp", "cp-agent-test") // a directory that user nobody can enter
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		rings, state := filepath.Join(dir, "rings"), filepath.Join(dir, "var", "state")
		if err := os.Mkdir(rings, 0o700); err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(name)
		if err := os.Chown(rings, uid, -1); err != nil {
			t.Fatal(err)
		}
		argv, err := reexec.Argv(append(args, "--rings", rings, "--state", state,
			"--chrony", "off")...)
		if err != nil {
			t.Fatal(err)
		}
		// Other users may not enter the directory of the test's binary, so copy the binary.
		binary := filepath.Join(dir, "cp-agent")
		out, err := exec.Command("cp", argv[len(argv)-len(args)-7], binary).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := os.Chmod(binary, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary, argv[len(argv)-len(args)-6:]...)
		cmd.Dir = "/"
		// This puts the process into a second group, so that the test can see that the process
		// leaves it.
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Groups: []uint32{4}}}
		var stderr output
		cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), roleVariable+"=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		waitFor(t, "the agent of user "+name, func() bool {
			select {
			case err := <-ended:
				t.Fatalf("user %s: %v: %s", name, err, stderr.String())
			default:
			}
			return strings.Contains(stderr.String(), "draining")
		})
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		wants := []string{
			"CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapInh:\t0000000000000000",
			"NoNewPrivs:\t1", "\nUid:\t" + name + "\t" + name + "\t" + name,
		}
		if len(args) == 0 {
			// The process has also lost the bounding set, from which root's programs get
			// capabilities.
			wants = append(wants, "CapBnd:\t0000000000000000")
		} else {
			// The process has left root's groups.
			wants = append(wants, "\nGid:\t"+nobody.Gid+"\t"+nobody.Gid+"\t"+nobody.Gid,
				"\nGroups:\t \n")
		}
		for _, want := range wants {
			if !strings.Contains(string(status), want) {
				t.Errorf("user %s: no %q in\n%s", name, want, status)
			}
		}
		cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Errorf("user %s: %v: %s", name, err, stderr.String())
		}
		if strings.Contains(stderr.String(), "could not be given up") {
			t.Errorf("user %s: %s", name, stderr.String())
		}
		if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("user %s: %v, %v", name, info, err)
		}
	}
}

// The agent refuses a directory of logs that another user owns, and says what to do.
func TestPrivilegedStateIsNotTaken(t *testing.T) {
	privileged.Need(t)
	const somebody = 12345
	state := filepath.Join(t.TempDir(), "new", "state")
	for range 2 { // the second time, the directory already exists
		if err := giveState(state, somebody, somebody); err != nil {
			t.Fatal(err)
		}
	}
	err := giveState(state, somebody+1, somebody)
	want := "belongs to user '#12345': give it away with chown -R 12346"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}
