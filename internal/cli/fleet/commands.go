package fleet

import (
	"context"

	"github.com/spf13/cobra"
)

// A Check returns why a file cannot be used.
type Check func(ctx context.Context, path string) error

// Commands returns the subcommands of cprof that this package defines. The function javaAgent
// checks a configuration of the Java agent, and simulation checks one of a simulation. "cprof
// config check" calls them, because this package reads neither kind of file.
func Commands(javaAgent, simulation Check) []*cobra.Command {
	return []*cobra.Command{newConfig(javaAgent, simulation), newKeys(), newNode(),
		newNodes(), newPlace(), newRun(), newSnapshot(), newTop()}
}
