package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ntp"
)

func TestBadConfigurations(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"a node's name":        func(c *Config) { c.Node = "a/b" },
		"a state of another":   func(c *Config) { c.State = "/proc" },
		"a table that is none": func(c *Config) { c.Table = filepath.Join(c.State, "none.yaml") },
		"keep less than none":  func(c *Config) { c.KeepRuns = -1 },
		"an address":           func(c *Config) { c.Listen = "nonsense" },
		"all free":             func(c *Config) { c.MinFree = 1 },
	} {
		c := testConfig(t)
		change(&c)
		if a, err := Start(c); err == nil {
			t.Errorf("%s was taken", name)
			a.Close()
		}
		// A refused agent leaves nothing that keeps the next agent from starting.
		good := testConfig(t)
		good.Rings = c.Rings
		startTest(t, good).Close()
	}
	c := testConfig(t)
	if err := os.MkdirAll(c.State, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", `{"logs": "../elsewhere"}`,
		`{"logs": "logs/000000", "before": ["/etc"]}`, `{"logs": "logs/000000", "version": 2}`} {
		if err := os.WriteFile(filepath.Join(c.State, "state.json"), []byte(text),
			0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Start(c); err == nil {
			t.Errorf("state %s was taken", text)
		}
	}
}

func TestSocketAndPages(t *testing.T) {
	c := testConfig(t)
	c.Listen = "127.0.0.1:0"
	a := startTest(t, c)
	logIDs(open(t, c, "a/x", handlers.Options{Policy: "overwrite"}), 0, 10)
	testimony.WaitFor(t, "the ring", func() bool { return len(a.Status().Channels) == 1 })

	info, err := os.Stat(filepath.Join(c.Rings, SocketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	local, err := Connect(c.Rings)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s, err := local.Status(ctx)
	if err != nil || s.Node != "node-1" || len(s.Channels) != 1 || s.Channels[0].Channel != "a/x" ||
		len(s.Processes) != 1 || s.Processes[0].Rings != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := local.Flush(ctx); err != nil {
		t.Error(err)
	}
	if s, err := local.Snapshot(ctx, ""); err != nil || s.Channels != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if r, err := local.OpenRun(ctx, "r"); err != nil ||
		r.Directory != filepath.Join(c.State, "runs", "r") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := local.OpenRun(ctx, "s"); err == nil ||
		!strings.Contains(err.Error(), "close it first") {
		t.Error(err)
	}
	if r, err := local.CloseRun(ctx, "r"); err != nil || !r.Closed {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := local.CloseRun(ctx, "none"); err == nil {
		t.Error("a run that is none was closed")
	}

	base := "http://" + a.address.String()
	get := func(method, path, accept string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	if code, text := get("GET", "/status", "text/html"); code != 200 ||
		!strings.Contains(text, "cp-agent on node-1") || !strings.Contains(text, "a/x") {
		t.Errorf("%d %s", code, text)
	}
	for _, path := range []string{"/status", "/status.json"} {
		code, text := get("GET", path, "application/json")
		var s Status
		if err := json.Unmarshal([]byte(text), &s); err != nil || code != 200 ||
			s.Node != "node-1" {
			t.Errorf("%s: %d %v", path, code, err)
		}
	}
	code, text := get("GET", "/metrics", "")
	for _, want := range []string{"cloudprofiler_agent_events_total 10\n",
		"cloudprofiler_agent_rings 1\n", "cloudprofiler_agent_server_connected 0\n",
		`cloudprofiler_agent_channel_events{channel="a/x"} 10`, "process_cpu_seconds_total"} {
		if code != 200 || !strings.Contains(text, want) {
			t.Errorf("metrics: %d, no %q", code, want)
		}
	}
	if strings.Contains(text, "chrony_bound") {
		t.Error("a bound that nobody claims is in the metrics")
	}
	// Any program that reaches the address may read the agent's state, but may not give orders.
	for _, path := range []string{PathSnapshot, PathFlush, PathOpenRun + "?name=x", PathCloseRun +
		"?name=x"} {
		if code, _ := get("POST", path, ""); code != http.StatusNotFound {
			t.Errorf("POST %s: %d", path, code)
		}
	}
	a.Close()
	if _, err := local.Status(ctx); !errors.Is(err, ErrNoAgent) {
		t.Error(err)
	}
	if _, err := Connect(filepath.Join(c.Rings, "none")); !errors.Is(err, ErrNoAgent) ||
		!strings.Contains(err.Error(), "start cp-agent, or name") {
		t.Errorf("a directory that is none: %v", err)
	}
}

// The agent stores chrony's claims in the run's baseline file, one block after another. This holds
// even if a second agent continues the file. The status shows the last claim.
func TestClaimsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "baselines", "n.ntp")
	claim := ntp.Claim{
		Offset_ns: -5, RootDelay_ns: 10, RootDispersion_ns: 20, Frequency_ppt: -7, Skew_ppt: 8,
		Stratum: 2, ReferenceID: 9,
	}
	newTestPoller := func() *chronyPoller {
		p := newPoller("somewhere", "n", func() string {
			return "e7"
		}, func(err error) { t.Error(err) })
		p.ask = func(context.Context, string) (ntp.Claim, error) { return claim, nil }
		return p
	}
	p := newTestPoller()
	p.poll(t.Context()) // without a run, the claim is only in the status
	if s := p.Status(); !s.Bounded || s.Bound_ns != 30 {
		t.Errorf("%+v", s)
	}
	p.open(path)
	for range claimsHeld + 3 {
		p.poll(t.Context())
	}
	if err := p.leaveBaseline(); err != nil {
		t.Fatal(err)
	}
	p = newTestPoller()
	p.open(path)
	p.poll(t.Context())
	p.ask = func(context.Context, string) (ntp.Claim, error) {
		return ntp.Claim{}, errors.New("gone")
	}
	p.poll(t.Context())
	if s := p.Status(); s.Bounded || s.Error != "gone" {
		t.Errorf("%+v", s)
	}
	if err := p.closeBaseline(); err != nil {
		t.Fatal(err)
	}

	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := logstore.NewReader(f, path)
	if err != nil {
		t.Fatal(err)
	}
	// The analysis ignores claims of another epoch, so the file must name the epoch of the run.
	if h := r.Header(); h.Epoch != "e7" {
		t.Errorf("epoch %q", h.Epoch)
	}
	n := 0
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range b.NTPs {
			n++
			want := logstore.NTP{
				CounterLo: row.CounterLo, CounterHi: row.CounterHi, Offset_ns: -5, RootDelay_ns: 10,
				RootDispersion_ns: 20, Frequency_ppt: -7, Skew_ppt: 8, Stratum: 2, ReferenceID: 9,
			}
			if row != want || row.CounterLo >= row.CounterHi {
				t.Errorf("%+v", row)
			}
		}
	}
	if report := r.Report(); n != claimsHeld+4 || !report.Sealed || !report.Whole() {
		t.Errorf("%d claims, %+v", n, report)
	}
}

// During a run, the agent asks chrony at once and then every second. Without a run, it asks rarely.
// While the counter is in another epoch than the file, the agent keeps no claims. While it cannot
// write, it keeps only a limited number of claims.
func TestChronyIsAskedEverySecond(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n.ntp")
	synctest.Test(t, func(t *testing.T) {
		var other atomic.Bool // true if the counter is in the other epoch
		var asked, failed atomic.Int64
		epoch := func() string {
			if other.Load() {
				return "e8"
			}
			return "e7"
		}
		p := newPoller("somewhere", "n", epoch, func(error) { failed.Add(1) })
		p.ask = func(context.Context, string) (ntp.Claim, error) {
			asked.Add(1)
			return ntp.Claim{Stratum: 1}, nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go p.run(ctx)
		since := func(lasting time.Duration) int64 {
			before := asked.Load()
			time.Sleep(lasting)
			synctest.Wait()
			return asked.Load() - before
		}
		since(59 * time.Second)
		// asked counts all requests since the beginning of the test.
		if n := asked.Load(); n != 6 {
			t.Errorf("asked %d times in a minute without a run", n)
		}
		p.open(path)
		synctest.Wait()
		if asked.Load() != 7 {
			t.Errorf("asked %d times when a run begins, want one more than 6", asked.Load())
		}
		if n := since(20 * time.Second); n != 20 {
			t.Errorf("asked %d times in 20 s of a run", n)
		}
		other.Store(true)
		since(20 * time.Second)
		other.Store(false)
		p.mu.Lock()
		next, held := p.next, len(p.rows)
		p.mu.Unlock()
		if next != 20 || held != 1 {
			t.Errorf("%d claims in the file and %d held, want 20 and 1", next, held)
		}
		p.mu.Lock()
		err := p.writer.Close() // further writes fail, as on a failing disk
		p.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		since(time.Hour)
		p.mu.Lock()
		held = len(p.rows)
		p.mu.Unlock()
		if held > 100*claimsHeld+1 || failed.Load() != 1 {
			t.Errorf(
				"%d claims are held, and %d times it was said that they cannot be kept, want once",
				held, failed.Load())
		}
		cancel()
		synctest.Wait()
		p.writer = nil
	})
}

func TestStateMovesOn(t *testing.T) {
	s := agentState{Logs: "a"}
	for _, to := range []string{"b", "c", "b", "b", "d"} {
		s = s.movedTo(to, func(string) bool { return true })
	}
	if s.Logs != "d" || !slices.Equal(s.Before, []string{"b", "c", "a"}) {
		t.Errorf("%+v", s)
	}
	for _, to := range strings.Split("efghijklmnop", "") {
		s = s.movedTo(to, func(string) bool { return true })
	}
	// While the agent cannot move logs, any existing directory may still have a log to be
	// continued.
	if len(s.Before) != 15 || s.Before[0] != "o" || s.Before[14] != "a" {
		t.Errorf("%+v", s)
	}
	s = s.movedTo("q", func(logs string) bool { return logs != "c" })
	if len(s.Before) != 15 || s.Before[0] != "p" || slices.Contains(s.Before, "c") {
		t.Errorf("%+v", s)
	}
	if s = s.afterMove(); len(s.Before) != keptBefore || s.Before[0] != "p" {
		t.Errorf("%+v", s)
	}
	dir := t.TempDir()
	if err := s.write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, stateFile+".part")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// If a logout removes the directory of rings together with the agent's socket, the agent makes the
// socket again, and later callers find the agent.
func TestSocketIsMadeAnew(t *testing.T) {
	c := testConfig(t)
	startTest(t, c)
	for _, path := range []string{filepath.Join(c.Rings, SocketName), c.Rings} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		var err error
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(
			10 * time.Millisecond) {
			var l *Local
			if l, err = Connect(c.Rings); err != nil {
				continue
			}
			if _, err = l.Status(t.Context()); err == nil {
				break
			}
		}
		if err != nil {
			t.Fatalf("without %q: %v", path, err)
		}
		if info, err := os.Lstat(filepath.Join(c.Rings, SocketName)); err != nil ||
			info.Mode().Perm() != 0o600 {
			t.Errorf("the socket is open to others: %v, %v", info, err)
		}
	}
}
