package fleet

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// serverVariable names an environment variable that is set only in the process of Watch's server.
const serverVariable = "CLOUDPROFILER_FLEET_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) != "" {
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A real server serves a simulated fleet with a graph: nodes join, all pairs are measured once, and
// the nodes take part in a run. The figures depend on the machine, so the test only checks that
// there are some.
func TestWatchServer(t *testing.T) {
	o := ServerOptions{Nodes: 40, Degree: 7, For: 2 * time.Second, Joins: 2, Seed: seed.Of(t),
		Command: func() (*exec.Cmd, error) {
			cmd, err := reexec.Command()
			if err == nil {
				cmd.Env = append(os.Environ(), serverVariable+"=1")
			}
			return cmd, err
		}, Progress: func(step string) { t.Log(time.Now().Format("05.000"), step) }}
	r, err := Watch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if r.RunCores <= 0 || r.Private <= 0 || r.Joins <= 0 || r.Trains < o.Nodes || r.Pair <= 0 ||
		r.Unrelated > 100 {
		t.Errorf("%+v", r)
	}
}
