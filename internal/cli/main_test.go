package cli

import (
	"os"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
)

// programVariable is an environment variable. If it is set, this test's binary does not run tests,
// but acts as the program that a test records (see recordedProgram).
const programVariable = "CLOUDPROFILER_CLI_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if what := os.Getenv(programVariable); what != "" {
		os.Exit(recordedProgram(what))
	}
	os.Exit(leak.Main(m))
}
