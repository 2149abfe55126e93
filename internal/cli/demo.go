package cli

import (
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// demoProgram is the name of the program that "cprof demo" starts. The demonstration is not a part
// of cprof, because it contains a job and a message broker, which would make cprof much larger.
const demoProgram = "cprof-demo"

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use: "demo",
		Short: "Run the whole product on this machine: virtual nodes, a streaming job, latencies " +
			"with bounds",
		Long: `Run the whole product on this machine.

The program ` + demoProgram + ` does that, which "make demo" builds. It must be beside cprof or on
the PATH.`,
		Example:            "  cprof demo\n  cprof demo --keep tuesday\n  cprof demo --help",
		DisableFlagParsing: true, // the demonstration parses its own flags
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := command.FindProgram(demoProgram)
			if err != nil {
				return fmt.Errorf("start the demonstration: %w: build it with make demo", err)
			}
			argv := append([]string{"cprof", "demo"}, args...)
			return fmt.Errorf("start %q: %w", path, syscall.Exec(path, argv, os.Environ()))
		},
	}
}
