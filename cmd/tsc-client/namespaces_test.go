package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/cli"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// asVariable names the environment variable that tells this test program which command to be.
const asVariable = "CLOUDPROFILER_TEST_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(asVariable) {
	case "tsc-client":
		main()
	case "cprof":
		os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(leak.Main(m))
}

// A process is a command that runs in a network namespace.
type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

// start starts this test program as a command in a namespace. If the process still runs when the
// thread that started it ends, the kernel kills it.
func start(t *testing.T, pair *netns.Pair, end int, as string, args ...string) *process {
	t.Helper()
	cmd, err := reexec.Command(args...)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: cmd}
	cmd.Env = append(os.Environ(), asVariable+"="+as)
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := pair.Do(end, cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill() // fails if the process has ended
		_ = cmd.Wait()
	})
	return p
}

// end waits until the command ends or the limit is over, and returns the exit code.
func (p *process) end(t *testing.T, limit time.Duration) int {
	t.Helper()
	timer := time.AfterFunc(limit, func() { _ = p.Process.Kill() })
	_ = p.Wait()
	if !timer.Stop() {
		t.Fatalf("it hangs: %v\n%s", p.Args, p.stderr.String())
	}
	return p.ProcessState.ExitCode()
}

// "cprof relate" relates two tsc-clients in two namespaces, with keys. Each client is a virtual
// node whose rate wanders by half of the assumed wander. The interval of every translated reading
// contains the truth. Later one client is stopped, and the other is killed. Each time, relate names
// the client that fails, and does not hang.
func TestPrivilegedRelateAcrossNamespaces(t *testing.T) {
	privileged.Need(t)
	pair, err := netns.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	dir := t.TempDir()
	secret, public, me, clients := makeKeys(t, dir)

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	now := virtual.Physical{
		Counter: asm.Counter(), Realtime_ns: time.Now().UnixNano(), Hz: 2_600_000_000,
	}
	var truth [2]*vnode.Truth
	var processes [2]*process
	where := [2]string{pair.Addr(0).String() + ":7340", pair.Addr(1).String() + ":7340"}
	startNode := func(i int, config string) *process {
		return start(t, pair, i, "tsc-client", "--probes", pair.Addr(i).String()+":7341",
			"--command", where[i],
			"--command-key", secret, "--command-client-keys", clients, "--virtual", config)
	}
	for i, name := range []string{"north", "south"} {
		v := virtual.Config(r, name, now, []vnode.Shape{vnode.Sine, vnode.Walk}[i], 1,
			10*time.Minute)
		text, err := v.Encode()
		if err != nil {
			t.Fatal(err)
		}
		config := filepath.Join(dir, name+".json")
		if err := os.WriteFile(config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if truth[i], err = vnode.NewTruth(v.Counter); err != nil {
			t.Fatal(err)
		}
		processes[i] = startNode(i, config)
	}
	relate := func(args ...string) *process {
		return start(t, pair, 0, "cprof",
			append([]string{"relate", where[0], where[1], "--key", me, "--node-key", public},
				args...)...)
	}
	file := filepath.Join(dir, "north--south.rel")
	before := asm.Counter()
	// Before a client answers, it measures its counter for a second or two, or longer on a busy
	// machine. relate waits only three seconds for an answer, so try more than once.
	var relating *process
	code := -1
	for try := 0; try < 3 && code != 0; try++ {
		_ = os.Remove(file) // the file of a try that failed
		relating = relate("--seconds", "5", "-o", file)
		code = relating.end(t, time.Minute)
	}
	after := asm.Counter()
	t.Logf("\n%s", relating.stdout.String())
	if code != 0 {
		t.Fatalf("exit code %d: %s\n%s\n%s", code, relating.stderr.String(),
			processes[0].stderr.String(), processes[1].stderr.String())
	}
	holdsTruth(t, file, truth, before, after)

	// A stopped client answers neither probes nor commands, but its sockets stay open.
	relating = relate("--seconds", "60")
	time.Sleep(time.Second) // any moment during the measurement will do
	if err := processes[1].Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	named(t, relating, `"south" at `+where[1], "answers at "+where[1])
	if err := processes[1].Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// A killed client has no sockets any more.
	relating = relate("--seconds", "60")
	time.Sleep(time.Second)
	if err := processes[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	named(t, relating, `"north`, "answers at "+where[0])
}

// named checks that relate ends soon and names the node that failed. On a busy machine, the node
// may fail before relate has asked it for its name. Then relate names the node's address.
func named(t *testing.T, relating *process, who, where string) {
	t.Helper()
	begin := time.Now()
	code := relating.end(t, 30*time.Second)
	said := relating.stderr.String()
	if code != 3 && code != 1 || !strings.Contains(said, who) && !strings.Contains(said, where) {
		t.Errorf("exit code %d after %v, want %s or %s named in: %s",
			code, time.Since(begin).Round(time.Millisecond), who, where, said)
	}
	t.Logf("named after %v: %s", time.Since(begin).Round(time.Millisecond),
		relating.stderr.String())
}

func makeKeys(t *testing.T, dir string) (secret, public, me, clients string) {
	t.Helper()
	clients = filepath.Join(dir, "clients")
	if err := os.Mkdir(clients, 0o700); err != nil {
		t.Fatal(err)
	}
	command, err := control.NewKey("command", control.RoleServer)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := control.NewKey("me", control.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	secret = filepath.Join(dir, "command.secret")
	public = filepath.Join(dir, "command.public")
	me = filepath.Join(dir, "me.secret")
	for path, key := range map[string]control.Key{
		secret:                              command,
		public:                              command.Halved(),
		me:                                  admin,
		filepath.Join(clients, "me.public"): admin.Halved(),
	} {
		if err := key.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	return secret, public, me, clients
}

// holdsTruth checks many readings, in both directions of a stored relation, against the truth.
func holdsTruth(t *testing.T, file string, truth [2]*vnode.Truth, before, after uint64) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tscratio.DecodePair(data)
	if err != nil {
		t.Fatal(err)
	}
	if pair.A.Name != "north" || pair.B.Name != "south" {
		t.Fatalf("a relation of %q with %q", pair.A.Name, pair.B.Name)
	}
	const queries = 20_000
	for _, into := range []tscratio.Side{tscratio.SideA, tscratio.SideB} {
		relation, err := pair.Relate(into, pair.Declared.Wander)
		if err != nil || relation.Verdict != tscratio.Consistent {
			t.Fatalf("%+v, %v", relation, err)
		}
		from, to := truth[1], truth[0]
		if into == tscratio.SideB {
			from, to = to, from
		}
		outside := 0
		for i := range uint64(queries) {
			p := before + (after-before)/queries*i
			y, want := from.Reading(p), to.Reading(p)
			if at, err := relation.Translate(y); err != nil || !at.Contains(want) {
				if outside++; outside == 1 {
					t.Errorf("reading %d of %q is in %v, in truth %d: %v",
						y, relation.From.Name, at, want, err)
				}
			}
		}
		if outside > 0 {
			t.Errorf("%s: %d of %d outside", fmt.Sprint(relation.Into.Name), outside, queries)
		}
	}
}
