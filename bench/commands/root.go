package commands

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// Run runs cp-bench with args, the command line without the program's name, and returns the exit
// code. Cancelling ctx ends the benchmark early, as failed.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return command.Run(ctx, newRoot(), args, stdout, stderr)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "cp-bench",
		Short:   "Measure what the product costs, and how true it is, on this machine",
		Version: daemon.Version("cp-bench"),
		Long: `cp-bench measures what the product costs on this machine, and how true its bounds
are.

Most figures are ratios to a base. Figure and base are measured in turns, so that a drift of the
machine's speed affects both.

Exit codes: 0 measured, 1 failed, 2 wrong usage, 3 a figure is absent.`,
		Example: `  cp-bench log
  cp-bench log --json
  sudo cp-bench probe
  cp-bench sweep --clients 30 --exchanges 100
  cp-bench fleet --nodes 1000
  cp-bench gen
  cp-bench paths --app hotel
  cp-bench soak --duration 5m`,
	}
	root.AddCommand(newBenchLog(), newBenchJava(), newBenchStore(), newBenchProbe(),
		newBenchSweep(), newBenchFleet(), newBenchAnalyze(), newBenchAgent(), newBenchGen(),
		newBenchCapture(), newBenchSoak(), newBenchPaths())
	root.AddCommand(newBenchSim(), newBenchSimRun(), newBenchCluster(), newBenchClusterProcess())
	root.AddCommand(newBenchReplay())
	root.AddCommand(newBenchProbePeer(), newBenchAgentProcess(), newBenchSweepProcess(),
		newBenchFleetServer(), newBenchCaptureProcess(), demo.NewProcess())
	return root
}

// smallLimit is the longest time that a small run of bars takes on a busy machine. A small run
// prints timings but does not judge them, so it need not wait until the machine is quiet.
const smallLimit = 8 * time.Second

// minCounted is the smallest number of valid repetitions by which a bar is judged.
const minCounted = 5

// checkSize checks the number of repetitions. For a full proof, it sets this number and the time
// limit, unless the user gave a number. For a small proof, it sets each of the two, unless the user
// gave it.
func checkSize(repetitions *int, limit *time.Duration, given func(flag string) bool) error {
	if *repetitions < minCounted {
		return command.Usagef("--repetitions %d: a figure needs %d or more", *repetitions,
			minCounted)
	}
	wanted, err := proof.Wanted()
	if err != nil {
		return err
	}
	switch {
	case wanted == proof.Full && !given("repetitions"):
		*repetitions, *limit = 25, 5*time.Minute
	case wanted == proof.Small:
		if !given("repetitions") {
			*repetitions = minCounted
		}
		if !given("limit") {
			*limit = smallLimit
		}
	}
	return nil
}

// barOf returns the bar with the figure that follows from a row's repetitions, or with the reason
// why there is none.
func barOf(bar proof.Bar, repetitions []float64, disturbed int, absent string) proof.Bar {
	switch {
	case absent != "":
		bar.Absent = absent
	case len(repetitions) < minCounted:
		bar.Absent = fmt.Sprintf("%d of %d repetitions counted, %d needed",
			len(repetitions), len(repetitions)+disturbed, minCounted)
	default:
		bar = bar.From(repetitions)
	}
	return bar
}

// The function answer records the bars of a benchmark, prints its rows, and then returns an error
// for the first bar that was not measured.
func answer(bars []proof.Bar, print func() error) error {
	if err := proof.Report(bars...); err != nil {
		return err
	}
	if err := print(); err != nil {
		return err
	}
	for _, bar := range bars {
		if bar.Absent != "" {
			return fmt.Errorf("%s was not measured: %s: %w",
				bar.Name, bar.Absent, command.ErrPartial)
		}
	}
	return nil
}

// thisMachine describes this machine in the line that stands above a benchmark's table.
func thisMachine() string {
	m := proof.ThisMachine()
	return fmt.Sprintf("%s (%s), %d cores, Linux %s, %s", m.CPU, m.Core, m.Cores, m.Kernel, m.Go)
}

func median(v []float64) float64 { return proof.Bar{}.From(v).Figure }
