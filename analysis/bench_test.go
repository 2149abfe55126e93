package analysis

import (
	"context"
	"fmt"
	"math/rand/v2"
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
		a, err := Run(context.Background(), openRun(b, parent, "chain"), Options{
			Workers: 1, Memory_bytes: 1 << 30,
		})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(tuples/a.Work.Seconds/1e6, "Mtuples/s")
		b.ReportMetric(float64(a.Work.Scratch_bytes)/1e6, "scratchMB")
	}
}

// BenchmarkIDs analyzes runs with several patterns of ids and several routes of tuples, because
// these decide how the analysis joins events.
func BenchmarkIDs(b *testing.B) {
	const tuples = 500_000
	for name, job := range map[string]struct {
		id       func(i uint64, rng *rand.Rand) uint64
		instance func(i uint64) uint64
		window   uint64 // how many tuples become one before the last stage
	}{
		"following each other": {func(i uint64, _ *rand.Rand) uint64 {
			return i
		}, func(uint64) uint64 { return 0 }, 1},
		"over instances": {func(i uint64, _ *rand.Rand) uint64 {
			return i
		}, func(i uint64) uint64 { return i % 2 }, 1},
		"windows of five": {func(i uint64, _ *rand.Rand) uint64 {
			return i
		}, func(uint64) uint64 { return 0 }, 5},
		"one of fifty": {func(i uint64, _ *rand.Rand) uint64 {
			return i * 50
		}, func(uint64) uint64 { return 0 }, 1},
		"random": {func(_ uint64, rng *rand.Rand) uint64 {
			return rng.Uint64() >> 1
		}, func(uint64) uint64 { return 0 }, 1},
	} {
		b.Run(name, func(b *testing.B) {
			rng, parent := rand.New(rand.NewPCG(1, 1)), b.TempDir()
			var channels []simrun.Channel
			for stage := range 3 {
				for instance := range 2 {
					channels = append(channels, simrun.Channel{
						Node: (stage + instance) % 3,
						Name: fmt.Sprintf("stage%d#%d/recv", stage, instance),
					})
				}
			}
			links := simrun.Channel{Name: "stage1/link", Node: 1, Handler: "link"}
			for i := range uint64(tuples) {
				id := job.id(i, rng)
				for stage := range uint64(3) {
					if stage == 2 && job.window > 1 {
						child := 1<<60 | i/job.window
						links.Records = append(links.Records, simrun.Record{
							ID: id, Child: child, IsLink: true,
						})
						if id = child; i%job.window < job.window-1 {
							break
						}
					}
					c := &channels[2*stage+job.instance(i)]
					c.Records = append(c.Records, simrun.Record{
						Time: simrun.Hz + i*2000 + stage*100_000 + rng.Uint64N(2000), ID: id,
					})
				}
			}
			if len(links.Records) > 0 {
				channels = append(channels, links)
			}
			if err := simrun.Write(rng, parent, "job", simrun.Nodes(rng, 3), channels); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := Run(context.Background(), openRun(b, parent, "job"),
					Options{Workers: 1}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(tuples*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtuples/s")
		})
	}
}
