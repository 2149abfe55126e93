package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/jvm"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// JavaOptions say how long to measure log calls in Java.
type JavaOptions struct {
	Repetitions int           // smallest number of repetitions
	Limit       time.Duration // after this time, no further repetition begins

	// Progress is called before each repetition and may be nil.
	Progress func(counted int)
}

// JavaResult is what log calls and the agent cost in Java.
type JavaResult struct {
	C_ns    float64 // cost of a log call in C
	Missing string  // Java installations that are not here
	Rows    []JavaRow

	Agent_bytes int64        // size of the agent's jar; 0: it was not built
	Starts      []AgentStart // of JVMs with the agent, one for each Java
}

// JavaRow is the cost of one kind of call in one Java, or of the calls that the agent makes for one
// record of an engine.
type JavaRow struct {
	Release         int
	Call            string    // log, off, unsampled, flink, flink-sampled or storm
	Ratios          []float64 // relative to a log call in C, one for each repetition
	NS              []float64
	AllocatedPerLog float64 // in bytes; only in the row log
}

// javaCalls are the orders for the programs Bench and RecordCost.
var javaCalls = [][]string{{"log", "off", "unsampled"}, {"flink", "flink-sampled", "storm"}}

// Java measures log calls of the Java SDK, and the agent, in each Java of this machine. The
// programs take turns on one core with log calls in C. In a turn, each call of Java is between two
// measurements of C. Before the first turn, each JVM is started with the agent and without it, on
// all cores.
func Java(ctx context.Context, o JavaOptions) (JavaResult, error) {
	dir, err := os.MkdirTemp("", "cloudprofiler-bench")
	if err != nil {
		return JavaResult{}, err
	}
	defer os.RemoveAll(dir)
	kit, err := jvm.Build(dir)
	if err != nil {
		return JavaResult{}, err
	}
	c, err := kit.C(filepath.Join(dir, "c"), "bench", "turns")
	if err != nil {
		return JavaResult{}, err
	}
	rings, err := os.MkdirTemp("/dev/shm", "cloudprofiler-bench")
	if err != nil {
		return JavaResult{}, err
	}
	defer os.RemoveAll(rings)
	drained := filepath.Join(rings, "drained")
	recordCost, err := kit.RecordCost(dir, drained)
	if err != nil {
		return JavaResult{}, err
	}
	drainer, err := drain.Start(drained, drain.Options{Logs: filepath.Join(dir, "logs")})
	if err != nil {
		return JavaResult{}, err
	}
	defer drainer.Close()
	result := JavaResult{Missing: kit.Missing}
	if err := result.startAgent(ctx, kit, rings); err != nil {
		return result, err
	}
	own, err := host.AllowedCores()
	if err != nil {
		return result, err
	}
	unpin, err := pinToCore(own[len(own)-1]) // processes inherit this thread's core
	if err != nil {
		return result, err
	}
	defer unpin()

	base, err := startTaker(ctx, c, rings)
	if err != nil {
		return result, err
	}
	defer base.end()
	var rows []*javaRun
	for _, java := range kit.Javas {
		for i, cmd := range []*exec.Cmd{kit.Command(java, "Bench"), recordCost(java)} {
			p, err := startTaker(ctx, cmd, rings)
			if err != nil {
				return result, fmt.Errorf("start Java %d: %w", java.Release, err)
			}
			defer p.end()
			if ready := p.answers.Text; !p.answers.Scan() || ready() != "ready" {
				return result, fmt.Errorf("start Java %d: it says %q", java.Release, ready())
			}
			for _, call := range javaCalls[i] {
				rows = append(rows, &javaRun{JavaRow: JavaRow{Release: java.Release, Call: call},
					program: p, base: base})
			}
		}
	}
	if err := measureJava(ctx, o, rows); err != nil {
		return result, err
	}
	var base_ns []float64
	for _, r := range rows {
		if r.Call == "log" {
			if r.AllocatedPerLog, err = r.program.take("allocated"); err != nil {
				return result, err
			}
		}
		base_ns = append(base_ns, r.base_ns...)
		result.Rows = append(result.Rows, r.JavaRow)
	}
	result.C_ns = median(base_ns)
	return result, nil
}

// measureJava takes turns until each row has enough repetitions.
func measureJava(ctx context.Context, o JavaOptions, rows []*javaRun) error {
	deadline := time.Now().Add(o.Limit)
	for all := 0; all == 0 || time.Now().Before(deadline); all++ {
		fewest := 0
		for i, r := range rows {
			r.Ratios, r.NS = quietRepetitions(r.all, quietestTime(r.all))
			if n := len(r.Ratios); i == 0 || n < fewest {
				fewest = n
			}
		}
		if fewest >= o.Repetitions {
			return nil
		}
		if o.Progress != nil {
			o.Progress(fewest)
		}
		for range turnsPerRepetition {
			for _, r := range rows {
				if err := errors.Join(ctx.Err(), r.turn()); err != nil {
					return fmt.Errorf("measure Java %d, %s: %w", r.Release, r.Call, err)
				}
			}
		}
	}
	for _, r := range rows {
		r.Ratios, r.NS = quietRepetitions(r.all, quietestTime(r.all))
	}
	return nil
}

// javaRun is a row while it is measured.
type javaRun struct {
	JavaRow
	program, base *turnTaker
	all           []turn
	base_ns       []float64
}

func (r *javaRun) turn() error {
	crowd := measureCrowd()
	before, err := r.base.take("log")
	if err != nil {
		return err
	}
	ns, err := r.program.take(r.Call)
	if err != nil {
		return err
	}
	after, err := r.base.take("log")
	if err != nil {
		return err
	}
	crowd = max(crowd, measureCrowd())
	c := (before + after) / 2
	r.base_ns = append(r.base_ns, c)
	r.all = append(r.all, turn{ratio: ns / c, ns: ns, crowd: crowd / c})
	return nil
}

// turnTaker is a program that takes a turn when it is told to.
type turnTaker struct {
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
}

func startTaker(ctx context.Context, cmd *exec.Cmd, rings string) (*turnTaker, error) {
	cmd.Env = append(os.Environ(), ring.DirectoryVariable+"="+rings)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	orders, answers, err := startPiped(cmd)
	if err != nil {
		return nil, err
	}
	return &turnTaker{cmd, orders, bufio.NewScanner(answers)}, nil
}

// take tells the program to take a turn, and returns its figure.
func (p *turnTaker) take(order string) (float64, error) {
	if _, err := fmt.Fprintln(p.orders, order); err != nil {
		return 0, err
	}
	if !p.answers.Scan() {
		return 0, fmt.Errorf("no answer to %q: %w", order, p.answers.Err())
	}
	return strconv.ParseFloat(strings.TrimSpace(p.answers.Text()), 64)
}

// end closes the program's orders, and the program ends when it reads their end.
func (p *turnTaker) end() {
	p.orders.Close()
	if p.cmd.Wait() != nil {
		p.cmd.Process.Kill()
	}
}
