package analysis

import (
	"context"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

func BenchmarkChain(b *testing.B) {
	parent := b.TempDir()
	const tuples = 5_000_000
	if err := simrun.Chain(1, parent, "chain", 3, tuples, 1000000); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		a, err := Run(context.Background(), openRun(b, parent, "chain"), Options{Workers: 1, Memory_bytes: 1 << 30})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(tuples/a.Work.Seconds/1e6, "Mtuples/s")
		b.ReportMetric(float64(a.Work.Scratch_bytes)/1e6, "scratchMB")
	}
}
