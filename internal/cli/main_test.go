package cli

import (
	"os"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
)

// programVariable makes this test's binary a program that a test records: see recordedProgram.
const programVariable = "CLOUDPROFILER_CLI_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if what := os.Getenv(programVariable); what != "" {
		os.Exit(recordedProgram(what))
	}
	os.Exit(leak.Main(m))
}
