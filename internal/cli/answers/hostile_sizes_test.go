package answers

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// sizesVariable names the environment variable that tells a process of TestHostileSizes which run
// to look at.
const sizesVariable = "CLOUDPROFILER_SIZES"

// TestLook runs in the processes that TestHostileSizes starts. There is one process for each run,
// because it is known only at the end of a process how much memory the process used.
func TestLook(t *testing.T) {
	run := os.Getenv(sizesVariable)
	if run == "" {
		return
	}
	for _, args := range [][]string{{"analyze", run, "--memory", "128MiB"},
		{"report", run, "--memory", "128MiB"}, {"export", run, "--memory", "128MiB", "--as",
			"parquet,perfetto"}} {
		if code, _, stderr := cprof(args...); code != command.Answered && code != command.Partial {
			t.Errorf("cprof %q: exit code %d, %s", args, code, stderr)
		}
	}
}

// Commands stay within the limit of memory, no matter how large the files of a run are. Some files
// are too long, and some expand to far more than their length. If a named pipe is in the place of a
// file, no command waits for it.
func TestHostileSizes(t *testing.T) {
	if testing.Short() || seed.Share() > 1 {
		t.Skip("takes seconds, and the race detector takes memory of its own")
	}
	look(t, 10, func(name string, peak_bytes int64) {
		if peak_bytes > hostileMemory_bytes {
			t.Errorf("%s: it took %d MiB, at most %d", name, peak_bytes>>20,
				hostileMemory_bytes>>20)
		}
	})
}

// TestBarHostileSizes does the same as TestHostileSizes, with logs of millions of rows. make prove
// runs it.
func TestBarHostileSizes(t *testing.T) {
	blocks := uint64(15)
	if proof.Begin(t) == proof.Full {
		blocks = 100
	}
	var bars []proof.Bar
	look(t, blocks, func(name string, peak_bytes int64) {
		bars = append(bars, proof.Bar{Name: "memory that a run takes with " + name,
			Figure: float64(peak_bytes >> 20), Limit: hostileMemory_bytes >> 20, Unit: "MiB"})
	})
	slices.SortFunc(bars, func(a, b proof.Bar) int { return strings.Compare(a.Name, b.Name) })
	proof.Check(t, bars...)
}

// hostileMemory_bytes is the limit of memory for one run.
const hostileMemory_bytes = 1 << 30

// The function look makes runs with files of hostile sizes. blocks is the number of blocks in a
// file with rows. For each run, the function look starts a separate process that asks all questions
// about the run. It calls the function tell with the memory that this process used.
func look(t *testing.T, blocks uint64, tell func(name string, peak_bytes int64)) {
	t.Helper()
	for name, harm := range map[string]func(run string) error{
		"a relation of 1 TiB": func(run string) error {
			return os.Truncate(filepath.Join(run, runs.RelationPath("A", "B")), 1<<40)
		},
		"a relation as long as may be": func(run string) error {
			return os.Truncate(filepath.Join(run, runs.RelationPath("A", "B")), 256<<20)
		},
		"a log that goes on with nothing": func(run string) error {
			return os.Truncate(logOf(run, "A", "source"), 256<<20)
		},
		"a baseline that is a pipe": func(run string) error {
			path := filepath.Join(run, runs.BaselinePath("A"))
			if err := os.Remove(path); err != nil {
				return err
			}
			return unix.Mkfifo(path, 0o600)
		},
		"samples without end": func(run string) error {
			return rewriteLog(logOf(run, "A", "rate"), blocks, func(n uint64) logstore.Block {
				rows := make([]logstore.Sample, logstore.MaxRows)
				for i := range rows {
					rows[i] = logstore.Sample{Counter: 1<<60 + n + uint64(i), Count: n + uint64(i)}
				}
				return logstore.Block{Samples: rows}
			})
		},
		"claims without end": func(run string) error {
			return rewriteLog(filepath.Join(run, runs.BaselinePath("A")), blocks,
				func(n uint64) logstore.Block {
					rows := make([]logstore.NTP, logstore.MaxRows)
					for i := range rows {
						rows[i] = logstore.NTP{CounterLo: 1<<60 + n + uint64(i),
							CounterHi: 1<<60 + n + uint64(i), Stratum: 2}
					}
					return logstore.Block{NTPs: rows}
				})
		},
		"one id without end": func(run string) error {
			return rewriteLog(logOf(run, "B", "worker#0~send"), blocks,
				func(n uint64) logstore.Block {
					rows := make([]logstore.Event, logstore.MaxRows)
					for i := range rows {
						rows[i] = logstore.Event{Counter: 1<<60 + n + uint64(i), ID: 1 << 41}
					}
					return logstore.Block{Events: rows}
				})
		},
		"ids without end": func(run string) error {
			return rewriteLog(logOf(run, "B", "worker#0~send"), blocks,
				func(n uint64) logstore.Block {
					rows := make([]logstore.Event, logstore.MaxRows)
					for i := range rows {
						rows[i] = logstore.Event{Counter: 1<<60 + n + uint64(i),
							ID: (n + uint64(i)) * 0x9e3779b97f4a7c15}
					}
					return logstore.Block{Events: rows}
				})
		},
		"links without end": func(run string) error {
			return rewriteLog(logOf(run, "B", "window"), blocks, func(n uint64) logstore.Block {
				rows := make([]logstore.Link, logstore.MaxRows)
				for i := range rows {
					rows[i] = logstore.Link{Parent: 1 << 41, Child: n + uint64(i)}
				}
				return logstore.Block{Links: rows}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := writeHostileRun(rand.New(rand.NewPCG(7, 0)), dir, "run", false); err != nil {
				t.Fatal(err)
			}
			if err := harm(filepath.Join(dir, "run")); err != nil {
				t.Fatal(err)
			}
			cmd, err := reexec.Command("-test.run=^TestLook$", "-test.timeout="+patience.String())
			if err != nil {
				t.Fatal(err)
			}
			cmd.Env = append(os.Environ(), sizesVariable+"="+filepath.Join(dir, "run"),
				"TMPDIR="+dir)
			begun := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %.4000s", err, out)
			}
			peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
			t.Logf("%d MiB in %v", peak>>20, time.Since(begun).Round(time.Second))
			tell(name, peak)
		})
	}
}

// logOf returns one log of a node: the log with a file name that begins with name.
func logOf(run, node, name string) string {
	found, _ := filepath.Glob(filepath.Join(run, filepath.FromSlash(runs.LogsPath(node)), "*"))
	for _, path := range found {
		if base := filepath.Base(path); strings.HasPrefix(base, name) ||
			strings.Contains(base, "~"+name) {
			return path
		}
	}
	return ""
}

// rewriteLog writes a log again with the given number of blocks. The function block gets the number
// n of the block's first row.
func rewriteLog(path string, blocks uint64, block func(n uint64) logstore.Block) error {
	f, err := logstore.OpenFile(path)
	if err != nil {
		return fmt.Errorf("fill %q: %w", path, err)
	}
	h := f.Header()
	if f.Close(); os.Remove(path) != nil {
		return fmt.Errorf("fill %q: it cannot be removed", path)
	}
	w, err := logstore.Create(nil, path, h)
	if err != nil {
		return err
	}
	for i := range blocks {
		b := block(i * logstore.MaxRows)
		b.Incarnation, b.First = h.Incarnation, i*logstore.MaxRows
		if err := w.Append(&b); err != nil {
			return err
		}
	}
	return w.Seal()
}
