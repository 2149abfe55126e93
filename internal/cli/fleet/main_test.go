package fleet

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// cprof runs a command line and returns its exit code and what it printed. "cprof config check"
// accepts all configurations of the Java agent, and refuses all simulations.
func cprof(args ...string) (code int, stdout, stderr string) {
	accept := func(context.Context, string) error { return nil }
	refuse := func(context.Context, string) error { return errors.New("line 7: no") }
	return commandtest.Run(Commands(accept, refuse), args...)
}
