package bench

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// ColdRow is the cost of a call that is made every 10 µs. Between calls the program uses the caches
// for something else.
type ColdRow struct {
	Name   string
	P50_ns float64
	P99_ns float64
	Calls  int

	// Middle_ns is the mean of the times between the first and the third quartile. The counter of
	// some CPUs moves in steps of 10 ns, which makes P50_ns coarse.
	Middle_ns float64
}

const (
	coldCalls     = 20_000
	coldGap       = 10 * time.Microsecond
	coldWorkBytes = 64 << 20 // more than fits into a core's caches
)

// measureCold measures, at the same place in the program, a bare reading of the counter and a log
// call that records an id.
func measureCold(ctx context.Context, dir string) ([]ColdRow, error) {
	options := handlers.Options{Handler: "id", Policy: "overwrite", Dir: dir}
	c, err := handlers.Open("bench#0/cold", options)
	if err != nil {
		return nil, err
	}
	defer os.Remove(c.Path())
	defer c.Close()
	work := make([]byte, coldWorkBytes)
	for i := range work {
		work[i] = byte(i)
	}
	startTime, startCounter := time.Now(), asm.Counter()
	calls := []struct {
		name string
		call func(id uint64)
	}{
		{"nothing", func(uint64) {}},
		{"rdtscp-cold", func(uint64) { asm.Counter() }},
		{"id-cold", c.Log},
	}
	cycles := make([][]uint64, len(calls))
	at := 0
	for id := range uint64(coldCalls) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for k, row := range calls {
			// Between two events a program accesses its own memory.
			var sum byte
			for end := time.Now().Add(coldGap); time.Now().Before(end); {
				for i := 0; i < 4096; i += 64 {
					sum += work[at+i]
				}
				at = (at + 4096) % len(work)
			}
			work[at] = sum
			asm.EdgeClose() // wait for that store, which is not part of the call
			open := asm.EdgeOpen()
			row.call(id)
			cycles[k] = append(cycles[k], asm.EdgeClose()-open)
		}
	}
	nsPerCycle := float64(time.Since(startTime)) / float64(asm.Counter()-startCounter)
	for _, c := range cycles {
		slices.Sort(c)
	}
	empty := float64(cycles[0][coldCalls/2]) // the cost of the two readings around a call
	var rows []ColdRow
	for k, row := range calls[1:] {
		sorted := cycles[k+1]
		ns := func(percent int) float64 {
			return (float64(sorted[coldCalls*percent/100]) - empty) * nsPerCycle
		}
		rows = append(rows, ColdRow{
			Name: row.name, P50_ns: ns(50), P99_ns: ns(99), Calls: coldCalls,
			Middle_ns: (middleMean(sorted) - middleMean(cycles[0])) * nsPerCycle,
		})
	}
	return rows, nil
}

// middleMean returns the mean of the middle half of sorted values.
func middleMean(sorted []uint64) float64 {
	half := sorted[len(sorted)/4 : len(sorted)*3/4]
	sum := uint64(0)
	for _, v := range half {
		sum += v
	}
	return float64(sum) / float64(len(half))
}
