package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/examples/adstream/job"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// Some tests start this program again as the command. This variable tells the program to be the
// command.
const roleVariable = "CLOUDPROFILER_ADSTREAM_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "" {
		os.Exit(leak.Main(m))
	}
	main()
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// placementFile writes loopback.yaml with addresses of its own and known event times.
func placementFile(t *testing.T) string {
	t.Helper()
	net := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256))
	text := strings.ReplaceAll(string(loopback), "127.0.71.", net)
	text = strings.Replace(text, "tuples: 20000\n", "tuples: 3000\n  begin_us: 1234567890123\n", 1)
	file := filepath.Join(t.TempDir(), "placement.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

type process struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	cmd, err := reexec.Command(args...)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: cmd}
	p.Env = append(os.Environ(), roleVariable+"=adstream")
	p.Stdout, p.Stderr = &p.out, &p.err
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	return p
}

func TestThreeProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds")
	}
	file, dir := placementFile(t), t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	var nodes []*process
	for _, node := range []string{"a", "b", "c"} {
		nodes = append(nodes, start(t, "-node", node, "-placement", file,
			"-rings", dir+"/rings", "-logs", dir+"/logs", "-json"))
	}
	taken := map[string]uint64{}
	for i, n := range nodes {
		if err := n.Wait(); err != nil {
			t.Fatalf("node %c: %v\n%s", 'a'+i, err, n.err.String())
		}
		var result job.Result
		if err := json.Unmarshal(n.out.Bytes(), &result); err != nil {
			t.Fatalf("node %c said %q: %v", 'a'+i, n.out.String(), err)
		}
		if result.Dropped != 0 || result.Events == 0 {
			t.Errorf("node %c: %d events, %d dropped", 'a'+i, result.Events, result.Dropped)
		}
		for name, c := range result.Actors {
			stage, _, _ := strings.Cut(name, "#")
			taken[stage] += c.Taken
		}
	}
	p, err := job.ReadPlacement(file)
	if err != nil {
		t.Fatal(err)
	}
	want := p.Stream.Expect(p.Stream.Begin_us)
	views := uint64(0)
	for _, n := range want {
		views += uint64(n)
	}
	windows := uint64(len(want))
	if taken["deserialise"] != 3000 || taken["count"] != views || taken["store"] != windows {
		t.Errorf("taken %v, want 3000 tuples, %d views in %d windows", taken, views, windows)
	}
	nothingLeft(t)
}

// nothingLeft fails if the processes left files in their temporary directory.
func nothingLeft(t *testing.T) {
	t.Helper()
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left in %s: %v, %v", os.TempDir(), left, err)
	}
}

// If one node is killed or interrupted, the others end with an error that names this node.
func TestOneNodeEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds")
	}
	t.Setenv("TMPDIR", t.TempDir()) // the killed node leaves its files there
	for name, signal := range map[string]os.Signal{
		"killed":      syscall.SIGKILL,
		"interrupted": syscall.SIGINT,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, dir := placementFile(t), t.TempDir()
			var nodes []*process
			for _, node := range []string{"a", "b", "c"} {
				nodes = append(nodes, start(t, "-node", node, "-placement", file,
					"-rings", dir+"/rings", "-logs", dir+"/logs", "-tuples", "1000000"))
			}
			// The job is under way once the operator count has logged some tuples.
			for {
				logs, _ := filepath.Glob(dir + "/logs/b/count#0~end.*.cplog")
				if len(logs) == 1 {
					if info, err := os.Stat(logs[0]); err == nil && info.Size() > 6000 {
						break
					}
				}
				if t.Context().Err() != nil {
					t.Fatal(t.Context().Err())
				}
				time.Sleep(20 * time.Millisecond)
			}
			nodes[2].Process.Signal(signal)
			for i, n := range nodes[:2] {
				var failed *exec.ExitError
				if err := n.Wait(); !errors.As(err, &failed) || failed.ExitCode() != 1 {
					t.Errorf("node %c: %v, want exit 1\n%s", 'a'+i, err, n.err.String())
				}
				if text := n.err.String(); !strings.Contains(text, "node c") {
					t.Errorf("node %c says %q, which does not name node c", 'a'+i, text)
				}
			}
		})
	}
}

func TestOneProcess(t *testing.T) {
	var out, stderr bytes.Buffer
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	args := []string{"-logs", dir, "-tuples", "2000", "-rate", "0", "-seed", "7"}
	if err := run(within(t, time.Minute), args, &out, &stderr); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"source#0", "store#0", " 0 wrong", " 0 dropped", "return trips of count#0",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	nothingLeft(t)
}

func TestUsage(t *testing.T) {
	var out, stderr bytes.Buffer
	if err := run(t.Context(), []string{"-h"}, &out, &stderr); err != nil || stderr.Len() == 0 {
		t.Errorf("-h: %v, %q", err, stderr.String())
	}
	for _, args := range [][]string{{"-no-such-flag"}, {"argument"}, {"-tuples", "many"}} {
		var out, stderr bytes.Buffer
		err := run(t.Context(), args, &out, &stderr)
		if !errors.Is(err, errUsage) || stderr.Len() == 0 {
			t.Errorf("%q: %v, %q", args, err, stderr.String())
		}
	}
	for _, args := range [][]string{
		{"-placement", "/no/such/file"},
		{"-node", "z"},
		{"-instrument", "some"},
		{"-tuples", "99999999999"},
		{"-policy", "perhaps", "-logs", t.TempDir()},
	} {
		var out, stderr bytes.Buffer
		err := run(within(t, time.Minute), args, &out, &stderr)
		if err == nil || errors.Is(err, errUsage) {
			t.Errorf("%q: %v, want an error that says what is wrong", args, err)
		}
	}
}
