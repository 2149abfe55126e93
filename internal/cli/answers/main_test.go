package answers

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/cli/logs"
	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/replay/question"
)

// asQuestion names an environment variable. If it is set, this test's binary does not run tests,
// but acts as cprof-question.
const asQuestion = "CLOUDPROFILER_TEST_AS_QUESTION"

func TestMain(m *testing.M) {
	if os.Getenv(asQuestion) != "" {
		if err := question.Answer(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	findQuestion = func() ([]string, error) {
		argv, err := reexec.Argv()
		return append([]string{"env", asQuestion + "=1"}, argv...), err
	}
	os.Exit(leak.Main(m))
}

// cprof runs a command line and returns its exit code and what it printed.
func cprof(args ...string) (code int, stdout, stderr string) {
	return commandtest.Run(append(Commands(), logs.Commands()...), args...)
}
