package agent

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/memory"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// If a user's programs open more rings than the agent has descriptors for, the agent answers, opens
// runs and drains as many rings as it can. It drains the others as soon as some rings are gone.
func TestMoreRingsThanDescriptors(t *testing.T) {
	const rings = 120
	s := newScene(t)
	var channels []*handlers.Channel
	for i := range rings {
		c, err := handlers.Open(fmt.Sprintf("a/x%d", i), handlers.Options{
			Dir: s.Rings, Policy: "drop", Buffer: "1KiB",
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		logIDs(c, 0, 10)
		channels = append(channels, c)
	}
	s.startSteady(128, func(int) {})
	agent, err := Connect(s.Rings)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(what string, enough func(Status) bool) (now Status) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			now, err = agent.Status(ctx)
			if err == nil && enough(now) {
				return now
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %v, %d channels, %d left, warnings %q", what, err, len(now.Channels),
					now.Left, now.Warnings)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	now := ask("it holds what it can", func(s Status) bool {
		return len(s.Channels)+s.Left == rings
	})
	if len(now.Channels) < 10 || len(now.Channels) > 128/2 || now.SetAside != 0 ||
		len(now.Warnings) == 0 {
		t.Errorf("it holds %d of %d rings, set aside %d, warnings %q", len(now.Channels), rings,
			now.SetAside, now.Warnings)
	}
	run, err := agent.OpenRun(t.Context(), "crowded")
	if err != nil {
		t.Fatalf("open a run: %v", err)
	}
	for _, c := range channels {
		c.Close()
	}
	ask("all are drained", func(s Status) bool { return s.Finished == rings })
	if _, err := agent.CloseRun(t.Context(), "crowded"); err != nil {
		t.Fatalf("close the run: %v", err)
	}
	events := uint64(0)
	for _, dir := range []string{filepath.Join(s.state, spanDirectory(0)),
		filepath.Join(run.Directory, "logs", "node-1")} {
		segments, err := logstore.Segments(dir)
		if err != nil {
			t.Fatal(err)
		}
		for len(segments) > 0 {
			one := logstore.SegmentsOf(segments, segments[0].Channel, segments[0].Incarnation)
			k, err := read(one)
			if err != nil {
				t.Error(err)
			}
			events, segments = events+k.events, segments[len(one):]
		}
	}
	if events != 10*rings {
		t.Errorf("%d events in logs, want %d", events, 10*rings)
	}
}

// beCrowd opens many channels, logs once on each, and keeps the channels open.
func beCrowd(rings, name, count string) {
	n, err := strconv.Atoi(count)
	must(err)
	channels := make([]*handlers.Channel, n)
	for i := range channels {
		o := handlers.Options{Dir: rings, Policy: "drop", Buffer: "256"}
		channels[i], err = handlers.Open(fmt.Sprintf("%s/c%d", name, i), o)
		must(err)
		channels[i].Log(uint64(i))
	}
	fmt.Println("open")
	fmt.Scanln() // wait until the test kills this process
	runtime.KeepAlive(channels)
}

// memoryGroup is a control group that limits a process's memory.
type memoryGroup struct {
	dir, limit, peak string // peak is "" if the kernel does not record the peak
}

// newMemoryGroup makes a control group with the memory controller of version 1 or 2. It returns an
// error if this process may not do so.
func newMemoryGroup(t *testing.T, bytes int64) (g memoryGroup, err error) {
	name := fmt.Sprintf("cloudprofiler-test-%d", os.Getpid())
	for _, g = range []memoryGroup{
		{"/sys/fs/cgroup/memory/" + name, "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
		{"/sys/fs/cgroup/" + name, "memory.max", "memory.peak"},
	} {
		if err = os.Mkdir(g.dir, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() { os.Remove(g.dir) })
		limit := []byte(strconv.FormatInt(bytes, 10))
		if err = os.WriteFile(filepath.Join(g.dir, g.limit), limit, 0); err == nil {
			return g, nil
		}
	}
	return memoryGroup{}, err
}

func (g memoryGroup) join(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// peak_bytes returns the largest amount of memory that the group had, including memory of the
// kernel.
func (g memoryGroup) peak_bytes() (int64, error) {
	text, err := os.ReadFile(filepath.Join(g.dir, g.peak))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// sparse makes rings of 2 GiB for a living program. The rings say that they are full, but their
// records take no memory. blocks_bytes returns how much memory the rings take.
func (s *testScene) sparse(count int) (blocks_bytes func() int64) {
	v := hostileProgram{rings: s.Rings, scratch: s.t.TempDir()}
	image := v.image("crowd/sparse", ring.Config{})
	const records = 2 << 30 / ring.RecordBytes
	size := growRecords(image, records)
	reserveAll(image, records)
	var rings []hostileRing
	for range count {
		m := v.put("crowd/sparse", image, size)
		s.t.Cleanup(func() { m.Close() })
		rings = append(rings, m)
	}
	return func() (sum int64) {
		for _, m := range rings {
			var st unix.Stat_t
			if err := unix.Fstat(int(m.Fd()), &st); err != nil {
				s.t.Fatal(err)
			}
			sum += st.Blocks * 512
		}
		return sum
	}
}

// metricsOf reads an agent's metrics.
func metricsOf(t *testing.T, agent *Local) map[string]float64 {
	t.Helper()
	answer, err := agent.http.Get("http://agent" + PathMetrics)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	figures := map[string]float64{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			figures[strings.TrimPrefix(name, "cloudprofiler_agent_")] = v
		}
	}
	return figures
}

// An agent with little memory and few descriptors cannot drain all rings of a crowd at once. The
// agent lives, answers, and says which rings it does not drain. It drains the rings of other
// programs, whether these begin before the crowd or after it. When the crowd has died, the agent
// drains the crowd's rings.
func TestBarCrowdOfRings(t *testing.T) {
	const limit_bytes, files = 1 << 30, 4096
	rings, ringsOfOne, sparse, lasts, patience := 2000, 200, 1, 2*time.Second, 2*time.Minute
	if proof.Begin(t) == proof.Full {
		rings, ringsOfOne, sparse, lasts, patience = 100_000, 2500, 3, time.Minute, 20*time.Minute
	}
	s := newScene(t)
	group, groupErr := newMemoryGroup(t, limit_bytes)
	ended, stop := context.WithCancel(t.Context())
	resident := make(chan int64, 1)
	program := s.startSteady(files, func(pid int) {
		if groupErr == nil {
			if err := group.join(pid); err != nil {
				t.Fatal(err)
			}
		}
		go func() { peak, _ := memory.Peak_bytes(ended, pid); resident <- peak }()
	})
	agent, err := Connect(s.Rings)
	if err != nil {
		t.Fatal(err)
	}
	slowest, answers := time.Duration(0), 0
	status := func() Status {
		t.Helper()
		begin := time.Now()
		now, err := agent.Status(t.Context())
		if err != nil {
			t.Fatalf("the agent does not answer: %v", err)
		}
		slowest, answers = max(slowest, time.Since(begin)), answers+1
		return now
	}
	until := func(what string, enough func(Status) bool) (now Status) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			if now = status(); enough(now) {
				return now
			}
			if time.Now().After(deadline) {
				t.Fatalf(
					"not in %s: %s: %d channels, %d left, %d set aside, %d finished, warnings %q",
					patience, what, len(now.Channels), now.Left, now.SetAside, now.Finished,
					now.Warnings)
			}
		}
	}
	early := s.startHonest("early")
	sparse_bytes := s.sparse(sparse)
	before_bytes := sparse_bytes()
	var crowd []*toldProcess
	for i, left := 0, rings; left > 0; i, left = i+1, left-ringsOfOne {
		one := s.tell("crowd", s.Rings, fmt.Sprintf("crowd#%d", i),
			strconv.Itoa(min(left, ringsOfOne)))
		crowd = append(crowd, one.open())
		status()
	}
	all := rings + sparse + honestChannels
	until("it knows all rings", func(now Status) bool { return len(now.Channels)+now.Left == all })
	late := s.startHonest("late")
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		status()
	}
	all += honestChannels
	until("it drains the late rings", func(now Status) bool {
		held := 0
		for _, c := range now.Channels {
			if strings.HasPrefix(c.Channel, "late/") {
				held++
			}
		}
		return held == honestChannels && len(now.Channels)+now.Left == all
	})
	m := metricsOf(t, agent)
	untold := math.Abs(m["rings"] + m["left_rings"] - float64(all))
	held := m["rings"]
	until("the sparse rings are drained", func(now Status) bool {
		return now.Total.Events >= uint64(sparse)*(2<<30/ring.RecordBytes)
	})
	made_bytes := sparse_bytes() - before_bytes
	stories := map[string]story{"early": early.end(), "late": late.end()}
	until("the honest rings have ended", func(now Status) bool {
		return now.Finished >= 2*honestChannels
	})
	var lost uint64
	for name, said := range stories {
		lost += s.lost(name, said)
		t.Logf(
			"%s: %d events on each of %d channels, %d dropped, drained in %.1f ms at the median, "+
				"%.1f ms at most", name, said.Events, honestChannels, said.Dropped,
			percentile(said.Latencies_us, 0.5), percentile(said.Latencies_us, 1))
	}
	for _, one := range crowd {
		testimony.Kill(one.cmd)
	}
	goesOn := uint64(min(rings, 3*files)) + 2*honestChannels
	until("it goes on when the crowd has died", func(now Status) bool {
		return now.Finished >= goesOn
	})
	died := 0.0
	if program.cmd.Process.Signal(syscall.Signal(0)) != nil {
		died = 1
	}
	stop()
	took := proof.Bar{Name: "memory of the agent alone, measured and not bounded",
		Figure: float64(<-resident) / 1e6, Limit: limit_bytes / 1e6, Unit: "MB", Timing: true}
	if peak, err := group.peak_bytes(); err == nil {
		took.Name = "memory of the agent's control group, bounded, with pages of logs"
		took.Figure = float64(peak) / 1e6
	} else {
		t.Logf("there is no control group: %v, %v", groupErr, err)
	}
	t.Logf("%d rings, of which it held %.0f; %d answers", all, held, answers)
	proof.Check(t,
		proof.Bar{
			Name: fmt.Sprintf("agent with %d descriptors beside %d rings: events lost of honest "+
				"programs before and among them", files, rings),
			Figure: float64(lost), Unit: "events",
		},
		proof.Bar{Name: "rings that the agent's metrics do not count",
			Figure: untold, Unit: "rings"},
		proof.Bar{
			Name:   fmt.Sprintf("memory that the agent made in sparse rings of %d GiB", 2*sparse),
			Figure: float64(made_bytes) / 1e6, Unit: "MB",
		},
		proof.Bar{Name: "deaths of the agent", Figure: died, Unit: "deaths"},
		proof.Bar{Name: "slowest answer of the agent's status",
			Figure: slowest.Seconds(), Limit: 1, Unit: "s", Timing: true},
		took,
	)
}
