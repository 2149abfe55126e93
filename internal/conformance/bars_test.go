package conformance

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestBarCLogCall measures what a log call in C costs beyond the reading of the counter in it.
// There is one writer and no drainer.
func TestBarCLogCall(t *testing.T) {
	repetitions := 7
	if proof.Begin(t) == proof.Full {
		repetitions = 25
	}
	out, err := exec.Command(filepath.Join(buildC(t), "bench"), fmt.Sprint(repetitions)).Output()
	if err != nil {
		t.Fatal(err)
	}
	var ratios []float64
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		var ratio, call_ns, bare_ns float64
		if _, err := fmt.Sscan(line, &ratio, &call_ns, &bare_ns); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		t.Logf("%.3f: %.1f ns a call, %.1f ns bare", ratio, call_ns, bare_ns)
		ratios = append(ratios, ratio)
	}
	proof.Check(t, proof.Bar{Name: "C log call, one writer, undrained",
		Limit: 1.1, Unit: "× bare rdtscp", Timing: true}.From(ratios))
}
