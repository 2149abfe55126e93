package sim

import (
	"os"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// cprof runs a command line and returns its exit code and what it printed.
func cprof(args ...string) (code int, stdout, stderr string) {
	return commandtest.Run(Commands(), args...)
}
