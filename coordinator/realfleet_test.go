package coordinator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/virtual"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// realFleet is a server and clients that run as separate processes in separate namespaces.
type realFleet struct {
	t       *testing.T
	star    *netns.Star
	dir     string
	asker   *asker
	graph   bool // the server takes the fleet for a large one
	server  *exec.Cmd
	clients []*realClient
}

type realClient struct {
	job     job
	truth   *vnode.Truth
	process *exec.Cmd
	fault   string // "" while the test has done nothing to it
}

const serverPort = 7330

func newRealFleet(t *testing.T, r *rand.Rand, nodes int) *realFleet {
	t.Helper()
	return startRealFleet(t, r, nodes, false)
}

func startRealFleet(t *testing.T, r *rand.Rand, nodes int, graph bool) *realFleet {
	t.Helper()
	star, err := netns.NewStar(nodes)
	if err != nil {
		t.Fatal(err)
	}
	f := &realFleet{t: t, star: star, dir: t.TempDir(), graph: graph}
	t.Cleanup(f.end)
	id, err := tscclient.Identify("parent", tscclient.Kept{})
	if err != nil {
		t.Fatal(err)
	}
	id.Close()
	keys := filepath.Join(f.dir, "clients")
	if err := os.MkdirAll(keys, 0o755); err != nil {
		t.Fatal(err)
	}
	makeKey := func(name string, role control.Role) control.Key {
		k, err := control.NewKey(name, role)
		if err == nil {
			err = k.Write(filepath.Join(f.dir, name+".secret"))
		}
		public := filepath.Join(keys, name+".public")
		if role == control.RoleServer {
			public = filepath.Join(f.dir, "server.public")
		}
		if err = errors.Join(err, k.Halved().Write(public)); err != nil {
			t.Fatal(err)
		}
		return k
	}
	makeKey("server", control.RoleServer)
	makeKey("admin", control.RoleAdmin)
	f.startServer()
	physical := virtual.Physical{
		Counter: asm.Counter(), Realtime_ns: time.Now().UnixNano(), Hz: id.Node.Nominal_hz,
	}
	for i := range nodes {
		name := fmt.Sprintf("n%02d", i)
		makeKey(name, control.RoleNode)
		shape := []vnode.Shape{vnode.Steady, vnode.Sine, vnode.Walk, vnode.Temperature}[r.IntN(4)]
		clocks := virtual.Config(r, name, physical, shape, 0.5, 10*time.Minute)
		truth, err := vnode.NewTruth(clocks.Counter)
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := clocks.Encode()
		if err != nil {
			t.Fatal(err)
		}
		node := id.Node
		node.Name, node.Epoch = name, "virtual-1"
		node.Quantum_cycles = virtual.Quantum_cycles(clocks.Counter, id.Node.Quantum_cycles)
		// A virtual counter may run a little faster than this machine's counter. Then the same core
		// slack is more cycles of the virtual counter.
		node.CoreSlack_cycles += node.CoreSlack_cycles/50 + 2
		f.clients = append(f.clients, &realClient{truth: truth, job: job{
			Address: f.address(), Key: f.keyFile(name + ".secret"),
			Public: f.keyFile("server.public"), Node: node,
			Listen: netip.AddrPortFrom(star.Addr(i), 4000),
			Clocks: encoded, Cores: len(id.Report.Facts.Cores.Allowed),
		}})
		f.startClient(i)
	}
	cmd := f.command(job{Asker: true, Address: f.address(), Key: f.keyFile("admin.secret"),
		Public: f.keyFile("server.public")})
	if f.asker, err = startAsker(cmd, func() error { return f.begin(netns.Hub, cmd) }); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *realFleet) keyFile(name string) string { return filepath.Join(f.dir, name) }

func (f *realFleet) address() string {
	return netip.AddrPortFrom(f.star.Addr(netns.Hub), serverPort).String()
}

// start starts a process of the fleet in a namespace.
func (f *realFleet) start(end int, j job) *exec.Cmd {
	f.t.Helper()
	cmd := f.command(j)
	if err := f.begin(end, cmd); err != nil {
		f.t.Fatal(err)
	}
	return cmd
}

// begin starts a command of the fleet in a namespace.
func (f *realFleet) begin(end int, cmd *exec.Cmd) error {
	defer cmd.Stderr.(*os.File).Close() // the process has its own copy
	return f.star.Do(end, cmd.Start)
}

// command returns a process of the fleet that is not started yet. If the test fails, it prints what
// the process printed.
func (f *realFleet) command(j job) *exec.Cmd {
	f.t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		f.t.Fatal(err)
	}
	cmd, err := reexec.Command("-test.run=^$")
	if err != nil {
		f.t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	path := filepath.Join(f.dir, fmt.Sprintf("log-%s", j.Node.Name))
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (f *realFleet) startServer() {
	f.server = f.start(netns.Hub, job{
		Address: f.address(), Key: filepath.Join(f.dir, "server.secret"),
		Public: filepath.Join(f.dir, "clients"), State: f.dir, Graph: f.graph,
	})
}

func (f *realFleet) startClient(i int) { f.clients[i].process = f.start(i, f.clients[i].job) }

func kill(cmd *exec.Cmd) {
	if cmd != nil && cmd.Process != nil {
		cmd.Process.Kill()
		cmd.Wait()
	}
}

func (f *realFleet) end() {
	if f.asker != nil {
		kill(f.asker.process)
	}
	kill(f.server)
	for _, c := range f.clients {
		kill(c.process)
	}
	f.star.Close()
	if f.t.Failed() {
		logs, _ := filepath.Glob(filepath.Join(f.dir, "log-*"))
		for _, path := range logs {
			text, _ := os.ReadFile(path)
			lines := bytes.Split(text, []byte("\n"))
			shown := 15
			if bytes.Contains(text, []byte("SIGQUIT")) {
				shown = 400
			}
			end := bytes.Join(lines[max(0, len(lines)-shown):], []byte("\n"))
			f.t.Logf("%s, the last of %d lines:\n%s", filepath.Base(path), len(lines), end)
		}
	}
}

// question asks the server a question. It tries again for a minute, because the server may be
// restarted meanwhile.
func (f *realFleet) question(what string, argument, result any) {
	f.t.Helper()
	// The time limit doubles from one try to the next. The first limit is short, because a server
	// that is killed meanwhile never answers. A slow server answers a later try.
	limit := 3 * time.Second
	for end := time.Now().Add(time.Minute); ; limit *= 2 {
		answer, err := f.asker.ask(what, argument, limit)
		if err == nil {
			if err := json.Unmarshal(answer, result); err != nil {
				f.t.Fatal(err)
			}
			return
		}
		if time.Now().After(end) {
			f.server.Process.Signal(syscall.SIGQUIT) // the server's log then shows where it hangs
			f.server.Wait()
			f.t.Fatalf("the server does not answer %q: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (f *realFleet) wellNodes() (names []string) {
	for _, c := range f.clients {
		if c.fault == "" {
			names = append(names, c.job.Node.Name)
		}
	}
	return names
}

// waitRegistered waits until all nodes without a fault are registered.
func (f *realFleet) waitRegistered() {
	f.t.Helper()
	f.waitUntil("all nodes without a fault are registered", func() bool {
		there := f.registered()
		return !slices.ContainsFunc(f.wellNodes(), func(n string) bool {
			return !slices.Contains(there, n)
		})
	})
}

func (f *realFleet) registered() (names []string) {
	f.t.Helper()
	f.question(AskRegistered, nil, &names)
	return names
}

// finishRun stops the run, waits until it is complete, and opens the run's directory. The directory
// stays open until the test ends.
func (f *realFleet) finishRun(status *RunStatus) *runs.Directory {
	f.t.Helper()
	f.question(AskStopRun, nil, status)
	f.waitUntil("the run is finished", func() bool {
		f.question(AskRun, nil, status)
		return status.Phase == PhaseComplete
	})
	dir, err := runs.Open(status.Path)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { dir.Close() })
	return dir
}

// waitUntil waits until a condition holds.
func (f *realFleet) waitUntil(what string, holds func() bool) {
	f.t.Helper()
	limit := 3*time.Minute + time.Duration(len(f.clients))*time.Second
	for end := time.Now().Add(limit); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("after %v it does not hold that %s; registered are %v",
				limit, what, f.registered())
		}
	}
}

// sweep asks for a sweep over all pairs. If the function fault is not nil, sweep calls it after the
// given time. If fault returns true, fault has restarted the server, and sweep returns nil.
func (f *realFleet) sweep(after time.Duration, fault func() bool) *SweepStatus {
	f.t.Helper()
	var s *SweepStatus
	f.question(AskSweep, SweepRequest{}, &s)
	if fault != nil {
		time.Sleep(after)
		if fault() {
			return nil
		}
	}
	for end := time.Now().Add(3 * time.Minute); s.Running; time.Sleep(10 * time.Millisecond) {
		f.question(AskSweepStatus, nil, &s)
		if time.Now().After(end) {
			f.t.Fatalf("a sweep hangs: %+v", s)
		}
	}
	return s
}

func (f *realFleet) truths() map[string]*vnode.Truth {
	truths := map[string]*vnode.Truth{}
	for _, c := range f.clients {
		truths[c.job.Node.Name] = c.truth
	}
	return truths
}

// check compares every bound with the truth. It returns the number of bounds.
func (f *realFleet) check() (bounds int) {
	f.t.Helper()
	bounds, untrue := f.compareBounds("")
	for _, u := range untrue {
		f.t.Error(u)
	}
	return bounds
}

// compareBounds compares all bounds, except those of one node, with the truth. It describes the
// bounds that miss the truth.
func (f *realFleet) compareBounds(but string) (bounds int, untrue []string) {
	f.t.Helper()
	var m Matrix
	f.question(AskNodes, nil, &m)
	truths := f.truths()
	for _, p := range m.Pairs {
		if p.Hi_cycles == 0 || p.From == but || p.Into == but {
			continue
		}
		bounds++
		held := false
		for _, span := range truths[p.From].Instants(p.Reading_cycles) {
			if span.First > asm.Counter() {
				continue // after a century the counter wraps, and shows this reading again
			}
			lo, hi := truths[p.Into].Reading(span.First), truths[p.Into].Reading(span.Last)
			if lo < p.Lo_cycles || hi > p.Hi_cycles {
				untrue = append(untrue, fmt.Sprintf(
					"FALSE: %s's %d in cycles of %s is [%d, %d], and [%d, %d] in truth",
					p.From, p.Reading_cycles, p.Into, p.Lo_cycles, p.Hi_cycles, lo, hi))
			}
			held = true
		}
		if !held {
			untrue = append(untrue, fmt.Sprintf("%s's %d is a reading of no instant",
				p.From, p.Reading_cycles))
		}
		if p.Verdict != tscratio.Consistent.String() {
			f.t.Logf("%s with %s is %s: %s", p.From, p.Into, p.Verdict, p.Unhealthy)
		}
	}
	return bounds, untrue
}
