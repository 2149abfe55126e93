package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/report/export"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// AnalyzeOptions say how large the analysed runs are.
type AnalyzeOptions struct {
	Tuples       int    // tuples in the run, which has three channels on three nodes
	MemoryTuples int    // tuples in the run with which memory is measured; 0: the same run
	DuckTuples   int    // tuples in the run that DuckDB joins too; 0: none
	Python       string // the Python that has DuckDB; "": python3
	Repetitions  int
	Dir          string // where the runs are made; "": a temporary directory
	Progress     func(what string)
}

// AnalyzeResult is what an analysis cost.
type AnalyzeResult struct {
	PerSecond    []float64 // tuples in a second of processor time, one for each repetition
	MemoryTuples int
	Peak_mb      float64 // largest memory of this process during the analysis
	Scratch_mb   float64
	Ratios       []float64 // DuckDB's time for the join divided by the time of the analysis
	NoDuck       string    // why there are no ratios
}

// Analyze measures how fast the durations of tuples are computed from the compressed logs of three
// channels on three nodes. This includes decoding, joining by id, translating between the nodes'
// counters, and finding percentiles.
func Analyze(ctx context.Context, o AnalyzeOptions) (result AnalyzeResult, err error) {
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "cprof-bench-analyze-"); err != nil {
			return result, fmt.Errorf("make a directory for runs: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	progress := func(format string, args ...any) {
		if o.Progress != nil {
			o.Progress(fmt.Sprintf(format, args...))
		}
	}
	progress("making a run of %d tuples", o.Tuples)
	run, err := chainRun(dir, "speed", o.Tuples)
	if err != nil {
		return result, err
	}
	for i := range o.Repetitions + 1 {
		progress("analysing it, repetition %d", i)
		before, err := readUsage()
		if err != nil {
			return result, err
		}
		oneCore := analysis.Options{Workers: 1, Memory_bytes: 2 << 30}
		if err := analyzeChain(ctx, run, o.Tuples, oneCore, nil); err != nil {
			return result, err
		}
		after, err := readUsage()
		if err != nil {
			return result, err
		}
		if i > 0 { // the first fills the page cache
			result.PerSecond = append(result.PerSecond,
				float64(o.Tuples)/(after.own-before.own).Seconds())
		}
	}
	if result.MemoryTuples = o.MemoryTuples; o.MemoryTuples == 0 {
		result.MemoryTuples = o.Tuples
	} else {
		progress("making a run of %d tuples", o.MemoryTuples)
		if run, err = chainRun(dir, "memory", o.MemoryTuples); err != nil {
			return result, err
		}
	}
	progress("analysing %d tuples for their memory", result.MemoryTuples)
	debug.FreeOSMemory()
	// This resets the peak: proc(5).
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return result, fmt.Errorf("begin to measure memory: %w", err)
	}
	var answer analysis.Answer
	options := analysis.Options{Scratch: dir}
	if err := analyzeChain(ctx, run, result.MemoryTuples, options, &answer); err != nil {
		return result, err
	}
	if result.Peak_mb, err = peakMemory(); err != nil {
		return result, err
	}
	result.Scratch_mb = float64(answer.Work.Scratch_bytes) / 1e6
	if o.DuckTuples > 0 {
		err = result.duck(ctx, dir, o, progress)
	}
	return result, err
}

func chainRun(dir, name string, tuples int) (string, error) {
	if err := simrun.Chain(1, dir, name, 3, tuples, 1_000_000); err != nil {
		return "", fmt.Errorf("make a run of %d tuples: %w", tuples, err)
	}
	return filepath.Join(dir, name), nil
}

// analyzeChain analyses a run and checks that the answer contains all tuples.
func analyzeChain(ctx context.Context, path string, tuples int, o analysis.Options,
	answer *analysis.Answer) error {
	d, err := runs.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	a, err := analysis.Run(ctx, d, o)
	if err != nil {
		return err
	}
	whole := len(a.Spans) == 2 && len(a.EndToEnd) == 1 && !a.Partial
	if !whole || a.EndToEnd[0].All.Count != uint64(tuples) {
		return fmt.Errorf("analyze a run of %d tuples: %d spans, %v",
			tuples, len(a.Spans), a.Findings)
	}
	if answer != nil {
		*answer = *a
	}
	return nil
}

// peakMemory returns the largest memory of this process since the peak was reset.
func peakMemory() (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), "VmHWM:"); found {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return kb * 1024 / 1e6, err
		}
	}
	return 0, errors.New("read memory: /proc/self/status has no VmHWM")
}

// duckJoin is a Python program that computes with DuckDB the same percentiles of the same durations
// as the analysis.
const duckJoin = `
import duckdb, sys, time
c = duckdb.connect()
c.execute('SET enable_progress_bar = false')
q = """
WITH e AS (
    SELECT tuple_id, point, lo_cycles::HUGEINT AS lo, hi_cycles::HUGEINT AS hi
    FROM 'events/*/*.parquet'),
spans(p, q) AS (VALUES
    ('stage0/recv', 'stage1/recv'),
    ('stage1/recv', 'stage2/recv'),
    ('stage0/recv', 'stage2/recv')),
d AS (
    SELECT p, q, (b.lo - a.hi)::BIGINT AS lo, (b.hi - a.lo)::BIGINT AS hi
    FROM spans JOIN e a ON a.point = p
    JOIN e b ON b.point = q AND b.tuple_id = a.tuple_id)
SELECT p, q, count(*),
    quantile_disc(lo, [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999]),
    quantile_disc(hi, [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999])
FROM d GROUP BY ALL
"""
for line in sys.stdin:
    t = time.monotonic()
    rows = c.execute(q).fetchall()
    assert len(rows) == 3 and all(r[2] == int(line) for r in rows), rows
    print(time.monotonic() - t, flush=True)
`

// duck compares the analysis with DuckDB. They run in turns, both on all cores.
func (r *AnalyzeResult) duck(ctx context.Context, dir string, o AnalyzeOptions,
	progress func(string, ...any)) error {
	python := o.Python
	if python == "" {
		python = "python3"
	}
	if err := exec.CommandContext(ctx, python, "-c", "import duckdb").Run(); err != nil {
		r.NoDuck = fmt.Sprintf("%s has no package duckdb", python)
		return nil
	}
	progress("exporting %d tuples for DuckDB", o.DuckTuples)
	run, err := chainRun(dir, "duck", o.DuckTuples)
	if err != nil {
		return err
	}
	d, err := runs.Open(run)
	if err != nil {
		return err
	}
	_, _, err = export.Run(ctx, d, analysis.Options{}, export.Parquet)
	d.Close()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, python, "-c", duckJoin)
	cmd.Dir = filepath.Join(run, "exports")
	in, out, err := startPiped(cmd)
	if err != nil {
		return fmt.Errorf("start DuckDB: %w", err)
	}
	defer func() {
		in.Close()
		cmd.Wait()
	}()
	lines := bufio.NewScanner(out)
	for i := range o.Repetitions + 1 {
		progress("DuckDB and the analysis in turns, %d", i)
		fmt.Fprintln(in, o.DuckTuples)
		if !lines.Scan() {
			return errors.New("join with DuckDB: it ended early")
		}
		duck, err := strconv.ParseFloat(lines.Text(), 64)
		if err != nil {
			return fmt.Errorf("join with DuckDB: %w", err)
		}
		began := time.Now()
		if err := analyzeChain(ctx, run, o.DuckTuples, analysis.Options{}, nil); err != nil {
			return err
		}
		if i > 0 {
			r.Ratios = append(r.Ratios, duck/time.Since(began).Seconds())
		}
	}
	return nil
}
