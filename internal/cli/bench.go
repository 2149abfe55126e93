package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

func newBench() *cobra.Command {
	bench := &cobra.Command{
		Use:   "bench",
		Short: "Measure what the product costs on this machine",
		Long: `Measure what the product costs on this machine.

Figures are ratios to a base that is measured beside them, in turns: the machine's speed drifts, and both drift together.`,
		Example: `  cprof bench log
  cprof bench log --json
  sudo cprof bench probe
  cprof bench sweep --clients 30 --exchanges 100
  cprof bench gen
  cprof bench soak --duration 5m`,
	}
	bench.AddCommand(newBenchLog(), newBenchStore(), newBenchProbe(), newBenchProbePeer(), newBenchSweep(), newBenchAnalyze(), newBenchAgent(), newBenchGen(), newBenchSoak())
	return bench
}

// minCounted is the fewest repetitions that a bar is judged by.
const minCounted = 5

// counted puts a row's repetitions into its bar, or says why there is no figure.
func counted(bar proof.Bar, repetitions []float64, disturbed int, absent string) proof.Bar {
	switch {
	case absent != "":
		bar.Absent = absent
	case len(repetitions) < minCounted:
		bar.Absent = fmt.Sprintf("%d of %d repetitions counted, %d needed", len(repetitions), len(repetitions)+disturbed, minCounted)
	default:
		bar = bar.From(repetitions)
	}
	return bar
}

// answer records the bars of a benchmark, prints its rows, and then names what was not measured.
func answer(bars []proof.Bar, print func() error) error {
	if err := proof.Report(bars...); err != nil {
		return err
	}
	if err := print(); err != nil {
		return err
	}
	for _, bar := range bars {
		if bar.Absent != "" {
			return fmt.Errorf("%s was not measured: %s: %w", bar.Name, bar.Absent, errPartial)
		}
	}
	return nil
}

// thisMachine is the line above a benchmark's table.
func thisMachine() string {
	m := proof.ThisMachine()
	return fmt.Sprintf("%s, %d cores, Linux %s, %s", m.CPU, m.Cores, m.Kernel, m.Go)
}

func median(v []float64) float64 { return proof.Bar{}.From(v).Figure }
