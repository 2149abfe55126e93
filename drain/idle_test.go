package drain

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/memory"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
)

// beIdle drains rings to which nobody writes. It prints the cost: private memory in MB, and then
// the share of a core in each second.
func beIdle(rings, logs, seconds string) {
	n, err := strconv.Atoi(seconds)
	must(err)
	_, err = Start(rings, Options{Logs: logs, Node: "node-1"})
	must(err)
	time.Sleep(5 * time.Second) // let the drainer find the rings and become idle
	var shares []float64
	for range n {
		begin, before := time.Now(), ownTime()
		time.Sleep(time.Second)
		shares = append(shares, float64(ownTime()-before)/float64(time.Since(begin)))
	}
	private_bytes, err := memory.Private_bytes(os.Getpid())
	must(err)
	fmt.Println(float64(private_bytes) / 1e6)
	for _, share := range shares {
		fmt.Println(share)
	}
}

func ownTime() time.Duration {
	var r unix.Rusage
	must(unix.Getrusage(unix.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// With a few open rings but no events, a drainer costs at most half a percent of a core.
func TestBarIdle(t *testing.T) {
	seconds := 3
	if proof.Begin(t) == proof.Full {
		seconds = 30
	}
	s := newScene(t)
	for _, handler := range []string{"buffered", "id", "counter", "first-last", "link", "xoy"} {
		o := handlers.Options{Handler: handler, Dir: s.Rings}
		if handler == "xoy" {
			o.Params = map[string]any{"x": 1, "y": 2}
		}
		c, err := handlers.Open(handler+"/x", o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	cmd, err := reexec.Command(s.Rings, s.logs, strconv.Itoa(seconds))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), roleVariable+"=idle")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var figures []float64
	for _, line := range strings.Fields(string(out)) {
		v, err := strconv.ParseFloat(line, 64)
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		figures = append(figures, v)
	}
	if len(figures) != seconds+1 {
		t.Fatalf("%q: %d figures, want %d", out, len(figures), seconds+1)
	}
	for i := range figures[1:] {
		figures[1+i] *= 100
	}
	proof.Check(t,
		proof.Bar{Name: "idle drainer with 6 rings", Limit: 0.5, Unit: "% of a core",
			Timing: true}.From(figures[1:]),
		proof.Bar{
			Name: "private memory of the drainer", Figure: figures[0], Limit: 40, Unit: "MB",
			Timing: true,
		},
	)
}
