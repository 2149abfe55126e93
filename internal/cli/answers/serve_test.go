package answers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/explore"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/memory"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// serveUntilEnd runs the command until the test ends. It returns the command's address, its
// standard error, and a function that stops it.
func serveUntilEnd(t *testing.T, paths ...string) (url string, stderr *bytes.Buffer,
	stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	stderr = new(bytes.Buffer)
	done := make(chan error, 1)
	go func() {
		err := serve(ctx, paths, analysis.Options{Slowest: 10}, "127.0.0.1:0", w, stderr)
		w.CloseWithError(io.EOF)
		done <- err
	}()
	line, _ := bufio.NewReader(r).ReadString('\n')
	stop = sync.OnceValue(func() error {
		cancel()
		http.DefaultClient.CloseIdleConnections()
		return <-done
	})
	t.Cleanup(func() { stop() })
	return strings.TrimSuffix(line, "/\n"), stderr, stop
}

func get(t testing.TB, url string) string {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %s, %v", url, response.Status, text, err)
	}
	return string(text)
}

func TestServe(t *testing.T) {
	run := aRun(t, "served")
	other := aRun(t, "other")
	url, stderr, stop := serveUntilEnd(t, run, other)
	if page := get(t, url+"/"); !strings.Contains(page, "connect-src 'self'") {
		t.Error("the page may connect to anything")
	}
	var metas []explore.Meta
	if err := json.Unmarshal([]byte(get(t, url+"/runs")), &metas); err != nil {
		t.Fatal(err)
	}
	if len(metas) != 2 || metas[0].Run != "served" || metas[1].Run != "other" {
		t.Errorf("runs %+v", metas)
	}
	// The report is the one that cprof report writes, except for the program's name.
	_, want, _ := cprof("report", run, "--output", "-")
	if got := get(t, url+"/runs/0/report"); len(got) != len(want) {
		t.Errorf("the report has %d bytes, and cprof report writes %d", len(got), len(want))
	}
	if got := get(t, url+"/runs/1/tuple?id=17"); !strings.Contains(got, "it came to the end") {
		t.Errorf("tuple 17 is %s", got)
	}
	if err := stop(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	if n := strings.Count(stderr.String(), "the index is made"); n != 2 {
		t.Errorf("said %q", stderr)
	}
	_, stderr, stop = serveUntilEnd(t, run, other)
	if err := stop(); err != nil || stderr.Len() > 0 {
		t.Errorf("the second time: %v, said %q", err, stderr)
	}
}

func TestServeSuspect(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Suspect(seed.Random(t), parent, "suspect"); err != nil {
		t.Fatal(err)
	}
	url, _, stop := serveUntilEnd(t, filepath.Join(parent, "suspect"))
	for _, what := range []string{"latency?", "spread?", "queue?", "longest?", "lanes?lanes=0,1&"} {
		if got := get(t, url+"/runs/0/"+what+"span=0"); !strings.Contains(got, `"suspect":`) ||
			strings.Contains(got, `"suspect":0`) {
			t.Errorf("%s does not mark what is an estimate: %.300s", what, got)
		}
	}
	if err := stop(); !errors.Is(err, command.ErrPartial) {
		t.Errorf("stopped: %v, want ErrPartial", err)
	}
}

func TestServeRefuses(t *testing.T) {
	run := aRun(t, "refused")
	messages, _ := capturedRun(t)
	url, _, _ := serveUntilEnd(t, run)
	taken := strings.TrimPrefix(url, "http://")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{run, "--listen", "7070"}, command.Usage, "give an address and a port"},
		{[]string{run, "--listen", taken}, command.Failed, "choose another with --listen"},
		{[]string{messages}, command.Failed, "only captured messages are there"},
		{[]string{run, run, run}, command.Usage, "unexpected argument"},
		{[]string{t.TempDir(), "--listen", "127.0.0.1:0"}, command.Failed, "run.yaml"},
	} {
		code, _, stderr := cprof(append([]string{"serve"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("serve %q: exit code %d, %s", c.args, code, stderr)
		}
	}
}

// serveVariable names the environment variable with the run that a process of TestBarServe serves.
const serveVariable = "CLOUDPROFILER_SERVE"

// TestServeProcess runs in the process that TestBarServe starts, and serves until its input ends.
func TestServeProcess(t *testing.T) {
	run := os.Getenv(serveVariable)
	if run == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	o := analysis.Options{Memory_bytes: 512 << 20, Slowest: 10}
	if err := serve(ctx, []string{run}, o, "127.0.0.1:0", os.Stdout, os.Stderr); err != nil {
		t.Fatal(err)
	}
}

// The page of a large run opens, zooms and finds tuples at once, in bounded memory.
func TestBarServe(t *testing.T) {
	tuples := 200_000
	if proof.Begin(t) == proof.Full {
		tuples = 100_000_000
	}
	parent := t.TempDir()
	if err := simrun.Chain(seed.Of(t), parent, "large", 3, tuples, 1_000_000); err != nil {
		t.Fatal(err)
	}
	process, err := reexec.Command("-test.run=^TestServeProcess$", "-test.timeout=8h")
	if err != nil {
		t.Fatal(err)
	}
	process.Env = append(os.Environ(), serveVariable+"="+filepath.Join(parent, "large"))
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	peak := func(name string, during func()) proof.Bar {
		ctx, cancel := context.WithCancel(context.Background())
		peaks := make(chan int64, 1)
		go func() {
			n, err := memory.Peak_bytes(ctx, process.Process.Pid)
			if err != nil {
				t.Error(err)
			}
			peaks <- n
		}()
		during()
		cancel()
		return proof.Bar{Name: fmt.Sprintf("memory while a run of %d tuples is %s", tuples, name),
			Figure: float64(<-peaks) / 1e6, Limit: 1000, Unit: "MB"}
	}
	var url string
	begun := time.Now()
	bars := []proof.Bar{peak("indexed", func() {
		url, _ = bufio.NewReader(out).ReadString('\n')
	})}
	t.Logf("indexed %d tuples in %v", tuples, time.Since(begun))
	bars = append(bars, peak("served", func() {
		bars = append(bars, explorePage(t, strings.TrimSuffix(url, "/\n"), tuples)...)
	}))
	in.Close()
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	proof.Check(t, bars...)
}

// explorePage does what a reader does with the page of a run of simrun.Chain: it opens the page,
// zooms, and searches. The function view asks for all that the page asks for at one time.
func explorePage(t *testing.T, url string, tuples int) []proof.Bar {
	rng := rand.New(rand.NewPCG(seed.Of(t), 2))
	view := func(from, to int64) float64 {
		begun := time.Now()
		var group sync.WaitGroup
		for _, what := range []string{"latency?span=2&buckets=360&", "longest?span=2&",
			"spread?span=2&", "queue?span=2&", "lanes?lanes=0,1,2&buckets=300&"} {
			group.Go(func() {
				get(t, fmt.Sprintf("%s/runs/0/%sfrom=%d&to=%d", url, what, from, to))
			})
		}
		group.Wait()
		return float64(time.Since(begun)) / 1e6
	}
	var opened, zoomed, found []float64
	var metas []explore.Meta
	for range 5 {
		begun := time.Now()
		get(t, url+"/")
		if err := json.Unmarshal([]byte(get(t, url+"/runs")), &metas); err != nil {
			t.Fatal(err)
		}
		view(0, int64(metas[0].Length_cycles))
		opened = append(opened, time.Since(begun).Seconds())
	}
	for range 300 {
		length := int64(metas[0].Length_cycles) >> rng.UintN(26)
		from := rng.Int64N(int64(metas[0].Length_cycles) - length + 1)
		zoomed = append(zoomed, view(from, from+length))
	}
	for range 1000 {
		begun := time.Now()
		id := 1<<50 | rng.Uint64N(uint64(tuples))
		text := get(t, fmt.Sprintf("%s/runs/0/tuple?id=%d", url, id))
		found = append(found, float64(time.Since(begun))/1e6)
		if !strings.Contains(text, fmt.Sprintf(`"id":"%d"`, id)) ||
			!strings.Contains(text, "it came to the end") {
			t.Fatalf("tuple %d is found as %s", id, text)
		}
	}
	p99 := func(of []float64) float64 {
		slices.Sort(of)
		return of[len(of)*99/100]
	}
	of := fmt.Sprintf(" of %d tuples", tuples)
	return []proof.Bar{
		proof.Bar{Name: "first view of a run" + of, Limit: 2, Unit: "s", Timing: true}.From(opened),
		{Name: "p99 of a zoom in a run" + of, Figure: p99(zoomed), Limit: 200, Unit: "ms",
			Timing: true},
		{Name: "p99 of a search by id in a run" + of, Figure: p99(found), Limit: 200, Unit: "ms",
			Timing: true},
	}
}
