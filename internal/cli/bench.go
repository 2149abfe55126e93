package cli

import "github.com/spf13/cobra"

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
  cprof bench gen`,
	}
	bench.AddCommand(newBenchLog(), newBenchStore(), newBenchProbe(), newBenchProbePeer(), newBenchSweep(), newBenchAnalyze(), newBenchAgent(), newBenchGen())
	return bench
}
