package conformance

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestBarCLogCall measures the cost of a log call in C, less the cost of reading the counter. One
// thread logs, into rings for one writer and into rings for many. There is no drainer.
func TestBarCLogCall(t *testing.T) {
	repetitions := 7
	if proof.Begin(t) == proof.Full {
		repetitions = 25
	}
	out, err := exec.Command(filepath.Join(buildC(t), "bench"), fmt.Sprint(repetitions)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var one, many, swapping, counting, adding []float64
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var ratio, call_ns, bare_ns, shared, swap, count, add float64
		if _, err := fmt.Sscan(line, &ratio, &call_ns, &bare_ns, &shared, &swap, &count,
			&add); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		t.Logf("%.3f: %.1f ns a call, %.1f ns bare", ratio, call_ns, bare_ns)
		one, many, swapping = append(one, ratio), append(many, shared), append(swapping, swap)
		counting, adding = append(counting, count), append(adding, add)
	}
	bar := proof.Bar{Unit: "× bare rdtscp", Timing: true}
	for _, row := range []struct {
		name   string
		limit  float64
		ratios []float64
	}{
		{"C log call, one writer, undrained", 1.1, one},
		{"C log call, many writers, one at work", 1.3, many},
		{"C log call, many writers with a compare-and-swap, one at work", 1.6, swapping},
		{"C count, many writers, one at work", 0.3, counting},
		{"C count, many writers with a locked operation, one at work", 0.4, adding},
	} {
		bar.Name, bar.Limit = row.name, row.limit
		proof.Check(t, bar.From(row.ratios))
	}
}
