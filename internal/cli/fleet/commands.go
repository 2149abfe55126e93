package fleet

import (
	"context"

	"github.com/spf13/cobra"
)

// A Check returns why a file cannot be used.
type Check func(ctx context.Context, path string) error

// Commands returns the subcommands of cprof that this package defines. With javaAgent and
// simulation, "cprof config check" checks files that other packages read.
func Commands(javaAgent, simulation Check) []*cobra.Command {
	return []*cobra.Command{newConfig(javaAgent, simulation), newKeys(), newNode(),
		newNodes(), newPlace(), newRun(), newSnapshot(), newTop()}
}
